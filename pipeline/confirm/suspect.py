"""Who may be slowed: a process that is still itself, and may be touched."""

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
    """A process that is not to be slowed; says why."""


def check(suspect: Process, *, force: bool = False, proc: Path = PROC) -> None:
    """See whether a process may be slowed by this one. Raises `RefusedError` saying why not."""
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
        raise RefusedError(f"{suspect.row} leads the session that laggard runs in; --force does it all the same")
    if suspect.terminal and suspect.group == suspect.foreground:
        raise RefusedError(
            f"{suspect.row} is in the foreground of a terminal, whose shell would take it for suspended; "
            "--force does it all the same"
        )


def _kin(proc: Path) -> set[int]:
    """This process and those that it runs in."""
    found, pid = set(), os.getpid()
    while pid and pid not in found:
        found.add(pid)
        one = process(pid, proc)
        pid = 0 if one is None else one.parent
    return found


def hold(suspect: Process) -> int:
    """A file descriptor that stands for this very process, whoever has its id later.

    Raises:
        RefusedError: it has ended, it belongs to somebody else, or it is only a thread of a process.

    """
    try:
        held = os.pidfd_open(suspect.pid)
    except ProcessLookupError:
        raise RefusedError(f"{suspect.row} has ended") from None
    except OSError as error:
        # The ids of threads have folders in /proc too, which it does not list.
        if error.errno not in {errno.ENOENT, errno.EINVAL}:
            raise
        raise RefusedError(f"{suspect.pid} is a thread, not a process; expected the id of its process") from None
    now, refused = process(suspect.pid), ""
    try:
        signal.pidfd_send_signal(held, 0)  # asks whether one might
    except PermissionError:
        refused = "belongs to another user; expected the same user, root, or the capability CAP_KILL"
    except ProcessLookupError:
        refused = "has ended"
    if now is None or now.start_ticks != suspect.start_ticks:
        refused = "has ended"
    if refused:
        os.close(held)
        raise RefusedError(f"{suspect.row} {refused}")
    return held
