"""Parser of thread dumps of Java virtual machines: text in, plain values out, in linear time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.producers.system.proc import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

DUMP_BYTES: Final = 4 << 20
"""The limit of a dump, in bytes: the stacks of some 1,000 threads."""

THREADS: Final = 8192
"""The most threads of a dump."""

FRAMES: Final = 64
"""The most functions of a stack, the innermost ones."""

LONGEST_LINE: Final = 2048
"""The longest line of a stack, in characters: names have at most 512 bytes."""

_NO_FILE: Final = ("Native Method", "Unknown Source")
_NID: Final = " nid="


def parse_dump(text: str) -> Iterator[tuple[int, list[tuple[str, str, int]]]]:
    """Parse a thread dump: each thread's native id, and its stack: function, file and line, the innermost first."""
    nid = threads = 0
    stack: list[tuple[str, str, int]] = []
    for line in text.splitlines():
        if line.startswith('"'):
            found = _native_id(line)
            if not found:
                continue
            if nid:
                yield nid, stack
                threads += 1
                if threads >= THREADS:
                    return
            nid, stack = found, []
        elif nid and len(stack) < FRAMES and len(line) <= LONGEST_LINE:
            frame = _frame(line)
            if frame is not None:
                stack.append(frame)
    if nid:
        yield nid, stack


def hidden(function: str) -> str:
    """Return a function without the address of a class that was made at run time: it differs between processes."""
    parts = function.split("/0x")
    return parts[0] + "".join(part.lstrip("0123456789abcdef") for part in parts[1:])


def _native_id(line: str) -> int:
    """Return the native id behind the name of a thread; 0 for a line without."""
    word = (line.rpartition(_NID)[2].split(None, 1) or [""])[0]
    digits, base = (word[2:], 16) if word.startswith("0x") else (word, 10)
    try:
        return int(digits, base) if 0 < len(digits) <= 16 else 0
    except ValueError:
        return 0


def _frame(line: str) -> tuple[str, str, int] | None:
    """Parse a line like `    at java.lang.Thread.run(java.base@21/Thread.java:1583)`; None for any other line."""
    before, at, rest = line.partition("at ")
    function, opened, place = rest.partition("(")
    if not at or before.strip() or not before or not opened or not function or not place.endswith(")"):
        return None
    if any(character.isspace() for character in function):
        return None
    file, _, number = place[:-1].rpartition("/")[2].partition(":")
    line_number = int(number) if number.isdecimal() and len(number) <= 9 else 0
    return printable(hidden(function)), "" if file in _NO_FILE else printable(file), line_number
