"""The readings of processes in arrays, one line each, so that their arithmetic is done for all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laggard.producers.host.process import GAUGES, RATES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

READ = len(RATES) + len(GAUGES) - 1
"""The number of features that are read from the files of a process: all but its children, which are counted."""


class Slots:
    """The counters of processes now and at the last tick. A process keeps its slot, the number of its line, for life.

    Attributes:
        now: the newest values. Shape (slots, `READ`).
        before: the counters at the last tick; NaN for none. Shape (slots, `RATES`).
        now_s: the times of `now`, in seconds of the monotonic clock. Shape (slots,).
        before_s: the times of `before`. Shape (slots,).
        children: the numbers of children. Shape (slots,).

    """

    def __init__(self) -> None:
        self._free: list[int] = []
        self.now: Matrix = np.full((0, READ), np.nan)
        self.before: Matrix = np.full((0, len(RATES)), np.nan)
        self.now_s: Vector = np.zeros(0)
        self.before_s: Vector = np.zeros(0)
        self.children: Vector = np.zeros(0)

    def take(self) -> int:
        """Return a free slot; all arrays grow if there is none."""
        if not self._free:
            size = len(self.now)
            more = max(64, size)
            self._free = list(range(size + more - 1, size - 1, -1))
            self.now = np.concatenate([self.now, np.full((more, self.now.shape[1]), np.nan)])
            self.before = np.concatenate([self.before, np.full((more, self.before.shape[1]), np.nan)])
            self.now_s = np.concatenate([self.now_s, np.zeros(more)])
            self.before_s = np.concatenate([self.before_s, np.zeros(more)])
            self.children = np.concatenate([self.children, np.zeros(more)])
        return self._free.pop()

    def free(self, slot: int) -> None:
        """Free the slot of a process that has gone."""
        self._free.append(slot)

    def take_rates(self, slots: NDArray[np.intp]) -> Matrix:
        """Return the rates of counters since the last tick, per second, and start the next one.

        NaN if a counter went backwards or there is nothing to compare. Shape (`slots`, `RATES`).
        """
        now = self.now[slots, : len(RATES)]
        elapsed = (self.now_s - self.before_s)[slots]
        elapsed[elapsed <= 0] = np.nan
        differences = now - self.before[slots]
        differences[differences < 0] = np.nan
        self.before[slots] = now
        self.before_s[:] = self.now_s
        differences /= elapsed[:, np.newaxis]
        return differences
