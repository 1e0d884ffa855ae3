"""The followed files of a log."""

from __future__ import annotations

import os
import stat
from collections import deque
from typing import TYPE_CHECKING, Final

from laggard.producers.sources.access_log.positions import HEAD_BYTES, Identity, Position, digest
from laggard.producers.sources.access_log.rotation import FLAGS
from laggard.producers.sources.performance import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILES: Final = 256
"""The most files that are followed at once."""

_REMEMBERED: Final = 64


class Followed:
    """One followed file.

    Attributes:
        path: the name by which it was found.
        identity: its device and inode.
        offset: the offset up to which it was read, in bytes; the beginning of a line.
        passed_over: the number of bytes of that line that were skipped, if it is too long.
        seen: the offset up to which an earlier program read it.
        exhausted: whether all whole lines of the last poll were read.
        last_ts: the end of the latest request that was read from it; None before the first.
        pending: offsets from which lines have requests in unpublished intervals, each with the end of the last of these
            intervals; in the order of offsets. Maintained by the parsing source.
        named: whether a path still leads to it.
        head: its first bytes.
        looked: its size and the time of its last change, at the last poll.
        still_since: the time since which it has another name and has not grown; None otherwise.

    """

    def __init__(self, path: str, descriptor: int, offset: int, seen: int = 0) -> None:
        self.path = path
        self.descriptor = descriptor
        found = os.fstat(descriptor)
        self.identity = Identity(found.st_dev, found.st_ino)
        self.offset = offset
        self.seen = seen
        self.exhausted = False
        self.named = True
        self.last_ts: float | None = None
        self.pending: deque[tuple[int, float]] = deque()
        self.head = os.pread(descriptor, HEAD_BYTES, 0)
        self.passed_over = 0
        self.looked = found.st_size, found.st_mtime_ns
        self.still_since: float | None = None

    def safe_offset(self, until: float) -> int:
        """Return the offset before which all requests are in intervals that end at or before a time."""
        while self.pending and self.pending[0][1] <= until:
            self.pending.popleft()
        return self.pending[0][0] if self.pending else self.offset

    def position(self, until: float) -> Position:
        """Return its position, given the end of the last published interval."""
        head_digest = digest(self.head)
        return Position(self.path, *self.identity, self.safe_offset(until), self.offset, len(self.head), head_digest)

    def close(self) -> None:
        """Close it."""
        os.close(self.descriptor)


class FollowedFiles:
    """All followed files of a `Tail`, and its renamed ones that were read to their end.

    Attributes:
        troubles: the troubles of the present or last poll; `Tail.read` begins a new list.

    """

    def __init__(self) -> None:
        self.troubles: list[Trouble] = []
        self._files: dict[Identity, Followed] = {}
        self._done: dict[Identity, bytes] = {}  # their first bytes

    def __iter__(self) -> Iterator[Followed]:
        """Yield those that are followed now, even if files are added or removed meanwhile."""
        return iter(tuple(self._files.values()))

    def __len__(self) -> int:
        return len(self._files)

    def get(self, identity: Identity) -> Followed | None:
        """Return the file with this identity, if it is followed."""
        return self._files.get(identity)

    def copied(self, file: Followed) -> bool:
        """Return whether it begins like a file that is already followed."""
        return bool(file.head) and any(other.head.startswith(file.head) for other in self._files.values())

    def open(self, path: str, offset: int, seen: int = 0, called: str = "") -> Followed | None:
        """Open a file at an offset, under its own name or its former one; None if it is unreadable."""
        try:
            descriptor = os.open(path, FLAGS)
        except OSError as error:
            self.report(path, f"cannot be read: {error.strerror}")
            return None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            self.report(path, "expected a regular file")
            return None
        return Followed(called or path, descriptor, offset, seen)

    def add(self, file: Followed) -> bool:
        """Follow a file; return whether it is new, and not one too many."""
        if file.identity in self._files:
            return False
        if len(self._files) >= MAX_FILES:
            self.report(file.path, f"not followed: the limit is {MAX_FILES} files")
            return False
        self._files[file.identity] = file
        return True

    def remove(self, file: Followed) -> None:
        """Close a file and no longer follow it."""
        file.close()
        del self._files[file.identity]

    def finish(self, file: Followed) -> None:
        """Remove a renamed file that was read to its end."""
        self.remove(file)
        self._done[file.identity] = file.head
        if len(self._done) > _REMEMBERED:
            self._done.pop(next(iter(self._done)))

    def finished(self, file: Followed) -> bool:
        """Return whether this file was read to its end before."""
        return self._done.get(file.identity) == file.head

    def report(self, place: str, told: str, *, lasting: bool = True) -> None:
        """Report a trouble."""
        self.troubles.append(Trouble(place, told, lasting))
