"""Pools: the whole operator, sliding covariances, distances of all pairs and p-values, beside the plainest loops.

    python -m tests.benchmarks.covariance [--rounds 5]

The ways take turns within each round, so that a noisy machine disturbs them alike. The median round counts, in CPU time
of one core. Set `OPENBLAS_NUM_THREADS=1`, otherwise waiting for the other core counts, too. All pairs of 5,000 members
are compared once, by the fast way only: the loop would take minutes. The operator's ticks are averaged over a block of
64, so that work of some ticks only counts for its share.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.linalg import eigh
from scipy.spatial.distance import pdist

from laggard.operators.covariance import Covariance
from laggard.operators.covariance.clustering import SCALES, au_p_values, ward
from laggard.operators.covariance.distance import pairwise, tangent, whiten
from laggard.operators.covariance.extremes import BLOCK
from laggard.operators.covariance.windows import LIFE, Windows
from laggard.pipeline.core.records import make_layout
from tests.benchmarks.regression import turns
from tests.operators.covariance.slow_clustering import members

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

FEATURES: Final = ("cpu_ratio", "memory_bytes", "requests_per_s", "io_read_bytes_per_s", "open_files")
METRICS: Final = len(FEATURES)
LENGTHS: Final = (12, 48, 192)
POOLS: Final = (40, 320, 5_000)
LOOPED: Final = 320
"""Larger pools are not looped over but for the operator as a whole."""


def operator(size: int) -> Callable[[], object]:
    """A block of ticks of a pool, scored and learned: levels, changes, covariances, and what is told. One deviates."""
    values = 100.0 + 10.0 * np.random.default_rng(size).normal(size=(BLOCK, size, METRICS))
    values[:, 1] += 100.0
    rows = [f"worker-{each}" for each in range(size)]
    layout = make_layout(rows, rows, FEATURES)
    pool = Covariance(windows=LENGTHS)
    at = 0

    def once() -> object:
        nonlocal at
        for now in values:
            at += 1
            scores = pool.score(5.0 * at, layout, now)
            scores.ranking(rows=1, features=1)
            pool.learn(5.0 * at, layout, now)
        return scores

    for _ in range(math.ceil(max(LENGTHS) / BLOCK)):
        once()
    return once


def plain_operator(size: int) -> Callable[[], object]:
    """Means, deviations and covariances alone, of each member and window; see `plain_ticks`."""
    values = np.random.default_rng(size).normal(size=(max(LENGTHS), size, METRICS))

    def once() -> None:
        for length in (*LENGTHS, max(LENGTHS)):
            for each in range(size):
                window = values[-length:, each]
                window.mean(axis=0)
                window.std(axis=0)
                np.cov(window, rowvar=False)

    return once


def ticks(size: int) -> Callable[[], object]:
    """A tick of a pool, and the covariances of all its windows."""
    values = 1e9 + np.random.default_rng(size).normal(size=(64, size, METRICS))
    windows = Windows(METRICS, LENGTHS)
    slots = windows.claim(size)
    at = 0

    def once() -> object:
        nonlocal at
        at += 1
        windows.add(slots, values[at % 64])
        return [windows.covariances(length) for length in (*LENGTHS, LIFE)]

    for _ in range(2 * max(LENGTHS)):
        once()
    return once


def plain_ticks(size: int) -> Callable[[], object]:
    """The same by `numpy.cov` of each member and window; the whole life is as long as the longest window here."""
    values = np.random.default_rng(size).normal(size=(max(LENGTHS), size, METRICS))
    lengths = (*LENGTHS, max(LENGTHS))
    return lambda: [[np.cov(values[-length:, each], rowvar=False) for each in range(size)] for length in lengths]


def covariances(size: int) -> NDArray[np.float64]:
    """Return the covariances of members that behave alike, 200 samples each."""
    values = np.random.default_rng(size).normal(size=(size, 200, METRICS))
    found: NDArray[np.float64] = np.einsum("nti,ntj->nij", values, values) / 200.0
    return found


def plain_pairwise(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Generalized eigenvalues, pair by pair."""
    found = np.zeros((len(matrices), len(matrices)))
    for i, a in enumerate(matrices):
        for j, b in enumerate(matrices[:i]):
            found[i, j] = found[j, i] = math.sqrt((np.log(eigh(a, b, eigvals_only=True)) ** 2).sum())
    return found


def plain_p_values(data: NDArray[np.float64], merges: NDArray[np.float64], replicates: int) -> NDArray[np.float64]:
    """Shares of replicates, as `boot.hclust` of pvclust counts them: one after the other, clusters as sets."""
    chance = np.random.default_rng(1)
    wanted = members(merges)
    shares = np.zeros((len(wanted), len(SCALES)))
    for at, scale in enumerate(SCALES):
        for _ in range(replicates):
            sample = chance.integers(0, len(data), int(len(data) * scale))
            found = set(members(linkage(np.sqrt(pdist(data[sample].T)), "ward")))
            shares[:, at] += [each in found for each in wanted]
    return shares / replicates


def show(title: str, taken: dict[str, float], of: float, unit: str) -> None:
    """Milliseconds, how often the first way's, and how many per second."""
    reference = next(iter(taken.values()))
    print(f"\n{title}")
    for name, ms in taken.items():
        print(f"{name:32} {ms:12.3f} ms {ms / reference:8.3g} x {1e3 * of / ms:14,.0f} {unit}/s", flush=True)


def main() -> None:
    """Print all of it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    windows = len(LENGTHS) + 1
    for size in POOLS:
        taken = turns({"Covariance": operator(size), "numpy, one by one": plain_operator(size)}, rounds)
        taken["Covariance"] /= BLOCK
        title = f"a tick of {size} members x {METRICS} metrics x {windows} windows, scored and learned, no p-values"
        show(title, taken, size * METRICS * windows, "members x metrics x windows")
    for size in POOLS:
        ways = {"Windows": ticks(size)}
        if size <= LOOPED:
            ways["numpy.cov, one by one"] = plain_ticks(size)
        title = f"a tick of {size} members x {METRICS} metrics x {windows} windows, all covariances read"
        show(title, turns(ways, rounds), size * METRICS * windows, "members x metrics x windows")
    for size in POOLS:
        matrices = covariances(size)
        pairs = size * (size - 1) / 2
        few = rounds if size <= LOOPED else 1
        taken = turns({"pairwise": lambda: pairwise(matrices)}, few)  # noqa: B023
        taken |= turns({"tangent": lambda: tangent(whiten(matrices))}, rounds)  # noqa: B023
        if size <= LOOPED:
            taken |= turns({"scipy eigh, pair by pair": lambda: plain_pairwise(matrices)}, 1)  # noqa: B023
        show(f"distances of all {pairs:,.0f} pairs of {size} members, {METRICS} metrics", taken, pairs, "pairs")
        if size <= LOOPED:
            upper = np.triu_indices(size, 1)
            vectors = tangent(whiten(matrices))
            shares = pdist(vectors) / pairwise(matrices)[upper]
            print(f"tangent's distances: {shares.min():.4f} to {shares.max():.4f} of them, mean {shares.mean():.4f}")
    data = pairwise(covariances(40))
    merges = ward(data)
    ways = {
        "au_p_values": lambda: au_p_values(data, merges, replicates=1000),
        "one by one": lambda: plain_p_values(data, merges, 1000),
    }
    title = f"p-values of 40 members, {len(SCALES)} x 1,000 replicates"
    show(title, turns(ways, min(rounds, 3)), len(SCALES) * 1000, "replicates")


if __name__ == "__main__":
    main()
