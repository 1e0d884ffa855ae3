"""The share of a CPU that each process uses, and the share of all CPUs that the host uses, several times a second.

It is cheap: only the CPU clock of each process is read. The list of processes is read only if one was started since.
All of it can be skipped while the host is idle, which one small file shows.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.producers.host.pressures import RESOURCES
from laggard.producers.system.foreign import content, names
from laggard.producers.system.kernel import Kernel, cpu_clock, is_of_another_namespace
from laggard.producers.system.open_files import FileBudget
from laggard.producers.system.proc import ProcError, parse_pressure, parse_stat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.producers.system.clock import Clock

    Vector = NDArray[np.float64]
    Indices = NDArray[np.intp]

LIST_S: Final = 1.0
"""The time between two listings of new processes, in seconds. A new process has its mean use since the last one."""

COUNT_S: Final = 10.0
"""The time between two counts of the CPUs, in seconds: they seldom change."""

_SLACK_S: Final = 0.1  # readings may be a little closer together than planned
_SPARE_CPU: Final = 0.1  # per CPU: clocks are not read at exactly the same moment
_UPTIME, _LOAD, *_ = _FILES = ("uptime", "loadavg", *(f"pressure/{each}" for each in RESOURCES))


class Use(NamedTuple):
    """The use of processes since the previous reading.

    Attributes:
        pids: the pid of each row.
        source: the place of each row in the previous reading, -1 for a new one. Shape (rows,).
        same: whether the rows are those of the previous reading, in the same places.
        single: u1 (S1, Eq. 1): user and kernel time over time, as a share of one CPU; NaN if there is nothing to
            compare. Shape (rows,).

    """

    pids: tuple[int, ...]
    source: Indices
    same: bool
    single: Vector


class Utilisation:
    """The use of all processes of a machine.

    CPU time is exact to the nanosecond, except for threads that are running on another core. There it is that of the
    core's last scheduler tick, 1 to 10 ms ago. Without CPU clocks of processes it is that of `stat`, exact to 10 ms. A
    process that was not in the previous reading began at 0.

    Args:
        clock: the clock of the rates.
        root: the mount point of procfs.

    Attributes:
        cpus: the number of CPUs (S1's n_cpus).

    """

    def __init__(self, clock: Clock, root: str = "/proc") -> None:
        self.cpus = _count_cpus()
        self._clock = clock
        self._counted_ns = clock.monotonic()
        self._root = root
        self._kernel = Kernel(root)
        self._files = FileBudget(len(_FILES))
        self._descriptors = [-1] * len(_FILES)
        # A filesystem over procfs that shows a container its own times (lxcfs) does not show the host's.
        self._tells_idle = _is_of(root, "uptime")
        # Whichever procfs it is read from, `loadavg` has the newest id of the reader's own pid namespace.
        self._tells_starts = _is_of(root, "loadavg") and not is_of_another_namespace(root)
        self._idle: tuple[int, float] | None = None
        self._stalled: dict[str, tuple[int, float]] = {}
        self._entries: set[str] = set()  # those of the last listing, except for processes that have ended since
        self._pids: tuple[int, ...] = ()
        self._clocks: list[int] = []
        self._used_s: Vector = np.zeros(0)
        self._places: Indices = np.zeros(0, np.intp)
        self._read_ns: int | None = None
        self._listed_ns = 0
        self._unlisted_s = 0.0
        self._last_start = b""

    def close(self) -> None:
        """Close all files; the next reading opens them again."""
        self._files.release(self._descriptors)

    def busy_ratio(self) -> float:
        """Return the share of all CPUs that was used since the last call, or more; NaN if unknown."""
        now = self._clock.monotonic()
        if now - self._counted_ns >= COUNT_S * 1e9:
            self.cpus, self._counted_ns = _count_cpus(), now
        if not self._tells_idle:
            return np.nan
        idle_s = float(self._text(_UPTIME).split()[1])
        before, self._idle = self._idle, (now, idle_s)
        if before is None or now <= before[0]:
            return np.nan
        return 1.0 - (idle_s - before[1]) / ((now - before[0]) / 1e9 * self.cpus)

    def pressure_ratio(self, resource: str) -> float:
        """Return the share of time since the last call in which some task of the host stalled on one of `RESOURCES`.

        NaN at the first call, without support by the kernel, or if no time has passed.
        """
        which = f"pressure/{resource}"
        now = self._clock.monotonic()
        try:
            stalled_s = parse_pressure(self._text(which), f"{self._root}/{which}")["some"] / 1e6
        except (OSError, KeyError):  # a kernel without them, or with `psi=0`
            return np.nan
        before = self._stalled.get(resource)
        self._stalled[resource] = now, stalled_s
        if before is None or now <= before[0]:
            return np.nan
        return (stalled_s - before[1]) / ((now - before[0]) / 1e9)

    def forget(self) -> None:
        """Make the next reading a first one."""
        self._entries, self._last_start = set(), b""
        self._set((), [], np.zeros(0))
        self._read_ns = None

    def read(self) -> Use:
        """Read the use of every process."""
        now = self._clock.monotonic()
        listed = self._list(now)
        used_s = self._used(self._pids, self._clocks)
        elapsed_s = np.nan if self._read_ns is None or now <= self._read_ns else (now - self._read_ns) / 1e9
        single = (used_s - self._used_s) / elapsed_s
        source, same, self._read_ns = self._places, True, now
        if listed is not None:
            # New processes began at 0.
            source, same = listed, False
            since_s = np.where(source >= 0, elapsed_s, max(elapsed_s, self._unlisted_s))
            single *= elapsed_s / since_s
        # A use below 0, or above that of all CPUs: another process has the pid of one that ended.
        most = self.cpus * (1.0 + _SPARE_CPU)
        if not (single.min(initial=0.0) >= 0.0 and single.max(initial=0.0) <= most and math.isfinite(elapsed_s)):
            source, same, single = self._sorted_out(source, used_s, single, most)
        else:
            self._used_s = used_s
        return Use(self._pids, source, same, single)

    def _sorted_out(self, source: Indices, used_s: Vector, single: Vector, most: float) -> tuple[Indices, bool, Vector]:
        """Leave out ended processes, and start from scratch for pids that belong to another process."""
        other = (single < 0.0) | (single > most)
        single[other & (source >= 0)] = np.nan
        source = np.where(other, -1, source)
        there = np.isfinite(used_s)
        if not there.all():
            places = np.flatnonzero(there).tolist()
            self._entries -= {str(self._pids[place]) for place in np.flatnonzero(~there).tolist()}
            self._set([self._pids[place] for place in places], [self._clocks[place] for place in places], used_s[there])
        else:
            self._used_s = used_s
        return source[there], False, single[there]

    def _set(self, pids: Sequence[int], clocks: list[int], used_s: Vector) -> None:
        self._pids, self._clocks, self._used_s = tuple(pids), clocks, used_s
        self._places = np.arange(len(pids))

    def _list(self, now: int) -> Indices | None:
        """Add new processes, and return the previous place of each process, -1 for a new one; None without new ones.

        A new process has used nothing so far. Ended processes are detected when their clocks are read.
        """
        since_s = (now - self._listed_ns) / 1e9
        if self._read_ns is not None and since_s < LIST_S - _SLACK_S:
            return None
        self._listed_ns = now
        if self._tells_starts:
            # The last field is the id of the newest process or thread.
            start = self._text(_LOAD).rpartition(b" ")[2]
            if start == self._last_start:
                return None
            self._last_start = start
        entries = set(names(self._root))
        started = [int(entry) for entry in entries - self._entries if entry.isdecimal()]
        self._entries, self._unlisted_s = entries, since_s
        if not started:
            return None
        source = np.append(self._places, [-1] * len(started))
        clocks = [*self._clocks, *map(cpu_clock, started)]
        self._set([*self._pids, *started], clocks, np.append(self._used_s, np.zeros(len(started))))
        return source

    def _used(self, pids: tuple[int, ...], clocks: list[int]) -> Vector:
        """Return the CPU time of each in seconds; NaN for one that has ended."""
        if not self._kernel.clocks:
            return np.array([self._counted_s(pid) for pid in pids], np.float64)
        ask = time.clock_gettime_ns
        used: list[float] = []
        for clock in clocks:
            try:
                used.append(ask(clock))
            except OSError:  # it has ended
                used.append(np.nan)
        return np.array(used, np.float64) / 1e9

    def _counted_s(self, pid: int) -> float:
        file = f"{self._root}/{pid}/stat"
        try:
            stat = parse_stat(content(file), file=file)
        except ProcError:
            return np.nan
        return (stat.user_ticks + stat.system_ticks) * self._kernel.tick_s

    def _text(self, which: str) -> bytes:
        return self._files.read(self._descriptors, _FILES.index(which), f"{self._root}/{which}")


def _count_cpus() -> int:
    return os.cpu_count() or 1


def _is_of(root: str, name: str) -> bool:
    """Return whether a file belongs to the filesystem that is mounted at `root`."""
    try:
        return Path(root, name).stat().st_dev == Path(root).stat().st_dev
    except OSError:
        return False
