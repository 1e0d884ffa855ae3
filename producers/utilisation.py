"""The share of a CPU that each process uses, and the share of all of them that the host does, some times a second.

What makes it cheap: of each process its CPU clock is read, and nothing else; the list of processes is read only when
one was started since; and all of that can be left out while the host is idle, which one small file tells.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.producers.held import HeldFiles
from laggard.producers.kernel import Kernel, content, cpu_clock
from laggard.producers.proc import ProcError, parse_pressure, parse_stat

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.producers.clock import Clock

    Vector = NDArray[np.float64]
    Indices = NDArray[np.intp]

PRESSURES: Final = ("io", "memory")
"""The resources of which the host's pressure is read."""

COUNT_S: Final = 10.0
"""How often CPUs are counted: seldom one is taken away or added."""

_SPARE_CPU: Final = 0.1  # of a CPU: clocks are not read at quite the same moment
_UPTIME, _LOAD, *_ = _FILES = ("uptime", "loadavg", *(f"pressure/{each}" for each in PRESSURES))


class Use(NamedTuple):
    """What processes used since the reading before.

    Attributes:
        pids: of each row.
        source: for each row its place in the reading before, -1 where it was not there. Shape (rows,).
        single: u1 (S1, Eq. 1): user and kernel time over time, as a share of one CPU; NaN where there is nothing to
            compare with. Shape (rows,).

    """

    pids: tuple[int, ...]
    source: Indices
    single: Vector


class Utilisation:
    """The use of all processes of a machine.

    CPU time is exact to the nanosecond but for threads that run on another core at the moment, of which it is what was
    known at that core's last scheduler tick, 1 to 10 ms ago. Where the CPU clocks of processes cannot be asked, it is
    that of `stat`, to 10 ms. A process that was not there at the reading before began at 0.

    Args:
        clock: what times the rates.
        root: where procfs is mounted.

    Attributes:
        cpus: how many CPUs there are (S1's n_cpus).

    """

    def __init__(self, clock: Clock, root: str = "/proc") -> None:
        self.cpus = _count_cpus()
        self._clock = clock
        self._counted_ns = clock.monotonic()
        self._root = root
        self._kernel = Kernel(root)
        self._files = HeldFiles(len(_FILES))
        self._descriptors = [-1] * len(_FILES)
        # A file system over procfs that shows a container its own times (lxcfs) knows nothing of the host.
        self._tells_idle = _is_of(root, "uptime")
        self._tells_starts = _is_of(root, "loadavg")
        self._idle: tuple[int, float] | None = None
        self._stalled: dict[str, tuple[int, float]] = {}
        self._pids: tuple[int, ...] = ()
        self._clocks: list[int] = []
        self._used_s: Vector = np.zeros(0)
        self._read_ns: int | None = None
        self._last_start = b""

    def close(self) -> None:
        """Close all files; the next reading opens them again."""
        self._files.release(self._descriptors)

    def busy_ratio(self) -> float:
        """The share of all CPUs that was used since this was asked last, or more; NaN where nobody knows."""
        if not self._tells_idle:
            return np.nan
        now = self._clock.monotonic()
        if now - self._counted_ns >= COUNT_S * 1e9:
            self.cpus, self._counted_ns = _count_cpus(), now
        idle_s = float(self._text(_UPTIME).split()[1])
        before, self._idle = self._idle, (now, idle_s)
        if before is None or now <= before[0]:
            return np.nan
        return 1.0 - (idle_s - before[1]) / ((now - before[0]) / 1e9 * self.cpus)

    def pressure_ratio(self, resource: str) -> float:
        """The share of time in which some task of the host stood still for want of a resource, one of `PRESSURES`.

        Since this was asked last; NaN where the kernel does not tell, or there was no time.
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
        """Let the next reading be a first one."""
        self._pids, self._clocks, self._used_s = (), [], np.zeros(0)
        self._read_ns = None
        self._last_start = b""

    def read(self) -> Use:
        """Read what every process used."""
        pids, clocks, source = self._list()
        now = self._clock.monotonic()
        used_s = self._used(pids, clocks)
        single = np.full(len(pids), np.nan)
        if self._read_ns is not None and now > self._read_ns:
            elapsed_s = (now - self._read_ns) / 1e9
            before_s = np.where(source >= 0, np.append(self._used_s, 0.0)[source], 0.0)
            single = (used_s - before_s) / elapsed_s
            # Less than before, or more than there was: another process has the pid of one that ended.
            other = (single < 0.0) | (single > self.cpus * (1.0 + _SPARE_CPU))
            single[other & (source >= 0)] = np.nan
            source[other] = -1
        there = np.isfinite(used_s)
        if not there.all():
            pids = tuple(pid for pid, is_there in zip(pids, there, strict=True) if is_there)
            clocks = [clock for clock, is_there in zip(clocks, there, strict=True) if is_there]
            source, single, used_s = source[there], single[there], used_s[there]
        self._pids, self._clocks, self._used_s, self._read_ns = pids, clocks, used_s, now
        return Use(pids, source, single)

    def _list(self) -> tuple[tuple[int, ...], list[int], Indices]:
        """All processes, their clocks, and for each its place in the reading before."""
        if self._tells_starts:
            # The last field is the id of the newest process or thread.
            start = self._text(_LOAD).rpartition(b" ")[2]
            if start == self._last_start:
                return self._pids, self._clocks, np.arange(len(self._pids))
            self._last_start = start
        pids = tuple(int(entry) for entry in os.listdir(self._root) if entry.isdecimal())  # noqa: PTH208 - names
        known = {pid: place for place, pid in enumerate(self._pids)}
        return pids, [cpu_clock(pid) for pid in pids], np.array([known.get(pid, -1) for pid in pids], np.intp)

    def _used(self, pids: tuple[int, ...], clocks: list[int]) -> Vector:
        """CPU time of each, in seconds; NaN for one that has ended."""
        if not self._kernel.clocks:
            return np.array([self._counted_s(pid) for pid in pids], np.float64)
        ask = time.clock_gettime_ns
        used: list[float] = []
        for clock in clocks:
            try:
                used.append(ask(clock))
            except OSError:
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
    """Whether a file is of the file system that is mounted there."""
    try:
        return Path(root, name).stat().st_dev == Path(root).stat().st_dev
    except OSError:
        return False
