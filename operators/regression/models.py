"""What performance models are made of, and what the operator answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = Literal["linear", "neighbours", "tree", "boosting"]
KINDS: Final[tuple[Kind, ...]] = ("linear", "neighbours", "tree", "boosting")

Role = Literal["wait", "free", "use", "load", ""]
Reason = Literal["first", "grown", "changed", "poor", "wish"]


class Metrics(Protocol):
    """The names of a sample's metrics.

    Immutable, and the same object from sample to sample while the names do not change: where each of them is kept may
    be remembered by identity.
    """

    @property
    def ids(self) -> Sequence[str]:
        """The metrics, each once: `web-1/nginx:cpu_wait_ratio`."""


@dataclass(frozen=True, slots=True)
class Trait:
    """What physics says of a metric.

    Attributes:
        resource: what it is about: `cpu`, `memory`, `disk`, `network`; empty where nobody knows.
        role: `wait` for what contention moves (pressure, run queues, time spent waiting), `free` for what is left,
            `use` for what is taken, `load` for what follows the work that comes in (packets, context switches); empty
            where nobody knows.
        sign: of the coefficient that it has in a model of a response time: +1, -1, or 0 where both may be.

    """

    resource: str = ""
    role: Role = ""
    sign: int = 0


UNKNOWN: Final = Trait()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A metric that moves with the performance (section 2.2, Algorithm 1).

    Attributes:
        metric: its id.
        r: Pearson's correlation coefficient with the performance metric.
        p_value: of a coefficient as far from 0 by chance alone, where there is none.

    """

    metric: str
    r: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Term:
    """A metric in a model.

    Attributes:
        metric: its id.
        coefficient: in units of the performance per unit of the metric; NaN where the kind of model has none.
        family: metrics that say the same, the one most alike first.

    """

    metric: str
    coefficient: float
    family: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """A performance model, F(M_pred) of Algorithm 2.

    Attributes:
        performance: what it explains: `response_time_mean_s`.
        kind: of model.
        intercept: in units of the performance; NaN where the kind has none.
        terms: the metrics that it explains it with, in the order in which they were chosen. None at all says that
            nothing explains it: the prediction is the mean.
        r2: the share of the variance that it predicts, by cross-validation.
        p_value: of the test that gave up the model before it; NaN for the first one.
        begin_ts: the time of the first sample that it was built on, seconds since the Unix epoch.
        end_ts: of the last one.
        samples: how many they were.
        candidates: what phase 1 found, the best first.
        reason: why it was built: the first one, more samples, residuals or response times changed, R^2 was too poor, or
            somebody's wish.

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
        """The performance where the metrics have these values; NaN where one is missing. Linear models only."""
        nan = float("nan")
        return self.intercept + sum(term.coefficient * values.get(term.metric, nan) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says of a sample.

    Attributes:
        performance: of what.
        value: what it is.
        predicted: what the model says that it is; NaN where there is no model, or one of its metrics is missing.
        p_value: how probable residuals like the newest are, if the model still held; NaN where there are too few.
        r2: how much of the variance of the newest samples the model predicts.

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
        metric: what tells it.
        value: the newest.
        mean: what it was while the response time was usual.
        standard_deviation: its spread then.
        score: how unusual, above 1 is anomalous.

    """

    metric: str
    value: float
    mean: float
    standard_deviation: float
    score: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the operator says of a sample.

    Attributes:
        score: above 1 the application is slow, or its relation to its resources has changed, as rarely as the budget
            of false alarms allows by chance.
        predictions: one for each performance metric that there is a model of.
        suspects: the worst first.
        age_s: for how long the application has been learned from, in seconds.
        young: whether it was learned from too few samples to be relied on.
        usual: the first response time's median while it was not slow, in seconds; NaN where it is not known.

    """

    score: float
    predictions: tuple[Prediction, ...]
    suspects: tuple[Suspect, ...]
    age_s: float
    young: bool
    usual: float = math.nan
