"""Values of one row over time, thinned to what a page can draw."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from laggard.pipeline.history.series import value_of
from laggard.pipeline.records import Frame
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.pipeline.history.why import History


class Thinned(NamedTuple):
    """A series of at most so many points; see `laggard.pipeline.investigator.api.series.Series`."""

    ts: list[float]
    values: list[float | None]
    low: list[float | None]
    high: list[float | None]
    tick_s: float
    step_s: float
    complete: bool


class Columns:
    """The series of hosts.

    Parameters:
        history: where they are.

    """

    def __init__(self, history: History) -> None:
        self._history = history

    def bounds(self, host: str) -> tuple[float, float]:
        """The times of the oldest and of the newest frame of a host. Raises `RequestError` (404) without any."""
        reader = self._history.reader(host)
        oldest, end = reader.bus.bounds(reader.partition)
        first = next((each.ts for _, each in reader.forwards(oldest, end) if isinstance(each, Frame)), None)
        last = next((each.ts for _, each in reader.backwards(end) if isinstance(each, Frame)), None)
        if first is None or last is None:
            raise RequestError(404, f"no frame of host {host[:100]!r} is there", "an agent that runs: laggard up")
        return first, last

    def thinned(
        self, host: str, scope: str, row: str | None, feature: str, *, begin: float, end: float, points: int
    ) -> Thinned:
        """A series from one time to another; without a row that of the only one of the scope."""
        reader = self._history.reader(host)
        start, stop = (reader.bus.offset_at(reader.partition, ts) for ts in (begin, math.nextafter(end, math.inf)))
        found = [
            (each.ts, value_of(each, each.layout.rows[0] if row is None else row, feature))
            for _, each in reader.forwards(start, stop)
            if isinstance(each, Frame) and each.scope == scope and begin <= each.ts <= end
        ]
        ts, values = np.array([each[0] for each in found]), np.array([each[1] for each in found])
        return thin(ts, values, begin, end, points=points, complete=True)


def thin(
    ts: NDArray[np.float64],
    values: NDArray[np.float64],
    begin: float,
    end: float,
    *,
    points: int,
    complete: bool,
) -> Thinned:
    """Make at most so many points of ticks: of each stretch of time the mean, the least and the greatest value.

    Args:
        ts: of the ticks, ascending.
        values: of the same shape, NaN where there is none.
        begin: of the range, seconds since the Unix epoch.
        end: of the range.
        points: at most.
        complete: whether all ticks are among them.

    """
    tick_s = float(np.median(np.diff(ts))) if len(ts) > 1 else 0.0
    if len(ts) <= points:
        plain = _plain(values)
        return Thinned(ts.tolist(), plain, plain, plain, tick_s, tick_s, complete)
    step_s = (end - begin) / points
    place = np.minimum(((ts - begin) / step_s).astype(np.intp), points - 1)
    first = np.flatnonzero(np.diff(place, prepend=-1))
    there = np.isfinite(values)
    counts = np.add.reduceat(there.astype(np.float64), first)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.add.reduceat(np.where(there, values, 0.0), first) / counts
    low = np.minimum.reduceat(np.where(there, values, np.inf), first)
    high = np.maximum.reduceat(np.where(there, values, -np.inf), first)
    ticks = np.diff(first, append=len(ts))
    middle = np.add.reduceat(ts, first) / ticks
    return Thinned(middle.tolist(), _plain(means), _plain(low), _plain(high), tick_s, step_s, complete)


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    return [each if math.isfinite(each) else None for each in values.tolist()]
