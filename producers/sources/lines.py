"""A source that reads JSON lines while they are written: from files, a named pipe, or standard input."""

from __future__ import annotations

import os
import select
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.records import UNNUMBERED, Frame, RecordError, read_line
from laggard.producers.sources.access_log.positions import Positions, load_positions, save_positions
from laggard.producers.sources.access_log.rotation import LONGEST_LINE, matching
from laggard.producers.sources.access_log.tail import Tail
from laggard.producers.sources.performance import Taken, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.records.frame import KeyedBy

STANDARD_INPUT: Final = "-"

BUDGET_BYTES: Final = 4 << 20
"""The most bytes that are read of a pipe at once, so that they are published before the rest is read."""

MOST_REPORTED: Final = 5
"""The most unusable lines of one read that are reported; the others are counted."""

_READ_BYTES: Final = 64 << 10


class Lines(NamedTuple):
    """Whole lines.

    Attributes:
        name: the name of their input.
        first: the place of the first one: its number from 1 on in a pipe, its offset in bytes in a file.
        text: the lines, each with its end except for the last one of an input that has ended.
        numbered: whether their places are numbers.

    """

    name: str
    first: int
    text: bytes
    numbered: bool


class ReadLines(NamedTuple):
    """New lines.

    Attributes:
        lines: in order.
        troubles: the present troubles.
        expected: the number of expected files.
        places: the number of readable ones.
        too_long: the number of lines that were skipped.
        more: whether there is more to read at once.

    """

    lines: Sequence[Lines]
    troubles: Sequence[Trouble] = ()
    expected: int = 1
    places: int = 1
    too_long: int = 0
    more: bool = False


class JsonLines:
    """Reads frames of an application or a pool, as `laggard replay` does.

    Other records are counted, reported and skipped.

    A file is followed by name, through rotation; its content before the first start is skipped. `state` has the
    position. Lines that are read again because this program was killed have the same sequence, by which they are
    recognized. The content of a pipe at the end of this program is lost, unless its writer writes it again.

    Parameters:
        key: the key of the frames.
        path: the path of the file or the named pipe; `-` for standard input.
        name: the name of the source.
        state: the file of the position.
        standard_input: its descriptor.
        keyed_by: whether the key is an application or a pool.

    Attributes:
        finished: whether standard input has ended.

    """

    def __init__(
        self,
        key: str,
        path: str,
        name: str = "lines",
        *,
        state: Path,
        standard_input: int = 0,
        keyed_by: KeyedBy = "application",
    ) -> None:
        self.keyed_by = keyed_by
        self.key = key
        self.name = name
        self.finished = False
        self._path = path
        self._state = state
        self._standard_input = standard_input
        self._pipe: Pipe | None = None
        self._tail: Tail | None = None
        self._saved: Positions | None = None
        self._troubles: list[Trouble] = []

    def read(self, ts: float) -> ReadLines:
        """Read all new whole lines, up to a bound."""
        if self._pipe is None and self._tail is None:
            self._begin()
        if self._tail is not None:
            found = self._tail.read(ts)
            if self._saved is None:
                self._save()  # so that lines from now on count after a restart, too
            lines = [Lines(each.file.path, each.offset, each.lines, numbered=False) for each in found.blocks]
            troubles = (*self._troubles, *found.troubles)
            self._troubles = []
            return ReadLines(lines, troubles, found.expected, found.found, found.skipped, found.more)
        if self._pipe is None:
            return ReadLines((), [Trouble(self._path, "there is no such file or named pipe")], places=0)
        read = self._pipe.read()
        self.finished = self._pipe.ended
        return read

    def parse(self, read: ReadLines) -> Taken:
        """Return one frame for each line."""
        frames: list[Frame] = []
        troubles = list(read.troubles)
        samples = unusable = read.too_long
        for lines in read.lines:
            for place, line in _each(lines):
                samples += 1
                try:
                    frames.append(self._frame(line, place))
                except RecordError as error:
                    unusable += 1
                    if unusable - read.too_long <= MOST_REPORTED:
                        troubles.append(Trouble(place, str(error).removeprefix(f"{place}: "), lasting=False))
        return Taken(frames, troubles, read.expected, read.places, samples, unusable, read.more)

    def published(self) -> None:
        """Save the position: the lines need not be read again."""
        if self._tail is not None:
            self._save()

    def check(self) -> Sequence[Trouble]:
        """Check whether there is a readable file or pipe."""
        if self._path == STANDARD_INPUT:
            return []
        names = [name for name in matching(self._path) if Path(name).exists()]
        if not names:
            return [Trouble(self._path, "there is no such file or named pipe")]
        return [
            Trouble(name, "expected a readable file or named pipe")
            for name in names
            if not os.access(name, os.R_OK) or Path(name).is_dir()
        ]

    def close(self) -> None:
        """Close all files."""
        if self._tail is not None:
            self._tail.close()
        if self._pipe is not None:
            self._pipe.close()

    def _begin(self) -> None:
        if self._path == STANDARD_INPUT:
            self._pipe = Pipe(self._standard_input, "standard input", ends=True)
            return
        try:
            found = Path(self._path).stat()
        except OSError:
            found = None
        if found is not None and stat.S_ISFIFO(found.st_mode):
            # With a writer of this process it never ends, even when other writers leave.
            self._pipe = Pipe(os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC), self._path, ends=False)
            return
        try:
            self._saved = load_positions(self._state)
        except ValueError as error:
            problem = f"{error}; lines written to {self._path} since the last read are skipped"
            self._troubles.append(Trouble(str(self._state), problem, lasting=False))
        files, known = ((), ()) if self._saved is None else (self._saved.files, self._saved.paths)
        self._tail = Tail((self._path,), files, known)

    def _save(self) -> None:
        assert self._tail is not None
        positions = Positions((self._path,), 0.0, tuple(file.position(0.0) for file in self._tail.files))
        if positions == self._saved:
            return
        try:
            save_positions(self._state, positions)
            self._saved = positions
        except OSError as error:
            problem = f"cannot be written: {error.strerror or error}; lines may be published twice after a restart"
            self._troubles.append(Trouble(str(self._state), problem))

    def _frame(self, line: bytes, place: str) -> Frame:
        record = read_line(line, place)
        if not isinstance(record, Frame) or record.keyed_by != self.keyed_by or record.key != self.key:
            got = f"one of {record.keyed_by} {record.key!r}" if isinstance(record, Frame) else "another record"
            raise RecordError(place, "", f"a frame of the {self.keyed_by} {self.key!r}", got)
        # The sequence must be the same when the line is read again.
        return replace(record, sequence=int(record.ts * 1000)) if record.sequence == UNNUMBERED else record


