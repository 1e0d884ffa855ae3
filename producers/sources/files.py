"""Recorded data: files of JSON lines, plain or compressed by gzip or Zstandard, and the standard input."""

from __future__ import annotations

import heapq
import sys
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, cast

import zstandard

from laggard.pipeline.core.records import RecordError
from laggard.pipeline.core.records.json_lines import read_line
from laggard.pipeline.core.records.limits import MAX_RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from io import BufferedIOBase
    from types import TracebackType

    from laggard.pipeline.core.records import Received

STDIN = "-"
CHUNK = 1 << 16
LONGEST_LINE = MAX_RECORD_BYTES
"""The longest line in bytes."""

COMPRESSED_CHUNK = 1 << 12
"""Small, because Zstandard may make 128 KiB of four bytes."""

GZIP = b"\x1f\x8b"
ZSTANDARD = b"\x28\xb5\x2f\xfd"


class Line(NamedTuple):
    """One line of a recording, without its end."""

    number: int
    text: bytes


class TooLong(NamedTuple):
    """The number of a line that is too long to be read, and its length in bytes."""

    number: int
    length: int


class Placed(NamedTuple):
    """A record and its place: `day.jsonl:17`."""

    place: str
    record: Received


class Decompressor(Protocol):
    """The common interface of zlib and zstandard."""

    @property
    def eof(self) -> bool:
        """Whether the end of a member was reached."""

    @property
    def unused_data(self) -> bytes:
        """The data after that end."""

    def decompress(self, data: bytes, /) -> bytes:
        """Return the next piece."""


class UnreadableError(Exception):
    """A recording, or the rest of one, cannot be read: where, and why."""


class Recording:
    """One file of JSON lines, read once from its beginning to its end.

    Attributes:
        name: as the user gave it; `-` is the standard input.
        size: its stored size in bytes; None if unknown, as for a pipe.
        bytes_read: the number of stored bytes that were read so far.

    """

    def __init__(self, name: str, stream: BufferedIOBase | None = None) -> None:
        """Open it.

        Args:
            name: a path, or `-`.
            stream: replaces the standard input.

        Raises:
            UnreadableError: it cannot be opened.

        """
        self.name = name
        self.size: int | None = None
        self.bytes_read = 0
        if name == STDIN:
            self._stream = stream or cast("BufferedIOBase", sys.stdin.buffer)
            return
        path = Path(name)
        try:
            self._stream = path.open("rb")
            self.size = path.stat().st_size if path.is_file() else None
        except OSError as error:
            raise UnreadableError(f"{name}: cannot be opened: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.name != STDIN:
            self._stream.close()

    def lines(self) -> Iterator[Line | TooLong]:
        """Yield every line that is not blank.

        Raises:
            UnreadableError: the data is cut off or damaged, or the device fails; all lines before were yielded.

        """
        number, pieces, length = 0, list[bytes](), 0
        try:
            for chunk in self._chunks():
                *ends, rest = chunk.split(b"\n")
                for end in ends:
                    number += 1
                    pieces.append(end)
                    yield from self._line(number, pieces, length + len(end))
                    pieces, length = [], 0
                length += len(rest)
                pieces.append(rest)
                if length > LONGEST_LINE:
                    pieces.clear()
            yield from self._line(number + 1, pieces, length)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise UnreadableError(f"{self.name}:{number + 1}: cannot be read further: {error}") from error

    def records(self, report: Callable[[str], None]) -> Iterator[Placed]:
        """Yield the record of each line; a line without one is reported, with its place and what was expected."""
        try:
            for line in self.lines():
                place = f"{self.name}:{line.number}"
                if isinstance(line, TooLong):
                    report(f"{place}: expected a line of at most {LONGEST_LINE:,} bytes, got {line.length:,}")
                    continue
                try:
                    record = read_line(line.text, place)
                except RecordError as error:
                    report(str(error))
                else:
                    yield Placed(place, record)
        except UnreadableError as error:
            report(str(error))

    def _line(self, number: int, pieces: Sequence[bytes], length: int) -> Iterator[Line | TooLong]:
        if length > LONGEST_LINE:
            yield TooLong(number, length)
            return
        text = b"".join(pieces)
        if number == 1:
            text = text.removeprefix(b"\xef\xbb\xbf")
        if text and not text.isspace():
            yield Line(number, text)

    def _read(self) -> bytes:
        """Read the next piece as stored, without waiting for more than there is."""
        data = self._stream.read1(CHUNK)
        self.bytes_read += len(data)
        return data

    def _chunks(self) -> Iterator[bytes]:
        """Yield the content, decompressed if its first bytes show that it is compressed."""
        head = self._stream.read(len(ZSTANDARD))
        self.bytes_read += len(head)
        opened: Callable[[], Decompressor]
        if head.startswith(GZIP):
            opened = partial(zlib.decompressobj, wbits=31)
        elif head.startswith(ZSTANDARD):
            opened = zstandard.ZstdDecompressor().decompressobj
        else:
            yield head
            while chunk := self._read():
                yield chunk
            return
        yield from self._decompressed(head, opened)

    def _decompressed(self, head: bytes, opened: Callable[[], Decompressor]) -> Iterator[bytes]:
        """Yield the content of all members of a compressed file, one after the other."""
        member = opened()
        data = head
        while data:
            if member.eof:
                member = opened()
            piece, data = data[:COMPRESSED_CHUNK], data[COMPRESSED_CHUNK:]
            yield member.decompress(piece)
            if member.eof:
                data = member.unused_data + data
            data = data or self._read()
        if not member.eof:
            raise EOFError("the compressed data is truncated")


def merged(recordings: Iterable[Recording], report: Callable[[str], None]) -> Iterator[Placed]:
    """Merge the records of several recordings by time: the next is always the earliest of the next ones of each.

    Within a recording the order stays the same. At equal times, the recording that was named first goes first. One
    record of each is held in memory.
    """
    return heapq.merge(*(each.records(report) for each in recordings), key=lambda placed: placed.record.ts)
