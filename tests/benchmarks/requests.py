"""Requests: outliers, clusters and n-grams beside scikit-learn and plain loops, and the operator as requests come.

    python -m tests.benchmarks.requests [--rounds 3]

The ways take turns within each round, so that a noisy machine disturbs them alike. The median round counts, in CPU time
of one core. Set `OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1`, otherwise waiting for the other core counts, too. The
DBSCAN of scikit-learn keeps lists of all neighbors, whose memory grows with the square of the requests. It runs on at
most 10,000.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import DBSCAN, KMeans

from laggard.operators.requests.clusters import MOST, RESTARTS, k_means
from laggard.operators.requests.detector import Requests
from laggard.operators.requests.ngrams import LONGEST, ngrams
from laggard.operators.requests.outliers import noise
from laggard.operators.requests.representations import coded
from laggard.operators.requests.results import Traced
from tests.benchmarks.covariance import show
from tests.benchmarks.regression import turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EPS_S: Final = 0.025
MINIMUM_POINTS: Final = 100
SIZES: Final = (5_000, 10_000, 45_000)
ASKED: Final = 10_000
STATES: Final = ("RS", "RU", "BP", "BN", "BT")
CALLS: Final = tuple(f"call_{each}" for each in range(31))
BLOCK: Final = 200


def times(size: int) -> Floats:
    """Seconds in five states: most requests take 122 ms, one in three hundred two to ten times as long."""
    chance = np.random.default_rng(size)
    found = np.array([0.0012, 0.018, 0.072, 0.0007, 0.03]) * chance.lognormal(0.0, 0.2, (size, len(STATES)))
    slow = chance.choice(size, size // 300, replace=False)
    found[slow, 2] += chance.uniform(0.1, 1.0, len(slow))
    return np.asarray(found)


def plain_noise(points: Floats) -> NDArray[np.bool_]:
    """All pairs, a block of requests at once."""
    blocks = [slice(begin, begin + BLOCK) for begin in range(0, len(points), BLOCK)]
    core = np.concatenate([(cdist(points[each], points) <= EPS_S).sum(axis=1) for each in blocks]) >= MINIMUM_POINTS
    return ~np.concatenate([(cdist(points[each], points[core]) <= EPS_S).any(axis=1) for each in blocks])


def calls(requests: int) -> list[list[str]]:
    """Sequences of some 250 system calls, few of which follow each other at random."""
    chance = np.random.default_rng(1)
    usual = chance.choice(len(CALLS), 250).tolist()
    found = []
    for _ in range(requests):
        mine = usual.copy()
        for at in chance.choice(250, 10).tolist():
            mine[at] = int(chance.integers(len(CALLS)))
        found.append([CALLS[each] for each in mine])
    return found


def plain_ngrams(sequences: list[list[str]]) -> list[Counter[tuple[str, ...]]]:
    """Counters of tuples."""
    return [
        Counter(
            gram for length in range(1, LONGEST + 1) for gram in zip(*(one[at:] for at in range(length)), strict=False)
        )
        for one in sequences
    ]


def operator(reference: int) -> Callable[[], object]:
    """A block of requests, scored and learned by an operator that remembers as many as it can."""
    seconds = times(reference + BLOCK)
    sequences = calls(BLOCK)
    requests = [
        Traced(
            ts=0.1 * at,
            request=f"r{at}",
            duration_s=float(mine.sum()),
            counts=dict.fromkeys(STATES, 40.0),
            times_s=dict(zip(STATES, mine.tolist(), strict=True)),
            syscalls=sequences[at % BLOCK],
        )
        for at, mine in enumerate(seconds)
    ]
    known = Requests(eps_s=EPS_S, reference=reference)
    for each in requests[:reference]:
        known.learn(each, known.score(each))

    def once() -> None:
        for each in requests[reference:]:
            known.learn(each, known.score(each))

    return once


def main() -> None:
    """Print all of it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    rounds = options.parse_args().rounds
    for size in SIZES:
        points = times(size)
        ways: dict[str, Callable[[], object]] = {
            "noise": lambda: noise(points, EPS_S, MINIMUM_POINTS)  # noqa: B023
        }
        if size <= ASKED:
            ways["scikit-learn DBSCAN"] = lambda: DBSCAN(eps=EPS_S, min_samples=MINIMUM_POINTS).fit(points)  # noqa: B023
            ways["all pairs"] = lambda: plain_noise(points)  # noqa: B023
        show(f"outliers of {size:,} requests, {len(STATES)} states", turns(ways, rounds), size, "requests")
    counts = np.random.default_rng(1).lognormal(0.0, 1.0, (157, 10))
    ways = {
        "k_means": lambda: [k_means(counts, k) for k in range(1, MOST + 1)],
        "scikit-learn KMeans": lambda: [
            KMeans(k, n_init=RESTARTS, random_state=0).fit(counts) for k in range(1, MOST + 1)
        ],
    }
    show(f"1 to {MOST} clusters of 157 requests, {RESTARTS} restarts", turns(ways, rounds), MOST, "numbers of clusters")
    sequences = calls(2_000)
    ways = {
        "coded, ngrams": lambda: ngrams(coded(sequences)),
        "a Counter of each": lambda: plain_ngrams(sequences),
    }
    show(f"n-grams of 1 to {LONGEST} of 2,000 requests, 250 calls", turns(ways, rounds), 2_000, "requests")
    for reference in (1_000, 10_000):
        taken = turns({"Requests": operator(reference)}, rounds)
        show(f"a block of {BLOCK} requests scored and learned, {reference:,} remembered", taken, BLOCK, "requests")


if __name__ == "__main__":
    main()
