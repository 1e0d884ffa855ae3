"""Performance models as they leave for other people's tools, and what they predict; see `outputs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

from laggard.pipeline.records.ids import derived_id
from laggard.pipeline.records.limits import MAX_METRIC, MAX_SEQUENCE
from laggard.pipeline.records.strict_json import json_number

if TYPE_CHECKING:
    from laggard.pipeline.records.fields import Fields

Resource = Literal["cpu", "memory", "disk", "network", "lock", ""]
"""What a metric is about; empty where that is not known."""

RESOURCES: Final[tuple[Resource, ...]] = get_args(Resource)
MAX_FAMILY: Final = 10_000


def model_id(application: str, performance: str, interval: str) -> str:
    """The id of a model of a performance metric; `interval` is the one that it was built at.

    The same arguments give the same id, so that a reader can always tell what it has seen before.
    """
    return derived_id("model", application, performance, interval)


@dataclass(frozen=True, slots=True)
class Described:
    """A metric, with what it means.

    Attributes:
        host: the host's name.
        row: the host's, `web-1`, or that of all its processes of one name, `web-1/nginx`. With a colon and the feature
            behind it that is the metric's name in wishes.
        feature: the counter, with its base unit.
        resource: what it is about.
        description: what it is, in plain words.

    """

    host: str
    row: str
    feature: str
    resource: Resource
    description: str

    def to_json(self) -> dict[str, Any]:
        """The fields that are written."""
        return {
            "host": self.host,
            "row": self.row,
            "feature": self.feature,
            "resource": self.resource,
            "description": self.description,
        }


@dataclass(frozen=True, slots=True)
class TermOutput:
    """One metric in a model.

    Attributes:
        metric: which.
        coefficient: what one unit more of it adds to the performance metric; NaN in a model that is no equation.
        family: metrics that say the same, the best first, each as `ROW:FEATURE`.

    """

    metric: Described
    coefficient: float
    family: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return self.metric.to_json() | {
            "coefficient": json_number(self.coefficient),
            "family": list(self.family),
        }


@dataclass(frozen=True, slots=True)
class CandidateOutput:
    """One metric that phase 1 found to go with the performance metric.

    Attributes:
        metric: which.
        r: the correlation coefficient.
        p_value: of no correlation at all.

    """

    metric: Described
    r: float
    p_value: float

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return self.metric.to_json() | {"r": json_number(self.r), "p_value": json_number(self.p_value)}


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """A performance model that was built (S2): which metrics tell a performance metric, and how.

    Attributes:
        id: see `model_id`.
        ts: the end of the interval at which it was built, seconds since the Unix epoch.
        application: whose.
        performance: what it tells, with its unit: `response_time_mean_s`.
        type: of the model: `linear`, ...
        equation: for a person to read.
        intercept: what the terms are added to; NaN in a model that is no equation.
        terms: the metrics in it, the first chosen first.
        r2: the share of the variance that it tells, by cross-validation.
        p_value: of the test that gave up the model before it; NaN for the first one.
        begin_ts: where its training began, seconds since the Unix epoch.
        end_ts: where that ended.
        samples: so many intervals it was trained on.
        reason: why it was built: `first`, `grown` (there are more samples), `changed`, `poor`, `wish`.
        candidates: what phase 1 found, the best first.
        live: whether it is about now; false for a replay of recorded data.

    """

    kind: ClassVar[str] = "model"

    id: str
    ts: float
    application: str
    performance: str
    type: str
    equation: str
    intercept: float
    terms: tuple[TermOutput, ...]
    r2: float
    p_value: float
    begin_ts: float
    end_ts: float
    samples: int
    reason: str
    candidates: tuple[CandidateOutput, ...]
    live: bool

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "kind": self.kind,
            "ts": json_number(self.ts),
            "id": self.id,
            "application": self.application,
            "performance": self.performance,
            "type": self.type,
            "equation": self.equation,
            "intercept": json_number(self.intercept),
            "terms": [each.to_json() for each in self.terms],
            "r2": json_number(self.r2),
            "p_value": json_number(self.p_value),
            "begin_ts": json_number(self.begin_ts),
            "end_ts": json_number(self.end_ts),
            "samples": self.samples,
            "reason": self.reason,
            "candidates": [each.to_json() for each in self.candidates],
            "live": bool(self.live),
        }


@dataclass(frozen=True, slots=True)
class PredictionOutput:
    """What a model said of one interval, beside what was.

    Attributes:
        ts: the interval's end, seconds since the Unix epoch.
        operator: whose model it is.
        application: whose performance.
        performance: which metric of it, with its unit.
        value: what was; NaN where nothing was measured.
        predicted: what the model says; NaN where it cannot say.
        p_value: how probable its newest errors are, if it still holds; NaN where there are too few.
        r2: the share of the variance of the newest intervals that it tells.

    """

    kind: ClassVar[str] = "prediction"

    ts: float
    operator: str
    application: str
    performance: str
    value: float
    predicted: float
    p_value: float
    r2: float

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "kind": self.kind,
            "ts": json_number(self.ts),
            "operator": self.operator,
            "application": self.application,
            "performance": self.performance,
            "value": json_number(self.value),
            "predicted": json_number(self.predicted),
            "p_value": json_number(self.p_value),
            "r2": json_number(self.r2),
        }


def read_model(fields: Fields) -> ModelOutput:
    """The model of these fields. Raises `RecordError`."""
    return ModelOutput(
        id=fields.text("id"),
        ts=fields.ts("ts"),
        application=fields.key("application"),
        performance=fields.text("performance"),
        type=fields.text("type"),
        equation=fields.text("equation"),
        intercept=fields.number("intercept"),
        terms=tuple(
            TermOutput(_described(each), each.number("coefficient"), each.texts("family", MAX_FAMILY, MAX_METRIC))
            for each in fields.objects("terms")
        ),
        r2=fields.number("r2"),
        p_value=fields.number("p_value"),
        begin_ts=fields.number("begin_ts"),
        end_ts=fields.number("end_ts"),
        samples=fields.integer("samples", 0, MAX_SEQUENCE),
        reason=fields.text("reason"),
        candidates=tuple(
            CandidateOutput(_described(each), each.number("r"), each.number("p_value"))
            for each in fields.objects("candidates")
        ),
        live=fields.boolean("live"),
    )


def read_prediction(fields: Fields) -> PredictionOutput:
    """The prediction of these fields. Raises `RecordError`."""
    return PredictionOutput(
        ts=fields.ts("ts"),
        operator=fields.text("operator"),
        application=fields.key("application"),
        performance=fields.text("performance"),
        value=fields.number("value"),
        predicted=fields.number("predicted"),
        p_value=fields.number("p_value"),
        r2=fields.number("r2"),
    )


def _described(fields: Fields) -> Described:
    return Described(
        host=fields.text("host"),
        row=fields.text("row"),
        feature=fields.text("feature"),
        resource=fields.choice("resource", RESOURCES),
        description=fields.text("description"),
    )
