"""The runs of ticks for which members deviate, and their newest ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.covariance.arrays import Arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.covariance.comparison import Tick

    Floats = NDArray[np.float64]
    Slots = NDArray[np.intp]

PERSISTENCE: Final = 3
"""The number of ticks above a limit from which on a member counts."""

NEWEST: Final = 3
"""The most ticks over which the newest differences are averaged."""


class Runs:
    """The times for which members score above 1, and the scores and differences of their newest ticks.

    A run continues across at most `settled` calm ticks.

    Parameters:
        traces: the number of differences of a member at a tick.
        settled: the number of calm ticks after which a run is over.

    """

    def __init__(self, traces: int, settled: int) -> None:
        self.traces = traces
        self.settled = settled
        self.arrays = Arrays(self._empty)

    def _empty(self, slots: int) -> dict[str, NDArray[Any]]:
        return {
            # Its score at its last tick; of the stretch above 1 begin, newest time and tick; best score, its stretch.
            "last": np.zeros(slots),
            "newest": np.zeros((PERSISTENCE - 1, slots)),  # the scores of its last ticks alone
            "recent": np.full((NEWEST - 1, self.traces, slots), np.nan),  # differences of its last ticks
            "stretch": np.zeros(slots),  # the best score of the newest stretch
            "runs": np.full((6, slots), np.nan),
        }

    def learn(self, number: int, tick: Tick) -> None:
        """Record the begin, the end and the peak of the time above 1 of each member at a tick, by its number."""
        slots, scores = tick.slots, tick.scores
        begin, until, at, best, best_begin, best_until = self.arrays["runs"][:, slots]
        out = scores > 1.0
        anew = out & ~(number - at <= self.settled)
        begin = np.where(anew, tick.ts, begin)
        until = np.where(out, tick.ts, until)
        at = np.where(out, number, at)
        stretch = np.where(anew, 0.0, self.arrays["stretch"][slots])
        self.arrays["stretch"][slots] = np.where(out, np.maximum(stretch, scores), stretch)
        better = out & ~(scores <= best)
        best = np.where(better, scores, best)
        best_begin = np.where(better, begin, best_begin)
        best_until = np.where(out & (best_begin == begin), tick.ts, best_until)
        self.arrays["runs"][:, slots] = begin, until, at, best, best_begin, best_until
        self.arrays["last"][slots] = scores
        newest = self.arrays["newest"]
        newest[1:, slots] = newest[:-1, slots]
        newest[0, slots] = tick.alone
        recent = self.arrays["recent"]
        recent[1:, :, slots] = recent[:-1, :, slots]
        recent[0, :, slots] = tick.differences.T

    def lasting(self, alone: Floats, slots: Slots) -> Floats:
        """Return the scores of members: the least of their last ticks."""
        return np.asarray(np.minimum(alone, self.arrays["newest"][:, slots].min(axis=0)))

    def best(self, slots: Slots) -> tuple[Floats, Floats, Floats]:
        """Return begin and end of the time above 1 with the highest score, NaN for none; and the last scores."""
        return self.arrays["runs"][4, slots], self.arrays["runs"][5, slots], self.arrays["last"][slots]

    def over(self, number: int, tick: Tick) -> Floats:
        """Return the highest scores of the times above 1 that end with this tick, by the number of the next one."""
        begin, _, at, _, _, _ = self.arrays["runs"][:, tick.slots]
        done = (number - at == self.settled + 1.0) & (tick.scores <= 1.0) & np.isfinite(begin)
        return np.asarray(self.arrays["stretch"][tick.slots][done])

    def begun(self, slots: Slots) -> Floats:
        """Return the begin of the last time above 1 of members; NaN for none."""
        return np.asarray(self.arrays["runs"][0, slots])

    def newest(self, tick: Tick, at: int, ticks: int) -> Floats:
        """Return mean differences of a member in the newest ticks, by its place in the last one, (2 x metrics,)."""
        found = np.concatenate([tick.differences[None, :, at], self.arrays["recent"][: ticks - 1, :, tick.slots[at]]])
        there = np.isfinite(found)
        count = there.sum(axis=0)
        return np.asarray(np.where(there, found, 0.0).sum(axis=0) / np.where(count, count, np.nan))

    def restore(self, state: dict[str, Any], slots: int) -> None:
        """Restore the arrays of this number of slots. Raises `ValueError` as `Arrays` does."""
        recent = self._empty(slots)["recent"]
        self.arrays.restore({"recent": recent} | state, slots)  # not in states of older versions
