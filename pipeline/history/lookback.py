"""Since when it has been so, further back than is read tick by tick: a few looks into the history, and halving.

Each look is a quarter further back than the one before, so that of days of history some dozen frames are read. What was
over between two looks, and had come back at the next one, is not seen.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.history.series import direction, least_unusual, longest_lull_s, value_of
from laggard.pipeline.records import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.history.series import Reader
    from laggard.pipeline.history.subject import Subject

FIRST_S: Final = 60.0
"""The first look for what grows is so long before the moment ..."""

STEP: Final = 1.25
"""... and each further one so many times as long."""

CLOSE: Final = 0.02
"""A beginning is found to this share of the time since then, or to a tick."""

GROWN_S: Final = 600.0
"""What has grown for less than this is not told to have grown."""

HALF: Final = 0.5
"""What has grown has done so by at least this share of what it is above its usual."""

DROP: Final = 0.25
"""It may have fallen meanwhile by this share of what it has grown by ..."""

NOISE: Final = 0.1
"""... and, before it is known how much that is, by this share of itself."""

KNEE: Final = 0.15
"""It began where it is furthest below the straight line from before until now, if that is this share of the line's
height; else it has grown all the time."""

PARTS: Final = 4
PART: Final = 0.05
"""In each of so many parts of the time at least this share of it came about: it is no step from level to level."""

NO_LEVELS: Final = ("_per_s", "_ratio", "_timestamp_seconds")
"""The ends of the names of features that come and go with what is done, or never do: they do not grow like a leak."""

_ROUNDS: Final = 3
_BETWEEN: Final = 5  # looks of a round: it narrows a stretch to a third


class Point(NamedTuple):
    """A value and its time, seconds since the Unix epoch."""

    ts: float
    value: float


class Beginning(NamedTuple):
    """When something began.

    Attributes:
        ts: seconds since the Unix epoch.
        value: what the feature was then.
        before: whether it began before that, for there is no older frame.

    """

    ts: float
    value: float
    before: bool = False


class Lookback:
    """One cell of a host's frames, looked at here and there before a moment.

    Parameters:
        reader: of the host.
        about: which cell, and what it is at the moment.
        moment: seconds since the Unix epoch.
        stop: the offset of the first frame behind the moment.
        tick_s: the time between two frames.

    Attributes:
        about: see above.
        now: the cell at the moment. All values are times the `direction` of the feature.
        tick_s: see above.
        oldest: the time of the oldest frame of the scope.
        looks: how many there were.

    """

    def __init__(self, reader: Reader, about: Subject, *, moment: float, stop: int, tick_s: float) -> None:
        self.about = about
        self._sign = direction(about.feature)
        self.now = Point(moment, self._sign * about.feature.value)
        self.tick_s = tick_s
        self.looks = 0
        self._reader = reader
        self._stop = stop
        self._lull_s = longest_lull_s(tick_s)
        oldest, _ = reader.bus.bounds(reader.partition)
        self.oldest = next((frame.ts for frame in self._frames(oldest, stop)), moment)

    def at(self, ts: float, least: float = -math.inf) -> Point | None:
        """The first value of at least `least` at a time or, for as long as a lull may last, after it; None without one.

        Where no frame is there to look at, it is the moment's, which tells nothing new.
        """
        self.looks += 1
        partition = self._reader.partition
        start, stop = (self._reader.bus.offset_at(partition, each) for each in (ts, ts + self._lull_s))
        seen = False
        for frame in self._frames(start, min(stop, self._stop)):
            seen = True
            if (value := self._sign * value_of(frame, self.about.row, self.about.feature.feature)) >= least:
                return Point(frame.ts, value)
        return None if seen else self.now

    def first(self, low: float, high: Point, least: float = -math.inf) -> Point:
        """The first point that is so high, by halving, between a time at which it is not and a point at which it is."""
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
            # Of a clock that was ahead for a while, frames of the past seem to be of later.
            if isinstance(record, Frame) and record.scope == self.about.scope and record.ts <= self.now.ts + 1e-3:
                yield record


def began_before(past: Lookback, ts: float) -> tuple[float, bool]:
    """Since when a value has been far from its usual, as far as looks show.

    Args:
        past: the cell.
        ts: since when it is known to have been, seconds since the Unix epoch.

    Returns:
        Seconds since the Unix epoch; and whether it began before that, for there is no older frame.

    """
    least = least_unusual(past.about.feature)
    high = Point(ts, least)
    # With ticks of an hour, or restarts hours apart, it may not be known to have been so before the moment itself.
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
    """Since when a value has grown steadily to what it is, and from what; None where it has not, or not for long."""
    feature = past.about.feature
    if feature.feature.endswith(NO_LEVELS) or direction(feature) < 0.0 or not math.isfinite(past.now.value):
        return None
    points, whole = _looks(past)
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
    return Beginning(*start, before=whole and begin == 0)


def _looks(past: Lookback) -> tuple[list[Point], bool]:
    """Values from the moment back to where it fell so much that it cannot have grown since before, or its row began.

    Returns:
        Oldest first; and whether they reach back to the oldest frame.

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
    """How far a point is below the straight line between two others."""
    return first.value + (last.value - first.value) * (point.ts - first.ts) / (last.ts - first.ts) - point.value


def _knee(points: Sequence[Point]) -> int | None:
    """Where they begin to rise, None where they have done so all the time."""
    first, last = points[0], points[-1]
    rise = last.value - first.value
    deepest = max(range(len(points)), key=lambda number: _below(points[number], first, last)) if rise > 0.0 else 0
    return deepest if deepest and _below(points[deepest], first, last) > KNEE * rise else None


def _corner(past: Lookback, before: Point, start: Point, after: Point) -> Point:
    """The point between two others that is furthest below the line between them, found closely by further looks."""
    low, high = before, after
    for _ in range(_ROUNDS):
        step_s = (high.ts - low.ts) / (_BETWEEN + 1)
        looks = [past.at(low.ts + number * step_s) for number in range(1, _BETWEEN + 1)]
        there = sorted({low, start, high, *(each for each in looks if each and low.ts < each.ts < high.ts)})
        deepest = max(range(1, len(there) - 1), key=lambda number: _below(there[number], before, after))
        low, start, high = there[deepest - 1 : deepest + 2]
        if step_s < past.tick_s:
            break
    return start


def _is_steady(past: Lookback, start: Point, points: Sequence[Point]) -> bool:
    """Whether a value has grown in each part of the time, all but one of which were seen, and fallen little meanwhile.

    Args:
        past: the cell.
        start: when it began to grow.
        points: some from there until now.

    """
    rise, lasted_s = past.now.value - start.value, past.now.ts - start.ts
    looks = [past.at(start.ts + lasted_s * number / PARTS) for number in range(1, PARTS)]
    marks = [start, *(each for each in looks if each and each.ts < past.now.ts), past.now]
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
