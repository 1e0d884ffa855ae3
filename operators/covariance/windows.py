"""Incremental mean and covariance of each member of a pool over sliding windows and over its whole life."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LIFE: Final = 0
"""The length of the window of the whole life."""

LARGEST: Final = 1e100
"""Larger values count as missing: their squares would overflow."""

CYCLE: Final = 1024
"""The number of ticks after which the moments of a member are recomputed from its samples."""

DROP: Final = 1e-4
"""A variance that has fallen to this share of its maximum is recomputed: it has lost digits."""

CHUNK: Final = 64
"""The most members that are recomputed at once, to bound memory."""

PARTS: Final = ("used", "ring", "origins", "counts", "means", "squares", "peaks")


class Windows:
    """Sliding covariances of many members with the same metrics (Syer, Adams, Hassan, section IV.C).

    A window has the newest `length` ticks. A member has a sample at a tick if all of its metrics have a value. So mean
    and covariance are those of the same samples, and a covariance is positive semidefinite, unlike one of pairwise
    complete values. A metric that a member never has must be left out by the caller, or the member must be.

    A sample is added, and the one that leaves is removed (Welford; Chan, Golub, LeVeque), with n the count after an
    addition and before a removal, and d = x - m with the mean before:

        add:    m' = m + d / n        S' = S + d d^T (n - 1) / n
        remove: m' = m - d / (n - 1)  S' = S - d d^T n / (n - 1)

    Here x is relative to a value of the member, so that metrics near 1e9 keep their digits. Removing leaves rounding
    errors as large as those of the removed sample. So the moments of each member are recomputed from its samples in
    turn, and at once when a variance drops. The variance of a constant metric is exactly 0.

    Cost of a tick: O(slots x lengths x metrics^2), whatever the lengths. Memory: slots x metrics x the longest x 8
    bytes, and slots x (lengths + 1) x metrics^2 x 8.

    Reference: Chan, Golub, LeVeque (1983), "Algorithms for computing the sample variance", The American Statistician.

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
        self._i, self._j = np.triu_indices(metrics)
        self._diagonal = np.flatnonzero(self._i == self._j)
        self._tick = 0
        nothing = self._empty(0)
        self._used: NDArray[np.bool_] = nothing["used"]
        self._ring: NDArray[np.float64] = nothing["ring"]  # samples, by tick modulo the longest window
        self._origins: NDArray[np.float64] = nothing["origins"]  # the values that means are relative to
        self._counts: NDArray[np.float64] = nothing["counts"]
        self._means: NDArray[np.float64] = nothing["means"]
        self._squares: NDArray[np.float64] = nothing["squares"]  # the upper triangle of S
        self._peaks: NDArray[np.float64] = nothing["peaks"]  # the maximum of each variance since it was recomputed

    def _empty(self, slots: int) -> dict[str, NDArray[Any]]:
        """Return arrays for this number of slots. Members are along the last axis, where numpy is fastest."""
        windows, p = len(self.lengths), self.metrics
        return {
            "used": np.zeros(slots, np.bool_),
            "ring": np.full((self._longest, p, slots), np.nan),
            "origins": np.zeros((windows, p, slots)),
            "counts": np.zeros((windows, slots)),
            "means": np.zeros((windows, p, slots)),
            "squares": np.zeros((windows, len(self._i), slots)),
            "peaks": np.zeros((windows - 1, p, slots)),
        }

    def _grow(self, slots: int) -> None:
        before = self.slots
        for name, part in self._empty(slots).items():
            part[..., :before] = getattr(self, f"_{name}")
            setattr(self, f"_{name}", part)

    def __len__(self) -> int:
        """Return the number of members."""
        return int(self._used.sum())

    @property
    def slots(self) -> int:
        """The number of slots, used and free."""
        return len(self._used)

    def claim(self, count: int) -> NDArray[np.intp]:
        """Claim the lowest free slots for new members. Raises `ValueError` above the limit."""
        wanted = len(self) + count
        if wanted > self.limit:
            raise ValueError(f"expected at most {self.limit} members, got {wanted}")
        if wanted > self.slots:
            self._grow(min(max(wanted, 2 * self.slots), self.limit))
        slots = np.flatnonzero(~self._used)[:count]
        self._used[slots] = True
        return slots

    def release(self, slots: NDArray[np.intp]) -> None:
        """Forget members, and free their slots."""
        self._used[slots] = False
        self._ring[:, :, slots] = np.nan
        for part in (self._origins, self._counts, self._means, self._squares, self._peaks):
            part[..., slots] = 0.0

    def add(self, slots: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        """Add a tick.

        `values` has one sample for each present member, shape (len(slots), metrics). Raises `ValueError` for another
        shape, and for slots that were not claimed.
        """
        if values.shape != (len(slots), self.metrics) or not self._used[slots].all():
            raise ValueError(
                f"expected {self.metrics} metrics of each of {len(slots)} slots that were claimed, got {values.shape}"
            )
        sample = np.full((self.metrics, self.slots), np.nan)
        sample[:, slots] = values.T
        there = (np.abs(sample) <= LARGEST).all(axis=0)
        sample[:, ~there] = np.nan
        leaving = self._ring[(self._tick - self._sliding) % self._longest]
        self._ring[self._tick % self._longest] = sample
        self._join(sample, there)
        self._leave(leaving, ~np.isnan(leaving[:, 0]))
        self._settle()
        self._tick += 1

    def _join(self, sample: NDArray[np.float64], there: NDArray[np.bool_]) -> None:
        first = there & (self._counts == 0.0)
        if first.any():
            np.copyto(self._origins, sample, where=first[:, None])
        self._counts += there
        deviation = np.where(there, sample - self._origins - self._means, 0.0)
        step = deviation / np.maximum(self._counts, 1.0)[:, None]
        self._means += step
        rest = deviation - step
        self._squares += deviation[:, self._i] * rest[:, self._j]
        np.maximum(self._peaks, self._squares[:-1, self._diagonal], out=self._peaks)

    def _leave(self, sample: NDArray[np.float64], there: NDArray[np.bool_]) -> None:
        """Remove the sample that leaves each window, if it has one, shape (windows, metrics, slots)."""
        counts, means, squares = self._counts[:-1], self._means[:-1], self._squares[:-1]
        counts -= there
        deviation = np.where(there[:, None], sample - self._origins[:-1] - means, 0.0)
        step = deviation / np.maximum(counts, 1.0)[:, None]
        means -= step
        step += deviation
        squares -= deviation[:, self._i] * step[:, self._j]

    def _settle(self) -> None:
        """Recompute the moments of the members in turn, and of those that lost digits."""
        turn = np.arange(self.slots) % CYCLE == self._tick % CYCLE
        lost = (self._squares[:-1, self._diagonal] < DROP * self._peaks).any(axis=(0, 1))
        slots = np.flatnonzero(self._used & (turn | lost))
        for begin in range(0, len(slots), CHUNK):
            self._rebuild(slots[begin : begin + CHUNK])

    def _rebuild(self, slots: NDArray[np.intp]) -> None:
        """Compute moments in two passes from the samples of the windows, relative to the newest sample."""
        newest_first = (self._tick - np.arange(self._longest)) % self._longest
        samples = self._ring[:, :, slots][newest_first]
        there = ~np.isnan(samples[:, 0])
        origin = samples[there.argmax(axis=0), :, np.arange(len(slots))].T
        samples = np.where(there[:, None], samples - origin, 0.0)
        for at, length in enumerate(self._sliding):
            within = there[:length]
            counts = within.sum(axis=0)
            means = samples[:length].sum(axis=0) / np.maximum(counts, 1)
            deviations = np.where(within[:, None], samples[:length] - means, 0.0)
            squares = np.einsum("tks,tks->ks", deviations[:, self._i], deviations[:, self._j])
            self._origins[at][:, slots] = np.where(counts, origin, 0.0)
            self._counts[at, slots] = counts
            self._means[at][:, slots] = means
            self._squares[at][:, slots] = squares
            self._peaks[at][:, slots] = squares[self._diagonal]

    def _at(self, length: int) -> int:
        if length not in self.lengths:
            raise ValueError(f"expected a window of {', '.join(map(str, self.lengths))}, got {length}")
        return self.lengths.index(length)

    def counts(self, length: int) -> NDArray[np.int64]:
        """Return the number of samples of each slot in the window, shape (slots,)."""
        counts: NDArray[np.float64] = self._counts[self._at(length)]
        return counts.astype(np.int64)

    def means(self, length: int) -> NDArray[np.float64]:
        """Return the mean of each slot's samples in the window, shape (slots, metrics); NaN without any."""
        at = self._at(length)
        means = self._origins[at] + self._means[at]
        return np.where(self._counts[at] >= 1.0, means, np.nan).T.copy()

    def covariances(self, length: int) -> NDArray[np.float64]:
        """Return the unbiased covariance of each slot's samples, shape (slots, metrics, metrics); NaN below two."""
        at = self._at(length)
        degrees = self._counts[at] - 1.0
        triangle = (self._squares[at] / np.where(degrees >= 1.0, degrees, np.nan)).T
        covariances = np.empty((self.slots, self.metrics, self.metrics))
        covariances[:, self._i, self._j] = triangle
        covariances[:, self._j, self._i] = triangle
        return covariances

    def samples(self, slots: NDArray[np.intp], length: int) -> NDArray[np.float64]:
        """Return the newest `length` ticks of some members, the oldest first, shape (len(slots), ticks, metrics).

        NaN at ticks without a sample. There are fewer ticks if there were fewer, or if no window is that long.
        """
        ticks = min(length, self._longest, self._tick)
        rows = np.arange(self._tick - ticks, self._tick) % self._longest
        return self._ring[rows[:, None], :, slots[None, :]].transpose(1, 0, 2)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {"tick": self._tick} | {name: getattr(self, f"_{name}").copy() for name in PARTS}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        slots = len(state["used"])
        if slots > self.limit:
            raise ValueError(f"used: expected at most {self.limit} slots, got {slots}")
        parts = self._empty(slots)
        for name, part in parts.items():
            found = np.array(state[name], part.dtype)
            if found.shape != part.shape:
                raise ValueError(f"{name}: expected the shape {part.shape}, got {found.shape}")
            setattr(self, f"_{name}", found)
        self._tick = int(state["tick"])
