"""Joins what operators say of one key to incidents: anomalies of one trouble, over time, rows and operators.

An incident opens with its first anomaly, grows with each that belongs to it, and closes when the last of them has
ended. It needs no clock: how long a score stays calm before its anomaly has ended, and that what comes again before is
the same trouble, the streams know (`courses.JOINED_S`), and they tell it in the time of their own frames. So a closing
has the time of the frame at which that was so. How long a trouble lasts before it is one is the operators' business
too: their scores ask for persistence.

Two anomalies of a key that have not ended both are one trouble, unless they blame different processes that take
different resources. So each of these joins:

- the same program is blamed (by name), whatever it takes: also where that anomaly has ended, but the incident has not;
- the same resource is taken: several processes compete for it, or one of them suffers from the other;
- one of the two blames nobody, or the host itself: what a process does to its host is seen there too, for as long as
  `FELT_S` after the host was first blamed;
- the counter that is blamed is not known.

A host may be short of a resource for days, by what its programs always use. So where an anomaly of the host blames a
program, that it takes the same resource makes it part of an incident that is open, but others of it only by its name.
A limit of a control group or a process may be near for weeks, too, and nobody beyond it competes for what it limits: an
anomaly of a limit belongs to others by the name of the program only.

One that belongs to two incidents by the first two rules makes them one: the younger closes, `merged_into` the other.

An anomaly that was told by an operator which is far behind the others may lie in a time whose incident has closed. It
opens another one, from the closing of that on: incidents that blame the same program never overlap.

An anomaly whose operator falls silent (it is not run any more) would never end: it counts as ended once other operators
are past the time at which its stream would have said that it goes on (`courses.GOES_ON_S`), by as much as one of them
may be behind another (`eventtime.SILENT_S`). Of a host that falls silent the operators tell.

An incident whose last anomaly was not seen to end has not been either, and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from laggard.pipeline.alarms.courses import GOES_ON_S
from laggard.pipeline.alarms.text import blames_host, incident_sentence
from laggard.pipeline.eventtime import SILENT_S
from laggard.pipeline.records.outputs import Evidence, Incident, Progress, incident_id, read_output, write_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.records.outputs import Anomaly, Blame, Change

MOST_EVIDENCE: Final = 20
"""So many anomalies are told of in an incident; beyond that those that have ended with the least score are left out."""

FELT_S: Final = 900.0
"""What a process does to its host is seen there within this time, in seconds."""

MOST_NAMES: Final = 100
"""So many names of programs that an incident blamed are remembered, the newest."""

_BY_NAME: Final = {"host", "limit"}
"""An anomaly of such a scope may last for as long as programs use what they always do: others join it by name only."""

MOST_CLOSED: Final = 16
"""So many incidents that closed are remembered, the newest: beside which no other of the same program may open."""


class _Heard(NamedTuple):
    """What was heard last of an anomaly that has not ended: when, and when its score was above 1."""

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
        told: its newest record, with what has become known of its evidence since.
        heard: of its anomalies that have not ended, by id.
        names: programs that it blamed, the oldest first.

    """

    told: Incident
    heard: dict[str, _Heard] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def going_on(self) -> Iterator[Evidence]:
        """The evidence of anomalies that have not ended."""
        return (each for each in self.told.evidence if each.anomaly in self.heard)

    def resources(self) -> set[str]:
        """What is taken by those that are blamed now for what they do themselves."""
        return {each for seen in self.going_on() if seen.scope not in _BY_NAME for each in _taken(seen.blame)}

    def blames(self) -> bool:
        """Whether a program is blamed now."""
        return any(_program(seen) is not None for seen in self.going_on())

    def same(self, program: Blame, scope: str) -> bool:
        """Whether an anomaly of this scope that blames this program is of this trouble for sure."""
        if program.name in self.names:
            return True
        return scope != "limit" and not self.resources().isdisjoint(_taken(program))


