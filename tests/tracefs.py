"""The files of the kernel's tracer, mounted for a long run where the machine has not: for its processes alone."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

PLACE: Final = Path("/sys/kernel/tracing")

_CLONE_NEWNS: Final = 0x20000  # see sched.h
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000  # see mount.h


def mount() -> None:
    """Mount them in a mount namespace of this process; where that may not be, the tests that trace are skipped."""
    if os.geteuid() != 0 or not PLACE.is_dir() or (PLACE / "instances").is_dir():
        return
    libc = ctypes.CDLL(None)
    if libc.unshare(_CLONE_NEWNS) == 0 and libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) == 0:
        libc.mount(b"tracefs", os.fsencode(PLACE), b"tracefs", 0, None)
