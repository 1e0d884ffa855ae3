"""The largest deviation that each member of a pool ever had in each metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from laggard.operators.covariance.arrays import Arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.covariance.comparison import Tick

    Floats = NDArray[np.float64]
    Slots = NDArray[np.intp]


class Largest:
    """The largest deviation of each metric of each member, and of its covariance, with the tick at which it was.

    Parameters:
        metrics: the number of metrics.
        windows: the number of windows, with the life.
        levels: the number of levels among the statistics of a member, which come first.
        changes: the number of changes, which follow.

    """

    def __init__(self, metrics: int, windows: int, levels: int, changes: int) -> None:
        self.metrics = metrics
        self.windows = windows
        self.levels = levels
        self.changes = changes
        self.arrays = Arrays(self._empty)

    def _empty(self, slots: int) -> dict[str, NDArray[Any]]:
        # Evidence, column, direction, value, median of the siblings, their spread, and the time.
        return {"worst": np.zeros((7, self.metrics + 1, slots))}

    def learn(self, tick: Tick) -> None:
        """Record the tick of the largest deviation of each metric."""
        arrays, slots = self.arrays, tick.slots
        p, n = self.metrics, len(slots)
        if not n:
            return
        evidence = np.nan_to_num(tick.evidence)
        direction = evidence.argmax(axis=0)
        best = evidence.max(axis=0)
        windows = self.windows
        q = 2 * p
        by_metric = best[: self.levels + self.changes].reshape(2 * (2 * windows - 1), p, n)
        of_metrics = by_metric.argmax(axis=0)
        found = np.take_along_axis(by_metric, of_metrics[None], axis=0)[0]
        better = found > arrays["worst"][0, :p, slots].T
        if better.any():
            metric, member = np.nonzero(better)
            column = of_metrics[metric, member] * p + metric
            window = np.where(column >= self.levels, (column - self.levels) // q, column // q)
            weight = np.maximum(tick.weights[window, metric, member], 1e-300)
            usual = tick.references[window, metric, member] / weight
            value = usual + tick.sums[window, metric, member] / weight
            figures = (
                found[metric, member],
                column,
                direction[column, member],
                value,
                usual,
                tick.spreads[np.where(column % q >= p, column - p, column), member],
                np.full(len(metric), tick.ts),
            )
            arrays["worst"][:, metric, slots[member]] = figures
        shape = best[self.levels + self.changes :]
        at = shape.argmax(axis=0)
        found = shape.max(axis=0)
        better = found > arrays["worst"][0, p, slots]
        nothing = np.full(n, np.nan)
        column = (self.levels + self.changes + at).astype(np.float64)
        rows = np.stack([found, column, np.zeros(n), nothing, nothing, nothing, np.full(n, tick.ts)])
        arrays["worst"][:, p, slots[better]] = rows[:, better]

    def worst(self, slots: Slots) -> Floats:
        """Return the largest deviation of each metric, shape (7, metrics + 1, n).

        Evidence, column, direction (0 above, 1 below), value, median of the siblings, their spread, and the time.
        """
        return np.array(self.arrays["worst"][..., slots])
