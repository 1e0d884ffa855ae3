"""Mean and covariance of each member of a pool over sliding windows, and over its whole life, one tick at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LIFE: Final = 0
"""The length that stands for the whole life."""

LARGEST: Final = 1e100
"""A reading beyond this, whose square is no number any more, counts as none."""

CYCLE: Final = 1024
"""Each member is built anew from its samples once in so many ticks."""

DROP: Final = 1e-4
"""A variance that fell to this share of the highest since then is built anew: what left has taken its digits along."""

CHUNK: Final = 64
"""So many members are built anew at once, to bound memory."""

PARTS: Final = ("used", "ring", "origins", "counts", "means", "squares", "peaks")


class Windows:
    """Sliding covariances of many members with the same metrics (Syer, Adams, Hassan, section IV.C).

    A window is the newest `length` ticks. What counts for a member are its samples in them: a tick at which it was not
    there, or at which any of its metrics has no value, has none. So mean and covariance are of the same samples, and a
    covariance is positive semidefinite, which one of pairwise complete values need not be. A metric that a member
    never has is for the caller to leave out, or to leave the member out.

    A sample is added, and that which leaves is removed (Welford; Chan, Golub, LeVeque), with n the count after an
    addition and before a removal, d = x - m by the mean before:

        add:    m' = m + d / n        S' = S + d d^T (n - 1) / n
        remove: m' = m - d / (n - 1)  S' = S - d d^T n / (n - 1)

    on x less a value of the member's, so that metrics near 1e9 keep their digits. Removing leaves rounding
    errors as large as what is removed: each member is built anew from its samples in turn, and at once where a
    variance drops; a metric that is constant within a window has exactly no variance.

    Cost of a tick: O(slots x lengths x metrics^2), whatever the lengths. Memory: slots x metrics x the longest x 8
    bytes, and slots x (lengths + 1) x metrics^2 x 8.

    Reference: Chan, Golub, LeVeque (1983), "Algorithms for computing the sample variance", The American Statistician.

    Parameters:
        metrics: how many there are.
        lengths: of the windows, in ticks, 2 and more.
        limit: of members at a time.

    Attributes:
        lengths: of the windows, in ticks, and `LIFE`.

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
        self._origins: NDArray[np.float64] = nothing["origins"]  # what means are relative to
        self._counts: NDArray[np.float64] = nothing["counts"]
        self._means: NDArray[np.float64] = nothing["means"]
        self._squares: NDArray[np.float64] = nothing["squares"]  # the upper triangle of S
        self._peaks: NDArray[np.float64] = nothing["peaks"]  # the highest variances since a member was built anew

    def _empty(self, slots: int) -> dict[str, NDArray[Any]]:
        """Arrays for so many slots. Members are along the last axis, where numpy is fastest."""
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
        """How many members there are."""
        return int(self._used.sum())

    @property
    def slots(self) -> int:
        """How many slots there are, used and free: the length of what is answered of all."""
        return len(self._used)

    def claim(self, count: int) -> NDArray[np.intp]:
        """Slots for so many new members: the lowest that are free. Raises `ValueError` above the limit."""
        wanted = len(self) + count
        if wanted > self.limit:
            raise ValueError(f"expected at most {self.limit} members, got {wanted}")
        if wanted > self.slots:
            self._grow(min(max(wanted, 2 * self.slots), self.limit))
        slots = np.flatnonzero(~self._used)[:count]
        self._used[slots] = True
        return slots

    def release(self, slots: NDArray[np.intp]) -> None:
        """Forget members; their slots are free."""
        self._used[slots] = False
        self._ring[:, :, slots] = np.nan
        for part in (self._origins, self._counts, self._means, self._squares, self._peaks):
            part[..., slots] = 0.0

    def add(self, slots: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        """Let a tick pass.

        `values`, shape (len(slots), metrics), are of members that are there, each once. Raises `ValueError` for another
        shape, and for slots that nobody claimed.
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
        """Remove a sample of each window, shape (windows, metrics, slots), where it has one."""
        counts, means, squares = self._counts[:-1], self._means[:-1], self._squares[:-1]
        counts -= there
        deviation = np.where(there[:, None], sample - self._origins[:-1] - means, 0.0)
        step = deviation / np.maximum(counts, 1.0)[:, None]
        means -= step
        step += deviation
        squares -= deviation[:, self._i] * step[:, self._j]

    def _settle(self) -> None:
        """Build anew whose turn it is, and who lost digits."""
        turn = np.arange(self.slots) % CYCLE == self._tick % CYCLE
        lost = (self._squares[:-1, self._diagonal] < DROP * self._peaks).any(axis=(0, 1))
        slots = np.flatnonzero(self._used & (turn | lost))
        for begin in range(0, len(slots), CHUNK):
            self._rebuild(slots[begin : begin + CHUNK])

    def _rebuild(self, slots: NDArray[np.intp]) -> None:
        """Take moments in two passes from the samples of the windows, relative to the newest of them."""
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
        """How many samples each slot has in the window, shape (slots,)."""
        counts: NDArray[np.float64] = self._counts[self._at(length)]
        return counts.astype(np.int64)

    def means(self, length: int) -> NDArray[np.float64]:
        """Mean of each slot's samples in the window, shape (slots, metrics); NaN where there is none."""
        at = self._at(length)
        means = self._origins[at] + self._means[at]
        return np.where(self._counts[at] >= 1.0, means, np.nan).T.copy()

    def covariances(self, length: int) -> NDArray[np.float64]:
        """Unbiased covariance of each slot's samples, shape (slots, metrics, metrics); NaN below two samples."""
        at = self._at(length)
        degrees = self._counts[at] - 1.0
        triangle = (self._squares[at] / np.where(degrees >= 1.0, degrees, np.nan)).T
        covariances = np.empty((self.slots, self.metrics, self.metrics))
        covariances[:, self._i, self._j] = triangle
        covariances[:, self._j, self._i] = triangle
        return covariances

    def samples(self, slots: NDArray[np.intp], length: int) -> NDArray[np.float64]:
        """The newest `length` ticks of some members, the oldest first: shape (len(slots), ticks, metrics).

        NaN at ticks that do not count; fewer ticks while there were fewer, or where no window is so long.
        """
        ticks = min(length, self._longest, self._tick)
        rows = np.arange(self._tick - ticks, self._tick) % self._longest
        return self._ring[rows[:, None], :, slots[None, :]].transpose(1, 0, 2)

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {"tick": self._tick} | {name: getattr(self, f"_{name}").copy() for name in PARTS}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
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
