"""Performance models and their predictions, as public records; see `outputs`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from laggard.pipeline.core.records.declared import (
    Declared,
    Part,
    choice,
    count,
    inline,
    key,
    many,
    number,
    shape_of,
    text,
    texts,
    time,
    uuid,
)
from laggard.pipeline.core.records.ids import derived_id
from laggard.pipeline.core.records.limits import MAX_METRIC
from laggard.pipeline.core.records.members import LIVE, SENTENCE_FIELD

Resource = Literal["cpu", "memory", "disk", "network", "lock", ""]
"""The resource that a metric measures; empty if unknown."""

MAX_FAMILY: Final = 10_000


def model_id(application: str, performance: str, interval: str) -> str:
    """Return the id of a model of a performance metric; it was built at `interval`.

    The same arguments give the same id, so that readers recognize duplicates.
    """
    return derived_id("model", application, performance, interval)


@dataclass(frozen=True, slots=True)
class Described(Part):
    """A metric with its meaning. Its name in wishes is `ROW:FEATURE`."""

    host: Annotated[str, text("The host's name.")]
    row: Annotated[str, text("The host's, `web-1`, or that of all its processes of one name, `web-1/nginx`.")]
    feature: Annotated[str, text("The counter, with its base unit: `cpu_wait_ratio`.")]
    resource: Annotated[Resource, choice("The resource; empty if unknown.", Resource)]
    description: Annotated[str, SENTENCE_FIELD]


METRIC: Final = inline(shape_of(Described))


@dataclass(frozen=True, slots=True)
class TermOutput(Part):
    """One metric in a model."""

    metric: Annotated[Described, METRIC]
    coefficient: Annotated[float, number("The change per unit of the metric; null in a model that is no equation.")]
    family: Annotated[
        tuple[str, ...],
        texts("Equivalent metrics, the best first, each as `ROW:FEATURE`.", MAX_FAMILY, MAX_METRIC),
    ]


@dataclass(frozen=True, slots=True)
class CandidateOutput(Part):
    """One metric that correlates with the performance metric by itself."""

    metric: Annotated[Described, METRIC]
    r: Annotated[float, number("The correlation coefficient.")]
    p_value: Annotated[float, number("The p-value of the correlation.")]


@dataclass(frozen=True, slots=True)
class ModelOutput(Declared):
    """A new performance model: the metrics of hosts that explain a performance metric, and how."""

    kind: ClassVar[str] = "model"

    ts: Annotated[float, time("The end of the interval at which it was built, seconds since the Unix epoch.")]
    id: Annotated[str, uuid("The id of the model: the same whenever the same input is processed again.")]
    application: Annotated[str, key("The application. The record's key.")]
    performance: Annotated[str, text("The performance metric, with its unit: `response_time_mean_s`.", minLength=1)]
    type: Annotated[str, text("The type of the model: `linear`, ...")]
    equation: Annotated[str, text("The equation, for people: its form may change at any time.")]
    intercept: Annotated[float, number("The intercept; null in a model that is no equation.")]
    terms: Annotated[
        tuple[TermOutput, ...], many(shape_of(TermOutput), "Its metrics, in the order of their selection.")
    ]
    r2: Annotated[float, number("The share of the variance that it explains, by cross-validation.")]
    p_value: Annotated[
        float, number("The p-value of the test that rejected the previous model; null for the first one.")
    ]
    begin_ts: Annotated[float, time("The start of its training data, seconds since the Unix epoch.")]
    end_ts: Annotated[float, time("The end of its training data.")]
    samples: Annotated[int, count("The number of intervals in its training data.")]
    reason: Annotated[
        str,
        text(
            "The reason for which it was built: `first`, `grown` (more samples), `changed` (the relation, or the "
            "response times), `poor` (it explains too little), `wish`. A later version may have more.",
            minLength=1,
        ),
    ]
    candidates: Annotated[
        tuple[CandidateOutput, ...],
        many(
            shape_of(CandidateOutput),
            "The metrics that correlate with the performance metric by themselves, the best first.",
        ),
    ]
    live: Annotated[bool, LIVE]


@dataclass(frozen=True, slots=True)
class PredictionOutput(Declared):
    """A model's prediction for one interval, and the actual value. Only `laggard replay --json --scores` prints it."""

    kind: ClassVar[str] = "prediction"

    ts: Annotated[float, time("The interval's end, seconds since the Unix epoch.")]
    operator: Annotated[str, text("The operator whose model it is: `regression`.")]
    application: Annotated[str, key("The application.")]
    performance: Annotated[str, text("The performance metric, with its unit.", minLength=1)]
    value: Annotated[float, number("The measured value; null without one.")]
    predicted: Annotated[float, number("The predicted value; null without one.")]
    p_value: Annotated[float, number("The p-value of the test for a change of the relation.")]
    r2: Annotated[float, number("The share of the variance that it explains, over the newest window.")]
