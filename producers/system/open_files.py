"""Files below /proc that stay open and are read in place, within a budget of descriptors."""

from __future__ import annotations

import errno
import os
import resource

_RESERVED = 256  # descriptors left to the rest of the program
BUFFER = 4096
"""The size of one read, in bytes; a longer file needs several."""

_MAX_SIZE = 1 << 20
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def out_of_descriptors(error: Exception) -> bool:
    """Return whether this error is a shortage of descriptors."""
    return isinstance(error, OSError) and error.errno in _OUT_OF_DESCRIPTORS


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one, and return the number of files that may stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # a sandbox may forbid it: the present limit stays
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 20
    return max(0, soft - _RESERVED)


class FileBudget:
    """A budget of open files. Beyond it, files are opened, read and closed.

    Reading an open file of an ended process raises `ProcessLookupError` (ESRCH), even if its pid is in use again. There
    is no such protection beyond the budget.

    Attributes:
        limit: the most files that stay open.
        held: the number of files that are open.

    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def read(self, descriptors: list[int], which: int, path: str) -> bytes:
        """Read the file of `descriptors[which]`. If that is -1, open it, and store the descriptor within the budget."""
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
        """Return the size of a file or directory. It is opened with `O_PATH`, which needs no right to read it."""
        descriptor = self.open(descriptors, which, path, os.O_PATH)
        try:
            return os.fstat(descriptor).st_size
        finally:
            if descriptors[which] < 0:
                os.close(descriptor)

    def open(self, descriptors: list[int], which: int, path: str, flags: int) -> int:
        """Open a file and store its descriptor in `descriptors` within the budget; otherwise the caller closes it."""
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        if self.held < self.limit:
            self.held += 1
            descriptors[which] = descriptor
        return descriptor

    def release(self, descriptors: list[int]) -> None:
        """Close the open ones of these descriptors."""
        for which in range(len(descriptors)):
            self.release_one(descriptors, which)

    def release_one(self, descriptors: list[int], which: int) -> None:
        """Close one of them if it is open."""
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
