"""Traced requests for Prometheus: their durations, the time in each state, and the outliers by cause."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.engine.telemetry import Distribution, Example
from laggard.pipeline.metrics.declared import MAX_CLUSTERS, MAX_STATES, MAX_STREAMS, STALE_S, WORST_S
from laggard.pipeline.metrics.samples import exemplar, histogram, label, sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from prometheus_client.samples import Sample

    from laggard.operators.requests.results import RequestScore
    from laggard.pipeline.core.records import Request

DURATION_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

OTHERS: Final = "..."
"""The common label of the clusters, and states, beyond the most that have series of their own."""


def _durations() -> tuple[Distribution, Distribution]:
    return Distribution(DURATION_BOUNDS_S), Distribution(DURATION_BOUNDS_S)


@dataclass(slots=True)
class _Served:
    """The totals of a service.

    Attributes:
        durations: the durations of normal requests, and of outliers.
        states_s: seconds by state of normal requests, and of outliers.
        clusters: the number of outliers by the name of their cluster.
        newest: the newest outlier of each cluster.
        came_s: the arrival of its newest request.
        worst: the highest score of the newest period of `WORST_S`, and that of the period before.
        period: the number of the newest period.

    """

    durations: tuple[Distribution, Distribution] = field(default_factory=_durations)
    states_s: tuple[dict[str, float], dict[str, float]] = field(default_factory=lambda: ({}, {}))
    clusters: Counter[str] = field(default_factory=Counter)
    newest: dict[str, Example] = field(default_factory=dict)
    came_s: float = 0.0
    worst: tuple[float, float] = (0.0, 0.0)
    period: int = 0


class ShownRequests:
    """The requests of all services. Its methods are for one thread at a time.

    The services are bounded by `MAX_STREAMS`: the one with the oldest record is dropped first.
    """

    def __init__(self) -> None:
        self._served: OrderedDict[tuple[str, str], _Served] = OrderedDict()  # by their newest records, the oldest first

    def requested(self, operator: str, request: Request, judged: RequestScore, cluster: str, now: float) -> None:
        """Count a request. See `Observer`; `now` is of the clock that never steps."""
        which = operator, request.service
        one = self._served.get(which)
        if one is None:
            one = self._served[which] = _Served()
        self._served.move_to_end(which)
        if len(self._served) > MAX_STREAMS:
            self._served.popitem(last=False)
        one.came_s = now
        outlying = judged.outlier
        one.durations[outlying].add(request.duration_s)
        states_s = one.states_s[outlying]
        for state, time_s in request.times_s.items():
            shown = state
            if state not in states_s:
                shown = _bounded(state, one.states_s[0].keys() | one.states_s[1].keys(), MAX_STATES)
            states_s[shown] = states_s.get(shown, 0.0) + time_s
        if outlying:
            name = _bounded(cluster, one.clusters.keys(), MAX_CLUSTERS)
            one.clusters[name] += 1
            one.newest[name] = Example(request.request, request.ts, request.duration_s)
        period = int((request.ts + request.duration_s) // WORST_S)
        if period > one.period:
            one.worst = 0.0, one.worst[0] if period == one.period + 1 else 0.0
            one.period = period
        one.worst = max(one.worst[0], judged.score), one.worst[1]

    def lost(self, operator: str, services: Iterable[str]) -> None:
        """Forget these services of the operator."""
        for service in services:
            self._served.pop((operator, service), None)

    def samples(self, now: float) -> list[Sample]:
        """Return the samples of all services that are not silent; of those with the same labels the first counts."""
        shown = sorted(which for which, one in self._served.items() if now - one.came_s <= STALE_S)
        return [found for which in shown for found in _samples(label(which[1]), self._served[which])]


def _bounded(name: str, names: Set[str], most: int) -> str:
    """Return the name as a label, or `OTHERS` if there are too many."""
    name = label(name)
    return name if name in names or len(names) < most else OTHERS


def _samples(service: str, one: _Served) -> Iterable[Sample]:
    of = {"service": service}
    yield sample("requests", of, sum(map(sum, (each.counts for each in one.durations))))
    yield sample("request_score", of, max(one.worst))
    for cluster, count in sorted(one.clusters.items()):
        newest = exemplar("request", one.newest[cluster])
        yield sample("requests_outlying", {**of, "row": cluster}, count, newest)
    for outlying, durations, states_s in zip(("0", "1"), one.durations, one.states_s, strict=True):
        yield from histogram("request_duration_seconds", {**of, "outlying": outlying}, durations)
        for state, time_s in sorted(states_s.items()):
            yield sample("request_state_seconds", {**of, "state": state, "outlying": outlying}, time_s)
