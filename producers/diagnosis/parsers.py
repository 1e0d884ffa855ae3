"""Parsers of the texts below `/proc/PID` that tell what a thread executes: bytes in, plain values out, no I/O.

Source of all forms: proc(5), and fs/proc/{array,base}.c of Linux. A text that does not have its form raises
`ProcError`, which names the file, the field and what was expected.
"""

from __future__ import annotations

from typing import NamedTuple

from laggard.pipeline.records.diagnosis import Location
from laggard.producers.diagnosis.symbols import KERNEL
from laggard.producers.system.proc import ProcError, printable

RUNNING = b"running"
"""What `syscall` is of a thread that is on a CPU or waits for one."""

_OUTSIDE = -1  # blocked in the kernel, but in no system call: at a page fault, say


class Blocked(NamedTuple):
    """What `syscall` tells of a blocked thread.

    Attributes:
        number: of the system call; None where it is in none.
        address: of the instruction at which it will go on; 0 for a thread without one, as one of the kernel.
        stack: its stack pointer; likewise.
        arguments: of the system call, as they are in registers; none where it is in none.

    """

    number: int | None
    address: int
    stack: int
    arguments: tuple[int, ...]

    @property
    def place(self) -> tuple[int | None, int, int]:
        """The system call, the instruction and the stack pointer: of the next call in a loop they are the same."""
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
    """Parse `/proc/PID/task/TID/wchan`: the kernel's function; empty where it is none, or not told."""
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
    """Parse the line NSpid of `/proc/PID/status`: its id in each pid namespace that knows it, the outermost first.

    Empty where the kernel does not tell, or the text is not all there.
    """
    _, found, rest = text.partition(b"\nNSpid:")
    words = rest.partition(b"\n")[0].split()
    return tuple(map(int, words)) if found and all(word.isdigit() for word in words) else ()


def parse_user_id(text: bytes) -> int | None:
    """Parse the line Uid of `/proc/PID/status`: its real user; None where that is not told."""
    return _number(text, b"\nUid:")


def parse_process_id(text: bytes) -> int | None:
    """Parse the line Tgid of `/proc/PID/status`: the process that a thread belongs to; None where that is not told."""
    return _number(text, b"\nTgid:")


def _number(text: bytes, key: bytes) -> int | None:
    """The first number of a line of `status`."""
    words = text.partition(key)[2].split(None, 1)
    return int(words[0]) if words and words[0].isdigit() else None
