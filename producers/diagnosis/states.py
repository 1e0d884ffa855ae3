"""In which states the threads of a process are, and whether they can be changed."""

from __future__ import annotations

import os

from laggard.producers.diagnosis.parsers import parse_namespace_ids
from laggard.producers.system.foreign import content, names
from laggard.producers.system.proc import ProcError, parse_stat


def thread_states(path: str) -> dict[int, bytes]:
    """Threads and their states, as in `/proc/PID/task/TID/stat`; none where the process is gone.

    Args:
        path: of the process, below the root of procfs.

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
    """The id that a process or thread has in its own pid namespace; 0 where it is gone.

    Args:
        path: of it, below the root of procfs.

    """
    ids = parse_namespace_ids(content(f"{path}/status"))
    return ids[-1] if ids else 0


def credentials(path: str) -> tuple[int, int]:
    """The effective user and group of a process; -1 where it is gone.

    The owner of its folder in procfs is root where nobody may look into it.
    """
    text = content(f"{path}/status")
    found = [text.partition(key)[2].partition(b"\n")[0].split() for key in (b"\nUid:", b"\nGid:")]
    uid, gid = (int(words[1]) if len(words) == 4 else -1 for words in found)
    return uid, gid


def may_signal(pid: int) -> bool:
    """Whether signals may be sent to a process: it is our own user's, or we have CAP_KILL."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
