"""The types in the metadata of a CTF trace. Sizes and alignments are in bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer of at most 64 bits.

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
        """The alignment of the container."""
        return self.container.align

    def label(self, value: int) -> str:
        """Return the label of a value; empty without one."""
        return next((label for first, last, label in self.labels if first <= value <= last), "")


@dataclass(frozen=True, slots=True)
class Array:
    """A number of elements; if `length` is a text, it names the field with the number."""

    element: Type
    length: int | str

    @property
    def align(self) -> int:
        """The alignment of the elements."""
        return self.element.align


@dataclass(frozen=True, slots=True)
class Struct:
    """Consecutive fields."""

    fields: tuple[tuple[str, Type], ...]
    minimum: int = 1

    @property
    def align(self) -> int:
        """The largest alignment of its fields, except variants: theirs is known only when they are read."""
        return max([self.minimum, *(kind.align for _, kind in self.fields)])


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several types, named by the label of the field `tag`."""

    tag: str
    options: Mapping[str, Type]
    align: int = 1


Type = Integer | Float | Text | Enumeration | Array | Struct | Variant

EMPTY = Struct(())


@dataclass(frozen=True, slots=True)
class Clock:
    """The meaning of a time: `offset_s + (offset + value) / frequency` seconds after the Unix epoch.

    Attributes:
        unique: its id; two clocks with the same id are the same (of one machine since one boot).

    """

    name: str
    unique: str = ""
    frequency: int = 1_000_000_000
    offset: int = 0
    offset_s: int = 0

    @property
    def offset_ns(self) -> int:
        """The time since the Unix epoch at which this clock was 0, in nanoseconds."""
        return self.offset_s * 1_000_000_000 + self.offset * 1_000_000_000 // self.frequency


@dataclass(slots=True)
class EventClass:
    """A class of events."""

    name: str
    number: int
    stream: int
    context: Struct = EMPTY
    fields: Struct = EMPTY


@dataclass(slots=True)
class StreamClass:
    """A class of streams, and its events by number."""

    number: int
    header: Struct = EMPTY
    packet: Struct = EMPTY
    context: Struct = EMPTY
    events: dict[int, EventClass] = field(default_factory=dict)


@dataclass(slots=True)
class Metadata:
    """The description of a trace.

    Attributes:
        packet_header: the header of each packet.
        environment: `hostname`, `tracer_name`, ...

    """

    packet_header: Struct = EMPTY
    unique: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    clocks: dict[str, Clock] = field(default_factory=dict)
    streams: dict[int, StreamClass] = field(default_factory=dict)

    def names(self) -> set[str]:
        """Return the names of all events."""
        return {event.name for stream in self.streams.values() for event in stream.events.values()}
