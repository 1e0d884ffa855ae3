"""Steady growth: a leak that is slow enough for the baseline to follow it is compared with the baseline before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laggard.operators.gaussian.episodes import SURE
from laggard.operators.gaussian.moments import Moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout

    Vector = NDArray[np.float64]

BEGUN = 1.0
"""The deviation from which on a cell may begin to rise, in standard deviations."""

STEADY = 12.0
"""A rise is steady after this number of steps up, one at most every `EPISODE_S`: an hour. Of random walks less than one
in a hundred gets there in four hours."""

DOWN = 2.0
"""A check without a new maximum takes back this number of steps, ..."""

MOST = STEADY + 4.0
"""... of at most this number. So a quarter of an hour without a step up ends the rise."""


class Cell(NamedTuple):
    """A cell that rises steadily.

    Attributes:
        row: its id.
        feature: its name.
        mean: the mean of the baseline before the rise.
        variance: its variance.
        level: the highest level at any check.

    """

    row: str
    feature: str
    mean: float
    variance: float
    level: float


@dataclass(frozen=True, slots=True)
class Rises:
    """The cells that may be rising.

    A Gaussian with forgetting follows linear growth at a distance of one standard deviation. So a leak that takes hours
    never deviates much. Here the level of a cell above its baseline is compared with its maximum every few minutes.
    While almost every check finds a new maximum, the baseline from before stays.

    Memory: six numbers for each cell above its baseline, at most for all cells of `stocks`.

    Attributes:
        rows: ids, one per cell.
        features: names, one per cell.
        mean: the mean of the baseline before the rise, shape (cells,).
        variance: its variance.
        level: the highest level at any check.
        steps: the number of steps up, less `DOWN` for each look without one.

    """

    rows: tuple[str, ...]
    features: tuple[str, ...]
    mean: Vector
    variance: Vector
    level: Vector
    steps: Vector

    @classmethod
    def none(cls) -> Rises:
        """Return no cells."""
        return cls((), (), *(np.zeros(0) for _ in range(4)))

    @property
    def steady(self) -> tuple[Cell, ...]:
        """The cells that rise steadily."""
        return self._cells(np.flatnonzero(self.steps >= STEADY))

    def _cells(self, these: NDArray[np.intp]) -> tuple[Cell, ...]:
        return tuple(
            Cell(
                self.rows[number],
                self.features[number],
                float(self.mean[number]),
                float(self.variance[number]),
                float(self.level[number]),
            )
            for number in map(int, these)
        )

    def before(self, usual: Moments, rows: tuple[str, ...], features: tuple[str, ...]) -> Moments:
        """Return the baselines; those from before the rise for cells that rise steadily."""
        steady = self.steady
        if not steady:
            return usual
        line, column = ({name: number for number, name in enumerate(each)} for each in (features, rows))
        mean, squares = usual.mean.copy(), usual.squares.copy()
        for cell in steady:
            if cell.feature in line and cell.row in column:
                place = line[cell.feature], column[cell.row]
                mean[place], squares[place] = cell.mean, cell.variance * usual.weight[place]
        return Moments(usual.weight, mean, squares, even=usual.even)

    def after(
        self, layout: Layout, stocks: NDArray[np.intp], usual: Moments, block: Moments
    ) -> tuple[Rises, tuple[Cell, ...]]:
        """Compare all cells with their maxima.

        Args:
            layout: the names of the frame.
            stocks: the places of the features that may leak.
            usual: the baseline; its shape is at least (features, rows) of the frame.
            block: the last ticks, of the same shape.

        Returns:
            The cells that may be rising now, and those whose steady rise has ended.

        """
        shape = (len(stocks), len(layout.rows))
        weight, mean, squares, values, level = (
            part[stocks, : shape[1]] for part in (usual.weight, usual.mean, usual.squares, block.weight, block.mean)
        )
        variance = squares / np.maximum(weight, 1.0)
        rising = level - mean
        begun = (values > 0.0) & (weight >= SURE) & (rising > 0.0) & (rising * rising > BEGUN * BEGUN * variance)

        column = {row: number for number, row in enumerate(layout.rows)}
        line = {layout.features[feature]: number for number, feature in enumerate(stocks.tolist())}
        missing = (-1, -1)
        pairs = zip(self.rows, self.features, strict=True)
        cells = [
            (line[feature], column[row]) if row in column and feature in line else missing for row, feature in pairs
        ]
        lines, columns = np.array(cells, np.intp).reshape(-1, 2).T
        there = lines >= 0
        # After a gap, or without a value, it is not known to be less.
        now = np.full(len(lines), -np.inf)
        now[there] = np.where(values > 0.0, level, -np.inf)[lines[there], columns[there]]
        steps = np.where(now > self.level, np.minimum(self.steps + 1.0, MOST), self.steps - DOWN)
        lasts = there & (steps >= 0.0) & ((now > self.mean) | (now == -np.inf))
        ended = there & (self.steps >= STEADY) & ~(lasts & (steps >= STEADY))
        continuing = np.flatnonzero(lasts & ~ended)
        begun[lines[continuing], columns[continuing]] = False
        fresh = np.nonzero(begun)
        fresh_rows, fresh_features = fresh[1].tolist(), stocks[fresh[0]].tolist()
        return Rises(
            (*(self.rows[number] for number in continuing), *(layout.rows[number] for number in fresh_rows)),
            (
                *(self.features[number] for number in continuing),
                *(layout.features[number] for number in fresh_features),
            ),
            np.concatenate([self.mean[continuing], mean[fresh]]),
            np.concatenate([self.variance[continuing], variance[fresh]]),
            np.concatenate([np.maximum(now, self.level)[continuing], level[fresh]]),
            np.concatenate([steps[continuing], np.zeros(len(fresh[0]))]),
        ), self._cells(np.flatnonzero(ended))

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "rows": list(self.rows),
            "features": list(self.features),
            **{name: getattr(self, name).copy() for name in VECTORS},
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Rises:
        """Read a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        rows, features = tuple(state["rows"]), tuple(state["features"])
        vectors = {name: np.array(state[name], dtype=np.float64) for name in VECTORS}
        for name, values in {"features": np.zeros(len(features)), **vectors}.items():
            if values.shape != (len(rows),):
                raise ValueError(f"rises: {name}: expected {len(rows)}, got {values.size}")
        return cls(rows, features, *vectors.values())


VECTORS = ("mean", "variance", "level", "steps")


def stocks_of(features: Sequence[str], ends: Sequence[str]) -> NDArray[np.intp]:
    """Return the places of the features whose names have one of these ends."""
    return np.array([number for number, name in enumerate(features) if name.endswith(tuple(ends))], np.intp)
