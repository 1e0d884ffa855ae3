"""Clusters of outlying requests: k-means on standardized state counts, with k by the elbow (S4, section III.D)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.spatial.distance import cdist

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST: Final = 10
"""The most clusters that are tried, as in section IV.B."""

RESTARTS: Final = 20

ROUNDS: Final = 300

EVIDENT: Final = 0.5
"""The largest ratio of the inertia of clusters to that of evenly spread points. At a half, a single Gaussian cluster of
20, 60 or 150 points was split in none of 300 samples, a log-normal one in 5. Two or three clusters at 10 standard
deviations were found in all of 600 samples, log-normal ones in 587."""

CONSTANT: Final = 1e-12
"""A feature whose standard deviation is below this share of its mean is constant: the rest is rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Points in clusters.

    Attributes:
        labels: the cluster of each point, shape (points,): 0 is the largest one. Of equally large ones the one with the
            first point comes first.
        centres: the mean of each cluster, shape (clusters, features).
        inertia: the sum of the squared distances of all points from the centers of their clusters.

    """

    labels: NDArray[np.intp]
    centres: Floats
    inertia: float


def scale_of(counts: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each feature, 1 if constant, for `(counts - mean) / deviation`.

    As in the published method they are those of all requests. So a distance of 1 is a typical difference between
    requests, and does not depend on the outliers.
    """
    mean, deviation = counts.mean(axis=0), counts.std(axis=0)
    return mean, np.where(deviation > CONSTANT * np.abs(mean), deviation, 1.0)


def clustered(points: Floats, *, most: int = MOST, restarts: int = RESTARTS, seed: int = 0) -> Partition:
    """Cluster points by k-means, with k by the elbow; in a single cluster if more are not evident.

    k-means splits any points. The clusters are accepted if their inertia, relative to a single cluster, is at most half
    (`EVIDENT`) of that for evenly spread points. These are as many, with the same variance along the same axes. This is
    the idea of the gap statistic (Tibshirani, Walther, Hastie, 2001).

    Parameters:
        points: standardized points, shape (points, features).
        most: the most clusters that are tried.
        restarts: see `k_means`.
        seed: the seed of the starts, and of the evenly spread points.

    Returns:
        The clusters: the same for the same arguments, bit for bit.

    Raises:
        ValueError: there is no point, or a value that is not finite.

    Example:
        >>> chance = np.random.default_rng(1)
        >>> found = clustered(chance.normal(size=(60, 2)) + np.repeat([[0.0], [9.0], [30.0]], [30, 20, 10], axis=0))
        >>> np.bincount(found.labels)
        array([30, 20, 10])

    """
    tries = [k_means(points, 1)]
    distinct = len(np.unique(points, axis=0))
    tries += [k_means(points, k, restarts=restarts, seed=seed) for k in range(2, min(most, distinct) + 1)]
    k = elbow([each.inertia for each in tries])
    if k > 1:
        even = _spread_evenly(points, seed)
        left = k_means(even, k, restarts=restarts, seed=seed).inertia / k_means(even, 1).inertia
        if tries[k - 1].inertia > EVIDENT * left * tries[0].inertia:
            k = 1
    return tries[k - 1]


def elbow(inertias: Sequence[float]) -> int:
    """Return the number of clusters beyond which the inertia does not decrease substantially.

    It is where the curve is farthest below the straight line between its ends, with both axes scaled to 0 to 1. The
    rule is that of Satopaa, Albrecht, Irwin, Raghavan (2011), "Finding a 'kneedle' in a haystack". The curve begins at
    a single cluster, so the result is 1 only for at most two values, or for a straight curve.

    The rule is conservative: of four or more separate clusters it may rather join two than split one.

    Parameters:
        inertias: the inertia for 1, 2, ... clusters.

    Raises:
        ValueError: there is no value.

    Example:
        >>> elbow([100.0, 45.0, 10.0, 8.0, 7.0])
        3

    """
    if not len(inertias):
        raise ValueError("no inertias: expected those for 1, 2, ... clusters")
    curve = np.asarray(inertias, np.float64)
    if not curve[0] > curve[-1]:
        return 1
    below = 1.0 - np.linspace(0.0, 1.0, len(curve)) - (curve - curve[-1]) / (curve[0] - curve[-1])
    # Rounded, so that a straight line has no bend by a rounding error.
    return int(np.argmax(np.round(below, 12))) + 1


