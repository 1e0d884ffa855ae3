"""What babeltrace2 prints of a trace, and the same of ours, to compare."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from laggard.producers.trace.ctf.metadata import read_metadata
from laggard.producers.trace.ctf.streams import Stream
from laggard.producers.trace.ctf.types import Array
from laggard.producers.trace.told import Told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINE = re.compile(r"\[(?P<cycles>\d+)\] (?:\S+ )?(?P<name>\S+): \{ cpu_id = (?P<cpu>\d+) \}, (?P<fields>.*)")
FIELD = re.compile(r'(?P<name>\w+) = (?:(?P<number>-?\d+)|"(?P<text>[^"]*)")')


class Printed(NamedTuple):
    cycles: int
    name: str
    cpu: int
    fields: dict[str, Any]


def printed(text: str) -> list[Printed]:
    """Of `babeltrace2 --no-delta --clock-cycles`: all events, with those of their fields that are numbers or texts."""
    found = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        fields = {
            each["name"]: each["text"] if each["number"] is None else int(each["number"])
            for each in FIELD.finditer(match["fields"])
            if each["name"] != "container"  # of an enumeration, beside its label
        }
        found.append(Printed(int(match["cycles"]), match["name"], int(match["cpu"]), fields))
    return found


def decoded(folder: Path) -> list[Printed]:
    """The same, as we read the files; sorted by time."""
    metadata = read_metadata(folder / "metadata")
    found: list[Printed] = []
    for path in sorted(folder.iterdir()):
        if path.name != "metadata" and path.is_file():
            found += _events(Stream(path, metadata, {}, Told()))
    return sorted(found, key=lambda event: event.cycles)


def _events(stream: Stream) -> Iterator[Printed]:
    while stream.begins_ns is not None:
        packet = stream.read()
        for group in packet.groups:
            ts = packet.ts[group.at].tolist()
            values: list[dict[str, Any]] = [{} for _ in ts]
            for name, column in group.layout.columns.items():
                if name.startswith("header."):
                    continue
                if isinstance(column.kind, Array):
                    texts = packet.window.texts(group.positions, column.bit >> 3, int(column.kind.length))
                    found: list[Any] = [text.decode() for text in texts]
                else:
                    found = packet.window.integers(group.positions, column.bit, column.kind).tolist()
                    if not column.kind.signed:
                        found = [value % (1 << 64) for value in found]
                for each, value in zip(values, found, strict=True):
                    each[name.removeprefix("context.")] = value
            for each, scope in zip(values, group.walked, strict=False):
                each.update(
                    {
                        name: value.decode() if isinstance(value, bytes) else value
                        for name, value in scope.items()
                        if isinstance(value, int | float) or name in _TEXTS
                    }
                )
            for when, fields in zip(ts, values, strict=True):
                yield Printed(when, group.event.name, packet.cpu, fields)


_TEXTS = {"filename", "name", "diskname", "path", "prev_comm", "next_comm", "comm", "parent_comm", "child_comm"}
