"""Prefork workers as members of pools: processes that one parent forked, and that go on with its program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.producers.host.pools.grouping import SETTLED_S, Member
from laggard.producers.host.pools.names import part, role
from laggard.producers.system.foreign import link
from laggard.producers.system.proc import PF_FORKNOEXEC, PF_KTHREAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.records import Layout
    from laggard.producers.host.pools.grouping import Grouping, Pool
    from laggard.producers.host.process import Process
    from laggard.producers.host.processes import ProcessTable

SHELLS: Final = frozenset(("ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh"))
LAUNCHERS: Final = SHELLS | {"atd", "cron", "crond", "login", "screen", "sshd", "su", "sudo", "xinetd"}
"""What forks to wait for other programs: its forks have nothing in common but that."""


class PreforkPools:
    """Finds prefork pools: processes of one name and one parent that run the parent's program, by its fork.

    That is told by the kernel's flag for a process that was forked and has called no exec, and by the name, or else the
    executable, that it has in common with its parent: init adopts the children of others. So there are no pools of what
    a shell, a build or a service manager starts. Where workers say in their titles what they are (`postgres:
    checkpointer`), those that are the same are a pool. A worker is a member once it has been there for a while: it has
    its title then, and forks that live for a moment cost nothing.

    Args:
        grouping: which processes are a pool.
        settled_s: so long it has been there.
        titles: whether titles may be looked at; they are command lines, and a part of them gets into keys.

    """

    def __init__(self, grouping: Grouping, settled_s: float = SETTLED_S, *, titles: bool = True) -> None:
        self._grouping = grouping
        self._settled_s = settled_s
        self._titles = titles
        self._layout: Layout | None = None
        self._families = -1
        self._roles: dict[str, str] = {}  # by row
        self._early = False  # whether there are some that are to be members later
        self._same: dict[tuple[str, str], bool] = {}  # by row and row of the parent
        self._pools: list[Pool] = []

    def read(self, table: ProcessTable, layout: Layout, boot_s: float) -> list[Pool]:
        """The pools among the processes that a table read just now; places are those of its rows."""
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
            # Some put what they are into their name, too: of `gunicorn: worke` it is the first word.
            pool = name = part(process.name.partition(": ")[0])
            if self._titles:
                known = self._roles.get(process.row)
                roles[process.row] = found = role(table.title(process)) if known is None else known
                pool += f"/{part(found)}" if found else ""
            yield Member(pool, parent.row, process.row, name, place, start_s)
        self._roles, self._same = roles, same


def _is_same_program(process: Process, parent: Process) -> bool:
    """Whether a process that called no exec runs its parent's program; if it does not, another one forked it."""
    if process.stat.comm == parent.stat.comm:
        return True
    try:
        own, other = (link(f"{each.path}/exe") for each in (process, parent))
    except OSError:
        return False
    return own == other
