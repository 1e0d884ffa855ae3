"""Checks of a suspect: it is still the same process, and may be slowed."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING

from laggard.pipeline.processes import PROC, process

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.processes import Process


class RefusedError(Exception):
    """The process may not be slowed, with the reason."""


def check(suspect: Process, *, force: bool = False, proc: Path = PROC) -> None:
    """Check whether this process may slow a suspect. Raises `RefusedError` with the reason why not."""
    own = process(os.getpid(), proc)
    kin = _kin(proc)
    if suspect.pid == 1:
        raise RefusedError("process 1 holds the system together; it is not slowed")
    if suspect.kernel_thread:
        raise RefusedError(f"{suspect.row} is a thread of the kernel; it cannot be slowed")
    if suspect.pid in kin:
        raise RefusedError(f"laggard runs inside {suspect.row}; to slow that would slow laggard itself")
    if suspect.state in "TtZX":
        states = {"T": "is stopped already", "t": "is stopped by a debugger"}
        raise RefusedError(f"{suspect.row} {states.get(suspect.state, 'has ended')}")
    if force:
        return
    if own is not None and suspect.pid == own.session:
        raise RefusedError(f"{suspect.row} leads the session that laggard runs in; --force does it anyway")
    if suspect.terminal and suspect.group == suspect.foreground:
        raise RefusedError(
            f"{suspect.row} is in the foreground of a terminal, whose shell would take it for suspended; "
            "--force does it anyway"
        )


def _kin(proc: Path) -> set[int]:
    """Return the pids of this process and its ancestors."""
    found, pid = set(), os.getpid()
    while pid and pid not in found:
        found.add(pid)
        one = process(pid, proc)
        pid = 0 if one is None else one.parent
    return found


def hold(suspect: Process) -> int:
    """Return a file descriptor of the suspect, which stays valid if its id is used again.

    Raises:
        RefusedError: it has ended, belongs to another user, or is only a thread of a process.

    """
    try:
        pidfd = os.pidfd_open(suspect.pid)
    except ProcessLookupError:
        raise RefusedError(f"{suspect.row} has ended") from None
    except OSError as error:
        # Thread ids have directories in /proc, too, which are not listed.
        if error.errno not in {errno.ENOENT, errno.EINVAL}:
            raise
        raise RefusedError(f"{suspect.pid} is a thread, not a process; expected the id of its process") from None
    now, refused = process(suspect.pid), ""
    try:
        signal.pidfd_send_signal(pidfd, 0)  # checks the permission only
    except PermissionError:
        refused = "belongs to another user; expected the same user, root, or the capability CAP_KILL"
    except ProcessLookupError:
        refused = "has ended"
    if now is None or now.start_ticks != suspect.start_ticks:
        refused = "has ended"
    if refused:
        os.close(pidfd)
        raise RefusedError(f"{suspect.row} {refused}")
    return pidfd
