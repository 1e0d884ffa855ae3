"""Joined incidents for Prometheus: the open ones, by the operators that detected them, and totals."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from prometheus_client.samples import Exemplar

from laggard.pipeline.explaining.explain import pid_of
from laggard.pipeline.metrics.declared import MAX_STREAMS
from laggard.pipeline.metrics.samples import label, member, present, sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prometheus_client.samples import Sample

    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.core.records.outputs import Incident


@dataclass(slots=True)
class _Joined:
    """The open incidents of a key, and the numbers of opened ones, of closed ones by operators, and of false ones."""

    incidents: Sequence[Incident] = ()
    opened: int = 0
    closed: Mapping[str, int] = field(default_factory=dict)
    dismissed: int = 0


class ShownIncidents:
    """The incidents of all keys. Its methods are for one thread at a time.

    The keys are bounded by `MAX_STREAMS`: the one with the oldest change is dropped first.
    """

    def __init__(self) -> None:
        self._joined: OrderedDict[tuple[str, str], _Joined] = OrderedDict()  # by their last changes, the oldest first

    def joined(self, keyed_by: KeyedBy, key: str, incidents: Sequence[Incident], opened: int) -> None:
        """Store the open incidents of a key; those that are no longer open have closed. See `Observer`."""
        live = [one for one in incidents if one.live]
        still = {one.id for one in live}
        before = self._of(keyed_by, key)
        closed = Counter(before.closed)
        for one in before.incidents:
            closed[_operators(one)] += one.id not in still
        before.incidents, before.opened, before.closed = live, before.opened + opened, closed

    def dismissed(self, keyed_by: KeyedBy, key: str) -> None:
        """Count an incident that people called false."""
        self._of(keyed_by, key).dismissed += 1

    def _of(self, keyed_by: str, key: str) -> _Joined:
        """Return the incidents of a key, which now becomes the newest."""
        found = self._joined[keyed_by, key] = self._joined.pop((keyed_by, key), _Joined())
        if len(self._joined) > MAX_STREAMS:
            self._joined.popitem(last=False)
        return found

    def parted(self, keys: Iterable[str]) -> None:
        """Forget these keys."""
        keys = set(keys)
        for which in [which for which in self._joined if which[1] in keys]:
            del self._joined[which]

    def open(self, keyed_by: str, key: str) -> list[frozenset[str]]:
        """Return the operators of each open incident of a key."""
        joined = self._joined.get((keyed_by, key))
        found = () if joined is None else joined.incidents
        return [frozenset(each.operator for each in one.evidence) for one in found]

    def samples(self) -> list[Sample]:
        """Return all samples; of those with the same labels the first counts."""
        shown = sorted(self._joined.items(), key=itemgetter(0))
        return [one for (keyed_by, key), joined in shown for one in _samples(keyed_by, label(key), joined)]


def _samples(keyed_by: str, key: str, joined: _Joined) -> Iterable[Sample]:
    newest = max(joined.incidents, key=lambda one: one.opened_ts, default=None)
    exemplar = Exemplar({"incident": newest.id}, 1.0, newest.opened_ts) if newest else None
    yield sample("incidents_open", {keyed_by: key}, len(joined.incidents))
    yield sample("incidents", {keyed_by: key}, joined.opened, exemplar)
    yield sample("incidents_dismissed", {keyed_by: key}, joined.dismissed)
    for operators, count in joined.closed.items():
        if count:
            yield sample("incidents_closed", {keyed_by: key, "operators": label(operators)}, count)
    for one in sorted(joined.incidents, key=lambda one: (one.opened_ts, one.id)):  # of equal labels the older counts
        name, feature = (one.blame.name, one.blame.feature) if one.blame else ("", "")
        row = member(name) if keyed_by == "pool" else label(name)
        labels = {keyed_by: key, "scope": label(_scope(one)), "row": row, "feature": label(feature)}
        if keyed_by == "application":
            labels["resource"] = label(",".join(one.blame.resources) if one.blame else "")
        scores: dict[str, float] = {}
        for each in one.evidence:
            score = math.inf if math.isnan(each.score) else each.score  # JSON has no infinity
            scores[each.operator] = max(score, scores.get(each.operator, -math.inf))
        for operator, score in sorted(scores.items()):
            yield sample("incident_score", {**labels, "operator": label(operator)}, score)
        yield sample("incident_start_timestamp_seconds", labels, one.opened_ts)
        if one.blame:
            yield from present(
                labels,
                incident_value=one.blame.value,
                incident_usual=one.blame.usual,
                incident_usual_deviation=one.blame.usual_deviation,
            )


def _scope(incident: Incident) -> str:
    """Return the scope of the evidence that blames the same row; without any, that of the operator of the incident."""
    scopes = [
        "process" if one.scope in {"host", "limit"} and one.blame and pid_of(one.blame.row) is not None else one.scope
        for one in incident.evidence
        if one.blame == incident.blame
    ]
    return next(iter((*scopes, *(one.scope for one in incident.evidence if one.operator == incident.operator))), "")


def _operators(incident: Incident) -> str:
    return ",".join(sorted({one.operator for one in incident.evidence}))
