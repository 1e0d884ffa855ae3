"""CPU time of a process: an exact sum, split into user and system time as well as the kernel allows."""

from __future__ import annotations

_MEMORY_TICKS = 32.0  # of CPU time: the span over which the split is averaged


class CpuTime:
    """User and system time, from the clock ticks of `stat` and the scheduler's run time.

    The ticks of `stat` (10 ms) are coarse: a process that uses 1 % of a core has one of them per second, or none. The
    scheduler counts nanoseconds, but without the mode. So the run time is added, split like the ticks of the last
    0.32 s of CPU time. Without a run time, the ticks themselves are added.

    Attributes:
        user_s: seconds in user mode since the process began.
        system_s: seconds in the kernel.
        run_ns: the last run time, None if unknown.

    """

    __slots__ = ("_recent_system", "_recent_user", "_system_ticks", "_user_ticks", "run_ns", "system_s", "user_s")

    def __init__(self) -> None:
        self.user_s = self.system_s = 0.0
        self.run_ns: int | None = 0
        self._user_ticks = self._system_ticks = 0
        self._recent_user = self._recent_system = 0.0  # ticks, fading

    def update(self, user_ticks: int, system_ticks: int, run_ns: int | None, tick_s: float) -> None:
        """Update the times from counters since the process began. If counters went backwards, so do the times."""
        user, system = user_ticks - self._user_ticks, system_ticks - self._system_ticks
        run_before = self.run_ns
        self._user_ticks, self._system_ticks, self.run_ns = user_ticks, system_ticks, run_ns
        if user or system:
            self._remember(user, system)
        if run_before is None or run_ns is None or user < 0 or system < 0:
            self.user_s += user * tick_s
            self.system_s += system * tick_s
            return
        recent = self._recent_user + self._recent_system
        run_s = (run_ns - run_before) / 1e9
        user_s = run_s * (self._recent_user / recent if recent else 0.5)
        self.user_s += user_s
        self.system_s += run_s - user_s

    def _remember(self, user: int, system: int) -> None:
        fading = _MEMORY_TICKS / (_MEMORY_TICKS + abs(user) + abs(system))
        recent_user = self._recent_user * fading + max(0, user)
        recent_system = self._recent_system * fading + max(0, system)
        excess = max(1.0, (recent_user + recent_system) / _MEMORY_TICKS)
        self._recent_user, self._recent_system = recent_user / excess, recent_system / excess
