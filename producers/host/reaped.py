"""The CPU time of ended children, which the kernel adds to the parent that waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.producers.host.process import RATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.producers.host.process import Process
    from laggard.producers.host.slots import Slots

_CPU: Final = [RATES.index(name) for name in ("cpu_user_ratio", "cpu_system_ratio", "cpu_children_ratio")]
_OF_CHILDREN: Final = _CPU[-1]


class Reaped:
    """The CPU time of ended processes that was in their own rows, and must not be in those of their parents, too.

    When a parent waits for a child, the kernel adds all CPU time of the child's life to the parent. The part from the
    child's own row is left out: waiting for a process that computed for an hour is not an hour of computing. The rest
    counts for the parent: that of children who live for less than a tick.

    """

    def __init__(self) -> None:
        # Of processes that ended since the last tick: the parent, and the CPU time in seconds that was in their rows.
        self._ended: dict[int, tuple[int, float]] = {}
        self._ended_before: dict[int, float] = {}  # by parent: such time that it may still get, at this tick only

    def add(self, process: Process, slots: Slots) -> None:
        """Note a process that has ended, and whose slot is still its own."""
        self._ended[process.pid] = process.stat.parent, float(slots.now[process.slot, _CPU].sum())

    def leave_out(self, processes: Mapping[str, Process], slots: Slots) -> None:
        """Leave this time out of the rates of the parents at this tick."""
        if not self._ended and not self._ended_before:
            return
        now: dict[int, float] = {}
        before: dict[int, float] = {}
        for parent, seconds in self._ended_before.items():
            heir = self._heir(parent, processes)
            credits_ = before if heir == parent else now
            credits_[heir] = credits_.get(heir, 0.0) + seconds
        for parent, seconds in self._ended.values():
            heir = self._heir(parent, processes)
            now[heir] = now.get(heir, 0.0) + seconds
        waiting: dict[int, float] = {}
        for credits_, lasts in ((before, False), (now, True)):
            for parent, seconds in credits_.items():
                process = processes.get(str(parent))
                if process is None:
                    continue
                added = slots.now[process.slot, _OF_CHILDREN] - slots.before[process.slot, _OF_CHILDREN]
                known = min(max(added, 0.0), seconds)
                if known > 0.0:
                    slots.before[process.slot, _OF_CHILDREN] += known
                if lasts and seconds > known:
                    waiting[parent] = seconds - known
        self._ended_before, self._ended = waiting, {}

    def _heir(self, parent: int, processes: Mapping[str, Process]) -> int:
        """Return who gets the time of a parent: the parent or, if it has ended too, its next ancestor that has not."""
        for _ in range(len(self._ended)):
            if str(parent) in processes or parent not in self._ended:
                break
            parent = self._ended[parent][0]
        return parent
