"""Processes whose files do not answer, which are left out until they do; see `patience`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from laggard.producers.host.process import Process

logger = logging.getLogger(__name__)

MOST_HANGING: Final = 32
"""From this number of unresponsive processes on, no process of their users is read until one of them answers."""


class Hanging:
    """The unresponsive processes of a machine.

    Args:
        root: the mount point of procfs.

    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._owners: dict[str, int | None] = {}  # by pid

    def __contains__(self, pid: str) -> bool:
        """Return whether this process is one of them."""
        return pid in self._owners

    def add(self, process: Process) -> None:
        """Record and log a process whose files do not answer."""
        pid = str(process.pid)
        logger.warning("%s does not respond: process %s is skipped until it does", process.path, pid)
        self._owners[pid] = _owner(process.path)

    def remove(self, process: Process) -> None:
        """Note that a process has answered after all."""
        self._owners.pop(str(process.pid), None)

    def left_out(self, pids: set[str], waiting: int) -> set[str]:
        """Return the pids not to read: unresponsive ones and, if many readings wait, all of their users."""
        if not self._owners:
            return set()
        found = pids & self._owners.keys()
        if waiting >= MOST_HANGING:
            owners = set(self._owners.values())
            found |= {pid for pid in pids - found if _owner(f"{self._root}/{pid}") in owners}
        return found


def _owner(path: str) -> int | None:
    """Return the owner of a process; None if it is gone."""
    try:
        return Path(path).stat().st_uid
    except OSError:
        return None
