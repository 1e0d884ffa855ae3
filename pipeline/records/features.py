"""Rows with their features, as they are written in all records with a ranking."""

from __future__ import annotations

from typing import Final

from laggard.operators.ranking import Basis, FeatureScore, Phase, RowScore
from laggard.pipeline.records.declared import Form, Shape, choice, count, flag, many, number, shape, text
from laggard.pipeline.records.fields import Fields
from laggard.pipeline.records.strict_json import json_number


def _moment(description: str) -> Form:
    return Form({"type": "number", "description": description}, Fields.number, json_number)


FEATURE: Final[Shape[FeatureScore]] = shape(
    "feature",
    "One counter of a row.",
    FeatureScore,
    feature=text("Its name, with its base unit: `memory_rss_bytes`."),
    value=number("What it was, in that unit."),
    mean=number(
        "What is usual for this row; null where nothing is known yet. Where its basis is `threshold`: from which value "
        "on it is high."
    ),
    standard_deviation=number("How far it usually is from that."),
    score=number("How unusual the value is."),
)
STRETCH: Final[Shape[Phase]] = shape(
    "stretch",
    "A stretch of high use, or a dip.",
    Phase,
    high=flag("Whether it is high use."),
    begin_ts=_moment("When it began, seconds since the Unix epoch."),
    end_ts=_moment("When it ended, or the time of the record where it lasts."),
    mean=number("Of what the row's first feature tells, in its unit."),
    dips=count("How many dips there were in it, where it is made of phases that are too many to keep.", most=1 << 53),
)
ROW: Final[Shape[RowScore]] = shape(
    "row",
    "One entity: a process, or the host itself.",
    RowScore,
    row=text("Its id, unique in the frame, the same from tick to tick: `nginx[4711@99]`."),
    name=text("Its name: `nginx`."),
    score=number("How unusual it is."),
    age_s=number("How long it has been learned, in seconds.", minimum=0),
    basis=choice(
        "What it is compared with: its own past (`itself`); as far as that is too short, other rows of its name "
        "(`name`), where there were none, how rows of any name began (`starts`), or all rows (`all`); or no past at "
        "all, but a limit (`threshold`).",
        Basis,
        added=True,
    ),
    waits=flag(
        "Whether what is most unusual about it is that it waits for others: a victim, not the cause.", added=True
    ),
    features=many(FEATURE, "The worst first; not all of them."),
    phases=many(
        STRETCH,
        "Of an event, such as of prolonged high use: the stretches of high use and the dips between them, in the order "
        "of time. Not there where the operator tells no events.",
        sparse=True,
    ),
)