class Joiner:
    """The incidents of one key; deterministic, and pure but for its own state.

    Attributes:
        state_version: of the form of `snapshot`'s result.

    """

    state_version: ClassVar[int] = 1

    def __init__(self) -> None:
        self._open: list[_Open] = []  # in the order in which they opened
        self._closed: list[_Closed] = []

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Those that are open, the oldest first, each with what is known of it."""
        return tuple(each.told for each in self._open)

    def take(self, found: Anomaly | Progress) -> list[Incident]:
        """Take what an operator said next; gives what is to be told of the incidents."""
        told = self._end_silent(found)
        known = next((each for each in self._open if found.id in each.heard), None)
        if isinstance(found, Progress) and found.change == "ended":
            if known is None:
                return told
            why = {"silent_since_ts": found.silent_since_ts, "accepted": found.accepted, "feedback": found.feedback}
            return [*told, *self._end(known, found.id, found.until_ts, found.ts, **why)]
        if known is None:
            return [*told, *self._place(found)]
        # What is said once more, as after an operator was reset to an earlier place, changes nothing.
        return [*told, *self._extend(known, found)] if isinstance(found, Progress) else told

    def give_up(self) -> list[Incident]:
        """Close all that is open: nobody will say any more of this key, or it would not be remembered."""
        told = []
        for each in tuple(self._open):
            for anomaly, heard in tuple(each.heard.items()):
                told += self._end(each, anomaly, heard.until_ts, each.told.ts, silent_since_ts=heard.ts)
        return told

    # Anomalies that come.

    def _place(self, found: Anomaly | Progress) -> list[Incident]:
        """Find the incident of an anomaly that is not known."""
        seen = _evidence(found)
        program = _program(seen)
        sure = [each for each in self._open if program is not None and each.same(program, seen.scope)]
        if not sure and (perhaps := self._perhaps(seen)) is not None:
            sure = [perhaps]
        if not sure:
            return [self._begin(found, seen)]
        return self._join(sure, found, seen)

    def _perhaps(self, seen: Evidence) -> _Open | None:
        """The incident that an anomaly belongs to which has no program or no resource in common with any."""
        program = _program(seen)
        if program is not None and _taken(program):
            felt = (each for each in self._open if not each.blames())
            return next((each for each in felt if seen.opened_ts <= each.told.opened_ts + FELT_S), None)
        taken = set(_taken(seen.blame))
        return min(self._open, key=lambda each: each.resources().isdisjoint(taken), default=None)

    def _begin(self, found: Anomaly | Progress, seen: Evidence) -> Incident:
        names = _names(seen)
        opened_ts = self._after_closed(seen.opened_ts, names)
        incident = Incident(
            # Where it counted as ended and goes on, there was an incident that it opened.
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
        opened = _Open(incident, {found.id: _heard(found)}, names)
        self._open.append(opened)
        return _tell(opened, "opened", found.ts)

    def _after_closed(self, opened_ts: float, names: Sequence[str]) -> float:
        """When an incident opens that began so early: not before an earlier one of the same program closed."""
        closed = (each.ts for each in self._closed if not set(names).isdisjoint(each.names))
        return max([opened_ts, *closed])

    def _take_in(self, known: _Open, found: Anomaly | Progress, seen: Evidence, evidence: Sequence[Evidence]) -> None:
        """Take what was found last into an incident, which began as early as all of its anomalies."""
        known.heard[found.id] = _heard(found)
        known.told = _with(known.told, found, seen, evidence)
        _remember(known, _names(seen))
        if seen.opened_ts < known.told.opened_ts:
            opened_ts = min(self._after_closed(seen.opened_ts, known.names), known.told.opened_ts)
            known.told = replace(known.told, opened_ts=opened_ts)

    def _join(self, incidents: list[_Open], found: Anomaly | Progress, seen: Evidence) -> list[Incident]:
        """Put an anomaly into the oldest of these incidents, and the others too."""
        into = incidents[0]
        self._take_in(into, found, seen, [*into.told.evidence, seen])
        return [*self._merge(into, incidents[1:], found.ts), _tell(into, "extended", found.ts)]

    def _extend(self, known: _Open, found: Progress) -> list[Incident]:
        """An anomaly that is known got worse, blames another one, or goes on."""
        seen = _evidence(found)
        evidence = [seen if each.anomaly == found.id else each for each in known.told.evidence]
        self._take_in(known, found, seen, evidence)
        program = _program(seen)
        named = program is not None and seen.scope == "host"
        same = [
            each
            for each in self._open
            if each is known
            or (program is not None and (program.name in each.names if named else each.same(program, seen.scope)))
        ]
        return [*self._merge(same[0], same[1:], found.ts), _tell(same[0], "extended", found.ts)]

    def _merge(self, into: _Open, others: Sequence[_Open], ts: float) -> list[Incident]:
        """Make several incidents one; gives the closing of the others."""
        told = []
        for other in others:
            self._open.remove(other)
            now = other.told
            evidence = sorted([*into.told.evidence, *now.evidence], key=lambda each: each.opened_ts)
            leader = max(into.told, now, key=lambda each: each.score)  # of two that are alike the first
            into.told = replace(
                into.told,
                ts=max(into.told.ts, now.ts),
                operator=leader.operator,
                score=leader.score,
                ranking=leader.ranking,
                model_age_s=leader.model_age_s,
                young=into.told.young and now.young,
                evidence=tuple(evidence),
                left_out=into.told.left_out + now.left_out,
            )
            into.heard |= other.heard
            _remember(into, other.names)
            other.told = replace(now, until_ts=max(now.opened_ts, *(each.until_ts for each in other.heard.values())))
            told.append(_tell(other, "closed", ts, merged_into=into.told.id))
        return told

    # Anomalies that end.

    def _end(self, known: _Open, anomaly: str, until_ts: float, ts: float, **why: Any) -> list[Incident]:
        """An anomaly has ended, `why` as the incident says it; gives the closing of that where it was the last one."""
        del known.heard[anomaly]
        evidence = [
            replace(each, until_ts=max(until_ts, each.opened_ts)) if each.anomaly == anomaly else each
            for each in known.told.evidence
        ]
        known.told = _bounded(replace(known.told, evidence=tuple(evidence)), known.heard)
        if known.heard:
            return []
        self._open.remove(known)
        until_ts = max(known.told.opened_ts, *(each.until_ts for each in known.told.evidence))
        known.told = replace(known.told, until_ts=until_ts, **why)
        told = _tell(known, "closed", ts)
        self._closed = [*self._closed, _Closed(told.ts, tuple(known.names))][-MOST_CLOSED:]
        return [told]

    def _end_silent(self, found: Anomaly | Progress) -> list[Incident]:
        """End the anomalies of which nobody will say more, as what is heard of others shows."""
        told = []
        for each in tuple(self._open):
            for seen in tuple(each.going_on()):
                heard = each.heard[seen.anomaly]
                if seen.anomaly != found.id and found.ts > _next_word(seen.opened_ts, heard.ts) + SILENT_S:
                    told += self._end(each, seen.anomaly, heard.until_ts, found.ts, silent_since_ts=heard.ts)
        return told

    # State.

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "open": [
                {
                    "told": write_output(each.told),
                    "heard": {anomaly: list(heard) for anomaly, heard in each.heard.items()},
                    "names": list(each.names),
                }
                for each in self._open
            ],
            "closed": [{"ts": each.ts, "names": list(each.names)} for each in self._closed],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` or `KeyError` naming what does not fit."""
        self._open = [_restored(each) for each in state["open"]]
        self._closed = [_Closed(float(each["ts"]), tuple(each["names"])) for each in state["closed"]]


