"""Incremental mean and covariance of each member of a pool over sliding windows and over its whole life."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.covariance.arrays import Arrays
from laggard.operators.covariance.moments import Moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LIFE: Final = 0
"""The length of the window of the whole life."""

LARGEST: Final = 1e100
"""Larger values count as missing: their squares would overflow."""

CYCLE: Final = 1024
"""The number of ticks after which the moments of a member are recomputed from its samples."""

CHUNK: Final = 64
"""The most members that are recomputed at once, to bound memory."""


class Windows:
    """Sliding covariances of many members with the same metrics (Syer, Adams, Hassan, section IV.C).

    A window has the newest `length` ticks. A member has a sample at a tick if all of its metrics have a value. So mean
    and covariance are those of the same samples, and a covariance is positive semidefinite, unlike one of pairwise
    complete values. A metric that a member never has must be left out by the caller, or the member must be.

    A sample is added, and the one that leaves is removed, see `Moments`. Removing leaves rounding errors as large as
    those of the removed sample. So the moments of each member are recomputed from its samples in turn, and at once when
    a variance drops. The variance of a constant metric is exactly 0.

    Cost of a tick: O(slots x lengths x metrics^2), whatever the lengths. Memory: slots x metrics x the longest x 8
    bytes, and slots x (lengths + 1) x metrics^2 x 8.

    Parameters:
        metrics: the number of metrics.
        lengths: the lengths of the windows in ticks, at least 2.
        limit: the most members at a time.

    Attributes:
        lengths: the lengths of the windows in ticks, and `LIFE`.

    Example:
        >>> windows = Windows(2, (2,))
        >>> slots = windows.claim(1)
        >>> for sample in ([1e9, 1.0], [1e9 + 1.0, 3.0], [1e9 + 2.0, 1.0]):
        ...     windows.add(slots, np.array([sample]))
        >>> windows.covariances(2)[0].tolist(), windows.counts(LIFE)[0].tolist()
        ([[0.5, -1.0], [-1.0, 2.0]], 3)

    """

    def __init__(self, metrics: int, lengths: Sequence[int], *, limit: int = 65_536) -> None:
        if metrics < 1 or limit < 1 or min(lengths, default=0) < 2 or len(set(lengths)) < len(lengths):
            raise ValueError(
                "expected a metric, room for a member, and different windows of 2 ticks and more, "
                f"got {metrics=}, {limit=}, lengths={list(lengths)}"
            )
        self.metrics = metrics
        self.limit = limit
        self.lengths = (*(int(length) for length in lengths), LIFE)
        self._sliding = np.array(self.lengths[:-1])
        self._longest = int(self._sliding.max())
        self._tick = 0
        self._arrays = Arrays(self._empty)
        self._moments = Moments(metrics, len(self.lengths))

    def _empty(self, slots: int) -> dict[str, NDArray[Any]]:
        return {
            "used": np.zeros(slots, np.bool_),
            "ring": np.full((self._longest, self.metrics, slots), np.nan),  # samples, by tick modulo the longest window
        }

    def __len__(self) -> int:
        """Return the number of members."""
        return int(self._arrays["used"].sum())

    @property
    def slots(self) -> int:
        """The number of slots, used and free."""
        return len(self._arrays["used"])

    def claim(self, count: int) -> NDArray[np.intp]:
        """Claim the lowest free slots for new members. Raises `ValueError` above the limit."""
        wanted = len(self) + count
        if wanted > self.limit:
            raise ValueError(f"expected at most {self.limit} members, got {wanted}")
        if wanted > self.slots:
            slots = min(max(wanted, 2 * self.slots), self.limit)
            self._arrays.grow(slots)
            self._moments.arrays.grow(slots)
        used = self._arrays["used"]
        free = np.flatnonzero(~used)[:count]
        used[free] = True
        return free

    def release(self, slots: NDArray[np.intp]) -> None:
        """Forget members, and free their slots."""
        self._arrays.release(slots)
        self._moments.arrays.release(slots)

    def add(self, slots: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        """Add a tick.

        `values` has one sample for each present member, shape (len(slots), metrics). Raises `ValueError` for another
        shape, and for slots that were not claimed.
        """
        if values.shape != (len(slots), self.metrics) or not self._arrays["used"][slots].all():
            raise ValueError(
                f"expected {self.metrics} metrics of each of {len(slots)} slots that were claimed, got {values.shape}"
            )
        sample = np.full((self.metrics, self.slots), np.nan)
        sample[:, slots] = values.T
        there = (np.abs(sample) <= LARGEST).all(axis=0)
        sample[:, ~there] = np.nan
        ring = self._arrays["ring"]
        leaving = ring[(self._tick - self._sliding) % self._longest]
        ring[self._tick % self._longest] = sample
        self._moments.add(sample, there)
        self._moments.remove(leaving, ~np.isnan(leaving[:, 0]))
        self._settle()
        self._tick += 1

    def _settle(self) -> None:
        """Recompute the moments of the members in turn, and of those that lost digits."""
        turn = np.arange(self.slots) % CYCLE == self._tick % CYCLE
        slots = np.flatnonzero(self._arrays["used"] & (turn | self._moments.inexact()))
        for begin in range(0, len(slots), CHUNK):
            some = slots[begin : begin + CHUNK]
            newest_first = (self._tick - np.arange(self._longest)) % self._longest
            self._moments.recompute(some, self._arrays["ring"][:, :, some][newest_first], self._sliding)

    def _at(self, length: int) -> int:
        if length not in self.lengths:
            raise ValueError(f"expected a window of {', '.join(map(str, self.lengths))}, got {length}")
        return self.lengths.index(length)

    def counts(self, length: int) -> NDArray[np.int64]:
        """Return the number of samples of each slot in the window, shape (slots,)."""
        counts: NDArray[np.float64] = self._moments.arrays["counts"][self._at(length)]
        return counts.astype(np.int64)

    def means(self, length: int) -> NDArray[np.float64]:
        """Return the mean of each slot's samples in the window, shape (slots, metrics); NaN without any."""
        return self._moments.mean(self._at(length))

    def covariances(self, length: int) -> NDArray[np.float64]:
        """Return the unbiased covariance of each slot's samples, shape (slots, metrics, metrics); NaN below two."""
        return self._moments.covariance(self._at(length))

    def samples(self, slots: NDArray[np.intp], length: int) -> NDArray[np.float64]:
        """Return the newest `length` ticks of some members, the oldest first, shape (len(slots), ticks, metrics).

        NaN at ticks without a sample. There are fewer ticks if there were fewer, or if no window is that long.
        """
        ticks = min(length, self._longest, self._tick)
        rows = np.arange(self._tick - ticks, self._tick) % self._longest
        return np.asarray(self._arrays["ring"][rows[:, None], :, slots[None, :]].transpose(1, 0, 2))

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {"tick": self._tick} | self._arrays.snapshot() | self._moments.arrays.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        slots = len(state["used"])
        if slots > self.limit:
            raise ValueError(f"used: expected at most {self.limit} slots, got {slots}")
        self._arrays.restore(state, slots)
        self._moments.arrays.restore(state, slots)
        self._tick = int(state["tick"])