class Pipe:
    """Reads lines from a descriptor, without waiting for more than there is.

    Parameters:
        descriptor: the descriptor of a pipe, or of standard input.
        name: its name in errors.
        ends: whether it ends when its writers have gone, and another owner closes the descriptor.

    Attributes:
        ended: whether it has ended.

    """

    def __init__(self, descriptor: int, name: str, *, ends: bool) -> None:
        self.ended = False
        self._descriptor = descriptor
        self._name = name
        self._ends = ends
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._rest = b""
        self._number = 1
        self._passing_over = False

    def read(self) -> ReadLines:
        """Read whole lines, up to the budget."""
        parts = [self._rest]
        size, more = len(self._rest), True
        while size < BUDGET_BYTES:
            if not self._poll.poll(0):
                more = False
                break
            try:
                part = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                more = False
                break
            except OSError as error:
                self.ended = self._ends
                return ReadLines((), [Trouble(self._name, f"cannot be read: {error.strerror}")], places=0)
            if not part:
                self.ended, more = self._ends, False
                break
            parts.append(part)
            size += len(part)
        text, too_long = self._complete_lines(b"".join(parts))
        first, self._number = self._number, self._number + text.count(b"\n") + too_long
        # A skipped line stands before the lines that follow it.
        troubles = [
            Trouble(f"{self._name}:{first}", f"expected a line of at most {LONGEST_LINE:,} bytes", lasting=False)
        ]
        lines = [Lines(self._name, first + too_long, text, numbered=True)] if text else []
        return ReadLines(lines, troubles if too_long else (), too_long=too_long, more=more)

    def close(self) -> None:
        """Close the descriptor if laggard opened it."""
        if not self._ends:
            os.close(self._descriptor)

    def _complete_lines(self, text: bytes) -> tuple[bytes, int]:
        """Return the whole lines, and the number of lines that were too long; the rest is stored."""
        too_long = 0
        if self._passing_over:
            end = text.find(b"\n") + 1
            if not end:
                self._rest = b""
                return b"", 0
            text, self._passing_over, too_long = text[end:], False, 1
        end = len(text) if self.ended else text.rfind(b"\n") + 1
        text, self._rest = text[:end], text[end:]
        if len(self._rest) > LONGEST_LINE:
            self._rest, self._passing_over = b"", True
        return text, too_long


def _each(lines: Lines) -> Iterator[tuple[str, bytes]]:
    """Yield each line that is not blank, with its place."""
    at = lines.first
    for line in lines.text.split(b"\n"):
        if line.strip():
            yield f"{lines.name}:{at}", line
        at += 1 if lines.numbered else len(line) + 1
