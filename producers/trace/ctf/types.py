"""The types that a CTF trace's metadata is made of. Sizes and alignments are in bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer of any number of bits up to 64.

    Attributes:
        clock: the clock whose time it is; empty for others.
        text: whether an array of these is a text.

    """

    size: int
    align: int = 1
    signed: bool = False
    little: bool = True
    clock: str = ""
    text: bool = False


@dataclass(frozen=True, slots=True)
class Float:
    """A binary floating-point number of IEEE 754."""

    size: int
    align: int = 1
    little: bool = True


@dataclass(frozen=True, slots=True)
class Text:
    """A text that ends with a zero byte."""

    align: int = 8


@dataclass(frozen=True, slots=True)
class Enumeration:
    """An integer with labels: (first, last, label) of each range."""

    container: Integer
    labels: tuple[tuple[int, int, str], ...]

    @property
    def align(self) -> int:
        """The container's."""
        return self.container.align

    def label(self, value: int) -> str:
        """What a value is called; empty for one without a label."""
        return next((label for first, last, label in self.labels if first <= value <= last), "")


@dataclass(frozen=True, slots=True)
class Array:
    """So many elements; where `length` is a text, as many as the field of this name says."""

    element: Type
    length: int | str

    @property
    def align(self) -> int:
        """The element's."""
        return self.element.align


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields one after the other."""

    fields: tuple[tuple[str, Type], ...]
    minimum: int = 1

    @property
    def align(self) -> int:
        """The largest of its fields', a variant's excepted: that is known when it is read."""
        return max([self.minimum, *(kind.align for _, kind in self.fields)])


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several types: that which the label of the field `tag` names."""

    tag: str
    options: Mapping[str, Type]
    align: int = 1


Type = Integer | Float | Text | Enumeration | Array | Struct | Variant

EMPTY = Struct(())


@dataclass(frozen=True, slots=True)
class Clock:
    """What a time means: `offset_s + (offset + value) / frequency` seconds after the Unix epoch.

    Attributes:
        unique: its id; two clocks with the same one are the same (of one machine since one boot).

    """

    name: str
    unique: str = ""
    frequency: int = 1_000_000_000
    offset: int = 0
    offset_s: int = 0

    @property
    def offset_ns(self) -> int:
        """The time since the Unix epoch at which this clock was 0."""
        return self.offset_s * 1_000_000_000 + self.offset * 1_000_000_000 // self.frequency


@dataclass(slots=True)
class EventClass:
    """One kind of event."""

    name: str
    number: int
    stream: int
    context: Struct = EMPTY
    fields: Struct = EMPTY


@dataclass(slots=True)
class StreamClass:
    """One kind of stream, and its events by number."""

    number: int
    header: Struct = EMPTY
    packet: Struct = EMPTY
    context: Struct = EMPTY
    events: dict[int, EventClass] = field(default_factory=dict)


@dataclass(slots=True)
class Metadata:
    """All that a trace says of itself.

    Attributes:
        packet_header: what each packet begins with.
        environment: `hostname`, `tracer_name`, ...

    """

    packet_header: Struct = EMPTY
    unique: str = ""
    little: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    clocks: dict[str, Clock] = field(default_factory=dict)
    streams: dict[int, StreamClass] = field(default_factory=dict)

    def names(self) -> set[str]:
        """Those of all events."""
        return {event.name for stream in self.streams.values() for event in stream.events.values()}
