"""One watched thread: the counters that the kernel has for it alone."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from laggard.producers.host.cpu_time import CpuTime
from laggard.producers.system.proc import Io, parse_io, parse_name, parse_stat

if TYPE_CHECKING:
    from laggard.producers.system.kernel import Kernel
    from laggard.producers.system.open_files import FileBudget
    from laggard.producers.system.proc import Schedstat

RATES: Final = (
    "cpu_user_ratio",
    "cpu_system_ratio",
    "cpu_wait_ratio",
    "io_delay_ratio",
    "page_faults_minor_per_s",
    "page_faults_major_per_s",
    "switches_voluntary_per_s",
    "switches_involuntary_per_s",
    "io_read_characters_per_s",
    "io_write_characters_per_s",
    "io_read_bytes_per_s",
    "io_write_bytes_per_s",
)
"""Differences of counters over time, as for a process; ratios are of one core."""

STATES: Final = ("running_ratio", "blocked_ratio")
"""Whether the thread runs or waits for a core at the tick, and whether it is in uninterruptible sleep: 1 or 0."""

FEATURES: Final = RATES + STATES

_NAN: Final = float("nan")
_UNREADABLE: Final = Io(*[_NAN] * len(Io._fields))  # type: ignore[arg-type] # no counter is known
_STAT, _IO = range(2)


class Thread:
    """A thread, from its first reading to its end.

    Its name is read whenever it ran: a name that another thread gives it in its sleep is seen later.

    Attributes:
        name: its own name in the kernel: at most 15 bytes.
        row: `http-nio-8080-exec-3[815@9940]`: name, number, and start in clock ticks after boot.
        start_ticks: that start.
        counters: those of `RATES` since it began, in base units, and `STATES` now.
        looks: the number of its readings.

    """

    __slots__ = (
        "_cpu",
        "_denied",
        "_descriptors",
        "_files",
        "_kernel",
        "_path",
        "_tid",
        "counters",
        "looks",
        "name",
        "row",
        "start_ticks",
    )

    def __init__(self, tid: str, path: str, kernel: Kernel, files: FileBudget) -> None:
        self.name = self.row = ""
        self.start_ticks = -1
        self.counters: tuple[float, ...] = ()
        self.looks = 0
        self._tid = tid
        self._path = path
        self._kernel = kernel
        self._files = files
        self._descriptors = [-1, -1]
        self._cpu = CpuTime()
        self._denied = False

    def read(self, schedstat: Schedstat, switches: tuple[int, int]) -> None:
        """Read its counters, given those that were already read.

        Raises:
            OSError: it has ended, and another thread may have its number.
            ProcError: a text is malformed.

        """
        kernel = self._kernel
        stat = parse_stat(self._files.read(self._descriptors, _STAT, f"{self._path}/stat"), kernel.delays, self._path)
        if stat.start_ticks != self.start_ticks and self.row:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), self._path)
        self.start_ticks = stat.start_ticks
        name = parse_name(stat.comm, kernel_thread=False)
        if name != self.name:
            self.name = name
            self.row = f"{name}[{self._tid}@{stat.start_ticks}]"
        io = self._read_io()
        self._cpu.update(stat.user_ticks, stat.system_ticks, schedstat.run_ns, kernel.tick_s)
        self.counters = (
            self._cpu.user_s,
            self._cpu.system_s,
            schedstat.wait_ns / 1e9,
            stat.io_delay_ticks * kernel.tick_s if kernel.delays else _NAN,
            stat.faults_minor,
            stat.faults_major,
            *switches,
            io.read_characters,
            io.write_characters,
            io.read_bytes,
            io.write_bytes,
            float(stat.state == b"R"),
            float(stat.state == b"D"),
        )
        self.looks += 1

    def release(self) -> None:
        """Close its files."""
        self._files.release(self._descriptors)

    def _read_io(self) -> Io:
        """Read its own I/O; NaN if it may not be read or is not counted."""
        if self._denied:
            return _UNREADABLE
        try:
            return parse_io(self._files.read(self._descriptors, _IO, f"{self._path}/io"), self._path)
        except (PermissionError, FileNotFoundError):
            self._denied = True
            return _UNREADABLE
