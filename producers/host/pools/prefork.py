"""Prefork workers as members of pools: processes that one parent forked, and that run the parent's program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.producers.host.pools.grouping import SETTLED_S, Member
from laggard.producers.host.pools.names import part, role
from laggard.producers.system.foreign import link
from laggard.producers.system.proc import PF_FORKNOEXEC, PF_KTHREAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.records import Layout
    from laggard.producers.host.pools.grouping import Grouping, Pool
    from laggard.producers.host.process import Process
    from laggard.producers.host.processes import ProcessTable

SHELLS: Final = frozenset(("ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh"))
LAUNCHERS: Final = SHELLS | {"atd", "cron", "crond", "login", "screen", "sshd", "su", "sudo", "xinetd"}
"""Programs that fork to wait for other programs: their forks have nothing else in common."""


class PreforkPools:
    """Finds prefork pools: processes of one name and one parent that run the parent's program, by its fork.

    The kernel has a flag for a process that was forked and has called no exec. Since init adopts the children of
    others, such a process must also have the name, otherwise the executable, of its parent. So the children of a shell,
    a build or a service manager are not pools. If workers have their role in their titles (`postgres: checkpointer`),
    those of one role are a pool. A worker is a member from the age of `settled_s` on: it has its title then, and
    short-lived forks cost nothing.

    Args:
        grouping: decides which processes are a pool.
        settled_s: the least age of a member, in seconds.
        titles: whether titles may be read; they are command lines, and a part of them gets into keys.

    """

    def __init__(self, grouping: Grouping, settled_s: float = SETTLED_S, *, titles: bool = True) -> None:
        self._grouping = grouping
        self._settled_s = settled_s
        self._titles = titles
        self._layout: Layout | None = None
        self._families = -1
        self._roles: dict[str, str] = {}  # by row
        self._early = False  # whether some become members later
        self._same: dict[tuple[str, str], bool] = {}  # by row and row of the parent
        self._pools: list[Pool] = []

    def read(self, table: ProcessTable, layout: Layout, boot_s: float) -> list[Pool]:
        """Return the pools among the processes that a table just read; places are those of its rows."""
        if self._early or layout is not self._layout or table.families != self._families:
            self._layout, self._families = layout, table.families
            self._pools = self._grouping.group(self._members(table, boot_s), boot_s)
        return self._pools

    def _members(self, table: ProcessTable, boot_s: float) -> Iterator[Member]:
        roles: dict[str, str] = {}
        same: dict[tuple[str, str], bool] = {}
        self._early = False
        for place, process in enumerate(table.processes):
            stat = process.stat
            if stat.flags & (PF_KTHREAD | PF_FORKNOEXEC) != PF_FORKNOEXEC or stat.state == b"Z":
                continue
            start_s = stat.start_ticks * table.tick_s
            if boot_s - start_s < self._settled_s:
                self._early = True
                continue
            parent = table.process(stat.parent)
            if parent is None or process.name in LAUNCHERS:
                continue
            pair = process.row, parent.row
            same[pair] = self._same[pair] if pair in self._same else _is_same_program(process, parent)
            if not same[pair]:
                continue
            # Some have their role in their name, too: the name of `gunicorn: worke` is the first word.
            pool = name = part(process.name.partition(": ")[0])
            if self._titles:
                known = self._roles.get(process.row)
                roles[process.row] = found = role(table.title(process)) if known is None else known
                pool += f"/{part(found)}" if found else ""
            yield Member(pool, parent.row, process.row, name, place, start_s)
        self._roles, self._same = roles, same


def _is_same_program(process: Process, parent: Process) -> bool:
    """Return whether a process without exec runs its parent's program; otherwise another one forked it."""
    if process.stat.comm == parent.stat.comm:
        return True
    try:
        own, other = (link(f"{each.path}/exe") for each in (process, parent))
    except OSError:
        return False
    return own == other
