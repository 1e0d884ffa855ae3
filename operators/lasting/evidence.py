"""The evidence of one time scale: recent sub-blocks, the baseline before them, and each cell's record of peaks."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.operators.lasting.units import picked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.lasting.quantities import Quantities

    Matrix = NDArray[np.floating]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.intp]

PARTS: Final = 4
"""The number of sub-blocks in a window. Three of them must reach a level; on the shortest scale, or the last two."""

RECORDED: Final = 0.2
"""The weight of the record of peaks relative to that of the deviation."""

RECORD_S: Final = 14 * 86400.0
"""The time constant with which peaks are forgotten, in seconds."""

OVER: Final = 0.5
"""An episode ends when the excess falls below this share of its peak."""


class Scale(NamedTuple):
    """A time scale.

    Attributes:
        window_s: W, the window in seconds.
        baseline_s: T, the time constant of the baseline in seconds.
        blocks: the number of sub-blocks of the next shorter scale in one sub-block of this one.
        limit: the alert level of z at a budget of one false alarm a day.

    """

    window_s: float
    baseline_s: float
    blocks: int
    limit: float

    @property
    def part_s(self) -> float:
        """The length of a sub-block in seconds."""
        return self.window_s / PARTS


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One scale of all units. Arrays have the shape (quantities, units) unless another one is given.

    Attributes:
        ring: the last sub-blocks, newest last, shape (PARTS, quantities, units); -inf for one without a value.
        last: the newest sub-block of each level, shape (levels, units); -inf if it has no value.
        total: the sum of the values since, shape (levels, units).
        count: the number of these values, likewise.
        weight: the number of learned sub-blocks.
        mean: m, their exponentially weighted mean: the baseline.
        deviation: d, their exponentially weighted mean absolute deviation from m.
        peak: the highest excess of the current episode.
        highest: P1, the highest peak of past episodes.
        second: P2, the second-highest.
        reported: the highest excess of reported anomalies, which enters the record when it happens again.

    """

    ring: Matrix
    last: Matrix
    total: Matrix
    count: Matrix
    weight: Matrix
    mean: Matrix
    deviation: Matrix
    peak: Matrix
    highest: Matrix
    second: Matrix
    reported: Matrix

    @classmethod
    def none(cls, quantities: Quantities) -> Evidence:
        """Return the evidence of no units."""
        levels, rows = len(quantities.levels), len(quantities)
        return cls(
            np.zeros((PARTS, rows, 0), np.float32),
            np.zeros((levels, 0), np.float32),
            *(np.zeros((levels, 0)) for _ in range(2)),
            *(np.zeros((rows, 0), np.float32) for _ in range(7)),
        )

    def aligned(self, source: Places, nothing: Flags, parts: float) -> Evidence:
        """Return the evidence of the units of the next frame.

        Args:
            source: the previous place of each unit; -1 for a new one.
            nothing: which new units are known to have used nothing before.
            parts: the number of sub-blocks for which this is known.

        """
        new = np.flatnonzero(source < 0)
        found = {name: picked(getattr(self, name), source, new, 0.0) for name in Evidence.__slots__}
        if new.size:
            found["weight"][:, new[nothing[new]]] = parts
            unknown = new[~nothing[new]]
            found["ring"][..., unknown] = found["last"][:, unknown] = -math.inf
        return Evidence(**found)

    def taking(self, total: Matrix, count: Matrix) -> Evidence:
        """Add values: their sums, and their number."""
        return Evidence(
            self.ring, self.last, self.total + total, self.count + count, self.weight, self.mean, self.deviation,
            self.peak, self.highest, self.second, self.reported,
        )  # fmt: skip

    def turned(self, scale: Scale, quantities: Quantities, learned: Flags | None) -> Evidence:
        """Close the current sub-block, and learn the oldest one of each unit in `learned` (None: of all).

        With x the oldest sub-block and a = max(1 - exp(-W / 4 T), 1 / (n + 1)) after n of them:

            m' = m + a (x - m),  d' = d + a (|x - m'| - d)
        """
        oldest = self.ring[0]
        valid = np.isfinite(oldest)
        if learned is not None:
            valid &= learned
        share = 1.0 / (self.weight + 1.0)
        np.maximum(share, np.float32(-math.expm1(-scale.part_s / scale.baseline_s)), out=share)
        if not valid.all():
            share *= valid
            oldest = np.where(valid, oldest, np.float32(0.0))
        step = oldest - self.mean
        step *= share
        mean = self.mean + step
        np.subtract(oldest, mean, out=step)
        np.abs(step, out=step)
        step -= self.deviation
        step *= share
        ring = np.empty_like(self.ring)
        ring[:-1] = self.ring[1:]
        level = ring[-1, : len(self.last)]
        np.divide(self.total, np.maximum(self.count, 1.0), out=level, casting="same_kind")
        if not self.count.all():
            level[self.count == 0.0] = -np.inf
        growth = ring[-1, len(self.last) :]
        with np.errstate(invalid="ignore"):
            np.subtract(level[quantities.stocks], self.last[quantities.stocks], out=growth)
        growth *= np.float32(1.0 / scale.part_s)
        growth[~np.isfinite(growth)] = -np.inf
        fade = np.float32(math.exp(-scale.part_s / RECORD_S))
        return Evidence(
            ring=ring,
            last=level.copy(),
            total=np.zeros_like(self.total),
            count=np.zeros_like(self.count),
            weight=self.weight + valid,
            mean=mean,
            deviation=np.add(self.deviation, step, out=step),
            peak=self.peak,
            highest=self.highest * fade,
            second=self.second * fade,
            reported=self.reported * fade,
        )

    def excess(self, *, last_two: bool) -> Matrix:
        """Return e, the least excess of the highest three of four sub-blocks over the baseline; 0 if unknown.

        If `last_two`, the least excess of the last two sub-blocks counts, if that is higher.
        """
        first, second, third, fourth = self.ring
        low, high = np.minimum(first, second), np.maximum(first, second)
        lower, higher = np.minimum(third, fourth), np.maximum(third, fourth)
        # The second-lowest: one without a value is lower than all others.
        level = np.minimum(np.maximum(low, lower), np.minimum(high, higher, out=high), out=low)
        if last_two:
            np.maximum(level, lower, out=level)
        level -= self.mean
        excess: Matrix = np.maximum(level, 0.0, out=level)
        if self.weight.min(initial=PARTS) < PARTS:
            excess[self.weight < PARTS] = 0.0
        return excess

    def noting(self, excess: Matrix, learned: Flags | None) -> tuple[Evidence, Flags]:
        """Follow the episodes, and return which of them ended; their peaks enter the record.

        The episode of a unit that is not in `learned` continues.
        """
        over = excess < np.float32(OVER) * self.peak
        if learned is not None:
            over &= learned
        peak = np.maximum(self.peak, excess)
        if not over.any():
            return replace(self, peak=peak), over
        ended = np.where(over, self.peak, 0.0)
        np.copyto(peak, excess, where=over)
        highest, second = raised(self.highest, self.second, ended)
        return replace(self, peak=peak, highest=highest, second=second), over

    def released(self, unit: int, level: Matrix | None, peak: Matrix | None = None, *, known: bool = False) -> Evidence:
        """Learn from a unit again, after its anomaly has ended.

        Args:
            unit: its place.
            level: the new baseline, shape (quantities,); None to keep the old one. The deviation becomes at least that
                of the window.
            peak: its peaks on this scale, shape (quantities,), which enter the record when it comes again; None if
                it lasted long enough to be measured here.
            known: whether they enter the record now.

        """
        found = {each.name: getattr(self, each.name).copy() for each in fields(self)}
        peak = found["peak"][:, unit].copy() if peak is None else peak
        before = found["reported"][:, unit]
        if known:
            np.maximum(before, peak, out=before)
        found["ring"][..., unit] = found["last"][:, unit] = -math.inf
        found["peak"][:, unit] = found["total"][:, unit] = found["count"][:, unit] = 0.0
        if level is not None:
            level = np.where(np.isfinite(level), level, found["mean"][:, unit])
            apart = np.abs(self.ring[..., unit] - level)
            there = np.isfinite(apart)
            spread = np.where(there, apart, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
            found["mean"][:, unit] = level
            found["deviation"][:, unit] = np.maximum(found["deviation"][:, unit], spread)
        again = np.minimum(before, peak) > 0.0
        highest, second = found["highest"][:, unit], found["second"][:, unit]
        np.maximum(second, np.minimum(before, peak), out=second, where=again)
        np.maximum(highest, np.maximum(before, peak), out=highest, where=again)
        np.maximum(before, peak, out=before)
        return Evidence(**found)

    def settled(self, units: Places, level: Matrix, stocks: slice, parts: float) -> Evidence:
        """Take the present level of new units as their baseline. The peaks of stocks were those over nothing.

        Args:
            units: their places.
            level: their level, shape (quantities, places); where it is not finite the baseline stays.
            stocks: the places of the stocks among the levels.
            parts: the number of sub-blocks since they came. Those of the window before that hold this level, too.

        """
        known = np.isfinite(level)
        ring, mean, deviation = self.ring, self.mean.copy(), self.deviation.copy()
        weight, peak = self.weight.copy(), self.peak.copy()
        if parts >= PARTS:
            apart = np.abs(ring[..., units] - level)
            spread = np.where(np.isfinite(apart), apart, 0.0).mean(axis=0)
        else:
            ring, spread = ring.copy(), deviation.dtype.type(0.0)
            ring[..., units] = np.where(known, level, ring[..., units])
        mean[:, units] = np.where(known, level, mean[:, units])
        deviation[:, units] = np.where(known, spread, deviation[:, units])
        weight[:, units] = np.where(known, max(parts, PARTS), weight[:, units])
        peak[:, units] = 0.0
        highest, second = self.highest.copy(), self.second.copy()
        highest[stocks, units] = second[stocks, units] = 0.0
        return replace(
            self, ring=ring, mean=mean, deviation=deviation, weight=weight, peak=peak, highest=highest, second=second
        )

    def snapshot(self) -> dict[str, Any]:
        """Return a copy as plain data."""
        return {each.name: getattr(self, each.name).copy() for each in fields(self)}

    @classmethod
    def restored(cls, state: dict[str, Any], quantities: Quantities, units: int) -> Evidence:
        """Read a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        none = cls.none(quantities)
        found = {}
        for each in fields(cls):
            expected = (*getattr(none, each.name).shape[:-1], units)
            found[each.name] = np.array(state[each.name], getattr(none, each.name).dtype)
            if found[each.name].shape != expected:
                raise ValueError(f"{each.name}: expected the shape {expected}, got {found[each.name].shape}")
        return cls(**found)


def expected(scale: Scale, peak: Matrix, high_s: float) -> Matrix:
    """Return the peaks of a scale that an anomaly of this length has at most, by those of the shortest scale.

    Three of four sub-blocks must reach a level. An anomaly that is longer than one fills that and part of two others.
    """
    found: Matrix = np.float32(min(max((high_s / scale.part_s - 1.0) / 2.0, 0.0), 1.0)) * peak
    return found


def raised(highest: Matrix, second: Matrix, peak: Matrix) -> tuple[Matrix, Matrix]:
    """Add a peak to a record; 0 for none."""
    return np.maximum(highest, peak), np.maximum(second, np.minimum(highest, peak))


def recorded(highest: Matrix, second: Matrix) -> Matrix:
    """Return P: the second-highest peak, or half of the highest."""
    record: Matrix = np.maximum(second, np.float32(0.5) * highest)
    return record
