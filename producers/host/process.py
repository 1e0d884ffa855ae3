"""One process: its files, what they said last, and its counters added up over its threads."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.producers.host.cpu_time import CpuTime
from laggard.producers.host.owners import parse_container, parse_uid
from laggard.producers.host.tasks import FD, IO, SCHEDSTAT, STAT, STATUS, Task, Threads
from laggard.producers.system.foreign import content, link, names
from laggard.producers.system.kernel import cpu_clock
from laggard.producers.system.open_files import BUFFER
from laggard.producers.system.proc import (
    COMMAND_BYTES,
    PF_KTHREAD,
    Io,
    ProcError,
    Stat,
    Status,
    parse_command,
    parse_io,
    parse_schedstat,
    parse_stat,
    parse_status,
)

if TYPE_CHECKING:
    from laggard.producers.host.tasks import Watch
    from laggard.producers.system.kernel import Kernel
    from laggard.producers.system.open_files import HeldFiles

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

Threads that run or wait together add up to more than 1. The kernel counts a wait for a core when it ends, so one that
is longer than a tick falls into its last tick.
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
"""Values as they are at the tick. The last one is counted among other processes, not read from this one's files."""

MAX_THREADS = 512
"""Processes with more threads have no run-queue wait, timeslices and switches (NaN), for each thread has to be asked;
those whose threads are watched have them all the same."""

MAX_SOCKET_SCAN = 256
"""Processes with more descriptors have no sockets (NaN): each descriptor has to be asked what it is."""

_NAN = float("nan")
_UNREADABLE_IO = (_NAN,) * len(Io._fields)
_UNREADABLE_STATUS = (_NAN,) * len(Status._fields)
_UNBORN = Stat(b"", b"", 0, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0)
_LONG_LISTING = 4096  # descriptors, where they have to be listed to be counted: more are listed now and then only


