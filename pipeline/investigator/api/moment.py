"""A host at a moment, or now (S0, section 4): processes by anomaly, and the features of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.alarms.status import ALARMED, Status
from laggard.pipeline.history.report import belief, host_figures, plain_findings, since
from laggard.pipeline.investigator.api.rows import Row, finite, host_row_of, row_of, unjudged_row
from laggard.pipeline.investigator.endpoint import (
    Answer,
    Counter,
    Endpoint,
    HostName,
    Number,
    Question,
    RowId,
    Scope,
    Seconds,
    Text,
    Tick,
    Time,
    WantedHost,
    Young,
)
from laggard.pipeline.investigator.events import MarkNear, OpenIncident  # noqa: TC001 - msgspec reads annotations
from laggard.pipeline.investigator.moments import HOST, LISTED_FEATURES
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from laggard.pipeline.investigator.moments import AnalyzedMoment
    from laggard.pipeline.investigator.reading import Reading

MARKS_WITHIN_S: Final = 600.0
"""The longest time between a moment and the marks that are shown with it, in seconds."""

EXPECTED_ROWS: Final = 8
"""The number of worst rows whose series the page probably requests."""

WantedMoment = Annotated[
    Number, msgspec.Meta(description="the requested moment, seconds since the Unix epoch; null for now")
]
Live = Annotated[bool, msgspec.Meta(description="whether no moment was requested: it is the newest frame")]


class Belief(Answer, frozen=True):
    """The reliability of the findings."""

    sentence: Annotated[
        str,
        msgspec.Meta(description="a sentence on how long the model has learned; its wording may change at any time"),
    ]
    young: Young
    age_s: Annotated[float, msgspec.Meta(description="the time for which the model has learned, in seconds")]


class Growth(Answer, frozen=True):
    """The start of the subject's steady growth, and its value then."""

    ts: Seconds
    value: Annotated[Number, msgspec.Meta(description="the value of the counter at that time, in its base unit")]
    before: Annotated[
        bool, msgspec.Meta(description="whether it began even earlier: no older frame is stored, or was read")
    ]


class Figure(Answer, frozen=True):
    """A counter of the host that is always shown."""

    label: Annotated[str, msgspec.Meta(description="a short label of the counter, for people")]
    feature: Counter
    value: Annotated[Number, msgspec.Meta(description="the value in the base unit of the counter")]


class ShortLived(Answer, frozen=True):
    """The number of processes of one name that came and went just before."""

    name: Annotated[str, msgspec.Meta(description="the name of the processes")]
    count: Annotated[int, msgspec.Meta(description="the number of these processes that appear in frames")]


class Subject(Answer, frozen=True):
    """The main subject of the findings; a page selects it by default."""

    scope: Scope
    row: RowId
    feature: Counter


class Moment(Answer, frozen=True):
    """The findings on a host at a moment: what was slow, and the culprits."""

    host: HostName
    ts: Annotated[
        float,
        msgspec.Meta(
            description="the time of the judged frame, the last one until the moment or the next one, in seconds"
        ),
    ]
    asked_ts: WantedMoment
    tick_s: Tick
    live: Live
    silent_s: Annotated[float, msgspec.Meta(description="seconds since the newest frame if it is overdue, otherwise 0")]
    scope: Scope
    score: Annotated[
        Number,
        msgspec.Meta(description="the score of the frame; above 1 is anomalous; null if it is not a finite number"),
    ]
    status: Annotated[Status, msgspec.Meta(description="the status of the host at this moment")]
    sentences: Annotated[list[str], msgspec.Meta(description="the findings, in sentences for people")]
    belief: Annotated[Belief, msgspec.Meta(description="the reliability of the findings")]
    subject: Annotated[Subject | None, msgspec.Meta(description="the main subject of the findings; null without one")]
    rows: Annotated[list[Row], msgspec.Meta(description="the rows, worst first, then those that are not judged yet")]
    rows_left_out: Annotated[int, msgspec.Meta(description="the number of further rows that are left out")]
    host_row: Annotated[Row | None, msgspec.Meta(description="the own counters of the host; null without any")]
    host_summary: Annotated[
        list[Figure],
        msgspec.Meta(description="the values of some counters of the host; those without a value are left out"),
    ]
    short_lived: Annotated[
        list[ShortLived],
        msgspec.Meta(description="the short-lived processes, most frequent names first; empty if they do not matter"),
    ]
    since: Annotated[
        Number,
        msgspec.Meta(
            description="the start of learning, seconds since the Unix epoch, if older records could not be read; "
            "otherwise null"
        ),
    ]
    began: Annotated[
        Number, msgspec.Meta(description="the onset of the deviation, seconds since the Unix epoch; null without one")
    ]
    began_before: Annotated[
        bool,
        msgspec.Meta(description="whether the deviation began even earlier: no older frame is stored, or was read"),
    ]
    grown: Annotated[
        Growth | None,
        msgspec.Meta(
            description="the start of steady growth; null if the counter of the subject has not grown steadily"
        ),
    ]
    marks: Annotated[
        list[MarkNear], msgspec.Meta(description="the marks of the host within 10 minutes of the frame, newest first")
    ]
    incidents: Annotated[
        list[OpenIncident],
        msgspec.Meta(description="the incidents of the host that were open then, the one that opened last first"),
    ]


