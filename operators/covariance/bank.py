"""Members of a pool compared at each tick: the deviation of each from the others, and the largest ones ever."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.covariance.distance import tangent, whiten
from laggard.operators.covariance.presence import NEWEST
from laggard.operators.covariance.windows import LIFE, Windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Slots = NDArray[np.intp]

FEWEST: Final = 3
"""The fewest members that can be compared."""

BLOCK: Final = 64
"""The number of ticks in a block, of which the highest statistic is kept."""

LONGEST_LIFE: Final = 4096
"""The time constant, in ticks, with which the life of a member fades."""

TAIL: Final = 0.1
"""Shape of the generalised extreme value distribution: a little heavier than Gumbel's."""

PRIOR_MEAN: Final = 2.2
PRIOR_DEVIATION: Final = 0.6
PRIOR_WEIGHT: Final = 15.0
"""The prior of the highest statistics of blocks, and the number of blocks that it counts for."""

UNKNOWN_BLOCKS: Final = 0.5
"""The number of blocks that the prior of the spread between the blocks of a member counts for."""

LEAST_DEVIATION: Final = 0.3
"""The least spread of highest statistics: equal ones say little about those to come."""

NOTICEABLE: Final = 0.005
"""A difference below this share of the pool's level is negligible."""

LEAST: Final = 1e-150
"""The least spread among members in any unit: its square does not underflow."""

NOW: Final = {"level": 0.5, "change": 0.3}
"""The weight of the spread among members at this tick; the rest is that of its past mean."""

MOST_INDEPENDENT: Final = 10.0
"""The spread of changes becomes more certain with the age of the pool, up to this number of times the members."""

EXPONENT: Final = 0.65
"""The power of the number of comparisons in the limit: statistics are correlated, and their tail is lighter than
assumed. It was fitted on simulated pools without deviations (tests/evaluation/pools)."""

SHAPE_EVERY: Final = 12
"""The number of times that covariances are compared anew in the length of a window."""

PERSISTENCE: Final = 3
"""The number of ticks above a limit from which on a member counts."""

SETTLED: Final = 24
"""Ticks before a member is compared at all."""


@dataclass(frozen=True, slots=True, eq=False)
class Tick:
    """The comparison of the present members at one tick. Members are along the last axis.

    Attributes:
        ts: seconds since the Unix epoch.
        slots: the slots of the present members, shape (n,).
        statistics: standard normal without deviations, shape (columns, n); NaN if unknown.
        evidence: the excess over what any member reaches, by direction and column, shape (2, columns, n).
        alone: the scores of members by this tick alone, shape (n,).
        scores: the scores of members, above 1 is more than the budget allows, shape (n,).
        spreads: the spread among members, shape (columns, n), in the units of the metrics.
        sums, weights, references: the means after this tick.
        variance: the variance of the differences of members over groups, shape (levels + changes,).
        medians: the medians of the siblings, in the units of the metrics, shape (metrics, n).
        differences: the differences from them, and those given the other metrics, shape (2 x metrics, n).

    """

    ts: float
    slots: Slots
    statistics: Floats
    evidence: Floats
    alone: Floats
    scores: Floats
    spreads: Floats
    sums: Floats
    weights: Floats
    references: Floats
    variance: Floats
    medians: Floats
    differences: Floats


