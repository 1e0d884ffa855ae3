"""The metadata of a CTF trace: a text in TSDL, alone or in packets."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final

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
    from pathlib import Path

PACKET_MAGIC: Final = 0x75D11D57
_PACKET_HEADER_BYTES: Final = 37

LONGEST: Final = 64 << 20
"""The most bytes of a metadata file: all kernel events of LTTng need half a megabyte."""

_TOKEN: Final = re.compile(
    r"""\s+ | /\*.*?\*/ | //[^\n]*
    | (?P<text>"(?:[^"\\]|\\.)*")
    | (?P<number>0[xX][0-9a-fA-F]+|\d+)[uUlL]*
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>:=|\.\.\.|[{}\[\]()<>;:,=.*+-])""",
    re.VERBOSE | re.DOTALL,
)
_DEEPEST: Final = 64


def read_metadata(path: Path) -> Metadata:
    """Read the file `metadata` in the folder of a trace.

    Raises:
        TraceError: it is missing, unreadable, or not of CTF 1.8.

    """
    try:
        if path.stat().st_size > LONGEST:
            raise TraceError(path, f"expected at most {LONGEST >> 20} MiB of metadata")
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror}") from error
    return parse_metadata(unpacked(content, path), path)


def unpacked(content: bytes, place: object) -> str:
    """Return the text of metadata that may be in packets.

    Raises:
        TraceError: it is neither a text nor whole packets.

    """
    for order in "<>":
        if content[:4] == struct.pack(f"{order}I", PACKET_MAGIC):
            return _joined(content, order, place)
    if content.lstrip()[:1] in (b"{", b"[", b"\x1e"):
        raise TraceError(place, "expected metadata of CTF 1.8, got JSON, as CTF 2 has it: record with CTF 1.8")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    if "trace" not in text or "{" not in text:
        what = "an empty file" if not content.strip() else "something else"
        raise TraceError(place, f"expected metadata of CTF 1.8 (a text in TSDL), got {what}")
    return text


def _joined(content: bytes, order: str, place: object) -> str:
    parts, at = [], 0
    while at < len(content):
        if len(content) - at < _PACKET_HEADER_BYTES:
            break  # the end of a cut copy: the part before may suffice
        magic, _, _, content_bits, packet_bits = struct.unpack_from(f"{order}I16sIII", content, at)
        if magic != PACKET_MAGIC or not _PACKET_HEADER_BYTES * 8 <= content_bits <= packet_bits:
            raise TraceError(place, f"expected a packet of metadata at byte {at:,}, there is none")
        parts.append(content[at + _PACKET_HEADER_BYTES : at + content_bits // 8])
        at += packet_bits // 8
    return b"".join(parts).decode(errors="replace")


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


class _Parser:
    """A recursive-descent parser of the tokens."""

    def __init__(self, text: str, place: object) -> None:
        self._place = place
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._at = 0
        self._depth = 0
        self._types: dict[str, Type] = {}
        self._found = Metadata()
        self._events: list[EventClass] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._wrong(at, f"expected a word of TSDL, got {text[at : at + 20]!a}")
            if match.lastgroup is not None:
                self._tokens.append((match.lastgroup, match[match.lastgroup], at))
            at = match.end()

    def metadata(self) -> Metadata:
        while self._at < len(self._tokens):
            self._statement()
        for event in self._events:
            self._found.streams.setdefault(event.stream, StreamClass(event.stream)).events[event.number] = event
        if not self._found.streams:
            raise TraceError(self._place, "expected a stream or an event, there is none")
        return self._found

    # Tokens

    def _wrong(self, at: int, problem: str) -> TraceError:
        return TraceError(f"{self._place}:{self._text.count(chr(10), 0, at) + 1}", problem)

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][1] if at < len(self._tokens) else ""

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise self._wrong(len(self._text), "expected more, the metadata ends")
        kind, text, _ = self._tokens[self._at]
        self._at += 1
        return kind, text

    def _expect(self, sign: str) -> None:
        place = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)
        got = self._next()[1]
        if got != sign:
            raise self._wrong(place, f"expected {sign!r}, got {got!r}")

    def _takes(self, sign: str) -> bool:
        if self._peek() != sign:
            return False
        self._at += 1
        return True

    def _here(self, problem: str) -> TraceError:
        place = self._tokens[min(self._at, len(self._tokens) - 1)][2] if self._tokens else 0
        return self._wrong(place, problem)

    # Statements

    def _statement(self) -> None:
        word = self._peek()
        if word in ("trace", "env", "clock", "stream", "event", "callsite") and self._peek(1) == "{":
            self._at += 1
            getattr(self, f"_{word}")()
            self._takes(";")
        elif word in ("typealias", "typedef"):
            self._alias()
        elif word in ("struct", "variant", "enum"):
            self._type()
            self._expect(";")
        elif word == ";":
            self._at += 1
        else:
            raise self._here(f"expected trace, env, clock, stream, event or a type, got {word!r}")

    def _attributes(self) -> tuple[dict[str, str], dict[str, Type]]:
        """Parse a block in braces: `name = value;` and `name := type;`. Aliases in it are added."""
        values: dict[str, str] = {}
        types: dict[str, Type] = {}
        self._expect("{")
        while not self._takes("}"):
            if self._peek() in ("typealias", "typedef"):
                self._alias()
                continue
            name = [self._next()[1]]
            while self._peek() not in ("=", ":=", ";", ""):
                name.append(self._next()[1])
            full = "".join(name)
            if self._takes(":="):
                types[full] = self._type()
            elif self._takes("="):
                values[full] = self._value()
            self._expect(";")
        return values, types

    def _value(self) -> str:
        parts = []
        while self._peek() not in (";", ""):
            kind, text = self._next()
            parts.append(_unquoted(text) if kind == "text" else text)
        return "".join(parts)

    def _trace(self) -> None:
        # The byte order applies to all integers, also to those in the packet's header, which may come before it.
        order = re.compile(r"byte_order\s*=\s*(\w+)").search(self._text, self._tokens[self._at][2])
        self._found.little = order is None or order[1] in ("le", "native")
        values, types = self._attributes()
        if values.get("major", "1") != "1":
            raise TraceError(self._place, f"expected CTF 1.8, got version {values['major']}")
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
            raise self._here("expected a clock of 1 to 10^12 Hz that is within 146 years of the Unix epoch")
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
            raise self._here(f"expected a struct as {name}")
        return kind

    def _number(self, text: str) -> int:
        try:
            return int(text, 0)
        except ValueError:
            raise self._here(f"expected a whole number, got {text!r}") from None

    def _alias(self) -> None:
        if self._next()[1] == "typedef":
            kind = self._type()
            name, kind = self._declarator(kind)
            self._types[name] = kind
        else:
            kind = self._type()
            self._expect(":=")
            words = []
            while self._peek() not in (";", ""):
                words.append(self._next()[1])
            self._types[" ".join(words)] = kind
        self._expect(";")

    # Types

    def _type(self) -> Type:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._here(f"expected types in types at most {_DEEPEST} deep")
        kind, word = self._next()
        if kind != "word":
            self._at -= 1
            raise self._here(f"expected a type, got {word!r}")
        match word:
            case "integer":
                found: Type = self._integer()
            case "floating_point":
                values, _ = self._attributes()
                size = self._number(values.get("exp_dig", "8")) + self._number(values.get("mant_dig", "24"))
                found = Float(size, self._align(values), self._little(values))
            case "string":
                if self._peek() == "{":
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
        words, found, end = [word], self._types.get(word), self._at
        while self._at < len(self._tokens) and self._tokens[self._at][0] == "word":
            words.append(self._next()[1])
            longer = self._types.get(" ".join(words))
            if longer is not None:
                found, end = longer, self._at
        self._at = end
        if found is None:
            raise self._here(f"expected a type that is declared, got {' '.join(words)!r}")
        return found

    def _align(self, values: dict[str, str]) -> int:
        align = self._number(values.get("align", "1"))
        if align < 1 or align & (align - 1):
            raise self._here(f"expected an alignment that is a power of two, got {align}")
        return align

    def _little(self, values: dict[str, str]) -> bool:
        order = values.get("byte_order", "native")
        return self._found.little if order == "native" else order == "le"

    def _integer(self) -> Integer:
        values, _ = self._attributes()
        size = self._number(values.get("size", "0"))
        if not 1 <= size <= 64:
            raise self._here(f"expected an integer of 1 to 64 bits, got {size}")
        return Integer(
            size,
            self._align(values) if "align" in values else (8 if size % 8 == 0 else 1),
            values.get("signed", "false").lower() in ("true", "1"),
            self._little(values),
            values["map"].split(".")[1] if values.get("map", "").startswith("clock.") else "",
            values.get("encoding", "none").lower() in ("utf8", "ascii"),
        )

    def _struct(self) -> Struct:
        name = self._next()[1] if self._peek() != "{" else ""
        if self._peek() != "{":
            kind = self._types.get(f"struct {name}")
            if not isinstance(kind, Struct):
                raise self._here(f"expected a struct that is declared, got {name!r}")
            return kind
        fields = self._fields()
        minimum = 1
        if self._takes("align"):
            self._expect("(")
            minimum = self._align({"align": self._next()[1]})
            self._expect(")")
        struct_type = Struct(tuple(fields), minimum)
        if name:
            self._types[f"struct {name}"] = struct_type
        return struct_type

    def _fields(self) -> list[tuple[str, Type]]:
        fields = []
        self._expect("{")
        while not self._takes("}"):
            if self._peek() in ("typealias", "typedef"):
                self._alias()
                continue
            kind = self._type()
            name, kind = self._declarator(kind)
            fields.append((plain(name), kind))
            self._expect(";")
        return fields

    def _declarator(self, kind: Type) -> tuple[str, Type]:
        name = self._next()[1]
        lengths: list[int | str] = []
        while self._takes("["):
            parts = []
            while self._peek() not in ("]", ""):
                parts.append(self._next()[1])
            self._expect("]")
            # A path such as `stream.event.context.n` is looked up by its last part.
            lengths.append(
                self._number(parts[0]) if parts and parts[0][0].isdigit() else plain(parts[-1] if parts else "")
            )
        for length in reversed(lengths):
            kind = Array(kind, length)
        return name, kind

    def _variant(self) -> Variant:
        name = self._next()[1] if self._peek() not in ("<", "{") else ""
        tag = ""
        if self._takes("<"):
            while self._peek() not in (">", ""):
                tag = self._next()[1]
            self._expect(">")
        if self._peek() != "{":
            kind = self._types.get(f"variant {name}")
            if not isinstance(kind, Variant):
                raise self._here(f"expected a variant that is declared, got {name!r}")
            return Variant(plain(tag) or kind.tag, kind.options)
        variant = Variant(plain(tag), dict(self._fields()))
        if name:
            self._types[f"variant {name}"] = variant
        return variant

    def _enumeration(self) -> Enumeration:
        name = self._next()[1] if self._peek() not in (":", "{") else ""
        container: Type = self._types.get("int", Integer(32, 8, signed=True, little=self._found.little))
        if self._takes(":"):
            container = self._type()
        if self._peek() != "{":
            kind = self._types.get(f"enum {name}")
            if not isinstance(kind, Enumeration):
                raise self._here(f"expected an enumeration that is declared, got {name!r}")
            return kind
        if not isinstance(container, Integer):
            raise self._here("expected an integer below an enumeration")
        found = Enumeration(container, tuple(self._labels()))
        if name:
            self._types[f"enum {name}"] = found
        return found

    def _labels(self) -> Sequence[tuple[int, int, str]]:
        labels, following = [], 0
        self._expect("{")
        while not self._takes("}"):
            kind, label = self._next()
            first = last = following
            if self._takes("="):
                first = last = self._signed()
                if self._takes("..."):
                    last = self._signed()
            following = last + 1
            labels.append((first, last, plain(_unquoted(label) if kind == "text" else label)))
            self._takes(",")
        return labels

    def _signed(self) -> int:
        sign = -1 if self._takes("-") else 1
        self._takes("+")
        return sign * self._number(self._next()[1])


def _unquoted(text: str) -> str:
    """Return a quoted text without its quotes; escaped characters stand for themselves."""
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