def _restored(state: dict[str, Any]) -> _Open:
    told = read_output(state["told"], "incident")
    if not isinstance(told, Incident):
        raise ValueError(f"incident: expected one, got {told.kind}")  # noqa: TRY004 - a state that does not fit
    evidence = tuple(replace(each, score=_score(each.score)) for each in told.evidence)
    told = replace(told, score=_score(told.score), evidence=evidence)
    heard = {anomaly: _Heard(*map(float, each)) for anomaly, each in state["heard"].items()}
    return _Open(told, heard, [str(name) for name in state["names"]])


def _tell(about: _Open, change: Change, ts: float, merged_into: str = "") -> Incident:
    """The next record of an incident."""
    told = replace(
        _bounded(about.told, about.heard),
        number=about.told.number + 1,
        change=change,
        ts=max(about.told.ts, ts),
        merged_into=merged_into,
    )
    leading = _leading(tuple(about.going_on()) or told.evidence)
    told = replace(told, blame=leading.blame)
    about.told = replace(told, sentence=incident_sentence(told, leading))
    return about.told


def _with(incident: Incident, found: Anomaly | Progress, seen: Evidence, evidence: Sequence[Evidence]) -> Incident:
    """An incident with what was found last; that leads where nothing was worse so far."""
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


def _bounded(incident: Incident, heard: dict[str, _Heard]) -> Incident:
    """The same with no more evidence than may be told, but for what goes on."""
    left_out = []
    if (more := len(incident.evidence) - MOST_EVIDENCE) > 0:
        ended = (each for each in incident.evidence if each.anomaly not in heard)
        left_out = sorted(ended, key=lambda each: each.score)[:more]
    if not left_out:
        return incident
    evidence = tuple(each for each in incident.evidence if each not in left_out)
    return replace(incident, evidence=evidence, left_out=incident.left_out + len(left_out))


