"""One performance metric and its model: when it is built, and when it is no longer valid."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from laggard.operators.regression import kinds
from laggard.operators.regression.correlation import p_values
from laggard.operators.regression.models import Candidate, Kind, Model, Prediction, Reason, Suspect, Term
from laggard.operators.regression.selection import climb, family

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from laggard.operators.regression.selection import Choice
    from laggard.operators.regression.traits import Traits
    from laggard.operators.regression.window import Window

Criterion = Literal["residuals", "r2"]
Method = Literal["adaptive", "published"]

RESPONSE_TIME: Final = "response_time"
"""A performance metric whose name begins so is explained for diagnosis: to find what makes it long."""

MISSING: Final = 3
"""The number of samples without one of its metrics after which a model is replaced."""


@dataclass(frozen=True, slots=True)
class Options:
    """Parameters of a follower; see `Regression`."""

    candidates: int
    window: int
    minimum_gain: float
    significance: float
    kind: Kind
    criterion: Criterion
    history: int
    false_alarms_per_day: float
    false_rebuilds_per_day: float


class Wishes(NamedTuple):
    """Wishes of users: metrics that must be in models, and metrics that must not."""

    pinned: tuple[str, ...] = ()
    banned: frozenset[str] = frozenset()

    def pin(self, metric: str) -> Wishes:
        """Return the wishes with this metric in models."""
        return Wishes((*self.pinned, *(() if metric in self.pinned else (metric,))), self.banned - {metric})

    def ban(self, metric: str) -> Wishes:
        """Return the wishes with this metric in no model."""
        return Wishes(tuple(name for name in self.pinned if name != metric), self.banned | {metric})

    def free(self, metric: str) -> Wishes:
        """Return the wishes without this metric."""
        return Wishes(tuple(name for name in self.pinned if name != metric), self.banned - {metric})


class Samples(NamedTuple):
    """Samples with a performance, in the order of time.

    Attributes:
        ids: the ids of the metrics.
        values: their values, shape (samples, metrics), NaN for a missing one.
        target: the performance, shape (samples,).
        times: seconds since the Unix epoch, shape (samples,).

    """

    ids: list[str]
    values: NDArray[np.float64]
    target: NDArray[np.float64]
    times: NDArray[np.float64]

    def after(self, begin: int) -> Samples:
        """Return all but the first ones."""
        return Samples(self.ids, self.values[begin:], self.target[begin:], self.times[begin:])

    def numbers(self, names: Collection[str]) -> NDArray[np.intp]:
        """Return the columns of these metrics."""
        return np.array([at for at, name in enumerate(self.ids) if name in names], np.intp)


class Seen(NamedTuple):
    """The evaluation of a sample by the model.

    Attributes:
        predicted: the prediction of the model, NaN if it has none.
        residual: the residual as a share of the prediction.
        p_value: the p-value of the newest residuals, given that the model is valid; NaN if unknown.
        span: the number of newest residuals with the least p-value.
        changed: whether the model is no longer valid.
        slow: the score of the response time, above 1 if it is slow.

    """

    predicted: float
    residual: float = math.nan
    p_value: float = math.nan
    span: int = 0
    changed: bool = False
    slow: float = 0.0


class Follower(ABC):
    """Follows one performance metric.

    Parameters:
        name: the performance metric.
        options: the parameters.

    Attributes:
        model: the present model.

    """

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self.model: Model | None = None
        self._options = options
        self._fit: kinds.LinearFit | kinds.LearnedFit | None = None
        self._recent = deque[tuple[float, float]](maxlen=options.window)  # values and predictions
        self._p_value = math.nan
        self._missing = 0
        self._wished = False

    def predict(self, values: Mapping[str, float]) -> float:
        """Predict the performance at these values; NaN without a model, or without one of its metrics."""
        if self.model is None or self._fit is None:
            return math.nan
        return self._fit.predict(np.array([values.get(term.metric, math.nan) for term in self.model.terms], np.float64))

    def prediction(self, value: float, values: Mapping[str, float]) -> Prediction | None:
        """Return the prediction for a sample; None without a model."""
        if self.model is None:
            return None
        seen = self.evaluate(value, values)
        return Prediction(self.name, value, seen.predicted, seen.p_value, self._r2((value, seen.predicted)))

    def _r2(self, newest: tuple[float, float] | None = None) -> float:
        """Return the share of the variance of the newest samples that was predicted; NaN for too few."""
        pairs = np.array([*self._recent, *([] if newest is None else [newest])], np.float64)[-self._options.window :]
        pairs = pairs[np.isfinite(pairs).all(axis=1)] if len(pairs) else pairs
        if len(pairs) < 3:
            return math.nan
        variance = float(((pairs[:, 0] - pairs[:, 0].mean()) ** 2).sum())
        errors = float(((pairs[:, 0] - pairs[:, 1]) ** 2).sum())
        return 1.0 - errors / variance if variance > 0.0 else (1.0 if errors == 0.0 else -math.inf)

    @property
    def usual(self) -> float:
        """The median response time while the application was not slow; NaN if unknown."""
        return math.nan

    def wish(self) -> None:
        """Let the next sample build a model, after a wish has changed."""
        self._wished = True

    @abstractmethod
    def evaluate(self, value: float, values: Mapping[str, float]) -> Seen:
        """Evaluate a sample. The state does not change."""

    @abstractmethod
    def learn(
        self, value: float, values: Mapping[str, float], window: Window, traits: Traits, wishes: Wishes
    ) -> Model | None:
        """Learn the newest sample of the window, and return the model that was built."""

    def suspects(self, window: Window, traits: Traits) -> tuple[Suspect, ...]:  # noqa: ARG002
        """Return the metrics of short resources that the response time follows."""
        return ()

    def _note(self, value: float, predicted: float) -> None:
        self._recent.append((value, predicted))
        self._missing = self._missing + 1 if self.model is not None and math.isnan(predicted) else 0

    def _usable(self, window: Window, count: int | None = None) -> Samples:
        """Return the newest samples with a performance."""
        target = window.performance(self.name)
        usable = np.flatnonzero(np.isfinite(target))
        usable = usable if count is None else usable[-count:]
        return Samples(window.ids, window.last()[usable], target[usable], window.times()[usable])

    def _make(
        self,
        samples: Samples,
        choice: Choice,
        *,
        r: NDArray[np.float64],
        candidates: NDArray[np.intp],
        wishes: Wishes,
        reason: Reason,
    ) -> Model:
        """Fit the chosen metrics and the pinned ones, and make this the present model."""
        ids, values, target, times = samples
        # Metrics are pinned for response times, not for the throughput.
        explained = self.name.startswith(RESPONSE_TIME)
        columns = _with_pinned(choice.columns, samples, wishes) if explained else choice.columns
        self._fit = kinds.fitted(self._options.kind, values[:, columns], target)
        coefficients = self._fit.coefficients
        terms = tuple(
            Term(ids[column], float(b), tuple(ids[each] for each in family(values, column, candidates)))
            for column, b in zip(columns, coefficients[1:], strict=True)
        )
        p = p_values(r[candidates], len(target))
        self.model = Model(
            self.name,
            self._options.kind,
            float(coefficients[0]),
            terms,
            choice.r2,
            self._p_value,
            float(times[0]),
            float(times[-1]),
            len(target),
            tuple(Candidate(ids[each], float(r[each]), float(p[at])) for at, each in enumerate(candidates.tolist())),
            reason,
        )
        self._missing, self._wished = 0, False
        return self.model

    def _climb(self, samples: Samples, columns: NDArray[np.intp], most: int) -> Choice:
        """Run Algorithm 2 on these candidates."""
        gain = self._options.minimum_gain
        if self._options.kind == "linear":
            return climb(samples.values, samples.target, columns, minimum_gain=gain, most=most)
        return kinds.climb_kind(
            self._options.kind, samples.values, samples.target, columns, minimum_gain=gain, most=most
        )

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "model": None if self.model is None else _plain(self.model),
            "fit": None if self._fit is None else self._fit.snapshot(),
            "recent": [list(pair) for pair in self._recent],
            "p_value": self._p_value,
            "missing": self._missing,
            "wished": self._wished,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`."""
        self.model = None if state["model"] is None else _model(state["model"])
        self._fit = None if state["fit"] is None else kinds.restored(state["fit"])
        self._recent.clear()
        self._recent.extend((float(value), float(predicted)) for value, predicted in state["recent"])
        self._p_value, self._missing = float(state["p_value"]), int(state["missing"])
        self._wished = bool(state["wished"])


def _with_pinned(columns: list[int], samples: Samples, wishes: Wishes) -> list[int]:
    """Return the choice with the pinned metrics first, if all samples have them."""
    there = [samples.ids.index(name) for name in wishes.pinned if name in samples.ids]
    there = [at for at in there if np.isfinite(samples.values[:, at]).all()]
    return [*there, *(at for at in columns if at not in there)]


def _plain(model: Model) -> dict[str, Any]:
    plain = {name: getattr(model, name) for name in Model.__slots__}
    plain["terms"] = [[term.metric, term.coefficient, list(term.family)] for term in model.terms]
    plain["candidates"] = [[each.metric, each.r, each.p_value] for each in model.candidates]
    return plain


def _model(plain: dict[str, Any]) -> Model:
    terms = tuple(Term(metric, float(b), tuple(names)) for metric, b, names in plain["terms"])
    candidates = tuple(Candidate(metric, float(r), float(p)) for metric, r, p in plain["candidates"])
    return Model(**(plain | {"terms": terms, "candidates": candidates}))
