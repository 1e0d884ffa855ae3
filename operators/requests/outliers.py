"""Outliers among requests: the noise of DBSCAN (S4, section III.C)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.spatial import cKDTree

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

NOISE: Final = 0.005
"""The share of outliers that the estimate of eps assumes, ..."""

FENCE: Final = 3.5
"""... unless eps were this number of interquartile ranges above the upper quartile."""

BLOCK: Final = 4096
"""The number of points in one query: each needs 16 bytes per neighbor."""


def noise(points: Floats, eps: float, minimum_points: int) -> Mask:
    """Return DBSCAN's noise, without the clusters.

    A point is a core point if at least `minimum_points` points, itself included, lie within `eps` of it. It is noise if
    it is not a core point and none lies within `eps` of it. So neighbors need only be counted, up to `minimum_points`.
    Lists of all neighbors, as in scikit-learn, grow with the square of the number of points in dense regions.

    Parameters:
        points: shape (points, features).
        eps: the radius in the unit of the points, inclusive.
        minimum_points: the number of points that make a core point.

    Returns:
        Whether each point is noise, shape (points,).

    Raises:
        ValueError: `points` is not a matrix of finite numbers, `eps` is negative or NaN, `minimum_points` is below 1.

    Example:
        >>> noise(np.array([[0.0], [1.0], [2.0], [3.5], [9.0]]), eps=1.5, minimum_points=3)
        array([False, False, False, False,  True])

    References: Ester, Kriegel, Sander, Xu (1996), "A density-based algorithm for discovering clusters in large spatial
    databases with noise", KDD.

    """
    if not eps >= 0.0:
        raise ValueError(f"eps is {eps}: expected 0 or more")
    core = core_distances(points, minimum_points) <= eps
    return core_gaps(points, points[core]) > eps


def core_distances(points: Floats, minimum_points: int) -> Floats:
    """Return the core distance of each point: the distance of its `minimum_points`-th neighbor, itself included.

    Parameters:
        points: shape (points, features).
        minimum_points: the number of points that make a core point.

    Returns:
        The distances, shape (points,), infinite if there are fewer points than that.

    Raises:
        ValueError: `points` is not a matrix of finite numbers, or `minimum_points` is below 1.

    Example:
        >>> core_distances(np.array([[0.0], [1.0], [3.0]]), 2)
        array([1., 1., 2.])

    """
    points = _checked(points)
    if minimum_points < 1:
        raise ValueError(f"minimum_points is {minimum_points}: expected 1 or more")
    if len(points) < minimum_points:
        return np.full(len(points), np.inf)
    # Equal points are queried once: a tree would search all of them for each of them.
    places, place_of, crowds = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    nearest = np.arange(1, min(minimum_points, len(places)) + 1)
    tree = _tree(places)
    found = np.empty(len(places))
    for begin in range(0, len(places), BLOCK):
        distances, at = tree.query(places[begin : begin + BLOCK], k=nearest)
        enough = (np.cumsum(crowds[at], axis=1) >= minimum_points).argmax(axis=1)
        found[begin : begin + BLOCK] = distances[np.arange(len(distances)), enough]
    return found[place_of]


def core_gaps(points: Floats, core: Floats) -> Floats:
    """Return the distance of each point from the nearest core point: above eps it is noise.

    Parameters:
        points: shape (points, features).
        core: the core points, shape (core points, features).

    Returns:
        The distances, shape (points,), infinite without a core point.

    Raises:
        ValueError: either is not a matrix of finite numbers.

    """
    points, core = _checked(points), np.unique(_checked(core), axis=0)
    if not len(core) or not len(points):
        return np.full(len(points), np.inf)
    return np.asarray(_tree(core).query(points)[0], np.float64)


def estimated_eps(points: Floats, minimum_points: int, *, smallest: float = 0.0) -> float:
    """Estimate eps for points that are mostly normal.

    It is the core distance that a share of `NOISE` of the points exceeds: in Ester et al. (section 4.2) the user gives
    the share of noise, and S4 (section IV.A) finds less than one percent reasonable. If there are more outliers, it is
    a fence of the logarithms of the core distances, q3 + 3.5 (q3 - q1). It is a little beyond Tukey's outer one (1977,
    section 2D). Quartiles are robust if less than a quarter of the data are outliers. A distance of 0, between equal
    points, counts as the smallest positive one.

    The knee of the sorted distances, by which eps is often chosen by eye, depends on the few farthest points.

    Parameters:
        points: shape (points, features).
        minimum_points: as in `noise`.
        smallest: smaller distances are negligible, and count as this one.

    Returns:
        The estimate in the unit of the points, at least `smallest`; 0 if all points are equal.

    Raises:
        ValueError: there are fewer than `minimum_points`; see `core_distances`.

    """
    distances = core_distances(points, minimum_points)
    if len(distances) < minimum_points:
        raise ValueError(f"{len(distances)} points: expected {minimum_points} or more to estimate eps by")
    above = distances[distances > 0.0]
    least = max(smallest, above.min() if len(above) else 0.0)
    if not least > 0.0:
        return 0.0
    lower, upper, noisy = np.quantile(np.log(np.maximum(distances, least)), (0.25, 0.75, 1.0 - NOISE))
    return float(np.exp(min(noisy, upper + FENCE * (upper - lower))))


def _tree(points: Floats) -> cKDTree:
    # Imported here, since loading it takes a while, and few services are traced.
    from scipy.spatial import cKDTree  # noqa: PLC0415

    return cKDTree(points)


def _checked(points: Floats) -> Floats:
    points = np.asarray(points, np.float64)
    if points.ndim != 2 or (len(points) and not points.shape[1]):
        raise ValueError(f"points of shape {points.shape}: expected (points, features)")
    if not np.isfinite(points).all():
        row, feature = np.argwhere(~np.isfinite(points))[0]
        raise ValueError(f"point {row}, feature {feature}: expected a finite number, got {points[row, feature]}")
    return points
