"""Which processes to look at while a host waits for its disks or for memory: those that wait, and those that take most.

The kernel counts the pressure of a host, or of a control group, not whose it is. So while it is high every process is
looked at now and then: how many of its threads wait for a device (uninterruptible sleep), how much it reads and writes,
and how many pages had to be brought back for it.
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
"""At how many threads one look is taken; of processes for which it does not last only the first thread is looked at."""


class _Process(NamedTuple):
    start_ticks: int
    blocked: int  # threads found waiting for a device, over all looks
    first: tuple[float, ...]  # major faults, bytes read and written, pages held
    last: tuple[float, ...]


class Suspects:
    """What processes did since the first of several looks.

    Args:
        root: where procfs is mounted.
        patience: with whom files are read; several may share it, one after the other.

    """

    def __init__(self, root: str = "/proc", patience: Patience | None = None) -> None:
        self._root = root
        self._patience = patience or Patience()
        self._left = 0  # threads at which it still may look in this round
        self._processes: dict[int, _Process] = {}

    def look(self) -> None:
        """Look at every process once."""
        listed = [int(entry) for entry in names(self._root) if entry.isdecimal()]
        self._patience.late()
        self._left = MAX_TASKS
        looks = zip(listed, self._patience.each(listed, self._look_at), strict=True)
        self._processes = {pid: process for pid, process in looks if isinstance(process, _Process)}

    def _look_at(self, pid: int) -> _Process | None:
        """What a process did; None for one of the kernel. Raises `ProcError` for one that is gone."""
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
        """The ids of at most so many processes, by turns the one that waits most and the one that takes most.

        Args:
            resource: `io` or `memory`.
            most: how many.
            among: of these processes alone; None for all.

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
    """Those with anything, the greatest first."""
    return sorted((pid for pid, value in values.items() if max(value) > 0.0), key=lambda pid: values[pid], reverse=True)


def blocked_threads(path: str) -> int:
    """How many threads of a process, below procfs, wait for a device."""
    try:
        tasks = names(f"{path}/task", MAX_TASKS)
    except OSError:
        return 0
    # `stat` of a thread has its state behind the last parenthesis.
    return sum(content(f"{path}/task/{tid}/stat").rpartition(b")")[2][:2] == b" D" for tid in tasks)


def _io_bytes(path: str) -> float:
    """What a process read from devices and wrote to them; 0 where that may not be read."""
    try:
        io = parse_io(content(f"{path}/io"), f"{path}/io")
    except ProcError:
        return 0.0
    return io.read_bytes + io.write_bytes
