"""Rows of a moment as answers have them: a process, or the host itself, with its features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from laggard.pipeline.core.own import is_own
from laggard.pipeline.explaining.explain import clause, pid_of
from laggard.pipeline.explaining.text import compared
from laggard.pipeline.investigator.endpoint import (
    Answer,
    Counter,
    Number,
    RowId,
    RowName,
)
from laggard.pipeline.investigator.moments import HOST, Who

if TYPE_CHECKING:
    from laggard.operators.ranking import FeatureScore, RowScore
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.investigator.moments import AnalyzedMoment

Role = Annotated[
    Literal["culprit", "victim", "own", "other"],
    msgspec.Meta(
        description="`culprit`; `victim`: it waits for others; `own`: a process of laggard; `other`: none of these"
    ),
]
Pid = Annotated[int | None, msgspec.Meta(description="the process id; null if the row is no process")]
User = Annotated[str, msgspec.Meta(description="the user that it runs as; empty if that is not recorded")]
Container = Annotated[
    str, msgspec.Meta(description="its container or unit: `nginx.service`; empty without one, or if it is not recorded")
]
Command = Annotated[str, msgspec.Meta(description="its command line; empty if that is not recorded")]
Basis = Annotated[
    str,
    msgspec.Meta(
        description="the baseline: its own past (`itself`), that of its `name`, the `starts` of rows, `all` rows, or a "
        "`threshold`"
    ),
]


class Feature(Answer, frozen=True):
    """A counter of a row, with its baseline."""

    feature: Counter
    value: Annotated[
        Number, msgspec.Meta(description="its value in the frame, in its base unit; null if it is missing")
    ]
    mean: Annotated[
        Number,
        msgspec.Meta(description="the mean of the baseline, or the threshold, in the base unit; null without one"),
    ]
    standard_deviation: Annotated[
        Number, msgspec.Meta(description="the standard deviation of the baseline, in the base unit; null without one")
    ]
    score: Annotated[
        Number,
        msgspec.Meta(description="the score, comparable between the features of a row; null if it was not judged"),
    ]
    recent: Annotated[
        Number, msgspec.Meta(description="the scored mean of the last values, in the base unit; null if there is none")
    ]


class Row(Answer, frozen=True):
    """A process, or the host itself, at a moment."""

    row: RowId
    name: RowName
    pid: Pid
    user: User
    container: Container
    command: Command
    score: Annotated[
        Number, msgspec.Meta(description="the score; above 1 is anomalous; null if the row is not judged yet")
    ]
    role: Role
    basis: Basis
    basis_text: Annotated[
        str, msgspec.Meta(description="the baseline in plain words; empty for its own past and for a threshold")
    ]
    age_s: Annotated[
        Number,
        msgspec.Meta(
            description="the time for which the row has been learned, in seconds; null if it is not judged yet"
        ),
    ]
    gone_s: Annotated[float, msgspec.Meta(description="the time since it ended, in seconds; 0 if it is in the frame")]
    took: Annotated[
        str,
        msgspec.Meta(description="the most unusual activity of the row, in plain words; empty if it is not judged yet"),
    ]
    features: Annotated[
        list[Feature],
        msgspec.Meta(
            description="the features of the row, worst first; in the order of the frame if they are not judged"
        ),
    ]
    features_left_out: Annotated[int, msgspec.Meta(description="the number of further features with a value")]


def finite(value: float) -> float | None:
    """Return a number; None unless it is finite."""
    return value if math.isfinite(value) else None


def _feature(each: FeatureScore) -> Feature:
    return Feature(
        each.feature,
        finite(each.value),
        finite(each.mean),
        finite(each.standard_deviation),
        finite(each.score),
        None if each.recent is None else finite(each.recent),
    )


def _role(analyzed: AnalyzedMoment, row: RowScore) -> Role:
    if is_own(row.name):
        return "own"
    if row.row in analyzed.culprits:
        return "culprit"
    return "victim" if row.row in analyzed.victims else "other"


def row_of(found: AnalyzedMoment, row: RowScore, features: int | None) -> Row:
    """Return a scored row with up to this number of its features; None for all."""
    who = found.who(row.row)
    scope, shown = found.why.frame.scope, row.features[:features]
    return Row(
        row=row.row,
        name=row.name,
        pid=pid_of(row.row),
        user=who.user,
        container=who.container,
        command=who.command,
        score=finite(row.score),
        role=_role(found, row),
        basis=row.basis,
        basis_text=compared(row),
        age_s=finite(row.age_s),
        gone_s=row.gone_s,
        took=clause(row.features[0].feature, row.features[0].scored, scope) if row.features else "",
        features=[_feature(each) for each in shown],
        features_left_out=max(found.features.get(row.row, 0) - len(shown), 0),
    )


def unjudged_row(analyzed: AnalyzedMoment, row: str, features: int | None) -> Row:
    """Return a row that is not scored, such as a new one, with its values."""
    return _plain_row(analyzed.why.frame, row, analyzed.who(row), features)


def _plain_row(frame: Frame, row: str, who: Who, features: int | None) -> Row:
    number = frame.layout.rows.index(row)
    name = frame.layout.names[number]
    there = [
        Feature(feature, value, None, None, None, None)
        for feature, value in zip(frame.layout.features, frame.values[number].tolist(), strict=True)
        if math.isfinite(value)
    ]
    return Row(
        row=row,
        name=name,
        pid=pid_of(row),
        user=who.user,
        container=who.container,
        command=who.command,
        score=None,
        role="own" if is_own(name) else "other",
        basis="itself",
        basis_text="",
        age_s=None,
        gone_s=0.0,
        took="",
        features=there[:features],
        features_left_out=len(there) - len(there[:features]),
    )


def host_row_of(found: AnalyzedMoment, features: int | None) -> Row | None:
    """Return the host's own counters; None without any."""
    ranking, frame = found.why.host_ranking, found.why.host_frame
    if frame is None or not frame.layout.rows:
        return None
    if ranking is None or not ranking.rows:
        return _plain_row(frame, frame.layout.rows[0], Who(), features)
    row = ranking.rows[0]
    shown = row.features[:features]
    return Row(
        row=row.row,
        name=row.name,
        pid=None,
        user="",
        container="",
        command="",
        score=finite(row.score),
        role="other",
        basis=row.basis,
        basis_text="",
        age_s=finite(row.age_s),
        gone_s=0.0,
        took=clause(row.features[0].feature, row.features[0].scored, HOST) if row.features else "",
        features=[_feature(each) for each in shown],
        features_left_out=len(row.features) - len(shown),
    )
