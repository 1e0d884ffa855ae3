"""One performance metric and the model that explains it: when it is built, and when it has stopped being true."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
from scipy.special import stdtr

from laggard.operators.calibration import Calibration
from laggard.operators.regression import kinds
from laggard.operators.regression.correlation import best, correlations, p_values
from laggard.operators.regression.models import Candidate, Kind, Model, Prediction, Reason, Suspect, Term
from laggard.operators.regression.selection import Diagnosis, climb, family
from laggard.operators.regression.welch import welch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.regression.selection import Choice, Traits
    from laggard.operators.regression.window import Window

Criterion = Literal["residuals", "r2"]
Method = Literal["adaptive", "published"]

RESPONSE_TIME: Final = "response_time"
"""What a performance metric of this beginning is explained for: to find what makes it long."""

POOR_R2: Final = 0.8
"""Below this a model is poor (section 5.6 B, Table 7)."""

SPANS: Final = (1, 2, 3)
"""Of so many newest residuals together it is asked whether they are still of the model; and of a whole window."""

MISSING: Final = 3
"""After so many samples without one of its metrics a model is of no use."""

SETTLING: Final = 3
"""From so many samples since a change on, a model of what holds since can be cross-validated."""

INFLATED: Final = 1.5
"""A model that was chosen out of thousands misses new samples by more than those that it was chosen on ..."""

ASSUMED: Final = 8
"""... which counts for so many residuals until there are some."""

REMEMBERED: Final = 100
"""So many residuals are remembered."""

SLOW: Final = 1.3
"""A response time that is not longer than usual by so much is none that anybody would call slow."""

NOTICED: Final = 0.1
"""A response time that is longer by this share is noticed at all."""

CALM: Final = 5
"""So many samples that are not slow end a slow time."""

MOST_PUBLISHED: Final = 20
MOST_PREDICTING: Final = 6
SAMPLES_PER_TERM: Final = 5
"""A model that is to predict gets a metric for so many samples."""


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

    def _usable(self, window: Window, count: int | None = None) -> tuple[NDArray[np.float64], ...]:
        """Values, performance and times of the newest samples in which the performance was told."""
        target = window.performance(self.name)
        usable = np.flatnonzero(np.isfinite(target))
        usable = usable if count is None else usable[-count:]
        return window.last()[usable], target[usable], window.times()[usable]

    def _make(
        self,
        ids: list[str],
        values: NDArray[np.float64],
        target: NDArray[np.float64],
        times: NDArray[np.float64],
        *,
        choice: Choice,
        r: NDArray[np.float64],
        candidates: NDArray[np.intp],
        reason: Reason,
    ) -> Model:
        """Fit what was chosen, and make it the present model."""
        self._fit = kinds.fitted(self._options.kind, values[:, choice.columns], target)
        coefficients = self._fit.coefficients
        terms = tuple(
            Term(ids[column], float(b), tuple(ids[each] for each in family(values, column, candidates)))
            for column, b in zip(choice.columns, coefficients[1:], strict=True)
        )
        p = p_values(r[candidates], len(target))
        found = tuple(
            Candidate(ids[column], float(r[column]), float(p[at])) for at, column in enumerate(candidates.tolist())
        )
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
            found,
            reason,
        )
        self._missing, self._wished = 0, False
        return self.model

    def _climb(
        self, values: NDArray[np.float64], target: NDArray[np.float64], columns: NDArray[np.intp], most: int
    ) -> Choice:
        gain = self._options.minimum_gain
        if self._options.kind == "linear":
            return climb(values, target, columns, minimum_gain=gain, most=most)
        return kinds.climb_kind(self._options.kind, values, target, columns, minimum_gain=gain, most=most)

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


class Published(Follower):
    """As published: Algorithms 1 and 2 on the newest window, and Welch's test on the residuals of adjacent windows."""

    def __init__(self, name: str, options: Options) -> None:
        super().__init__(name, options)
        self._reference: NDArray[np.float64] = np.empty(0)  # residuals in the window that the model was built on
        self._residuals = deque[float](maxlen=options.window)

    def look(self, value: float, values: Mapping[str, float]) -> Seen:
        """What a sample says."""
        predicted = self.predict(values)
        residuals = np.array([*self._residuals, value - predicted])[-self._options.window :]
        residuals = residuals[np.isfinite(residuals)]
        p = welch(self._reference, residuals) if len(residuals) >= self._options.window else math.nan
        if self._options.criterion == "residuals":
            changed = p < self._options.significance
        else:
            changed = len(residuals) >= self._options.window and self._r2((value, predicted)) < POOR_R2
        return Seen(predicted, value - predicted, p, self._options.window, changed)

    def learn(
        self, value: float, values: Mapping[str, float], window: Window, traits: Traits, wishes: Wishes
    ) -> Model | None:
        """Take in the newest sample."""
        seen = self.look(value, values)
        self._note(value, seen.predicted)
        self._residuals.append(seen.residual)
        samples = int(np.isfinite(window.performance(self.name)).sum())
        reason: Reason | None = None
        if self.model is None:
            reason = "first" if samples >= self._options.window else None
        elif seen.changed or self._missing >= MISSING:
            reason = "poor" if self._options.criterion == "r2" else "changed"
        elif self._wished:
            reason = "wish"
        return None if reason is None else self._build(window, traits, wishes, reason, seen.p_value)

    def _build(self, window: Window, traits: Traits, wishes: Wishes, reason: Reason, p_value: float) -> Model:
        del traits
        values, target, times = self._usable(window, self._options.window)
        ids = window.ids
        r = correlations(values, target)
        r[[at for at, name in enumerate(ids) if name in wishes.banned]] = np.nan
        candidates = best(r, self._options.candidates)
        most = min(max(len(target) - 2, 1), MOST_PUBLISHED)
        choice = _pinned(self._climb(values, target, candidates, most), ids, values, wishes)
        self._p_value = p_value
        model = self._make(ids, values, target, times, choice=choice, r=r, candidates=candidates, reason=reason)
        assert self._fit is not None
        self._reference = target - self._fit.fitted
        # W(t) slides on over W(t'): at first they have samples in common.
        self._residuals = deque(self._reference.tolist(), self._options.window)
        return model

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return super().snapshot() | {"reference": self._reference.copy(), "residuals": list(self._residuals)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave."""
        super().restore(state)
        self._reference = np.array(state["reference"], np.float64)
        self._residuals = deque((float(each) for each in state["residuals"]), self._options.window)


class Adaptive(Follower):
    """Builds on samples from before and after a change, tests few residuals at a time, and tracks the coefficients.

    A model is built when there are enough samples, grows once there are twice as many, and is given up when its newest
    residuals are not like those before. Residuals are taken as shares of what was predicted: response times spread the
    more the longer they are. Of the newest one, two, three, and a whole window of them the mean is compared with the
    spread of those before (Student's t); how small a p-value has to be is calibrated on the stream, so that rebuilds
    without a change are a budget (`Calibration`). After a change a model is built at once, on the samples before and
    since; again when there are three since, and a window, and two.

    A response time that rises far above what was usual also asks for a new model, although the old one may still hold:
    the question is then no longer what it follows, but what makes it long.
    """

    def __init__(self, name: str, options: Options) -> None:
        super().__init__(name, options)
        self._explained = name.startswith(RESPONSE_TIME)
        self._age = 0  # samples since the change, or since the first one
        self._steps: list[int] = []  # at which ages the model is built again
        self._first = True  # no change was seen yet
        self._floor = self._lowest = 0.0
        self._reference = math.nan  # the spread of residuals that is assumed
        self._residuals = deque[float](maxlen=REMEMBERED)
        self._usual = deque[float](maxlen=options.history)  # response times while it was not slow
        self._slow = False
        self._slow_for = 0  # samples
        self._calm = 0
        self._rebuilds = Calibration(per_day=options.false_rebuilds_per_day, prior=(6.0, 1.5))
        self._lateness = Calibration(per_day=options.false_alarms_per_day, scale="logarithmic", prior=(1.2, 0.3))

    @property
    def slow(self) -> bool:
        """Whether the application has been slow lately."""
        return self._slow

    def look(self, value: float, values: Mapping[str, float]) -> Seen:
        """What a sample says."""
        slow = self._slowness(value)
        predicted = self.predict(values)
        if self._explained:
            predicted = predicted if math.isnan(predicted) else max(predicted, 0.5 * self._lowest)
        if not (math.isfinite(predicted) and math.isfinite(value)):
            return Seen(predicted, slow=slow)
        residual = (value - predicted) / max(abs(predicted), self._floor, 1e-12)
        p, span = self._test(residual)
        changed = self._rebuilds.score(_surprise(p)) > 1.0
        return Seen(predicted, residual, p, span, changed, slow)

    def _test(self, newest: float) -> tuple[float, int]:
        """The least p-value of the newest residuals, and of how many they are."""
        if not math.isfinite(self._reference):
            return math.nan, 0
        residuals = np.array([*self._residuals, newest])
        squares = np.concatenate(([0.0], np.cumsum(residuals * residuals)))
        least, of = math.nan, 0
        spans = (*SPANS, self._options.window)
        for span in spans:
            if span > len(residuals):
                continue
            known = len(residuals) - span
            spread = math.sqrt((ASSUMED * self._reference**2 + squares[known]) / (ASSUMED + known))
            freedom = ASSUMED + known
            t = abs(float(residuals[-span:].mean())) / (spread * math.sqrt(1.0 / span + 1.0 / freedom))
            p = min(2.0 * float(stdtr(freedom, -t)) * len(spans), 1.0)
            if not p >= least:
                least, of = p, span
        return least, of

    def _slowness(self, value: float) -> float:
        """How much slower than usual it is, above 1 is anomalous."""
        deviation = self._deviation(value)
        if math.isnan(deviation):
            return 0.0
        usual = float(np.median(self._usual))
        return min(self._lateness.score(deviation), value / (SLOW * usual)) if usual > 0.0 else 0.0

    def _deviation(self, value: float) -> float:
        """By how many spreads a response time is longer than usual; NaN where that is not known."""
        if not self._explained or len(self._usual) < self._options.window or not math.isfinite(value):
            return math.nan
        usual = np.array(self._usual)
        median = float(np.median(usual))
        spread = 1.4826 * float(np.median(np.abs(usual - median))) + NOTICED * abs(median)
        return max(value - median, 0.0) / spread if spread > 0.0 else math.nan

    def learn(
        self, value: float, values: Mapping[str, float], window: Window, traits: Traits, wishes: Wishes
    ) -> Model | None:
        """Take in the newest sample."""
        seen = self.look(value, values)
        self._note(value, seen.predicted)
        if not math.isfinite(value):
            return None
        self._age += 1
        ts = float(window.times()[-1])
        begins = self._watch_lateness(ts, value, seen)
        reason: Reason | None = None
        if self.model is None:
            reason = "first" if self._age >= self._options.window else None
        else:
            self._rebuilds.learn(ts, _surprise(seen.p_value))
            if seen.changed or begins or self._missing >= MISSING:
                self._age = seen.span if seen.changed else 1
                self._first = False
                self._residuals.clear()
                reason = "changed"
            else:
                if math.isfinite(seen.residual):
                    self._residuals.append(seen.residual)
                self._follow(values, value)
                if self._steps and self._age >= self._steps[0]:
                    reason = "grown"
                elif self._wished:
                    reason = "wish"
        return None if reason is None else self._build(window, traits, wishes, reason, seen.p_value)

    def _follow(self, values: Mapping[str, float], value: float) -> None:
        assert self.model is not None
        assert self._fit is not None
        self._fit.learn(np.array([values.get(term.metric, math.nan) for term in self.model.terms], np.float64), value)

    def _watch_lateness(self, ts: float, value: float, seen: Seen) -> bool:
        """Take a response time into what is usual, unless it is slow; gives whether a slow time begins here.

        What lasts for a whole history is what is usual from then on.
        """
        if not self._explained:
            return False
        self._slow_for += 1
        if self._slow and self._slow_for > self._options.history:
            self._usual.clear()
            self._slow = False
        begins = seen.slow > 1.0 and not self._slow
        if seen.slow > 1.0:
            self._slow, self._calm, self._slow_for = True, 0, 1 if begins else self._slow_for
        else:
            self._calm += 1
            self._slow = self._slow and self._calm < CALM
        # A long trouble does not teach that troubles are usual.
        self._lateness.learn(ts, self._deviation(value) if begins or not self._slow else math.nan)
        if not self._slow:
            self._usual.append(value)
        return begins and self.model is not None

    def _build(self, window: Window, traits: Traits, wishes: Wishes, reason: Reason, p_value: float) -> Model:
        values, target, times = self._usable(window)
        size, window_size = len(target), self._options.window
        since = min(self._age, size)
        # While it is slow the question is what is not as it was before it became so.
        since, young = (min(max(self._slow_for, since), size), since) if self._slow else (since, since)
        begin = 0 if self._first else max(size - since - 2 * window_size, 0)
        before = values[max(size - since - self._options.history, 0) : size - since]
        choice, r, candidates = self._choose(
            values[begin:], target[begin:], since, before=before, ids=window.ids, traits=traits, wishes=wishes
        )
        choice = _pinned(choice, window.ids, values[begin:], wishes)
        if reason in {"first", "changed"}:
            self._p_value = p_value
        model = self._make(
            window.ids,
            values[begin:],
            target[begin:],
            times[begin:],
            choice=choice,
            r=r,
            candidates=candidates,
            reason=reason,
        )
        self._refer(target[begin:], young)
        self._steps = [age for age in ((2 * window_size,) if self._first else (SETTLING, window_size)) if age > since]
        return model

    def _choose(
        self,
        values: NDArray[np.float64],
        target: NDArray[np.float64],
        since: int,
        *,
        before: NDArray[np.float64],
        ids: list[str],
        traits: Traits,
        wishes: Wishes,
    ) -> tuple[Choice, NDArray[np.float64], NDArray[np.intp]]:
        traits.follow(ids)
        banned = np.array([at for at, name in enumerate(ids) if name in wishes.banned], np.intp)
        found = Diagnosis(
            values,
            target,
            since,
            before=before,
            traits=traits,
            banned=banned,
            candidates=self._options.candidates,
            explained=self._explained,
        )
        choice = found.choose(settled=since >= SETTLING)
        if choice.columns and self._options.kind != "linear":
            choice = self._climb(values, target, np.array(choice.columns), len(choice.columns))
        return choice, found.r, found.columns

    def _refer(self, target: NDArray[np.float64], since: int) -> None:
        """Note what residuals are to be expected of the new model."""
        assert self._fit is not None
        self._floor = float(np.percentile(np.abs(target), 10))
        self._lowest = float(target.min())
        fitted = np.maximum(np.abs(self._fit.fitted), self._floor)
        deviations = self._fit.deviations / np.maximum(fitted, 1e-12)
        of = deviations if self._first else deviations[-since:]
        enough = self._first or since >= SETTLING
        self._reference = INFLATED * max(float(np.sqrt(np.mean(of * of))), 1e-3) if enough else math.nan

    def suspects(self, window: Window, traits: Traits, wishes: Wishes) -> tuple[Suspect, ...]:
        """The metrics of the model, with what they were before the change."""
        del traits, wishes
        if self.model is None:
            return ()
        names = [term.metric for term in self.model.terms]
        values = window.of(names)
        usable = np.isfinite(window.performance(self.name))
        values = values[usable]
        since = min(self._age, len(values))
        before = values[: len(values) - since] if not self._first else values[:-1]
        found = []
        for at, name in enumerate(names):
            past = before[:, at][np.isfinite(before[:, at])]
            mean = float(past.mean()) if len(past) else math.nan
            spread = float(past.std()) if len(past) else math.nan
            newest = float(values[-1, at])
            found.append(Suspect(name, newest, mean, spread, abs(newest - mean) / spread if spread > 0.0 else math.nan))
        return tuple(found)

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return super().snapshot() | {
            "age": self._age,
            "steps": list(self._steps),
            "first": self._first,
            "floor": self._floor,
            "lowest": self._lowest,
            "reference": self._reference,
            "residuals": list(self._residuals),
            "usual": list(self._usual),
            "slow": self._slow,
            "slow_for": self._slow_for,
            "calm": self._calm,
            "rebuilds": self._rebuilds.snapshot(),
            "lateness": self._lateness.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave."""
        super().restore(state)
        self._age, self._steps = int(state["age"]), [int(each) for each in state["steps"]]
        self._first, self._slow, self._calm = bool(state["first"]), bool(state["slow"]), int(state["calm"])
        self._slow_for = int(state["slow_for"])
        self._floor, self._lowest = float(state["floor"]), float(state["lowest"])
        self._reference = float(state["reference"])
        self._residuals = deque((float(each) for each in state["residuals"]), REMEMBERED)
        self._usual = deque((float(each) for each in state["usual"]), self._options.history)
        self._rebuilds.restore(state["rebuilds"])
        self._lateness.restore(state["lateness"])


def _pinned(choice: Choice, ids: list[str], values: NDArray[np.float64], wishes: Wishes) -> Choice:
    """The same with the metrics that must be there, where they are."""
    if not wishes.pinned:
        return choice
    there = [ids.index(name) for name in wishes.pinned if name in ids]
    there = [at for at in there if np.isfinite(values[:, at]).all()]
    return choice._replace(columns=[*there, *(at for at in choice.columns if at not in there)])


def _surprise(p_value: float) -> float:
    """Minus the logarithm of a p-value; NaN of NaN."""
    return math.nan if math.isnan(p_value) else -math.log(max(p_value, 1e-300))


def _plain(model: Model) -> dict[str, Any]:
    plain = {name: getattr(model, name) for name in Model.__slots__}
    plain["terms"] = [[term.metric, term.coefficient, list(term.family)] for term in model.terms]
    plain["candidates"] = [[each.metric, each.r, each.p_value] for each in model.candidates]
    return plain


def _model(plain: dict[str, Any]) -> Model:
    terms = tuple(Term(metric, float(b), tuple(names)) for metric, b, names in plain["terms"])
    candidates = tuple(Candidate(metric, float(r), float(p)) for metric, r, p in plain["candidates"])
    return Model(**(plain | {"terms": terms, "candidates": candidates}))
