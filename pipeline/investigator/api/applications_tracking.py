"""The performance of an application over time, and what its models predicted (S2, section 6)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.investigator.applications import (
    ApplicationKey,
    ApplicationName,
    IntervalLength,
    Most,
    PerformanceMetric,
    PerformanceWords,
    Rebuilt,
    rebuilt,
    span,
    state_of,
)
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Number, Question, Time
from laggard.pipeline.investigator.events import OpenIncident  # noqa: TC001 - msgspec reads annotations
from laggard.pipeline.methods.applications.settings import RegressionSettings
from laggard.pipeline.methods.applications.text import ScoredInterval, how_slow, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.applications.following import Noted


class Tracked(Answer, frozen=True):
    """A performance metric: its measured values and the predictions of its models, one of each per time."""

    performance: PerformanceMetric
    named: PerformanceWords
    value: Annotated[
        list[Number],
        msgspec.Meta(description="the measured value of each interval, in the unit of the metric; null without one"),
    ]
    predicted: Annotated[
        list[Number],
        msgspec.Meta(description="the prediction for each interval, before the models learned it; null without one"),
    ]
    p_value: Annotated[
        list[Number],
        msgspec.Meta(
            description="the p-value of the newest residuals at each interval, given that the model is valid; null "
            "without one"
        ),
    ]
    r2: Annotated[
        list[Number],
        msgspec.Meta(
            description="the share of the variance that was predicted, over the newest window at each interval; null "
            "without one"
        ),
    ]


class Tracking(Answer, frozen=True):
    """An application over time."""

    application: ApplicationKey
    ts: Annotated[list[float], msgspec.Meta(description="the ends of its intervals, seconds since the Unix epoch")]
    tracked: Annotated[
        list[Tracked],
        msgspec.Meta(description="the metrics of `regression.performance` that were measured in the range"),
    ]
    rebuilt: Annotated[
        list[Rebuilt], msgspec.Meta(description="the models that were built in the range, in the order of time")
    ]
    incidents: Annotated[
        list[OpenIncident],
        msgspec.Meta(
            description="the incidents of the application that were open in the range, the one that opened last first"
        ),
    ]
    interval_s: IntervalLength
    own: Annotated[
        bool,
        msgspec.Meta(description="whether its models are the worker's own; otherwise they were learned for this page"),
    ]
    slow: Annotated[bool, msgspec.Meta(description="whether the score of its newest interval is above 1")]
    sentence: Annotated[
        str,
        msgspec.Meta(description="a sentence on the performance in the newest interval; empty if it was not judged"),
    ]


class TrackingQuestion(Question, frozen=True):
    """An application and a time range; by default the last 180 intervals (15 to 60 minutes), or those before `to`."""

    application: ApplicationName
    begin: Time | None = msgspec.field(default=None, name="from")
    end: Time | None = msgspec.field(default=None, name="to")
    most: Annotated[Most, msgspec.Meta(description="the most intervals to return, the newest ones")] = 2000


def tracking(reading: Reading, question: TrackingQuestion) -> Tracking:
    """Return the measured performance, and the predictions of models before they learned it."""
    begin, end = span(reading, question.application, question.begin, question.end)
    with reading.applications.between(question.application, begin, question.end) as followed:
        state = state_of(reading, followed)
        noted = [each for each in followed.noted if begin <= each.ts <= end][-question.most :]
        newest = followed.noted[-1] if followed.noted else None
        interval_s, own = state.intervals.length_s, followed.own
    judgement = None if newest is None else newest.judgement
    slow = judgement is not None and judgement.score > 1.0
    sentence = ""
    if newest is not None and judgement is not None and judgement.predictions:
        scored = ScoredInterval(newest.ts, question.application, judgement)
        sentence = scored.sentence() if slow else how_slow(question.application, judgement)
    return Tracking(
        question.application,
        [each.ts for each in noted],
        [_tracked(name, noted) for name in reading.settings[RegressionSettings].performance if _is_in(name, noted)],
        [rebuilt(model.performance, each.ts, model.reason) for each in noted for model in each.built],
        reading.events.incidents_of("application", question.application, begin, end),
        interval_s or math.nan,
        own,
        slow,
        sentence,
    )


def _is_in(performance: str, noted: Sequence[Noted]) -> bool:
    return any(performance in each.performance for each in noted)


def _tracked(performance: str, noted: Sequence[Noted]) -> Tracked:
    value: list[float | None] = []
    predicted: list[float | None] = []
    p_value: list[float | None] = []
    r2: list[float | None] = []
    for each in noted:
        predictions = each.judgement.predictions if each.judgement is not None else ()
        found = next((one for one in predictions if one.performance == performance), None)
        value.append(each.performance.get(performance, math.nan))
        predicted.append(math.nan if found is None else found.predicted)
        p_value.append(math.nan if found is None else found.p_value)
        r2.append(math.nan if found is None else found.r2)
    return Tracked(performance, named(performance), value, predicted, p_value, r2)


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        "/applications/tracking",
        "The performance of an application, and what its models predicted.",
        Tracking,
        tracking,
        TrackingQuestion,
    ),
)
