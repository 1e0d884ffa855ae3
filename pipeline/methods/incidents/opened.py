"""An open incident: its newest record, and how that changes with its anomalies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from laggard.pipeline.alarms.text import incident_sentence
from laggard.pipeline.core.records.outputs import Incident, Progress, read_output, write_output
from laggard.pipeline.methods.incidents.evidence import leading_of, names_of, program_of, read_score, resources_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.records.outputs import Anomaly, Blame, Change, Evidence

MOST_EVIDENCE: Final = 20
"""The most anomalies in the record of an incident. Beyond, ended ones with the lowest scores are left out."""

MOST_NAMES: Final = 100
"""The most names of programs that an incident has blamed: the newest ones."""

_BY_NAME: Final = {"host", "limit"}
"""Anomalies of these scopes may last with the normal use of programs: others join them by name only."""


class LastRecord(NamedTuple):
    """The last record of an open anomaly: its time, and the last time with a score above 1."""

    ts: float
    until_ts: float


@dataclass(slots=True)
class Open:
    """An incident that is open.

    Attributes:
        record: its newest record, with later evidence.
        last_records: the last records of its open anomalies, by id.
        names: the programs that it has blamed, the oldest first.

    """

    record: Incident
    last_records: dict[str, LastRecord] = field(default_factory=dict)
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

    def causes(self) -> set[str]:
        """Return the names of what is blamed now."""
        return {seen.blame.name for seen in self.going_on() if seen.blame is not None}

    def same(self, program: Blame, scope: str) -> bool:
        """Return whether an anomaly of this scope that blames this program certainly belongs to it."""
        if scope == "request" or program.name in self.names:
            return True
        return scope != "limit" and not self.resources().isdisjoint(resources_of(program))

    def take_in(self, found: Anomaly | Progress, seen: Evidence, evidence: Sequence[Evidence]) -> None:
        """Add a record of one of its anomalies. Its evidence leads if none was worse so far."""
        self.last_records[found.id] = last_record(found)
        young = all(each.young for each in evidence)
        if seen.score < self.record.score:
            self.record = replace(self.record, young=young, evidence=tuple(evidence))
        else:
            self.record = replace(
                self.record,
                operator=found.operator,
                score=seen.score,
                ranking=found.ranking,
                model_age_s=found.model_age_s,
                young=young,
                evidence=tuple(evidence),
            )
        self._remember(names_of(seen))

    def absorb(self, other: Open) -> None:
        """Add the anomalies of another incident, which is merged into this one and closes."""
        into, now = self.record, other.record
        evidence = sorted([*into.evidence, *now.evidence], key=lambda each: each.opened_ts)
        leader = max(into, now, key=lambda each: each.score)  # the first of equal ones
        self.record = replace(
            into,
            ts=max(into.ts, now.ts),
            operator=leader.operator,
            score=leader.score,
            ranking=leader.ranking,
            model_age_s=leader.model_age_s,
            young=into.young and now.young,
            evidence=tuple(evidence),
            left_out=into.left_out + now.left_out,
        )
        self.last_records |= other.last_records
        self._remember(other.names)
        until_ts = max(now.opened_ts, *(each.until_ts for each in other.last_records.values()))
        other.record = replace(now, until_ts=until_ts)

    def end(self, anomaly: str, until_ts: float) -> None:
        """End one of its anomalies."""
        del self.last_records[anomaly]
        evidence = [
            replace(each, until_ts=max(until_ts, each.opened_ts)) if each.anomaly == anomaly else each
            for each in self.record.evidence
        ]
        self.record = replace(self.record, evidence=tuple(evidence))
        self.record = self._bounded()

    def publish(self, change: Change, ts: float, merged_into: str = "") -> Incident:
        """Return the next record."""
        record = replace(
            self._bounded(),
            number=self.record.number + 1,
            change=change,
            ts=max(self.record.ts, ts),
            merged_into=merged_into,
        )
        leading = leading_of(tuple(self.going_on()) or record.evidence)
        record = replace(record, blame=leading.blame)
        self.record = replace(record, sentence=incident_sentence(record, leading))
        return self.record

    def _bounded(self) -> Incident:
        """Return the record with at most `MOST_EVIDENCE` anomalies, or with more if more are open."""
        incident, left_out = self.record, []
        if (more := len(incident.evidence) - MOST_EVIDENCE) > 0:
            ended = (each for each in incident.evidence if each.anomaly not in self.last_records)
            left_out = sorted(ended, key=lambda each: each.score)[:more]
        if not left_out:
            return incident
        evidence = tuple(each for each in incident.evidence if each not in left_out)
        return replace(incident, evidence=evidence, left_out=incident.left_out + len(left_out))

    def _remember(self, names: Sequence[str]) -> None:
        self.names += [name for name in names if name not in self.names]
        del self.names[:-MOST_NAMES]

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "told": write_output(self.record),
            "heard": {anomaly: list(last) for anomaly, last in self.last_records.items()},
            "names": list(self.names),
        }


def restored(state: dict[str, Any]) -> Open:
    """Read a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
    incident = read_output(state["told"], "incident")
    if not isinstance(incident, Incident):
        raise ValueError(f"incident: expected one, got {incident.kind}")  # noqa: TRY004 - a state that does not fit
    evidence = tuple(replace(each, score=read_score(each.score)) for each in incident.evidence)
    incident = replace(incident, score=read_score(incident.score), evidence=evidence)
    last_records = {anomaly: LastRecord(*map(float, each)) for anomaly, each in state["heard"].items()}
    return Open(incident, last_records, [str(name) for name in state["names"]])


def last_record(found: Anomaly | Progress) -> LastRecord:
    """Return what remains of a record of an open anomaly."""
    return LastRecord(found.ts, found.until_ts if isinstance(found, Progress) else found.ts)
