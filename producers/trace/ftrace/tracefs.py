"""The kernel's tracer as files below tracefs: laggard's names there, mounts, and errors that say what is needed.

Source: ftrace.rst of Documentation/trace of Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.ftrace.formats import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACEFS: Final = Path("/sys/kernel/tracing")

PREFIX: Final = "laggard-"
"""The names of laggard's instances begin with this."""

GROUP: Final = "laggard_"
"""The groups of laggard's probes begin with this, and end as the names of their instances do."""

LEAST_BUFFER_KIB: Final = 64
"""The smallest buffer of a CPU, in KiB. The kernel keeps less than this when it frees the buffers of an instance."""

_MS_BIND, _MNT_DETACH = 0x1000, 2  # <linux/mount.h>, <sys/mount.h>


class TracingError(OSError):
    """The kernel's tracer cannot be used; the text names the operation that failed and what it needs."""

    def __str__(self) -> str:
        """Return the text, without the number of the error."""
        return self.strerror or super().__str__()


def mount_file(source: Path, target: Path) -> None:
    """Mount a file at another, by which programs find it."""
    _called(_libc().mount(os.fsencode(source), os.fsencode(target), None, _MS_BIND, None))


def unmount(path: Path) -> None:
    """Unmount what is mounted at a path, also while programs have it open."""
    _called(_libc().umount2(os.fsencode(path), _MNT_DETACH))


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
    return libc


def _called(result: int) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def append(path: Path, text: str) -> None:
    """Append a line to a file that the kernel reads as commands."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, text.encode() + b"\n")
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn an error of the system into a `TracingError` that tells what failed and what it needs."""
    try:
        yield
    except FormatError:
        raise
    except OSError as error:
        if isinstance(error, TracingError):
            raise
        needs = {
            errno.ENOENT: "tracefs is not mounted there, or this kernel does not have it",
            errno.EACCES: "only root may trace",
            errno.EPERM: "tracing is forbidden here (lockdown, or a container without the right)",
            errno.EROFS: "tracefs is mounted read-only",
            errno.ENOMEM: "there is not enough memory for the buffers",
        }.get(error.errno or 0, error.strerror or str(error))
        raise TracingError(error.errno or errno.EIO, f"{what}: {needs}") from error