def k_means(points: Floats, k: int, *, restarts: int = RESTARTS, seed: int = 0) -> Partition:
    """Cluster points by Lloyd's algorithm from seeds of k-means++ (Arthur and Vassilvitskii, 2007).

    A cluster that loses all its points restarts at the point that is farthest from its own center. The library
    scikit-learn finds the same inertia as fast, but its import costs a worker 0.7 s and 66 MB.

    Parameters:
        points: shape (points, features).
        k: the number of clusters.
        restarts: the number of starts; the one with the least inertia is returned.
        seed: the seed of the starts.

    Returns:
        The clusters: the same for the same arguments, bit for bit.

    Raises:
        ValueError: there are fewer distinct points than clusters, or a value is not finite.

    """
    points = np.asarray(points, np.float64)
    if not np.isfinite(points).all():
        raise ValueError("expected finite points")
    distinct = len(np.unique(points, axis=0))
    if not 1 <= k <= distinct:
        raise ValueError(f"{k} clusters of {distinct} distinct points: expected at least 1, at most as many as points")
    chance = np.random.default_rng(seed)
    tries = (_lloyd(points, _beginning(points, k, chance)) for _ in range(restarts if k > 1 else 1))
    labels, inertia = min(tries, key=lambda each: each[1])
    firsts = np.unique(labels, return_index=True)[1]
    order = np.lexsort((firsts, -np.bincount(labels)))
    labels = np.argsort(order)[labels]
    return Partition(labels, _means(points, labels, k), inertia)


def _beginning(points: Floats, k: int, chance: np.random.Generator) -> Floats:
    """Draw points in proportion to the square of their distance from those that were drawn before."""
    drawn = [int(chance.integers(len(points)))]
    nearest = np.full(len(points), np.inf)
    while len(drawn) < k:
        nearest = np.minimum(nearest, cdist(points, points[drawn[-1:]], "sqeuclidean")[:, 0])
        sums = np.cumsum(nearest)
        # "right": so a point that was drawn already, at a distance of 0, cannot be drawn again.
        drawn.append(int(np.searchsorted(sums, chance.random() * sums[-1], side="right")))
    return points[drawn]


def _lloyd(points: Floats, centres: Floats) -> tuple[NDArray[np.intp], float]:
    k = len(centres)
    labels = np.full(len(points), -1)
    for _ in range(ROUNDS):
        distances = cdist(points, centres, "sqeuclidean")
        before, labels = labels, distances.argmin(axis=1)
        nearest = distances[np.arange(len(points)), labels]
        for empty in np.flatnonzero(np.bincount(labels, minlength=k) == 0):
            # From a cluster with other points, which does not become empty.
            lonely = np.bincount(labels, minlength=k)[labels] == 1
            farthest = int(np.where(lonely, -1.0, nearest).argmax())
            labels[farthest], nearest[farthest] = empty, 0.0
        if np.array_equal(before, labels):
            break
        centres = _means(points, labels, k)
    return labels, float(((points - _means(points, labels, k)[labels]) ** 2).sum())


def _means(points: Floats, labels: NDArray[np.intp], k: int) -> Floats:
    sums = np.stack([np.bincount(labels, weights=feature, minlength=k) for feature in points.T], axis=1)
    return np.asarray(sums / np.bincount(labels, minlength=k)[:, None])


def _spread_evenly(points: Floats, seed: int) -> Floats:
    """Return as many points in a box with the same variances along the same principal axes."""
    deviations = np.linalg.svd(points - points.mean(axis=0), compute_uv=False) / np.sqrt(len(points))
    box = np.random.default_rng(seed).uniform(-1.0, 1.0, (len(points), len(deviations)))
    return np.asarray(box * np.sqrt(3.0) * deviations)
