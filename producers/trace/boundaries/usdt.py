"""Probes of programs in the syntax of tracefs, for places and registers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.boundaries.elf import ProgramError

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.producers.trace.boundaries.elf import Usdt

_REGISTER: Final = re.compile(r"%([re]?)(\w+)")
_MEMORY: Final = re.compile(r"(-?\d*)\((%\w+)\)")
_ARM_REGISTER: Final = re.compile(r"[xw]\d+|sp")
_ARM_MEMORY: Final = re.compile(r"\[(x\d+|sp)(?:, ?(-?\d+))?\]")
_WIDE: Final = re.compile(r"[xw](?=\d)")


def place(path: Path, probe: Usdt) -> str:
    """Return the place of a probe: `BINARY:OFFSET(SEMAPHORE)`."""
    semaphore = f"({probe.semaphore:#x})" if probe.semaphore else ""
    return f"{path}:{probe.offset:#x}{semaphore}"


def text_argument(name: str, argument: str) -> str:
    """Return the definition that fetches the text behind an argument.

    Args:
        name: the name of the text.
        argument: the location of the pointer, as in the probe's note.

    Raises:
        ProgramError: tracefs has no syntax for the location.

    >>> text_argument("uri", "8@%rdx"), text_argument("uri", "8@-16(%rbp)")
    ('uri=+0(%dx):ustring', 'uri=+0(-16(%bp)):ustring')
    """
    return f"{name}=+0({_fetched(argument.rpartition('@')[2])}):ustring"


def _fetched(operand: str) -> str:
    if _REGISTER.fullmatch(operand):
        return _register(operand)
    if found := _MEMORY.fullmatch(operand):
        return f"{int(found[1] or 0):+d}({_register(found[2])})"
    if _ARM_REGISTER.fullmatch(operand):
        return f"%{_WIDE.sub('x', operand)}"
    if found := _ARM_MEMORY.fullmatch(operand):
        return f"{int(found[2] or 0):+d}(%{found[1]})"
    raise ProgramError(f"an argument at `{operand}`: expected a register, or memory that one points to")


def _register(text: str) -> str:
    """Return the kernel's name of a register: the 16-bit one, and for numbered registers the 64-bit one."""
    name = text.lstrip("%")
    if name[1:2].isdigit() or name[1:3].isdigit():
        return "%" + name.rstrip("dwb")
    return "%" + (name[1:] if len(name) == 3 else name)
