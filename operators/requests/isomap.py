"""Requests as a picture, and the duration above which they are out of line (section IV.C, figure 6)."""

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
"""So many normal requests are in the picture: time grows with their third power, 2 s of these."""

NEIGHBOURS: Final = 10

BLOCK: Final = 64
"""From so many points the paths are looked for at once: scipy lets no other thread run meanwhile, 17 ms of 1,800."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Requests on a plane.

    Attributes:
        requests: which, ascending, shape (drawn,).
        places: where, in the unit of the points, shape (drawn, 2): as far from each other as on the way through their
            neighbours, as well as a plane allows. The first axis is the longer one.

    """

    requests: NDArray[np.intp]
    places: Floats


def picture(
    points: Floats, outlying: Mask, *, sample: int = SAMPLE, neighbours: int = NEIGHBOURS, seed: int = 0
) -> Picture:
    """All outlying requests, and as many normal ones as can be drawn.

    Parameters:
        points: shape (requests, features).
        outlying: whether a request is out of line, shape (requests,).
        sample: normal requests that are drawn.
        neighbours: see `isomap`.
        seed: by which they are chosen.

    Raises:
        ValueError: see `isomap`.

    """
    normal = np.flatnonzero(~outlying)
    if len(normal) > sample:
        normal = np.random.default_rng(seed).choice(normal, sample, replace=False)
    requests = np.sort(np.concatenate((normal, np.flatnonzero(outlying))))
    return Picture(requests, isomap(points[requests], neighbours=neighbours))


def isomap(points: Floats, *, dimensions: int = 2, neighbours: int = NEIGHBOURS) -> Floats:
    """Places in few dimensions that keep distances along the points, by isometric feature mapping.

    Distances are the lengths of the shortest paths from neighbour to neighbour, and places are found by classical
    scaling. Groups of points that are no neighbours of each other are joined by the shortest link between them.

    Parameters:
        points: shape (points, features). A matrix of all pairs is made.
        dimensions: of the places.
        neighbours: of each point.

    Returns:
        Shape (points, dimensions). The largest coordinate of each dimension is positive.

    Raises:
        ValueError: a value is not finite.

    References: Tenenbaum, de Silva, Langford (2000), "A global geometric framework for nonlinear dimensionality
    reduction", Science 290.

    """
    if not np.isfinite(points).all():
        raise ValueError("expected finite points")
    # Points at one place are one: a distance of 0 is no link in a sparse matrix.
    distinct, which = np.unique(points, axis=0, return_inverse=True)
    count, found = len(distinct), min(dimensions, max(len(distinct) - 1, 0))
    places = np.zeros((count, dimensions))
    if found:
        lengths = _paths(_linked(cdist(distinct, distinct), neighbours))
        squares = -0.5 * lengths**2
        products = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
        # Not scipy's `eigh` for a few of them: it takes half the time, and lets no other thread run meanwhile.
        values, vectors = (each[..., -found:] for each in np.linalg.eigh(products))
        vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(found)])
        places[:, :found] = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    return places[which]


def _paths(graph: csr_array) -> Floats:
    """How long the shortest path from each point to each other is."""
    begins = range(0, graph.shape[0], BLOCK)
    blocks = [np.arange(begin, min(begin + BLOCK, graph.shape[0])) for begin in begins]
    return np.concatenate([dijkstra(graph, directed=False, indices=block) for block in blocks])


def _linked(distances: Floats, neighbours: int) -> csr_array:
    """The graph of all points and their neighbours, in one piece."""
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
    """The duration above which to call requests out of line, so that the fewest are called wrongly.

    What the published method reads off the picture by eye: where requests of the dense region end. It needs no
    reference and no neighbours afterwards, and misses what is out of line at a usual duration.

    Parameters:
        durations: of the requests, shape (requests,).
        outlying: whether a request is out of line, shape (requests,).

    Returns:
        The middle of the widest gap between durations that calls the fewest wrongly; infinite where none is longer than
        the normal ones for the most part.

    Raises:
        ValueError: there are not as many durations as requests, or none.

    Example:
        >>> threshold(np.array([100.0, 120.0, 130.0, 500.0, 900.0]), np.array([True, False, False, True, True]))
        315.0

    """
    if durations.shape != outlying.shape or not len(durations):
        raise ValueError(f"{durations.shape} durations of {outlying.shape} requests: expected one each")
    order = np.argsort(durations, kind="stable")
    ordered, out = durations[order], outlying[order]
    # After the first n requests: outlying ones below the cut, and normal ones above.
    wrong = np.cumsum(out) + np.count_nonzero(~out) - np.cumsum(~out)
    gaps = np.append(np.diff(ordered), np.inf)
    wrong[gaps == 0.0] = len(ordered) + 1
    best = int(np.lexsort((-gaps, wrong))[0])
    return float(ordered[best] + gaps[best] / 2.0)
