"""One incident: its phases, evidence, diagnoses, and similar ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from laggard.pipeline.core.records.outputs import Progress
from laggard.pipeline.investigator.api.incidents import Culprit, OneIncident, Score, blamed_of, incident_of
from laggard.pipeline.investigator.api.rows import Basis, Feature
from laggard.pipeline.investigator.applications import (  # noqa: TC001 - msgspec reads annotations
    Equation,
    PerformanceMetric,
)
from laggard.pipeline.investigator.endpoint import (
    Answer,
    Endpoint,
    HostName,
    Number,
    Question,
    RowId,
    RowName,
    Scope,
    Seconds,
    Sentence,
    Young,
)
from laggard.pipeline.methods.applications.queries import past_models
from laggard.pipeline.methods.applications.report import changed, equation_with_units
from laggard.pipeline.methods.diagnoses.words import sentence as doing
from laggard.pipeline.methods.incidents.account import account
from laggard.pipeline.methods.incidents.diagnosed import during
from laggard.pipeline.methods.incidents.queries import REACH_S, blamed_rows
from laggard.pipeline.methods.incidents.silence import silent_hosts
from laggard.pipeline.methods.incidents.similar import similar

if TYPE_CHECKING:
    from laggard.operators.ranking import RowScore
    from laggard.pipeline.core.records.outputs import Anomaly, Evidence, Found, Incident
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.incidents.account import Account

MOST_ROWS: Final = 20
"""The most rows of a ranking."""

MOST_COMPARED: Final = 1_000
"""The most earlier incidents that are compared with one, the newest ones."""


Operator = Annotated[str, msgspec.Meta(description="the operator that detected it: `gaussian`")]


class Phase(Answer, frozen=True):
    """A phase of high use, or the dip between two of them."""

    high: Annotated[
        bool, msgspec.Meta(description="whether it is a phase of high use; false for a dip between two of them")
    ]
    begin_ts: Seconds
    end_ts: Seconds
    mean: Annotated[
        Number,
        msgspec.Meta(
            description="the mean of its readings, in the unit of the first feature of the row; null without readings"
        ),
    ]
    dips: Annotated[int, msgspec.Meta(description="the number of dips that were merged into it")]


class Ranked(Answer, frozen=True):
    """A row of a ranking, with its unusual features."""

    row: RowId
    name: RowName
    score: Score
    basis: Basis
    waits: Annotated[bool, msgspec.Meta(description="whether it waits for others: a symptom, not a cause")]
    features: Annotated[list[Feature], msgspec.Meta(description="the features of the row, worst first")]
    phases: Annotated[
        list[Phase],
        msgspec.Meta(
            description="the phases of its event in the order of time; empty if the operator reports no events"
        ),
    ]


class Seen(Answer, frozen=True):
    """The evidence of one operator for an incident."""

    anomaly: Annotated[str, msgspec.Meta(description="the id of the anomaly")]
    operator: Operator
    scope: Scope
    opened_ts: Seconds
    until_ts: Annotated[
        Number,
        msgspec.Meta(
            description="the last time at which its score was above 1, seconds since the Unix epoch; null while it "
            "lasts"
        ),
    ]
    score: Score
    young: Young
    sentence: Sentence
    blamed: Culprit
    at: Annotated[
        Number,
        msgspec.Meta(description="the time of the newest ranking, seconds since the Unix epoch; null without one"),
    ]
    rows: Annotated[list[Ranked], msgspec.Meta(description="the rows of that ranking, worst first")]


class Report(Answer, frozen=True):
    """A record of an operator on an anomaly of the incident."""

    ts: Seconds
    anomaly: Annotated[str, msgspec.Meta(description="the id of the anomaly")]
    operator: Operator
    scope: Scope
    change: Annotated[Literal["opened", "extended", "ended"], msgspec.Meta(description="the change of the anomaly")]
    score: Score
    sentence: Sentence


class MarkThen(Answer, frozen=True):
    """A mark of the host around the time of the incident."""

    ts: Seconds
    note: Annotated[str, msgspec.Meta(description="the comment of the person or program; may be empty")]


class ModelChange(Answer, frozen=True):
    """The model of an application at the time of the incident, and its difference from the previous one."""

    performance: PerformanceMetric
    built_ts: Seconds
    equation: Equation
    change: Annotated[
        str,
        msgspec.Meta(description="the difference from the previous model in plain words; empty if that one is unknown"),
    ]


class IncidentPage(Answer, frozen=True):
    """An incident with all recorded details."""

    incident: Annotated[OneIncident, msgspec.Meta(description="the incident as of its last record")]
    seen: Annotated[list[Seen], msgspec.Meta(description="the evidence of the operators, oldest first")]
    seen_left_out: Annotated[
        int, msgspec.Meta(description="the number of ended anomalies with lower scores that are left out")
    ]
    reports: Annotated[list[Report], msgspec.Meta(description="the reports of the operators, oldest first")]
    reports_left_out: Annotated[int, msgspec.Meta(description="the number of later reports that are left out")]
    marks: Annotated[
        list[MarkThen],
        msgspec.Meta(
            description="the marks of its host around that time, oldest first; empty unless it is about a host"
        ),
    ]
    models: Annotated[
        list[ModelChange],
        msgspec.Meta(
            description="the model of each performance metric of the application; empty unless it is about one"
        ),
    ]
    now: Seconds


class OneDiagnosis(Answer, frozen=True):
    """A diagnosis of a process in a list."""

    id: Annotated[str, msgspec.Meta(description="the id of the diagnosis: the same in all its records")]
    host: HostName
    row: RowId
    name: Annotated[str, msgspec.Meta(description="the name of the process")]
    pid: Annotated[int, msgspec.Meta(description="the process id")]
    begin_ts: Annotated[
        Number,
        msgspec.Meta(description="the start of its first phase, seconds since the Unix epoch; null without phases"),
    ]
    end_ts: Annotated[
        Number, msgspec.Meta(description="the end of its last phase, seconds since the Unix epoch; null without phases")
    ]
    blamed: Annotated[bool, msgspec.Meta(description="whether it is a culprit of the incident")]
    sentence: Sentence


class IncidentDiagnoses(Answer, frozen=True):
    """The diagnoses of processes during an incident, those of culprits first."""

    diagnoses: Annotated[
        list[OneDiagnosis],
        msgspec.Meta(description="the diagnoses: those of culprits first, then those that began first"),
    ]


class OneSimilar(Answer, frozen=True):
    """An earlier incident that is similar."""

    incident: Annotated[OneIncident, msgspec.Meta(description="the earlier incident")]
    similarity: Annotated[float, msgspec.Meta(description="the similarity, from 0 to 1", ge=0.0, le=1.0)]
    common: Annotated[list[str], msgspec.Meta(description="the common properties of the two incidents, in plain words")]


class SimilarIncidents(Answer, frozen=True):
    """Earlier incidents, the most similar first."""

    similar: Annotated[list[OneSimilar], msgspec.Meta(description="the incidents, most similar first")]
    since: Annotated[float, msgspec.Meta(description="the earliest time of the search, seconds since the Unix epoch")]


class IncidentQuestion(Question, frozen=True):
    """An incident, by its id or a prefix of it."""

    id: Annotated[
        str, msgspec.Meta(min_length=1, max_length=64, description="the id of the incident, or the beginning of it")
    ]


class SimilarQuestion(IncidentQuestion, frozen=True):
    """An incident, and the number of similar ones to return."""

    most: Annotated[int, msgspec.Meta(ge=1, le=100, description="the most similar incidents to return")] = 10


def incident(reading: Reading, question: IncidentQuestion) -> IncidentPage:
    """Return an incident with all recorded details."""
    found, now = reading.incident(question.id), reading.clock()
    details = account(reading.bus, reading.topics, found)
    return IncidentPage(
        incident=incident_of(found, silent_hosts(reading.bus, reading.topics, [found], now), now),
        seen=[_seen(each, details) for each in found.evidence],
        seen_left_out=found.left_out,
        reports=[_record_of(each) for each in details.records],
        reports_left_out=details.left_out,
        marks=[MarkThen(each.ts, each.mark) for each in details.marks],
        models=_models(reading, found) if found.keyed_by == "application" else [],
        now=now,
    )


def incident_diagnoses(reading: Reading, question: IncidentQuestion) -> IncidentDiagnoses:
    """Return the diagnoses of processes during an incident."""
    found = reading.incident(question.id)
    blamed = blamed_rows(found)
    return IncidentDiagnoses(
        [
            OneDiagnosis(
                id=each.id,
                host=each.host,
                row=each.row,
                name=each.name,
                pid=each.pid,
                begin_ts=each.phases[0].begin_ts if each.phases else math.nan,
                end_ts=each.phases[-1].end_ts if each.phases else math.nan,
                blamed=each.row in blamed,
                sentence=doing(each),
            )
            for each in during(reading.bus, reading.topics, found)
        ]
    )


def similar_incidents(reading: Reading, question: SimilarQuestion) -> SimilarIncidents:
    """Return earlier incidents that are similar."""
    found, now = reading.incident(question.id), reading.clock()
    since = found.opened_ts - REACH_S
    entries, _ = reading.incidents.since(since)
    earlier = [each for each in entries if each.fields.opened_ts < found.opened_ts][:MOST_COMPARED]
    return SimilarIncidents(
        [
            OneSimilar(incident_of(each.incident, {}, now), each.similarity, list(each.common))
            for each in similar(found, reading.incidents.read(earlier), question.most)
        ],
        since,
    )


def _seen(evidence: Evidence, details: Account) -> Seen:
    newest: Found | None = details.newest.get(evidence.anomaly)
    return Seen(
        anomaly=evidence.anomaly,
        operator=evidence.operator,
        scope=evidence.scope,
        opened_ts=evidence.opened_ts,
        until_ts=evidence.until_ts,
        score=evidence.score,
        young=evidence.young,
        sentence=evidence.sentence,
        blamed=blamed_of(evidence.blame),
        at=math.nan if newest is None else newest.ts,
        rows=[] if newest is None else [_ranked(each) for each in newest.ranking.rows[:MOST_ROWS]],
    )


def _ranked(row: RowScore) -> Ranked:
    return Ranked(
        row=row.row,
        name=row.name,
        score=row.score,
        basis=row.basis,
        waits=row.waits,
        features=[
            Feature(each.feature, each.value, each.mean, each.standard_deviation, each.score, each.recent)
            for each in row.features
        ],
        phases=[Phase(each.high, each.begin_ts, each.end_ts, each.mean, each.dips) for each in row.phases],
    )


def _record_of(record: Anomaly | Progress) -> Report:
    change = record.change if isinstance(record, Progress) else "opened"
    return Report(record.ts, record.id, record.operator, record.scope, change, record.score, record.sentence)


def _models(reading: Reading, record: Incident) -> list[ModelChange]:
    """Return the model of each performance metric at the time of the incident's last record."""
    changes = []
    for course in past_models(reading.bus, reading.topics, record.opened_ts, record.key):
        models = [each for each in course.models if each.ts <= record.ts] or list(course.models[-1:])
        change = changed(models[0], models[1]) if len(models) > 1 else ""
        changes.append(ModelChange(models[0].performance, models[0].ts, equation_with_units(models[0]), change))
    return changes


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("/incident", "One incident with all recorded details.", IncidentPage, incident, IncidentQuestion),
    Endpoint(
        "/incident/diagnoses",
        "Diagnoses of processes during the incident.",
        IncidentDiagnoses,
        incident_diagnoses,
        IncidentQuestion,
    ),
    Endpoint(
        "/incident/similar",
        "Similar earlier incidents, and why they are similar.",
        SimilarIncidents,
        similar_incidents,
        SimilarQuestion,
    ),
)
