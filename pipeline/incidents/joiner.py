"""Incidents of one key, each joined from the anomalies of one fault, over time, rows and operators.

An incident opens with its first anomaly, grows with each that belongs to it, and closes when the last of them has
ended. It needs no clock. The streams decide, in the time of their own frames, how long a score must stay calm before
its anomaly ends, and that a recurrence before that is the same fault (`courses.JOINED_S`). So the time of a closing is
that of the frame that ended the last anomaly. The operators decide how long a deviation must last to be an anomaly.

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

An anomaly that joins two incidents by the first two rules merges them: the younger closes, `merged_into` the other.

An anomaly of an operator that is far behind the others may belong to the time of an incident that has closed. It opens
a new one from that closing on: incidents that blame the same program never overlap.

An anomaly of an operator that no longer runs would never end. It counts as ended once other operators are past the time
at which its stream would have published it again (`courses.GOES_ON_S`), by as much as one of them may lag behind
another (`eventtime.SILENT_S`). The operators end the anomalies of a silent host.

If the end of the last anomaly of an incident was not observed, the incident says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from laggard.pipeline.alarms.courses import GOES_ON_S
from laggard.pipeline.alarms.text import incident_sentence
from laggard.pipeline.eventtime import SILENT_S
from laggard.pipeline.incidents.evidence import (
    evidence_of,
    leading_of,
    names_of,
    program_of,
    read_score,
    resources_of,
)
from laggard.pipeline.records.outputs import Incident, Progress, incident_id, read_output, write_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.records.outputs import Anomaly, Blame, Change, Evidence

MOST_EVIDENCE: Final = 20
"""The most anomalies in the record of an incident. Beyond, ended ones with the lowest scores are left out."""

FELT_S: Final = 900.0
"""The effect of a process on its host shows within this time, in seconds."""

MOST_NAMES: Final = 100
"""The most names of programs that an incident has blamed: the newest ones."""

_BY_NAME: Final = {"host", "limit"}
"""Anomalies of these scopes may last with the normal use of programs: others join them by name only."""

MOST_CLOSED: Final = 16
"""The most closed incidents that are remembered, the newest ones: no other of the same program may overlap them."""


class _LastRecord(NamedTuple):
    """The last record of an open anomaly: its time, and the last time with a score above 1."""

    ts: float
    until_ts: float


class _Closed(NamedTuple):
    """An incident that closed at `ts`, and the programs that it blamed."""

    ts: float
    names: tuple[str, ...]


@dataclass(slots=True)
class _Open:
    """An incident that is open.

    Attributes:
        record: its newest record, with later evidence.
        last_records: the last records of its open anomalies, by id.
        names: the programs that it has blamed, the oldest first.

    """

    record: Incident
    last_records: dict[str, _LastRecord] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def going_on(self) -> Iterator[Evidence]:
        """Return the evidence of open anomalies."""
        return (each for each in self.record.evidence if each.anomaly in self.last_records)

    def resources(self) -> set[str]:
        """Return the resources used by the present culprits."""
        return {each for seen in self.going_on() if seen.scope not in _BY_NAME for each in resources_of(seen.blame)}

    def blames(self) -> bool:
        """Return whether a program is blamed now."""
        return any(program_of(seen) is not None for seen in self.going_on())

    def same(self, program: Blame, scope: str) -> bool:
        """Return whether an anomaly of this scope that blames this program certainly belongs to it."""
        if program.name in self.names:
            return True
        return scope != "limit" and not self.resources().isdisjoint(resources_of(program))


class Joiner:
    """The incidents of one key; deterministic, and pure except for its own state.

    Attributes:
        state_version: the version of the form of its state.

    """

    state_version: ClassVar[int] = 1

    def __init__(self) -> None:
        self._open: list[_Open] = []  # in the order in which they opened
        self._closed: list[_Closed] = []

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """The open ones, the oldest first, each with its evidence so far."""
        return tuple(each.record for each in self._open)

    def take(self, found: Anomaly | Progress) -> list[Incident]:
        """Process the next record of an operator, and return the records of incidents to publish."""
        told = self._end_silent(found)
        known = next((each for each in self._open if found.id in each.last_records), None)
        if isinstance(found, Progress) and found.change == "ended":
            if known is None:
                return told
            why = {"silent_since_ts": found.silent_since_ts, "accepted": found.accepted, "feedback": found.feedback}
            return [*told, *self._end(known, found.id, found.until_ts, found.ts, **why)]
        if known is None:
            return [*told, *self._place(found)]
        # A repeated anomaly, as after the reset of an operator, changes nothing.
        return [*told, *self._extend(known, found)] if isinstance(found, Progress) else told

    def give_up(self) -> list[Incident]:
        """Close all open incidents, since the state of the key is dropped."""
        told = []
        for each in tuple(self._open):
            for anomaly, heard in tuple(each.last_records.items()):
                told += self._end(each, anomaly, heard.until_ts, each.record.ts, silent_since_ts=heard.ts)
        return told

    # New and changed anomalies.

    def _place(self, found: Anomaly | Progress) -> list[Incident]:
        """Find the incident of a new anomaly."""
        seen = evidence_of(found)
        program = program_of(seen)
        sure = [each for each in self._open if program is not None and each.same(program, seen.scope)]
        if not sure and (perhaps := self._perhaps(seen)) is not None:
            sure = [perhaps]
        if not sure:
            return [self._begin(found, seen)]
        return self._join(sure, found, seen)

    def _perhaps(self, seen: Evidence) -> _Open | None:
        """Return the incident of an anomaly that has no program and no resource in common with any."""
        program = program_of(seen)
        if program is not None and resources_of(program):
            felt = (each for each in self._open if not each.blames())
            return next((each for each in felt if seen.opened_ts <= each.record.opened_ts + FELT_S), None)
        taken = set(resources_of(seen.blame))
        return min(self._open, key=lambda each: each.resources().isdisjoint(taken), default=None)

    def _begin(self, found: Anomaly | Progress, seen: Evidence) -> Incident:
        names = names_of(seen)
        opened_ts = self._after_closed(seen.opened_ts, names)
        incident = Incident(
            # An anomaly that goes on after it counted as ended may have opened an incident of its own id before.
            id=incident_id(f"{found.id} {found.number}" if isinstance(found, Progress) else found.id),
            number=0,
            change="opened",
            ts=max(found.ts, opened_ts),
            opened_ts=opened_ts,
            until_ts=math.nan,
            keyed_by=found.keyed_by,
            key=found.key,
            operator=found.operator,
            score=seen.score,
            blame=seen.blame,
            ranking=found.ranking,
            sentence="",
            model_age_s=found.model_age_s,
            young=found.young,
            live=found.live,
            evidence=(seen,),
        )
        opened = _Open(incident, {found.id: _last_record(found)}, names)
        self._open.append(opened)
        return _next_record(opened, "opened", found.ts)

    def _after_closed(self, opened_ts: float, names: Sequence[str]) -> float:
        """Return the time at which an incident opens: not before the closing of an earlier one of the same program."""
        closed = (each.ts for each in self._closed if not set(names).isdisjoint(each.names))
        return max([opened_ts, *closed])

    def _take_in(self, known: _Open, found: Anomaly | Progress, seen: Evidence, evidence: Sequence[Evidence]) -> None:
        """Add evidence to an incident, which begins with the earliest of its anomalies."""
        known.last_records[found.id] = _last_record(found)
        known.record = _with(known.record, found, seen, evidence)
        _remember(known, names_of(seen))
        if seen.opened_ts < known.record.opened_ts:
            opened_ts = min(self._after_closed(seen.opened_ts, known.names), known.record.opened_ts)
            known.record = replace(known.record, opened_ts=opened_ts)

    def _join(self, incidents: list[_Open], found: Anomaly | Progress, seen: Evidence) -> list[Incident]:
        """Add an anomaly to the oldest of these incidents, and merge the others into it."""
        into = incidents[0]
        self._take_in(into, found, seen, [*into.record.evidence, seen])
        return [*self._merge(into, incidents[1:], found.ts), _next_record(into, "extended", found.ts)]

    def _extend(self, known: _Open, found: Progress) -> list[Incident]:
        """Follow a known anomaly that is worse, blames another row, or goes on."""
        seen = evidence_of(found)
        evidence = [seen if each.anomaly == found.id else each for each in known.record.evidence]
        self._take_in(known, found, seen, evidence)
        program = program_of(seen)
        named = program is not None and seen.scope == "host"
        same = [
            each
            for each in self._open
            if each is known
            or (program is not None and (program.name in each.names if named else each.same(program, seen.scope)))
        ]
        return [*self._merge(same[0], same[1:], found.ts), _next_record(same[0], "extended", found.ts)]

    def _merge(self, into: _Open, others: Sequence[_Open], ts: float) -> list[Incident]:
        """Merge incidents, and return the closings of the others."""
        told = []
        for other in others:
            self._open.remove(other)
            now = other.record
            evidence = sorted([*into.record.evidence, *now.evidence], key=lambda each: each.opened_ts)
            leader = max(into.record, now, key=lambda each: each.score)  # the first of equal ones
            into.record = replace(
                into.record,
                ts=max(into.record.ts, now.ts),
                operator=leader.operator,
                score=leader.score,
                ranking=leader.ranking,
                model_age_s=leader.model_age_s,
                young=into.record.young and now.young,
                evidence=tuple(evidence),
                left_out=into.record.left_out + now.left_out,
            )
            into.last_records |= other.last_records
            _remember(into, other.names)
            other.record = replace(
                now, until_ts=max(now.opened_ts, *(each.until_ts for each in other.last_records.values()))
            )
            told.append(_next_record(other, "closed", ts, merged_into=into.record.id))
        return told

    # Ended anomalies.

    def _end(self, known: _Open, anomaly: str, until_ts: float, ts: float, **why: Any) -> list[Incident]:
        """End an anomaly for the reason `why`, and return the closing of its incident if it was the last one."""
        del known.last_records[anomaly]
        evidence = [
            replace(each, until_ts=max(until_ts, each.opened_ts)) if each.anomaly == anomaly else each
            for each in known.record.evidence
        ]
        known.record = _bounded(replace(known.record, evidence=tuple(evidence)), known.last_records)
        if known.last_records:
            return []
        self._open.remove(known)
        until_ts = max(known.record.opened_ts, *(each.until_ts for each in known.record.evidence))
        known.record = replace(known.record, until_ts=until_ts, **why)
        told = _next_record(known, "closed", ts)
        self._closed = [*self._closed, _Closed(told.ts, tuple(known.names))][-MOST_CLOSED:]
        return [told]

    def _end_silent(self, found: Anomaly | Progress) -> list[Incident]:
        """End the anomalies of operators that no longer run, by the records of others."""
        told = []
        for each in tuple(self._open):
            for seen in tuple(each.going_on()):
                heard = each.last_records[seen.anomaly]
                if seen.anomaly != found.id and found.ts > _next_record_ts(seen.opened_ts, heard.ts) + SILENT_S:
                    told += self._end(each, seen.anomaly, heard.until_ts, found.ts, silent_since_ts=heard.ts)
        return told

    # State.

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "open": [
                {
                    "told": write_output(each.record),
                    "heard": {anomaly: list(heard) for anomaly, heard in each.last_records.items()},
                    "names": list(each.names),
                }
                for each in self._open
            ],
            "closed": [{"ts": each.ts, "names": list(each.names)} for each in self._closed],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        self._open = [_restored(each) for each in state["open"]]
        self._closed = [_Closed(float(each["ts"]), tuple(each["names"])) for each in state["closed"]]


def _restored(state: dict[str, Any]) -> _Open:
    told = read_output(state["told"], "incident")
    if not isinstance(told, Incident):
        raise ValueError(f"incident: expected one, got {told.kind}")  # noqa: TRY004 - a state that does not fit
    evidence = tuple(replace(each, score=read_score(each.score)) for each in told.evidence)
    told = replace(told, score=read_score(told.score), evidence=evidence)
    heard = {anomaly: _LastRecord(*map(float, each)) for anomaly, each in state["heard"].items()}
    return _Open(told, heard, [str(name) for name in state["names"]])


def _next_record(about: _Open, change: Change, ts: float, merged_into: str = "") -> Incident:
    """Return the next record of an incident."""
    told = replace(
        _bounded(about.record, about.last_records),
        number=about.record.number + 1,
        change=change,
        ts=max(about.record.ts, ts),
        merged_into=merged_into,
    )
    leading = leading_of(tuple(about.going_on()) or told.evidence)
    told = replace(told, blame=leading.blame)
    about.record = replace(told, sentence=incident_sentence(told, leading))
    return about.record


def _with(incident: Incident, found: Anomaly | Progress, seen: Evidence, evidence: Sequence[Evidence]) -> Incident:
    """Return an incident with new evidence, which leads if none was worse so far."""
    young = all(each.young for each in evidence)
    if seen.score < incident.score:
        return replace(incident, young=young, evidence=tuple(evidence))
    return replace(
        incident,
        operator=found.operator,
        score=seen.score,
        ranking=found.ranking,
        model_age_s=found.model_age_s,
        young=young,
        evidence=tuple(evidence),
    )


def _bounded(incident: Incident, heard: dict[str, _LastRecord]) -> Incident:
    """Return the incident with at most `MOST_EVIDENCE` anomalies, or with more if more are open."""
    left_out = []
    if (more := len(incident.evidence) - MOST_EVIDENCE) > 0:
        ended = (each for each in incident.evidence if each.anomaly not in heard)
        left_out = sorted(ended, key=lambda each: each.score)[:more]
    if not left_out:
        return incident
    evidence = tuple(each for each in incident.evidence if each not in left_out)
    return replace(incident, evidence=evidence, left_out=incident.left_out + len(left_out))


def _last_record(found: Anomaly | Progress) -> _LastRecord:
    return _LastRecord(found.ts, found.until_ts if isinstance(found, Progress) else found.ts)


def _remember(about: _Open, names: Sequence[str]) -> None:
    about.names += [name for name in names if name not in about.names]
    del about.names[:-MOST_NAMES]


def _next_record_ts(opened_ts: float, heard_ts: float) -> float:
    """Return the time of the next record of an anomaly if it goes on."""
    after_s = GOES_ON_S
    while opened_ts + after_s <= heard_ts:
        after_s *= 2.0
    return opened_ts + after_s
