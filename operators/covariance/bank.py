"""Members of a pool compared at each tick: the deviation of each from the others, and the largest ones ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.covariance.arrays import LONGEST_LIFE, Arrays, fitting
from laggard.operators.covariance.comparison import Tick
from laggard.operators.covariance.correlations import Correlations
from laggard.operators.covariance.estimates import FEWEST, median
from laggard.operators.covariance.extremes import BLOCK, Extremes
from laggard.operators.covariance.largest import Largest
from laggard.operators.covariance.runs import Runs
from laggard.operators.covariance.shapes import unlike
from laggard.operators.covariance.spread import Spread
from laggard.operators.covariance.windows import LIFE, Windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Slots = NDArray[np.intp]

NOTICEABLE: Final = 0.005
"""A difference below this share of the pool's level is negligible."""

SHAPE_EVERY: Final = 12
"""The number of comparisons of covariances in the length of a window."""

SETTLED: Final = 24
"""Ticks before a member is compared at all."""


class Bank:
    """Compares members of a pool, or groups of them, with their siblings.

    Each member has two statistics for each metric, in each window and over its whole life. Its **level** is the mean
    difference from the median of its siblings. Its **change** is the difference of that from the mean difference before
    the window. Both also exist for each metric **given the others**, see `Correlations`. All are divided by the spread
    of members: the median absolute deviation among siblings at this tick and its past mean. They are made standard
    normal, see `estimates.normal`. Each window also has the distance of the member's **covariance** from that of all
    (section IV.C), see `unlike`.

    The limit follows from the pool itself, see `Extremes`.

    Windows are exponential, with the mean age of `length` ticks: O(1) state per member and metric.

    Memory: about (37 windows + 32) x metrics numbers of 8 bytes per member, and those of `Windows`.

    Parameters:
        resolution: a negligible difference of each metric, shape (metrics,).
        windows: the lengths of the windows in ticks.
        limit: the most members.
        block: the number of ticks in a block.
        settled: the number of ticks before a member is compared.

    Attributes:
        extremes: the highest statistics, and the evidence of a deviation.
        largest: the largest deviation of each member and metric.
        runs: the times for which members score above 1.

    """

    def __init__(
        self,
        resolution: Floats,
        windows: Sequence[int],
        *,
        limit: int = 5_000,
        block: int = BLOCK,
        settled: int = SETTLED,
    ) -> None:
        self.metrics = p = len(resolution)
        self.resolution = resolution
        self.lengths = tuple(windows)
        self.settled = settled
        self.windows = Windows(p, windows, limit=limit)
        w = len(windows)
        self._decay = np.array([1.0 - 2.0 / (length + 1.0) for length in windows] + [1.0 - 1.0 / LONGEST_LIFE])
        self._full = np.array([1.0 / (1.0 - decay) for decay in self._decay])
        # Columns: levels by window and metric, of the life last; changes; distances of covariances.
        self.traces = q = 2 * p
        self.levels = (w + 1) * q
        self.changes = w * q
        self.shapes = len(self.windows.lengths)
        self.columns = self.levels + self.changes + self.shapes
        metric = np.tile(np.arange(p), 2)
        self.metric_of = np.concatenate([np.tile(metric, w + 1), np.tile(metric, w), np.full(self.shapes, p)])
        self.window_of = np.concatenate(
            [np.repeat([*windows, LIFE], q), np.repeat(windows, q), np.array(self.windows.lengths)]
        ).astype(np.intp)
        self._tick = 0
        self._level = np.zeros(p)  # of the pool, for what is noticeable
        self._arrays = Arrays(self._empty)
        self._correlations = Correlations(p, settled)
        self._spread = Spread(self.levels, self.window_of[self.levels : self.levels + self.changes])
        self.extremes = Extremes(self.columns, self.levels, self.changes, block)
        self.largest = Largest(p, w + 1, self.levels, self.changes)
        self.runs = Runs(q, settled)

    def _empty(self, slots: int) -> dict[str, NDArray[Any]]:
        w, p = len(self.lengths) + 1, self.metrics
        return {
            "sums": np.zeros((w, self.traces, slots)),
            "weights": np.zeros((w, self.traces, slots)),
            "references": np.zeros((w, p, slots)),
            "shape": np.full((self.shapes, slots), np.nan),
        }

    def claim(self, count: int) -> Slots:
        """Claim slots for new members. Raises `ValueError` above the limit."""
        before = self.windows.slots
        slots = self.windows.claim(count)
        if self.windows.slots > before:
            for arrays in self._every:
                arrays.grow(self.windows.slots)
        return slots

    def release(self, slots: Slots) -> None:
        """Forget members."""
        self.windows.release(slots)
        for arrays in self._every:
            arrays.release(slots)

    def compare(self, ts: float, slots: Slots, values: Floats, groups: NDArray[np.intp], limit: float) -> Tick:
        """Compare members at a tick. The state does not change.

        Args:
            ts: seconds since the Unix epoch.
            slots: the slots of the present members, shape (n,).
            values: their values, shape (n, metrics), NaN for missing ones.
            groups: the number of the group of each, shape (n,): members of one group are siblings.
            limit: the evidence with a score of 1, see `Extremes.evidence_limit`.

        """
        arrays = self._arrays
        x = values.T
        medians = np.empty_like(x)
        order = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        for members in order:
            medians[:, members] = median(x[:, members])[:, None]
        difference = x - medians
        difference = np.concatenate([difference, self._correlations.relation @ difference])
        there = np.isfinite(difference)
        decay = self._decay[:, None, None]
        sums = arrays["sums"][..., slots] * decay + np.where(there, difference, 0.0)
        references = arrays["references"][..., slots] * decay + np.where(there[: self.metrics], medians, 0.0)
        weights = arrays["weights"][..., slots] * decay + there
        raw = self._levels_and_changes(sums, weights)
        statistics = np.full((self.columns, len(slots)), np.nan)
        spreads = np.full((self.columns, len(slots)), np.nan)
        floor = self.noticeable[self.metric_of[: len(raw)]]
        statistics[: len(raw)], spreads[: len(raw)], variance = self._spread.compare(raw, order, floor)
        statistics[len(raw) :] = arrays["shape"][:, slots]
        statistics[:, self.extremes.ticks(slots) < self.settled] = np.nan
        evidence = self.extremes.evidence(np.stack([statistics, -statistics]))
        alone = self.extremes.alone(evidence, limit)
        return Tick(
            ts,
            slots,
            statistics,
            evidence,
            alone,
            self.runs.lasting(alone, slots),
            spreads,
            sums,
            weights,
            references,
            variance,
            medians,
            difference,
        )

    def _levels_and_changes(self, sums: Floats, weights: Floats) -> Floats:
        """Return the levels and changes, shape (levels + changes, n)."""
        means = sums / np.where(weights > 0.0, weights, np.nan)
        recent, recent_weight = sums[:-1], weights[:-1]
        rest = weights[-1] - recent_weight
        before = (sums[-1] - recent) / np.where((rest >= recent_weight) & (rest > 0.0), rest, np.nan)
        known = recent_weight >= 0.5 * self._full[:-1, None, None]
        change = np.where(known, means[:-1] - before, np.nan)
        level = means.copy()
        level[:-1][~known] = np.nan
        level[-1][weights[-1] < self.settled] = np.nan
        return np.concatenate([level.reshape(self.levels, -1), change.reshape(self.changes, -1)])

    def take(self, tick: Tick, values: Floats) -> None:
        """Learn a tick that was compared, with the same `values`."""
        arrays, slots = self._arrays, tick.slots
        for name, part in (("sums", tick.sums), ("weights", tick.weights), ("references", tick.references)):
            arrays[name][..., slots] = part
        self._spread.learn(tick.variance)
        if len(slots):
            level = np.nan_to_num(np.abs(median(values.T)))
            self._level += (level - self._level) / min(self._tick + 1.0, float(self.lengths[-1]))
        self.largest.learn(tick)
        self.extremes.learn(tick)
        self.runs.learn(self._tick, tick)
        self._correlations.learn(self._tick, tick, values)
        # Metrics that most members do not have are not compared.
        unknown = np.isnan(values).mean(axis=0) > 0.5 if len(slots) else np.zeros(self.metrics, np.bool_)
        self.windows.add(slots, np.where(unknown, 0.0, values))
        self._tick += 1
        for at, length in enumerate(self.windows.lengths):
            if self._tick % max((length or self.lengths[-1]) // SHAPE_EVERY, 1) == 0:
                self._compare_shapes(at, length, slots)

    def peaks(self, slots: Slots) -> Floats:
        """Return the worst evidence of each metric and of the covariance over life, shape (metrics + 1, n)."""
        result = np.zeros((self.metrics + 1, len(slots)))
        np.maximum.at(result, self.metric_of, self.extremes.peaks(slots))
        return result

    def over(self, tick: Tick) -> Floats:
        """Return the highest scores of the times above 1 that end with this tick, see `Runs.over`."""
        return self.runs.over(self._tick, tick)

    def differences(self, slots: Slots) -> Floats:
        """Return mean differences from the siblings, shape (windows + 1, metrics, n); NaN for none."""
        p = self.metrics
        weights = self._arrays["weights"][:, :p, slots]
        return np.asarray(self._arrays["sums"][:, :p, slots] / np.where(weights > 0.0, weights, np.nan))

    def _compare_shapes(self, at: int, length: int, slots: Slots) -> None:
        """Compare the covariances of members in a window with that of all, see `unlike`."""
        shape = self._arrays["shape"][at]
        shape[slots] = np.nan
        enough = slots[self.windows.counts(length)[slots] >= max(self.metrics + 2, 0.5 * length, self.settled)]
        if len(enough) >= FEWEST:
            counts = self.windows.counts(length)[enough]
            noise = self.noticeable**2 + 1e-300
            shape[enough] = unlike(self.windows.covariances(length)[enough], counts, noise)

    @property
    def noticeable(self) -> Floats:
        """The least difference of each metric that is not negligible."""
        return np.asarray(np.maximum(self.resolution, NOTICEABLE * self._level))

    @property
    def _every(self) -> tuple[Arrays, ...]:
        """The arrays of all parts, in the order of a snapshot."""
        return self._arrays, self.extremes.arrays, self.largest.arrays, self.runs.arrays

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        state: dict[str, Any] = {
            "tick": self._tick,
            **self._spread.snapshot(),
            "level": self._level.copy(),
            **self._correlations.snapshot(),
            **self.extremes.snapshot(),
            "windows": self.windows.snapshot(),
        }
        for arrays in self._every:
            state |= arrays.snapshot()
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self.windows.restore(state["windows"])
        slots = self.windows.slots
        self._arrays.restore(state, slots)
        self.extremes.restore(state, slots)
        self.largest.arrays.restore(state, slots)
        self.runs.restore(state, slots)
        self._tick = int(state["tick"])
        self._spread.restore(state)
        self._level = fitting(state, "level", self._level)
        self._correlations.restore(state)
