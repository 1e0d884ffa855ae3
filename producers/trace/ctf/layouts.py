"""The places of the fields of a CTF event: fixed up to the first of variable length, and found by walking after it.

Most kernel events have a fixed length. They are only stepped over, and numpy gathers their fields for the whole packet
at once. After a text or a sequence, each event is walked separately.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from laggard.producers.trace.ctf.types import Array, Enumeration, Float, Integer, Struct, Text, Type, Variant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Scope = dict[str, Any]
"""The fields of an event so far, by name; of repeated names (in a struct in a struct) the last one."""

Walk = Callable[[bytes, int, Scope], int]
"""Reads a field at a bit of a packet, stores its value in the scope, and returns the bit after it."""

_MOST_FLAT: Final = 8
"""The elements of an array of at most this many numbers are columns of their own: `args[0]`."""

_MOST_FIXED: Final = 4096

_LONGEST: Final = 1 << 20
"""The most elements of a sequence: with more, the data is not an event."""


class UnreadableError(Exception):
    """The data cannot be an event of this class."""


class Column(NamedTuple):
    """A field at a known place.

    Attributes:
        bit: its place from the event's start.
        kind: an integer, or the array for a text of fixed length.

    """

    bit: int
    kind: Integer | Array


@dataclass(slots=True)
class Layout:
    """The places of the fields of a class, for events that begin at the same place modulo the alignment.

    Attributes:
        number: its number among the layouts of a stream.
        size: the number of bytes of an event; 0 if it varies.
        columns: fields at known places, by name; `header.timestamp`, `context.tid`, and the event's own without a
            prefix.
        needed: the readers and places of integers among these that give the length or the type of later fields.
        rest: the start of the later fields (bits), relative to the event.
        walks: the readers of the later fields, in their order.

    """

    number: int
    size: int
    columns: dict[str, Column]
    needed: tuple[tuple[Walk, int], ...] = ()
    rest: int = 0
    walks: tuple[Walk, ...] = ()

    def walked(self, data: bytes, at: int) -> tuple[int, Scope]:
        """Return the byte after the event at byte `at`, and the fields after those at known places.

        Raises:
            UnreadableError: it cannot be of this class.
            IndexError: it extends beyond the data.

        """
        scope: Scope = {}
        for walk, bit in self.needed:
            walk(data, at * 8 + bit, scope)
        bit = at * 8 + self.rest
        for walk in self.walks:
            bit = walk(data, bit, scope)
        return (bit + 7) >> 3, scope


@dataclass(slots=True)
class Placing:
    """Goes through the fields of an event while places are known.

    Attributes:
        phase: the event's first bit, modulo the alignment.
        bit: the place of the next field, relative to the event.

    """

    phase: int
    bit: int = 0
    columns: dict[str, Column] = field(default_factory=dict)
    kinds: dict[str, Type] = field(default_factory=dict)
    waiting: list[tuple[str, Type]] = field(default_factory=list)

    def place(self, name: str, kind: Type, prefix: str = "") -> None:
        """Place the next field; from the first of variable length on, fields wait to be walked."""
        if self.waiting or not is_fixed(kind):
            self.waiting.append((name, kind))
        else:
            self._fixed(name, kind, prefix)

    def align(self, bits: int) -> None:
        """Move to the next multiple of an alignment."""
        if self.waiting:
            self.waiting.append(("", Struct((), bits)))
        else:
            self.bit += -(self.phase + self.bit) % bits

    def _fixed(self, name: str, kind: Type, prefix: str) -> None:
        self.align(kind.align)
        if isinstance(kind, Enumeration):
            self.kinds[name] = kind
            kind = kind.container
        match kind:
            case Integer():
                self.columns[prefix + name] = Column(self.bit, kind)
                self.bit += kind.size
            case Float():
                self.bit += kind.size
            case Struct():
                for inner, element in kind.fields:
                    self._fixed(inner, element, prefix)
            case Array(element=Integer(text=True, size=8)):
                self.columns[prefix + name] = Column(self.bit, kind)
                self.bit += 8 * int(kind.length)
            case Array():
                flat = int(kind.length) <= _MOST_FLAT
                for index in range(int(kind.length)):
                    self._fixed(f"{name}[{index}]" if flat else f"{name}[]", kind.element, prefix)


def is_fixed(kind: Type) -> bool:
    """Return whether all values of a type have the same length, and one that is short enough to lay out."""
    match kind:
        case Text() | Variant():
            return False
        case Array(length=str()):
            return False
        case Array(element=element, length=length):
            return int(length) <= _MOST_FIXED and is_fixed(element)
        case Struct(fields=fields):
            return all(is_fixed(each) for _, each in fields)
    return True


def laid_out(number: int, placing: Placing) -> Layout:
    """Return the layout of an event after all its fields were placed."""
    if not placing.waiting:
        return Layout(number, (placing.bit + 7) >> 3, placing.columns)
    needs: set[str] = set()
    for _, kind in placing.waiting:
        needs.update(_references(kind))
    needed = tuple(
        (_integer(name, column.kind), column.bit)
        for name, column in ((full.rpartition(".")[2], column) for full, column in placing.columns.items())
        if name in needs and isinstance(column.kind, Integer)
    )
    kinds = dict(placing.kinds)
    walks = tuple(walking(name, kind, kinds) for name, kind in placing.waiting)
    return Layout(number, 0, placing.columns, needed, placing.bit, walks)


def _references(kind: Type) -> Iterator[str]:
    """Yield the names of the fields that give the length or the type of a value."""
    match kind:
        case Array(element=element, length=length):
            if isinstance(length, str):
                yield length
            yield from _references(element)
        case Struct(fields=fields):
            for _, each in fields:
                yield from _references(each)
        case Variant(tag=tag, options=options):
            yield tag
            for each in options.values():
                yield from _references(each)


def walking(name: str, kind: Type, kinds: dict[str, Type]) -> Walk:
    """Return the reader of a field of any type.

    Parameters:
        name: the name of its value in the scope.
        kind: its type.
        kinds: the enumerations among the fields before it, by name; it is added if it is one.

    """
    match kind:
        case Enumeration(container=container):
            kinds[name] = kind
            walk = _integer(name, container)
        case Integer():
            walk = _integer(name, kind)
        case Float():
            walk = _float(name, kind)
        case Text():
            walk = _text(name)
        case Struct():
            walk = _struct(kind, kinds)
        case Array():
            walk = _array(name, kind, kinds)
        case Variant():
            walk = _variant(kind, kinds)
    return walk


def _integer(name: str, kind: Integer) -> Walk:
    mask, size, signed = -kind.align, kind.size, kind.signed
    up = kind.align - 1
    if size % 8 == 0 and kind.align % 8 == 0:
        length, order = size >> 3, "little" if kind.little else "big"

        def whole_bytes(data: bytes, bit: int, scope: Scope) -> int:
            bit = (bit + up) & mask
            at = bit >> 3
            part = data[at : at + length]
            if len(part) < length:
                raise IndexError
            scope[name] = int.from_bytes(part, order, signed=signed)  # type: ignore[arg-type]
            return bit + size

        return whole_bytes

    def bits(data: bytes, bit: int, scope: Scope) -> int:
        bit = (bit + up) & mask
        value = bits_at(data, bit, kind)
        scope[name] = value
        return bit + size

    return bits


def bits_at(data: bytes, bit: int, kind: Integer) -> int:
    """Return an integer at any bit: a byte's first bits are the lowest in little-endian order, the highest in big."""
    first, end = bit >> 3, (bit + kind.size + 7) >> 3
    part = data[first:end]
    if len(part) < end - first:
        raise IndexError
    if kind.little:
        value = int.from_bytes(part, "little") >> (bit & 7)
    else:
        value = int.from_bytes(part, "big") >> (end * 8 - bit - kind.size)
    value &= (1 << kind.size) - 1
    return value - (1 << kind.size) if kind.signed and value >> (kind.size - 1) else value


