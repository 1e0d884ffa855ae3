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
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from laggard.producers.sources.access_log.blocks import Block, Blocks
from laggard.producers.sources.access_log.followed import Followed, FollowedFiles
from laggard.producers.sources.access_log.positions import HEAD_BYTES, Identity, Position, digest
from laggard.producers.sources.access_log.rotation import (
    begins_as,
    beside,
    copies_of,
    is_at,
    last_line_end,
    matching,
    rotated,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.producers.sources.performance import Trouble


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
        self._files = FollowedFiles()
        self._blocks = Blocks(self._files)
        self._begun = False

    @property
    def files(self) -> Sequence[Followed]:
        """All followed files."""
        return tuple(self._files)

    def read(self, ts: float) -> Tailed:
        """Read the content since the last call. `ts` is the present time."""
        self._files.troubles = []
        if not self._begun:
            self._resume()
        for file in self._files:
            file.named = False
            self._check(file)
        found = sum(self._find(path) for path in self._paths)
        self._begun = True
        blocks = list(self._blocks.read())
        more = not all(file.exhausted for file in self._files)
        followed = len(self._files)
        for file in self._files:
            blocks.extend(self._blocks.retire(file, ts))
        return Tailed(blocks, self._files.troubles, len(self._paths), found, followed, self._blocks.skipped, more)

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            self._files.remove(file)

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
            file = self._files.open(path, position.offset, position.read, called=position.path)
            if file is None:
                continue
            if os.fstat(file.descriptor).st_size >= position.offset and self._files.add(file):
                return
            file.close()
        self._files.report(
            position.path,
            f"cannot find the rest of the file that was read to offset {position.offset:,}: it was rotated and "
            "compressed or deleted, or it was truncated",
            lasting=False,
        )

    def _check(self, file: Followed) -> None:
        """Detect that it was truncated, or that another file was written over it."""
        now = os.fstat(file.descriptor)
        state = now.st_size, now.st_mtime_ns
        if state == file.looked:
            return
        file.looked, file.still_since = state, None
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
            file = self._files.open(path, position.offset, called=position.path)
            if file is None:
                continue
            if os.fstat(file.descriptor).st_size >= position.offset and self._files.add(file):
                # After a restart, lines in unpublished intervals are read again from the copy.
                file.pending, file.last_ts = pending, truncated.last_ts
                return
            file.close()

    def _find(self, path: str) -> bool:
        """Follow the files of a name or a pattern; return whether one of them is readable."""
        found = [self._find_one(name, path) for name in matching(path)]
        if not found:
            self._files.report(path, "no file matches this pattern")
        return any(found)

    def _find_one(self, name: str, path: str) -> bool:
        try:
            now = Path(name).stat()
        except OSError as error:
            self._files.report(name, f"cannot be read: {error.strerror}")
            return False
        known = self._files.get(Identity(now.st_dev, now.st_ino))
        if known is None:
            return self._find_new(name, begun_at_end=not self._begun and path not in self._known)
        known.named, known.path = True, name
        return True

    def _find_new(self, name: str, *, begun_at_end: bool) -> bool:
        """Follow a file that is new under any name; return whether it is readable."""
        file = self._files.open(name, 0)
        if file is None:
            return False
        if self._files.copied(file):
            file.close()  # its original may be truncated next; then the rest of the copy is read
            return True
        if begun_at_end:
            file.offset = last_line_end(file.descriptor)
        for other in self._files:
            if other.path == name:
                self._take_between(other, file)
        if not self._files.add(file):
            file.close()
            return False
        return True

    def _take_between(self, left: Followed, current: Followed) -> None:
        """Follow the files that had a file's name after it and before the present one."""
        begun = os.fstat(left.descriptor).st_mtime_ns
        between: list[tuple[int, Followed]] = []
        for name in rotated(left.path):
            file = self._files.open(name, 0, called=left.path)
            if file is None:
                continue
            now = os.fstat(file.descriptor)
            known = self._files.get(file.identity) is not None or file.identity == current.identity
            if now.st_mtime_ns <= begun or known or self._files.copied(file) or self._files.finished(file):
                file.close()
                continue
            between.append((now.st_mtime_ns, file))
        for _, file in sorted(between, key=lambda each: each[0]):
            if not self._files.add(file):
                file.close()
