"""One performance metric and the model that explains it: when it is built, and when it has stopped being true."""

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

    from laggard.operators.regression.selection import Choice, Traits
    from laggard.operators.regression.window import Window

Criterion = Literal["residuals", "r2"]
Method = Literal["adaptive", "published"]

RESPONSE_TIME: Final = "response_time"
"""What a performance metric of this beginning is explained for: to find what makes it long."""

MISSING: Final = 3
"""After so many samples without one of its metrics a model is of no use."""


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
    """What people want of models: metrics that must be in them, and metrics that must not."""

    pinned: tuple[str, ...] = ()
    banned: frozenset[str] = frozenset()


class Samples(NamedTuple):
    """Samples in which the performance was told, in the order of time.

    Attributes:
        ids: of the metrics.
        values: shape (samples, metrics), NaN where a metric is not there.
        target: the performance, shape (samples,).
        times: seconds since the Unix epoch, shape (samples,).

    """

    ids: list[str]
    values: NDArray[np.float64]
    target: NDArray[np.float64]
    times: NDArray[np.float64]

    def after(self, begin: int) -> Samples:
        """All but the first so many."""
        return Samples(self.ids, self.values[begin:], self.target[begin:], self.times[begin:])

    def numbers(self, names: Collection[str]) -> NDArray[np.intp]:
        """The columns of metrics of these names."""
        return np.array([at for at, name in enumerate(self.ids) if name in names], np.intp)


class Seen(NamedTuple):
    """What a sample says of the model.

    Attributes:
        predicted: by the model, NaN where it cannot tell.
        residual: as a share of what was predicted.
        p_value: that the newest residuals are of the model; NaN where nothing is known.
        span: how many newest residuals say that most clearly.
        changed: whether the model has stopped being true.
        slow: how much slower than usual the application is, above 1 is anomalous.

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
        name: of the performance metric.
        options: parameters.

    Attributes:
        model: the present one.

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
        """What the model says where its metrics have these values; NaN without a model, or without one of them."""
        if self.model is None or self._fit is None:
            return math.nan
        return self._fit.predict(np.array([values.get(term.metric, math.nan) for term in self.model.terms], np.float64))

    def prediction(self, value: float, values: Mapping[str, float]) -> Prediction | None:
        """What the model says of a sample; None without a model."""
        if self.model is None:
            return None
        seen = self.look(value, values)
        return Prediction(self.name, value, seen.predicted, seen.p_value, self._r2((value, seen.predicted)))

    def _r2(self, newest: tuple[float, float] | None = None) -> float:
        """How much of the variance of the newest samples was predicted; NaN where there are too few."""
        pairs = np.array([*self._recent, *([] if newest is None else [newest])], np.float64)[-self._options.window :]
        pairs = pairs[np.isfinite(pairs).all(axis=1)] if len(pairs) else pairs
        if len(pairs) < 3:
            return math.nan
        variance = float(((pairs[:, 0] - pairs[:, 0].mean()) ** 2).sum())
        errors = float(((pairs[:, 0] - pairs[:, 1]) ** 2).sum())
        return 1.0 - errors / variance if variance > 0.0 else (1.0 if errors == 0.0 else -math.inf)

    @property
    def usual(self) -> float:
        """The median of a response time while it was not slow; NaN where it is not known."""
        return math.nan

    def wish(self) -> None:
        """A wish has changed: the next sample builds a model."""
        self._wished = True

    @abstractmethod
    def look(self, value: float, values: Mapping[str, float]) -> Seen:
        """What a sample says. Changes nothing."""

    @abstractmethod
    def learn(
        self, value: float, values: Mapping[str, float], window: Window, traits: Traits, wishes: Wishes
    ) -> Model | None:
        """Take in the newest sample of the window, which this is; gives the model that was built."""

    def suspects(self, window: Window, traits: Traits, wishes: Wishes) -> tuple[Suspect, ...]:  # noqa: ARG002
        """The contended resources that the response time follows."""
        return ()

    def _note(self, value: float, predicted: float) -> None:
        self._recent.append((value, predicted))
        self._missing = self._missing + 1 if self.model is not None and math.isnan(predicted) else 0

    def _usable(self, window: Window, count: int | None = None) -> Samples:
        """The newest samples in which the performance was told."""
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
        """Fit what was chosen, and what people want, and make it the present model."""
        ids, values, target, times = samples
        # What is pinned is thought to tell response times, which says nothing of the throughput.
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
        """Algorithm 2 on these candidates."""
        gain = self._options.minimum_gain
        if self._options.kind == "linear":
            return climb(samples.values, samples.target, columns, minimum_gain=gain, most=most)
        return kinds.climb_kind(
            self._options.kind, samples.values, samples.target, columns, minimum_gain=gain, most=most
        )

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "model": None if self.model is None else _plain(self.model),
            "fit": None if self._fit is None else self._fit.snapshot(),
            "recent": [list(pair) for pair in self._recent],
            "p_value": self._p_value,
            "missing": self._missing,
            "wished": self._wished,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave."""
        self.model = None if state["model"] is None else _model(state["model"])
        self._fit = None if state["fit"] is None else kinds.restored(state["fit"])
        self._recent.clear()
        self._recent.extend((float(value), float(predicted)) for value, predicted in state["recent"])
        self._p_value, self._missing = float(state["p_value"]), int(state["missing"])
        self._wished = bool(state["wished"])


def _with_pinned(columns: list[int], samples: Samples, wishes: Wishes) -> list[int]:
    """The same with the metrics that must be there first, where they are."""
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
