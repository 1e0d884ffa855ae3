"""The control groups of a machine, and the processes in them.

Source: Documentation/admin-guide/cgroup-v2.rst of Linux.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.system.foreign import content, folders

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = "/sys/fs/cgroup"
"""The mount point of control groups."""

MAX_GROUPS: Final = 20_000
"""The most groups that one search visits; groups beyond are not found."""


PROCESSES_BYTES: Final = 1 << 19
"""The most bytes that are read of a group's list of processes: the ids of at least 65,536."""

SEEK_RATIO: Final = 0.002
"""The share of one core that each search for groups may use; it runs less often on a machine with many groups."""


def below(group: str) -> Iterator[tuple[str, bool]]:
    """Yield a group and all groups below it, and whether each has groups below itself; at most `MAX_GROUPS`."""
    waiting = [group]
    for _ in range(MAX_GROUPS):
        if not waiting:
            break
        path = waiting.pop()
        try:
            children = folders(path)
        except OSError:  # gone in between
            continue
        yield path, bool(children)
        waiting += children


def members(group: str) -> list[int]:
    """Return the processes of a group itself, except for those outside laggard's pid namespace."""
    found = (int(word) for word in content(f"{group}/cgroup.procs", PROCESSES_BYTES).split() if word.isdigit())
    return [pid for pid in found if pid > 0]


def all_members(group: str) -> list[int]:
    """Return the processes of a group, and of those below it."""
    return some_members(group, sys.maxsize)[0]


def some_members(group: str, most: int) -> tuple[list[int], int]:
    """Return processes of a group and of those below it, and the number of groups and processes read: about `most`."""
    found: list[int] = []
    read = 0
    for each, _ in below(group):
        own = members(each)[: max(most - read, 0)]
        found += own
        read += 1 + len(own)
        if read >= most:
            break
    return found, read


def unified(root: str) -> str:
    """Return the path of version 2 groups, which may be next to those of version 1; empty if there are none."""
    return next((path for path in (root, f"{root}/unified") if Path(path, "cgroup.controllers").exists()), "")
