"""What others control, read within bounds: texts and folders below /proc, and files of other processes.

A process decides how long its command line is, how much it has mapped and opened, and what lies at a path below its own
root: a link, a pipe, a device. Whoever reads such things reads them here.

Source: proc(5), openat2(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from itertools import islice
from typing import Final

TEXT_BYTES: Final = 1 << 16
"""So much of a text is read, if nobody asks for more or less."""

ENTRIES: Final = 1 << 16
"""So many entries of a folder are read, likewise."""

# Opening a pipe must not wait, opening a terminal must not make it ours.
_READING: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK: Final = 1 << 16

_OPENAT2: Final = 437  # of all architectures
_NO_MAGIC_LINKS, _NO_LINKS, _IN_ROOT = 0x02, 0x04, 0x10
_MISSING: Final = {errno.ENOSYS, errno.EPERM}  # kernels before 5.6; sandboxes that do not know it


class _How(ctypes.Structure):
    """`struct open_how` of include/uapi/linux/openat2.h."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_How), ctypes.c_size_t]
_syscall.restype = ctypes.c_long


def content(path: str, most: int = TEXT_BYTES) -> bytes:
    """The beginning of a file, stripped: at most so many bytes; empty where it cannot be read."""
    try:
        return head(path, most).strip()
    except OSError:
        return b""


def head(path: str, most: int = TEXT_BYTES) -> bytes:
    """The beginning of a file: at most so many bytes.

    Raises:
        OSError: it cannot be read.

    """
    descriptor = reading(path)
    try:
        return read(descriptor, most)
    finally:
        os.close(descriptor)


def lines(path: str, most: int) -> bytes:
    """The whole lines among the first bytes of a file: at most so many bytes.

    Raises:
        OSError: it cannot be read.

    """
    text = head(path, most)
    return text[: text.rfind(b"\n") + 1] if len(text) == most else text


def reading(path: str) -> int:
    """Open a file for reading without waiting for it, as for the other end of a pipe. The caller closes it.

    Raises:
        OSError: it cannot be opened.

    """
    return os.open(path, _READING)


def read(descriptor: int, most: int) -> bytes:
    """Read at most so many bytes, from where the descriptor is. The kernel gives long texts in pieces."""
    parts, left = [], most
    while left > 0 and (part := os.read(descriptor, min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def names(path: str, most: int = ENTRIES) -> list[str]:
    """The names in a folder: at most so many.

    Raises:
        OSError: it cannot be read.

    """
    with os.scandir(path) as entries:
        return [entry.name for entry in islice(entries, most)]


def folders(path: str, most: int = ENTRIES) -> list[str]:
    """The paths of the folders in a folder, without links: those among so many entries.

    Raises:
        OSError: it cannot be read.

    """
    with os.scandir(path) as entries:
        return [entry.path for entry in islice(entries, most) if entry.is_dir(follow_symlinks=False)]


def link(path: str) -> str:
    """Where a link leads: the kernel bounds that.

    Raises:
        OSError: it cannot be read, or is no link.

    """
    return os.readlink(path)  # noqa: PTH115 - a text, no path


def opened(process: str, path: str, uid: int) -> int:
    """Open a regular file below the root of a process, as its own user may: what a link there names is not opened.

    Args:
        process: its folder below procfs.
        path: of the file, as the process sees it, without links.
        uid: the user of the process. A file that is not theirs has to be readable for all.

    Returns:
        A descriptor, open for reading, which the caller closes.

    Raises:
        OSError: there is none; there is something else; the kernel has no openat2(2), without which nothing is opened.

    """
    root = os.open(f"{process}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = _openat2(root, path, _IN_ROOT | _NO_LINKS | _NO_MAGIC_LINKS)
    finally:
        os.close(root)
    return _regular(found, path, uid)


def folder(root: int, path: str) -> int:
    """Open a folder below an open one, which is the root of all links and of `..` on the way.

    Returns:
        A descriptor that only points to it, which the caller closes.

    Raises:
        OSError: as `opened`.

    """
    return _openat2(root, path, _IN_ROOT | _NO_MAGIC_LINKS)


def mapped(process: str, begin: int, end: int) -> int:
    """Open the file that a process has mapped from one address to another, whatever lies at its path today.

    Returns:
        A descriptor, open for reading, which the caller closes.

    Raises:
        OSError: there is none, it is no regular file, or the rights for it are missing (CAP_CHECKPOINT_RESTORE).

    """
    path = f"{process}/map_files/{begin:x}-{end:x}"
    return _regular(os.open(path, os.O_PATH | os.O_CLOEXEC), path)


def program(process: str) -> int:
    """Open the program that a process executes; otherwise as `mapped`."""
    path = f"{process}/exe"
    return _regular(os.open(path, os.O_PATH | os.O_CLOEXEC), path)


def _openat2(folder: int, path: str, resolve: int) -> int:
    how = _How(os.O_PATH | os.O_CLOEXEC, 0, resolve)
    found = _syscall(_OPENAT2, folder, os.fsencode(path.lstrip("/")), ctypes.byref(how), ctypes.sizeof(how))
    if found < 0:
        number = ctypes.get_errno()
        told = "the kernel has no openat2(2), or a sandbox forbids it" if number in _MISSING else os.strerror(number)
        raise OSError(number, told, path)
    return int(found)


def _regular(place: int, path: str, uid: int | None = None) -> int:
    """Open what a descriptor only points to, and close that. A device would do something when it is opened."""
    try:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "expected a regular file", path)
        if uid is not None and status.st_uid != uid and not status.st_mode & stat.S_IROTH:
            raise PermissionError(errno.EACCES, f"expected a file that user {uid} may read", path)
        return reading(f"/proc/self/fd/{place}")
    finally:
        os.close(place)
