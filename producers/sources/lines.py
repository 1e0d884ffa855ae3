"""A source that reads JSON lines while they are written: from files, a named pipe, or standard input."""

from __future__ import annotations

import os
import select
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.records import UNNUMBERED, Frame, RecordError, read_line
from laggard.producers.sources.access_log.positions import Positions, load_positions, save_positions
from laggard.producers.sources.access_log.tail import LONGEST_LINE, Tail, matching
from laggard.producers.sources.performance import Taken, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.records.frame import KeyedBy

STANDARD_INPUT: Final = "-"

BUDGET_BYTES: Final = 4 << 20
"""So much is read at once of a pipe, so that what was read is told before the rest is read."""

MOST_TOLD: Final = 5
"""So many lines that cannot be used are told of one read; the others are counted."""

_READ_BYTES: Final = 64 << 10


class Lines(NamedTuple):
    """Whole lines.

    Attributes:
        name: where they are from.
        first: what the first one is called: its number from 1 on in a pipe, its offset in bytes in a file.
        text: the lines, each with its end but for the last one of an input that has ended.
        numbered: whether lines are called by number.

    """

    name: str
    first: int
    text: bytes
    numbered: bool


class ReadLines(NamedTuple):
    """What is new.

    Attributes:
        lines: in order.
        troubles: what is not as it should be.
        expected: how many files there should be.
        places: how many there are.
        too_long: how many lines were passed over.
        more: whether there is more to be read at once.

    """

    lines: Sequence[Lines]
    troubles: Sequence[Trouble] = ()
    expected: int = 1
    places: int = 1
    too_long: int = 0
    more: bool = False


class JsonLines:
    """Frames of an application or a pool, as `laggard replay` reads them; others are counted, told and passed over.

    A file is followed by name, through rotation; what is in it at the first start is left alone. `state` says how far
    it was read: what comes twice because this program was killed has the same sequence and is known by it. What is in a
    pipe when this program ends is lost, or its writer's to write again.

    Parameters:
        key: whose frames are read.
        path: of the file or the named pipe; `-` for standard input.
        name: of the source.
        state: the file that says how far a file was read.
        standard_input: its descriptor.
        keyed_by: whether that is an application or a pool.

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
        """All whole lines that are there and were not read before, up to a bound."""
        if self._pipe is None and self._tail is None:
            self._begin()
        if self._tail is not None:
            found = self._tail.read(ts)
            if self._saved is None:
                self._save()  # so that what comes from now on counts
            lines = [Lines(each.file.path, each.offset, each.lines, numbered=False) for each in found.blocks]
            troubles = (*self._troubles, *found.troubles)
            self._troubles = []
            return ReadLines(lines, troubles, found.expected, found.found, found.skipped, found.more)
        if self._pipe is None:
            return ReadLines((), [Trouble(self._path, "expected a file or a named pipe, there is none")], places=0)
        read = self._pipe.read()
        self.finished = self._pipe.ended
        return read

    def parse(self, read: ReadLines) -> Taken:
        """One frame for each line."""
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
                    if unusable - read.too_long <= MOST_TOLD:
                        troubles.append(Trouble(place, str(error).removeprefix(f"{place}: "), lasting=False))
        return Taken(frames, troubles, read.expected, read.places, samples, unusable, read.more)

    def published(self) -> None:
        """What was read need not be read again."""
        if self._tail is not None:
            self._save()

    def check(self) -> Sequence[Trouble]:
        """Whether there is a file or a pipe that may be read."""
        if self._path == STANDARD_INPUT:
            return []
        names = [name for name in matching(self._path) if Path(name).exists()]
        if not names:
            return [Trouble(self._path, "expected a file or a named pipe, there is none")]
        return [
            Trouble(name, "expected a file or a named pipe that may be read")
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
            # With a writer of our own it never ends, whoever comes and goes.
            self._pipe = Pipe(os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC), self._path, ends=False)
            return
        try:
            self._saved = load_positions(self._state)
        except ValueError as error:
            told = f"{error}; what was written to {self._path} since it was read last is left out"
            self._troubles.append(Trouble(str(self._state), told, lasting=False))
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
            told = f"cannot be written: {error.strerror or error}; lines may come twice if the program ends now"
            self._troubles.append(Trouble(str(self._state), told))

    def _frame(self, line: bytes, place: str) -> Frame:
        record = read_line(line, place)
        if not isinstance(record, Frame) or record.keyed_by != self.keyed_by or record.key != self.key:
            got = f"one of {record.keyed_by} {record.key!r}" if isinstance(record, Frame) else "another record"
            raise RecordError(place, "", f"a frame of the {self.keyed_by} {self.key!r}", got)
        # A number that is the same when the line is read again.
        return replace(record, sequence=int(record.ts * 1000)) if record.sequence == UNNUMBERED else record


class Pipe:
    """Lines out of a descriptor, without waiting for more than there is.

    Parameters:
        descriptor: of a pipe, or of whatever standard input is.
        name: what it is called in errors.
        ends: whether it is over when its writers have gone, and the descriptor another one's.

    Attributes:
        ended: whether it is over.

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
        """Whole lines, up to the budget."""
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
        text, too_long = self._whole(b"".join(parts))
        first, self._number = self._number, self._number + text.count(b"\n") + too_long
        # A line that is passed over stands before what follows it.
        troubles = [
            Trouble(f"{self._name}:{first}", f"expected a line of at most {LONGEST_LINE:,} bytes", lasting=False)
        ]
        lines = [Lines(self._name, first + too_long, text, numbered=True)] if text else []
        return ReadLines(lines, troubles if too_long else (), too_long=too_long, more=more)

    def close(self) -> None:
        """Close what is our own."""
        if not self._ends:
            os.close(self._descriptor)

    def _whole(self, text: bytes) -> tuple[bytes, int]:
        """The whole lines, and how many were found to be too long; the rest is kept."""
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
    """Each line that is not blank, with what it is called."""
    at = lines.first
    for line in lines.text.split(b"\n"):
        if line.strip():
            yield f"{lines.name}:{at}", line
        at += 1 if lines.numbered else len(line) + 1
