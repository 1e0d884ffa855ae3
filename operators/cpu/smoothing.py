"""Means of the last readings in place of single ones: what S1 calls a fuzzy evaluation of conditions."""

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
"""Of a longer window the newest so many count."""

OUTLYING: Final = 3.0
"""A reading further than so many standard deviations from the median is an outlier."""

MAD_TO_DEVIATION: Final = 1.4826
"""The standard deviation of normal values, in median absolute deviations."""

FEWEST: Final = 3
"""Of fewer readings none is an outlier."""


class Smoothing:
    """The mean of each row's readings over the last `window_s`, each weighed by the time that it tells of.

    With `trimmed` readings that are outliers among those of the window are left out of it, by Hampel's identifier:
    those that are further than three standard deviations from their median, as the median absolute deviation tells
    these. So one spike, or one dip, counts for nothing, and a step does once it makes up half of the window.

    Memory: 8 bytes per row and reading of the window, of which there are at most `MOST_READINGS`.

    Reference: F. R. Hampel, "The influence curve and its role in robust estimation", JASA 69, 1974.

    Parameters:
        kind: `mean` or `trimmed`; `none` for the newest reading as it is.
        window_s: over which time, in seconds.

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
        self._spans_s: Vector = np.zeros(0)  # what each tells of

    def copy(self) -> Smoothing:
        """Another one in the same state."""
        other = Smoothing(self.kind, self.window_s)
        other._rows, other._past, other._spans_s = self._rows, self._past, self._spans_s  # never changed in place
        return other

    def step(self, rows: Sequence[str], readings: Vector, passed_s: float) -> Vector:
        """Take in a reading of each row that tells of the last `passed_s` seconds; gives the mean of each.

        NaN where there is no reading now.
        """
        if self.kind == "none":
            return readings
        if self._rows != tuple(rows):
            self._align(tuple(rows))
        known = np.isfinite(readings)
        newest = np.where(known, readings, np.nan)
        # Of the readings before, those stay that begin within the window.
        ages_s = passed_s + np.cumsum(self._spans_s[::-1])[::-1]
        kept = ages_s <= self.window_s * (1.0 + 1e-9)
        kept[: max(len(kept) + 1 - MOST_READINGS, 0)] = False
        self._past = np.concatenate([self._past[kept], newest[np.newaxis]])
        self._spans_s = np.append(self._spans_s[kept], passed_s)
        counted = np.isfinite(self._past)
        if self.kind == "trimmed":
            counted &= ~_outlying(self._past, counted)
        spans_s = np.where(self._spans_s > 0.0, self._spans_s, 1e-9)[:, np.newaxis] * counted
        total_s = spans_s.sum(axis=0)
        summed = (np.where(counted, self._past, 0.0) * spans_s).sum(axis=0)
        # What is all of it equal is that, to the last bit: the threshold is compared exactly.
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
        """A copy of the state as plain data."""
        return {"rows": list(self._rows), "past": self._past.copy(), "spans_s": self._spans_s.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
        rows, spans_s = tuple(state["rows"]), np.array(state["spans_s"], np.float64)
        past = np.array(state["past"], np.float64)
        if past.shape != (len(spans_s), len(rows)):
            raise ValueError(f"past: expected the shape {(len(spans_s), len(rows))}, got {past.shape}")
        self._rows, self._past, self._spans_s = rows, past, spans_s


def _outlying(past: Matrix, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which readings are outliers among their row's. Both of the shape (readings, rows)."""
    counts = known.sum(axis=0)
    values = np.where(known, past, np.nan)
    apart = np.abs(values - _median(values, counts))
    deviation = MAD_TO_DEVIATION * _median(apart, counts)
    return np.asarray((counts >= FEWEST) & known & (apart > OUTLYING * deviation))


def _median(values: Matrix, counts: NDArray[np.intp]) -> Vector:
    """The median of each column, of so many values that are not NaN; any number where there are none.

    numpy's `nanmedian` goes through columns one by one.
    """
    ordered = np.sort(values, axis=0)  # NaN comes last
    columns = np.arange(values.shape[1])
    middle: Vector = 0.5 * (ordered[np.maximum(counts - 1, 0) // 2, columns] + ordered[counts // 2, columns])
    return middle
