"""Dead letters as a person looks into them: what could not be used, why, what is in it, and sending it once more."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.pipeline.bus import Outgoing
from laggard.pipeline.engine.publishing import DEAD_LETTER_HEADERS
from laggard.pipeline.engine.stage import REPLAY_HEADER
from laggard.pipeline.history.series import Reader
from laggard.pipeline.records import Decoder, Frame, RecordError
from laggard.pipeline.records.checked import fields_of
from laggard.pipeline.records.messagepack import unpack_map
from laggard.pipeline.topics import DEAD_LETTERS
from laggard.pipeline.trusted import read_trusted, write_trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from laggard.pipeline.bus import Bus, Incoming, Partition
    from laggard.pipeline.topics import Topics

LOOKED_AT: Final = 200
"""Letters after one that was sent again, among which its return is looked for."""

MOST_REMEMBERED: Final = 10_000
"""Letters that are known to have been sent again."""

_PER_LINE: Final = 16
_MAX_BYTES: Final = 4 << 20
_SHOWN_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that could not be used.

    Attributes:
        record: as it is in the dead letters; its key and time are those that it had.
        operator: which could not use it.
        topic: where it was, in full.
        partition: of that topic; -1 where that is not known.
        offset: in that partition; -1 likewise.
        reason: why.
        headers: those that it had.
        cut: how large it was, in bytes, where only its beginning is kept; else 0.
        replay_of: where the record was of which this is the replay, as `origin`; empty where it is none.

    """

    record: Incoming
    operator: str
    topic: str
    partition: int
    offset: int
    reason: str
    headers: tuple[tuple[str, bytes], ...]
    cut: int
    replay_of: str

    @property
    def origin(self) -> str:
        """Where the record was: `laggard.counters[0]@1042`. Every operator that could not use it has a letter of it."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @property
    def identity(self) -> str:
        """What tells the record from all others, also on another bus of the same name."""
        digest = hashlib.sha256(self.record.value)
        digest.update(f"{self.origin} {self.record.ts!r}".encode())
        return digest.hexdigest()[:32]


def read_letter(record: Incoming) -> Letter:
    """A letter of a record of the topic of dead letters, whoever wrote it."""
    told = {
        name.removeprefix(DEAD_LETTER_HEADERS): content.decode(errors="replace")
        for name, content in record.headers
        if name.startswith(DEAD_LETTER_HEADERS) and name != REPLAY_HEADER
    }
    own = [(name, content) for name, content in record.headers if not name.startswith(DEAD_LETTER_HEADERS)]
    replayed = [content.decode(errors="replace") for name, content in record.headers if name == REPLAY_HEADER]
    return Letter(
        record,
        told.get("operator", ""),
        told.get("topic", ""),
        _number(told.get("partition", "")),
        _number(told.get("offset", "")),
        told.get("reason", ""),
        tuple(own),
        max(_number(told.get("bytes", "0")), 0),
        replayed[-1] if replayed else "",
    )


def newest_letters(bus: Bus, topics: Topics, most: int) -> Iterator[Letter]:
    """The newest letters of each partition, at most so many of each, oldest first; their values one at a time."""
    for partition in bus.partitions(topics.name(DEAD_LETTERS)):
        yield from map(read_letter, Reader(bus, partition).newest(most))


def letter_at(bus: Bus, partition: Partition, offset: int) -> Letter | None:
    """The letter there; None where there is none, or it is damaged."""
    return next(map(read_letter, Reader(bus, partition).stored(offset, offset + 1)), None)


def returned(bus: Bus, letter: Letter) -> Letter | None:
    """The operator's letter of the replay, where that could not be used either; None where none has come."""
    partition, offset = letter.record.partition, letter.record.offset
    later = Reader(bus, partition, letter.record.key).stored(offset + 1, bus.bounds(partition)[1])
    found = (each for each in map(read_letter, islice(later, LOOKED_AT)) if each.replay_of == letter.origin)
    return next((each for each in found if each.operator == letter.operator), None)


def replay_of(letter: Letter) -> Outgoing:
    """The record as it was, for the topic where it was; a header says that it was recorded earlier, and where."""
    headers = (*letter.headers, (REPLAY_HEADER, letter.origin.encode()))
    return Outgoing(letter.topic, letter.record.key, letter.record.value, letter.record.ts, headers)


class Replayed:
    """Which letters were sent again, in a file, so that none is sent twice. Safe to use from several threads.

    Parameters:
        path: the file; its folder is made.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lock = threading.Lock()

    def when(self, letter: Letter) -> float | None:
        """When it was sent again, seconds since the Unix epoch; None where it was not."""
        return self._read().get(letter.identity)

    def remember(self, letter: Letter, ts: float) -> None:
        """Remember that it was sent again. Raises `OSError` where the file cannot be written."""
        self._write(self._read() | {letter.identity: ts})

    def forget(self, letter: Letter) -> None:
        """Take back what was remembered. Raises `OSError`."""
        self._write({name: ts for name, ts in self._read().items() if name != letter.identity})

    def _write(self, known: Mapping[str, float]) -> None:
        kept = dict(sorted(known.items(), key=lambda each: each[1])[-MOST_REMEMBERED:])
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_trusted(self._path, json.dumps(kept))

    def _read(self) -> dict[str, float]:
        try:
            found = json.loads(read_trusted(self._path, _MAX_BYTES))
            return {str(name): float(ts) for name, ts in found.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}


def decoded(value: bytes) -> tuple[str, str]:
    """What a value says, as far as it can be read: as JSON for a person, and what is wrong with it, else empty."""
    try:
        received = Decoder().decode(value, "")
    except RecordError as error:
        wrong = str(error).removeprefix(": ")
    else:
        fields: dict[str, Any] = {"kind": type(received).__name__.lower(), **fields_of(received)}
        if isinstance(received, Frame):
            layout, rows = received.layout, received.values.tolist()
            del fields["layout"], fields["values"]
            fields |= {"features": layout.features, "rows": dict(zip(layout.rows, rows[:_SHOWN_ROWS], strict=False))}
            if len(rows) > _SHOWN_ROWS:
                fields["more_rows"] = len(rows) - _SHOWN_ROWS
        return _json(fields), ""
    readers: tuple[Callable[[bytes], object], ...] = (unpack_map, json.loads)
    for read in readers:
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            return _json(read(value)), wrong
    return "", wrong


def hex_dump(value: bytes) -> str:
    """Bytes as `hexdump -C` shows them: where they are, their values, and those that are ASCII."""
    lines = []
    for begin in range(0, len(value), _PER_LINE):
        part = value[begin : begin + _PER_LINE]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{begin:08x}  {part.hex(' '):<{3 * _PER_LINE}} |{text}|")
    return "\n".join(lines)


def _json(value: object, margin: str = "") -> str:
    """JSON with a line for each field, and for each field of those: what is in them is short, and there is much."""
    if not isinstance(value, dict) or not value or len(margin) > 1:
        return json.dumps(value, default=_shown, ensure_ascii=False)
    inner = margin + " "
    lines = [
        f"{inner}{json.dumps(str(name), ensure_ascii=False)}: {_json(each, inner)}" for name, each in value.items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{margin}}}"


def _shown(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return f"{len(value):,} bytes" if isinstance(value, bytes) else repr(value)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else -1
