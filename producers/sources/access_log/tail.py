"""Follows growing files by name, through rotation and truncation, by polling.

The state of a file is its inode, its offset, and its first bytes. So a file is recognized after a rename (`create` of
logrotate, `kill -USR1`). A truncation is detected even if the file has grown beyond its old length since. A file is not
confused with another one that has its inode now. A renamed file is read to its end as long as a program may still write
to it. After a copy and a truncation (`copytruncate`), the copy is found by its first bytes and read from the offset of
the original. Compressed files are skipped.

Some lines are lost to any reader. Lines written between the copy and the truncation are lost for the server, too. Lines
that were rotated away and compressed or deleted while no program followed them are lost, which is reported.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.producers.sources.access_log.positions import HEAD_BYTES, Identity, Position, digest
from laggard.producers.sources.access_log.rotation import (
    FLAGS,
    LONGEST_LINE,
    begins_as,
    beside,
    copies_of,
    is_at,
    last_line_end,
    matching,
    rotated,
)
from laggard.producers.sources.performance import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

BUDGET_BYTES: Final = 4 << 20
"""The most bytes that one call reads, so that intervals are published during a long catch-up."""

LINGER_S: Final = 300.0
"""The seconds for which a renamed file without growth is followed: workers that end gracefully still write to it."""

MAX_FILES: Final = 256
"""The most files that are followed at once."""

_REMEMBERED: Final = 64


class Block(NamedTuple):
    """Whole lines of a file.

    Attributes:
        file: their file.
        offset: the offset at which they begin, in bytes.
        lines: each with its end.
        known: whether an earlier program read them.

    """

    file: Followed
    offset: int
    lines: bytes
    known: bool


class Tailed(NamedTuple):
    """The new content of all files.

    Attributes:
        blocks: in the order for parsing.
        troubles: the present troubles.
        expected: the number of names and patterns.
        found: the number of these with a readable file.
        files: the number of followed files, renamed ones included.
        skipped: the number of lines that were too long.
        more: whether there is more to read at once.

    """

    blocks: Sequence[Block]
    troubles: Sequence[Trouble]
    expected: int
    found: int
    files: int
    skipped: int
    more: bool


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
        kept = digest(self.head)
        return Position(self.path, *self.identity, self.safe_offset(until), self.offset, len(self.head), kept)

    def close(self) -> None:
        """Close it."""
        os.close(self.descriptor)


class Tail:
    """Follows files.

    Args:
        paths: names, and patterns as in a shell.
        positions: the positions at which to resume.
        known: the paths that had been followed. A file that another path leads to at the first call is read from its
            end; later ones from their beginning.

    """

    def __init__(self, paths: Sequence[str], positions: Sequence[Position] = (), known: Iterable[str] = ()) -> None:
        self._paths = tuple(paths)
        self._positions = tuple(positions)
        self._known = frozenset(known)
        self._files: dict[Identity, Followed] = {}
        self._done: dict[Identity, bytes] = {}  # the first bytes of renamed files that were read to their end
        self._begun = False
        self._troubles: list[Trouble] = []
        self._skipped = 0

    @property
    def files(self) -> Sequence[Followed]:
        """All followed files."""
        return tuple(self._files.values())

    def read(self, ts: float) -> Tailed:
        """Read the content since the last call. `ts` is the present time."""
        self._troubles, self._skipped = [], 0
        if not self._begun:
            self._resume()
        for file in self.files:
            file.named = False
            self._check(file)
        found = sum(self._find(path) for path in self._paths)
        self._begun = True
        blocks = list(self._blocks())
        more = not all(file.exhausted for file in self._files.values())
        followed = len(self._files)
        for file in self.files:
            blocks.extend(self._retire(file, ts))
        return Tailed(blocks, self._troubles, len(self._paths), found, followed, self._skipped, more)

    def close(self) -> None:
        """Close all files."""
        for file in self.files:
            self._forget(file)

    def _resume(self) -> None:
        """Resume where an earlier program was."""
        for position in self._positions:
            if any(fnmatch.fnmatchcase(position.path, path) or position.path == path for path in self._paths):
                self._resume_one(position)

    def _resume_one(self, position: Position) -> None:
        """Follow a file that was read before, whatever its name now, or a copy of its former content."""
        paths = [position.path, *(entry.path for entry in beside(position.path))]
        own = [path for path in paths if is_at(path, position)]
        restored = [position.path] if position.head_bytes and begins_as(position.path, position) else []
        copies = [path for path in (*restored, *copies_of(position)) if path not in own]
        for path in (*own, *copies):
            file = self._open(path, position.offset, position.read, called=position.path)
            if file is None:
                continue
            if os.fstat(file.descriptor).st_size >= position.offset and self._add(file):
                return
            file.close()
        self._report(
            position.path,
            f"cannot find the rest of the file that was read to offset {position.offset:,}: it was rotated and "
            "compressed or deleted, or it was truncated",
            lasting=False,
        )

    def _check(self, file: Followed) -> None:
        """Detect that it was truncated, or that another file was written over it."""
        now = os.fstat(file.descriptor)
        looked = now.st_size, now.st_mtime_ns
        if looked == file.looked:
            return
        file.looked, file.still_since = looked, None
        head = os.pread(file.descriptor, HEAD_BYTES, 0)
        if now.st_size >= file.offset and head.startswith(file.head):
            file.head = head
            return
        position = Position(file.path, *file.identity, file.offset, file.offset, len(file.head), digest(file.head))
        file.offset = file.seen = 0
        file.head, file.passed_over = head, 0
        self._take_rest(position, file)

    def _take_rest(self, position: Position, truncated: Followed) -> None:
        """Read the rest of a truncated file from its copy."""
        pending, truncated.pending = truncated.pending, deque()
        for path in copies_of(position):
            file = self._open(path, position.offset, called=position.path)
            if file is None:
                continue
            if os.fstat(file.descriptor).st_size >= position.offset and self._add(file):
                # After a restart, lines in unpublished intervals are read again from the copy.
                file.pending, file.last_ts = pending, truncated.last_ts
                return
            file.close()

    def _find(self, path: str) -> bool:
        """Follow the files of a name or a pattern; return whether one of them is readable."""
        found = [self._find_one(name, path) for name in matching(path)]
        if not found:
            self._report(path, "no file matches this pattern")
        return any(found)

    def _find_one(self, name: str, path: str) -> bool:
        try:
            now = Path(name).stat()
        except OSError as error:
            self._report(name, f"cannot be read: {error.strerror}")
            return False
        known = self._files.get(Identity(now.st_dev, now.st_ino))
        if known is None:
            return self._find_new(name, begun_at_end=not self._begun and path not in self._known)
        known.named, known.path = True, name
        return True

    def _find_new(self, name: str, *, begun_at_end: bool) -> bool:
        """Follow a file that is new under any name; return whether it is readable."""
        file = self._open(name, 0)
        if file is None:
            return False
        if self._copied(file):
            file.close()  # its original may be truncated next; then the rest of the copy is read
            return True
        if begun_at_end:
            file.offset = last_line_end(file.descriptor)
        for other in self.files:
            if other.path == name:
                self._take_between(other, file)
        if not self._add(file):
            file.close()
            return False
        return True

    def _take_between(self, left: Followed, current: Followed) -> None:
        """Follow the files that had a file's name after it and before the present one."""
        begun = os.fstat(left.descriptor).st_mtime_ns
        between: list[tuple[int, Followed]] = []
        for name in rotated(left.path):
            file = self._open(name, 0, called=left.path)
            if file is None:
                continue
            now = os.fstat(file.descriptor)
            known = file.identity in self._files or file.identity == current.identity
            if now.st_mtime_ns <= begun or known or self._copied(file) or self._done.get(file.identity) == file.head:
                file.close()
                continue
            between.append((now.st_mtime_ns, file))
        for _, file in sorted(between, key=lambda each: each[0]):
            if not self._add(file):
                file.close()

    def _copied(self, file: Followed) -> bool:
        """Return whether it begins like a file that is already followed."""
        return bool(file.head) and any(other.head.startswith(file.head) for other in self.files)

    def _open(self, path: str, offset: int, seen: int = 0, called: str = "") -> Followed | None:
        """Open a file at an offset, under its own name or its former one; None if it is unreadable."""
        try:
            descriptor = os.open(path, FLAGS)
        except OSError as error:
            self._report(path, f"cannot be read: {error.strerror}")
            return None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            self._report(path, "expected a regular file")
            return None
        return Followed(called or path, descriptor, offset, seen)

    def _add(self, file: Followed) -> bool:
        if file.identity in self._files:
            return False
        if len(self._files) >= MAX_FILES:
            self._report(file.path, f"not followed: the limit is {MAX_FILES} files")
            return False
        self._files[file.identity] = file
        return True

    def _blocks(self) -> Iterator[Block]:
        """Yield the new lines, first of the file that is furthest behind, so that none gets far ahead of the others."""
        left = BUDGET_BYTES
        for file in sorted(self.files, key=lambda each: -1.0 if each.last_ts is None else each.last_ts):
            file.exhausted = file.looked[0] <= file.offset
            while not file.exhausted and left > 0:
                wanted = self._wanted(file)
                try:
                    data = os.pread(file.descriptor, wanted, file.offset + file.passed_over)
                except OSError as error:
                    self._report(file.path, f"cannot be read: {error.strerror}")
                    file.exhausted = True
                    break
                left -= len(data)
                file.exhausted = len(data) < wanted
                if lines := self._lines(file, data, wanted):
                    yield Block(file, file.offset, lines, file.offset < file.seen)
                    file.offset += len(lines)

    def _wanted(self, file: Followed) -> int:
        """Return the size of the next read. Lines that an earlier program read end with a block."""
        return min(LONGEST_LINE, file.seen - file.offset) if file.offset < file.seen else LONGEST_LINE

    def _lines(self, file: Followed, data: bytes, wanted: int) -> bytes:
        """Return the whole lines of the data; none if it ends within its first one."""
        if file.passed_over:
            end = data.find(b"\n") + 1
            file.passed_over += end or len(data)
            if end:
                file.offset += file.passed_over
                file.passed_over, file.exhausted = 0, False
            return b""
        lines = data[: data.rfind(b"\n") + 1]
        if not lines and len(data) == wanted:
            if wanted < LONGEST_LINE:
                file.seen = 0  # it was written again since; the next read is longer
            else:
                self._skipped += 1
                self._report(
                    f"{file.path}:{file.offset}", f"expected a line of at most {LONGEST_LINE:,} bytes", lasting=False
                )
                file.passed_over = len(data)
        return lines

    def _retire(self, file: Followed, ts: float) -> Iterator[Block]:
        """Leave a renamed file that no longer grows; its last line may lack its end."""
        if file.named or not file.exhausted:
            file.still_since = None
            return
        if file.still_since is None:
            file.still_since = ts
        if ts - file.still_since < LINGER_S:
            return
        rest = b"" if file.passed_over else os.pread(file.descriptor, LONGEST_LINE, file.offset)
        if rest:
            yield Block(file, file.offset, rest + b"\n", known=False)
            file.offset += len(rest)
        elif not file.pending:
            self._forget(file)
            self._done[file.identity] = file.head
            if len(self._done) > _REMEMBERED:
                self._done.pop(next(iter(self._done)))

    def _forget(self, file: Followed) -> None:
        file.close()
        del self._files[file.identity]

    def _report(self, place: str, told: str, *, lasting: bool = True) -> None:
        self._troubles.append(Trouble(place, told, lasting))