def _float(name: str, kind: Float) -> Walk:
    form = struct.Struct(("<" if kind.little else ">") + {16: "e", 32: "f"}.get(kind.size, "d"))

    def walk(data: bytes, bit: int, scope: Scope) -> int:
        bit += -bit % kind.align
        if (bit >> 3) + form.size > len(data):
            raise IndexError
        scope[name] = form.unpack_from(data, bit >> 3)[0]
        return bit + kind.size

    return walk


def _text(name: str) -> Walk:
    def walk(data: bytes, bit: int, scope: Scope) -> int:
        at = (bit + 7) >> 3
        end = data.find(0, at)
        if end < 0:
            raise IndexError
        scope[name] = data[at:end]
        return (end + 1) << 3

    return walk


def _struct(kind: Struct, kinds: dict[str, Type]) -> Walk:
    align = kind.align
    walks = [walking(name, each, kinds) for name, each in kind.fields]

    def walk(data: bytes, bit: int, scope: Scope) -> int:
        bit += -bit % align
        for each in walks:
            bit = each(data, bit, scope)
        return bit

    return walk


def _array(name: str, kind: Array, kinds: dict[str, Type]) -> Walk:
    element, fixed = kind.element, kind.length
    is_bytes = isinstance(element, Integer) and element.size == 8 and element.align == 8
    each = walking(name, element, kinds)

    def walk(data: bytes, bit: int, scope: Scope) -> int:
        length = fixed if isinstance(fixed, int) else scope.get(fixed, -1)
        if not 0 <= length <= _LONGEST:
            raise UnreadableError(f"a sequence of {length:,} elements")
        bit += -bit % element.align  # also before an empty one, by the specification
        if is_bytes:
            at = bit >> 3
            if at + length > len(data):
                raise IndexError
            scope[name] = data[at : at + length]
            return bit + 8 * int(length)
        values = []
        for _ in range(length):
            bit = each(data, bit, scope)
            values.append(scope.get(name))
        scope[name] = values
        return bit

    return walk


def _variant(kind: Variant, kinds: dict[str, Type]) -> Walk:
    tag, tagged = kind.tag, kinds.get(kind.tag)
    if not isinstance(tagged, Enumeration):
        raise UnreadableError(f"a variant whose tag {tag!r} is not an earlier enumeration")
    options: Mapping[str, Walk] = {name: walking(name, each, dict(kinds)) for name, each in kind.options.items()}

    def walk(data: bytes, bit: int, scope: Scope) -> int:
        option = options.get(tagged.label(scope.get(tag, -1)))
        if option is None:
            raise UnreadableError(f"a variant without an option for {scope.get(tag)}")
        return option(data, bit, scope)

    return walk