class Process(Task):
    """One process, from its first tick to its end.

    Wait, timeslices and switches are added up over all threads; what a thread did between the last tick and its end is
    lost. The block-I/O delay is the first thread's, as the kernel has no other. I/O is the process's own: what the
    kernel adds to it when it waits for a child that has ended is left out; with several threads it cannot be told
    apart, and I/O is not there (NaN) at that tick. CPU time is exact in sum (see
    `CpuTime`); where the CPU clocks of processes cannot be asked, only that of processes with one thread is.

    Attributes:
        pid: its number.
        slot: where its values are; the table's.
        phase: in which of the table's ticks it is read even if it sleeps; the table's.
        name: of its row.
        row: id of its row.
        command: its command line.
        uid: the number of the user as whom it runs; None where that may not be read.
        container: that it runs in, see `parse_container`.
        stat: the last `stat`.
        denied: which of its files may not be read.
        malformed: how many texts at the last reading did not have their form.
        threads: all but the first.

    """

    __slots__ = (
        "_clock",
        "_cpu",
        "_descriptor_count",
        "_eager",
        "_io",
        "_io_alone",
        "_io_before",
        "_io_faults",
        "_io_last",
        "_io_text",
        "_kernel",
        "_sockets",
        "_stat_text",
        "_status",
        "_status_text",
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

    def __init__(self, pid: int, path: str, kernel: Kernel, files: HeldFiles) -> None:
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
        self._stat_text = self._io_text = self._status_text = b""
        self._io: tuple[float, ...] = _UNREADABLE_IO
        self._io_last: tuple[float, ...] = (0.0,) * len(Io._fields)  # where it is a number
        self._io_before: tuple[float, ...] = ()  # what it did before the file of today was the one to ask, if any did
        self._io_alone: bool | None = None
        self._io_faults = 0
        self._status: tuple[float, ...] = _UNREADABLE_STATUS
        self.threads = Threads(pid, path, files)
        self._descriptor_count = self._sockets = 0.0
        self.denied: set[int] = set()
        self._eager = True

    def sleeps(self) -> bool:
        """Whether none of its threads ran since the last reading: then its own counters are what they were.

        Raises OSError when it is gone.
        """
        if self._eager:
            return False
        if self._kernel.clocks:
            return time.clock_gettime_ns(self._clock) == self._cpu.run_ns
        return os.pread(self.descriptors[SCHEDSTAT], BUFFER, 0) == self.schedstat_text

    def untouched(self) -> bool:
        """Whether nobody else changed it either: its memory by reclaim, its parent by ending."""
        return os.pread(self.descriptors[STAT], BUFFER, 0) == self._stat_text

    def wake(self) -> None:
        """See to it that it is read at the next tick, even if it sleeps."""
        self._eager = True

    def watch(self, make: Watch | None) -> None:
        """Watch each of its threads but the first from the next tick on, by what this makes; or none of them."""
        if make is self.threads.watch:
            return
        if make is None:
            self.threads.unwatch()
        else:
            self.threads.watch = make
            self.wake()

    def read(self, *, retry: bool) -> tuple[float, ...]:
        """Read all counters: those of `RATES` since it began, those of `GAUGES` but the last; all in base units.

        With `retry` also what could not be read before.

        Raises:
            PermissionError: not even its `stat` may be read.
            OSError: it is gone, and another one may have its pid.
            ProcError: its `stat` does not have the form that it should.

        """
        kernel = self._kernel
        self.malformed = 0
        if retry:
            self.denied.clear()
        # The run time comes first: if the process runs on while the rest is read, the next look at it tells.
        clock_ns = time.clock_gettime_ns(self._clock) if kernel.clocks else None
        schedstat = self._permitted(SCHEDSTAT) if kernel.schedules else b""
        stat = self._read_stat()
        self._read_status()
        self._read_io()
        wait_s, timeslices, voluntary, involuntary = self._read_tasks(schedstat)
        cpu = self._cpu
        cpu.update(stat.user_ticks, stat.system_ticks, clock_ns or self._run_ns(), kernel.tick_s)
        user_s, system_s = cpu.user_s, cpu.system_s
        if stat.flags & PF_KTHREAD:
            user_s, system_s = 0.0, user_s + system_s
        else:
            self._count_descriptors(retry=retry)
        # Without held files only `stat` tells whether the pid is still the same process: read it at every tick.
        self._eager = self.descriptors[STAT] < 0
        if not kernel.clocks:  # the run time of its only thread must do
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
            *self._io,
            stat.rss_pages * kernel.page_bytes,
            stat.virtual_bytes,
            status[0],
            status[1],
            stat.threads,
            self._descriptor_count,
            self._sockets,
        )

    def read_command(self) -> str:
        """Read its command line; empty where there is none or it may not be read."""
        return parse_command(content(f"{self.path}/cmdline", COMMAND_BYTES))

    def read_container(self) -> str:
        """Read which container it runs in; empty where that may not be read."""
        return parse_container(content(f"{self.path}/cgroup"))

    def release(self) -> None:
        """Close its files and those of its threads. Not held any more, it is read at every tick."""
        self._eager = True
        super().release()
        self.threads.release()

    def _read_stat(self) -> Stat:
        text = self.text(STAT)
        if text != self._stat_text:
            stat = parse_stat(text, self._kernel.delays, self.path)
            if stat.start_ticks != self.stat.start_ticks and self.stat is not _UNBORN:
                raise ProcessLookupError(errno.ESRCH, "another process has this pid now", self.path)
            self.stat, self._stat_text = stat, text
        return self.stat

    def _read_status(self) -> None:
        text = self._permitted(STATUS)
        if text != self._status_text:
            try:
                self._status = parse_status(text, self.path) if text else _UNREADABLE_STATUS
            except ProcError:
                self.malformed += 1
                self._status = _UNREADABLE_STATUS
            self._status_text = text
            self.uid = parse_uid(text)

    def _read_io(self) -> None:
        """Its own I/O: of its only thread; else of all of it, unless a child's has just been added to that."""
        alone, faults = self.stat.threads <= 1, self.stat.children_faults
        reaped = faults != self._io_faults and not alone
        self._io_faults = faults
        switched = alone != self._io_alone and self._io_alone is not None
        if switched:
            self._files.release_one(self.descriptors, IO)
        self._io_alone = alone
        text = self._permitted(IO)
        if text == self._io_text and not switched:
            return
        self._io_text = text
        try:
            counted: tuple[float, ...] = parse_io(text, self.path) if text else _UNREADABLE_IO
        except ProcError:
            self.malformed += 1
            counted = _UNREADABLE_IO
        if switched and counted is not _UNREADABLE_IO:  # it goes on from where it was
            self._io_before = tuple(last - now for last, now in zip(self._io_last, counted, strict=True))
        self._io = counted
        if self._io_before:
            self._io = tuple(before + now for before, now in zip(self._io_before, counted, strict=True))
        if counted is not _UNREADABLE_IO:
            self._io_last = self._io
        if reaped:
            self._io, self._io_text = _UNREADABLE_IO, b""

    def _place(self, which: int) -> str:
        return f"{self.path}/task/{self.pid}/io" if which == IO and self._io_alone else super()._place(which)

    def _permitted(self, which: int) -> bytes:
        """Read one of its files; empty where that may not be read or is not there."""
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
        """Wait in seconds, timeslices, voluntary and involuntary switches of all threads together."""
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
        """The run time of its only thread; None where nobody knows better than `stat`."""
        alone = self.stat.threads <= 1 and not self.threads
        return self.schedstat.run_ns if self.schedstat_text and alone else None

    def _count_descriptors(self, *, retry: bool) -> None:
        """Count its descriptors, and the sockets among them when their number changed."""
        counted = self._kernel.counts_descriptors
        if counted:
            held = self.descriptors[FD]
            count = os.fstat(held).st_size if held >= 0 else self._files.size(self.descriptors, FD, f"{self.path}/fd")
            if count == self._descriptor_count and not retry:
                return
            self._descriptor_count = count
        elif self._descriptor_count > _LONG_LISTING and not retry:
            return
        self._sockets = _NAN
        if FD not in self.denied and (not counted or self._descriptor_count <= MAX_SOCKET_SCAN):
            self._list_descriptors(counted=counted)

    def _list_descriptors(self, *, counted: bool) -> None:
        path = f"{self.path}/fd"
        try:
            numbers = names(path)
        except OSError:
            Path(self.path).stat()  # raises if it is gone
            self.denied.add(FD)
            if not counted:
                self._descriptor_count = _NAN
            return
        if not counted:
            self._descriptor_count = len(numbers)
        if len(numbers) <= MAX_SOCKET_SCAN:
            self._sockets = _count_sockets(path, numbers)


def _count_sockets(path: str, numbers: list[str]) -> float:
    count = 0
    for number in numbers:
        try:
            count += link(f"{path}/{number}").startswith("socket:")
        except FileNotFoundError:
            continue  # closed since the listing
        except PermissionError:
            return _NAN
    return count
