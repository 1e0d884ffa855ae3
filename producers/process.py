"""One process: its files, what they said last, and its counters added up over its threads."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.producers.proc import (
    PF_KTHREAD,
    Io,
    ProcError,
    Schedstat,
    Stat,
    Status,
    parse_command,
    parse_io,
    parse_schedstat,
    parse_stat,
    parse_status,
)

if TYPE_CHECKING:
    from laggard.producers.held import HeldFiles

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
"""Differences of counters over time; ratios are of one core."""

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
"""Processes with more threads have no run-queue wait, timeslices and switches (NaN): each thread has to be asked."""

MAX_SOCKET_SCAN = 256
"""Processes with more descriptors have no sockets (NaN): each descriptor has to be asked what it is."""

_NAN = float("nan")
_UNREADABLE_IO = (_NAN,) * len(Io._fields)
_UNREADABLE_STATUS = (_NAN,) * len(Status._fields)
_UNBORN = Stat(b"", b"", 0, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0)
_LONG_LISTING = 4096  # descriptors, where they have to be listed to be counted: more are listed now and then only
_SHARE_MEMORY_TICKS = 32.0  # of CPU time: over how much of it the split into user and system is remembered
_FILES = ("stat", "schedstat", "io", "status", "fd")
_STAT, _SCHEDSTAT, _IO, _STATUS, _FD = range(len(_FILES))


class Environment:
    """What all processes of a table share.

    Attributes:
        files: reads and holds files.
        tick_s: seconds of a clock tick (`_SC_CLK_TCK`).
        page_bytes: size of a page.
        delays: whether the kernel accounts for block-I/O delay.
        schedules: whether the kernel counts run time, wait and timeslices of threads (CONFIG_SCHED_INFO).
        clocks: whether the CPU clocks of these processes can be asked (clock_getcpuclockid(3)): not where `root` shows
            another pid namespace than ours.
        counts_descriptors: whether the size of `/proc/PID/fd` is the number of descriptors (Linux 6.2).
        errors: texts that did not have their form, counted.

    """

    __slots__ = ("clocks", "counts_descriptors", "delays", "errors", "files", "page_bytes", "schedules", "tick_s")

    def __init__(self, root: str, files: HeldFiles) -> None:
        self.files = files
        self.tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        self.page_bytes = os.sysconf("SC_PAGE_SIZE")
        self.delays = _content(f"{root}/sys/kernel/task_delayacct") == b"1"
        # This process has run: zeros mean that nobody counts.
        self.schedules = _content(f"{root}/self/schedstat") != b"0 0 0"
        self.clocks = _shows_this_process(root)
        self.counts_descriptors = self.clocks and Path(f"{root}/self/fd").stat().st_size > 0
        self.errors = 0


class Task:
    """A thread, with the counters that the kernel has for single threads only."""

    __slots__ = ("descriptors", "path", "schedstat", "schedstat_text", "switches")

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptors = [-1] * len(_FILES)
        self.schedstat_text = b""
        self.schedstat = Schedstat(0, 0, 0)
        self.switches = (0, 0)


class Process(Task):
    """One process, from its first tick to its end.

    CPU time: the sum is the scheduler's, exact to the nanosecond and over all threads, the ended ones included; its
    split into user and system follows `stat`, whose steps are 10 ms, over the last 0.32 s of CPU time. Where the
    process's CPU clock cannot be asked, this holds for processes of one thread, and others have the steps of `stat`.

    Wait, timeslices and switches are added up over all threads; what a thread did between the last tick and its end is
    lost. The block-I/O delay is the first thread's, as the kernel has no other.

    Attributes:
        pid: its number.
        slot: where its values are; the table's.
        phase: in which of the table's ticks it is read even if it sleeps.
        name: of its row.
        row: id of its row.
        command: its command line.
        stat: the last `stat`.

    """

    __slots__ = (
        "_clock",
        "_cpu",
        "_denied",
        "_descriptor_count",
        "_eager",
        "_environment",
        "_io",
        "_io_text",
        "_others",
        "_recent",
        "_run_ns",
        "_sockets",
        "_stat_text",
        "_status",
        "_status_text",
        "_threads",
        "command",
        "name",
        "phase",
        "pid",
        "row",
        "slot",
        "stat",
    )

    def __init__(self, pid: int, path: str, environment: Environment) -> None:
        super().__init__(path)
        self.pid = pid
        self.slot = -1
        self.phase = 0
        self.name = self.row = self.command = ""
        self.stat = _UNBORN
        self._environment = environment
        self._clock = (~pid << 3) | 2  # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of the kernel
        self._stat_text = self._io_text = self._status_text = b""
        self._io: tuple[float, ...] = _UNREADABLE_IO
        self._status: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
        self._threads: dict[str, Task] = {}  # all but the first
        self._others = [0, 0, 0, 0]  # wait, timeslices, switches of those, the ended ones included
        self._run_ns: int | None = 0
        self._cpu = (0.0, 0.0)  # user and system seconds
        self._recent = (0.0, 0.0)  # user and system ticks, fading
        self._descriptor_count = self._sockets = 0.0
        self._denied: set[int] = set()
        self._eager = True

    @property
    def unreadable(self) -> int:
        """How many of its files may not be read."""
        return len(self._denied)

    def sleeps(self) -> bool:
        """Whether none of its threads ran since the last reading: then its own counters are what they were.

        Raises OSError when it is gone.
        """
        if self._eager:
            return False
        if self._environment.clocks:
            return time.clock_gettime_ns(self._clock) == self._run_ns
        return os.pread(self.descriptors[_SCHEDSTAT], 64, 0) == self.schedstat_text

    def wake(self) -> None:
        """See to it that it is read at the next tick, even if it sleeps."""
        self._eager = True

    def read(self, refresh: bool) -> tuple[float, ...]:
        """Read all counters: those of `RATES` since it began, those of `GAUGES` but the last; all in base units.

        With `refresh` also what could not be read before, and what may have changed unseen.

        Raises:
            ProcessLookupError, FileNotFoundError: it is gone, and another one may have its pid.
            PermissionError: not even its `stat` may be read.
            ProcError: its `stat` does not have the form that it should.

        """
        environment = self._environment
        before = self.stat
        text = environment.files.read(self.descriptors, _STAT, f"{self.path}/stat")
        if text != self._stat_text:
            stat = parse_stat(text, environment.delays, f"{self.path}/stat")
            if stat.start_ticks != before.start_ticks and before is not _UNBORN:
                raise ProcessLookupError(errno.ESRCH, "another process has this pid now", self.path)
            self.stat, self._stat_text = stat, text
        stat = self.stat
        if refresh:
            self._denied.clear()
        self._read_status()
        self._read_io()
        wait_s, timeslices, voluntary, involuntary = self._read_tasks()
        self._split_cpu(before)
        if not stat.flags & PF_KTHREAD:
            self._count_descriptors(refresh)
        # Without held files only `stat` tells whether the pid is still the same process: read it at every tick.
        self._eager = self.descriptors[_STAT] < 0 or (
            not environment.clocks
            and (not environment.schedules or self.descriptors[_SCHEDSTAT] < 0 or stat.threads > 1)
        )
        tick_s = environment.tick_s
        shared, swap, _, _ = self._status
        return (
            *self._cpu,
            wait_s,
            stat.children_ticks * tick_s,
            stat.io_delay_ticks * tick_s if environment.delays else _NAN,
            timeslices,
            stat.faults_minor,
            stat.faults_major,
            voluntary,
            involuntary,
            *self._io,
            stat.rss_pages * environment.page_bytes,
            stat.virtual_bytes,
            shared,
            swap,
            stat.threads,
            self._descriptor_count,
            self._sockets,
        )

    def read_command(self) -> str:
        """Read its command line; empty where there is none or it may not be read."""
        return parse_command(_content(f"{self.path}/cmdline"))

    def release(self) -> None:
        """Close its files."""
        self._environment.files.release(self.descriptors)
        for thread in self._threads.values():
            self._environment.files.release(thread.descriptors)

    def _read_status(self) -> None:
        text = self._text(_STATUS)
        if text is None:
            self._status = _UNREADABLE_STATUS
        elif text != self._status_text:
            self._status_text = text
            try:
                self._status = parse_status(text, f"{self.path}/status")
            except ProcError:
                self._environment.errors += 1
                self._status = _UNREADABLE_STATUS

    def _read_io(self) -> None:
        text = self._text(_IO)
        if text is None:
            self._io = _UNREADABLE_IO
        elif text != self._io_text:
            self._io_text = text
            try:
                self._io = parse_io(text, f"{self.path}/io")
            except ProcError:
                self._environment.errors += 1
                self._io = _UNREADABLE_IO

    def _text(self, which: int) -> bytes | None:
        """Read one of its files; None where that may not be read or is not there."""
        if which in self._denied:
            return None
        try:
            return self._environment.files.read(self.descriptors, which, f"{self.path}/{_FILES[which]}")
        except PermissionError:
            self._denied.add(which)
        except FileNotFoundError:
            if not os.path.exists(self.path):  # noqa: PTH110 - a system call, not a Path
                raise
            self._denied.add(which)
        return None

    def _read_tasks(self) -> tuple[float, ...]:
        """Wait in seconds, timeslices, voluntary and involuntary switches of all threads together."""
        environment, count = self._environment, self.stat.threads
        text = self._text(_SCHEDSTAT) if environment.schedules else None
        if text is None:
            return _NAN, _NAN, *self._status[2:]
        try:
            if text != self.schedstat_text:
                self.schedstat = parse_schedstat(text, f"{self.path}/schedstat")
                self.schedstat_text = text
            if count > MAX_THREADS:
                self._forget_threads()
                return _NAN, _NAN, _NAN, _NAN
            if count > 1 or self._threads:
                self._read_threads()
        except ProcError:
            environment.errors += 1
            return _NAN, _NAN, _NAN, _NAN
        wait, timeslices, voluntary, involuntary = self._others
        return (
            (self.schedstat.wait_ns + wait) / 1e9,
            self.schedstat.timeslices + timeslices,
            self._status[2] + voluntary,
            self._status[3] + involuntary,
        )

    def _read_threads(self) -> None:
        """Add up what all threads but the first did since the last look."""
        for tid, thread in list(self._threads.items()):
            self._read_thread(tid, thread)
        if len(self._threads) != self.stat.threads - 1:
            for tid in os.listdir(f"{self.path}/task"):  # noqa: PTH208 - names
                if tid not in self._threads and tid != str(self.pid):
                    self._threads[tid] = thread = Task(f"{self.path}/task/{tid}")
                    self._read_thread(tid, thread)

    def _read_thread(self, tid: str, thread: Task) -> None:
        files = self._environment.files
        try:
            text = files.read(thread.descriptors, _SCHEDSTAT, f"{thread.path}/schedstat")
            if text == thread.schedstat_text:
                return
            now = parse_schedstat(text, f"{thread.path}/schedstat")
            switches = parse_status(files.read(thread.descriptors, _STATUS, f"{thread.path}/status"))[2:]
        except (FileNotFoundError, ProcessLookupError):
            files.release(thread.descriptors)
            del self._threads[tid]
            return
        before = thread.schedstat
        others = self._others
        others[0] += now.wait_ns - before.wait_ns
        others[1] += now.timeslices - before.timeslices
        others[2] += switches[0] - thread.switches[0]
        others[3] += switches[1] - thread.switches[1]
        thread.schedstat_text, thread.schedstat, thread.switches = text, now, switches

    def _forget_threads(self) -> None:
        for thread in self._threads.values():
            self._environment.files.release(thread.descriptors)
        self._threads.clear()

    def _split_cpu(self, before: Stat) -> None:
        """Add the CPU time since the last look to user and system time."""
        environment, stat = self._environment, self.stat
        user = stat.user_ticks - before.user_ticks
        system = stat.system_ticks - before.system_ticks
        run_before, self._run_ns = self._run_ns, self._run_time()
        fading = _SHARE_MEMORY_TICKS / (_SHARE_MEMORY_TICKS + max(0, user + system))
        recent_user, recent_system = self._recent[0] * fading + user, self._recent[1] * fading + system
        recent = recent_user + recent_system
        share = recent_user / recent if recent > 0 else 0.5
        if stat.flags & PF_KTHREAD:
            share = 0.0
        recent = min(recent, _SHARE_MEMORY_TICKS)
        self._recent = share * recent, (1 - share) * recent
        if run_before is None or self._run_ns is None or user < 0 or system < 0:
            self._cpu = self._cpu[0] + user * environment.tick_s, self._cpu[1] + system * environment.tick_s
            return
        run_s = (self._run_ns - run_before) / 1e9
        self._cpu = self._cpu[0] + share * run_s, self._cpu[1] + (1 - share) * run_s

    def _run_time(self) -> int | None:
        """Nanoseconds on a CPU of all threads together, None where nobody knows better than `stat`."""
        if self._environment.clocks:
            try:
                return time.clock_gettime_ns(self._clock)
            except OSError:
                raise ProcessLookupError(errno.ESRCH, "gone", self.path) from None
        if self._environment.schedules and self.stat.threads <= 1 and not self._others[1]:
            return self.schedstat.run_ns
        return None

    def _count_descriptors(self, refresh: bool) -> None:
        """Count its descriptors, and the sockets among them when their number changed."""
        environment, path = self._environment, f"{self.path}/fd"
        if environment.counts_descriptors:
            count = environment.files.size(self.descriptors, _FD, path)
            if count == self._descriptor_count and not refresh:
                return
            self._descriptor_count = count
            if count > MAX_SOCKET_SCAN or _FD in self._denied:
                self._sockets = _NAN
                return
        elif not refresh and (_FD in self._denied or self._descriptor_count > _LONG_LISTING):
            return
        try:
            numbers = os.listdir(path)  # noqa: PTH208 - names
            if not environment.counts_descriptors:
                self._descriptor_count = len(numbers)
            self._sockets = _count_sockets(path, numbers) if len(numbers) <= MAX_SOCKET_SCAN else _NAN
        except OSError as error:
            if not isinstance(error, PermissionError) and not os.path.exists(self.path):  # noqa: PTH110 - one call
                raise
            self._denied.add(_FD)
            self._sockets = _NAN
            if not environment.counts_descriptors:
                self._descriptor_count = _NAN


def _count_sockets(path: str, numbers: list[str]) -> int:
    count = 0
    for number in numbers:
        try:
            count += os.readlink(f"{path}/{number}").startswith("socket:")  # noqa: PTH115 - hot
        except FileNotFoundError:
            continue  # closed since the listing
    return count


def _shows_this_process(root: str) -> bool:
    """Whether the pids below this root are those of our own pid namespace."""
    try:
        return str(Path(f"{root}/self").readlink()) == str(os.getpid())
    except OSError:
        return False


def _content(path: str) -> bytes:
    """What a small file holds, stripped; empty where it cannot be read."""
    try:
        return Path(path).read_bytes().strip()
    except OSError:
        return b""
