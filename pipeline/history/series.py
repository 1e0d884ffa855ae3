"""Time series from the history on a bus, without reading all of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import DamagedRecord
from laggard.pipeline.core.records import Decoder, Frame, RecordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from laggard.operators.ranking import FeatureScore
    from laggard.pipeline.core.bus import Bus, Incoming, Partition
    from laggard.pipeline.core.records import Received

CONTEXT_S: Final = 4 * 3600.0
"""The default length of a time series, in seconds (S0's context) ..."""

CONTEXT_POINTS: Final = 48
"""... with this number of points ..."""

DENSE_TICKS: Final = 36
"""... and every tick just before the moment ..."""

AFTER_TICKS: Final = 12
"""... and just after it, if there are any."""

LONGEST_S: Final = 3600.0
"""The time before the moment in which each tick is searched for an onset, in seconds."""

LULL_S: Final = 5.0
LULL_TICKS: Final = 3.0
"""A return to the baseline for at most the longer of these two does not end a deviation."""

SIGMAS: Final = 3.0
"""A deviation begins this many standard deviations from the baseline."""

_FIRST_STEP: Final = 8  # records: the frames of a tick or two
_LONGEST_STEP: Final = 512


@dataclass(frozen=True, slots=True)
class Series:
    """One feature of one row over time.

    Attributes:
        row: the id of the row.
        feature: the name of the feature.
        moment: the queried time, seconds since the Unix epoch.
        tick_s: the time between two ticks.
        dense_from: the time from which on every tick is there; earlier points are thinned.
        points: (ts, value), oldest first, without ticks at which the row was missing.

    """

    row: str
    feature: str
    moment: float
    tick_s: float
    dense_from: float
    points: tuple[tuple[float, float], ...]


class Reader:
    """The records of a partition, or of one key in it, read forwards and backwards in small steps.

    Parameters:
        bus: the bus.
        partition: the partition.
        key: the key; None for all.

    """

    def __init__(self, bus: Bus, partition: Partition, key: str | None = None) -> None:
        self.bus = bus
        self.partition = partition
        self.key = key
        self._decoder = Decoder()

    def stored(self, start: int, stop: int) -> Iterator[Incoming]:
        """Yield records as stored; damaged ones are skipped."""
        while True:
            try:
                yield from self.bus.read(self.partition, start, stop, self.key)
            except DamagedRecord as damaged:
                start = damaged.offset + 1
            else:
                return

    def newest(self, most: int, stop: int | None = None) -> Iterator[Incoming]:
        """Return the newest records before `stop` (default: the end), at most this number, oldest first."""
        oldest, end = self.bus.bounds(self.partition)
        stop = end if stop is None else stop
        return self.stored(max(oldest, stop - most), stop)

    def forwards(self, start: int, stop: int) -> Iterator[tuple[int, Received]]:
        """Yield offsets and records from `start` to `stop` (exclusive); unreadable records are skipped."""
        step = _FIRST_STEP
        while start < stop:
            yield from self._decoded(self.stored(start, min(start + step, stop)))
            start += step
            step = min(4 * step, _LONGEST_STEP)

    def backwards(self, stop: int) -> Iterator[tuple[int, Received]]:
        """Yield offsets and records before `stop`, newest first."""
        oldest = self.bus.bounds(self.partition)[0]
        step = _FIRST_STEP
        while stop > oldest:
            start = max(stop - step, oldest)
            # Decoded one by one: a caller that wants the newest record pays for one.
            yield from self._decoded(reversed(list(self.stored(start, stop))))
            stop = start
            step = min(4 * step, _LONGEST_STEP)

    def _decoded(self, records: Iterable[Incoming]) -> Iterator[tuple[int, Received]]:
        for record in records:
            place = f"{self.partition.topic}[{self.partition.number}]@{record.offset}"
            try:
                yield record.offset, self._decoder.decode(record.value, place)
            except RecordError:
                continue  # a dead letter by now


def direction(feature: FeatureScore) -> float:
    """Return 1 for a feature that has risen, -1 for one that has fallen below its mean."""
    return -1.0 if feature.scored < feature.mean else 1.0


def least_unusual(feature: FeatureScore) -> float:
    """Return the value, times `direction`, at which the deviation of a feature begins."""
    sign = direction(feature)
    value = sign * feature.scored
    usual = sign * feature.mean if math.isfinite(feature.mean) else 0.0
    spread = feature.standard_deviation if math.isfinite(feature.standard_deviation) else 0.0
    # Slow growth begins just above the baseline, but a baseline that never varied has no deviation to measure it by.
    return min(usual + max(SIGMAS * spread, 0.1 * (value - usual)), value)


def longest_lull_s(tick_s: float) -> float:
    """Return the longest return to the baseline, in seconds, that does not end a deviation."""
    return max(LULL_S, LULL_TICKS * tick_s)


def began(points: Iterable[tuple[float, float]], feature: FeatureScore, tick_s: float) -> float:
    """Return the onset of a deviation: the time of the first of the points that deviate.

    Points in between that do not deviate are skipped; see `longest_lull_s`.

    Args:
        points: (ts, value), newest first; read no further than necessary.
        feature: the deviating feature of the newest point.
        tick_s: the time between two points.

    Returns:
        Seconds since the Unix epoch; NaN if no point deviates.

    """
    sign, least, lull_s = direction(feature), least_unusual(feature), longest_lull_s(tick_s)
    first = last = math.nan
    for ts, each in points:
        last = ts if math.isnan(last) else last
        if sign * each >= least:
            first = ts
        elif (last if math.isnan(first) else first) - ts > lull_s:
            break
    return first


def read_series(
    reader: Reader, scope: str, row: str, feature: str, *, moment: float, tick_s: float, since: float = math.inf
) -> Series:
    """Return the time series of a feature of a row around a moment.

    Args:
        reader: the reader of the host.
        scope: the scope of the frames.
        row: the id of the row.
        feature: the name of the feature.
        moment: seconds since the Unix epoch.
        tick_s: the time between two frames, above 0.
        since: an earlier start of the series than `CONTEXT_S` gives, seconds since the Unix epoch.

    """
    oldest, end = reader.bus.bounds(reader.partition)
    dense_from = moment - DENSE_TICKS * tick_s
    points: dict[float, float] = {}

    def take(start: int, before: float) -> Iterator[Frame]:
        for _, record in reader.forwards(start, end):
            if isinstance(record, Frame) and record.scope == scope:
                if record.ts >= before:
                    return
                value = value_of(record, row, feature)
                if not math.isnan(value):
                    points[record.ts] = value
                yield record

    first = next(reader.forwards(oldest, end), None)
    start = max(min(moment - CONTEXT_S, since), dense_from if first is None else first[1].ts)
    step = (dense_from - start) / CONTEXT_POINTS
    wanted = start
    while step > 0.0 and wanted < dense_from:
        # A step may be shorter than a tick: continue after the last frame.
        frame = next(take(reader.bus.offset_at(reader.partition, wanted), dense_from), None)
        wanted = max(wanted + step, math.nextafter(frame.ts, math.inf)) if frame else dense_from
    for _ in take(reader.bus.offset_at(reader.partition, dense_from), moment + (AFTER_TICKS + 0.5) * tick_s):
        pass
    return Series(row, feature, moment, tick_s, dense_from, tuple(sorted(points.items())))


def value_of(frame: Frame, row: str, feature: str) -> float:
    """Return a cell of a frame; NaN if the frame does not have it."""
    try:
        return float(frame.values[frame.layout.rows.index(row), frame.layout.features.index(feature)])
    except ValueError:
        return math.nan
