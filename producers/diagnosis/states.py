"""The states of the threads of a process, its inner id and credentials, and whether it can be signaled."""

from __future__ import annotations

import os

from laggard.producers.diagnosis.parsers import parse_namespace_ids
from laggard.producers.system.foreign import content, names
from laggard.producers.system.proc import ProcError, parse_stat


def thread_states(path: str) -> dict[int, bytes]:
    """Return the threads and their states, as in `/proc/PID/task/TID/stat`; none if the process is gone.

    Args:
        path: the path of the process below the root of procfs.

    """
    states: dict[int, bytes] = {}
    try:
        tids = names(f"{path}/task")
    except OSError:
        return states
    for tid in tids:
        try:
            states[int(tid)] = parse_stat(content(f"{path}/task/{tid}/stat")).state
        except ProcError:
            continue  # it ended
    return states


def inner_pid(path: str) -> int:
    """Return the id of a process or thread in its own pid namespace; 0 if it is gone.

    Args:
        path: its path below the root of procfs.

    """
    ids = parse_namespace_ids(content(f"{path}/status"))
    return ids[-1] if ids else 0


def credentials(path: str) -> tuple[int, int]:
    """Return the effective user and group of a process; -1 if it is gone.

    The owner of its directory in procfs is not a substitute: it is root if access to the process is restricted.
    """
    text = content(f"{path}/status")
    found = [text.partition(key)[2].partition(b"\n")[0].split() for key in (b"\nUid:", b"\nGid:")]
    uid, gid = (int(words[1]) if len(words) == 4 else -1 for words in found)
    return uid, gid


def may_signal(pid: int) -> bool:
    """Return whether signals may be sent to a process: it belongs to laggard's user, or laggard has CAP_KILL."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
