"""Table VI of S4 beside that of laggard: how long each step takes, and how much memory."""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.operators.requests.clusters import clustered, scale_of
from laggard.operators.requests.isomap import picture
from laggard.operators.requests.ngrams import distinctions, ngrams, usual
from laggard.operators.requests.outliers import estimated_eps, noise
from laggard.operators.requests.representations import bag_of_words
from tests.evaluation.requests.isolation import isolated
from tests.evaluation.requests.published_data import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tests.evaluation.requests.published import Outcome
    from tests.evaluation.requests.published_data import Recording

ROUNDS: Final = 5


class Cost(NamedTuple):
    """The cost of one step.

    Attributes:
        wall_s: seconds, the median of the rounds.
        cpu_s: seconds of CPU time.
        peak_mb: memory of a process that does this step alone, with Python, libraries and the input of the step.

    """

    wall_s: float
    cpu_s: float
    peak_mb: float


def cluster(counts: NDArray[np.float64], outlying: NDArray[np.bool_]) -> None:
    """Outlier clustering: k-means for 1 to 10 clusters, and the elbow."""
    mean, deviation = scale_of(counts)
    clustered(((counts - mean) / deviation)[outlying])


def analyse(syscalls: Any, clusters: NDArray[np.intp]) -> None:
    """N-gram analysis: all n-grams of all requests, and what sets each cluster apart."""
    found = ngrams(syscalls)
    normal = usual(found.counts[np.flatnonzero(clusters == 0)])
    for each in range(1, int(clusters.max()) + 1):
        distinctions(found.counts[np.flatnonzero(clusters == each)], normal)


def dbscan(points: NDArray[np.float64], eps: float, minimum_points: int) -> NDArray[np.bool_]:
    """scikit-learn's, with its clusters."""
    from sklearn.cluster import DBSCAN  # noqa: PLC0415

    return np.asarray(DBSCAN(eps=eps, min_samples=minimum_points).fit(points).labels_ == -1)


def measured(rounds: int, step: Callable[..., object], arguments: tuple[Any, ...]) -> Cost:
    """Return the cost of a step, in the process that calls this."""
    taken = []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        step(*arguments)
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    # Not `getrusage`: its peak is at least that of the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak_mb = int(status["VmHWM"].split()[0]) / 1024
    return Cost(statistics.median(one for one, _ in taken), statistics.median(other for _, other in taken), peak_mb)


def alone(rounds: int, step: Callable[..., object], *arguments: Any) -> Cost:
    """The same, in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, rounds, step, arguments).result()


def table(folder: Path, recording: Recording, found: Outcome, *, sklearn: bool, rounds: int = ROUNDS) -> str:
    """Table VI as Markdown. `sklearn` is whether to measure its DBSCAN too: half a minute, and 10 GB.

    Raises:
        ValueError: scikit-learn's DBSCAN finds others.

    """
    points, clusters = recording.times_ms, found.published.clusters
    costs = {
        "feature extraction from traces": ("29.31 ± 1.08", None),
        "reading and parsing the four files": ("", alone(rounds, read, folder)),
        "bag of words of the states": ("1.17 ± 0.12", alone(rounds, bag_of_words, recording.states)),
        "outlier detection": ("5.69 ± 0.83", alone(rounds, noise, points, 25.0, 100)),
        "outlier clustering": ("0.04 ± 0.00", alone(rounds, cluster, recording.counts, clusters > 0)),
        "n-gram analysis": ("17.59 ± 0.16", alone(rounds, analyse, recording.syscalls, clusters)),
        "eps, estimated": ("", alone(rounds, estimated_eps, points, 100)),
        "isolation forest": ("", alone(rounds, isolated, points, float((clusters > 0).mean()))),
        "Isomap of 2,000 normal requests and all outlying ones": ("", alone(rounds, picture, points, clusters > 0)),
    }
    if sklearn:
        if not np.array_equal(dbscan(points, 25.0, 100), clusters > 0):
            raise ValueError("scikit-learn's DBSCAN finds other outliers")
        costs["outlier detection by scikit-learn's DBSCAN"] = ("", alone(1, dbscan, points, 25.0, 100))
    lines = ["| step | S4, s | here, s | CPU time, s | peak memory, MB |", "|---" * 5 + "|"]
    for step, (paper, cost) in costs.items():
        told = "| | |" if cost is None else f"{cost.wall_s:.2f} | {cost.cpu_s:.2f} | {cost.peak_mb:,.0f} |"
        lines.append(f"| {step} | {paper} | {told}")
    return "\n".join(lines)
