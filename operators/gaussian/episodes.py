"""What each cell has shown beyond its usual: one spike neither blinds nor becomes usual, what comes again does."""

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
"""Episodes end where a cell is calm at the end of a stretch of this length."""

MEMORY_S = 30 * 86400.0
"""The time after which an episode counts 1/e."""

SURE = 30.0
"""A cell's spread is relied on once it has so many values."""

NOTED = 8.0
"""A height of so many standard deviations is an episode."""

KNOWN = 4.0
"""What has come twice is as unusual as so many standard deviations."""

LIMIT = 20.0
"""What is further from the mean than so many standard deviations is learned as if it were so far ..."""

LASTING_S = 120.0
"""... unless it has lasted for so long: then it is the new usual."""

HIGHEST = 1e30
"""Heights beyond this are cut to it: what float32 takes."""

LEAST_DECAY = 1e-30
"""However far a clock jumps: at 0, what float32 makes of smaller ones, there would be no number for no height."""

NONE = np.float32(-np.inf)


@dataclass(slots=True)
class Episodes:
    """Heights above the mean of their time, in the unit of the feature; float32, -inf where there is none.

    All have the shape (features, rows).

    Attributes:
        running: the highest of the episode that may be under way.
        highest: that of all episodes before it.
        second: that of all but the highest.
        limited_s: for how long, up to now, the cell has been too far off to be learned as it was, in seconds.

    """

    running: Heights
    highest: Heights
    second: Heights
    limited_s: Heights

    @classmethod
    def empty(cls, *shape: int) -> Episodes:
        """No episode so far."""
        running, highest, second = (np.full(shape, NONE) for _ in range(3))
        return cls(running, highest, second, np.zeros(shape, np.float32))

    def take(self, usual: Moments, block: Moments, seconds: float) -> Matrix:
        """Note how high a block of ticks is, and limit how far it moves what is usual.

        With d the block's mean less the usual one and v its variance, its height is d + 2 sqrt(v): near the largest
        short mean of a burst within it. As S0's Gaussian has it, one value 1,000 standard deviations off makes the
        spread 26 times as large for hours; limited, hardly.

        Args:
            usual: before the block.
            block: the ticks to be learned; what is far off is limited in its squares.
            seconds: how long the block is.

        Returns:
            The block's mean less the usual one, limited; a copy.

        """
        deviation = block.mean - usual.mean
        values, before = block.counts, usual.counts
        # The block's mean square deviation from the usual mean, times its values, beside the usual variance: one must
        # be `screen` times the other where (d + 2 sqrt(v))^2 <= 5 (d^2 + v) is that of an episode.
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
        # All have values in the block: without, both d and v are 0.
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
        """End the episodes that are over: those of cells whose last block is less than half as high.

        Args:
            seconds: since this was last done.
            block: the last one that was learned.
            mean: the usual one.

        """
        decay = np.float32(max(np.exp(-seconds / MEMORY_S), LEAST_DECAY))
        running = _flat(self.running)
        # Where there is none it stays -inf.
        self.highest *= decay
        self.second *= decay
        under_way = (running > NONE).nonzero()[0]
        height = 2.0 * (block.mean.take(under_way) - mean.take(under_way))
        ended = under_way[~(height >= running[under_way])]
        self._note(ended, running[ended])
        running[ended] = NONE

    def note(self, feature: int, row: int, height: float) -> None:
        """Take in an episode of one cell that was seen by other means."""
        cell = np.array([np.ravel_multi_index((feature, row), self.highest.shape)])
        self._note(cell, np.array([min(height, HIGHEST)], np.float32))

    def _note(self, cells: NDArray[np.intp], height: Heights) -> None:
        highest, second = _flat(self.highest), _flat(self.second)
        first = highest[cells]
        second[cells] = np.maximum(second[cells], np.minimum(height, first))
        highest[cells] = np.maximum(first, height)


def _flat(heights: Heights) -> Heights:
    """All of them in a row, as a view."""
    view: Heights = heights.reshape(-1)
    return view