class Bank:
    """Compares members of a pool, or groups of them, with their siblings.

    Each member has two statistics for each metric, in each window and over its whole life. Its **level** is the mean
    difference from the median of its siblings. Its **change** is the difference of that from the mean difference before
    the window. Both also exist for each metric **given the others**: with P the inverse of the correlations of the
    differences e of all members, (P e)_k / P_kk, in which the load of a member cancels out. All are divided by the
    spread of members: the median absolute deviation among siblings at this tick and its past mean. They are made
    standard normal by Wallace (1959), since siblings are few. Each window also has the distance of the member's
    **covariance** from that of all (section IV.C), see `tangent`.

    The limit follows from the pool itself. Members are alike, so the highest statistic of each in a block of ticks
    shows what any of them may reach. The mean m and the deviation s of these are medians over members, so that the few
    deviating ones do not count. With b = s sqrt(6) / pi and the budget:

        y = ln(1 + TAIL (z - m) / b) / TAIL,    score = y / (EXPONENT ln(members x statistics x blocks a day / budget))

    Windows are exponential, with the mean age of `length` ticks: O(1) state per member and metric.

    Memory: about (37 windows + 32) x metrics numbers of 8 bytes per member, and those of `Windows`.

    References: Wallace (1959), "Bounds on normal approximations to Student's and the chi-square distributions", Annals
    of Mathematical Statistics 30. Coles (2001), "An introduction to statistical modeling of extreme values", section 3.

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
        self.block = block
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
        self._products = np.zeros((p, p))  # of differences in units of their spread
        self._spread = np.zeros(p)
        self._relation = np.full((p, p), np.nan)
        self._arrays = self._empty(0)
        self._limits = self._reference()

    def _empty(self, slots: int) -> dict[str, NDArray[Any]]:
        w, p, c = len(self.lengths) + 1, self.metrics, self.columns
        return {
            "sums": np.zeros((w, self.traces, slots)),
            "weights": np.zeros((w, self.traces, slots)),
            "references": np.zeros((w, p, slots)),
            "shape": np.full((self.shapes, slots), np.nan),
            "highest": np.full((2, c, slots), -np.inf),
            "ticks": np.zeros(slots),
            "blocks": np.zeros(slots),
            "block_mean": np.zeros((2, c, slots)),
            "block_square": np.zeros((2, c, slots)),
            "peak": np.full((2, c, slots), -np.inf),
            # The worst that each metric, and the covariance, ever was: evidence, column, direction, figures, time.
            "worst": np.zeros((7, p + 1, slots)),
            # Its score at its last tick; of the stretch above 1 begin, newest time and tick; best score, its stretch.
            "last": np.zeros(slots),
            "newest": np.zeros((PERSISTENCE - 1, slots)),  # what the scores of its last ticks would be by themselves
            "recent": np.full((NEWEST - 1, self.traces, slots), np.nan),  # differences of its last ticks
            "stretch": np.zeros(slots),  # the best score of the newest stretch
            "runs": np.full((6, slots), np.nan),
        }

    @property
    def slots(self) -> int:
        """The number of slots, used and free."""
        return len(self._arrays["ticks"])

    def claim(self, count: int) -> Slots:
        """Claim slots for new members. Raises `ValueError` above the limit."""
        slots = self.windows.claim(count)
        if self.windows.slots > self.slots:
            before = self.slots
            grown = self._empty(self.windows.slots)
            for name, part in grown.items():
                part[..., :before] = self._arrays[name]
            self._arrays = grown
        return slots

    def release(self, slots: Slots) -> None:
        """Forget members."""
        self.windows.release(slots)
        for name, part in self._empty(len(slots)).items():
            self._arrays[name][..., slots] = part

    def look(self, ts: float, slots: Slots, values: Floats, groups: NDArray[np.intp], limit: float) -> Tick:
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
            medians[:, members] = _median(x[:, members])[:, None]
        difference = x - medians
        difference = np.concatenate([difference, self._relation @ difference])
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
            found = found - _median(found)[:, None]
            spread = _deviation(found, count)
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
            statistics[: len(raw), members] = _normal(z, degrees[:, None])
            spreads[: len(raw), members] = deviation[:, None]
        statistics[len(raw) :] = kept["shape"][:, slots]
        statistics[:, kept["ticks"][slots] < self.settled] = np.nan
        evidence = self._evidence(np.stack([statistics, -statistics]))
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
            level = np.nan_to_num(np.abs(_median(values.T)))
            self._level += (level - self._level) / min(self._tick + 1.0, float(self.lengths[-1]))
        self._keep_worst(tick)
        self._keep_blocks(tick)
        self._keep_runs(tick)
        self._relate(tick, values)
        # Metrics that most members do not have are not compared.
        unknown = np.isnan(values).mean(axis=0) > 0.5 if len(slots) else np.zeros(self.metrics, np.bool_)
        self.windows.add(slots, np.where(unknown, 0.0, values))
        self._tick += 1
        for at, length in enumerate(self.windows.lengths):
            if self._tick % max((length or self.lengths[-1]) // SHAPE_EVERY, 1) == 0:
                self._compare_shapes(at, length, slots)

    def _keep_runs(self, tick: Tick) -> None:
        """Record the begin, the end and the peak of the time above 1 of each member."""
        slots, scores = tick.slots, tick.scores
        begin, until, at, best, best_begin, best_until = self._arrays["runs"][:, slots]
        out = scores > 1.0
        anew = out & ~(self._tick - at <= self.settled)
        begin = np.where(anew, tick.ts, begin)
        until = np.where(out, tick.ts, until)
        at = np.where(out, self._tick, at)
        stretch = np.where(anew, 0.0, self._arrays["stretch"][slots])
        self._arrays["stretch"][slots] = np.where(out, np.maximum(stretch, scores), stretch)
        better = out & ~(scores <= best)
        best = np.where(better, scores, best)
        best_begin = np.where(better, begin, best_begin)
        best_until = np.where(out & (best_begin == begin), tick.ts, best_until)
        self._arrays["runs"][:, slots] = begin, until, at, best, best_begin, best_until
        self._arrays["last"][slots] = scores
        newest = self._arrays["newest"]
        newest[1:, slots] = newest[:-1, slots]
        newest[0, slots] = tick.alone
        recent = self._arrays["recent"]
        recent[1:, :, slots] = recent[:-1, :, slots]
        recent[0, :, slots] = tick.differences.T

    def _relate(self, tick: Tick, values: Floats) -> None:
        """Learn the correlations of metrics over all members."""
        fade = 1.0 - 1.0 / LONGEST_LIFE
        difference = values.T - tick.medians
        known = np.isfinite(difference)
        n = known.sum(axis=1)
        size = np.where(n > 0, np.nansum(np.abs(np.where(known, difference, 0.0)), axis=1) / np.maximum(n, 1), 0.0)
        rate = max(1.0 / (self._tick + 1.0), 1.0 / LONGEST_LIFE)
        self._spread += (np.minimum(size, np.where(self._spread > 0, 10 * self._spread, np.inf)) - self._spread) * rate
        scale = np.where(self._spread > 0.0, self._spread, np.inf)
        z = np.clip(np.where(known, difference, 0.0) / scale[:, None], -3.0, 3.0)
        self._products = self._products * fade + z @ z.T / max(len(tick.slots), 1)
        if self._tick >= self.settled and self._tick % 16 == 0:
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
            self._relation = relation

    def _keep_worst(self, tick: Tick) -> None:
        """Record the tick of the largest deviation of each metric."""
        kept, slots = self._arrays, tick.slots
        p, n = self.metrics, len(slots)
        if not n:
            return
        evidence = np.nan_to_num(tick.evidence)
        direction = evidence.argmax(axis=0)
        best = evidence.max(axis=0)
        windows = len(self.lengths) + 1
        q = self.traces
        by_metric = best[: self.levels + self.changes].reshape(2 * (2 * windows - 1), p, n)
        of_metrics = by_metric.argmax(axis=0)
        found = np.take_along_axis(by_metric, of_metrics[None], axis=0)[0]
        better = found > kept["worst"][0, :p, slots].T
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
            kept["worst"][:, metric, slots[member]] = figures
        shape = best[self.levels + self.changes :]
        at = shape.argmax(axis=0)
        found = shape.max(axis=0)
        better = found > kept["worst"][0, p, slots]
        nothing = np.full(n, np.nan)
        column = (self.levels + self.changes + at).astype(np.float64)
        rows = np.stack([found, column, np.zeros(n), nothing, nothing, nothing, np.full(n, tick.ts)])
        kept["worst"][:, p, slots[better]] = rows[:, better]

    def _keep_blocks(self, tick: Tick) -> None:
        kept, slots = self._arrays, tick.slots
        # Excused deviations do not count in the life either.
        both = np.where(np.isnan(tick.evidence), -np.inf, np.stack([tick.statistics, -tick.statistics]))
        highest = np.maximum(kept["highest"][..., slots], both)
        kept["highest"][..., slots] = highest
        kept["peak"][..., slots] = np.maximum(kept["peak"][..., slots], both)
        kept["ticks"][slots] += 1.0
        full = kept["ticks"][slots] % self.block == 0.0
        if full.any():
            done, highest = slots[full], highest[..., full]
            known = np.isfinite(highest)
            kept["blocks"][done] += 1.0
            # Blocks without any statistic count as normal ones.
            highest = np.where(known, highest, PRIOR_MEAN)
            mean = kept["block_mean"][..., done]
            weight = 1.0 / np.minimum(kept["blocks"][done], LONGEST_LIFE / self.block)
            step = (highest - mean) * weight
            kept["block_mean"][..., done] = mean + step
            square = kept["block_square"][..., done]
            kept["block_square"][..., done] = (1.0 - weight) * (square + step * (highest - mean))
            kept["highest"][..., done] = -np.inf
            self._limits = self._reference()

    def _reference(self) -> Floats:
        """Return location and scale of the highest statistics of blocks, shape (2, directions, columns)."""
        kept = self._arrays
        some = kept["blocks"] >= 1.0
        self._is_known = int(some.sum()) >= FEWEST
        mean = np.full((2, self.columns), PRIOR_MEAN)
        variance = np.full((2, self.columns), PRIOR_DEVIATION**2)
        if some.any():
            means, squares = kept["block_mean"][..., some], kept["block_square"][..., some]
            members = means.shape[-1]
            found = _median(means)
            between = _deviation(means - found[..., None], members) ** 2
            blocks = float(np.median(kept["blocks"][some]))
            independent = np.full(self.columns, float(members))
            independent[self.levels : self.levels + self.changes] *= blocks
            share = independent / (independent + PRIOR_WEIGHT)
            mean = share * found + (1.0 - share) * mean
            # One block or two say nothing about the spread between blocks.
            within = (blocks * _median(squares) + UNKNOWN_BLOCKS * PRIOR_DEVIATION**2) / (blocks + UNKNOWN_BLOCKS)
            variance = share * (between + within) + (1.0 - share) * variance
        deviation = np.maximum(np.sqrt(variance), LEAST_DEVIATION)
        return np.stack([mean, deviation * math.sqrt(6.0) / math.pi])

    def _evidence(self, both: Floats) -> Floats:
        """Return the evidence of statistics in both directions, shape (2, columns, n); NaN stays NaN."""
        location, scale = self._limits
        above = np.maximum(both - location[..., None], 0.0) / scale[..., None]
        return np.asarray(np.log1p(TAIL * above) / TAIL)

    def alone(self, evidence: Floats, limit: float) -> Floats:
        """Return the scores of a tick alone: 0 before the first block is complete."""
        if not self._is_known:
            return np.zeros(evidence.shape[-1])
        return np.asarray(np.nan_to_num(evidence).max(axis=(0, 1), initial=0.0) / limit)

    def lasting(self, alone: Floats, slots: Slots) -> Floats:
        """Return the scores of members: the least of their last ticks."""
        return np.asarray(np.minimum(alone, self._arrays["newest"][:, slots].min(axis=0)))

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
        """Return the worst evidence of each metric and of the covariance over life, shape (metrics + 1, n).

        It is relative to the present location and scale.
        """
        evidence = np.nan_to_num(self._evidence(self._arrays["peak"][..., slots]), neginf=0.0).max(axis=0)
        result = np.zeros((self.metrics + 1, len(slots)))
        np.maximum.at(result, self.metric_of, evidence)
        return result

    def worst(self, slots: Slots) -> Floats:
        """Return the largest deviation of each metric, shape (7, metrics + 1, n).

        Evidence, column, direction (0 above, 1 below), value, median of the siblings, their spread, and the time.
        """
        return np.array(self._arrays["worst"][..., slots])

    def runs(self, slots: Slots) -> tuple[Floats, Floats, Floats]:
        """Return begin and end of the time above 1 with the highest score, NaN for none; and the last scores."""
        return self._arrays["runs"][4, slots], self._arrays["runs"][5, slots], self._arrays["last"][slots]

    def over(self, tick: Tick) -> Floats:
        """Return the highest scores of the times above 1 that end with this tick, see `runs`."""
        begin, _, at, _, _, _ = self._arrays["runs"][:, tick.slots]
        done = (self._tick - at == self.settled + 1.0) & (tick.scores <= 1.0) & np.isfinite(begin)
        return np.asarray(self._arrays["stretch"][tick.slots][done])

    def begun(self, slots: Slots) -> Floats:
        """Return the begin of the last time above 1 of members; NaN for none."""
        return np.asarray(self._arrays["runs"][0, slots])

    def differences(self, slots: Slots) -> Floats:
        """Return mean differences from the siblings, shape (windows + 1, metrics, n); NaN for none."""
        p = self.metrics
        weights = self._arrays["weights"][:, :p, slots]
        return np.asarray(self._arrays["sums"][:, :p, slots] / np.where(weights > 0.0, weights, np.nan))

    def newest(self, tick: Tick, at: int, ticks: int) -> Floats:
        """Return mean differences of a member in the newest ticks, by its place in the last one, (2 x metrics,)."""
        found = np.concatenate([tick.differences[None, :, at], self._arrays["recent"][: ticks - 1, :, tick.slots[at]]])
        there = np.isfinite(found)
        count = there.sum(axis=0)
        return np.asarray(np.where(there, found, 0.0).sum(axis=0) / np.where(count, count, np.nan))

    def ticks(self, slots: Slots) -> Floats:
        """Return the number of ticks of members."""
        return np.array(self._arrays["ticks"][slots])

    def _compare_shapes(self, at: int, length: int, slots: Slots) -> None:
        """Return the distances of covariances from that of all, made standard normal like levels (one-sided)."""
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
        z = found / np.maximum(_deviation(found, len(found)), 0.1)
        shape[enough] = np.maximum(_normal(z, np.array(len(found) - 1.0)), 0.0)

    def _noise(self) -> Floats:
        return np.asarray(np.maximum(self.resolution, NOTICEABLE * self._level) ** 2 + 1e-300)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "tick": self._tick,
            "variance": self._variance.copy(),
            "variance_weight": self._variance_weight.copy(),
            "level": self._level.copy(),
            "products": self._products.copy(),
            "spread": self._spread.copy(),
            "relation": self._relation.copy(),
            "limits": self._limits.copy(),
            "is_known": self._is_known,
            "windows": self.windows.snapshot(),
            **{name: part.copy() for name, part in self._arrays.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self.windows.restore(state["windows"])
        parts = self._empty(self.windows.slots)
        state = {"recent": parts["recent"]} | state  # not in states of older versions
        for name, part in parts.items():
            found = np.array(state[name], part.dtype)
            if found.shape != part.shape:
                raise ValueError(f"{name}: expected the shape {part.shape}, got {found.shape}")
            parts[name] = found
        self._arrays = parts
        self._tick = int(state["tick"])
        self._is_known = bool(state["is_known"])
        for name in ("variance", "variance_weight", "level", "products", "spread", "relation", "limits"):
            found = np.array(state[name], np.float64)
            if found.shape != getattr(self, f"_{name}").shape:
                raise ValueError(f"{name}: expected the shape {getattr(self, f'_{name}').shape}, got {found.shape}")
            setattr(self, f"_{name}", found)


def _median(x: Floats) -> Floats:
    """Return the median along the last axis without NaN; NaN if all are."""
    if not np.isnan(x).any():
        return np.asarray(np.median(x, axis=-1))
    # Like `nanmedian`, which warns if all are NaN, and loops.
    count = np.isfinite(x).sum(axis=-1)
    ordered = np.sort(x, axis=-1)  # NaN comes last
    low = np.take_along_axis(ordered, np.maximum((count - 1) // 2, 0)[..., None], axis=-1)[..., 0]
    high = np.take_along_axis(ordered, np.minimum(count // 2, x.shape[-1] - 1)[..., None], axis=-1)[..., 0]
    return np.where(count > 0, (low + high) / 2.0, np.nan)


def _deviation(differences: Floats, count: NDArray[np.intp] | int) -> Floats:
    """Return the standard deviation of `count` differences from a median, along the last axis.

    It is estimated by the median absolute difference: consistent for normal ones, with a correction for few.
    """
    return np.asarray(1.4826 * _median(np.abs(differences)) * (1.0 + 1.2 / np.maximum(count, 1)))


def _normal(t: Floats, degrees: Floats) -> Floats:
    """Return the standard normal quantile with the probability of `t` under Student's t (Wallace 1959)."""
    with np.errstate(over="ignore"):
        size = np.sqrt(degrees * np.log1p(np.minimum(t * t, 1e300) / degrees))
    return np.asarray(np.sign(t) * size * (8.0 * degrees + 1.0) / (8.0 * degrees + 3.0))
