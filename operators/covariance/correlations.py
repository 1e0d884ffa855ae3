"""The correlations of metrics over all members, by which each metric is compared given the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from laggard.operators.covariance.arrays import LONGEST_LIFE, fitting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.covariance.comparison import Tick

    Floats = NDArray[np.float64]


class Correlations:
    """The correlations of the differences of members, and what these leave of each metric.

    With P the inverse of the correlations of the differences e of all members, a metric k given the others is
    (P e)_k / P_kk. The load of a member, which is in all of its metrics, cancels out there.

    Parameters:
        metrics: the number of metrics.
        settled: the number of ticks before there is a relation.

    Attributes:
        relation: the matrix that turns differences into those given the other metrics; NaN where unknown.

    """

    def __init__(self, metrics: int, settled: int) -> None:
        self.metrics = metrics
        self.settled = settled
        self._products = np.zeros((metrics, metrics))  # of differences in units of their spread
        self._spread = np.zeros(metrics)
        self.relation = np.full((metrics, metrics), np.nan)

    def learn(self, number: int, tick: Tick, values: Floats) -> None:
        """Learn a tick by its number, with the same `values`."""
        fade = 1.0 - 1.0 / LONGEST_LIFE
        difference = values.T - tick.medians
        known = np.isfinite(difference)
        n = known.sum(axis=1)
        size = np.where(n > 0, np.nansum(np.abs(np.where(known, difference, 0.0)), axis=1) / np.maximum(n, 1), 0.0)
        rate = max(1.0 / (number + 1.0), 1.0 / LONGEST_LIFE)
        self._spread += (np.minimum(size, np.where(self._spread > 0, 10 * self._spread, np.inf)) - self._spread) * rate
        scale = np.where(self._spread > 0.0, self._spread, np.inf)
        z = np.clip(np.where(known, difference, 0.0) / scale[:, None], -3.0, 3.0)
        self._products = self._products * fade + z @ z.T / max(len(tick.slots), 1)
        if number >= self.settled and number % 16 == 0:
            variance = np.diagonal(self._products)
            varies = variance > 0.0
            root = np.sqrt(np.where(varies, variance, 1.0))
            correlation = self._products / root[:, None] / root + 0.05 * np.eye(self.metrics)
            correlation[np.diag_indices(self.metrics)] = 1.05
            precision = np.linalg.inv(correlation)
            unit = np.where(varies, root * self._spread, 1.0)
            relation = precision / np.diagonal(precision)[:, None]
            relation *= unit[:, None] / unit
            relation[~varies] = np.nan
            relation[:, ~varies] = np.where(varies[:, None], 0.0, np.nan)
            self.relation = relation

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "products": self._products.copy(),
            "spread": self._spread.copy(),
            "relation": self.relation.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self._products = fitting(state, "products", self._products)
        self._spread = fitting(state, "spread", self._spread)
        self.relation = fitting(state, "relation", self.relation)
