"""Who is to be slowed: a process that is found, is still itself, and may be touched."""

from __future__ import annotations

import errno
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.proc import ProcError, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC: Final = Path("/proc")

_KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD of linux/sched.h
_ROW: Final = re.compile(r"(?P<name>.*)\[(?P<pid>\d{1,10})(?:@(?P<start>\d+))?\]")


class RefusedError(Exception):
    """A process that is not to be slowed, or of which nothing can be said; says why."""


@dataclass(frozen=True, slots=True)
class Process:
    """What `/proc/PID/stat` says of a process that matters here."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    terminal: int
    foreground: int
    kernel_thread: bool
    start_ticks: int

    @property
    def row(self) -> str:
        """Its id, as the agent has it."""
        return f"{self.name}[{self.pid}@{self.start_ticks}]"


def process(pid: int, proc: Path = PROC) -> Process | None:
    """A process; None where there is none of this id."""
    try:
        return parse((proc / str(pid) / "stat").read_bytes())
    except (OSError, ProcError):
        return None


def parse(text: bytes) -> Process:
    """Read `/proc/PID/stat`. Raises `ProcError` where it is none."""
    begin, end = text.find(b"("), text.rfind(b")")
    fields = text[end + 2 :].split()
    if begin < 0 or len(fields) < 20:
        raise ProcError("stat", "pid (name) state ...", "at least 22 fields", text)
    kernel_thread = bool(int(fields[6]) & _KERNEL_THREAD)
    return Process(
        pid=int(text[:begin]),
        name=parse_name(text[begin + 1 : end], kernel_thread),
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        terminal=int(fields[4]),
        foreground=int(fields[5]),
        kernel_thread=kernel_thread,
        start_ticks=int(fields[19]),
    )


def everybody(proc: Path = PROC) -> Iterator[Process]:
    """All processes there are."""
    for entry in proc.iterdir():
        if entry.name.isdigit() and (found := process(int(entry.name), proc)) is not None:
            yield found


def find(row: str, proc: Path = PROC) -> Process:
    """The process that a person means.

    Args:
        row: a row's id (`nginx[4711@99]`, `nginx[4711]`), a process id, or a name that only one process has.
        proc: where the processes are.

    Raises:
        RefusedError: there is none, more than one, or it has become another one.

    """
    parts = _ROW.fullmatch(row)
    if parts is None and not row.isdigit():
        return _named(row, proc)
    pid = int(row if parts is None else parts["pid"])
    found = process(pid, proc)
    if found is None:
        raise RefusedError(f"there is no process {pid} any more")
    if parts is not None:
        start = parts["start"]
        # A process may change its name; when it was started it cannot.
        same = parts["name"] == found.name if start is None else int(start) == found.start_ticks
        if not same:
            raise RefusedError(f"{row} has ended; process {pid} is another one now, {found.row}")
    return found


def _named(name: str, proc: Path) -> Process:
    named = [each for each in everybody(proc) if each.name == name and each.pid != os.getpid()]
    if not named:
        raise RefusedError(f"there is no process called {name}; expected a row's id, a process id or a name")
    if len(named) > 1:
        listed = ", ".join(each.row for each in named[:5]) + (", ..." if len(named) > 5 else "")
        raise RefusedError(f"{len(named)} processes are called {name}; expected one of {listed}")
    return named[0]


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
