"""Labels of the functions on a stack, and of the kernel's function that a thread is blocked in."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records.diagnosis import Location

if TYPE_CHECKING:
    from laggard.pipeline.core.records.diagnosis import Stack

UNKNOWN: Final = "[unknown]"
"""The label of an unknown function, as in `perf script`."""

KERNEL: Final = "[kernel]"
"""The module of the kernel's own functions."""

BLOCKED: Final = Location("[blocked]")
"""The outermost frame of a blocked stack."""

_KERNEL_FUNCTION: Final = "_[k]"  # how flame graphs mark the kernel's functions


def label(location: Location) -> str:
    """Return the function; without a symbol `libm.so.6+0x1d7b`, or the address if it is in no file."""
    if location.function:
        return location.function
    if location.module:
        module = PurePath(location.module).name
        return f"{module}+{location.offset:#x}" if location.offset >= 0 else module
    return f"{location.offset:#x}" if location.offset >= 0 else UNKNOWN


def place(location: Location) -> str:
    """Return the place of the function: `hot.py:12`, `libm.so.6`; empty if unknown, or if the label has it."""
    if not location.function or not location.module:
        return ""
    name = location.module if location.module.startswith("[") else PurePath(location.module).name
    if not location.line:
        return name
    return f"{name}:{location.line}" if _interpreted(location) else f"{name}, line {location.line}"


def frames(stack: Stack) -> list[Location]:
    """Return the stack's functions, the outermost first, as in flame graphs.

    A blocked thread's stack begins with `[blocked]`. Without functions of the kernel, it ends with its system call and
    the kernel's function that it is blocked in.
    """
    found = list(reversed(stack.locations))
    if stack.state == "blocked":
        if all(each.module != KERNEL for each in found):
            calls = dict.fromkeys((stack.system_call, stack.wait_channel))
            found += [Location(each, KERNEL) for each in calls if each]
        return [BLOCKED, *found]
    return found or [Location()]


def frame_label(location: Location) -> str:
    """Return the label in a flame graph: kernel functions have a mark, and interpreted ones their file.

    Many source files have functions with names such as `run`.
    """
    if location.module == KERNEL:
        return label(location) + _KERNEL_FUNCTION
    # Without its line, so that a function is one box for all its lines.
    return f"{label(location)} ({PurePath(location.module).name})" if _interpreted(location) else label(location)


def _interpreted(location: Location) -> bool:
    """Return whether the module is a source file: functions of mapped files have an offset."""
    return bool(location.line) and location.offset < 0
