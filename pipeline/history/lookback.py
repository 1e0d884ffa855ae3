"""Onsets from before the ticks that are all read, by a few probes into the history and bisection.

Each probe is a quarter further back than the one before. So only some dozen frames of days of history are read. A gap
in a deviation between two probes is not detected.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.records import Frame
from laggard.pipeline.history.series import direction, least_unusual, longest_lull_s, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.history.series import Reader
    from laggard.pipeline.history.subject import Subject

FIRST_S: Final = 60.0
"""The first probe for growth is this long before the moment, in seconds, or more with long ticks ..."""

STEP: Final = 1.25
"""... and each further one this many times as long."""

CLOSE: Final = 0.02
"""The precision of an onset: this share of the time since then, or a tick."""

GROWN_S: Final = 600.0
"""Growth over less than this time, in seconds, is not reported."""

HALF: Final = 0.5
"""Growth is at least this share of the present distance from the baseline."""

DROP: Final = 0.25
"""Growing values may fall meanwhile by this share of their rise ..."""

NOISE: Final = 0.1
"""... and, before the rise is known, by this share of the value at the moment if that is more."""

KNEE: Final = 0.15
"""Growth begins at the point furthest below the straight line from the start until now, if its distance is more than
this share of the rise. Otherwise it begins at the start."""

PARTS: Final = 4
PART: Final = 0.05
"""Each of this number of equal parts of the time has at least this share of the rise: a step from level to level does
not."""

NO_LEVELS: Final = ("_per_s", "_ratio", "_timestamp_seconds")
"""The suffixes of features that do not grow like a leak: they vary with the work, or never fall."""

_ROUNDS: Final = 3
_BETWEEN: Final = 5  # probes per round: each round narrows an interval to a third


class Point(NamedTuple):
    """A value and its time, seconds since the Unix epoch."""

    ts: float
    value: float


class Beginning(NamedTuple):
    """An onset.

    Attributes:
        ts: seconds since the Unix epoch.
        value: the value of the feature then.
        before: whether it began even earlier: there is no older frame.

    """

    ts: float
    value: float
    before: bool = False


class Lookback:
    """One cell of a host's frames, probed at single times before a moment.

    Parameters:
        reader: the reader of the host.
        about: the cell, with its value at the moment.
        moment: seconds since the Unix epoch.
        stop: the offset of the first frame after the moment.
        tick_s: the time between two frames.

    Attributes:
        about: see above.
        now: the cell at the moment. All values are times the `direction` of the feature.
        tick_s: see above.
        oldest: the time of the oldest frame of the scope.
        lookups: the number of probes so far.

    """

    def __init__(self, reader: Reader, about: Subject, *, moment: float, stop: int, tick_s: float) -> None:
        self.about = about
        self._sign = direction(about.feature)
        self.now = Point(moment, self._sign * about.feature.value)
        self.tick_s = tick_s
        self.lookups = 0
        self._reader = reader
        self._stop = stop
        self._lull_s = longest_lull_s(tick_s)
        oldest, _ = reader.bus.bounds(reader.partition)
        self.oldest = next((frame.ts for frame in self._frames(oldest, stop)), moment)

    def at(self, ts: float, least: float = -math.inf) -> Point | None:
        """Return the first value of at least `least` from a time on, within the longest lull; None without one.

        Without any frame there it is the value at the moment, which adds nothing new.
        """
        self.lookups += 1
        partition = self._reader.partition
        start, stop = (self._reader.bus.offset_at(partition, each) for each in (ts, ts + self._lull_s))
        seen = False
        for frame in self._frames(start, min(stop, self._stop)):
            seen = True
            if (value := self._sign * value_of(frame, self.about.row, self.about.feature.feature)) >= least:
                return Point(frame.ts, value)
        return None if seen else self.now

    def first(self, low: float, high: Point, least: float = -math.inf) -> Point:
        """Return the earliest point of at least `least`, by bisection between a time without one and this point."""
        while high.ts - low > max(self.tick_s, CLOSE * (self.now.ts - high.ts)):
            middle = (low + high.ts) / 2.0
            found = self.at(middle, least)
            if found is not None and found.ts < high.ts:
                high = found
            else:
                low = middle
        return high

    def _frames(self, start: int, stop: int) -> Iterator[Frame]:
        for _, record in self._reader.forwards(start, stop):
            # After a clock was ahead for a while, past frames have later times.
            if isinstance(record, Frame) and record.scope == self.about.scope and record.ts <= self.now.ts + 1e-3:
                yield record


def began_before(past: Lookback, ts: float) -> tuple[float, bool]:
    """Return the onset of a deviation, by probes.

    Args:
        past: the cell.
        ts: the earliest known time of the deviation, seconds since the Unix epoch.

    Returns:
        Seconds since the Unix epoch; and whether it began even earlier: there is no older frame.

    """
    least = least_unusual(past.about.feature)
    high = Point(ts, least)
    # With ticks of an hour, or restarts hours apart, the moment itself may be the earliest known time.
    age_s = max(past.now.ts - ts, past.tick_s)
    while True:
        age_s *= STEP
        wanted = max(past.now.ts - age_s, past.oldest)
        found = past.at(wanted, least)
        if found is None:
            return past.first(wanted, high, least).ts, False
        high = min(high, found)
        if wanted <= past.oldest:
            return high.ts, True


def grown(past: Lookback) -> Beginning | None:
    """Return the point at which the steady growth of a value began; None if it has not grown, or not for long."""
    feature = past.about.feature
    if feature.feature.endswith(NO_LEVELS) or direction(feature) < 0.0 or not math.isfinite(past.now.value):
        return None
    points, complete = _values_back(past)
    begin = min(range(len(points)), key=lambda number: points[number].value)
    while (knee := _knee(points[begin:])) is not None:
        begin += knee
    start = points[begin]
    if 0 < begin < len(points) - 1:
        start = _corner(past, points[begin - 1], start, points[begin + 1])
    rise = past.now.value - start.value
    if past.now.ts - start.ts < GROWN_S or not rise > 0.0 or rise < HALF * (past.now.value - feature.mean):
        return None
    if not _is_steady(past, start, [point for point in points if point.ts > start.ts]):
        return None
    return Beginning(*start, before=complete and begin == 0)


def _values_back(past: Lookback) -> tuple[list[Point], bool]:
    """Return values from the moment back to a fall too large for steady growth across it, or to the row's first frame.

    Returns:
        The values, oldest first; and whether they reach back to the oldest frame.

    """
    points, lowest = [past.now], past.now.value
    age_s = max(FIRST_S, PARTS * past.tick_s)
    while True:
        wanted = max(past.now.ts - age_s, past.oldest)
        found = past.at(wanted)
        if found is None:
            found = past.first(wanted, points[-1])
            return [*([found] if found < points[-1] else []), *reversed(points)], False
        if found.ts < points[-1].ts:
            points.append(found)
            if found.value - lowest > max(DROP * (past.now.value - lowest), NOISE * abs(past.now.value)):
                return points[::-1], False
            lowest = min(lowest, found.value)
        if wanted <= past.oldest:
            return points[::-1], True
        age_s *= STEP


def _below(point: Point, first: Point, last: Point) -> float:
    """Return how far a point is below the straight line between two others."""
    return first.value + (last.value - first.value) * (point.ts - first.ts) / (last.ts - first.ts) - point.value


def _knee(points: Sequence[Point]) -> int | None:
    """Return the index at which the points begin to rise; None if they rise from the first on, or do not rise."""
    first, last = points[0], points[-1]
    rise = last.value - first.value
    deepest = max(range(len(points)), key=lambda number: _below(points[number], first, last)) if rise > 0.0 else 0
    return deepest if deepest and _below(points[deepest], first, last) > KNEE * rise else None


def _corner(past: Lookback, before: Point, start: Point, after: Point) -> Point:
    """Return the point between two others that is furthest below the line between them, by further probes."""
    low, high = before, after
    for _ in range(_ROUNDS):
        step_s = (high.ts - low.ts) / (_BETWEEN + 1)
        samples = [past.at(low.ts + number * step_s) for number in range(1, _BETWEEN + 1)]
        there = sorted({low, start, high, *(each for each in samples if each and low.ts < each.ts < high.ts)})
        deepest = max(range(1, len(there) - 1), key=lambda number: _below(there[number], before, after))
        low, start, high = there[deepest - 1 : deepest + 2]
        if step_s < past.tick_s:
            break
    return start


def _is_steady(past: Lookback, start: Point, points: Sequence[Point]) -> bool:
    """Return whether a value has grown in each part of the time and fallen little meanwhile.

    At most one of the times between the parts may lack a value.

    Args:
        past: the cell.
        start: the point at which it began to grow.
        points: known points from there until now.

    """
    rise, lasted_s = past.now.value - start.value, past.now.ts - start.ts
    samples = [past.at(start.ts + lasted_s * number / PARTS) for number in range(1, PARTS)]
    marks = [start, *(each for each in samples if each and each.ts < past.now.ts), past.now]
    if len(marks) < PARTS:
        return False
    if any(later.value - earlier.value < PART * rise for earlier, later in pairwise(marks)):
        return False
    highest = start.value
    for point in sorted({*marks, *points}):
        if highest - point.value > DROP * rise:
            return False
        highest = max(highest, point.value)
    return True
