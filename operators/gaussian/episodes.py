"""Spikes above the baseline of a cell: a single one neither blinds nor becomes normal, a recurring one does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.gaussian.moments import Moments

    Matrix = NDArray[np.float64]
    Heights = NDArray[np.float32]

EPISODE_S = 300.0
"""The time between two checks of episodes for their end, in seconds."""

MEMORY_S = 30 * 86400.0
"""The time constant with which the height of an episode is forgotten, in seconds."""

SURE = 30.0
"""The number of values from which on the spread of a cell is reliable."""

NOTED = 8.0
"""The height of an episode, in standard deviations."""

KNOWN = 4.0
"""The score of a height that has occurred twice before, in standard deviations."""

LIMIT = 20.0
"""A larger deviation is learned as this one, in standard deviations, ..."""

LASTING_S = 120.0
"""... unless it has lasted for this time, in seconds: then it is the new baseline."""

HIGHEST = 1e30
"""Larger heights are clipped to this one, which fits into float32."""

LEAST_DECAY = 1e-30
"""The least decay, however far a clock jumps: float32 rounds smaller ones to 0, and 0 times -inf is NaN."""

NONE = np.float32(-np.inf)


@dataclass(slots=True)
class Episodes:
    """Heights of episodes above the mean at that time, in the unit of the feature; float32, -inf for none.

    All have the shape (features, rows).

    Attributes:
        running: the height of the current episode.
        highest: the largest height of past episodes.
        second: the second-largest.
        limited_s: for how long the cell has deviated too much to be learned as it was, in seconds.

    """

    running: Heights
    highest: Heights
    second: Heights
    limited_s: Heights

    @classmethod
    def empty(cls, *shape: int) -> Episodes:
        """Return no episodes."""
        running, highest, second = (np.full(shape, NONE) for _ in range(3))
        return cls(running, highest, second, np.zeros(shape, np.float32))

    def take(self, usual: Moments, block: Moments, seconds: float) -> Matrix:
        """Record the height of a block of ticks, and limit its influence on the baseline.

        With d the difference of the block's mean and the baseline's, and v the block's variance, the height is
        d + 2 sqrt(v). That is close to the largest short mean of a burst within the block. In S0's Gaussian a single
        value that deviates by 1,000 standard deviations makes the spread 26 times as large for hours.

        Args:
            usual: the baseline before the block.
            block: the ticks to learn. The squares of large deviations are limited in place.
            seconds: the length of the block.

        Returns:
            The limited difference of the block's mean and the baseline's; a copy.

        """
        deviation = block.mean - usual.mean
        values, before = block.counts, usual.counts
        # (d + 2 sqrt(v))^2 <= 5 (d^2 + v). So in an episode the mean square deviation from the baseline is at least
        # `screen` times its variance.
        screen = 0.2 * NOTED * NOTED
        apart = deviation * deviation
        apart *= values
        apart += block.squares
        bound = usual.squares * (values * screen / np.maximum(before, SURE))
        beyond = apart > bound
        if before.min(initial=SURE) < SURE:
            beyond &= before >= SURE
        found = beyond.ravel().nonzero()[0]
        lasted = self.limited_s.take(found)
        self.limited_s.fill(0.0)
        if not found.size:
            return deviation
        # Each has values in the block: otherwise d and v are 0.
        weight = values.take(found % values.size if values.ndim == 1 else found)
        variance = block.squares.take(found)
        variance /= weight
        height = np.sqrt(variance)
        height *= 2.0
        height += deviation.take(found)
        bound = bound.take(found)
        usually = bound / (weight * screen)
        noted = height > NOTED * np.sqrt(usually)
        height[~noted] = NONE
        running = _flat(self.running)
        running[found] = np.maximum(running.take(found), np.minimum(height, HIGHEST).astype(np.float32))
        far = apart.take(found) > bound * (LIMIT * LIMIT / screen)
        far &= bound > 0.0
        if not far.any():
            return deviation
        cells, lasted, weight = found[far], lasted[far], weight[far]
        _flat(self.limited_s)[cells] = lasted + np.float32(min(seconds, LASTING_S))
        new = lasted < LASTING_S
        cells, weight, variance, limit = cells[new], weight[new], variance[far][new], LIMIT * np.sqrt(usually[far][new])
        deviation.put(cells, np.clip(deviation.take(cells), -limit, limit))
        block.squares.put(cells, np.minimum(variance, limit * limit) * weight)
        return deviation

    def close(self, seconds: float, block: Moments, mean: NDArray[np.float64]) -> None:
        """End the episodes of cells whose last block is less than half as high.

        Args:
            seconds: the time since the last call.
            block: the last block that was learned.
            mean: the mean of the baseline.

        """
        decay = np.float32(max(np.exp(-seconds / MEMORY_S), LEAST_DECAY))
        running = _flat(self.running)
        # -inf, for none, stays -inf.
        self.highest *= decay
        self.second *= decay
        under_way = (running > NONE).nonzero()[0]
        height = 2.0 * (block.mean.take(under_way) - mean.take(under_way))
        ended = under_way[~(height >= running[under_way])]
        self._note(ended, running[ended])
        running[ended] = NONE

    def note(self, feature: int, row: int, height: float) -> None:
        """Record an episode of one cell that was detected by other means."""
        cell = np.array([np.ravel_multi_index((feature, row), self.highest.shape)])
        self._note(cell, np.array([min(height, HIGHEST)], np.float32))

    def _note(self, cells: NDArray[np.intp], height: Heights) -> None:
        highest, second = _flat(self.highest), _flat(self.second)
        first = highest[cells]
        second[cells] = np.maximum(second[cells], np.minimum(height, first))
        highest[cells] = np.maximum(first, height)


def _flat(heights: Heights) -> Heights:
    """Return a flat view."""
    view: Heights = heights.reshape(-1)
    return view
