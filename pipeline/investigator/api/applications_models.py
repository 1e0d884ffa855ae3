"""The models of an application: their candidates, their metrics over time, and what-if questions (S2, section 6)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.core.records.limits import MAX_METRIC
from laggard.pipeline.core.topics import APPLICATIONS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.names import nearest
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.investigator.applications import (
    ApplicationKey,
    ApplicationName,
    Candidate,
    IntervalLength,
    Metric,
    Most,
    MostCandidates,
    OneModel,
    PerformanceMetric,
    PerformanceWords,
    Rebuilt,
    WaitingWishes,
    WantedModel,
    WantedPerformance,
    candidate,
    metric,
    one_model,
    rebuilt,
    span,
    state_of,
    terms_of,
    unknown,
    waiting,
)
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Number, Question, Text, Time
from laggard.pipeline.methods.applications.queries import known_metrics, past_models
from laggard.pipeline.methods.applications.report import what_if_lines
from laggard.pipeline.methods.applications.settings import RegressionSettings
from laggard.pipeline.methods.applications.text import named
from laggard.pipeline.methods.applications.wishing import (
    what_if,
)
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.records.models import ModelOutput
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.applications.following import Noted
    from laggard.pipeline.methods.applications.queries import Course

DAY_S: Final = 86_400.0

MetricName = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=MAX_METRIC, description="the name of the metric: `web-1/nginx:cpu_wait_ratio`"
    ),
]


# Analysis.


class Models(Answer, frozen=True):
    """The models of an application, and the candidates of one of them."""

    application: ApplicationKey
    models: Annotated[
        list[OneModel], msgspec.Meta(description="the models, newest first; the first one is the present one")
    ]
    left_out: Annotated[int, msgspec.Meta(description="the number of older models that are left out")]
    model: Annotated[str, msgspec.Meta(description="the id of the model to which the candidates belong")]
    candidates: Annotated[list[Candidate], msgspec.Meta(description="the candidates for the model, best first")]
    candidates_left_out: Annotated[int, msgspec.Meta(description="the number of further candidates")]
    performance: Annotated[
        list[str], msgspec.Meta(description="the performance metrics that have a model, the most important first")
    ]
    pinned: Annotated[
        list[str], msgspec.Meta(description="the names of the metrics that are always in the models, on request")
    ]
    banned: Annotated[
        list[str], msgspec.Meta(description="the names of the metrics that are never in the models, on request")
    ]
    waiting: WaitingWishes


class ModelsQuestion(Question, frozen=True):
    """An application, a performance metric, a model, and the earliest time of models.

    By default the first metric, its present model, and the last day.
    """

    application: ApplicationName
    performance: WantedPerformance = ""
    model: WantedModel = ""
    since: Time | None = None
    most: Annotated[int, msgspec.Meta(ge=1, le=500, description="the most models to return, the newest ones")] = 50
    most_candidates: MostCandidates = 100


def models(reading: Reading, question: ModelsQuestion) -> Models:
    """Return the models over time, with the candidates of one of them: by its id, or the present one."""
    courses, course = course_of(reading, question.application, question.performance, question.since)
    chosen = chosen_model(course, question.model)
    since = reading.clock() - DAY_S if question.since is None else question.since
    every = [
        (model, before)
        for model, before in zip(course.models, (*course.models[1:], None), strict=True)
        if model is course.present or model.ts >= since
    ]
    with reading.applications.present(question.application) as followed:
        state = state_of(reading, followed)
        pinned, banned = list(state.operator.pinned), list(state.operator.banned)
        waits = waiting(state)
    terms = terms_of(chosen)
    return Models(
        question.application,
        [one_model(model, before) for model, before in every[: question.most]],
        max(len(every) - question.most, 0),
        chosen.id,
        [candidate(each, terms) for each in chosen.candidates[: question.most_candidates]],
        max(len(chosen.candidates) - question.most_candidates, 0),
        [each.present.performance for each in courses],
        pinned,
        banned,
        waits,
    )


def course_of(
    reading: Reading, application: str, performance: str, since: float | None = None
) -> tuple[list[Course], Course]:
    """Return the models of an application by performance metric, the most important first, and those of one metric.

    Raises `RequestError` (404) with the known names.
    """
    since = reading.clock() - DAY_S if since is None else since
    courses = past_models(reading.bus, reading.topics, since, application)
    if not courses:
        if application not in known_keys(reading.bus, reading.topics.name(APPLICATIONS)):
            raise unknown(reading, application)
        raise RequestError(
            404, f"there is no model of {printable(application)} yet", "what its configuration says it lacks"
        )
    order = reading.settings[RegressionSettings].performance
    courses.sort(key=lambda each: order.index(each.present.performance) if each.present.performance in order else 99)
    if not performance:
        return courses, courses[0]
    found = next((each for each in courses if each.present.performance == performance), None)
    if found is None:
        names = ", ".join(printable(each.present.performance) for each in courses)
        raise RequestError(404, f"there is no model of performance {printable(performance)[:100]}", f"one of {names}")
    return courses, found


def chosen_model(course: Course, identity: str) -> ModelOutput:
    """Return the model with this id, or the present one for an empty id."""
    if not identity:
        return course.present
    found = next((each for each in course.models if each.id == identity), None)
    if found is None:
        raise RequestError(404, f"there is no model {printable(identity)[:100]!r}", "the id of one since 'since'")
    return found


class MetricSeries(Answer, frozen=True):
    """A metric and the performance over time."""

    metric: Annotated[Metric, msgspec.Meta(description="the metric")]
    performance: PerformanceMetric
    named: PerformanceWords
    ts: Annotated[list[float], msgspec.Meta(description="the ends of the intervals, seconds since the Unix epoch")]
    values: Annotated[
        list[Number],
        msgspec.Meta(description="the mean of the metric in each interval, in its base unit; null without one"),
    ]
    measured: Annotated[
        list[Number],
        msgspec.Meta(description="the measured performance in each interval, in its base unit; null without one"),
    ]
    rebuilt: Annotated[
        list[Rebuilt],
        msgspec.Meta(
            description="the models of this performance metric that were built in the range, in the order of time"
        ),
    ]
    interval_s: IntervalLength


class SeriesQuestion(Question, frozen=True):
    """A metric, a performance metric and a time range; by default as in `TrackingQuestion`."""

    application: ApplicationName
    metric: MetricName
    performance: WantedPerformance = ""
    begin: Time | None = msgspec.field(default=None, name="from")
    end: Time | None = msgspec.field(default=None, name="to")
    most: Annotated[Most, msgspec.Meta(description="the most intervals to return, the newest ones")] = 2000


def series(reading: Reading, question: SeriesQuestion) -> MetricSeries:
    """Return a metric as the models saw it: its mean over each interval."""
    performance = question.performance or reading.settings[RegressionSettings].performance[0]
    begin, end = span(reading, question.application, question.begin, question.end)
    with reading.applications.between(question.application, begin, question.end) as followed:
        state = state_of(reading, followed)
        noted = [each for each in followed.noted if begin <= each.ts <= end][-question.most :]
        interval_s = state.intervals.length_s
    values = _values(noted, question.metric)
    if all(each is None for each in values):
        known = noted[-1].metrics.ids if noted else known_metrics(reading.bus, reading.topics, question.application)
        if question.metric not in known:
            raise _unknown_metric(question.application, question.metric, known)
    return MetricSeries(
        metric(question.metric),
        performance,
        named(performance),
        [each.ts for each in noted],
        values,
        [each.performance.get(performance, math.nan) for each in noted],
        [
            rebuilt(model.performance, each.ts, model.reason)
            for each in noted
            for model in each.built
            if model.performance == performance
        ],
        interval_s or math.nan,
    )


def _values(noted: Sequence[Noted], name: str) -> list[float | None]:
    """Return the values of a metric. Most intervals share one object of names, which is searched only once."""
    places: dict[int, int] = {}
    values: list[float | None] = []
    for each in noted:
        place = places.get(id(each.metrics))
        if place is None:
            place = each.metrics.ids.index(name) if name in each.metrics.ids else -1
            places[id(each.metrics)] = place
        value = float(each.values[place]) if place >= 0 else math.nan
        values.append(value if math.isfinite(value) else None)
    return values


def _unknown_metric(application: str, name: str, known: Sequence[str]) -> RequestError:
    near = nearest(name, known)
    expected = f"one that is there; similar: {', '.join(map(printable, near))}" if near else "one that is there"
    return RequestError(404, f"{printable(application)} has no metric {printable(name)[:200]}", expected)


class Metrics(Answer, frozen=True):
    """Metrics of an application."""

    metrics: Annotated[
        list[Metric],
        msgspec.Meta(
            description="the metrics whose names are most similar to `like`, best first; without it the first by name"
        ),
    ]
    known: Annotated[int, msgspec.Meta(description="the number of metrics of the application")]


class MetricsQuestion(Question, frozen=True):
    """An application, and a text that the names of metrics resemble."""

    application: ApplicationName
    like: Annotated[
        Text, msgspec.Meta(description="a text that the names of metrics resemble; empty for the first by name")
    ] = ""
    most: Annotated[int, msgspec.Meta(ge=1, le=100, description="the most metrics to return")] = 20


def metrics(reading: Reading, question: MetricsQuestion) -> Metrics:
    """Return the metrics with the names most similar to a text; without one, the first metrics."""
    with reading.applications.present(question.application) as followed:
        known: Sequence[str] = followed.noted[-1].metrics.ids if followed.noted else ()
    known = known or known_metrics(reading.bus, reading.topics, question.application)
    if not known:
        raise unknown(reading, question.application)
    found = nearest(question.like, known, question.most) if question.like else sorted(known)[: question.most]
    return Metrics([metric(each) for each in found], len(known))


class WhatIf(Answer, frozen=True):
    """Predictions for a hypothetical value, in sentences."""

    sentences: Annotated[
        list[str],
        msgspec.Meta(
            description="the prediction of each model that has the metric, then the conditions, in sentences for people"
        ),
    ]


class WhatIfQuestion(Question, frozen=True):
    """A hypothetical value of a metric of an application."""

    application: ApplicationName
    metric: MetricName
    value: Annotated[float, msgspec.Meta(description="the hypothetical value, in the base unit of the metric")]


def what_if_told(reading: Reading, question: WhatIfQuestion) -> WhatIf:
    """Return the performance that the models predict if a metric had another value, and all others their newest."""
    with reading.applications.present(question.application) as followed:
        operator = state_of(reading, followed).operator
        newest = operator.newest.get(question.metric, math.nan)
        found = what_if(operator, question.metric, question.value)
        there = list(dict.fromkeys(each.metric for model in operator.models.values() for each in model.terms))
    if not found:
        names = ", ".join(map(printable, there)) or "no metrics"
        raise RequestError(
            404, f"{printable(question.metric)[:200]} is in no model", f"a metric of a model; in them are {names}"
        )
    lines = what_if_lines(question.application, question.metric, question.value, newest, found)
    return WhatIf([line.plain for line in lines])


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        "/applications/models",
        "The models of an application, and the candidates of one of them.",
        Models,
        models,
        ModelsQuestion,
    ),
    Endpoint("/applications/series", "A metric and the performance over time.", MetricSeries, series, SeriesQuestion),
    Endpoint("/applications/metrics", "The metrics of an application, by name.", Metrics, metrics, MetricsQuestion),
    Endpoint(
        "/applications/what-if",
        "The predicted performance at a value of a metric.",
        WhatIf,
        what_if_told,
        WhatIfQuestion,
    ),
)
