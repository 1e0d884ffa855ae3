"""What stands on a stack, in words: one label for each function, and for the kernel's in which a thread is blocked."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from laggard.pipeline.records.diagnosis import Location

if TYPE_CHECKING:
    from laggard.pipeline.records.diagnosis import Stack

UNKNOWN: Final = "[unknown]"
"""Where nothing is known, as `perf script` writes it."""

KERNEL: Final = "[kernel]"
"""The module of the kernel's own functions."""

BLOCKED: Final = Location("[blocked]")
"""Stands below what a blocked thread is in."""

_KERNEL_FUNCTION: Final = "_[k]"  # how flame graphs mark the kernel's functions


def label(location: Location) -> str:
    """The function; where it has no symbol `libm.so.6+0x1d7b`, or the address where it is in no file."""
    if location.function:
        return location.function
    if location.module:
        module = PurePath(location.module).name
        return f"{module}+{location.offset:#x}" if location.offset >= 0 else module
    return f"{location.offset:#x}" if location.offset >= 0 else UNKNOWN


def place(location: Location) -> str:
    """Where the function is: `hot.py:12`, `libm.so.6`; empty where that is not known, or the label says it."""
    if not location.function or not location.module:
        return ""
    name = location.module if location.module.startswith("[") else PurePath(location.module).name
    if not location.line:
        return name
    return f"{name}:{location.line}" if _interpreted(location) else f"{name}, line {location.line}"


def frames(stack: Stack) -> list[Location]:
    """The stack's functions, the outermost first, as flame graphs take them.

    A blocked thread's stack begins with `[blocked]`, and ends with its system call and the kernel's function that it is
    blocked in, where it has no functions of the kernel itself.
    """
    found = list(reversed(stack.locations))
    if stack.state == "blocked":
        if all(each.module != KERNEL for each in found):
            calls = dict.fromkeys((stack.system_call, stack.wait_channel))
            found += [Location(each, KERNEL) for each in calls if each]
        return [BLOCKED, *found]
    return found or [Location()]


def frame_label(location: Location) -> str:
    """The label in a flame graph: the kernel's functions are marked, and interpreted ones told with their file."""
    if location.module == KERNEL:
        return label(location) + _KERNEL_FUNCTION
    # Not with its line: a function is one box, wherever in it the threads were.
    return f"{label(location)} ({PurePath(location.module).name})" if _interpreted(location) else label(location)


def _interpreted(location: Location) -> bool:
    """Whether the module is the source: what is mapped has an offset in it. Names as `run` are in many sources."""
    return bool(location.line) and location.offset < 0
