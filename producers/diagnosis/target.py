"""The identity of a diagnosed process, so that it is never confused with a later one of the same pid."""

from __future__ import annotations

from typing import NamedTuple

from laggard.producers.diagnosis.parsers import parse_process_id
from laggard.producers.system.foreign import content
from laggard.producers.system.proc import PF_KTHREAD, ProcError, parse_command, parse_name, parse_stat


class TargetError(LookupError):
    """A process cannot be diagnosed: which one, why, and what to do about it."""


class Target(NamedTuple):
    """One process, from its start to its end.

    Attributes:
        pid: its id on the host.
        start_ticks: its start time, in clock ticks since boot; with the pid, it identifies the process for good.
        row: its row in the frames of its host: `nginx[4711@99]`.
        name: its name.
        command: its command line; empty if it must not be published.

    """

    pid: int
    start_ticks: int
    row: str
    name: str
    command: str = ""


def find(pid: int, *, root: str = "/proc", command_lines: bool = True) -> Target:
    """Return the process that has this pid now, or the process of a thread with this id.

    Args:
        pid: the id on the host.
        root: the mount point of procfs.
        command_lines: whether to read its command line, which may hold secrets.

    Raises:
        TargetError: there is none, or it is hidden from laggard.

    """
    pid = parse_process_id(content(f"{root}/{pid}/status")) or pid
    path = f"{root}/{pid}"
    text = content(f"{path}/stat")
    if not text:
        raise TargetError(
            f"no process has the pid {pid}, or {root} hides it (mount option hidepid): use a pid that `ps` shows to"
            " the same user"
        )
    try:
        stat = parse_stat(text, file=f"{path}/stat")
    except ProcError as error:
        raise TargetError(str(error)) from error
    kernel_thread = bool(stat.flags & PF_KTHREAD)
    name = parse_name(stat.comm, kernel_thread)
    command = parse_command(content(f"{path}/cmdline")) if command_lines and not kernel_thread else ""
    return Target(pid, stat.start_ticks, f"{name}[{pid}@{stat.start_ticks}]", name, command)
