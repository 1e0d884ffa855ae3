"""Performance models and their parts, and the scores of the operator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = Literal["linear", "neighbours", "tree", "boosting"]
KINDS: Final[tuple[Kind, ...]] = ("linear", "neighbours", "tree", "boosting")

Role = Literal["wait", "free", "use", "load", ""]
Gauge = Literal["", "pressure", "queue", "stops", "use", "size"]
Reason = Literal["first", "grown", "changed", "poor", "wish"]


class Metrics(Protocol):
    """The names of a sample's metrics.

    Immutable, and the same object from sample to sample while the names do not change. So places may be cached by it.
    """

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the metrics, each once: `web-1/nginx:cpu_wait_ratio`."""


@dataclass(frozen=True, slots=True)
class Trait:
    """The physical meaning of a metric.

    Attributes:
        resource: its resource: `cpu`, `memory`, `disk` or `network`; empty if unknown.
        role: `wait` if contention moves it (pressure, run queues, waiting time), `load` if it follows the workload
            (packets, context switches). `free` is the part of a resource that is left, `use` the part that is used.
            Empty if unknown.
        sign: the sign of its coefficient in a model of a response time: +1, -1, or 0 for either.
        gauge: how it shows that the resource is short. `pressure` is the share of time in which work waits for it,
            `queue` the number of tasks or requests at it, and `stops` how often or long it is withheld. `use` is the
            share of time in which it is used, `size` its size, and empty none of these.
        short: the least value of the gauge at which the resource may be short. For a queue with a size, it is beyond
            that size.
        level: whether it is an amount that is held, such as memory. It explains a response time only while its resource
            is short, and nothing else. Two levels that drift are correlated without any relation (Granger and Newbold
            1974, "Spurious regressions in econometrics", Journal of Econometrics 2).
        barred: whether no model has it unless it is pinned.

    """

    resource: str = ""
    role: Role = ""
    sign: int = 0
    gauge: Gauge = ""
    short: float = 0.0
    level: bool = False
    barred: bool = False


UNKNOWN: Final = Trait()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A metric that is correlated with the performance (section 2.2, Algorithm 1).

    Attributes:
        metric: its id.
        r: Pearson's correlation coefficient with the performance metric.
        p_value: the p-value of this coefficient.

    """

    metric: str
    r: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Term:
    """A metric in a model.

    Attributes:
        metric: its id.
        coefficient: in units of the performance per unit of the metric; NaN if the kind of model has none.
        family: equivalent metrics, the most similar first.

    """

    metric: str
    coefficient: float
    family: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """A performance model, F(M_pred) of Algorithm 2.

    Attributes:
        performance: the explained metric: `response_time_mean_s`.
        kind: the kind of model.
        intercept: in units of the performance; NaN if the kind has none.
        terms: the metrics in it, in the order in which they were chosen. Without any, the prediction is the mean.
        r2: the cross-validated R^2.
        p_value: the p-value of the test that replaced the model before; NaN for the first one.
        begin_ts: the time of the first sample that it was built on, seconds since the Unix epoch.
        end_ts: the time of the last one, likewise.
        samples: the number of these samples.
        candidates: the metrics that phase 1 found, the best first.
        reason: why it was built: as the first one, on more samples, after a change of residuals or response times,
            after a poor R^2, or by a user's wish.

    """

    performance: str
    kind: Kind
    intercept: float
    terms: tuple[Term, ...]
    r2: float
    p_value: float
    begin_ts: float
    end_ts: float
    samples: int
    candidates: tuple[Candidate, ...]
    reason: Reason

    def predict(self, values: Mapping[str, float]) -> float:
        """Predict the performance for these values; NaN if one is missing. Linear models only."""
        nan = float("nan")
        return self.intercept + sum(term.coefficient * values.get(term.metric, nan) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction of a model for a sample.

    Attributes:
        performance: the performance metric.
        value: its value.
        predicted: the predicted value; NaN without a model, or without one of its metrics.
        p_value: the p-value of the newest residuals, given that the model is valid; NaN for too few.
        r2: the share of the variance of the newest samples that the model predicts.

    """

    performance: str
    value: float
    predicted: float
    p_value: float
    r2: float


@dataclass(frozen=True, slots=True)
class Suspect:
    """A contended resource that the response time follows.

    Attributes:
        metric: the metric that shows it.
        value: its newest value.
        mean: its mean at normal response times.
        standard_deviation: its standard deviation then.
        score: its score, above 1 is anomalous.

    """

    metric: str
    value: float
    mean: float
    standard_deviation: float
    score: float


@dataclass(frozen=True, slots=True)
class SampleScores:
    """The scores of a sample.

    Attributes:
        score: above 1 the application is slow, or its relation to its resources has changed. By chance that happens no
            more often than the budget allows.
        predictions: one for each performance metric with a model.
        suspects: the contended resources, the worst first.
        age_s: the age of the model in seconds.
        young: whether there were too few samples for reliable results.
        usual: the median of the first response time while the application was not slow, in seconds; NaN if unknown.

    """

    score: float
    predictions: tuple[Prediction, ...]
    suspects: tuple[Suspect, ...]
    age_s: float
    young: bool
    usual: float = math.nan
