"""Finds the processes to diagnose while a host waits for its disks or for memory: waiting ones and top consumers.

The kernel counts the pressure of a host, or of a control group, but not of a process. So while it is high, every
process is sampled now and then. A sample has its threads that wait for a device (uninterruptible sleep), its I/O, its
major page faults and its resident memory.
"""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.producers.system.foreign import content, names
from laggard.producers.system.patience import Patience
from laggard.producers.system.proc import PF_KTHREAD, ProcError, parse_io, parse_stat

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

MAX_TASKS: Final = 4096
"""The most threads that one sample reads; beyond, only the first thread of a process is read."""


class _Process(NamedTuple):
    start_ticks: int
    blocked: int  # threads found waiting for a device, over all samples
    first: tuple[float, ...]  # major faults, bytes read and written, pages held
    last: tuple[float, ...]


class Suspects:
    """The activity of processes since the first of several samples.

    Args:
        root: the mount point of procfs.
        patience: reads the files; several may share it, one after the other.

    """

    def __init__(self, root: str = "/proc", patience: Patience | None = None) -> None:
        self._root = root
        self._patience = patience or Patience()
        self._left = 0  # threads that it still may read in this sample
        self._processes: dict[int, _Process] = {}

    def sample(self) -> None:
        """Sample every process once."""
        listed = [int(entry) for entry in names(self._root) if entry.isdecimal()]
        self._patience.late()
        self._left = MAX_TASKS
        results = zip(listed, self._patience.each(listed, self._sample_one), strict=True)
        self._processes = {pid: process for pid, process in results if isinstance(process, _Process)}

    def _sample_one(self, pid: int) -> _Process | None:
        """Return the sample of a process; None for a kernel thread. Raises `ProcError` for one that is gone."""
        path = f"{self._root}/{pid}"
        stat = parse_stat(content(f"{path}/stat"), file=f"{path}/stat")
        if stat.flags & PF_KTHREAD:
            return None
        blocked = int(stat.state == b"D")
        if 1 < stat.threads <= self._left:
            self._left -= stat.threads
            blocked = blocked_threads(path)
        before = self._processes.get(pid)
        values = (stat.faults_major, _io_bytes(path), stat.rss_pages)
        if before is None or before.start_ticks != stat.start_ticks:
            return _Process(stat.start_ticks, blocked, values, values)
        return _Process(stat.start_ticks, before.blocked + blocked, before.first, values)

    def worst(self, resource: str, most: int, among: Collection[int] | None = None) -> tuple[int, ...]:
        """Return the ids of processes: by turns the one that waits most and the one that uses most.

        Args:
            resource: `io` or `memory`.
            most: the most ids.
            among: only these processes; None for all.

        """
        waits: dict[int, tuple[float, ...]] = {}
        takes: dict[int, tuple[float, ...]] = {}
        for pid, process in self._processes.items():
            if among is not None and pid not in among:
                continue
            faults, moved, grown = (last - first for first, last in zip(process.first, process.last, strict=True))
            if resource == "io":
                waits[pid], takes[pid] = (process.blocked, faults), (moved,)
            else:
                waits[pid], takes[pid] = (faults, process.blocked), (grown,)
        turns = chain.from_iterable(zip_longest(_ordered(waits), _ordered(takes)))
        return tuple(dict.fromkeys(pid for pid in turns if pid is not None))[:most]


def _ordered(values: dict[int, tuple[float, ...]]) -> Iterable[int]:
    """Return those with any positive value, the greatest first."""
    return sorted((pid for pid, value in values.items() if max(value) > 0.0), key=lambda pid: values[pid], reverse=True)


def blocked_threads(path: str) -> int:
    """Return the number of threads of a process, given its path below procfs, that wait for a device."""
    try:
        tasks = names(f"{path}/task", MAX_TASKS)
    except OSError:
        return 0
    # `stat` of a thread has its state behind the last parenthesis.
    return sum(content(f"{path}/task/{tid}/stat").rpartition(b")")[2][:2] == b" D" for tid in tasks)


def _io_bytes(path: str) -> float:
    """Return the bytes that a process read from devices and wrote to them; 0 if unreadable."""
    try:
        io = parse_io(content(f"{path}/io"), f"{path}/io")
    except ProcError:
        return 0.0
    return io.read_bytes + io.write_bytes
