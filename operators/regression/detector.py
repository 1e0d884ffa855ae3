"""The operator `regression`: models of an application's performance, and when they stop being valid (S2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from laggard.operators.regression.adaptive import Adaptive
from laggard.operators.regression.following import RESPONSE_TIME, Criterion, Follower, Method, Options, Wishes
from laggard.operators.regression.models import KINDS, Kind, Model, SampleScores, Trait
from laggard.operators.regression.published import Published
from laggard.operators.regression.traits import Traits
from laggard.operators.regression.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from laggard.operators.regression.models import Metrics, Suspect

HISTORY = 60
YOUNG = 3
"""The number of windows until the results for an application are reliable."""

LIMIT = 50_000


class Regression:
    """Performance models of one application (Xiong, Pu, Zhu, Griffith: vPerfGuard, ICPE 2013).

    A sample is the performance in one interval with the metrics of the application's hosts. Each performance metric has
    a model (Algorithms 1 and 2 of section 2.2) until a test on its residuals detects a change of the relation (section
    2.3). `method="published"` does exactly that. `"adaptive"` (see `Adaptive` and `Diagnosis`) names the host and
    resource of the bottleneck more reliably, and after fewer samples.

    Memory: `history` + 2 x `window` samples of all metrics, 8 bytes each, and the names of the metrics: about 6 MB for
    7,522 metrics; at most `limit` metrics.

    Parameters:
        performance: the performance metrics to explain, the most important first. Those named `response_time...` are
            explained for diagnosis, others for prediction.
        candidates: N_can, the number of metrics that phase 1 keeps.
        window: the number of samples of a first model; the published test compares the residuals of two windows.
        minimum_gain: the least gain of R^2 for which phase 2 adds a metric.
        significance: the significance level of the published test.
        kind: the kind of model: `linear`, `neighbours`, `tree` or `boosting`; all but the first need scikit-learn.
        criterion: the criterion of the published method: `residuals`, or `r2` (below 0.8) as in Table 7.
        method: `adaptive` or `published`.
        trait: the trait of a metric by its id; None for no traits.
        resolution: a negligible difference of a metric, in its unit, by the end of its id.
        false_alarms_per_day: the budget: how often an application without a change may be reported as slow.
        false_rebuilds_per_day: the budget of rebuilding models that are still valid.
        history: the number of samples of the baseline before a change.
        limit: the most metrics.

    Attributes:
        models: the present models by performance metric.
        newest: the newest values of the metrics in models; NaN for a missing one.
        refused: the number of metrics of the newest sample beyond the limit.

    Example:
        >>> import numpy as np
        >>> class Names:
        ...     ids = ("web-1:cpu_wait_ratio", "web-1:temperature")
        >>> names, random = Names(), np.random.default_rng(1)
        >>> regression = Regression(performance=("response_time_mean_s",), method="published")
        >>> for interval in range(20):
        ...     wait, warm = random.uniform(size=2)
        ...     values = np.array([wait, warm])
        ...     built = regression.learn(60.0 * interval, names, values, {"response_time_mean_s": 0.1 + 2.0 * wait})
        >>> model = regression.models["response_time_mean_s"]
        >>> [(term.metric, round(term.coefficient, 6)) for term in model.terms], round(model.intercept, 6)
        ([('web-1:cpu_wait_ratio', 2.0)], 0.1)
        >>> round(regression.what_if("response_time_mean_s", "web-1:cpu_wait_ratio", 0.5), 6)
        1.1

    """

    state_version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        performance: Sequence[str] = ("response_time_mean_s", "throughput_per_s"),
        candidates: int = 100,
        window: int = 10,
        minimum_gain: float = 0.01,
        significance: float = 0.05,
        kind: Kind = "linear",
        criterion: Criterion = "residuals",
        method: Method = "adaptive",
        trait: Callable[[str], Trait] | None = None,
        resolution: Mapping[str, float] | None = None,
        false_alarms_per_day: float = 1.0,
        false_rebuilds_per_day: float = 1.0,
        history: int = HISTORY,
        limit: int = LIMIT,
    ) -> None:
        if candidates < 1 or window < 4 or history < window or limit < 1:
            raise ValueError(
                "expected at least 1 candidate, a window of 4 samples, a history of a window and a limit of 1 metric, "
                f"got {candidates=}, {window=}, {history=}, {limit=}"
            )
        if not (0.0 < significance < 1.0 and minimum_gain >= 0.0):
            raise ValueError(
                f"expected 0 < significance < 1 and a gain of 0 or more, got {significance=}, {minimum_gain=}"
            )
        if kind not in KINDS or method not in {"adaptive", "published"} or criterion not in {"residuals", "r2"}:
            raise ValueError(f"expected a known kind, method and criterion, got {kind=}, {method=}, {criterion=}")
        self._parameters: dict[str, Any] = {
            "performance": performance,
            "candidates": candidates,
            "window": window,
            "minimum_gain": minimum_gain,
            "significance": significance,
            "kind": kind,
            "criterion": criterion,
            "method": method,
            "trait": trait,
            "resolution": resolution,
            "false_alarms_per_day": false_alarms_per_day,
            "false_rebuilds_per_day": false_rebuilds_per_day,
            "history": history,
            "limit": limit,
        }
        self.performance = tuple(performance)
        explained = max(sum(name.startswith(RESPONSE_TIME) for name in self.performance), 1)
        options = Options(
            candidates,
            window,
            minimum_gain,
            significance,
            kind,
            criterion,
            history,
            false_alarms_per_day / explained,
            false_rebuilds_per_day / max(len(self.performance), 1),
        )
        make = Adaptive if method == "adaptive" else Published
        self._followers: dict[str, Follower] = {name: make(name, options) for name in self.performance}
        self._window = Window(self.performance, history + 2 * window, limit)
        self._traits = Traits(trait, resolution or {})
        self._wishes = Wishes()
        self._begin = math.nan
        self.newest: Mapping[str, float] = {}

    @property
    def models(self) -> Mapping[str, Model]:
        """The present models."""
        return {name: each.model for name, each in self._followers.items() if each.model is not None}

    @property
    def refused(self) -> int:
        """The number of metrics of the newest sample beyond the limit."""
        return self._window.refused

    def score(
        self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]
    ) -> SampleScores:
        """Score a sample. The state does not change.

        Args:
            ts: the end of the interval, seconds since the Unix epoch.
            metrics: the names of the metrics.
            values: their values, shape (metrics,), NaN for a missing one.
            performance: the performance metrics by name; missing ones and NaN are unknown.

        """
        mine = _of_models(self.models, metrics, values)
        predictions, score = [], 0.0
        for name, follower in self._followers.items():
            value = performance.get(name, math.nan)
            if (prediction := follower.prediction(value, mine)) is not None:
                predictions.append(prediction)
            score = max(score, follower.evaluate(value, mine).slow)
        suspects: tuple[Suspect, ...] = ()
        if score > 1.0:
            ahead = Regression(**self._parameters)
            ahead.restore(self.snapshot())
            ahead.learn(ts, metrics, values, performance)
            suspects = ahead.suspects()
        age_s = 0.0 if math.isnan(self._begin) else ts - self._begin
        young = len(self._window) < YOUNG * self._parameters["window"]
        usual = next((each.usual for name, each in self._followers.items() if name.startswith(RESPONSE_TIME)), math.nan)
        return SampleScores(score, tuple(predictions), suspects, age_s, young, usual)

    def suspects(self) -> tuple[Suspect, ...]:
        """Return the metrics of short resources that the first response time follows; none if nothing explains it."""
        for name, follower in self._followers.items():
            if name.startswith(RESPONSE_TIME):
                return follower.suspects(self._window, self._traits)
        return ()

    def learn(
        self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]
    ) -> tuple[Model, ...]:
        """Learn a sample, and return the models that were built. The arguments are those of `score`."""
        if math.isnan(self._begin):
            self._begin = ts
        mine = _of_models(self.models, metrics, values)
        self._window.add(ts, metrics, values, performance)
        built = []
        for name, follower in self._followers.items():
            value = performance.get(name, math.nan)
            model = follower.learn(value, mine, self._window, self._traits, self._wishes)
            if model is not None:
                built.append(model)
        self.newest = _of_models(self.models, metrics, values)
        return tuple(built)

    def what_if(self, performance: str, metric: str, value: float) -> float:
        """Predict a performance metric for another value of one metric and the newest values of the others.

        NaN without a model.

        Raises:
            ValueError: the metric is not in the model.

        """
        follower = self._followers[performance]
        if follower.model is None:
            return math.nan
        names = [term.metric for term in follower.model.terms]
        if metric not in names:
            raise ValueError(f"expected a metric of the model ({', '.join(names) or 'none'}), got {metric!r}")
        return follower.predict({**self.newest, metric: value})

    def pin(self, metric: str) -> None:
        """Pin a metric: every model of a response time has it if the samples do (section 6)."""
        self._wish(self._wishes.pin(metric))

    def ban(self, metric: str) -> None:
        """Ban a metric from all models."""
        self._wish(self._wishes.ban(metric))

    def free(self, metric: str) -> None:
        """Neither pin nor ban a metric any longer."""
        self._wish(self._wishes.free(metric))

    @property
    def pinned(self) -> tuple[str, ...]:
        """The pinned metrics."""
        return self._wishes.pinned

    @property
    def banned(self) -> tuple[str, ...]:
        """The banned metrics."""
        return tuple(sorted(self._wishes.banned))

    def _wish(self, wishes: Wishes) -> None:
        self._wishes = wishes
        for follower in self._followers.values():
            follower.wish()

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "begin": self._begin,
            "performance": list(self.performance),
            "pinned": list(self._wishes.pinned),
            "banned": sorted(self._wishes.banned),
            "newest": dict(self.newest),
            "window": self._window.snapshot(),
            "followers": {name: each.snapshot() for name, each in self._followers.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        if tuple(state["performance"]) != self.performance:
            raise ValueError(f"expected the performance metrics {self.performance}, got {tuple(state['performance'])}")
        self._begin = float(state["begin"])
        self._wishes = Wishes(tuple(state["pinned"]), frozenset(state["banned"]))
        self.newest = {str(name): float(value) for name, value in state["newest"].items()}
        self._window.restore(state["window"])
        for name, each in self._followers.items():
            each.restore(state["followers"][name])


def _of_models(models: Mapping[str, Model], metrics: Metrics, values: NDArray[np.float64]) -> dict[str, float]:
    """Return the newest values of the metrics in models."""
    wanted = {term.metric for model in models.values() for term in model.terms}
    return {name: float(values[at]) for at, name in enumerate(metrics.ids) if name in wanted} if wanted else {}
