"""Reads the files of processes, one process at a time, and keeps them open within a budget of descriptors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laggard.producers.host.process import Process
from laggard.producers.host.thread import Thread
from laggard.producers.system.foreign import names
from laggard.producers.system.kernel import Kernel
from laggard.producers.system.open_files import FileBudget, out_of_descriptors
from laggard.producers.system.proc import ProcError, Stat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from laggard.producers.host.hanging import Hanging
    from laggard.producers.host.rows import Rows
    from laggard.producers.system.clock import Clock


class Reading(NamedTuple):
    """The reading of a process that ran, or of a new one."""

    at_ns: int
    boot_ns: int
    before: Stat
    uid: int | None
    values: tuple[float, ...]


class Reader:
    """Reads processes, known and new ones in the thread of `patience`.

    Args:
        clock: the clock of the readings.
        root: the mount point of procfs.
        limit: the number of files to hold open.
        watches_threads: whether threads are to be watched: half of the held files are for them then.
        rows: the rows of the processes.
        processes: the known processes by pid, as they come and go.
        hanging: the unresponsive ones.

    Attributes:
        kernel: the properties of the kernel.

    """

    def __init__(
        self,
        clock: Clock,
        root: str,
        limit: int,
        *,
        watches_threads: bool,
        rows: Rows,
        processes: Mapping[str, Process],
        hanging: Hanging,
    ) -> None:
        self.kernel = Kernel(root)
        self._clock = clock
        self._root = root
        # Watched threads have a budget of their own.
        self._thread_files = FileBudget(limit // 2 if watches_threads else 0)
        self._files = FileBudget(limit - self._thread_files.limit)
        self._rows = rows
        self._processes = processes
        self._hanging = hanging
        self._new: list[Process] = []  # those that are read for the first time
        self._entries: list[str] = []
        self._pids: set[str] = set()

    @property
    def held_files(self) -> int:
        """The number of files that are held open."""
        return self._files.held + self._thread_files.held

    def pids(self) -> set[str]:
        """Return the pids of all processes."""
        entries = names(self._root)
        if entries != self._entries:  # mostly they are the same, in the same order
            self._entries = entries
            self._pids = {entry for entry in entries if entry.isdecimal() and entry.isascii()}
        return self._pids

    def new(self, pids: Iterable[str]) -> list[Process]:
        """Return new processes with these pids, still unread."""
        self._new = [Process(int(pid), f"{self._root}/{pid}", self.kernel, self._files) for pid in pids]
        return self._new

    def thread(self, tid: str, path: str) -> Thread:
        """Return a new watched thread, still unread."""
        return Thread(tid, path, self.kernel, self._thread_files)

    def read_known(self, process: Process, *, phase: int, retry: bool) -> Reading | None:
        """Read a known process.

        Args:
            process: the process.
            phase: the phase of this tick; if it is its own, its `stat` is read even if it sleeps.
            retry: whether to retry its unreadable files then.

        Returns:
            The reading; None if it slept.

        Raises:
            OSError: it is gone or unreadable, or descriptors have run out.
            ProcError: its `stat` is malformed.

        """
        refresh = process.phase == phase
        try:
            if process.sleeps() and (not refresh or process.untouched()):
                return None
            at_ns = self._clock.monotonic()
            before, uid = process.stat, process.uid
            values = process.read(retry=refresh and retry)
        except OSError as error:
            self.release_half_if_short(error)  # for the next one
            raise
        if process.stat.comm != before.comm or not process.command:
            self._rows.name(process)
        return Reading(at_ns, 0, before, uid, values)

    def read_new(self, process: Process) -> Reading:
        """Read a new process for the first time; raises as `read_known`."""
        at_ns, boot_ns = self._clock.monotonic(), self._clock.boottime()
        before = process.stat
        try:
            values = process.read(retry=True)
        except (OSError, ProcError) as error:
            self.release_half_if_short(error)  # half of all held files, those of its threads included
            process.release()
            raise
        self._rows.name(process)
        return Reading(at_ns, boot_ns, before, None, values)

    def release_half_if_short(self, error: Exception) -> bool:
        """Release half of the held files for good if descriptors have run out; return whether they have."""
        if not out_of_descriptors(error):
            return False
        open_files = self._files, self._thread_files
        for files in open_files:
            files.limit = files.held // 2
        for process in (*self._processes.values(), *self._new):
            if str(process.pid) in self._hanging:
                continue
            if all(files.held <= files.limit for files in open_files):
                break
            process.release()
        return True
