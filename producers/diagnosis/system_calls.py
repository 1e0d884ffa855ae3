"""Names of system calls: their numbers differ between machines, and between programs of 32 and 64 bits."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, cast

from system_calls import syscalls

if TYPE_CHECKING:
    from collections.abc import Mapping

# The tables, by what uname(2) says of the machine: of its own programs, and of those of 32 bits that it runs too.
_TABLES = {
    "x86_64": ("x86_64", "i386"),
    "aarch64": ("arm64", "arm"),
    "riscv64": ("riscv64", "riscv32"),
    "s390x": ("s390x", "s390"),
    "ppc64le": ("powerpc64", "powerpc"),
}


def name(number: int, *, bits: int = 64, machine: str | None = None) -> str:
    """The name of a system call; `syscall_` and its number where it is not known.

    Args:
        number: as `/proc/PID/syscall` gives it.
        bits: of the program.
        machine: as uname(2) says; by default this one.

    """
    return _names(machine or os.uname().machine, bits).get(number, f"syscall_{number}")


@cache
def _names(machine: str, bits: int) -> Mapping[int, str]:
    tables = _TABLES.get(machine)
    if tables is None:
        return {}
    return cast("Mapping[int, str]", syscalls().load_reverse_arch_table(tables[bits == 32]))
