"""Series of a limited number of points, for charts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]


GAP_TICKS: Final = 3.0
"""The longest time between two points of an unbroken line, in ticks or in steps, whichever is longer."""


class Thinned(NamedTuple):
    """A series of a limited number of points; see `laggard.pipeline.investigator.api.series.Series`."""

    ts: list[float]
    values: list[float | None]
    low: list[float | None]
    high: list[float | None]
    tick_s: float
    step_s: float
    complete: bool


def thin(ts: Vector, values: Vector, *, points: int, tick_s: float, complete: bool, breaks: bool) -> Thinned:
    """Reduce ticks to at most this number of points: the mean, the least and the greatest value of each stretch.

    Args:
        ts: the times of the ticks, ascending, seconds since the Unix epoch.
        values: the values, of the same shape, NaN if missing.
        points: the most points, without those that break the line.
        tick_s: the time between two ticks in seconds; 0 if unknown.
        complete: whether all requested data is there.
        breaks: whether a point without a value breaks the line where no frame came for longer than `GAP_TICKS`.

    """
    step_s = tick_s
    lines = [ts, values, values, values]
    if len(ts) > points:
        step_s = float(ts[-1] - ts[0]) / points or 1.0  # if the clock stands still
        place = np.minimum(((ts - ts[0]) / step_s).astype(np.intp), points - 1)
        first = np.flatnonzero(np.diff(place, prepend=-1))
        there = np.isfinite(values)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.add.reduceat(np.where(there, values, 0.0), first) / np.add.reduceat(there.astype(float), first)
        low = np.minimum.reduceat(np.where(there, values, np.inf), first)
        high = np.maximum.reduceat(np.where(there, values, -np.inf), first)
        lines = [np.add.reduceat(ts, first) / np.diff(first, append=len(ts)), means, low, high]
    if breaks and tick_s > 0.0:
        apart_s = max(tick_s, step_s)
        gaps = np.flatnonzero(np.diff(lines[0]) > GAP_TICKS * apart_s)
        breaking = lines[0][gaps] + apart_s
        lines = [np.insert(lines[0], gaps + 1, breaking), *(np.insert(each, gaps + 1, math.nan) for each in lines[1:])]
    shown, least, greatest = map(_plain, lines[1:])
    return Thinned(lines[0].tolist(), shown, least, greatest, tick_s, step_s, complete)


def _plain(values: Vector) -> list[float | None]:
    return [each if math.isfinite(each) else None for each in values.tolist()]
