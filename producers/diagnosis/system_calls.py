"""Names of system calls: their numbers differ between machines, and between programs of 32 and 64 bits."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, cast

from system_calls import syscalls

if TYPE_CHECKING:
    from collections.abc import Mapping

# The tables by the machine of uname(2): for its own programs, and for those of 32 bits that it can run.
_TABLES = {
    "x86_64": ("x86_64", "i386"),
    "aarch64": ("arm64", "arm"),
    "riscv64": ("riscv64", "riscv32"),
    "s390x": ("s390x", "s390"),
    "ppc64le": ("powerpc64", "powerpc"),
}


def name(number: int, *, bits: int = 64, machine: str | None = None) -> str:
    """Return the name of a system call; `syscall_` and its number if unknown.

    Args:
        number: the number in `/proc/PID/syscall`.
        bits: the word size of the program.
        machine: the machine as in uname(2); by default this one.

    """
    return _names(machine or os.uname().machine, bits).get(number, f"syscall_{number}")


@cache
def _names(machine: str, bits: int) -> Mapping[int, str]:
    tables = _TABLES.get(machine)
    if tables is None:
        return {}
    return cast("Mapping[int, str]", syscalls().load_reverse_arch_table(tables[bits == 32]))
