"""Requests on a plane, and the duration above which they are outliers (S4, section IV.C, figure 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra, minimum_spanning_tree
from scipy.spatial.distance import cdist

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

SAMPLE: Final = 2000
"""The number of normal requests in the picture. The time grows with its third power: 2 s for this one."""

NEIGHBOURS: Final = 10

BLOCK: Final = 64
"""The number of points whose paths are found in one call. scipy blocks other threads meanwhile: 17 ms with 1,800."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Requests on a plane.

    Attributes:
        requests: the places of the drawn requests, ascending, shape (drawn,).
        places: their coordinates in the unit of the points, shape (drawn, 2). Distances approximate the lengths of the
            paths through neighbors. The first axis is the longer one.

    """

    requests: NDArray[np.intp]
    places: Floats


def picture(
    points: Floats, outlying: Mask, *, sample: int = SAMPLE, neighbours: int = NEIGHBOURS, seed: int = 0
) -> Picture:
    """Draw all outlying requests and a sample of the normal ones.

    Parameters:
        points: shape (requests, features).
        outlying: whether each request is an outlier, shape (requests,).
        sample: the number of normal requests.
        neighbours: see `isomap`.
        seed: the seed of the sample.

    Raises:
        ValueError: see `isomap`.

    """
    normal = np.flatnonzero(~outlying)
    if len(normal) > sample:
        normal = np.random.default_rng(seed).choice(normal, sample, replace=False)
    requests = np.sort(np.concatenate((normal, np.flatnonzero(outlying))))
    return Picture(requests, isomap(points[requests], neighbours=neighbours))


def isomap(points: Floats, *, dimensions: int = 2, neighbours: int = NEIGHBOURS) -> Floats:
    """Embed points in few dimensions by isometric feature mapping, which preserves distances along the points.

    Distances are the lengths of the shortest paths from neighbor to neighbor, and coordinates follow by classical
    scaling. Separate groups of points are joined by the shortest link between them.

    Parameters:
        points: shape (points, features). The memory grows with the square of the number of points.
        dimensions: the number of dimensions.
        neighbours: the number of neighbors of each point.

    Returns:
        The coordinates, shape (points, dimensions). The one of the largest magnitude is positive in each dimension.

    Raises:
        ValueError: a value is not finite.

    References: Tenenbaum, de Silva, Langford (2000), "A global geometric framework for nonlinear dimensionality
    reduction", Science 290.

    """
    if not np.isfinite(points).all():
        raise ValueError("expected finite points")
    # Equal points are one: a distance of 0 is not a link in a sparse matrix.
    distinct, which = np.unique(points, axis=0, return_inverse=True)
    count, found = len(distinct), min(dimensions, max(len(distinct) - 1, 0))
    places = np.zeros((count, dimensions))
    if found:
        lengths = _paths(_linked(cdist(distinct, distinct), neighbours))
        squares = -0.5 * lengths**2
        products = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
        # Not scipy's `eigh` for a few of them: it takes half of the time, but blocks other threads.
        values, vectors = (each[..., -found:] for each in np.linalg.eigh(products))
        vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(found)])
        places[:, :found] = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    return places[which]


def _paths(graph: csr_array) -> Floats:
    """Return the length of the shortest path between each two points."""
    begins = range(0, graph.shape[0], BLOCK)
    blocks = [np.arange(begin, min(begin + BLOCK, graph.shape[0])) for begin in begins]
    return np.concatenate([dijkstra(graph, directed=False, indices=block) for block in blocks])


def _linked(distances: Floats, neighbours: int) -> csr_array:
    """Return the connected graph of all points and their neighbors."""
    count, near = len(distances), min(neighbours + 1, len(distances))
    nearest = np.argpartition(distances, near - 1, axis=1)[:, :near]
    rows = np.repeat(np.arange(count), near)
    graph = csr_array((distances[rows, nearest.ravel()], (rows, nearest.ravel())), shape=(count, count))
    graph = graph.maximum(graph.T)
    groups, group = connected_components(graph, directed=False)
    if groups > 1:
        tree = minimum_spanning_tree(distances).tocoo()
        link = group[tree.row] != group[tree.col]
        links = csr_array((tree.data[link], (tree.row[link], tree.col[link])), shape=(count, count))
        graph = graph.maximum(links)
    return csr_array(graph)


def threshold(durations: Floats, outlying: Mask) -> float:
    """Find the duration that separates outliers from normal requests with the fewest errors.

    The published method reads it from the picture: where the dense region ends. Later requests can be classified by it
    alone, but outliers of a normal duration are missed.

    Parameters:
        durations: the durations of the requests, shape (requests,).
        outlying: whether each request is an outlier, shape (requests,).

    Returns:
        The middle of the widest gap between durations among those with the fewest errors; infinite if outliers are not
        longer than normal requests for the most part.

    Raises:
        ValueError: there is no request, or the shapes differ.

    Example:
        >>> threshold(np.array([100.0, 120.0, 130.0, 500.0, 900.0]), np.array([True, False, False, True, True]))
        315.0

    """
    if durations.shape != outlying.shape or not len(durations):
        raise ValueError(f"{durations.shape} durations of {outlying.shape} requests: expected one each")
    order = np.argsort(durations, kind="stable")
    ordered, out = durations[order], outlying[order]
    # Errors of a cut after the first n requests: outliers below it, and normal ones above.
    wrong = np.cumsum(out) + np.count_nonzero(~out) - np.cumsum(~out)
    gaps = np.append(np.diff(ordered), np.inf)
    wrong[gaps == 0.0] = len(ordered) + 1
    best = int(np.lexsort((-gaps, wrong))[0])
    return float(ordered[best] + gaps[best] / 2.0)
