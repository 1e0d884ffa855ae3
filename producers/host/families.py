"""The parents of processes: the numbers of children, and orphans."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from laggard.producers.system.proc import PF_FORKNOEXEC

if TYPE_CHECKING:
    from collections.abc import Collection

    from laggard.producers.host.process import Process
    from laggard.producers.host.slots import Slots
    from laggard.producers.system.proc import Stat


class Families:
    """The parents and children of a machine's processes.

    Attributes:
        changes: grows whenever a process starts, ends, gets another parent or calls exec.

    """

    def __init__(self) -> None:
        self.changes = 0
        self._changed = False
        self._lost_parents: set[int] = set()  # their children have, or soon get, a new parent

    def begin(self) -> None:
        """Note that a process has started."""
        self._changed = True

    def end(self, process: Process) -> None:
        """Note that a process has ended."""
        self._lost_parents.add(process.pid)
        self._changed = True

    def compare(self, process: Process, before: Stat) -> None:
        """Compare a process with its last reading."""
        stat = process.stat
        if stat.state == b"Z":
            self.end(process)
        elif stat.parent != before.parent or (stat.flags ^ before.flags) & PF_FORKNOEXEC:
            self._changed = True

    def wake_orphans(self, processes: Collection[Process]) -> None:
        """Wake the processes whose parent ended: they got another one in their sleep."""
        if self._lost_parents:
            for process in processes:
                if process.stat.parent in self._lost_parents:
                    process.wake()
            self._lost_parents.clear()

    def count_children(self, processes: Collection[Process], slots: Slots) -> None:
        """Count the children of each process if any family has changed."""
        if not self._changed:
            return
        counts = Counter(process.stat.parent for process in processes)
        for process in processes:
            slots.children[process.slot] = counts[process.pid]
        self._changed = False
        self.changes += 1
