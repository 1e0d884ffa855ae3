"""The published method on all requests together (sections III.C and III.D), for data that are all there."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from laggard.operators.requests.clusters import clustered, scale_of
from laggard.operators.requests.outliers import core_distances, core_gaps, estimated_eps
from laggard.operators.requests.results import Cluster, Judged, Traced, Use
from laggard.operators.requests.usual import Moments, evidence, profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

MOST_NORMAL: Final = 5_000
"""So many normal requests say what is usual, spread evenly over all."""

_NOTHING = Judged(score=0.0, odd=False, cluster=0, evidence=None, usual_s={}, eps_s=math.nan, young=True)


@dataclass(frozen=True, slots=True)
class Outlier:
    """One request that is out of line.

    Attributes:
        request: what is known of it.
        judged: how much out of line, with its cluster.

    """

    request: Traced
    judged: Judged


class Whole:
    """Collects the requests of a service, and judges all of them at the end as published.

    Outliers are DBSCAN's noise on the seconds in each state, clusters of them k-means on standardised state counts with
    k by the elbow. Nothing is judged before: what is out of line depends on all the others.

    Parameters:
        eps_s: within which requests are neighbours, in seconds (25 ms in section IV.A); None to estimate it.
        minimum_points: how many requests make a dense region (100 in section IV.A).
        reference: how many requests are collected at most: of more the oldest are let go. Each takes about 16 bytes a
            state and 2 a system call.

    """

    state_version: ClassVar[int] = 1

    def __init__(self, *, eps_s: float | None = None, minimum_points: int = 100, reference: int = 100_000) -> None:
        if eps_s is not None and not eps_s > 0.0:
            raise ValueError(f"expected eps above 0, got {eps_s=}")
        if minimum_points < 1 or reference < minimum_points:
            raise ValueError(f"expected 1 <= minimum_points <= reference, got {minimum_points=}, {reference=}")
        self._eps_s, self._minimum_points, self._reference = eps_s, minimum_points, reference
        self._requests: list[Traced] = []
        self._codes: list[array[int]] = []
        self._names: dict[str, int] = {}

    def score(self, request: Traced) -> Judged:  # noqa: ARG002 - as of `Requests`
        """Nothing is judged as it comes."""
        return _NOTHING

    def learn(self, request: Traced, judged: Judged) -> None:  # noqa: ARG002 - as above
        """Collect a request."""
        names = self._names
        codes = array("H", (names.setdefault(call, len(names)) & 0xFFFF for call in request.syscalls))
        self._requests.append(replace(request, syscalls=()))
        self._codes.append(codes)
        if len(self._requests) > self._reference * 1.25:
            del self._requests[: -self._reference], self._codes[: -self._reference]

    def whole(self) -> tuple[tuple[Outlier, ...], tuple[Cluster, ...]]:
        """All requests that are out of line, in the order in which they came, and their clusters, the largest first."""
        requests, codes = self._requests[-self._reference :], self._codes[-self._reference :]
        if len(requests) <= self._minimum_points:
            return (), ()
        times = _matrix([each.times_s for each in requests])
        distances = core_distances(times, self._minimum_points)
        eps_s = self._eps_s or estimated_eps(times, self._minimum_points)
        gaps = core_gaps(times, times[distances <= eps_s])
        out = np.flatnonzero(gaps > eps_s)
        normal = np.flatnonzero(gaps <= eps_s)
        usual = Moments(MOST_NORMAL)
        for at in normal[:: max(len(normal) // MOST_NORMAL, 1)]:
            self._add(usual, self._full(requests[at], codes[at]))
        if not len(out):
            return (), ()
        counts = _matrix([each.counts for each in requests])
        mean, deviation = scale_of(counts)
        labels = clustered((counts[out] - mean) / deviation).labels
        full = [self._full(requests[at], codes[at]) for at in out]
        clusters = tuple(
            self._cluster(label + 1, [each for each, its in zip(full, labels, strict=True) if its == label], usual)
            for label in range(int(labels.max()) + 1)
        )
        usual_s = usual.mean_s()
        told = []
        for each, at, label in zip(full, out, labels, strict=True):
            alone = Moments(1)
            self._add(alone, each)
            judged = Judged(
                score=float(gaps[at] / eps_s),
                odd=False,
                cluster=int(label) + 1,
                evidence=evidence(alone, usual),
                usual_s=usual_s,
                eps_s=eps_s,
                young=False,
            )
            told.append(Outlier(each, judged))
        return tuple(told), clusters

    def clusters(self) -> tuple[Cluster, ...]:
        """Those of `whole`."""
        return self.whole()[1]

    @staticmethod
    def _add(moments: Moments, request: Traced) -> None:
        moments.add(request, profile(request))

    def _full(self, request: Traced, codes: array[int]) -> Traced:
        names = list(self._names)
        return replace(request, syscalls=tuple(names[code] for code in codes))

    def _cluster(self, number: int, requests: Sequence[Traced], usual: Moments) -> Cluster:
        moments = Moments(len(requests))
        for each in requests:
            self._add(moments, each)
        began_ts, newest_ts = min(each.ts for each in requests), max(each.ts for each in requests)
        return Cluster(number, len(requests), began_ts, newest_ts, requests[-1].request, evidence(moments, usual))

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "names": list(self._names),
            "requests": [
                [
                    each.ts,
                    each.request,
                    each.duration_s,
                    dict(each.counts),
                    dict(each.times_s),
                    [[list(use.what), use.pid, use.times, use.time_s] for use in each.uses],
                    codes.tobytes(),
                ]
                for each, codes in zip(self._requests, self._codes, strict=True)
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
        self._names = {str(name): place for place, name in enumerate(state["names"])}
        self._requests, self._codes = [], []
        for ts, request, duration_s, counts, times_s, uses, codes in state["requests"]:
            told = tuple(Use(tuple(what), int(pid), int(times), float(time_s)) for what, pid, times, time_s in uses)
            self._requests.append(Traced(float(ts), str(request), float(duration_s), counts, times_s, (), told))
            self._codes.append(array("H", bytes(codes)))


def _matrix(rows: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
    """One row each, a column for each name in the order in which they come; what is not there is 0."""
    places: dict[str, int] = {}
    for row in rows:
        for name in row:
            places.setdefault(name, len(places))
    found = np.zeros((len(rows), len(places)))
    for at, row in enumerate(rows):
        for name, value in row.items():
            found[at, places[name]] = value
    return found