def _leading(evidence: Sequence[Evidence]) -> Evidence:
    """Return the worst of the evidence: of what blames a program, else of what blames the host, else of all.

    Of those that are as bad it is the newest: an older one may be calm, and ends only when it has been so for a while.
    """
    programs = [each for each in evidence if _program(each) is not None]
    blaming = programs or [each for each in evidence if each.blame is not None] or evidence
    return max(blaming, key=lambda each: (each.score, each.opened_ts))


def _evidence(found: Anomaly | Progress) -> Evidence:
    return Evidence(
        anomaly=found.id,
        operator=found.operator,
        scope=found.scope,
        opened_ts=_began(found),
        until_ts=math.nan,
        score=_score(found.score),
        young=found.young,
        sentence=found.sentence,
        blame=found.blame,
    )


def _began(found: Anomaly | Progress) -> float:
    if not math.isnan(found.onset_ts):
        return found.onset_ts
    return found.opened_ts if isinstance(found, Progress) else found.ts


def _score(score: float) -> float:
    """A score as it was before it was written as JSON, which has no infinity."""
    return math.inf if math.isnan(score) else score


def _heard(found: Anomaly | Progress) -> _Heard:
    return _Heard(found.ts, found.until_ts if isinstance(found, Progress) else found.ts)


def _remember(about: _Open, names: Sequence[str]) -> None:
    about.names += [name for name in names if name not in about.names]
    del about.names[:-MOST_NAMES]


def _program(seen: Evidence) -> Blame | None:
    """Whom an anomaly blames, where that is not the host itself."""
    return None if blames_host(seen.blame, seen.scope) else seen.blame


def _names(seen: Evidence) -> list[str]:
    program = _program(seen)
    return [] if program is None else [program.name]


def _taken(blame: Blame | None) -> tuple[str, ...]:
    """What is taken, or lacks: resources, or else the kind of the counter; nothing where no counter is known."""
    if blame is None or not blame.feature:
        return ()
    return blame.resources or (blame.feature.partition("_")[0],)


def _next_word(opened_ts: float, heard_ts: float) -> float:
    """When the stream of an anomaly says next that it goes on, if it does."""
    after_s = GOES_ON_S
    while opened_ts + after_s <= heard_ts:
        after_s *= 2.0
    return opened_ts + after_s
