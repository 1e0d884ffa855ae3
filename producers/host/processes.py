"""Every process of a machine at a tick: one row each, counters as rates and ratios.

It is cheap: the files of a process stay open and are read in place. If a process did not run since the last tick, only
its CPU clock is read. The remaining arithmetic is done for all processes at once.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laggard.producers.host.families import Families
from laggard.producers.host.group_shares import GroupShares
from laggard.producers.host.hanging import Hanging
from laggard.producers.host.process import GAUGES, RATES, Process
from laggard.producers.host.reader import Reader
from laggard.producers.host.reaped import Reaped
from laggard.producers.host.rows import Rows
from laggard.producers.host.slots import READ, Slots
from laggard.producers.system.open_files import out_of_descriptors, raise_descriptor_limit
from laggard.producers.system.patience import HangingError, Patience
from laggard.producers.system.proc import ProcError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout
    from laggard.producers.system.clock import Clock

SHARED = ("cpu_quota_throttled_ratio", "io_pressure_ratio", "memory_pressure_ratio", "cpus")
"""Features beyond the process itself. The share of periods in which the CPU quota of its control group, or of one above
that, was used up, 0 without a quota. The share of time in which some task of its control group waited for I/O, or
memory; 0 if it cannot have been one of its own. The number of online CPUs."""

FEATURES = RATES + GAUGES + SHARED

REFRESH_S = 10.0
"""The highest age, in seconds, of values that others change while a process sleeps: memory under reclaim, a name."""

RETRY_S = 60.0
"""The time between two retries of unreadable files, in seconds. Sockets are then counted again, too, even if the number
of descriptors did not change."""

_QUOTA, _IO, _MEMORY, _CPUS = range(READ + 1, len(FEATURES))

_START_SLACK_TICKS = 2  # a start is rounded down to a clock tick


class _Features:
    """The features of processes, from their readings and from those of their control groups.

    Args:
        readings: the readings.
        shares: the features of control groups.

    """

    def __init__(self, readings: Slots, shares: GroupShares) -> None:
        self._readings = readings
        self._shares = shares
        self._reaped = Reaped()
        self._cpus = 0

    def end(self, process: Process) -> None:
        """Note that a process has ended, and free its slot."""
        self._reaped.add(process, self._readings)
        self._readings.free(process.slot)

    def values(
        self, processes: Mapping[str, Process], slots: NDArray[np.intp], *, refresh: bool
    ) -> NDArray[np.float64]:
        """Return the features of this tick, and start the next one.

        Args:
            processes: the processes, by pid.
            slots: the slots of the rows. Shape (rows,).
            refresh: whether to count the CPUs again.

        Returns:
            Shape (rows, `FEATURES`), read-only.

        """
        self._reaped.leave_out(processes, self._readings)
        values = np.empty((len(slots), len(FEATURES)))
        rates = values[:, : len(RATES)]
        values[:, len(RATES) : READ] = self._readings.now[slots, len(RATES) :]
        values[:, READ] = self._readings.children[slots]
        values[:, _QUOTA] = self._shares.throttled(processes, slots)
        if not self._cpus or refresh:
            self._cpus = os.cpu_count() or 1
        values[:, _CPUS] = self._cpus
        rates[:] = self._readings.take_rates(slots)
        values[:, _IO:_CPUS] = self._shares.pressed(processes, slots, rates)
        values.setflags(write=False)
        return values


class ProcessTable:
    """The processes of a machine, kernel threads included.

    A row is one process from its start, or from the tick at which its name changed (exec), to its end; its id is
    `name[pid@start_ticks]`. The first rates of a row are NaN, since there is nothing to compare, except for
    - a process that began after the last tick: its counters began at zero. They are divided by the time since its
      start, at least one interval. So a burst in its first moments does not look like a high rate, and many short lives
      do not look like many busy cores.
    - a changed name: the counters are still those of the same process.
    A counter that goes backwards has no rate (NaN) at that tick. A process whose files do not answer has no row until
    they do, see `patience`.

    Args:
        clock: the clock of the rates.
        interval_s: the planned seconds between ticks.
        root: the mount point of procfs.
        command_lines: whether to read them; they may hold secrets.
        descriptor_limit: the number of files to hold open; by default what the (raised) limit of this process allows.
        groups: the mount point of control groups; by default below the `sys` next to procfs.
        watches_threads: whether threads are to be watched: half of the held files are for them then.

    Attributes:
        groups: the mount point of control groups.
        root: the mount point of procfs.
        tick_s: the seconds of a clock tick.
        unreadable_files: the number of missing or forbidden files at the last tick; a hidden process counts as one.
        read_errors: the number of malformed texts, unresponsive processes and descriptor shortages at the last tick.

    """

    def __init__(
        self,
        clock: Clock,
        interval_s: float,
        *,
        root: str = "/proc",
        command_lines: bool = True,
        descriptor_limit: int | None = None,
        groups: str = "",
        watches_threads: bool = False,
    ) -> None:
        self.unreadable_files = 0
        self.read_errors = 0
        self._clock = clock
        self._interval_s = interval_s
        self.root = root
        self.groups = groups or f"{Path(root).with_name('sys')}/fs/cgroup"
        self._phases = max(1, round(REFRESH_S / interval_s))
        self._rounds = max(1, round(RETRY_S / (interval_s * self._phases)))
        self._tick = 0
        self._processes: dict[str, Process] = {}
        self._hidden: set[str] = set()
        self._patience = Patience()
        self._hanging = Hanging(root)
        self._rows = Rows(root, FEATURES, command_lines=command_lines)
        self._reader = Reader(
            clock,
            root,
            raise_descriptor_limit() if descriptor_limit is None else descriptor_limit,
            watches_threads=watches_threads,
            rows=self._rows,
            processes=self._processes,
            hanging=self._hanging,
        )
        self._watch = self._reader.thread
        self.tick_s = self._reader.kernel.tick_s
        self._families = Families()
        self._listed: tuple[float, float] | None = None  # the start of the last tick: monotonic, boot time in seconds
        self._readings = Slots()
        self._shares = GroupShares(clock, root, self.groups, self._patience)
        self._features = _Features(self._readings, self._shares)

    @property
    def count(self) -> int:
        """The number of processes at the last tick."""
        return len(self._processes)

    @property
    def families(self) -> int:
        """A number that grows whenever a process starts, ends, gets another parent or calls exec."""
        return self._families.changes

    @property
    def held_files(self) -> int:
        """The number of files that are held open."""
        return self._reader.held_files

    @property
    def processes(self) -> Collection[Process]:
        """The processes of the last tick, in the order of its rows."""
        return self._processes.values()

    @property
    def cpu_ns(self) -> int:
        """The CPU time of readings in a thread of their own so far, in nanoseconds."""
        return self._patience.cpu_ns

    def process(self, pid: int) -> Process | None:
        """Return the process with this pid, if there is one."""
        return self._processes.get(str(pid))

    def title(self, process: Process) -> str:
        """Return the present command line of a process; empty if it does not answer."""
        (found,) = self._patience.each([process], Process.read_command)
        return "" if isinstance(found, Exception) else found

    def looked_s(self, process: Process) -> float:
        """Return the time of its last reading, in seconds of the monotonic clock."""
        return float(self._readings.now_s[process.slot])

    def watch(self, process: Process, *, watched: bool) -> None:
        """Watch each thread of a process except the first, from the next tick on; or stop that."""
        process.watch(self._watch if watched else None)

    def read(self) -> tuple[Layout, NDArray[np.float64]]:
        """Read every process. The values have the shape (processes, `FEATURES`) and are read-only."""
        started = self._clock.monotonic() / 1e9
        started_boot = self._clock.boottime() / 1e9
        self.read_errors = 0
        self._tick += 1
        try:
            pids = self._reader.pids()
        except OSError as error:
            if not self._reader.release_half_if_short(error):
                raise
            self.read_errors += 1
            pids = self._reader.pids()
        for pid in self._processes.keys() - pids:
            self._remove(pid)
        for process in self._patience.late():
            process.release()
            self._hanging.remove(process)
        left_out = self._hanging.left_out(pids, self._patience.hanging)
        for pid in left_out & self._processes.keys():
            self._remove(pid)
        self._families.wake_orphans(self._processes.values())
        self._readings.now_s[:] = started
        self._read_known()
        self._read_new(pids - left_out)
        self._listed = started, started_boot
        self._families.count_children(self._processes.values(), self._readings)
        self.unreadable_files = len(self._hidden) + sum([len(process.denied) for process in self._processes.values()])
        layout = self._rows.lay_out(self._processes.values())
        refresh = self._tick % self._phases == 0
        return layout, self._features.values(self._processes, self._rows.slots, refresh=refresh)

    def close(self) -> None:
        """Close all files; the next tick starts from scratch."""
        for pid in list(self._processes):
            self._remove(pid)
        self._shares.close()
        self._patience.close()
        self._listed = None

    def _read_known(self) -> None:
        round_, phase = divmod(self._tick, self._phases)
        read = partial(self._reader.read_known, phase=phase, retry=round_ % self._rounds == 0)
        slots: list[int] = []
        values: list[tuple[float, ...]] = []
        times: list[int] = []
        known = list(self._processes.items())
        for (pid, process), found in zip(known, self._patience.each([each for _, each in known], read), strict=True):
            if found is None:
                continue
            if isinstance(found, HangingError):
                self._remove(pid, hangs=True)
                self._hanging.add(process)
                self.read_errors += 1
                continue
            if isinstance(found, (OSError, ProcError)):
                self.read_errors += out_of_descriptors(found)
                self._remove(pid)  # gone; if its pid is in use again, it is a new process below
                continue
            if isinstance(found, Exception):
                raise found
            self.read_errors += process.malformed
            slots.append(process.slot)
            values.append(found.values)
            times.append(found.at_ns)
            if process.uid != found.uid:
                self._rows.layout = None
            self._families.compare(process, found.before)
        if slots:
            self._readings.now[slots] = np.array(values, np.float64)
            self._readings.now_s[slots] = np.array(times) / 1e9

    def _read_new(self, pids: set[str]) -> None:
        self._hidden &= pids
        new = pids - self._processes.keys()
        if self._tick % (self._phases * self._rounds):
            new -= self._hidden
        unread = self._reader.new(new)
        for process, found in zip(unread, self._patience.each(unread, self._reader.read_new), strict=True):
            pid = str(process.pid)
            if isinstance(found, HangingError):
                self._hanging.add(process)
                self.read_errors += 1
                continue
            if isinstance(found, Exception):
                if isinstance(found, PermissionError):
                    self._hidden.add(pid)
                elif isinstance(found, ProcError):
                    self.read_errors += 1
                elif isinstance(found, OSError):  # gone since the listing, or without a descriptor
                    self.read_errors += out_of_descriptors(found)
                else:
                    raise found
                continue
            now, now_boot = found.at_ns / 1e9, found.boot_ns / 1e9
            self.read_errors += process.malformed
            self._hidden.discard(pid)
            self._processes[pid] = process
            process.slot = slot = self._readings.take()
            process.phase = process.pid % self._phases
            self._families.begin()
            self._readings.now[slot] = found.values
            self._readings.now_s[slot] = now
            self._readings.before[slot] = np.nan
            if self._listed is not None:
                listed, listed_boot = self._listed
                start_s = process.stat.start_ticks * self.tick_s
                if start_s >= listed_boot - _START_SLACK_TICKS * self.tick_s:
                    self._readings.before[slot] = 0.0
                    self._readings.before_s[slot] = now - max(min(now_boot - start_s, now - listed), self._interval_s)

    def _remove(self, pid: str, *, hangs: bool = False) -> None:
        process = self._processes.pop(pid)
        if not hangs:  # a hanging thread still reads its files
            process.release()
        self._features.end(process)
        self._families.end(process)
        self._rows.layout = None
