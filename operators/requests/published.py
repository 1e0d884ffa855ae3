"""The published method: from the times in states to what distinguishes clusters of outlying requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.requests.clusters import MOST, clustered, scale_of
from laggard.operators.requests.isomap import threshold
from laggard.operators.requests.ngrams import LONGEST, Distinctions, Usual, distinctions, ngrams, usual
from laggard.operators.requests.outliers import estimated_eps, noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.requests.representations import Coded

    Floats = NDArray[np.float64]

EPS_S: Final = 0.025
MINIMUM_POINTS: Final = 100


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """The results of the method for some requests.

    Attributes:
        eps_s: the radius of neighborhoods, in seconds.
        clusters: the cluster of each request, shape (requests,): 0 is normal, 1 the largest cluster of outliers.
        grams: the n-grams of system calls.
        usual: their counts in normal requests; None without a normal one.
        distinctions: what distinguishes the requests of each cluster; empty without a normal one.
        threshold_s: the duration above which most requests are outliers; infinite if there is none.

    """

    eps_s: float
    clusters: NDArray[np.intp]
    grams: tuple[tuple[str, ...], ...]
    usual: Usual | None
    distinctions: tuple[Distinctions, ...]
    threshold_s: float


def published(
    times_s: Floats,
    counts: Floats,
    syscalls: Coded,
    *,
    eps_s: float | None = EPS_S,
    minimum_points: int = MINIMUM_POINTS,
    most: int = MOST,
    longest: int = LONGEST,
    seed: int = 0,
) -> Published:
    """Run the method: outliers by the time in each state, clusters by the entries into each state, then n-grams.

    Parameters:
        times_s: seconds in each state, shape (requests, states).
        counts: the number of entries into each state, shape (requests, states).
        syscalls: the system calls of each request, in order.
        eps_s: see `outliers.noise`, in seconds; None to estimate it.
        minimum_points: see `outliers.noise`.
        most: see `clusters.clustered`.
        longest: see `ngrams.ngrams`.
        seed: see `clusters.clustered`.

    Raises:
        ValueError: the numbers of requests differ, or a value is not finite.

    Example:
        >>> from laggard.operators.requests.representations import coded
        >>> chance = np.random.default_rng(1)
        >>> times_s, counts = chance.normal([0.1, 0.02], 0.004, (500, 2)), chance.poisson(40.0, (500, 2)).astype(float)
        >>> times_s[-8:, 1] += 0.5
        >>> counts[-8:, 1] += 100.0
        >>> calls = [["open", "read", "close"]] * 492 + [["open", "fcntl", "fcntl", "read", "close"]] * 8
        >>> found = published(times_s, counts, coded(calls))
        >>> np.bincount(found.clusters)
        array([492,   8])
        >>> found.grams[found.distinctions[0].order[0]]
        ('fcntl',)

    """
    if not len(times_s) == len(counts) == len(syscalls.lengths):
        got = f"{len(times_s)} rows of times, {len(counts)} of counts, {len(syscalls.lengths)} sequences"
        raise ValueError(f"{got}: expected as many of each")
    if eps_s is None:
        eps_s = estimated_eps(times_s, minimum_points)
    outlying = noise(times_s, eps_s, minimum_points)
    clusters = np.zeros(len(times_s), np.intp)
    if outlying.any():
        mean, deviation = scale_of(counts)
        clusters[outlying] = 1 + clustered(((counts - mean) / deviation)[outlying], most=most, seed=seed).labels
    found = ngrams(syscalls, longest)
    normal = None if outlying.all() else usual(found.counts[np.flatnonzero(~outlying)])
    members = [np.flatnonzero(clusters == cluster) for cluster in range(1, int(clusters.max(initial=0)) + 1)]
    apart = () if normal is None else tuple(distinctions(found.counts[each], normal) for each in members)
    cut = threshold(times_s.sum(axis=1), outlying) if len(times_s) else np.inf
    return Published(eps_s, clusters, found.grams, normal, apart, cut)
