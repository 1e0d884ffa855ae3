"""Time of a producer: the stamps of its records, the intervals of its rates, and when its next tick is due."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Clock:
    """The clocks that a producer reads, in nanoseconds, injectable for tests.

    Attributes:
        wall: since the Unix epoch; people and NTP may set it.
        monotonic: what rates divide by: it never steps and stands still while the machine is suspended.
        boottime: since boot, suspended time included: the clock of a process's start.
        cpu: CPU time of the calling thread.

    """

    wall: Callable[[], int] = time.time_ns
    monotonic: Callable[[], int] = time.monotonic_ns
    boottime: Callable[[], int] = _boottime_ns
    cpu: Callable[[], int] = time.thread_time_ns


FAR_AHEAD_S = 3600.0
"""So far ahead of the wall clock our time does not stay: a year would take two to be caught up with."""


class Timeline:
    """Stamps that do not go backwards because of a clock that is a little off.

    A step forward is adopted at once. After a step back our time goes on at half speed until the wall clock has
    caught up, so that records keep their order and none is late; `offset_s` says how far ahead it still is. A step back
    by more than `FAR_AHEAD_S` is adopted at once, too: the clock was wrong, and readers find out.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ts_ns: int | None = None
        self._monotonic_ns = 0
        self.offset_s = 0.0

    def now(self) -> float:
        """Seconds since the Unix epoch; greater than at the last call if any time has passed since, but for that."""
        wall, monotonic = self._clock.wall(), self._clock.monotonic()
        ts = wall if self._ts_ns is None else max(wall, self._ts_ns + (monotonic - self._monotonic_ns) // 2)
        if ts - wall > FAR_AHEAD_S * 1e9:
            ts = wall
        self._ts_ns, self._monotonic_ns = ts, monotonic
        self.offset_s = (ts - wall) / 1e9
        return ts / 1e9


class Schedule:
    """When ticks are due: at whole multiples of the interval after the first one.

    What was missed (an overlong tick, a stopped process) is skipped and counted, never caught up in a burst. A
    suspended machine misses nothing: the monotonic clock stood still. Two ticks are at least half an interval apart, so
    that no rate rests on a sliver of time.
    """

    def __init__(self, interval_s: float, clock: Clock) -> None:
        if not 0.5 <= interval_s <= 3600:
            raise ValueError(f"interval_s: expected 0.5 to 3600 seconds, got {interval_s!r}")
        self._interval_ns = round(interval_s * 1e9)
        self._clock = clock
        self._due_ns: int | None = None

    def delay_s(self) -> float:
        """Seconds until the next tick is due, 0 if it is or if there was none yet."""
        if self._due_ns is None:
            return 0.0
        return max(0, self._due_ns - self._clock.monotonic()) / 1e9

    def begin(self) -> int:
        """Begin a tick now and plan the next one. Returns how many were missed since the last one."""
        now = self._clock.monotonic()
        if self._due_ns is None:
            self._due_ns = now + self._interval_ns
            return 0
        # Begun early (by hand) or on time: the grid stays. Begun late: on to its next point that is far enough.
        steps = max(1, math.ceil((now - self._due_ns) / self._interval_ns + 0.5)) if now >= self._due_ns else 0
        self._due_ns += steps * self._interval_ns
        return max(0, steps - 1)
