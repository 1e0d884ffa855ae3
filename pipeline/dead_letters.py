"""Dead letters for people: the unusable records, their reasons and contents, and their replay."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.engine.publishing import DEAD_LETTER_HEADERS
from laggard.pipeline.core.engine.stage import REPLAY_HEADER
from laggard.pipeline.core.records import Decoder, Frame, RecordError
from laggard.pipeline.core.records.checked import fields_of
from laggard.pipeline.core.records.messagepack import unpack_map
from laggard.pipeline.core.topics import DEAD_LETTERS
from laggard.pipeline.core.trusted import read_trusted, write_trusted
from laggard.pipeline.history.series import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus, Incoming, Partition
    from laggard.pipeline.core.topics import Topics

LOOKED_AT: Final = 200
"""The number of later letters of the same key that are searched for the return of a replayed one."""

MOST_REMEMBERED: Final = 10_000
"""The most replayed letters that are remembered, the newest ones."""

_PER_LINE: Final = 16
_MAX_BYTES: Final = 4 << 20
_SHOWN_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that could not be used.

    Attributes:
        record: the record of the dead letters; its key and time are the original ones.
        operator: the operator that could not use it.
        topic: the full name of its original topic.
        partition: its original partition; -1 if unknown.
        offset: its original offset; -1 if unknown.
        reason: the reason.
        headers: its original headers.
        cut: its original size in bytes if only its beginning is stored; otherwise 0.
        replay_of: for a replay the `origin` of the replayed record; otherwise empty.

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
        """Its original place: `laggard.counters[0]@1042`. Each operator that could not use a record has its letter."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @property
    def identity(self) -> str:
        """A unique id of the record, also on another bus with the same name."""
        digest = hashlib.sha256(self.record.value)
        digest.update(f"{self.origin} {self.record.ts!r}".encode())
        return digest.hexdigest()[:32]


def read_letter(record: Incoming) -> Letter:
    """Return the letter in a record of the topic of dead letters, which anyone may have written."""
    fields = {
        name.removeprefix(DEAD_LETTER_HEADERS): content.decode(errors="replace")
        for name, content in record.headers
        if name.startswith(DEAD_LETTER_HEADERS) and name != REPLAY_HEADER
    }
    own = [(name, content) for name, content in record.headers if not name.startswith(DEAD_LETTER_HEADERS)]
    replayed = [content.decode(errors="replace") for name, content in record.headers if name == REPLAY_HEADER]
    return Letter(
        record,
        fields.get("operator", ""),
        fields.get("topic", ""),
        _number(fields.get("partition", "")),
        _number(fields.get("offset", "")),
        fields.get("reason", ""),
        tuple(own),
        max(_number(fields.get("bytes", "0")), 0),
        replayed[-1] if replayed else "",
    )


def newest_letters(bus: Bus, topics: Topics, most: int) -> Iterator[Letter]:
    """Yield the newest letters of each partition, at most `most` of each, oldest first; values are read one by one."""
    for partition in bus.partitions(topics.name(DEAD_LETTERS)):
        yield from map(read_letter, Reader(bus, partition).newest(most))


def letter_at(bus: Bus, partition: Partition, offset: int) -> Letter | None:
    """Return the letter at an offset; None if there is none, or it is damaged."""
    return next(map(read_letter, Reader(bus, partition).stored(offset, offset + 1)), None)


def returned(bus: Bus, letter: Letter) -> Letter | None:
    """Return the same operator's letter of the replay, if it could not use that either; None for none so far."""
    partition, offset = letter.record.partition, letter.record.offset
    later = Reader(bus, partition, letter.record.key).stored(offset + 1, bus.bounds(partition)[1])
    found = (each for each in map(read_letter, islice(later, LOOKED_AT)) if each.replay_of == letter.origin)
    return next((each for each in found if each.operator == letter.operator), None)


def replay_of(letter: Letter) -> Outgoing:
    """Return the original record for its original topic; a header marks it as a replay, with its place."""
    headers = (*letter.headers, (REPLAY_HEADER, letter.origin.encode()))
    return Outgoing(letter.topic, letter.record.key, letter.record.value, letter.record.ts, headers)


class Replayed:
    """The letters that were replayed, in a file, so that none is replayed twice. Thread-safe.

    Parameters:
        path: the file; its folder is created.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lock = threading.Lock()

    def when(self, letter: Letter) -> float | None:
        """Return the time of its replay, seconds since the Unix epoch; None without one."""
        return self._read().get(letter.identity)

    def remember(self, letter: Letter, ts: float) -> None:
        """Remember the replay of a letter. Raises `OSError` if the file cannot be written."""
        self._write(self._read() | {letter.identity: ts})

    def forget(self, letter: Letter) -> None:
        """Forget the replay of a letter. Raises `OSError`."""
        self._write({name: ts for name, ts in self._read().items() if name != letter.identity})

    def _write(self, known: Mapping[str, float]) -> None:
        newest = dict(sorted(known.items(), key=lambda each: each[1])[-MOST_REMEMBERED:])
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_trusted(self._path, json.dumps(newest))

    def _read(self) -> dict[str, float]:
        try:
            found = json.loads(read_trusted(self._path, _MAX_BYTES))
            return {str(name): float(ts) for name, ts in found.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}


def decoded(value: bytes) -> tuple[str, str]:
    """Return a value as JSON for people, and its error. Either is empty if there is none."""
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
    """Return bytes in the form of `hexdump -C`: offsets, values, and ASCII characters."""
    lines = []
    for begin in range(0, len(value), _PER_LINE):
        part = value[begin : begin + _PER_LINE]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{begin:08x}  {part.hex(' '):<{3 * _PER_LINE}} |{text}|")
    return "\n".join(lines)


def _json(value: object, margin: str = "") -> str:
    """Return JSON with a line for each field of the two outer levels: deeper values are many and short."""
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
