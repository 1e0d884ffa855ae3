"""What a raw score is worth: a scale on which 1 is the false-alarm budget, learned from the stream itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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


class Level(NamedTuple):
    """What raw scores are worth at one moment.

    Attributes:
        scale: the one on which the scores' tail is exponential.
        at: the score that the budget allows to be passed, on that scale.

    """

    scale: Scale
    at: float

    @property
    def limit(self) -> float:
        """The raw score that the budget allows to be passed."""
        return self.at if self.scale == "linear" else math.sinh(self.at)

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


REFIT_TICKS, MANY_TICKS = 60, 100.0
"""The limit follows the scores at every tick of the first hundred, then at every sixtieth."""


class Calibration:
    """Streaming peaks over threshold.

    The upper `tail` of the raw scores is taken to fall off exponentially (a generalised Pareto tail whose shape is 0):
    as they are, where they are log-likelihoods of heavy tails already, or on the scale asinh(raw), for large scores
    their logarithm. With u the start of the tail and b the mean excess over it, the score that is passed with
    probability p per tick is u + b ln(tail / p), and p follows from the budget and the ticks of a day. State is one
    histogram whose old entries fade, so it is O(1), and what passes the limit is learned as the limit: a long trouble
    does not teach that troubles are usual.

    Reference: Siffer, Fouque, Termier, Largouet (2017), "Anomaly detection in streams with extreme value theory", KDD.

    Parameters:
        per_day: the budget, false alarms in 86,400 s of stream time.
        memory_s: the time after which a raw score counts 1/e.
        tail: the share of the scores that is the tail.
        scale: `linear` or `logarithmic`, on which the tail is exponential.
        prior: u and b, on that scale, that are assumed before anything was seen ...
        prior_ticks: ... and how many ticks they count.

    Attributes:
        level: what raw scores are worth now.

    Example:
        >>> calibration = Calibration(per_day=24, prior_ticks=10)
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
        tail: float = 0.02,
        scale: Scale = "linear",
        prior: tuple[float, float] = (30.0, 6.0),
        prior_ticks: float = 50.0,
    ) -> None:
        if not (per_day > 0.0 and memory_s > 0.0 and 0.0 < tail < 1.0 and prior[1] > 0.0 and prior_ticks > 0.0):
            raise ValueError(
                "expected a budget, a memory, a spread and a number of ticks above 0 and a tail between 0 and 1, "
                f"got {per_day=}, {memory_s=}, {tail=}, {prior=}, {prior_ticks=}"
            )
        self.per_day = per_day
        self.memory_s = memory_s
        self.tail = tail
        self.prior = prior
        self.prior_ticks = prior_ticks
        self.scale: Scale = scale
        self._range = RANGES[scale]
        self._counts: NDArray[np.float64] = np.zeros(
            round((self._range.highest - self._range.lowest) * self._range.steps)
        )
        self._ts = math.nan
        self._tick_s = 0.0
        self._ticks = 0.0
        self._unfitted = 0
        self.level = Level(self.scale, self._fit())

    @property
    def limit(self) -> float:
        """The raw score that the budget allows to be passed."""
        return self.level.limit

    def score(self, raw: float) -> float:
        """What the raw score is worth now."""
        return self.level.score(raw)

    def learn(self, ts: float, raw: float) -> None:
        """Take in one tick's raw score. NaN is left out. `ts` in seconds since the Unix epoch."""
        if math.isnan(raw):
            return
        step = ts - self._ts
        if step > 0.0:
            self._counts *= math.exp(-step / self.memory_s)
            self._ticks = min(self._ticks + 1.0, MANY_TICKS)
            self._tick_s += (step - self._tick_s) / self._ticks
        lowest, _, steps = self._range
        level = min(max(raw if self.scale == "linear" else math.asinh(raw), lowest), self.level.at)
        self._counts[min(int((level - lowest) * steps), len(self._counts) - 1)] += 1.0
        self._ts = ts if math.isnan(self._ts) else max(ts, self._ts)
        self._unfitted += 1
        if self._unfitted >= REFIT_TICKS or self._ticks < MANY_TICKS:
            self._unfitted = 0
            self.level = Level(self.scale, self._fit())

    def _fit(self) -> float:
        """The limit on the scale: u + b ln(tail / p)."""
        lowest, highest, steps = self._range
        above = np.cumsum(self._counts[::-1])[::-1]
        seen = float(above[0])
        first = int(np.searchsorted(-above, -self.tail * seen)) if seen > 0.0 else len(above)
        start = min(lowest + first / steps, highest)
        # Middles of bins over the start of the tail: their mean is the mean excess.
        counts = self._counts[first:]
        excess = float(counts @ (np.arange(len(counts)) + 0.5)) / steps
        weight = self.prior_ticks / (self.prior_ticks + seen)
        start += weight * (self.prior[0] - start)
        peaks = float(counts.sum()) + self.tail * self.prior_ticks
        spread = (excess + self.tail * self.prior_ticks * self.prior[1]) / peaks
        times = max(self.tail * 86400.0 / (self.per_day * (self._tick_s or 5.0)), 1.0)
        # What passed the limit was learned as the limit: the mean excess is short by the share 1 / times.
        if times > 1.0:
            spread /= 1.0 - 1.0 / times
        return min(start + spread * math.log(times), highest)

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "counts": self._counts.copy(),
            "ts": self._ts,
            "tick_s": self._tick_s,
            "ticks": self._ticks,
            "unfitted": self._unfitted,
            "limit": self.level.at,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave."""
        counts = np.array(state["counts"], dtype=np.float64)
        if counts.shape != self._counts.shape:
            raise ValueError(f"calibration: expected {self._counts.size} counts, got {counts.size}")
        self._counts = counts
        self._ts, self._tick_s = float(state["ts"]), float(state["tick_s"])
        self._ticks, self.level = float(state["ticks"]), Level(self.scale, float(state["limit"]))
        self._unfitted = int(state["unfitted"])
