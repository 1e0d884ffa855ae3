"""Checks of the pools that the agent finds on this machine, and of the processes whose threads it should watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.doctor.finding import Finding
from laggard.pipeline.explaining.units import counted
from laggard.pipeline.methods.pools.discovery import pools_here
from laggard.producers.host.processes import ProcessTable
from laggard.producers.system.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.settings import Settings

MOST_NAMED = 5
"""The most pools that are listed by name; the others are counted."""


def examine_pools(settings: Settings, root: str = "/proc") -> Iterator[Finding]:
    """Report the pools that are found now, members that are left out, and each name that no process has.

    Args:
        settings: valid settings.
        root: where procfs is mounted.

    """
    clock = Clock()
    if (pools := pools_here(settings, clock)) is None:
        return
    table = ProcessTable(clock, 1.0, root=root, watches_threads=pools.watches_threads)
    try:
        for _ in range(2):  # threads are watched from the second read on
            found = pools.read(table, *table.read())
        named = {process.name for process in table.processes}
    finally:
        table.close()
    for name in pools.unmatched(named):
        advice = "`ps -eo comm` has the names; that is what it is called, not what it was started by"
        yield Finding("pools", "warning", f"pools.threads names {name!r}, but no process here has that name", advice)
    keys = ", ".join(f"{each.key} ({len(each.values)})" for each in found[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    yield Finding("pools", "ok", f"{counted(len(found), 'pool')} here{f': {keys}{more}' if found else ''}")
    if pools.left_out:
        problem = f"{counted(pools.left_out, 'member')} of pools left out: there are too many"
        yield Finding("pools", "warning", problem, "name fewer processes in pools.threads")
