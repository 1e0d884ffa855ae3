"""Files below /proc that are kept open and read in place, as long as descriptors last."""

from __future__ import annotations

import errno
import os
import resource

_RESERVED = 256  # descriptors left to the rest of the program
BUFFER = 4096
"""Bytes that one read asks for; a longer file takes more of them."""

_MAX_SIZE = 1 << 20
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one, and return how many of them may be held for reading."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # a sandbox may forbid it: what there is must do
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 20
    return max(0, soft - _RESERVED)


class HeldFiles:
    """A budget of open files. Beyond it, files are opened, read and closed.

    An open file of a process that has ended answers ESRCH (`ProcessLookupError`), even if its pid is in use again; one
    that is not held open has no such protection.

    Attributes:
        limit: how many files may be held.
        held: how many are.

    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def read(self, descriptors: list[int], which: int, path: str) -> bytes:
        """Read the file whose descriptor is, or shall be, `descriptors[which]`; -1 stands for none."""
        descriptor = descriptors[which]
        if descriptor < 0:
            descriptor = self.open(descriptors, which, path, os.O_RDONLY)
        try:
            text = os.pread(descriptor, BUFFER, 0)
            return text if len(text) < BUFFER else _read_on(descriptor, text)
        finally:
            if descriptors[which] < 0:
                os.close(descriptor)

    def size(self, descriptors: list[int], which: int, path: str) -> int:
        """Size of a file or directory. It is opened for that only, which needs no right to read it."""
        descriptor = self.open(descriptors, which, path, os.O_PATH)
        try:
            return os.fstat(descriptor).st_size
        finally:
            if descriptors[which] < 0:
                os.close(descriptor)

    def open(self, descriptors: list[int], which: int, path: str, flags: int) -> int:
        """Open a file and, if the budget allows, note it in `descriptors`; else the caller closes it."""
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        if self.held < self.limit:
            self.held += 1
            descriptors[which] = descriptor
        return descriptor

    def release(self, descriptors: list[int]) -> None:
        """Close what is held there."""
        for which in range(len(descriptors)):
            self.release_one(descriptors, which)

    def release_one(self, descriptors: list[int], which: int) -> None:
        """Close one of them, if it is held."""
        descriptor = descriptors[which]
        if descriptor >= 0:
            os.close(descriptor)
            descriptors[which] = -1
            self.held -= 1


def _read_on(descriptor: int, text: bytes) -> bytes:
    """Read the rest of a file that is longer than the buffer."""
    parts, size = [text], len(text)
    while size < _MAX_SIZE and (part := os.pread(descriptor, BUFFER, size)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)
