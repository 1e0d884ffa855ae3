"""Means of the last readings instead of single ones: S1's fuzzy evaluation of conditions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

Kind = Literal["none", "mean", "trimmed"]

MOST_READINGS: Final = 64
"""The most readings in a window: the newest ones."""

OUTLYING: Final = 3.0
"""An outlier deviates from the median by more than this number of standard deviations."""

MAD_TO_DEVIATION: Final = 1.4826
"""The standard deviation of normal values, in median absolute deviations."""

FEWEST: Final = 3
"""The least number of readings that can have an outlier."""


class Smoothing:
    """The mean of each row's readings over the last `window_s`, weighted by the time that each reading covers.

    With `trimmed`, outliers are left out by Hampel's identifier: readings that deviate from the median of the window by
    more than three standard deviations, estimated by the median absolute deviation. So a single spike or dip does not
    count, and a step counts from half of the window on.

    Memory: 8 bytes per row and reading of the window, at most `MOST_READINGS` of them.

    Reference: F. R. Hampel, "The influence curve and its role in robust estimation", JASA 69, 1974.

    Parameters:
        kind: `mean` or `trimmed`; `none` for the newest reading.
        window_s: the window in seconds.

    """

    def __init__(self, kind: Kind = "none", window_s: float = 5.0) -> None:
        if kind not in {"none", "mean", "trimmed"}:
            raise ValueError(f"smoothing: expected none, mean or trimmed, got {kind!r}")
        if not (math.isfinite(window_s) and window_s > 0.0):
            raise ValueError(f"window_s: expected a time above 0, got {window_s!r}")
        self.kind: Kind = kind
        self.window_s = window_s
        self._rows: tuple[str, ...] = ()
        self._past: Matrix = np.zeros((0, 0))  # shape (readings, rows), the oldest first
        self._spans_s: Vector = np.zeros(0)  # the time that each covers

    def copy(self) -> Smoothing:
        """Return another one in the same state."""
        other = Smoothing(self.kind, self.window_s)
        other._rows, other._past, other._spans_s = self._rows, self._past, self._spans_s  # never changed in place
        return other

    def step(self, rows: Sequence[str], readings: Vector, passed_s: float) -> Vector:
        """Add a reading of each row that covers the last `passed_s` seconds, and return the mean of each.

        NaN without a reading now.
        """
        if self.kind == "none":
            return readings
        if self._rows != tuple(rows):
            self._align(tuple(rows))
        known = np.isfinite(readings)
        newest = np.where(known, readings, np.nan)
        # Earlier readings stay if they begin within the window.
        ages_s = passed_s + np.cumsum(self._spans_s[::-1])[::-1]
        recent = ages_s <= self.window_s * (1.0 + 1e-9)
        recent[: max(len(recent) + 1 - MOST_READINGS, 0)] = False
        self._past = np.concatenate([self._past[recent], newest[np.newaxis]])
        self._spans_s = np.append(self._spans_s[recent], passed_s)
        counted = np.isfinite(self._past)
        if self.kind == "trimmed":
            counted &= ~_outlying(self._past, counted)
        spans_s = np.where(self._spans_s > 0.0, self._spans_s, 1e-9)[:, np.newaxis] * counted
        total_s = spans_s.sum(axis=0)
        summed = (np.where(counted, self._past, 0.0) * spans_s).sum(axis=0)
        # The mean of equal readings is exactly that reading: it is compared with the threshold.
        low = np.where(counted, self._past, np.inf).min(axis=0, initial=np.inf)
        high = np.where(counted, self._past, -np.inf).max(axis=0, initial=-np.inf)
        mean = np.divide(summed, total_s, out=np.full(len(readings), np.nan), where=total_s > 0.0)
        smoothed: Vector = np.where(known, np.clip(mean, low, high), np.nan)
        return smoothed

    def _align(self, rows: tuple[str, ...]) -> None:
        places = {row: place for place, row in enumerate(self._rows)}
        source = np.array([places.get(row, -1) for row in rows], np.intp)
        past = np.full((len(self._past), len(rows)), np.nan)
        past[:, source >= 0] = self._past[:, source[source >= 0]]
        self._rows, self._past = rows, past

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {"rows": list(self._rows), "past": self._past.copy(), "spans_s": self._spans_s.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        rows, spans_s = tuple(state["rows"]), np.array(state["spans_s"], np.float64)
        past = np.array(state["past"], np.float64)
        if past.shape != (len(spans_s), len(rows)):
            raise ValueError(f"past: expected the shape {(len(spans_s), len(rows))}, got {past.shape}")
        self._rows, self._past, self._spans_s = rows, past, spans_s


def _outlying(past: Matrix, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which readings are outliers of their row. Both have the shape (readings, rows)."""
    counts = known.sum(axis=0)
    values = np.where(known, past, np.nan)
    apart = np.abs(values - _median(values, counts))
    deviation = MAD_TO_DEVIATION * _median(apart, counts)
    return np.asarray((counts >= FEWEST) & known & (apart > OUTLYING * deviation))


def _median(values: Matrix, counts: NDArray[np.intp]) -> Vector:
    """Return the median of each column, given its number of values that are not NaN; any number if that is 0.

    numpy's `nanmedian` loops over columns.
    """
    ordered = np.sort(values, axis=0)  # NaN comes last
    columns = np.arange(values.shape[1])
    middle: Vector = 0.5 * (ordered[np.maximum(counts - 1, 0) // 2, columns] + ordered[counts // 2, columns])
    return middle
