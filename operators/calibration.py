"""What a raw score is worth: a scale on which 1 is the false-alarm budget, learned from the stream itself."""

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
    """What raw scores are worth at one moment.

    Attributes:
        scale: the one on which the scores' tail is exponential.
        at: the score that the budget allows to be passed, on that scale.
        notice_at: the score that the budget of notices allows to be passed, likewise; at most `at`.

    """

    scale: Scale
    at: float
    notice_at: float

    @property
    def limit(self) -> float:
        """The raw score that the budget allows to be passed."""
        return self.at if self.scale == "linear" else math.sinh(self.at)

    @property
    def notice(self) -> float:
        """The score from which on it is a notice, at most 1."""
        return self.notice_at / self.at if self.scale == "linear" else math.exp(self.notice_at - self.at)

    def score(self, raw: float) -> float:
        """The raw score as a share of what the budget allows: 0 and more, above 1 is anomalous.

        It grows with the raw score, and for large ones like the raw score itself.
        """
        if math.isnan(raw):
            return 0.0
        if self.scale == "linear":
            return max(raw, 0.0) / self.at
        return math.exp(min(math.asinh(raw), RANGES[self.scale].highest) - self.at)

    def scores(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same for many raw scores; NaN stays NaN."""
        if self.scale == "linear":
            return np.maximum(raw, 0.0) / self.at
        return np.exp(np.minimum(np.arcsinh(raw), RANGES[self.scale].highest) - self.at)


DAY_S: Final = 86400.0

QUIET_S: Final = 60.0
"""An incident is over when the scores have stayed at 1 or below for so long."""

REFIT_S: Final = 60.0
"""So often the limit follows the scores."""

LASTING_S: Final = 3600.0
"""An incident counts once more for each hour that it lasts, or a level that is always passed would never be counted."""

LONGEST_S: Final = 3600.0
"""A longer time without a score, when the machine was off, counts for so much."""

YOUNG_S: Final = 3600.0
"""What is older than this forgets by its age, until that is `memory_s`: first ticks are not like later ones."""

PEAKS: Final = 10.0
"""The tail begins at the level that so many incidents have reached."""

PRIOR_PEAKS: Final = 2.0
"""So many incidents the spread that is assumed before anything was seen counts for, always."""

CLIPPED: Final = 2.0
"""What passes the limit is learned as at most so many spreads above it."""


class Calibration:
    """Streaming return levels: the raw score that the stream passes as often as the budget allows.

    The budget counts incidents, not ticks, which come in clusters. So for each level on a grid it is counted how often
    the stream rose to it after it had stayed below for `QUIET_S`: how many incidents there would have been, had that
    level been the limit. Where the budget allows at least `PEAKS` of them, the limit is read off that curve. Else the
    curve is continued from the highest level u that n = `PEAKS` incidents reached. Excesses over u are taken to be
    exponential (a generalised Pareto tail whose shape is 0), on the scale where they are: as they are, where raw scores
    are log-likelihoods of heavy tails already, or asinh(raw), for large scores their logarithm. Their mean b is known
    from n of them and k = `PRIOR_PEAKS` assumed ones only, so their predictive distribution is used, a Lomax. With m
    the incidents that the budget allows in the time that was seen:

        limit = u + (n + k) b ((n / m)^(1 / (n + k)) - 1)

    It is never below a level that clearly more incidents than m have reached: more than m + sqrt(m) + 1. Before
    anything was seen a curve is assumed, whose weight falls with the time seen; one incident of the first day's budget
    may be spent at once, so that scores say something within minutes.

    State is two numbers a level, so it is O(1); counts fade. What passes the limit is learned as not much above it: a
    single huge score teaches little, and a long trouble does not teach that troubles are usual.

    References: Siffer, Fouque, Termier, Largouet (2017), "Anomaly detection in streams with extreme value theory", KDD.
    Coles (2001), "An introduction to statistical modeling of extreme values", sections 4 and 5.3 (runs declustering).

    Parameters:
        per_day: the budget, false incidents in 86,400 s of stream time.
        memory_s: the time after which an incident counts 1/e.
        scale: `linear` or `logarithmic`, on which the tail is exponential.
        prior: the level that is passed once an hour, and b, on that scale, before anything was seen ...
        prior_s: ... and for how many seconds of stream that counts, at first.
        notices: whether the level of notices is estimated, too; else it is that of incidents.

    Attributes:
        level: what raw scores are worth now.

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
        # Since when the scores are below each level: inf while they are not, -inf where they never were above.
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
        """The budget. After a change, the limit holds until its next fit, or is fitted anew if nothing was learned."""
        return self._per_day

    @per_day.setter
    def per_day(self, per_day: float) -> None:
        self._per_day = per_day
        if math.isnan(self._ts):
            self._spread, self.level = self._fit()

    @property
    def limit(self) -> float:
        """The raw score that the budget allows to be passed."""
        return self.level.limit

    def score(self, raw: float) -> float:
        """What the raw score is worth now."""
        return self.level.score(raw)

    def learn(self, ts: float, raw: float) -> None:
        """Take in one tick's raw score, NaN for none. `ts` in seconds since the Unix epoch."""
        step = ts - self._ts
        before, reached = self._reached, self._place(raw)
        if step > 0.0:
            self._waiting_s += min(step, LONGEST_S)
        elif step < 0.0:
            # The clock has stepped back: what was calm is so since now.
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
        """The highest level that a raw score reaches, as it is learned; -1 for none."""
        if math.isnan(raw):
            return -1
        lowest, _, steps = self._range
        level = min(raw if self.scale == "linear" else math.asinh(raw), self.level.at + CLIPPED * self._spread)
        return min(max(int((level - lowest) * steps), -1), len(self._counts) - 1)

    def _fade(self) -> None:
        """Let the time since the last fit pass."""
        self._counts[: self._reached + 1] += self._waiting_s / LASTING_S
        # What is young forgets its beginnings.
        self._age_s += self._waiting_s
        kept = math.exp(-self._waiting_s / min(self.memory_s, max(self._age_s, YOUNG_S)))
        self._counts *= kept
        self._seen_s = (self._seen_s + self._waiting_s) * kept
        self._waiting_s = 0.0

    def _fit(self) -> tuple[float, Level]:
        """The spread of the tail, and what raw scores are worth."""
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
        """A copy of the state as plain data."""
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
        """Take over a state that `snapshot` gave."""
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
    """Today's state from one that counted ticks (versions 1 and 2 of the states of `gaussian` and `river`).

    How many incidents they were cannot be told from those counts: they are learned anew. The old limit holds one tick.
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
    """The place of the last one that is true, 0 where none is."""
    return len(true) - 1 - int(true[::-1].argmax()) if true.any() else 0


class Calibrated:
    """An operator whose scores a `Calibration` makes worth what they are."""

    _calibration: Calibration

    @property
    def false_alarms_per_day(self) -> float:
        """The budget, which may change, see `Calibration.per_day`."""
        return self._calibration.per_day

    @false_alarms_per_day.setter
    def false_alarms_per_day(self, budget: float) -> None:
        self._calibration.per_day = budget
