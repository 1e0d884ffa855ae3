"""Rows with their features, as they are written in all records with a ranking."""

from __future__ import annotations

from typing import Final

from laggard.operators.ranking import Basis, FeatureScore, Phase, RowScore
from laggard.pipeline.core.records.declared import Form, Shape, choice, count, flag, many, number, shape, text
from laggard.pipeline.core.records.fields import Fields
from laggard.pipeline.core.records.strict_json import json_number


def _moment(description: str) -> Form:
    return Form({"type": "number", "description": description}, Fields.number, json_number)


FEATURE: Final[Shape[FeatureScore]] = shape(
    "feature",
    "One counter of a row.",
    FeatureScore,
    feature=text("Its name, with its base unit: `memory_rss_bytes`."),
    value=number("Its value, in that unit."),
    mean=number(
        "The baseline of this row; null while it is unknown. With the basis `threshold`, the value from which on it is "
        "high."
    ),
    standard_deviation=number("The standard deviation of the baseline."),
    score=number("The score of the value."),
)
STRETCH: Final[Shape[Phase]] = shape(
    "stretch",
    "A stretch of high use, or a dip.",
    Phase,
    high=flag("Whether its use is high."),
    begin_ts=_moment("Its start, seconds since the Unix epoch."),
    end_ts=_moment("Its end; while it lasts, the time of the record."),
    mean=number("The mean of the row's first feature, in its unit."),
    dips=count("The number of dips in it, if it joins phases that were too many to store.", most=1 << 53),
)
ROW: Final[Shape[RowScore]] = shape(
    "row",
    "One entity: a process, or the host itself.",
    RowScore,
    row=text("Its id, unique in the frame, the same from tick to tick: `nginx[4711@99]`."),
    name=text("Its name: `nginx`."),
    score=number("Its score."),
    age_s=number("The time for which it was learned, in seconds.", minimum=0),
    basis=choice(
        "The baseline is its own past (`itself`). While that is too short, other rows of its name are (`name`), "
        "otherwise the starts of rows of any name (`starts`), or all rows (`all`). `threshold` is a limit instead of a "
        "past.",
        Basis,
        added=True,
    ),
    waits=flag("Whether its largest deviation is a wait for others: a victim, not the cause.", added=True),
    features=many(FEATURE, "The worst first; not all of them."),
    phases=many(
        STRETCH,
        "The stretches of high use and the dips between them, in the order of time, if the row is an event, such as "
        "prolonged high use. Absent for operators without events.",
        sparse=True,
    ),
)
