"""Members of a pool compared at each tick: the deviation of each from the others, and the largest ones ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.covariance.arrays import LONGEST_LIFE, Arrays, fitting
from laggard.operators.covariance.comparison import Tick
from laggard.operators.covariance.correlations import Correlations
from laggard.operators.covariance.distance import tangent, whiten
from laggard.operators.covariance.estimates import FEWEST, deviation_of, median, normal
from laggard.operators.covariance.extremes import BLOCK, Extremes
from laggard.operators.covariance.largest import Largest
from laggard.operators.covariance.runs import Runs
from laggard.operators.covariance.windows import LIFE, Windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Slots = NDArray[np.intp]

NOTICEABLE: Final = 0.005
"""A difference below this share of the pool's level is negligible."""

LEAST: Final = 1e-150
"""The least spread among members in any unit: its square does not underflow."""

NOW: Final = {"level": 0.5, "change": 0.3}
"""The weight of the spread among members at this tick; the rest is that of its past mean."""

MOST_INDEPENDENT: Final = 10.0
"""The spread of changes becomes more certain with the age of the pool, up to this number of times the members."""

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
    (section IV.C), see `tangent`.

    The limit follows from the pool itself, see `Extremes`.

    Windows are exponential, with the mean age of `length` ticks: O(1) state per member and metric.

    Memory: about (37 windows + 32) x metrics numbers of 8 bytes per member, and those of `Windows`.

    Parameters:
        resolution: a negligible difference of each metric, shape (metrics,).
        windows: the lengths of the windows in ticks.
        limit: the most members.
        block: the number of ticks in a block.
        settled: the number of ticks before a member is compared.

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
        full = np.array([1.0 / (1.0 - decay) for decay in self._decay])
        self._full = full
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
        self._mix = np.concatenate([np.full(self.levels, NOW["level"]), np.full(self.changes, NOW["change"])])
        self._tick = 0
        self._variance = np.zeros(self.levels + self.changes)
        self._variance_weight = np.zeros(self.levels + self.changes)
        self._level = np.zeros(p)  # of the pool, for what is noticeable
        self._arrays = Arrays(self._empty)
        self._correlations = Correlations(p, settled)
        self._extremes = Extremes(self.columns, self.levels, self.changes, block)
        self._largest = Largest(p, w + 1, self.levels, self.changes)
        self._runs = Runs(q, settled)

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
            limit: the evidence with a score of 1, see `evidence_limit`.

        """
        kept = self._arrays
        x = values.T
        medians = np.empty_like(x)
        order = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        for members in order:
            medians[:, members] = median(x[:, members])[:, None]
        difference = x - medians
        difference = np.concatenate([difference, self._correlations.relation @ difference])
        there = np.isfinite(difference)
        decay = self._decay[:, None, None]
        sums = kept["sums"][..., slots] * decay + np.where(there, difference, 0.0)
        references = kept["references"][..., slots] * decay + np.where(there[: self.metrics], medians, 0.0)
        weights = kept["weights"][..., slots] * decay + there
        raw = self._levels_and_changes(sums, weights)
        n = len(slots)
        statistics = np.full((self.columns, n), np.nan)
        spreads = np.full((self.columns, n), np.nan)
        variance = np.zeros((len(raw), 2))
        floor = np.maximum(self.resolution, NOTICEABLE * self._level)[self.metric_of[: len(raw)]]
        past = self._variance / np.maximum(self._variance_weight, 1e-300)
        has_past = self._variance_weight > 0.0
        ages = self._variance_weight
        for members in order:
            found = raw[:, members]
            count = np.isfinite(found).sum(axis=1)
            enough = count >= FEWEST
            if not enough.any():
                continue
            found = found - median(found)[:, None]
            spread = deviation_of(found, count)
            now = np.where(enough, spread**2, 0.0)
            variance[:, 0] += np.where(enough, now * count, 0.0)
            variance[:, 1] += np.where(enough, count, 0.0)
            mixed = np.where(has_past, self._mix * now + (1.0 - self._mix) * past, now)
            deviation = np.maximum(np.sqrt(mixed + floor**2), LEAST)
            degrees = (count - 1.0).astype(np.float64)
            of_changes = slice(self.levels, self.levels + self.changes)
            independent = 1.0 + ages[of_changes] / (2.0 * self.window_of[of_changes])
            degrees[of_changes] *= np.minimum(independent, MOST_INDEPENDENT)
            z = found / deviation[:, None]
            z[~enough] = np.nan
            statistics[: len(raw), members] = normal(z, degrees[:, None])
            spreads[: len(raw), members] = deviation[:, None]
        statistics[len(raw) :] = kept["shape"][:, slots]
        statistics[:, self._extremes.ticks(slots) < self.settled] = np.nan
        evidence = self._extremes.evidence(np.stack([statistics, -statistics]))
        alone = self.alone(evidence, limit)
        mean_variance = np.divide(
            variance[:, 0], variance[:, 1], out=np.full(len(raw), np.nan), where=variance[:, 1] > 0
        )
        return Tick(
            ts,
            slots,
            statistics,
            evidence,
            alone,
            self.lasting(alone, slots),
            spreads,
            sums,
            weights,
            references,
            mean_variance,
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
        kept, slots = self._arrays, tick.slots
        for name, part in (("sums", tick.sums), ("weights", tick.weights), ("references", tick.references)):
            kept[name][..., slots] = part
        fade = 1.0 - 1.0 / LONGEST_LIFE
        known = np.isfinite(tick.variance)
        self._variance = np.where(known, self._variance * fade + np.nan_to_num(tick.variance), self._variance)
        self._variance_weight = np.where(known, self._variance_weight * fade + 1.0, self._variance_weight)
        if len(slots):
            level = np.nan_to_num(np.abs(median(values.T)))
            self._level += (level - self._level) / min(self._tick + 1.0, float(self.lengths[-1]))
        self._largest.learn(tick)
        self._extremes.learn(tick)
        self._runs.learn(self._tick, tick)
        self._correlations.learn(self._tick, tick, values)
        # Metrics that most members do not have are not compared.
        unknown = np.isnan(values).mean(axis=0) > 0.5 if len(slots) else np.zeros(self.metrics, np.bool_)
        self.windows.add(slots, np.where(unknown, 0.0, values))
        self._tick += 1
        for at, length in enumerate(self.windows.lengths):
            if self._tick % max((length or self.lengths[-1]) // SHAPE_EVERY, 1) == 0:
                self._compare_shapes(at, length, slots)

    def alone(self, evidence: Floats, limit: float) -> Floats:
        """Return the scores of a tick alone: 0 before the first block is complete."""
        return self._extremes.alone(evidence, limit)

    def lasting(self, alone: Floats, slots: Slots) -> Floats:
        """Return the scores of members: the least of their last ticks."""
        return self._runs.lasting(alone, slots)

    def evidence_limit(self, members: int, interval_s: float, per_day: float) -> float:
        """Return the evidence with a score of 1, see `Extremes`."""
        return self._extremes.evidence_limit(members, interval_s, per_day)

    def peaks(self, slots: Slots) -> Floats:
        """Return the worst evidence of each metric and of the covariance over life, shape (metrics + 1, n)."""
        result = np.zeros((self.metrics + 1, len(slots)))
        np.maximum.at(result, self.metric_of, self._extremes.peaks(slots))
        return result

    def worst(self, slots: Slots) -> Floats:
        """Return the largest deviation of each metric, see `Largest`."""
        return self._largest.worst(slots)

    def runs(self, slots: Slots) -> tuple[Floats, Floats, Floats]:
        """Return begin and end of the time above 1 with the highest score, NaN for none; and the last scores."""
        return self._runs.best(slots)

    def over(self, tick: Tick) -> Floats:
        """Return the highest scores of the times above 1 that end with this tick, see `runs`."""
        return self._runs.over(self._tick, tick)

    def begun(self, slots: Slots) -> Floats:
        """Return the begin of the last time above 1 of members; NaN for none."""
        return self._runs.begun(slots)

    def differences(self, slots: Slots) -> Floats:
        """Return mean differences from the siblings, shape (windows + 1, metrics, n); NaN for none."""
        p = self.metrics
        weights = self._arrays["weights"][:, :p, slots]
        return np.asarray(self._arrays["sums"][:, :p, slots] / np.where(weights > 0.0, weights, np.nan))

    def newest(self, tick: Tick, at: int, ticks: int) -> Floats:
        """Return mean differences of a member in the newest ticks, by its place in the last one, (2 x metrics,)."""
        return self._runs.newest(tick, at, ticks)

    def ticks(self, slots: Slots) -> Floats:
        """Return the number of ticks of members."""
        return self._extremes.ticks(slots)

    def _compare_shapes(self, at: int, length: int, slots: Slots) -> None:
        """Note the distances of covariances from that of all, made standard normal like levels (one-sided)."""
        shape = self._arrays["shape"][at]
        shape[slots] = np.nan
        enough = slots[self.windows.counts(length)[slots] >= max(self.metrics + 2, 0.5 * length, self.settled)]
        if len(enough) < FEWEST:
            return
        whitened = whiten(self.windows.covariances(length)[enough], noise=np.diag(self._noise()))
        # A covariance of few samples is uncertain: that of the pool counts as one sample per metric.
        counts = self.windows.counts(length)[enough][:, None, None].astype(np.float64)
        metrics = whitened.shape[1]
        shrunk = (counts * whitened + metrics * np.eye(metrics)) / (counts + metrics)
        moved = tangent(shrunk, np.eye(metrics))
        distances = np.sqrt(((moved - np.median(moved, axis=0)) ** 2).sum(axis=1))
        found = np.log(np.maximum(distances, 1e-9))
        found -= np.median(found)
        z = found / np.maximum(deviation_of(found, len(found)), 0.1)
        shape[enough] = np.maximum(normal(z, np.array(len(found) - 1.0)), 0.0)

    def _noise(self) -> Floats:
        return np.asarray(np.maximum(self.resolution, NOTICEABLE * self._level) ** 2 + 1e-300)

    @property
    def _every(self) -> tuple[Arrays, ...]:
        """The arrays of all parts, in the order of a snapshot."""
        return self._arrays, self._extremes.arrays, self._largest.arrays, self._runs.arrays

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        state: dict[str, Any] = {
            "tick": self._tick,
            "variance": self._variance.copy(),
            "variance_weight": self._variance_weight.copy(),
            "level": self._level.copy(),
            **self._correlations.snapshot(),
            **self._extremes.snapshot(),
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
        self._extremes.restore(state, slots)
        self._largest.arrays.restore(state, slots)
        self._runs.restore(state, slots)
        self._tick = int(state["tick"])
        self._variance = fitting(state, "variance", self._variance)
        self._variance_weight = fitting(state, "variance_weight", self._variance_weight)
        self._level = fitting(state, "level", self._level)
        self._correlations.restore(state)