class OneRow(Answer, frozen=True):
    """A row at a moment, with all of its features."""

    host: HostName
    ts: Seconds
    asked_ts: WantedMoment
    tick_s: Tick
    live: Live
    scope: Scope
    row: Annotated[Row, msgspec.Meta(description="the row with all of its features, worst first")]


class MomentQuestion(Question, frozen=True):
    """A host and a moment; without `at` the newest frame."""

    host: WantedHost = ""
    at: Time | None = None
    rows: Annotated[int, msgspec.Meta(ge=1, le=1000, description="the most rows to return")] = 1000
    features: Annotated[int, msgspec.Meta(ge=0, le=100, description="the most features of a row")] = 3


class RowQuestion(Question, frozen=True):
    """A row at a moment; `host` means the host's own counters, if no process has that id."""

    row: Annotated[Text, msgspec.Meta(description="the id of the row; `host` for the own counters of the host")]
    host: WantedHost = ""
    at: Time | None = None


def moment(reading: Reading, question: MomentQuestion) -> Moment:
    """Return what was slow, and the culprits."""
    host = reading.choose_host(question.host)
    with reading.columns.waiting():
        found = reading.moments.at(host, question.at)
    why = found.why
    ranking = found.ranking if question.features <= LISTED_FEATURES else found.whole(question.features)
    rows = [row_of(found, each, question.features) for each in ranking.rows[: question.rows]]
    unjudged = found.unjudged
    rows += [unjudged_row(found, each, 0) for each in unjudged[: question.rows - len(rows)]]
    reading.columns.want(host, why.frame.scope, [each.row for each in rows[EXPECTED_ROWS - 1 :: -1]])
    about, grown = why.subject, why.grown
    ts = why.frame.ts
    incidents = reading.events.incidents_at(host, ts)
    status = why.status(each.operators for each in incidents)
    return Moment(
        host=host,
        ts=ts,
        asked_ts=question.at,
        tick_s=why.tick_s,
        live=question.at is None,
        silent_s=why.silent_s(reading.clock()) if question.at is None else 0.0,
        scope=why.frame.scope,
        score=finite(ranking.score),
        status=status,
        # With an open incident, no sentence says that a score is below the alert level.
        sentences=plain_findings(why, scored=status in ALARMED, since=since(why, clocked=False)),
        belief=Belief(belief(why), ranking.young, ranking.age_s),
        subject=None if about is None else Subject(about.scope, about.row, about.feature.feature),
        rows=rows,
        rows_left_out=len(ranking.rows) + len(unjudged) - len(rows),
        host_row=host_row_of(found, question.features),
        host_summary=[] if why.host_frame is None else [Figure(*each) for each in host_figures(why.host_frame)],
        short_lived=[ShortLived(name, count) for name, count in why.short_lived],
        since=finite(why.since),
        began=finite(why.began),
        began_before=why.began_before,
        grown=None if grown is None else Growth(grown.ts, finite(grown.value), grown.before),
        marks=reading.events.marks(host, ts - MARKS_WITHIN_S, ts + MARKS_WITHIN_S),
        incidents=incidents,
    )


def one_row(reading: Reading, question: RowQuestion) -> OneRow:
    """Return a row with all of its features."""
    host = reading.choose_host(question.host)
    with reading.columns.waiting():
        found = reading.moments.at(host, question.at)
    why = found.why
    scope, row = why.frame.scope, _find(found, question.row)
    if row is None and (row := host_row_of(found, None)) is not None:
        scope = HOST
        row = row if question.row in {HOST, row.row} else None
    if row is None:
        raise RequestError(
            404, f"no row {question.row[:100]!r} in the frame of that moment", "the id of one that /moment has"
        )
    return OneRow(host, why.frame.ts, question.at, why.tick_s, question.at is None, scope, row)


def _find(analyzed: AnalyzedMoment, row: str) -> Row | None:
    if (ranked := analyzed.row(row)) is not None:
        return row_of(analyzed, ranked, None)
    return unjudged_row(analyzed, row, None) if row in analyzed.unjudged else None


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("/moment", "The findings at a moment: what was slow, and the culprits.", Moment, moment, MomentQuestion),
    Endpoint("/row", "All features of one row at a moment, worst first.", OneRow, one_row, RowQuestion),
)
