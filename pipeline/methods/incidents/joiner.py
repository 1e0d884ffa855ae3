"""Incidents of one key, each joined from the anomalies of one fault, over time, rows and operators.

An incident opens with its first anomaly, grows with each that belongs to it, and closes when the last of them has
ended. It needs no clock. The streams decide, in the time of their own frames, how long a score must stay calm before
its anomaly ends. A recurrence before that is the same fault (`courses.JOINED_S`). So the time of a closing is that of
the frame that ended the last anomaly. The operators decide how long a deviation must last to be an anomaly.

Two open anomalies of a key are one fault, unless they blame different processes that use different resources. Each of
these joins them:

- They blame the same program (by name), whatever it uses. This also holds for an ended anomaly of an open incident.
- They blame the use of the same resource: several processes compete for it, or one is affected by the other.
- One of them blames no process, or the host itself: the effect of a process on its host shows there, too, for up to
  `FELT_S` after the host was first blamed.
- The counter of one of them is unknown.

A host may be short of a resource for days, by the normal use of its programs. So an anomaly of the host that blames a
program joins an open incident by the resource, but others join it only by the name of the program. A limit of a control
group or a process may be near for weeks, too, and other processes do not compete for it. So an anomaly of a limit joins
others only by the name of the program.

All causes of slow requests of a service are one fault: the person on call looks at the service, not at each cause.

An anomaly that joins two incidents by the first two rules merges them: the younger closes, `merged_into` the other.

An anomaly of an operator that is far behind the others may belong to the time of an incident that has closed. It opens
a new one from that closing on: incidents that blame the same program never overlap.

An anomaly of an operator that no longer runs would never end. It counts as ended once other operators are past the time
at which its stream would have published it again (`courses.GOES_ON_S`). They must be past it by as much as one of them
may lag behind another (`eventtime.SILENT_S`). The operators end the anomalies of a silent host.

If the end of the last anomaly of an incident was not observed, the incident says so.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from laggard.pipeline.alarms.courses import GOES_ON_S
from laggard.pipeline.core.eventtime import SILENT_S
from laggard.pipeline.core.records.outputs import Incident, Progress, incident_id
from laggard.pipeline.methods.incidents.evidence import evidence_of, names_of, program_of, resources_of
from laggard.pipeline.methods.incidents.opened import Open, last_record, restored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.pipeline.core.records.outputs import Anomaly, Evidence

FELT_S: Final = 900.0
"""The effect of a process on its host shows within this time, in seconds."""

MOST_CLOSED: Final = 16
"""The most closed incidents that are remembered, the newest ones: no other of the same program may overlap them."""


class _Closed(NamedTuple):
    """An incident that closed at `ts`, and the programs that it blamed."""

    ts: float
    names: tuple[str, ...]


class _ClosedIncidents:
    """The newest closed incidents."""

    def __init__(self, each: Iterable[_Closed] = ()) -> None:
        self.each = list(each)

    def add(self, ts: float, names: Sequence[str]) -> None:
        """Add an incident that closed at this time."""
        self.each = [*self.each, _Closed(ts, tuple(names))][-MOST_CLOSED:]

    def after(self, opened_ts: float, names: Sequence[str]) -> float:
        """Return the time at which an incident opens: not before the closing of an earlier one of the same program."""
        closed = (each.ts for each in self.each if not set(names).isdisjoint(each.names))
        return max([opened_ts, *closed])


class Joiner:
    """The incidents of one key; deterministic, and pure except for its own state.

    Attributes:
        state_version: the version of the form of its state.

    """

    state_version: ClassVar[int] = 1

    def __init__(self) -> None:
        self._open: list[Open] = []  # in the order in which they opened
        self._closed = _ClosedIncidents()

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """The open ones, the oldest first, each with its evidence so far."""
        return tuple(each.record for each in self._open)

    def take(self, found: Anomaly | Progress) -> list[Incident]:
        """Process the next record of an operator, and return the records of incidents to publish."""
        records = self._end_silent(found)
        known = next((each for each in self._open if found.id in each.last_records), None)
        if isinstance(found, Progress) and found.change == "ended":
            if known is None:
                return records
            why = {"silent_since_ts": found.silent_since_ts, "accepted": found.accepted, "feedback": found.feedback}
            return [*records, *self._end(known, found.id, found.until_ts, found.ts, **why)]
        if known is None:
            return [*records, *self._place(found)]
        # A repeated anomaly, as after the reset of an operator, changes nothing.
        return [*records, *self._extend(known, found)] if isinstance(found, Progress) else records

    def give_up(self) -> list[Incident]:
        """Close all open incidents, since the state of the key is dropped."""
        records = []
        for each in tuple(self._open):
            for anomaly, last in tuple(each.last_records.items()):
                records += self._end(each, anomaly, last.until_ts, each.record.ts, silent_since_ts=last.ts)
        return records

    # New and changed anomalies.

    def _place(self, record: Anomaly | Progress) -> list[Incident]:
        """Find the incident of a new anomaly."""
        seen = evidence_of(record)
        program = program_of(seen)
        sure = [each for each in self._open if program is not None and each.same(program, seen.scope)]
        if not sure and (perhaps := self._perhaps(seen)) is not None:
            sure = [perhaps]
        if not sure:
            return [self._begin(record, seen)]
        return self._join(sure, record, seen)

    def _perhaps(self, seen: Evidence) -> Open | None:
        """Return the incident of an anomaly that has no program and no resource in common with any."""
        program = program_of(seen)
        if program is not None and resources_of(program):
            unblamed = (each for each in self._open if not each.blames())
            return next((each for each in unblamed if seen.opened_ts <= each.record.opened_ts + FELT_S), None)
        resources = set(resources_of(seen.blame))
        return min(self._open, key=lambda each: each.resources().isdisjoint(resources), default=None)

    def _begin(self, record: Anomaly | Progress, seen: Evidence) -> Incident:
        names = names_of(seen)
        opened_ts = self._closed.after(seen.opened_ts, names)
        incident = Incident(
            # An anomaly that goes on after it counted as ended may have opened an incident of its own id before.
            id=incident_id(f"{record.id} {record.number}" if isinstance(record, Progress) else record.id),
            number=0,
            change="opened",
            ts=max(record.ts, opened_ts),
            opened_ts=opened_ts,
            until_ts=math.nan,
            keyed_by=record.keyed_by,
            key=record.key,
            operator=record.operator,
            score=seen.score,
            blame=seen.blame,
            ranking=record.ranking,
            sentence="",
            model_age_s=record.model_age_s,
            young=record.young,
            live=record.live,
            evidence=(seen,),
        )
        opened = Open(incident, {record.id: last_record(record)}, names)
        self._open.append(opened)
        return opened.publish("opened", record.ts)

    def _take_in(self, known: Open, record: Anomaly | Progress, seen: Evidence, evidence: Sequence[Evidence]) -> None:
        """Add evidence to an incident, which begins with the earliest of its anomalies."""
        known.take_in(record, seen, evidence)
        if seen.opened_ts < known.record.opened_ts:
            opened_ts = min(self._closed.after(seen.opened_ts, known.names), known.record.opened_ts)
            known.record = replace(known.record, opened_ts=opened_ts)

    def _join(self, incidents: list[Open], record: Anomaly | Progress, seen: Evidence) -> list[Incident]:
        """Add an anomaly to the oldest of these incidents, and merge the others into it."""
        into = incidents[0]
        self._take_in(into, record, seen, [*into.record.evidence, seen])
        return [*self._merge(into, incidents[1:], record.ts), into.publish("extended", record.ts)]

    def _extend(self, known: Open, record: Progress) -> list[Incident]:
        """Follow a known anomaly that is worse, blames another row, or goes on."""
        seen = evidence_of(record)
        evidence = [seen if each.anomaly == record.id else each for each in known.record.evidence]
        self._take_in(known, record, seen, evidence)
        program = program_of(seen)
        named = program is not None and seen.scope == "host"
        same = [
            each
            for each in self._open
            if each is known
            or (program is not None and (program.name in each.names if named else each.same(program, seen.scope)))
        ]
        return [*self._merge(same[0], same[1:], record.ts), same[0].publish("extended", record.ts)]

    def _merge(self, into: Open, others: Sequence[Open], ts: float) -> list[Incident]:
        """Merge incidents, and return the closings of the others."""
        records = []
        for other in others:
            self._open.remove(other)
            into.absorb(other)
            records.append(other.publish("closed", ts, merged_into=into.record.id))
        return records

    # Ended anomalies.

    def _end(self, known: Open, anomaly: str, until_ts: float, ts: float, **why: Any) -> list[Incident]:
        """End an anomaly for the reason `why`, and its incident if it was the last one.

        While others go on, it is published only if it is a service's and has one cause less.
        """
        causes = known.causes()
        known.end(anomaly, until_ts)
        if known.last_records:
            fewer = known.record.keyed_by == "service" and known.causes() != causes
            return [known.publish("extended", ts)] if fewer else []
        self._open.remove(known)
        until_ts = max(known.record.opened_ts, *(each.until_ts for each in known.record.evidence))
        known.record = replace(known.record, until_ts=until_ts, **why)
        closing = known.publish("closed", ts)
        self._closed.add(closing.ts, known.names)
        return [closing]

    def _end_silent(self, record: Anomaly | Progress) -> list[Incident]:
        """End the anomalies of operators that no longer run, by the records of others."""
        records = []
        for each in tuple(self._open):
            for seen in tuple(each.going_on()):
                last = each.last_records[seen.anomaly]
                if seen.anomaly != record.id and record.ts > _next_record_ts(seen.opened_ts, last.ts) + SILENT_S:
                    records += self._end(each, seen.anomaly, last.until_ts, record.ts, silent_since_ts=last.ts)
        return records

    # State.

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "open": [each.snapshot() for each in self._open],
            "closed": [{"ts": each.ts, "names": list(each.names)} for each in self._closed.each],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        self._open = [restored(each) for each in state["open"]]
        closed = (_Closed(float(each["ts"]), tuple(each["names"])) for each in state["closed"])
        self._closed = _ClosedIncidents(closed)


def _next_record_ts(opened_ts: float, last_ts: float) -> float:
    """Return the time of the next record of an anomaly if it goes on."""
    after_s = GOES_ON_S
    while opened_ts + after_s <= last_ts:
        after_s *= 2.0
    return opened_ts + after_s
