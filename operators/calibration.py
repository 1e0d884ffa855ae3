"""Calibration of raw scores: a scale on which 1 is the false-alarm budget, learned from the stream itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scale = Literal["linear", "logarithmic"]


class _Range(NamedTuple):
    """The histogram's range on a scale, and its bins per unit."""

    lowest: float
    highest: float
    steps: int


RANGES: dict[Scale, _Range] = {"linear": _Range(0.0, 512.0, 1), "logarithmic": _Range(-8.0, 24.0, 16)}
"""Raw scores from 0 to 512, 1 apart; from -1,500 to 1e10, 6 % apart."""


NOTICES: Final = 10.0
"""The budget of notices: this many times that of incidents."""


class Level(NamedTuple):
    """The calibration of raw scores at one time.

    Attributes:
        scale: the scale on which the tail of the scores is exponential.
        at: the alert level, on that scale: it is passed as often as the budget allows.
        notice_at: the level of notices, likewise; at most `at`.

    """

    scale: Scale
    at: float
    notice_at: float

    @property
    def limit(self) -> float:
        """The raw score at the alert level."""
        return self.at if self.scale == "linear" else math.sinh(self.at)

    @property
    def notice(self) -> float:
        """The score at the level of notices, at most 1."""
        return self.notice_at / self.at if self.scale == "linear" else math.exp(self.notice_at - self.at)

    def score(self, raw: float) -> float:
        """Return the score of a raw score, at least 0; above 1 is anomalous.

        It grows with the raw score, and in proportion to large ones.
        """
        if math.isnan(raw):
            return 0.0
        if self.scale == "linear":
            return max(raw, 0.0) / self.at
        return math.exp(min(math.asinh(raw), RANGES[self.scale].highest) - self.at)

    def scores(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores of many raw scores; NaN stays NaN."""
        if self.scale == "linear":
            return np.maximum(raw, 0.0) / self.at
        return np.exp(np.minimum(np.arcsinh(raw), RANGES[self.scale].highest) - self.at)


DAY_S: Final = 86400.0

QUIET_S: Final = 60.0
"""An incident ends when the scores have stayed at most 1 for this time, in seconds."""

REFIT_S: Final = 60.0
"""The time between two fits of the limit, in seconds."""

LASTING_S: Final = 3600.0
"""An incident counts again for each hour of its length. Otherwise a level that is always passed would not count."""

LONGEST_S: Final = 3600.0
"""A longer gap between scores, as when the machine was off, counts as this time, in seconds."""

YOUNG_S: Final = 3600.0
"""From this age on, the time constant of forgetting is the age, up to `memory_s`: the first ticks are not typical."""

PEAKS: Final = 10.0
"""The tail begins at the level that this number of incidents has reached."""

PRIOR_PEAKS: Final = 2.0
"""The number of incidents that the prior spread counts for."""

CLIPPED: Final = 2.0
"""A raw score is learned as at most this number of spreads above the limit."""


class Calibration:
    """Streaming return levels: the raw score that the stream passes as often as the budget allows.

    The budget counts incidents, not ticks, since anomalous ticks come in clusters. So each level of a grid counts how
    often the stream rose to it after at least `QUIET_S` below: the number of incidents if this level were the limit. If
    the budget allows at least `PEAKS` incidents, the limit is read from this curve. Otherwise the curve is extrapolated
    from the highest level u that n = `PEAKS` incidents reached. Excesses over u are assumed to be exponential (a
    generalized Pareto tail of shape 0) on one of two scales. The linear one is for raw scores that are log-likelihoods
    of heavy tails. The other one is asinh(raw), a logarithm for large scores. The mean b of the excesses is estimated
    from n excesses and k = `PRIOR_PEAKS` assumed ones. So their predictive distribution is used, a Lomax. With m the
    number of incidents that the budget allows in the time so far:

        limit = u + (n + k) b ((n / m)^(1 / (n + k)) - 1)

    The limit is never below a level that more than m + sqrt(m) + 1 incidents have reached. At first a prior curve is
    assumed, whose weight falls with time. One incident of the first day's budget may be spent at once, so that scores
    are meaningful within minutes.

    The state has two numbers per level, so it is O(1); counts fade. A raw score above the limit is learned as little
    above it. So neither a single huge score nor a long fault raises the limit much.

    References: Siffer, Fouque, Termier, Largouet (2017), "Anomaly detection in streams with extreme value theory", KDD.
    Coles (2001), "An introduction to statistical modeling of extreme values", sections 4 and 5.3 (runs declustering).

    Parameters:
        per_day: the budget: false incidents in 86,400 s of stream time.
        memory_s: the time constant with which incidents are forgotten, in seconds.
        scale: `linear` or `logarithmic`: the scale on which the tail is exponential.
        prior: the level that is passed once an hour, and b, on that scale, before any score ...
        prior_s: ... and the number of seconds of stream that these count for at first.
        notices: whether the level of notices is estimated, too; otherwise it is the limit.

    Attributes:
        level: the present calibration.

    Example:
        >>> calibration = Calibration(per_day=24, prior=(10.0, 2.0))
        >>> noise = np.random.default_rng(1).exponential(size=20_000)
        >>> for tick, raw in enumerate(noise):
        ...     calibration.learn(5.0 * tick, float(raw))
        >>> calibration.score(2.0) < 1.0 < calibration.score(30.0)
        True

    """

    def __init__(
        self,
        *,
        per_day: float = 1.0,
        memory_s: float = 7 * 86400.0,
        scale: Scale = "linear",
        prior: tuple[float, float] = (140.0, 30.0),
        prior_s: float = 900.0,
        notices: bool = False,
    ) -> None:
        if not (per_day > 0.0 and memory_s > 0.0 and prior[1] > 0.0 and prior_s > 0.0):
            raise ValueError(
                "expected a budget, a memory, a spread and a time above 0, "
                f"got {per_day=}, {memory_s=}, {prior=}, {prior_s=}"
            )
        self._per_day = per_day
        self.memory_s = memory_s
        self.prior = prior
        self.prior_s = prior_s
        self.notices = notices
        self.scale: Scale = scale
        lowest, highest, steps = self._range = RANGES[scale]
        levels = np.linspace(lowest, highest, round((highest - lowest) * steps), endpoint=False)
        self._assumed = prior_s / 3600.0 * np.exp((prior[0] - levels) / prior[1])
        self._counts: NDArray[np.float64] = np.zeros(len(levels))
        # Since when the scores have been below each level: inf while they are not, -inf if they were never above.
        self._calm_since: NDArray[np.float64] = np.full(len(levels), -math.inf)
        self._reached = -1
        self._ts = math.nan
        self._fitted = math.nan
        self._age_s = 0.0
        self._seen_s = 0.0
        self._waiting_s = 0.0
        self._spread, self.level = self._fit()

    @property
    def per_day(self) -> float:
        """The budget. After a change, the limit holds until its next fit, or is fitted at once before any score."""
        return self._per_day

    @per_day.setter
    def per_day(self, per_day: float) -> None:
        self._per_day = per_day
        if math.isnan(self._ts):
            self._spread, self.level = self._fit()

    @property
    def limit(self) -> float:
        """The raw score at the alert level."""
        return self.level.limit

    def score(self, raw: float) -> float:
        """Return the score of a raw score now."""
        return self.level.score(raw)

    def learn(self, ts: float, raw: float) -> None:
        """Learn the raw score of one tick, NaN for none. `ts` is in seconds since the Unix epoch."""
        step = ts - self._ts
        before, reached = self._reached, self._place(raw)
        if step > 0.0:
            self._waiting_s += min(step, LONGEST_S)
        elif step < 0.0:
            # The clock has stepped back: the calm begins now.
            np.minimum(self._calm_since[before + 1 :], ts, out=self._calm_since[before + 1 :])
            self._fitted = ts
        if reached > before:
            risen = slice(before + 1, reached + 1)
            self._counts[risen] += ts - self._calm_since[risen] >= QUIET_S
            self._calm_since[risen] = math.inf
        elif reached < before:
            self._calm_since[reached + 1 : before + 1] = ts
        self._reached, self._ts = reached, ts
        if not ts - self._fitted < REFIT_S:
            self._fitted = ts
            self._fade()
            self._spread, self.level = self._fit()

    def _place(self, raw: float) -> int:
        """Return the highest level that a raw score reaches, as it is learned; -1 for none."""
        if math.isnan(raw):
            return -1
        lowest, _, steps = self._range
        level = min(raw if self.scale == "linear" else math.asinh(raw), self.level.at + CLIPPED * self._spread)
        return min(max(int((level - lowest) * steps), -1), len(self._counts) - 1)

    def _fade(self) -> None:
        """Let the time since the last fit pass."""
        self._counts[: self._reached + 1] += self._waiting_s / LASTING_S
        # A young stream forgets its first ticks.
        self._age_s += self._waiting_s
        decay = math.exp(-self._waiting_s / min(self.memory_s, max(self._age_s, YOUNG_S)))
        self._counts *= decay
        self._seen_s = (self._seen_s + self._waiting_s) * decay
        self._waiting_s = 0.0

    def _fit(self) -> tuple[float, Level]:
        """Return the spread of the tail, and the calibration."""
        weight = self.prior_s / (self.prior_s + self._seen_s)
        counts = self._counts + weight * self._assumed
        seen_days = (self._seen_s + weight * self.prior_s) / DAY_S
        # Of the first day's budget one incident may be spent at once.
        spread, at = self._return_level(counts, self.per_day * seen_days + weight * min(self.per_day, 1.0))
        if not self.notices:
            return spread, Level(self.scale, at, at)
        notices = NOTICES * self.per_day
        _, notice_at = self._return_level(counts, notices * seen_days + weight * min(notices, 1.0))
        return spread, Level(self.scale, at, min(notice_at, at))

    def _return_level(self, counts: NDArray[np.float64], allowed: float) -> tuple[float, float]:
        """Return the spread of the tail, and the level that `allowed` incidents reach."""
        lowest, highest, steps = self._range
        start = _last(counts >= max(PEAKS, allowed))
        peaks = max(float(counts[start]), PEAKS)
        # The area below the curve is the sum of the excesses.
        excess = (float(counts[start + 1 :].sum()) + 0.5 * peaks) / steps
        known = PEAKS + PRIOR_PEAKS
        spread = (excess * (PEAKS / peaks) + PRIOR_PEAKS * self.prior[1]) / known
        ratio = max(peaks / allowed, 1.0)
        at = lowest + start / steps + known * spread * (ratio ** (1.0 / known) - 1.0)
        at = max(at, lowest + (_last(counts > allowed + math.sqrt(allowed) + 1.0) + 1) / steps)
        return spread, min(at, highest)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "counts": self._counts.copy(),
            "calm_since": self._calm_since.copy(),
            "reached": self._reached,
            "ts": self._ts,
            "fitted": self._fitted,
            "age_s": self._age_s,
            "seen_s": self._seen_s,
            "waiting_s": self._waiting_s,
            "spread": self._spread,
            "limit": self.level.at,
            **({"notice": self.level.notice_at} if self.notices else {}),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        if missing := self.snapshot().keys() - state.keys():
            raise ValueError(f"calibration: {', '.join(sorted(missing))}: missing")
        for name in ("counts", "calm_since"):
            values = np.array(state[name], dtype=np.float64)
            if values.shape != self._counts.shape:
                raise ValueError(f"calibration: {name}: expected {self._counts.size} numbers, got {values.size}")
            setattr(self, f"_{name}", values)
        self._reached = int(state["reached"])
        self._ts, self._fitted = float(state["ts"]), float(state["fitted"])
        self._age_s = float(state["age_s"])
        self._seen_s, self._waiting_s = float(state["seen_s"]), float(state["waiting_s"])
        limit = float(state["limit"])
        notice = float(state["notice"]) if self.notices else limit
        self._spread, self.level = float(state["spread"]), Level(self.scale, limit, notice)


def anew(state: dict[str, Any]) -> dict[str, Any]:
    """Migrate a state that counted ticks (versions 1 and 2 of the states of `gaussian` and `river`).

    Those counts do not show the number of incidents, which is learned from scratch. The old limit holds for one tick.
    """
    levels = len(state["counts"])
    return {
        "counts": np.zeros(levels),
        "calm_since": np.full(levels, -math.inf),
        "reached": -1,
        "ts": math.nan,
        "fitted": math.nan,
        "age_s": 0.0,
        "seen_s": 0.0,
        "waiting_s": 0.0,
        "spread": 1.0,
        "limit": state["limit"],
    }


def _last(true: NDArray[np.bool_]) -> int:
    """Return the place of the last true one, 0 for none."""
    return len(true) - 1 - int(true[::-1].argmax()) if true.any() else 0


class Calibrated:
    """An operator with a `Calibration` of its scores."""

    _calibration: Calibration

    @property
    def false_alarms_per_day(self) -> float:
        """The budget, which may change, see `Calibration.per_day`."""
        return self._calibration.per_day

    @false_alarms_per_day.setter
    def false_alarms_per_day(self, budget: float) -> None:
        self._calibration.per_day = budget
