"""The published method on a complete set of requests: each is compared with all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.operators.requests.clusters import clustered, scale_of
from laggard.operators.requests.outliers import core_distances, core_gaps, estimated_eps
from laggard.operators.requests.results import Cluster, RequestScore
from laggard.operators.requests.usual import Moments, evidence, profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from laggard.operators.requests.results import Traced

    Floats = NDArray[np.float64]

MOST_PROFILED: Final = 10_000
"""The number of normal requests whose profiles are compared, evenly spread: more do not change the result."""


class Whole(NamedTuple):
    """The outliers of a complete set of requests.

    Attributes:
        outliers: the score of each outlier by its place, in order.
        clusters: their clusters, the largest first; numbers begin at 1.

    """

    outliers: dict[int, RequestScore]
    clusters: tuple[Cluster, ...]


def whole(requests: Callable[[], Iterable[Traced]], *, eps_s: float | None, minimum_points: int = 100) -> Whole:
    """Find outliers by DBSCAN's noise rule on the seconds in each state, and clusters by k-means on state counts.

    The score is the distance from the nearest core point in units of eps: noise is above 1 (sections III.C and III.D).

    Parameters:
        requests: returns all requests, in the same order at each call. It is called twice.
        eps_s: the radius of neighborhoods in seconds; None to estimate it (`outliers.estimated_eps`).
        minimum_points: the number of requests that make a dense region.

    Returns:
        The outliers and clusters; none for fewer than `minimum_points` requests, or if all are equal.

    """
    times, counts = _matrices(requests())
    if len(times) < minimum_points or not times.any():
        return Whole({}, ())
    if eps_s is None:
        eps_s = estimated_eps(times, minimum_points)
    if not eps_s > 0.0:
        return Whole({}, ())
    gaps = core_gaps(times, times[core_distances(times, minimum_points) <= eps_s])
    noise = gaps > eps_s
    if not noise.any():
        return Whole({}, ())
    mean, deviation = scale_of(counts)
    labels = np.zeros(len(times), np.intp)
    labels[noise] = 1 + clustered(((counts - mean) / deviation)[noise]).labels
    usual, outliers = Moments(len(times)), {}
    every = max(int(np.count_nonzero(~noise)) // MOST_PROFILED, 1)
    normal = 0
    for place, request in enumerate(requests()):
        if noise[place]:
            outliers[place] = request
            continue
        normal += 1
        if normal % every == 0:
            usual.add(request, profile(request))
    return _result(outliers, labels, gaps / eps_s, usual, eps_s)


def _matrices(requests: Iterable[Traced]) -> tuple[Floats, Floats]:
    """Return the seconds in each state and the entries into it, shape (requests, states), states by name."""
    places: dict[str, int] = {}
    rows, columns, values = [], [], []
    number = 0
    for number, request in enumerate(requests, 1):
        for state in dict.fromkeys((*request.times_s, *request.counts)):
            rows.append(number - 1)
            columns.append(places.setdefault(state, len(places)))
            values.append((request.times_s.get(state, 0.0), request.counts.get(state, 0.0)))
    both = np.zeros((number, len(places), 2))
    if values:
        both[rows, columns] = values
    order = [places[state] for state in sorted(places)]
    return both[:, order, 0], both[:, order, 1]


def _result(
    outliers: dict[int, Traced], labels: NDArray[np.intp], scores: Floats, usual: Moments, eps_s: float
) -> Whole:
    outlier_scores, clusters, usual_s = {}, [], usual.mean_s()
    for number in range(1, int(labels.max()) + 1):
        members = [place for place in outliers if labels[place] == number]
        alike = Moments(len(members))
        for place in members:
            request = outliers[place]
            found, alone = profile(request), Moments(1)
            alike.add(request, found)
            alone.add(request, found)
            own_evidence = evidence(alone, usual)
            outlier_scores[place] = RequestScore(
                float(scores[place]), False, number, own_evidence, usual_s, eps_s, young=False
            )
        first, last = (outliers[place] for place in (members[0], members[-1]))
        clusters.append(Cluster(number, len(members), first.ts, last.ts, last.request, evidence(alike, usual)))
    return Whole(dict(sorted(outlier_scores.items())), tuple(clusters))
