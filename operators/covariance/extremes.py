"""The highest statistics that members of a pool reach, from which the limit of a deviation follows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.covariance.arrays import LONGEST_LIFE, Arrays, fitting
from laggard.operators.covariance.estimates import FEWEST, deviation_of, median

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.covariance.comparison import Tick

    Floats = NDArray[np.float64]
    Slots = NDArray[np.intp]

BLOCK: Final = 64
"""The number of ticks in a block, of which the highest statistic is kept."""

TAIL: Final = 0.1
"""Shape of the generalized extreme value distribution: a little heavier than Gumbel's."""

PRIOR_MEAN: Final = 2.2
PRIOR_DEVIATION: Final = 0.6
PRIOR_WEIGHT: Final = 15.0
"""The prior of the highest statistics of blocks, and the number of blocks that it counts for."""

UNKNOWN_BLOCKS: Final = 0.5
"""The number of blocks that the prior of the spread between the blocks of a member counts for."""

LEAST_DEVIATION: Final = 0.3
"""The least spread of highest statistics: equal ones say little about those to come."""

EXPONENT: Final = 0.65
"""The power of the number of comparisons in the limit: statistics are correlated, and their tail is lighter than
assumed. It was fitted on simulated pools without deviations (tests/evaluation/pools)."""


class Extremes:
    """The highest statistics of members in blocks of ticks, and the evidence of those that are beyond.

    Members are alike, so the highest statistic of each in a block of ticks shows what any of them may reach. The mean m
    and the deviation s of these are medians over members, so that the few deviating ones do not count. With
    b = s sqrt(6) / pi and the budget:

        y = ln(1 + TAIL (z - m) / b) / TAIL,    score = y / (EXPONENT ln(members x statistics x blocks a day / budget))

    Reference: Coles (2001), "An introduction to statistical modeling of extreme values", section 3.

    Parameters:
        columns: the number of statistics of a member.
        levels: the number of levels among them, which come first.
        changes: the number of changes, which follow.
        block: the number of ticks in a block.

    """

    def __init__(self, columns: int, levels: int, changes: int, block: int) -> None:
        self.columns = columns
        self.levels = levels
        self.changes = changes
        self.block = block
        self.arrays = Arrays(self._empty)
        self._limits = self._reference()

    def _empty(self, slots: int) -> dict[str, NDArray[Any]]:
        c = self.columns
        return {
            "highest": np.full((2, c, slots), -np.inf),
            "ticks": np.zeros(slots),
            "blocks": np.zeros(slots),
            "block_mean": np.zeros((2, c, slots)),
            "block_square": np.zeros((2, c, slots)),
            "peak": np.full((2, c, slots), -np.inf),
        }

    def learn(self, tick: Tick) -> None:
        """Learn the statistics of a tick."""
        arrays, slots = self.arrays, tick.slots
        # Excused deviations do not count in the life either.
        both = np.where(np.isnan(tick.evidence), -np.inf, np.stack([tick.statistics, -tick.statistics]))
        highest = np.maximum(arrays["highest"][..., slots], both)
        arrays["highest"][..., slots] = highest
        arrays["peak"][..., slots] = np.maximum(arrays["peak"][..., slots], both)
        arrays["ticks"][slots] += 1.0
        full = arrays["ticks"][slots] % self.block == 0.0
        if full.any():
            done, highest = slots[full], highest[..., full]
            known = np.isfinite(highest)
            arrays["blocks"][done] += 1.0
            # Blocks without any statistic count as normal ones.
            highest = np.where(known, highest, PRIOR_MEAN)
            mean = arrays["block_mean"][..., done]
            weight = 1.0 / np.minimum(arrays["blocks"][done], LONGEST_LIFE / self.block)
            step = (highest - mean) * weight
            arrays["block_mean"][..., done] = mean + step
            square = arrays["block_square"][..., done]
            arrays["block_square"][..., done] = (1.0 - weight) * (square + step * (highest - mean))
            arrays["highest"][..., done] = -np.inf
            self._limits = self._reference()

    def _reference(self) -> Floats:
        """Return location and scale of the highest statistics of blocks, shape (2, directions, columns)."""
        arrays = self.arrays
        some = arrays["blocks"] >= 1.0
        self._is_known = int(some.sum()) >= FEWEST
        mean = np.full((2, self.columns), PRIOR_MEAN)
        variance = np.full((2, self.columns), PRIOR_DEVIATION**2)
        if some.any():
            means, squares = arrays["block_mean"][..., some], arrays["block_square"][..., some]
            members = means.shape[-1]
            found = median(means)
            between = deviation_of(means - found[..., None], members) ** 2
            blocks = float(np.median(arrays["blocks"][some]))
            independent = np.full(self.columns, float(members))
            independent[self.levels : self.levels + self.changes] *= blocks
            share = independent / (independent + PRIOR_WEIGHT)
            mean = share * found + (1.0 - share) * mean
            # One block or two say nothing about the spread between blocks.
            within = (blocks * median(squares) + UNKNOWN_BLOCKS * PRIOR_DEVIATION**2) / (blocks + UNKNOWN_BLOCKS)
            variance = share * (between + within) + (1.0 - share) * variance
        deviation = np.maximum(np.sqrt(variance), LEAST_DEVIATION)
        return np.stack([mean, deviation * math.sqrt(6.0) / math.pi])

    def evidence(self, both: Floats) -> Floats:
        """Return the evidence of statistics in both directions, shape (2, columns, n); NaN stays NaN."""
        location, scale = self._limits
        above = np.maximum(both - location[..., None], 0.0) / scale[..., None]
        return np.asarray(np.log1p(TAIL * above) / TAIL)

    def alone(self, evidence: Floats, limit: float) -> Floats:
        """Return the scores of a tick alone: 0 before the first block is complete."""
        if not self._is_known:
            return np.zeros(evidence.shape[-1])
        return np.asarray(np.nan_to_num(evidence).max(axis=(0, 1), initial=0.0) / limit)

    def evidence_limit(self, members: int, interval_s: float, per_day: float) -> float:
        """Return the evidence with a score of 1.

        Args:
            members: the number of compared members.
            interval_s: the time between ticks in seconds.
            per_day: the false-alarm budget.

        """
        blocks = 86400.0 / (self.block * max(interval_s, 1e-3))
        statistics = max(members, 2) * 2.0 * self.columns * max(blocks, 1.0)
        return EXPONENT * math.log(max(statistics / per_day, math.e))  # whatever the budget allows

    def peaks(self, slots: Slots) -> Floats:
        """Return the worst evidence of each statistic over life, shape (columns, n).

        It is relative to the present location and scale.
        """
        return np.asarray(np.nan_to_num(self.evidence(self.arrays["peak"][..., slots]), neginf=0.0).max(axis=0))

    def ticks(self, slots: Slots) -> Floats:
        """Return the number of ticks of members."""
        return np.array(self.arrays["ticks"][slots])

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state without the arrays as plain data."""
        return {"limits": self._limits.copy(), "is_known": self._is_known}

    def restore(self, state: dict[str, Any], slots: int) -> None:
        """Restore the state and the arrays of this number of slots. Raises `ValueError` as `Arrays` does."""
        self.arrays.restore(state, slots)
        self._is_known = bool(state["is_known"])
        self._limits = fitting(state, "limits", self._limits)
