"""Bounded reading of what others control: texts and directories below /proc, and files of other processes.

A process decides the length of its command line, and the number of its mappings and open files. It also decides what is
at a path below its own root: a link, a pipe, a device. All such reads use this module.

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
"""The default limit of a text, in bytes."""

ENTRIES: Final = 1 << 16
"""The default limit of the entries of a directory."""

# Opening a pipe must not block, and a terminal must not become laggard's controlling terminal.
_READING: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK: Final = 1 << 16

_OPENAT2: Final = 437  # on all architectures
_NO_MAGIC_LINKS, _NO_LINKS, _IN_ROOT = 0x02, 0x04, 0x10
_MISSING: Final = {errno.ENOSYS, errno.EPERM}  # kernels before 5.6; sandboxes that do not know it


class _How(ctypes.Structure):
    """`struct open_how` of include/uapi/linux/openat2.h."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_How), ctypes.c_size_t]
_syscall.restype = ctypes.c_long


def content(path: str, most: int = TEXT_BYTES) -> bytes:
    """Return the first `most` bytes of a file, stripped; nothing if it is unreadable."""
    try:
        return head(path, most).strip()
    except OSError:
        return b""


def head(path: str, most: int = TEXT_BYTES) -> bytes:
    """Return the first `most` bytes of a file.

    Raises:
        OSError: it is unreadable.

    """
    descriptor = reading(path)
    try:
        return read(descriptor, most)
    finally:
        os.close(descriptor)


def lines(path: str, most: int) -> bytes:
    """Return the whole lines among the first `most` bytes of a file.

    Raises:
        OSError: it is unreadable.

    """
    text = head(path, most)
    return text[: text.rfind(b"\n") + 1] if len(text) == most else text


def reading(path: str) -> int:
    """Open a file for reading, without waiting for the writer of a pipe. The caller closes it.

    Raises:
        OSError: it cannot be opened.

    """
    return os.open(path, _READING)


def read(descriptor: int, most: int) -> bytes:
    """Read at most `most` bytes from the position of a descriptor. The kernel returns long texts in pieces."""
    parts, left = [], most
    while left > 0 and (part := os.read(descriptor, min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def names(path: str, most: int = ENTRIES) -> list[str]:
    """Return at most `most` names in a directory.

    Raises:
        OSError: it is unreadable.

    """
    with os.scandir(path) as entries:
        return [entry.name for entry in islice(entries, most)]


def folders(path: str, most: int = ENTRIES) -> list[str]:
    """Return the paths of the directories, not links, among the first `most` entries of a directory.

    Raises:
        OSError: it is unreadable.

    """
    with os.scandir(path) as entries:
        return [entry.path for entry in islice(entries, most) if entry.is_dir(follow_symlinks=False)]


def link(path: str) -> str:
    """Return the target of a link, whose length the kernel limits.

    Raises:
        OSError: it is unreadable or no link.

    """
    return os.readlink(path)  # noqa: PTH115 - a text, no path


def opened(process: str, path: str, uid: int) -> int:
    """Open a regular file below the root of a process, with the rights of its user. Links are not followed.

    Args:
        process: its directory in procfs.
        path: the path of the file as the process sees it, without links.
        uid: the user of the process. A file of another user has to be readable by all.

    Returns:
        A descriptor, open for reading, which the caller closes.

    Raises:
        OSError: no regular file is there, the user may not read it, or the kernel has no openat2(2), which is required.

    """
    root = os.open(f"{process}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = _openat2(root, path, _IN_ROOT | _NO_LINKS | _NO_MAGIC_LINKS)
    finally:
        os.close(root)
    return _regular(found, path, uid)


def folder(root: int, path: str) -> int:
    """Open a directory below an open one, which is the root of all links and of `..` on the way.

    Returns:
        A descriptor with `O_PATH`, which the caller closes.

    Raises:
        OSError: there is no directory, or the kernel has no openat2(2).

    """
    return _openat2(root, path, _IN_ROOT | _NO_MAGIC_LINKS, os.O_DIRECTORY)


def mapped(process: str, begin: int, end: int) -> int:
    """Open the file that a process has mapped at an address range, whatever is at its path now.

    Returns:
        A descriptor, open for reading, which the caller closes.

    Raises:
        OSError: there is none, it is no regular file, or the rights are missing (CAP_CHECKPOINT_RESTORE).

    """
    path = f"{process}/map_files/{begin:x}-{end:x}"
    return _regular(os.open(path, os.O_PATH | os.O_CLOEXEC), path)


def program(process: str) -> int:
    """Open the executable of a process; otherwise as `mapped`."""
    path = f"{process}/exe"
    return _regular(os.open(path, os.O_PATH | os.O_CLOEXEC), path)


def _openat2(folder: int, path: str, resolve: int, kind: int = 0) -> int:
    how = _How(os.O_PATH | os.O_CLOEXEC | kind, 0, resolve)
    found = _syscall(_OPENAT2, folder, os.fsencode(path.lstrip("/")), ctypes.byref(how), ctypes.sizeof(how))
    if found < 0:
        number = ctypes.get_errno()
        reason = "the kernel has no openat2(2), or a sandbox forbids it" if number in _MISSING else os.strerror(number)
        raise OSError(number, reason, path)
    return int(found)


def _regular(place: int, path: str, uid: int | None = None) -> int:
    """Open the regular file of a descriptor with `O_PATH`, and close that. Opening a device would have effects."""
    try:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "expected a regular file", path)
        if uid is not None and status.st_uid != uid and not status.st_mode & stat.S_IROTH:
            raise PermissionError(errno.EACCES, f"expected a file that user {uid} may read", path)
        return reading(f"/proc/self/fd/{place}")
    finally:
        os.close(place)
