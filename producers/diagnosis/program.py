"""The program that a process runs, as the kernel shows it."""

from __future__ import annotations

import os
from typing import Final

from laggard.producers.system import foreign

DELETED: Final = " (deleted)"
"""The end of the name of a program that was deleted or replaced since the process began it."""


def program_of(path: str) -> str:
    """Return the program of a process, as the kernel shows it; empty without permission."""
    try:
        return foreign.link(f"{path}/exe")
    except OSError:
        return ""


def bits_of(path: str) -> int:
    """Return whether a process's program has 32 or 64 bits, by the class in its ELF header."""
    descriptor = foreign.program(path)
    try:
        return 32 if os.pread(descriptor, 5, 0) == b"\x7fELF\x01" else 64
    finally:
        os.close(descriptor)
