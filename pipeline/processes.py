"""Processes of this machine by a row's id, a process id or a name."""

from __future__ import annotations

import math
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.system.proc import ProcError, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROC: Final = Path("/proc")

LONGEST_NAME: Final = 15
"""The most characters of a process's name that the kernel stores (`TASK_COMM_LEN` less one)."""

LISTED: Final = 5
"""The most processes that an error lists as candidates."""

_INTERPRETER: Final = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|Rscript|java|guile|tclsh|(ba|da|k|z)?sh)[\d.]*"
)
_NAMED_BEHIND: Final = {"-m", "-jar"}  # a Python module, a Java archive
_WITH_VALUE: Final = {"-W", "-X", "-I", "-r", "--require", "-cp", "-classpath", "--class-path"}
_TEXT_ITSELF: Final = {"-c", "-e", "--eval"}  # no script: the program text follows

_KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD of linux/sched.h
_ROW: Final = re.compile(r"(?P<name>.*)\[(?P<pid>\d{1,10})(?:@(?P<start>\d+))?\]")


class UnknownProcessError(LookupError):
    """No process matches, or more than one does: the message lists candidates."""


@dataclass(frozen=True, slots=True)
class Process:
    """The fields of `/proc/PID/stat` that laggard needs."""

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
        """Its id in the agent's frames."""
        return f"{self.name}[{self.pid}@{self.start_ticks}]"


def process(pid: int, proc: Path = PROC) -> Process | None:
    """Return a process; None if there is none with this id."""
    try:
        return parse((proc / str(pid) / "stat").read_bytes())
    except (OSError, ProcError):
        return None


def parse(text: bytes) -> Process:
    """Read `/proc/PID/stat`. Raises `ProcError` if the text is not one."""
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
    """Yield all processes."""
    for entry in proc.iterdir():
        if entry.name.isdigit() and (found := process(int(entry.name), proc)) is not None:
            yield found


def find(row: str, proc: Path = PROC) -> Process:
    """Return the only candidate. See `candidates`.

    Raises:
        UnknownProcessError: there is none or more than one, or the id now belongs to another process.

    """
    found = candidates(row, proc)
    if len(found) > 1:
        raise UnknownProcessError(f"{len(found)} processes are called {row}; expected one of {_listed(found)}")
    return found[0]


def candidates(row: str, proc: Path = PROC) -> list[Process]:
    """Return the processes that match, at least one. This process never matches by its name.

    Args:
        row: a row's id (`nginx[4711@99]`, `nginx[4711]`), a process id, or a name, which may be longer than the
            kernel's. If no process has that name, it is compared with the scripts that interpreters run.
        proc: where procfs is mounted.

    Raises:
        UnknownProcessError: there is none, or the id now belongs to another process.

    """
    parts = _ROW.fullmatch(row)
    if parts is None and not row.isdecimal():
        others = [each for each in everybody(proc) if each.pid != os.getpid()]
        named = [each for each in others if each.name in {row, row[:LONGEST_NAME]}]
        named = named or [each for each in others if runs(row, _command(each.pid, proc))]
        if not named:
            expected = f"expected a row's id, a process id or a name{_hint(row, others, proc)}"
            raise UnknownProcessError(f"there is no process called {row}; {expected}")
        return named
    pid = int(row if parts is None else parts["pid"])
    found = process(pid, proc)
    if found is None:
        raise UnknownProcessError(f"there is no process {pid} any more")
    if parts is not None:
        start = parts["start"]
        # A process may change its name, but not its start.
        same = parts["name"] == found.name if start is None else int(start) == found.start_ticks
        if not same:
            raise UnknownProcessError(f"{row} has ended; process {pid} is another one now, {found.row}")
    return [found]


def runs(name: str, command: Sequence[str]) -> bool:
    """Return whether a command line is an interpreter that runs this file, module or class.

    Args:
        name: the name of the script, with or without the folder of the command line.
        command: the words of the command line.

    """
    if not command or not _INTERPRETER.fullmatch(command[0].rpartition("/")[2].removeprefix("-")):
        return False
    words = iter(command[1:])
    for word in words:
        if word in _TEXT_ITSELF:
            return False
        if word in _NAMED_BEHIND:
            word = next(words, "")  # noqa: PLW2901 - it replaces its option
        elif word in _WITH_VALUE:
            next(words, "")
            continue
        elif word.startswith("-"):
            continue
        return name in {word, word.rpartition("/")[2]}
    return False


def _hint(text: str, others: Sequence[Process], proc: Path) -> str:
    """Return a sentence's end on command lines with a text; empty for none. The caller and its parents are left out."""
    parents = {each.pid: each.parent for each in everybody(proc)}
    asking = {pid := os.getpid()}
    while (pid := parents.get(pid, 0)) and pid not in asking:
        asking.add(pid)
    found = [each for each in others if each.pid not in asking and text in " ".join(_command(each.pid, proc))]
    return f"; {text} is in the command line of {_listed(found)}" if found else ""


def _listed(processes: Sequence[Process]) -> str:
    return ", ".join(each.row for each in processes[:LISTED]) + (", ..." if len(processes) > LISTED else "")


def _command(pid: int, proc: Path) -> list[str]:
    """Return the words of a process's command line; none if it has none."""
    try:
        return os.fsdecode((proc / str(pid) / "cmdline").read_bytes()).rstrip("\0").split("\0")
    except OSError:
        return []


def by_use(processes: Sequence[Process], over_s: float) -> list[tuple[Process, float]]:
    """Return the processes with their present CPU use in cores, the busiest first. Processes that end are left out.

    Args:
        processes: the processes.
        over_s: the length of the measurement, in seconds.

    """
    before = [_cpu_s(each.pid) for each in processes]
    began = time.monotonic()
    time.sleep(over_s)
    after = [_cpu_s(each.pid) for each in processes]
    took_s = time.monotonic() - began
    used = [(each, (end - start) / took_s) for each, start, end in zip(processes, before, after, strict=True)]
    return sorted((each for each in used if math.isfinite(each[1])), key=lambda each: (-each[1], each[0].pid))


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process by its own clock: exact, unlike the ticks of procfs. NaN if it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # CPUCLOCK_SCHED of linux/posix-timers.h
    except OSError:
        return math.nan
