"""A performance model for diagnosis: it detects a change within a few samples, and is tracked in between."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import stdtr

from laggard.operators.calibration import Calibration
from laggard.operators.regression.following import MISSING, RESPONSE_TIME, Follower, Options, Seen, Wishes
from laggard.operators.regression.models import Model, Reason, Suspect
from laggard.operators.regression.selection import BOTTLENECK, WORK, Diagnosis
from laggard.operators.regression.shortage import shortages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.regression.following import Samples
    from laggard.operators.regression.traits import Traits
    from laggard.operators.regression.window import Window

SPANS: Final = (1, 2, 3)
"""The numbers of newest residuals that are tested together, besides a whole window."""

SETTLING: Final = 3
"""The number of samples since a change from which on a model of these can be cross-validated."""

INFLATED: Final = 1.5
"""Residuals of new samples are this much larger than those of the samples that the metrics were chosen on ..."""

ASSUMED: Final = 8
"""... and this expectation counts for this number of residuals."""

NEGLIGIBLE: Final = 0.02
"""A spread of residuals below this share of the prediction counts as this share. Otherwise the
model of a nearly exact relation is replaced whenever the relation bends a little."""

REMEMBERED: Final = 100
"""The most residuals that are kept."""

SLOW: Final = 1.3
"""The least ratio of a slow response time to the baseline."""

NOTICED: Final = 0.1
"""This share of the baseline is added to its spread."""

UNSURE: Final = 10.0
"""The number of response times whose spread is doubled, since it is uncertain; that of more is inflated less."""

LASTING_SHARE: Final = 0.5
"""A slow time lasts while the excess over the baseline is at least this share of its mean excess ..."""

LASTING_SCORE: Final = 1.01
"""... and its score is then at least this."""

FOLLOWED: Final = 8.0
"""The time constant of the mean excess, in slow samples."""

CALM: Final = 5
"""The number of successive samples that end a slow time if none of them is slow."""

LASTING: Final = 10
"""The number of histories after which a long response time is the baseline: ten hours at intervals of a minute."""

MOST_OF_A_KIND: Final = 3

THROUGHPUT: Final = "throughput_per_s"
"""The performance metric with the requests per second."""


class Adaptive(Follower):
    """Builds on samples from before and after a change, tests few residuals at a time, and tracks the coefficients.

    A model is built when there are enough samples, again when there are twice as many, and is replaced when its newest
    residuals differ from earlier ones. Residuals are relative to the prediction, since the spread of response times
    grows with their length. Student's t compares the mean of the newest residual, of the newest two, three, and of a
    whole window with the spread of those before. The level of the p-value is calibrated on the stream, so that rebuilds
    without a change have a budget (`Calibration`). After a change a model is built at once, on the samples before and
    since; again after three samples, after a window, and after two.

    A response time far above its baseline also demands a new model, although the old one may still be valid. The
    question is then no longer what the response time follows, but what makes it long. The old one stays if it predicts
    most of the excess, unless another resource is short.
    """

    def __init__(self, name: str, options: Options) -> None:
        super().__init__(name, options)
        self._explained = name.startswith(RESPONSE_TIME)
        self._age = 0  # samples since the change, or since the first one
        self._steps: list[int] = []  # the ages at which the model is built again
        self._first = True  # no change so far
        self._floor = self._lowest = 0.0
        self._reference = math.nan  # the expected spread of residuals
        self._residuals = deque[float](maxlen=REMEMBERED)
        self._usual = deque[float](maxlen=options.history)  # response times while the application was not slow
        self._slow = False
        self._slow_for = 0  # samples
        self._calm = 0
        self._excess = 0.0  # the mean excess over the baseline since then
        self._rebuilds = Calibration(per_day=options.false_rebuilds_per_day, prior=(6.0, 1.5))
        self._lateness = Calibration(per_day=options.false_alarms_per_day, scale="logarithmic", prior=(1.5, 0.3))

    @property
    def usual(self) -> float:
        """The median response time while the application was not slow; NaN if unknown."""
        return float(np.median(self._usual)) if len(self._usual) >= self._options.window else math.nan

    def evaluate(self, value: float, values: Mapping[str, float]) -> Seen:
        """Evaluate a sample. The state does not change."""
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
        """Return the least p-value of the newest residuals, and the number of these."""
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
            spread = max(spread, NEGLIGIBLE)
            freedom = ASSUMED + known
            t = abs(float(residuals[-span:].mean())) / (spread * math.sqrt(1.0 / span + 1.0 / freedom))
            p = min(2.0 * float(stdtr(freedom, -t)) * len(spans), 1.0)
            if not p >= least:
                least, of = p, span
        return least, of

    def _slowness(self, value: float) -> float:
        """Return the score of a response time, above 1 if it is slow."""
        deviation = self._deviation(value)
        if math.isnan(deviation):
            return 0.0
        usual = self.usual
        score = min(self._lateness.score(deviation), value / (SLOW * usual)) if usual > 0.0 else 0.0
        is_lasting = self._slow and value - usual >= LASTING_SHARE * self._excess > 0.0
        return max(score, LASTING_SCORE) if is_lasting else score

    def _deviation(self, value: float) -> float:
        """Return the excess of a response time over its baseline, in spreads; NaN if unknown."""
        if not self._explained or len(self._usual) < self._options.window or not math.isfinite(value):
            return math.nan
        usual = np.array(self._usual)
        median = float(np.median(usual))
        # The spread of few values is less certain.
        sure = 1.0 + UNSURE / len(usual)
        spread = sure * 1.4826 * float(np.median(np.abs(usual - median))) + NOTICED * abs(median)
        return max(value - median, 0.0) / spread if spread > 0.0 else math.nan

    def learn(
        self, value: float, values: Mapping[str, float], window: Window, traits: Traits, wishes: Wishes
    ) -> Model | None:
        """Learn the newest sample, and return the model that was built."""
        seen = self.evaluate(value, values)
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
            unexplained = begins and not self._is_explained(value, seen, window, traits)
            if seen.changed or unexplained or self._missing >= MISSING:
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
        """Learn a response time, unless it is slow, and return whether a slow time begins.

        After `LASTING` histories a slow response time becomes the baseline.
        """
        if not self._explained:
            return False
        self._slow_for += 1
        if self._slow and self._slow_for > LASTING * self._options.history:
            self._usual.clear()
            self._slow = False
        begins = seen.slow > 1.0 and not self._slow
        if seen.slow > LASTING_SCORE:
            excess = value - self.usual
            self._excess = excess if begins else self._excess + (excess - self._excess) / FOLLOWED
        if seen.slow > 1.0:
            self._slow, self._calm, self._slow_for = True, 0, 1 if begins else self._slow_for
        else:
            self._calm += 1
            self._slow = self._slow and self._calm < CALM
        # A long fault must not raise the alert level.
        self._lateness.learn(ts, self._deviation(value) if begins or not self._slow else math.nan)
        if not self._slow:
            self._usual.append(value)
        return begins and self.model is not None

    def _build(self, window: Window, traits: Traits, wishes: Wishes, reason: Reason, p_value: float) -> Model:
        every = self._usable(window)
        size, length = len(every.target), self._options.window
        age = min(self._age, size)
        # While it is slow the question is what differs from before the slow time.
        since = min(max(self._slow_for, age), size) if self._slow else age
        samples = every.after(0 if self._first else max(size - since - 2 * length, 0))
        traits.follow(samples.ids)
        asked = self._explained and self._slow
        resource = None
        if self.model is not None and self.model.terms and reason == "grown":
            resource = traits.resource(self.model.terms[0].metric)
        found = Diagnosis(
            samples.values,
            samples.target,
            since,
            before=every.values[max(size - since - self._options.history, 0) : size - since],
            traits=traits,
            banned=samples.numbers(wishes.banned),
            candidates=self._options.candidates,
            purpose=BOTTLENECK if self._explained else WORK,
            kept=resource,
            short=self._shortages(every, window, traits) if asked else None,
        )
        settled = since >= SETTLING
        if settled and self._options.kind != "linear":
            choice = self._climb(samples, found.members, MOST_OF_A_KIND)
        else:
            choice = found.choose(settled=settled)
        if reason in {"first", "changed"}:
            self._p_value = p_value
        if asked and not choice.columns and not wishes.pinned:
            samples = samples.after(len(samples.target) - since)  # nothing relates them to those before
        model = self._make(samples, choice, r=found.r, candidates=found.columns, wishes=wishes, reason=reason)
        self._refer(samples.target, age)
        self._steps = [step for step in ((2 * length,) if self._first else (SETTLING, length)) if step > age]
        return model

    def _refer(self, target: NDArray[np.float64], since: int) -> None:
        """Set the expected residuals of the new model."""
        assert self._fit is not None
        self._floor = float(np.percentile(np.abs(target), 10))
        self._lowest = float(target.min())
        fitted = np.maximum(np.abs(self._fit.fitted), self._floor)
        deviations = self._fit.deviations / np.maximum(fitted, 1e-12)
        of = deviations if self._first else deviations[-since:]
        enough = self._first or since >= SETTLING
        self._reference = INFLATED * max(float(np.sqrt(np.mean(of * of))), 1e-3) if enough else math.nan

    def suspects(self, window: Window, traits: Traits) -> tuple[Suspect, ...]:
        """Return the metrics of the model with their baselines.

        Those that moved in the good direction are left out, and those of a resource that is not short.
        """
        if self.model is None:
            return ()
        names = [term.metric for term in self.model.terms]
        values = window.of(names)[np.isfinite(window.performance(self.name))]
        since = 1 if self._first else self._age
        if self._slow:  # a model from before the slow time may have stayed
            since = min(self._age, self._slow_for)
        before = values[: max(len(values) - since, 0)]
        short = self._shortages(self._usable(window), window, traits)
        found = []
        for at, name in enumerate(names):
            past = before[:, at][np.isfinite(before[:, at])]
            mean = float(past.mean()) if len(past) else math.nan
            spread = float(past.std()) if len(past) else math.nan
            newest = float(values[-1, at])
            group = traits.group(name)
            if (newest - mean) * traits.sign(name) < 0.0 or (group >= 0 and short[group] == 0.0):
                continue
            found.append(Suspect(name, newest, mean, spread, abs(newest - mean) / spread if spread > 0.0 else math.nan))
        return tuple(found)

    def _shortages(self, every: Samples, window: Window, traits: Traits) -> NDArray[np.float64]:
        """Return how short each resource is in this slow time; see `shortages`."""
        traits.follow(every.ids)
        begin = len(every.target) - min(max(self._slow_for, 1), len(every.target))
        return shortages(
            every.values[begin:],
            every.values[max(begin - self._options.history, 0) : begin],
            traits=traits,
            more=self._more(window, len(every.target) - begin),
        )

    def _more(self, window: Window, since: int) -> float:
        """Return the number of requests in the system beyond the usual one; NaN if unknown (Little's law)."""
        if THROUGHPUT not in window.performances:
            return math.nan
        times, rates = window.performance(self.name, since), window.performance(THROUGHPUT, since)
        there = np.isfinite(times) & np.isfinite(rates)
        return float((rates[there] * (times[there] - self.usual)).mean()) if there.any() else math.nan

    def _is_explained(self, value: float, seen: Seen, window: Window, traits: Traits) -> bool:
        """Return whether the valid model explains the beginning slow time, and no other resource is short."""
        assert self.model is not None
        group = traits.group(self.model.terms[0].metric) if self.model.terms else -1
        explained = seen.predicted - self.usual
        if seen.changed or group < 0 or not explained >= LASTING_SHARE * (value - self.usual):
            return False
        short = self._shortages(self._usable(window), window, traits)
        return bool(short[group] > 0.0 or (short[group] == 0.0 and not (short > 0.0).any()))

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
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
            "excess": self._excess,
            "rebuilds": self._rebuilds.snapshot(),
            "lateness": self._lateness.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`."""
        super().restore(state)
        self._age, self._steps = int(state["age"]), [int(each) for each in state["steps"]]
        self._first, self._slow, self._calm = bool(state["first"]), bool(state["slow"]), int(state["calm"])
        self._slow_for = int(state["slow_for"])
        self._excess = float(state.get("excess", 0.0))  # not in states of older versions
        self._floor, self._lowest = float(state["floor"]), float(state["lowest"])
        self._reference = float(state["reference"])
        self._residuals = deque((float(each) for each in state["residuals"]), REMEMBERED)
        self._usual = deque((float(each) for each in state["usual"]), self._options.history)
        self._rebuilds.restore(state["rebuilds"])
        self._lateness.restore(state["lateness"])


def _surprise(p_value: float) -> float:
    """Return minus the logarithm of a p-value; NaN for NaN."""
    return math.nan if math.isnan(p_value) else -math.log(max(p_value, 1e-300))
