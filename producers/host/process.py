"""One process: its files, hashes of their last texts, and its counters summed over its threads."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.producers.host.cpu_time import CpuTime
from laggard.producers.host.descriptors import Descriptors
from laggard.producers.host.owners import parse_container, parse_uid
from laggard.producers.host.process_io import ProcessIo
from laggard.producers.host.tasks import IO, SCHEDSTAT, STAT, STATUS, Task, Threads
from laggard.producers.system.foreign import content
from laggard.producers.system.kernel import cpu_clock
from laggard.producers.system.open_files import BUFFER
from laggard.producers.system.proc import (
    COMMAND_BYTES,
    PF_KTHREAD,
    ProcError,
    Stat,
    Status,
    parse_command,
    parse_schedstat,
    parse_stat,
    parse_status,
)

if TYPE_CHECKING:
    from laggard.producers.host.tasks import Watch
    from laggard.producers.system.kernel import Kernel
    from laggard.producers.system.open_files import FileBudget

RATES = (
    "cpu_user_ratio",
    "cpu_system_ratio",
    "cpu_wait_ratio",
    "cpu_children_ratio",
    "io_delay_ratio",
    "timeslices_per_s",
    "page_faults_minor_per_s",
    "page_faults_major_per_s",
    "switches_voluntary_per_s",
    "switches_involuntary_per_s",
    "io_read_characters_per_s",
    "io_write_characters_per_s",
    "io_read_operations_per_s",
    "io_write_operations_per_s",
    "io_read_bytes_per_s",
    "io_write_bytes_per_s",
    "io_cancelled_write_bytes_per_s",
)
"""Differences of counters over time; ratios are of one core.

