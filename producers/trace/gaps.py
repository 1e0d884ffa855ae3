"""Periods in which events are missing: pauses of a recorder, and events that the kernel dropped."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Gaps:
    """Periods of missing events, on any CPU. Those that overlap count once.

    Times are nanoseconds of the trace's clock.

    >>> gaps = Gaps()
    >>> gaps.add(10, 30)
    >>> gaps.add(20, 40)
    >>> gaps.missing(0, 100), gaps.missing(35, 50)
    (30, 5)
    """

    def __init__(self) -> None:
        self._begins: list[int] = []  # of periods without overlaps, ascending
        self._ends: list[int] = []
        self._forgotten = 0
        self._before = -(1 << 62)

    def add(self, begin: int, end: int) -> None:
        """Add a period, except for a part of it that was forgotten."""
        begin = max(begin, self._before)
        if begin >= end:
            return
        first, last = bisect_left(self._ends, begin), bisect_right(self._begins, end)
        if first < last:
            begin, end = min(begin, self._begins[first]), max(end, self._ends[last - 1])
        self._begins[first:last], self._ends[first:last] = [begin], [end]

    def missing(self, begin: int, end: int) -> int:
        """Return the missing time between two points, as far as it was not forgotten."""
        first, last = bisect_right(self._ends, begin), bisect_left(self._begins, end)
        periods = zip(self._begins[first:last], self._ends[first:last], strict=True)
        return sum(max(0, min(until, end) - max(since, begin)) for since, until in periods)

    def forget(self, before: int) -> None:
        """Drop the time before a point; `total` still counts it."""
        self._forgotten += self.missing(-(1 << 62), before)
        count = bisect_right(self._ends, before)
        del self._begins[:count], self._ends[:count]
        if self._begins and self._begins[0] < before:
            self._begins[0] = before
        self._before = max(self._before, before)

    def total(self, end: int) -> int:
        """Return the missing time up to a point, at least that of the last `forget`."""
        return self._forgotten + self.missing(-(1 << 62), end)
