"""Parsers of the texts below `/proc/PID` that show what a thread executes: bytes in, plain values out, no I/O.

Source of all formats: proc(5), and fs/proc/{array,base}.c of Linux. A malformed text raises `ProcError`, which names
the file, the field and what was expected.
"""

from __future__ import annotations

from typing import NamedTuple

from laggard.pipeline.core.records.diagnosis import Location
from laggard.producers.diagnosis.symbols import KERNEL
from laggard.producers.system.proc import ProcError, printable

RUNNING = b"running"
"""The content of `syscall` for a thread that is on a CPU or waits for one."""

_OUTSIDE = -1  # blocked in the kernel, but in no system call: at a page fault, say


class Blocked(NamedTuple):
    """The content of `syscall` for a blocked thread.

    Attributes:
        number: the number of its system call; None if it is in none.
        address: the instruction at which it continues; 0 for a thread without one, such as a kernel thread.
        stack: its stack pointer; likewise.
        arguments: the arguments of its system call, as in registers; none if it is in none.

    """

    number: int | None
    address: int
    stack: int
    arguments: tuple[int, ...]

    @property
    def place(self) -> tuple[int | None, int, int]:
        """The system call, the instruction and the stack pointer: the next call in a loop has the same ones."""
        return self.number, self.address, self.stack


def parse_syscall(text: bytes, file: str = "syscall") -> Blocked | None:
    """Parse `/proc/PID/task/TID/syscall`; None for a thread that runs, or has ended."""
    words = text.split()
    if not words or words[0] == RUNNING:
        return None
    try:
        number = int(words[0])
        *arguments, stack, address = (int(word, 16) for word in words[1:])
        return Blocked(None if number == _OUTSIDE else number, address, stack, tuple(arguments))
    except ValueError:
        raise ProcError(
            file, "the system call", "`running`, or a number, arguments, stack pointer and program counter", text
        ) from None


def parse_wchan(text: bytes) -> str:
    """Parse `/proc/PID/task/TID/wchan`: the function of the kernel; empty if there is none, or it is hidden."""
    name = text.strip()
    return "" if name == b"0" else printable(name.decode("utf-8", "replace"))


def parse_stack(text: bytes, file: str = "stack") -> tuple[Location, ...]:
    """Parse `/proc/PID/task/TID/stack`: the kernel's functions, the innermost first."""
    locations = []
    for line in text.splitlines():
        _, found, symbol = line.partition(b"] ")
        if not found:
            raise ProcError(file, "a frame", "[<0>] and function+0xOFFSET/0xSIZE", line)
        function = symbol.partition(b"+")[0]
        locations.append(Location(printable(function.decode("utf-8", "replace")), KERNEL))
    return tuple(locations)


def parse_namespace_ids(text: bytes) -> tuple[int, ...]:
    """Parse the line NSpid of `/proc/PID/status`: the id in each pid namespace that has it, the outermost first.

    Empty if the kernel does not have this line, or the text is incomplete.
    """
    _, found, rest = text.partition(b"\nNSpid:")
    words = rest.partition(b"\n")[0].split()
    return tuple(map(int, words)) if found and all(word.isdigit() for word in words) else ()


def parse_user_id(text: bytes) -> int | None:
    """Parse the line Uid of `/proc/PID/status`: the real user; None if it is missing."""
    return _number(text, b"\nUid:")


def parse_process_id(text: bytes) -> int | None:
    """Parse the line Tgid of `/proc/PID/status`: the process of a thread; None if it is missing."""
    return _number(text, b"\nTgid:")


def _number(text: bytes, key: bytes) -> int | None:
    """Return the first number of a line of `status`."""
    words = text.partition(key)[2].split(None, 1)
    return int(words[0]) if words and words[0].isdigit() else None