Threads that run or wait together add up to more than 1. The kernel counts a wait for a core when it ends, so a wait
that is longer than a tick counts in its last tick.
"""

GAUGES = (
    "memory_rss_bytes",
    "memory_virtual_bytes",
    "memory_shared_bytes",
    "memory_swap_bytes",
    "threads",
    "descriptors",
    "sockets",
    "children",
)
"""Values at the tick. The last one is counted among the other processes, not read from the files of this one."""

MAX_THREADS = 512
"""Processes with more threads have no run-queue wait, timeslices and switches (NaN), since each thread must be read.
Processes whose threads are watched have them nevertheless."""

_NAN = float("nan")
_UNREADABLE_STATUS = (_NAN,) * len(Status._fields)
_UNBORN = Stat(b"", b"", 0, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0)


class Process(Task):
    """One process, from its first tick to its end.

    Wait, timeslices and switches are summed over all threads; what a thread did between the last tick and its end is
    lost. The block-I/O delay is that of the first thread, since the kernel has no other. I/O is that of the process
    itself. The I/O of an ended child, which the kernel adds when the process waits for it, is left out. With several
    threads the two cannot be separated, so I/O is missing (NaN) at that tick. The sum of CPU time is exact (see
    `CpuTime`); without CPU clocks of processes, it is exact only for processes with one thread.

    Attributes:
        pid: its process id.
        slot: the index of its values; set by the table.
        phase: the phase of the table's ticks in which its `stat` is read even if it sleeps; set by the table.
        name: the name of its row.
        row: the id of its row.
        command: its command line.
        uid: the id of its effective user; None if unreadable.
        container: its container or unit, see `parse_container`.
        stat: the last `stat`.
        denied: its files that are missing or may not be read.
        malformed: the number of malformed texts at the last reading.
        threads: all threads except the first.

    """

    __slots__ = (
        "_clock",
        "_cpu",
        "_eager",
        "_io",
        "_kernel",
        "_open",
        "_stat_hash",
        "_status",
        "_status_hash",
        "command",
        "container",
        "denied",
        "malformed",
        "name",
        "phase",
        "pid",
        "row",
        "slot",
        "stat",
        "threads",
        "uid",
    )

    def __init__(self, pid: int, path: str, kernel: Kernel, files: FileBudget) -> None:
        super().__init__(path, files)
        self.pid = pid
        self.slot = -1
        self.phase = 0
        self.name = self.row = self.command = self.container = ""
        self.uid: int | None = None
        self.stat = _UNBORN
        self.malformed = 0
        self._kernel = kernel
        self._clock = cpu_clock(pid)
        self._cpu = CpuTime()
        self._io = ProcessIo()
        self._stat_hash = self._status_hash = hash(b"")
        self._status: tuple[float, ...] = _UNREADABLE_STATUS
        self.threads = Threads(pid, path, files)
        self.denied: set[int] = set()
        self._open = Descriptors(path, files, self.denied)
        self._eager = True

    def sleeps(self) -> bool:
        """Return whether none of its threads ran since the last reading: its own counters are unchanged then.

        Raises OSError when it is gone.
        """
        if self._eager:
            return False
        if self._kernel.clocks:
            return time.clock_gettime_ns(self._clock) == self._cpu.run_ns
        return os.pread(self.descriptors[SCHEDSTAT], BUFFER, 0) == self.schedstat_text

    def untouched(self) -> bool:
        """Return whether its `stat` is unchanged: reclaim of its memory or the end of its parent changes that, too."""
        return hash(os.pread(self.descriptors[STAT], BUFFER, 0)) == self._stat_hash

    def wake(self) -> None:
        """Have it read at the next tick, even if it sleeps."""
        self._eager = True

    def watch(self, make: Watch | None) -> None:
        """Watch each of its threads except the first from the next tick on, by the result of `make`; None ends it."""
        if make is self.threads.watch:
            return
        if make is None:
            self.threads.unwatch()
        else:
            self.threads.watch = make
            self.wake()

    def read(self, *, retry: bool) -> tuple[float, ...]:
        """Read all counters: those of `RATES` since it began, those of `GAUGES` except the last; all in base units.

        With `retry` it also reads the files that could not be read before.

        Raises:
            PermissionError: not even its `stat` may be read.
            OSError: it is gone, and another one may have its pid.
            ProcError: its `stat` is malformed.

        """
        kernel = self._kernel
        self.malformed = 0
        if retry:
            self.denied.clear()
        # The run time is read first: if the process runs during the rest, the next `sleeps` notices it.
        clock_ns = time.clock_gettime_ns(self._clock) if kernel.clocks else None
        schedstat = self._permitted(SCHEDSTAT) if kernel.schedules else b""
        stat = self._read_stat()
        self._read_status()
        io = self._io
        if io.choose(stat):
            self._files.release_one(self.descriptors, IO)
        self.malformed += io.update(self._permitted(IO), self.path)
        wait_s, timeslices, voluntary, involuntary = self._read_tasks(schedstat)
        cpu = self._cpu
        cpu.update(stat.user_ticks, stat.system_ticks, clock_ns or self._run_ns(), kernel.tick_s)
        user_s, system_s = cpu.user_s, cpu.system_s
        if stat.flags & PF_KTHREAD:
            user_s, system_s = 0.0, user_s + system_s
        else:
            self._open.update(sized=kernel.counts_descriptors, retry=retry)
        # Without a held file only `stat` shows whether the pid is still the same process: read it at every tick.
        self._eager = self.descriptors[STAT] < 0
        if not kernel.clocks:  # only the run time of a single thread replaces them
            self._eager |= not kernel.schedules or self.descriptors[SCHEDSTAT] < 0 or stat.threads > 1
        status = self._status
        return (
            user_s,
            system_s,
            wait_s,
            stat.children_ticks * kernel.tick_s,
            stat.io_delay_ticks * kernel.tick_s if kernel.delays else _NAN,
            timeslices,
            stat.faults_minor,
            stat.faults_major,
            voluntary,
            involuntary,
            *io.counters,
            stat.rss_pages * kernel.page_bytes,
            stat.virtual_bytes,
            status[0],
            status[1],
            stat.threads,
            self._open.count,
            self._open.sockets,
        )

    def read_command(self) -> str:
        """Read its command line; empty if it has none or it is unreadable."""
        return parse_command(content(f"{self.path}/cmdline", COMMAND_BYTES))

    def read_container(self) -> str:
        """Read its container; empty if unreadable."""
        return parse_container(content(f"{self.path}/cgroup"))

    def release(self) -> None:
        """Close its files and those of its threads. Without held files it is read at every tick."""
        self._eager = True
        super().release()
        self.threads.release()
        self._open.release()

    def _read_stat(self) -> Stat:
        text = self.text(STAT)
        if (now := hash(text)) != self._stat_hash:
            stat = parse_stat(text, self._kernel.delays, self.path)
            if stat.start_ticks != self.stat.start_ticks and self.stat is not _UNBORN:
                raise ProcessLookupError(errno.ESRCH, "another process has this pid now", self.path)
            self.stat, self._stat_hash = stat, now
        return self.stat

    def _read_status(self) -> None:
        text = self._permitted(STATUS)
        if (now := hash(text)) != self._status_hash:
            try:
                self._status = parse_status(text, self.path) if text else _UNREADABLE_STATUS
            except ProcError:
                self.malformed += 1
                self._status = _UNREADABLE_STATUS
            self._status_hash = now
            self.uid = parse_uid(text)

    def _place(self, which: int) -> str:
        return f"{self.path}/task/{self.pid}/io" if which == IO and self._io.alone else super()._place(which)

    def _permitted(self, which: int) -> bytes:
        """Read one of its files; empty if it is missing or may not be read."""
        if which in self.denied:
            return b""
        try:
            return self.text(which)
        except PermissionError:
            self.denied.add(which)
        except FileNotFoundError:
            Path(self.path).stat()  # raises if it is gone
            self.denied.add(which)
        return b""

    def _read_tasks(self, text: bytes) -> tuple[float, ...]:
        """Return the wait in seconds, the timeslices, and voluntary and involuntary switches of all threads."""
        others, count = self.threads, self.stat.threads
        if not text or (count > MAX_THREADS and others.watch is None):
            others.release()
            return _NAN, _NAN, *(self._status[2:] if count <= 1 else (_NAN, _NAN))
        try:
            if text != self.schedstat_text:
                self.schedstat = parse_schedstat(text, self.path)
                self.schedstat_text = text
            if count > 1 or others:
                others.update(count - 1)
        except ProcError:
            self.malformed += 1
            return _NAN, _NAN, _NAN, _NAN
        return (
            (self.schedstat.wait_ns + others.wait_ns) / 1e9,
            self.schedstat.timeslices + others.timeslices,
            self._status[2] + others.switches[0],
            self._status[3] + others.switches[1],
        )

    def _run_ns(self) -> int | None:
        """Return the run time of its only thread; None if only `stat` has its CPU time."""
        alone = self.stat.threads <= 1 and not self.threads
        return self.schedstat.run_ns if self.schedstat_text and alone else None
