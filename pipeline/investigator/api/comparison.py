"""The differences between two moments of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from laggard.pipeline.history.report import plain_findings, since
from laggard.pipeline.investigator.api.rows import Command, Container, Feature, Pid, Row, User, host_row_of, row_of
from laggard.pipeline.investigator.endpoint import (
    Answer,
    Counter,
    Endpoint,
    HostName,
    Number,
    Question,
    RowId,
    RowName,
    Scope,
    Seconds,
    Time,
    WantedHost,
)

if TYPE_CHECKING:
    from laggard.pipeline.investigator.reading import Reading


class FeatureDifference(Answer, frozen=True):
    """A counter of a row at two moments."""

    feature: Counter
    at: Annotated[Feature | None, msgspec.Meta(description="the counter at `at`; null where it was missing")]
    other: Annotated[Feature | None, msgspec.Meta(description="the counter at `with`; null where it was missing")] = (
        msgspec.field(name="with")
    )
    differs: Annotated[
        Number, msgspec.Meta(description="the score at `at` minus the score at `with`; a missing score counts 0")
    ]


class RowDifference(Answer, frozen=True):
    """A row at two moments."""

    row: RowId
    name: RowName
    pid: Pid
    user: User
    container: Container
    command: Command
    score_at: Annotated[
        Number, msgspec.Meta(description="the score at `at`; null if the row was missing, or not judged")
    ]
    score_with: Annotated[
        Number, msgspec.Meta(description="the score at `with`; null if the row was missing, or not judged")
    ]
    there: Annotated[
        Literal["both", "at", "with"],
        msgspec.Meta(description="the moments at which the row was there: `at`, `with` or both"),
    ]
    differs: Annotated[
        float, msgspec.Meta(description="the score at `at` minus the score at `with`; a missing score counts 0")
    ]
    features: Annotated[
        list[FeatureDifference], msgspec.Meta(description="the counters of the row, largest difference of scores first")
    ]


class Comparison(Answer, frozen=True):
    """Two moments side by side."""

    host: HostName
    at: Seconds
    other: Annotated[
        float,
        msgspec.Meta(
            description="the time of the frame that was judged for the parameter `with`, seconds since the Unix epoch"
        ),
    ] = msgspec.field(name="with")
    tick_s: Annotated[float, msgspec.Meta(description="the time between two frames at `at`, in seconds")]
    sentences_at: Annotated[list[str], msgspec.Meta(description="the findings at `at`, in sentences")]
    sentences_with: Annotated[list[str], msgspec.Meta(description="the findings at `with`, in sentences")]
    scope: Scope
    host_row: Annotated[
        RowDifference | None, msgspec.Meta(description="the own counters of the host at both moments; null without any")
    ]
    rows: Annotated[list[RowDifference], msgspec.Meta(description="the rows, largest difference of scores first")]
    rows_left_out: Annotated[int, msgspec.Meta(description="the number of further rows, with smaller differences")]


class CompareQuestion(Question, frozen=True):
    """Two moments of a host; without `at` the newest frame."""

    other: Time = msgspec.field(name="with")
    host: WantedHost = ""
    at: Time | None = None
    rows: Annotated[int, msgspec.Meta(ge=1, le=1000, description="the most rows to return")] = 50
    features: Annotated[int, msgspec.Meta(ge=1, le=100, description="the most features of a row")] = 5


def compare(reading: Reading, question: CompareQuestion) -> Comparison:
    """Compare two moments of a host."""
    host = reading.choose_host(question.host)
    with reading.columns.waiting():
        one, other = (reading.moments.at(host, ts) for ts in (question.at, question.other))
    rows, others = ({each.row: row_of(found, each, None) for each in found.whole().rows} for found in (one, other))
    differences = [_row_difference(rows.get(row), others.get(row), question.features) for row in {**rows, **others}]
    differences.sort(key=lambda each: (-abs(each.differs), -max(each.score_at or 0.0, each.score_with or 0.0)))
    host_rows = host_row_of(one, None), host_row_of(other, None)
    return Comparison(
        host=host,
        at=one.why.frame.ts,
        other=other.why.frame.ts,
        tick_s=one.why.tick_s,
        sentences_at=plain_findings(one.why, since=since(one.why, clocked=False)),
        sentences_with=plain_findings(other.why, since=since(other.why, clocked=False)),
        scope=one.why.frame.scope,
        host_row=None if host_rows == (None, None) else _row_difference(*host_rows, question.features),
        rows=differences[: question.rows],
        rows_left_out=max(len(differences) - question.rows, 0),
    )


def _row_difference(one: Row | None, other: Row | None, features: int) -> RowDifference:
    there = one or other
    assert there is not None
    of_one = {each.feature: each for each in one.features} if one else {}
    of_other = {each.feature: each for each in other.features} if other else {}
    found = [
        FeatureDifference(
            feature=name,
            at=of_one.get(name),
            other=of_other.get(name),
            differs=_score(of_one.get(name)) - _score(of_other.get(name)),
        )
        for name in {**of_one, **of_other}
    ]
    found.sort(key=lambda each: -abs(each.differs or 0.0))
    return RowDifference(
        row=there.row,
        name=there.name,
        pid=there.pid,
        user=there.user,
        container=there.container,
        command=there.command,
        score_at=one.score if one else None,
        score_with=other.score if other else None,
        there="both" if one and other else "at" if one else "with",
        differs=_score(one) - _score(other),
        features=found[:features],
    )


def _score(scored: Row | Feature | None) -> float:
    return 0.0 if scored is None or scored.score is None else scored.score


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("/compare", "Two moments side by side, what differs most first.", Comparison, compare, CompareQuestion),
)
