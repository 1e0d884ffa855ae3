"""Decode the events of a CTF packet: find them one after the other, then read them by columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.producers.trace.ctf.layouts import Layout, Placing, Scope, UnreadableError, bits_at, laid_out, walking
from laggard.producers.trace.ctf.types import (
    Array,
    Enumeration,
    EventClass,
    Integer,
    StreamClass,
    Struct,
    Type,
    Variant,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_CUT: Final = "it ends within an event"

PADDING: Final = 16
"""The number of bytes after a packet's last one that are read with its last field, but not used."""


class Option(NamedTuple):
    """A form of a stream's event headers: LTTng has a compact and an extended one."""

    first: int
    last: int
    fields: Struct


class Group(NamedTuple):
    """All events of one class and layout in a packet.

    Attributes:
        event: their class.
        layout: the places of their fields.
        at: their places among the packet's events, shape (n,).
        positions: the bytes at which they begin, shape (n,).
        walked: the fields after those at known places; empty without any.

    """

    event: EventClass
    layout: Layout
    at: NDArray[np.intp]
    positions: NDArray[np.int64]
    walked: Sequence[Scope]


class Found(NamedTuple):
    """The events of a packet.

    Attributes:
        events: the number of events.
        groups: the events by class.
        problem: the reason why the rest of the packet is unreadable; empty if all was read.

    """

    events: int
    groups: Sequence[Group]
    problem: str


class Decoder:
    """Finds the events in the packets of a stream class.

    Parameters:
        stream: the stream class.

    Attributes:
        packet: reads the context of a packet.

    Raises:
        UnreadableError: the headers of its events have an unknown form.

    """

    def __init__(self, stream: StreamClass) -> None:
        self._stream = stream
        self._layouts: list[tuple[Layout, EventClass]] = []
        self._known: dict[tuple[int, int], Layout] = {}
        self._extended: dict[tuple[int, int], tuple[int, Integer]] = {}
        self._align = max(8, stream.header.align)
        everything = [stream.header, stream.context]
        for event in stream.events.values():
            everything += [event.context, event.fields]
        widest = max([self._align, *(_widest(each) for each in everything)])
        self._phases = widest // 8
        self._tag, self._options = self._forms()
        self.packet = walking("", stream.packet, {})

    def _forms(self) -> tuple[Integer | None, list[Option]]:
        tag: Integer | None = None
        options: list[Option] = []
        plain: list[tuple[str, Type]] = []
        for name, kind in self._stream.header.fields:
            if name == "id" and not plain:
                tag = kind.container if isinstance(kind, Enumeration) else kind if isinstance(kind, Integer) else None
            if isinstance(kind, Variant):
                tagged = dict(self._stream.header.fields).get(kind.tag)
                if not isinstance(tagged, Enumeration) or options:
                    raise UnreadableError("an event header whose variant has no tag")
                for first, last, label in tagged.labels:
                    option = kind.options.get(label)
                    if isinstance(option, Struct):
                        options.append(Option(first, last, Struct((*plain, (name, option)), self._align)))
            else:
                plain.append((name, kind))
        if not options:
            options = [Option(0, 1 << 64, Struct(tuple(plain), self._align))]
        if tag is not None and tag.size % 8 and tag.size > 8:
            raise UnreadableError(f"an event header whose id has {tag.size} bits")
        return tag, options

    def events(self, data: bytes, begin: int, end: int) -> Found:
        """Find all events between two bytes of a packet.

        Parameters:
            data: the packet; `PADDING` bytes may follow it.
            begin: the start of the first event.
            end: the end of the last event.

        """
        positions: list[int] = []
        numbers: list[int] = []
        walked: dict[int, list[Scope]] = {}
        problem = ""
        known, phases, align = self._known, self._phases, self._align >> 3
        tag = self._tag
        short = tag is not None and tag.size <= 8
        mask, shift = ((1 << tag.size) - 1, 0 if tag.little else 8 - tag.size) if tag is not None and short else (0, 0)
        length = 0 if tag is None else tag.size >> 3
        order = "little" if tag is None or tag.little else "big"
        at = begin
        try:
            while at < end:
                if align > 1:
                    at += -at % align
                    if at >= end:
                        break
                number = (
                    (data[at] >> shift) & mask if short else int.from_bytes(data[at : at + length], order)  # type: ignore[arg-type]
                )
                layout = known.get((number, at % phases)) or self._layout(data, at, number)
                following = at + layout.size
                if not layout.size:
                    following, scope = layout.walked(data, at)
                if following > end or following == at:
                    problem = _CUT if following > at else "its events have no length"
                    break
                if not layout.size:
                    walked.setdefault(layout.number, []).append(scope)
                positions.append(at)
                numbers.append(layout.number)
                at = following
        except IndexError:
            problem = _CUT
        except UnreadableError as error:
            problem = f"{error} at byte {at:,}"
        return Found(len(positions), self._grouped(positions, numbers, walked), problem)

    def _grouped(self, positions: list[int], numbers: list[int], walked: dict[int, list[Scope]]) -> list[Group]:
        if not positions:
            return []
        where = np.array(positions, np.int64)
        which = np.array(numbers, np.int32)
        order = np.argsort(which, kind="stable")
        present, starts = np.unique(which[order], return_index=True)
        groups = []
        for number, at in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            layout, event = self._layouts[number]
            groups.append(Group(event, layout, at, where[at], walked.get(number, ())))
        return groups

    def _layout(self, data: bytes, at: int, number: int) -> Layout:
        """Return the layout of the event at a byte, whose header begins with a number."""
        phase = at % self._phases
        extended = self._extended.get((number, phase))
        if extended is not None:
            identity = bits_at(data, at * 8 + extended[0], extended[1])
            known = self._known.get((-1 - identity, phase))
            if known is not None:
                return known
        option = next((each for each in self._options if each.first <= number <= each.last), None)
        if option is None:
            raise UnreadableError(f"unknown event header id {number}")
        placing = Placing(phase * 8)
        for name, kind in option.fields.fields:
            placing.place(name, kind, "header.")
        identity, key = number, (number, phase)
        column = placing.columns.get("header.id")
        if column is not None and column.bit > 0:
            assert isinstance(column.kind, Integer)
            self._extended[number, phase] = column.bit, column.kind
            identity = bits_at(data, at * 8 + column.bit, column.kind)
            key = (-1 - identity, phase)
        event = self._stream.events.get(identity)
        if event is None:
            raise UnreadableError(f"unknown event id {identity:,}")
        for prefix, part in (("context.", self._stream.context), ("context.", event.context), ("", event.fields)):
            placing.align(part.align)
            for name, kind in part.fields:
                placing.place(name, kind, prefix)
        layout = laid_out(len(self._layouts), placing)
        self._layouts.append((layout, event))
        self._known[key] = layout
        return layout


def _widest(kind: Type) -> int:
    """Return the largest alignment of a type and its parts."""
    match kind:
        case Array(element=element):
            return _widest(element)
        case Struct(fields=fields):
            return max([kind.align, *(_widest(each) for _, each in fields)])
        case Variant(options=options):
            return max([1, *(_widest(each) for each in options.values())])
    return kind.align
