"""In which states the threads of a process are, and whether they can be changed."""

from __future__ import annotations

import os

from laggard.producers.foreign import content
from laggard.producers.proc import ProcError, parse_stat


def thread_states(path: str) -> dict[int, bytes]:
    """Threads and their states, as in `/proc/PID/task/TID/stat`; none where the process is gone.

    Args:
        path: of the process, below the root of procfs.

    """
    states: dict[int, bytes] = {}
    try:
        tids = os.listdir(f"{path}/task")  # noqa: PTH208 - names
    except OSError:
        return states
    for tid in tids:
        try:
            states[int(tid)] = parse_stat(content(f"{path}/task/{tid}/stat")).state
        except ProcError:
            continue  # it ended
    return states


def may_signal(pid: int) -> bool:
    """Whether signals may be sent to a process: it is our own user's, or we have CAP_KILL."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
