"""Incremental count, mean and sum of squares of the samples of each member of a pool in several windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.covariance.arrays import Arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

DROP: Final = 1e-4
"""A variance that has fallen to this share of its maximum is recomputed: it has lost digits."""


class Moments:
    """The moments of the samples of members in windows, of which the last one never loses a sample.

    With n the count after an addition and before a removal, and d = x - m with the mean before:

        add:    m' = m + d / n        S' = S + d d^T (n - 1) / n
        remove: m' = m - d / (n - 1)  S' = S - d d^T n / (n - 1)

    Here x is relative to a value of the member, so that metrics near 1e9 keep their digits.

    Reference: Chan, Golub, LeVeque (1983), "Algorithms for computing the sample variance", The American Statistician.

    Parameters:
        metrics: the number of metrics.
        windows: the number of windows.

    """

    def __init__(self, metrics: int, windows: int) -> None:
        self._metrics = metrics
        self._windows = windows
        self._i, self._j = np.triu_indices(metrics)
        self._diagonal = np.flatnonzero(self._i == self._j)
        self.arrays = Arrays(self._empty)

    def _empty(self, slots: int) -> dict[str, NDArray[Any]]:
        windows, p = self._windows, self._metrics
        return {
            "origins": np.zeros((windows, p, slots)),  # the values that means are relative to
            "counts": np.zeros((windows, slots)),
            "means": np.zeros((windows, p, slots)),
            "squares": np.zeros((windows, len(self._i), slots)),  # the upper triangle of S
            "peaks": np.zeros((windows - 1, p, slots)),  # the maximum of each variance since it was recomputed
        }

    def add(self, sample: Floats, there: Flags) -> None:
        """Add a sample, shape (metrics, slots), of the members that have one."""
        arrays = self.arrays
        counts, means, squares, peaks = arrays["counts"], arrays["means"], arrays["squares"], arrays["peaks"]
        first = there & (counts == 0.0)
        if first.any():
            np.copyto(arrays["origins"], sample, where=first[:, None])
        counts += there
        deviation = np.where(there, sample - arrays["origins"] - means, 0.0)
        step = deviation / np.maximum(counts, 1.0)[:, None]
        means += step
        rest = deviation - step
        squares += deviation[:, self._i] * rest[:, self._j]
        np.maximum(peaks, squares[:-1, self._diagonal], out=peaks)

    def remove(self, sample: Floats, there: Flags) -> None:
        """Remove the sample that leaves each window, if it has one, shape (windows - 1, metrics, slots)."""
        counts, means, squares = (self.arrays[name][:-1] for name in ("counts", "means", "squares"))
        counts -= there
        deviation = np.where(there[:, None], sample - self.arrays["origins"][:-1] - means, 0.0)
        step = deviation / np.maximum(counts, 1.0)[:, None]
        means -= step
        step += deviation
        squares -= deviation[:, self._i] * step[:, self._j]

    def inexact(self) -> Flags:
        """Return whether the moments of each slot have lost digits."""
        dropped = self.arrays["squares"][:-1, self._diagonal] < DROP * self.arrays["peaks"]
        return np.asarray(dropped.any(axis=(0, 1)))

    def recompute(self, slots: NDArray[np.intp], samples: Floats, lengths: NDArray[np.intp]) -> None:
        """Compute moments in two passes from the samples of the windows, relative to the newest sample.

        Args:
            slots: the members.
            samples: their samples, the newest first, shape (ticks, metrics, len(slots)).
            lengths: the number of ticks in each window but the last.

        """
        there = ~np.isnan(samples[:, 0])
        origin = samples[there.argmax(axis=0), :, np.arange(len(slots))].T
        samples = np.where(there[:, None], samples - origin, 0.0)
        for at, length in enumerate(lengths):
            within = there[:length]
            counts = within.sum(axis=0)
            means = samples[:length].sum(axis=0) / np.maximum(counts, 1)
            deviations = np.where(within[:, None], samples[:length] - means, 0.0)
            squares = np.einsum("tks,tks->ks", deviations[:, self._i], deviations[:, self._j])
            self.arrays["origins"][at][:, slots] = np.where(counts, origin, 0.0)
            self.arrays["counts"][at, slots] = counts
            self.arrays["means"][at][:, slots] = means
            self.arrays["squares"][at][:, slots] = squares
            self.arrays["peaks"][at][:, slots] = squares[self._diagonal]

    def mean(self, window: int) -> Floats:
        """Return the mean of each slot, shape (slots, metrics); NaN without samples."""
        arrays = self.arrays
        means = arrays["origins"][window] + arrays["means"][window]
        return np.where(arrays["counts"][window] >= 1.0, means, np.nan).T.copy()

    def covariance(self, window: int) -> Floats:
        """Return the unbiased covariance of each slot, shape (slots, metrics, metrics); NaN below two samples."""
        degrees = self.arrays["counts"][window] - 1.0
        triangle = (self.arrays["squares"][window] / np.where(degrees >= 1.0, degrees, np.nan)).T
        covariances = np.empty((len(degrees), self._metrics, self._metrics))
        covariances[:, self._i, self._j] = triangle
        covariances[:, self._j, self._i] = triangle
        return covariances
