"""The operator `gaussian` written in the slow, plain way: every value is kept, everything is computed anew.

The oracle of the fast one. Plain floats and loops, no running sums.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Names

Cell = tuple[str, str]
Weighted = list[tuple[float, float]]  # (weight, value)


class SlowGaussian:
    """Scores of each cell and row. Rows and features are never forgotten."""

    def __init__(
        self, *, likelihood: str = "scale_free", context_s: float = 14400.0, minimum_features: int = 10
    ) -> None:
        self.scale_free = likelihood == "scale_free"
        self.context_s = context_s
        self.minimum_features = minimum_features
        self.evidence_s = 5.0 if self.scale_free else 0.0
        self.exclude_s = 20.0 if self.scale_free else 0.0
        self.usual: dict[Cell, Weighted] = defaultdict(list)
        self.waiting: list[tuple[Cell, float]] = []
        self.open: list[tuple[Cell, float]] = []
        self.evidence: dict[Cell, float] = {}
        self.opened = self.merged = self.last = math.nan
        self.ticks = 0
        self.first = self.pooled = math.nan
        self.features: tuple[str, ...] = ()
        self.pool: dict[str, tuple[float, float, float]] = {}

    def score(self, ts: float, layout: Names, values: list[list[float]]) -> tuple[list[list[float]], list[float]]:
        """Each cell's anomaly and each row's, NaN for what is left out."""
        judged = self._evidence(ts, layout, values)
        pool = self._pools(layout)
        # A feature that was one constant in all rows may not be any more.
        pool |= {each: (pool[each][0], *self._pool(layout, each)[1:]) for each in pool if pool[each][2] == 0.0}
        seen = any(self.usual[row, feature] for row in layout.rows for feature in layout.features)
        cells, rows = [], []
        for row in layout.rows:
            found, counted = [], 0
            for feature in layout.features:
                value, history = judged[row, feature], self.usual[row, feature]
                if self.scale_free:
                    surprise, varies = self._scale_free(value, history, *pool[feature])
                else:
                    surprise, varies = self._paper(value, history)
                found.append(surprise)
                counted += varies
            cells.append(found)
            there = [each for each in found if not math.isnan(each)]
            needed = min(self.minimum_features, max(len(layout.features) // 2, 1))
            far = self.scale_free and counted > 0 and max(there, default=0.0) >= 15.0
            if (counted < needed and not far) or not there or not seen:
                rows.append(math.nan)
            else:
                rows.append(max(there) if self.scale_free else sum(there) / counted)
        return cells, rows

    def _scale_free(
        self, value: float, history: Weighted, middle: float, within: float, spread: float
    ) -> tuple[float, bool]:
        if math.isnan(value):
            return math.nan, False
        weight, mean, squares = moments(history)
        center = mean if weight > 0 else middle
        rise = max(value - center, 0.0)
        degrees = weight - 1.0 + 2.0
        trusted = min(degrees, 30.0)
        varies = squares > 0 or value != center
        if spread == 0.0:
            return (trusted + 1) / 2 * math.log(2.0) if rise > 0 else 0.0, varies
        expected = (spread**2 + 0.3 * weight * within**2) / (1.0 + weight)
        scale = (squares + 2.0 * expected) / degrees * (1 + 1 / (weight + 2.0))
        return (trusted + 1) / 2 * math.log1p(rise**2 / (trusted * scale)), varies

    def _paper(self, value: float, history: Weighted) -> tuple[float, bool]:
        before = moments(history)[0]
        weight, mean, squares = moments([*history, (1.0, value)])
        if math.isnan(value) or before < 1.0 or squares == 0.0:
            return math.nan, False
        variance = squares / (weight - 1)
        return 0.5 * math.log(2 * math.pi * variance) + (value - mean) ** 2 / (2 * variance), True

    def _pools(self, layout: Names) -> dict[str, tuple[float, float, float]]:
        if self.features == layout.features:
            return dict(self.pool)
        return {feature: self._pool(layout, feature) for feature in layout.features}

    def _pool(self, layout: Names, feature: str) -> tuple[float, float, float]:
        """Of a feature over all rows of the frame and all their usual values: mean, spread within rows and in all."""
        everything = [each for row in layout.rows for each in self.usual[row, feature]]
        weight, mean, _ = moments(everything)
        apart = within = 0.0
        for row in layout.rows:
            own_weight, own_mean, own_squares = moments(self.usual[row, feature])
            apart += own_weight * abs(own_mean - mean)
            within += math.sqrt(own_squares * own_weight)
        return mean, within / max(weight, 1.0), (apart + within) / max(weight, 1.0)

    def _evidence(self, ts: float, layout: Names, values: list[list[float]]) -> dict[Cell, float]:
        step = ts - self.last
        found = {}
        for row, line in zip(layout.rows, values, strict=True):
            for feature, given in zip(layout.features, line, strict=True):
                value = given if abs(given) <= 1e140 else math.nan
                before = self.evidence.get((row, feature), math.nan)
                if 0 < step < 0.9 * self.evidence_s and not math.isnan(before + value):
                    value = before + (value - before) * (1 - math.exp(-2 * step / self.evidence_s))
                found[row, feature] = value
        return found

    def learn(self, ts: float, layout: Names, values: list[list[float]]) -> None:
        self.evidence |= self._evidence(ts, layout, values)
        if self.features != layout.features:
            self.pool, self.features, self.pooled = self._pools(layout), layout.features, ts
        self._turn(ts, layout)
        for row, line in zip(layout.rows, values, strict=True):
            for feature, value in zip(layout.features, line, strict=True):
                if abs(value) <= 1e140:
                    self.open.append(((row, feature), value))

    def _turn(self, ts: float, layout: Names) -> None:
        if self.ticks == 0 and math.isnan(self.opened):
            self.opened = self.merged = self.first = ts
        elif (
            ts < self.opened
            or (ts - self.opened >= self.exclude_s / 2 and self.ticks >= 5)
            or ts - self.opened >= self.context_s / 16
        ):
            decay = math.exp(-2 * max(ts - self.merged, 0.0) / self.context_s)
            for history in self.usual.values():
                history[:] = [(weight * decay, value) for weight, value in history]
            self._take_waiting()
            if not 0 <= ts - self.last < self.context_s / 16:
                self._take_waiting()
            if not 0 <= ts - self.pooled < min(300.0, (ts - self.first) / 8):
                self.pool = {feature: self._pool(layout, feature) for feature in layout.features}
                self.pooled = ts
            self.opened = self.merged = ts
            self.ticks = 0
        self.ticks += 1
        self.last = ts

    def _take_waiting(self) -> None:
        for cell, value in self.waiting:
            self.usual[cell].append((1.0, value))
        self.waiting, self.open = self.open, []


def moments(history: Weighted) -> tuple[float, float, float]:
    """Weight, mean and squared deviations."""
    weight = math.fsum(each for each, _ in history)
    if weight == 0.0:
        return 0.0, 0.0, 0.0
    first = history[0][1]
    mean = first + math.fsum(each * (value - first) for each, value in history) / weight
    return weight, mean, math.fsum(each * (value - mean) ** 2 for each, value in history)
