"""Present deviations of members, since windows contain a deviation long after it has ended.

A deviation begins by the windows of a member, and ends by its newest ticks. Until then its size at the onset is kept.
So neither a window that flickers nor a pool that adapts to it ends it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.covariance.runs import NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from laggard.operators.covariance.bank import Bank
    from laggard.operators.covariance.comparison import Tick

    Floats = NDArray[np.float64]
    Mark = tuple[int, int]
    """A deviation: the place of its trace, and 0 for above or 1 for below."""

LASTING_SHARE: Final = 0.4
"""A deviation lasts while it is this share of what it was."""

CLEAR: Final = 4.0
"""A deviation is measured over the fewest ticks in which it exceeds the spread of members this many times."""

NEWEST_S: Final = 15.0
"""The fewest ticks: those of the newest 15 s, one to `NEWEST`."""

FOLLOWED: Final = 48.0
"""The time constant, in ticks, with which a kept deviation shrinks, as under a falling load."""

LASTING_SCORE: Final = 1.01
"""The least score while it lasts."""

FORGOTTEN: Final = 192
"""An ended deviation is forgotten once the windows have been calm for this many ticks."""


@dataclass(slots=True)
class Standing:
    """A member that deviates, or has deviated and still does so by its windows.

    Attributes:
        lasts: whether it deviates now.
        marks: its deviations: the level before each, and the distance from it.
        calm: the number of ticks for which the windows have been calm.

    """

    lasts: bool = True
    marks: dict[Mark, tuple[float, float]] = field(default_factory=dict)
    calm: int = 0

    def snapshot(self) -> list[Any]:
        """Return the standing as plain data."""
        marks = [[*mark, *of] for mark, of in self.marks.items()]
        return [self.lasts, marks, self.calm]


def restored(state: list[Any]) -> Standing:
    """Read a `snapshot`."""
    lasts, marks, calm = state
    read = {(int(trace), int(below)): (float(base), float(excess)) for trace, below, base, excess in marks}
    return Standing(bool(lasts), read, int(calm))


class Newest:
    """One member at one tick, by its newest ticks and by its windows."""

    def __init__(self, bank: Bank, tick: Tick, at: int, limit: float, interval_s: float) -> None:
        self._bank, self._score = bank, float(tick.scores[at])
        self._over = np.nan_to_num(tick.evidence[:, : bank.levels + bank.changes, at]) > limit
        sums, weights = tick.sums[..., at], tick.weights[..., at]
        rest = weights[-1] - weights
        self._before = (sums[-1] - sums) / np.where(rest > 0.0, rest, np.nan)
        means = sums / np.where(weights > 0.0, weights, np.nan)
        spreads = tick.spreads[: bank.levels, at].reshape(means.shape)
        ticks = min(max(round(NEWEST_S / interval_s), 1), NEWEST)
        # A mean over fewer ticks than the shortest window varies by at most this much more.
        more = math.sqrt(max(bank.lengths[0] / ticks, 1.0))
        self._means = np.concatenate([bank.runs.newest(tick, at, ticks)[None], means])
        self._spreads = np.concatenate([more * spreads[:1], spreads])

    def follow(self, before: Standing | None) -> Standing | None:
        """Return the standing of the member after this tick; None if there is nothing to keep."""
        out = self._score > 1.0
        if before is None:
            if not out:
                return None
            now = Standing(marks=dict(self._marks(changes=True)))
            # Only its covariance may deviate, which single ticks do not show.
            return now if now.marks or not self._over.any() else None
        now = Standing(before.lasts, dict(before.marks), 0 if out else before.calm + 1)
        if now.lasts:
            if out:
                now.marks |= {mark: of for mark, of in self._marks(changes=False) if mark not in now.marks}
            now.marks = {mark: (base, self._followed(mark, base, excess)) for mark, (base, excess) in now.marks.items()}
            if not (self._lasts(now.marks) if now.marks else out):
                now.lasts = False
        elif now.calm >= FORGOTTEN:
            return None
        elif out and ((again := dict(self._marks(changes=False))) or self._lasts(now.marks)):
            now = Standing(marks=again or now.marks)
        return now

    def _marks(self, *, changes: bool) -> Iterator[tuple[Mark, tuple[float, float]]]:
        """Yield the present deviations by the windows, with the level before and the distance from it.

        Without `changes`, only those of levels that few ticks show: after a deviation the normal level looks like one.
        """
        levels, traces = self._bank.levels, self._bank.traces
        for below, column in np.argwhere(self._over).tolist():
            window, trace = divmod(column % levels, traces)
            if column >= levels and not changes:
                continue
            base = float(self._before[window, trace]) if column >= levels else 0.0
            mark = trace, below
            excess = self._out(mark, base, 1 + window)
            is_so = self._is_so(mark, base, excess, 1 + window)
            if excess > 0.0 and (is_so or (changes and is_so is None)):
                yield mark, (base, excess)

    def _out(self, mark: Mark, base: float, horizon: int) -> float:
        """Return the size of a deviation over a horizon; 0 if unknown."""
        trace, below = mark
        out = float(self._means[horizon, trace]) - base
        return (-out if below else out) if math.isfinite(out) else 0.0

    def _followed(self, mark: Mark, base: float, excess: float) -> float:
        """Return the kept size of a deviation after this tick."""
        out = self._out(mark, base, 1)
        return out if out > excess else excess + (out - excess) / FOLLOWED

    def _horizon(self, mark: Mark, excess: float, most: int) -> int:
        """Return the horizon of the fewest ticks that show a deviation clearly; -1 for none."""
        clear = np.flatnonzero(excess >= CLEAR * self._spreads[:most, mark[0]])
        return int(clear[0]) if len(clear) else -1

    def _is_so(self, mark: Mark, base: float, excess: float, most: int) -> bool | None:
        """Return whether a deviation lasts by the fewest ticks that show it; None if no horizon below `most` does."""
        horizon = self._horizon(mark, excess, most)
        return None if horizon < 0 else self._out(mark, base, horizon) >= LASTING_SHARE * excess

    def _lasts(self, marks: Mapping[Mark, tuple[float, float]]) -> bool:
        """Return whether any of the marks that the fewest ticks show lasts."""
        every = len(self._means)
        horizons = {mark: self._horizon(mark, excess, every) for mark, (_, excess) in marks.items()}
        fewest = min((each for each in horizons.values() if each >= 0), default=-1)
        if fewest < 0:
            return self._score > 1.0
        return any(
            self._out(mark, marks[mark][0], each) >= LASTING_SHARE * marks[mark][1]
            for mark, each in horizons.items()
            if each == fewest
        )
