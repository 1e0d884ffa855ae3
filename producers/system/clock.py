"""The time of a producer: timestamps of its records, intervals of its rates, and due times of its ticks."""

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
        monotonic: for rates: it never steps, and stands still while the machine is suspended.
        boottime: since boot, suspended time included: the clock of the start times of processes.
        cpu: CPU time of the calling thread.

    """

    wall: Callable[[], int] = time.time_ns
    monotonic: Callable[[], int] = time.monotonic_ns
    boottime: Callable[[], int] = _boottime_ns
    cpu: Callable[[], int] = time.thread_time_ns


FAR_AHEAD_S = 3600.0
"""The most that timestamps may be ahead of the wall clock, in seconds: catching up with a year would take two."""


class Timeline:
    """Timestamps that do not go backward when the clock is slightly off.

    A step forward is adopted at once. After a step back, timestamps advance at half speed until the wall clock has
    caught up. So records keep their order and none is late; `offset_s` is the remaining distance. A step back by more
    than `FAR_AHEAD_S` is adopted at once, too: the clock was wrong, and readers notice the step.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ts_ns: int | None = None
        self._monotonic_ns = 0
        self.offset_s = 0.0

    def now(self) -> float:
        """Return the seconds since the Unix epoch. They always grow, except after a step back beyond `FAR_AHEAD_S`."""
        wall, monotonic = self._clock.wall(), self._clock.monotonic()
        ts = wall if self._ts_ns is None else max(wall, self._ts_ns + (monotonic - self._monotonic_ns) // 2)
        if ts - wall > FAR_AHEAD_S * 1e9:
            ts = wall
        self._ts_ns, self._monotonic_ns = ts, monotonic
        self.offset_s = (ts - wall) / 1e9
        return ts / 1e9


class Schedule:
    """The due times of ticks: at whole multiples of the interval after the first one.

    Missed ticks (an overlong tick, a stopped process) are skipped and counted, never caught up in a burst. A suspended
    machine misses none: the monotonic clock stood still. After a late tick the next one is at least half an interval
    away, so that no rate covers too little time.
    """

    def __init__(self, interval_s: float, clock: Clock) -> None:
        if not 0.5 <= interval_s <= 3600:
            raise ValueError(f"interval_s: expected 0.5 to 3600 seconds, got {interval_s!r}")
        self._interval_ns = round(interval_s * 1e9)
        self._clock = clock
        self._due_ns: int | None = None

    def delay_s(self) -> float:
        """Return the seconds until the next tick is due: 0 if it is, and before the first one."""
        if self._due_ns is None:
            return 0.0
        return max(0, self._due_ns - self._clock.monotonic()) / 1e9

    def begin(self) -> int:
        """Begin a tick now, plan the next one, and return the number of missed ticks since the last one."""
        now = self._clock.monotonic()
        if self._due_ns is None:
            self._due_ns = now + self._interval_ns
            return 0
        # An early tick (by hand) does not move the next one. A due one moves it to the next point far enough away.
        steps = max(1, math.ceil((now - self._due_ns) / self._interval_ns + 0.5)) if now >= self._due_ns else 0
        self._due_ns += steps * self._interval_ns
        return max(0, steps - 1)
