"""Reads the new lines of followed files, in blocks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.producers.sources.access_log.rotation import LONGEST_LINE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.producers.sources.access_log.followed import Followed, FollowedFiles

BUDGET_BYTES: Final = 4 << 20
"""The most bytes that one call reads, so that intervals are published during a long catch-up."""

LINGER_S: Final = 300.0
"""The seconds for which a renamed file without growth is followed: workers that end gracefully still write to it."""


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


class Blocks:
    """The new lines of followed files.

    Args:
        files: the files.

    Attributes:
        skipped: the number of lines of the last poll that were too long.

    """

    def __init__(self, files: FollowedFiles) -> None:
        self.skipped = 0
        self._files = files

    def read(self) -> Iterator[Block]:
        """Yield the new lines, first of the file that is furthest behind, so that none gets far ahead of the others."""
        self.skipped = 0
        left = BUDGET_BYTES
        for file in sorted(self._files, key=lambda each: -1.0 if each.last_ts is None else each.last_ts):
            file.exhausted = file.looked[0] <= file.offset
            while not file.exhausted and left > 0:
                # Lines that an earlier program read end with a block.
                wanted = min(LONGEST_LINE, file.seen - file.offset) if file.offset < file.seen else LONGEST_LINE
                try:
                    data = os.pread(file.descriptor, wanted, file.offset + file.passed_over)
                except OSError as error:
                    self._files.report(file.path, f"cannot be read: {error.strerror}")
                    file.exhausted = True
                    break
                left -= len(data)
                file.exhausted = len(data) < wanted
                if lines := self._lines(file, data, wanted):
                    yield Block(file, file.offset, lines, file.offset < file.seen)
                    file.offset += len(lines)

    def retire(self, file: Followed, ts: float) -> Iterator[Block]:
        """Yield the last line of a renamed file that no longer grows; without one, stop following the file."""
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
            self._files.finish(file)

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
                self.skipped += 1
                self._files.report(
                    f"{file.path}:{file.offset}", f"expected a line of at most {LONGEST_LINE:,} bytes", lasting=False
                )
                file.passed_over = len(data)
        return lines
