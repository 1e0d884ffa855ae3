"""The parser of TSDL, the language in which CTF 1.8 describes the events of a trace."""

from __future__ import annotations

import re
from typing import Final

from laggard.producers.trace.ctf.type_parser import TypeParser
from laggard.producers.trace.ctf.types import EMPTY, Clock, EventClass, Metadata, StreamClass, Struct, Type
from laggard.producers.trace.errors import TraceError

_MOST_HZ: Final = 10**12
_FURTHEST_NS: Final = 1 << 62


def parse_metadata(text: str, place: object = "metadata") -> Metadata:
    """Parse the types, streams, events and clocks in a text in TSDL.

    Raises:
        TraceError: it cannot be parsed; the message names the line.

    """
    return _Parser(text, place).metadata()


class _Parser:
    """A recursive-descent parser of statements."""

    def __init__(self, text: str, place: object) -> None:
        self._place = place
        self._parser = TypeParser(text, place)
        self._found = Metadata()
        self._events: list[EventClass] = []

    def metadata(self) -> Metadata:
        while self._parser.rest:
            self._statement()
        for event in self._events:
            self._found.streams.setdefault(event.stream, StreamClass(event.stream)).events[event.number] = event
        if not self._found.streams:
            raise TraceError(self._place, "found no stream and no event")
        return self._found

    def _statement(self) -> None:
        parser = self._parser
        word = parser.peek()
        if word in ("trace", "env", "clock", "stream", "event", "callsite") and parser.peek(1) == "{":
            parser.at += 1
            getattr(self, f"_{word}")()
            parser.takes(";")
        elif word in ("typealias", "typedef"):
            parser.alias()
        elif word in ("struct", "variant", "enum"):
            parser.type()
            parser.expect(";")
        elif word == ";":
            parser.at += 1
        else:
            raise parser.wrong_here(f"expected trace, env, clock, stream, event or a type, got {word!r}")

    def _trace(self) -> None:
        parser = self._parser
        # The byte order applies to all integers, also to those in the packet's header, which may come before it.
        order = re.compile(r"byte_order\s*=\s*(\w+)").search(parser.text, parser.tokens[parser.at][2])
        parser.little = order is None or order[1] in ("le", "native")
        values, types = parser.attributes()
        if values.get("major", "1") != "1":
            raise TraceError(self._place, f"expected CTF 1.8, got version {values['major']}")
        self._found.unique = values.get("uuid", "")
        self._found.packet_header = self._struct_of(types, "packet.header")

    def _env(self) -> None:
        self._found.environment.update(self._parser.attributes()[0])

    def _callsite(self) -> None:
        self._parser.attributes()

    def _clock(self) -> None:
        values, _ = self._parser.attributes()
        clock = Clock(
            values.get("name", ""),
            values.get("uuid", ""),
            self._parser.number(values.get("freq", "1000000000")) or 1_000_000_000,
            self._parser.number(values.get("offset", "0")),
            self._parser.number(values.get("offset_s", "0")),
        )
        if not 0 < clock.frequency <= _MOST_HZ or abs(clock.offset_ns) > _FURTHEST_NS:
            raise self._parser.wrong_here(
                "expected a clock of 1 to 10^12 Hz that is within 146 years of the Unix epoch"
            )
        self._found.clocks[clock.name] = clock

    def _stream(self) -> None:
        values, types = self._parser.attributes()
        number = self._parser.number(values.get("id", "0"))
        self._found.streams[number] = StreamClass(
            number,
            self._struct_of(types, "event.header"),
            self._struct_of(types, "packet.context"),
            self._struct_of(types, "event.context"),
        )

    def _event(self) -> None:
        values, types = self._parser.attributes()
        self._events.append(
            EventClass(
                values.get("name", ""),
                self._parser.number(values.get("id", "0")),
                self._parser.number(values.get("stream_id", "0")),
                self._struct_of(types, "context"),
                self._struct_of(types, "fields"),
            )
        )

    def _struct_of(self, types: dict[str, Type], name: str) -> Struct:
        kind = types.get(name, EMPTY)
        if not isinstance(kind, Struct):
            raise self._parser.wrong_here(f"expected a struct as {name}")
        return kind
