"""The parser of TSDL, the language in which CTF 1.8 describes the events of a trace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.ctf.tokens import Tokens
from laggard.producers.trace.ctf.types import (
    EMPTY,
    Array,
    Clock,
    Enumeration,
    EventClass,
    Float,
    Integer,
    Metadata,
    StreamClass,
    Struct,
    Text,
    Type,
    Variant,
)
from laggard.producers.trace.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEEPEST: Final = 64


def parse_metadata(text: str, place: object = "metadata") -> Metadata:
    """Parse the types, streams, events and clocks in a text in TSDL.

    Raises:
        TraceError: it cannot be parsed; the message names the line.

    """
    return _Parser(text, place).metadata()


_MOST_HZ: Final = 10**12
_FURTHEST_NS: Final = 1 << 62


def plain(name: str) -> str:
    """Return a field's name without the underscore that tracers put before all of them."""
    return name.removeprefix("_")


class _Parser(Tokens):
    """A recursive-descent parser of the tokens."""

    def __init__(self, text: str, place: object) -> None:
        super().__init__(text, place)
        self._depth = 0
        self._types: dict[str, Type] = {}
        self._found = Metadata()
        self._events: list[EventClass] = []

    def metadata(self) -> Metadata:
        while self.rest:
            self._statement()
        for event in self._events:
            self._found.streams.setdefault(event.stream, StreamClass(event.stream)).events[event.number] = event
        if not self._found.streams:
            raise TraceError(self.place, "found no stream and no event")
        return self._found

    # Statements

    def _statement(self) -> None:
        word = self.peek()
        if word in ("trace", "env", "clock", "stream", "event", "callsite") and self.peek(1) == "{":
            self.at += 1
            getattr(self, f"_{word}")()
            self.takes(";")
        elif word in ("typealias", "typedef"):
            self._alias()
        elif word in ("struct", "variant", "enum"):
            self._type()
            self.expect(";")
        elif word == ";":
            self.at += 1
        else:
            raise self.wrong_here(f"expected trace, env, clock, stream, event or a type, got {word!r}")

    def _attributes(self) -> tuple[dict[str, str], dict[str, Type]]:
        """Parse a block in braces: `name = value;` and `name := type;`. Aliases in it are added."""
        values: dict[str, str] = {}
        types: dict[str, Type] = {}
        self.expect("{")
        while not self.takes("}"):
            if self.peek() in ("typealias", "typedef"):
                self._alias()
                continue
            name = [self.next()[1]]
            while self.peek() not in ("=", ":=", ";", ""):
                name.append(self.next()[1])
            full = "".join(name)
            if self.takes(":="):
                types[full] = self._type()
            elif self.takes("="):
                values[full] = self._value()
            self.expect(";")
        return values, types

    def _value(self) -> str:
        parts = []
        while self.peek() not in (";", ""):
            kind, text = self.next()
            parts.append(_unquoted(text) if kind == "text" else text)
        return "".join(parts)

    def _trace(self) -> None:
        # The byte order applies to all integers, also to those in the packet's header, which may come before it.
        order = re.compile(r"byte_order\s*=\s*(\w+)").search(self.text, self.tokens[self.at][2])
        self._found.little = order is None or order[1] in ("le", "native")
        values, types = self._attributes()
        if values.get("major", "1") != "1":
            raise TraceError(self.place, f"expected CTF 1.8, got version {values['major']}")
        self._found.unique = values.get("uuid", "")
        self._found.packet_header = self._struct_of(types, "packet.header")

    def _env(self) -> None:
        self._found.environment.update(self._attributes()[0])

    def _callsite(self) -> None:
        self._attributes()

    def _clock(self) -> None:
        values, _ = self._attributes()
        clock = Clock(
            values.get("name", ""),
            values.get("uuid", ""),
            self._number(values.get("freq", "1000000000")) or 1_000_000_000,
            self._number(values.get("offset", "0")),
            self._number(values.get("offset_s", "0")),
        )
        if not 0 < clock.frequency <= _MOST_HZ or abs(clock.offset_ns) > _FURTHEST_NS:
            raise self.wrong_here("expected a clock of 1 to 10^12 Hz that is within 146 years of the Unix epoch")
        self._found.clocks[clock.name] = clock

    def _stream(self) -> None:
        values, types = self._attributes()
        number = self._number(values.get("id", "0"))
        self._found.streams[number] = StreamClass(
            number,
            self._struct_of(types, "event.header"),
            self._struct_of(types, "packet.context"),
            self._struct_of(types, "event.context"),
        )

    def _event(self) -> None:
        values, types = self._attributes()
        self._events.append(
            EventClass(
                values.get("name", ""),
                self._number(values.get("id", "0")),
                self._number(values.get("stream_id", "0")),
                self._struct_of(types, "context"),
                self._struct_of(types, "fields"),
            )
        )

    def _struct_of(self, types: dict[str, Type], name: str) -> Struct:
        kind = types.get(name, EMPTY)
        if not isinstance(kind, Struct):
            raise self.wrong_here(f"expected a struct as {name}")
        return kind

    def _number(self, text: str) -> int:
        try:
            return int(text, 0)
        except ValueError:
            raise self.wrong_here(f"expected a whole number, got {text!r}") from None

    def _alias(self) -> None:
        if self.next()[1] == "typedef":
            kind = self._type()
            name, kind = self._declarator(kind)
            self._types[name] = kind
        else:
            kind = self._type()
            self.expect(":=")
            words = []
            while self.peek() not in (";", ""):
                words.append(self.next()[1])
            self._types[" ".join(words)] = kind
        self.expect(";")

    # Types

    def _type(self) -> Type:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self.wrong_here(f"expected types nested at most {_DEEPEST} deep")
        kind, word = self.next()
        if kind != "word":
            self.at -= 1
            raise self.wrong_here(f"expected a type, got {word!r}")
        match word:
            case "integer":
                found: Type = self._integer()
            case "floating_point":
                values, _ = self._attributes()
                size = self._number(values.get("exp_dig", "8")) + self._number(values.get("mant_dig", "24"))
                found = Float(size, self._align(values), self._little(values))
            case "string":
                if self.peek() == "{":
                    self._attributes()
                found = Text()
            case "struct":
                found = self._struct()
            case "variant":
                found = self._variant()
            case "enum":
                found = self._enumeration()
            case _:
                found = self._named(word)
        self._depth -= 1
        return found

    def _named(self, word: str) -> Type:
        """Parse the name of a type, of one or several words (`unsigned long`); the longest known name is used."""
        words, found, end = [word], self._types.get(word), self.at
        while self.rest and self.tokens[self.at][0] == "word":
            words.append(self.next()[1])
            longer = self._types.get(" ".join(words))
            if longer is not None:
                found, end = longer, self.at
        self.at = end
        if found is None:
            raise self.wrong_here(f"expected a declared type, got {' '.join(words)!r}")
        return found

    def _align(self, values: dict[str, str]) -> int:
        align = self._number(values.get("align", "1"))
        if align < 1 or align & (align - 1):
            raise self.wrong_here(f"expected an alignment that is a power of two, got {align}")
        return align

    def _little(self, values: dict[str, str]) -> bool:
        order = values.get("byte_order", "native")
        return self._found.little if order == "native" else order == "le"

    def _integer(self) -> Integer:
        values, _ = self._attributes()
        size = self._number(values.get("size", "0"))
        if not 1 <= size <= 64:
            raise self.wrong_here(f"expected an integer of 1 to 64 bits, got {size}")
        return Integer(
            size,
            self._align(values) if "align" in values else (8 if size % 8 == 0 else 1),
            values.get("signed", "false").lower() in ("true", "1"),
            self._little(values),
            values["map"].split(".")[1] if values.get("map", "").startswith("clock.") else "",
            values.get("encoding", "none").lower() in ("utf8", "ascii"),
        )

    def _struct(self) -> Struct:
        name = self.next()[1] if self.peek() != "{" else ""
        if self.peek() != "{":
            kind = self._types.get(f"struct {name}")
            if not isinstance(kind, Struct):
                raise self.wrong_here(f"expected a declared struct, got {name!r}")
            return kind
        fields = self._fields()
        minimum = 1
        if self.takes("align"):
            self.expect("(")
            minimum = self._align({"align": self.next()[1]})
            self.expect(")")
        struct_type = Struct(tuple(fields), minimum)
        if name:
            self._types[f"struct {name}"] = struct_type
        return struct_type

    def _fields(self) -> list[tuple[str, Type]]:
        fields = []
        self.expect("{")
        while not self.takes("}"):
            if self.peek() in ("typealias", "typedef"):
                self._alias()
                continue
            kind = self._type()
            name, kind = self._declarator(kind)
            fields.append((plain(name), kind))
            self.expect(";")
        return fields

    def _declarator(self, kind: Type) -> tuple[str, Type]:
        name = self.next()[1]
        lengths: list[int | str] = []
        while self.takes("["):
            parts = []
            while self.peek() not in ("]", ""):
                parts.append(self.next()[1])
            self.expect("]")
            # A path such as `stream.event.context.n` is looked up by its last part.
            lengths.append(
                self._number(parts[0]) if parts and parts[0][0].isdigit() else plain(parts[-1] if parts else "")
            )
        for length in reversed(lengths):
            kind = Array(kind, length)
        return name, kind

    def _variant(self) -> Variant:
        name = self.next()[1] if self.peek() not in ("<", "{") else ""
        tag = ""
        if self.takes("<"):
            while self.peek() not in (">", ""):
                tag = self.next()[1]
            self.expect(">")
        if self.peek() != "{":
            kind = self._types.get(f"variant {name}")
            if not isinstance(kind, Variant):
                raise self.wrong_here(f"expected a declared variant, got {name!r}")
            return Variant(plain(tag) or kind.tag, kind.options)
        variant = Variant(plain(tag), dict(self._fields()))
        if name:
            self._types[f"variant {name}"] = variant
        return variant

    def _enumeration(self) -> Enumeration:
        name = self.next()[1] if self.peek() not in (":", "{") else ""
        container: Type = self._types.get("int", Integer(32, 8, signed=True, little=self._found.little))
        if self.takes(":"):
            container = self._type()
        if self.peek() != "{":
            kind = self._types.get(f"enum {name}")
            if not isinstance(kind, Enumeration):
                raise self.wrong_here(f"expected a declared enumeration, got {name!r}")
            return kind
        if not isinstance(container, Integer):
            raise self.wrong_here("expected an integer type for an enumeration")
        found = Enumeration(container, tuple(self._labels()))
        if name:
            self._types[f"enum {name}"] = found
        return found

    def _labels(self) -> Sequence[tuple[int, int, str]]:
        labels, following = [], 0
        self.expect("{")
        while not self.takes("}"):
            kind, label = self.next()
            first = last = following
            if self.takes("="):
                first = last = self._signed()
                if self.takes("..."):
                    last = self._signed()
            following = last + 1
            labels.append((first, last, plain(_unquoted(label) if kind == "text" else label)))
            self.takes(",")
        return labels

    def _signed(self) -> int:
        sign = -1 if self.takes("-") else 1
        self.takes("+")
        return sign * self._number(self.next()[1])


def _unquoted(text: str) -> str:
    """Return a quoted text without its quotes; escaped characters stand for themselves."""
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
