"""OTLP exports as spans: JSON or protobuf, as SDKs and the collector's file exporter write them.

Sources: the OpenTelemetry protocol 1.5 (https://opentelemetry.io/docs/specs/otlp/), its file exporter
(https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/), and the collector's exporter. That one writes the
length of each protobuf message before it as 4 bytes, the highest first; other writers use a varint.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from typing import IO, TYPE_CHECKING, Any, Final, cast

import zstandard

from laggard.producers.system.redaction import redact
from laggard.producers.trace.errors import TraceError
from laggard.producers.trace.other_formats import BYTES, other_format
from laggard.producers.trace.otlp_span import KINDS, Span, SpanKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from laggard.producers.trace.problems import Problems

MAX_MESSAGE: Final = 64 << 20
"""The longest accepted message, in bytes: a parser needs up to 30 times its size."""

LATEST_NS: Final = (1 << 63) - 1
"""The latest time that a record can have."""

LONGEST_VALUE: Final = 1024
"""The longest text of an attribute; longer ones are cut, since the first words of a statement suffice. A longer id is
invalid."""

_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SERVICE: Final = "service.name"
_HOSTS: Final = ("host.name", "k8s.pod.name", "container.id", "host.id")
_FIELD_ONE: Final = 0x0A
_ERROR: Final = 2


def spans_in(path: Path, told: Problems) -> Iterator[Span]:
    """Yield the spans of a file in its order; unreadable parts are reported and skipped.

    Args:
        path: OTLP JSON (one message, or one on each line) or protobuf (one message, or each with its length before it),
            plain or compressed by gzip or Zstandard.
        told: collects the problems.

    Raises:
        TraceError: the file is unreadable or not OTLP, or protobuf is not installed.

    """
    try:
        with path.open("rb") as plain:
            other = other_format(plain.read(BYTES))
            if other:
                raise TraceError(path, f"expected OTLP traces, got {other}")
            file = _opened(plain)
            begin = file.read(5)
            if not begin.strip():
                raise TraceError(path, "expected OTLP traces, got an empty file" if not begin else _NONE)
            if begin.lstrip()[:1] in (b"{", b"["):
                yield from _json(begin, file, path, told)
            else:
                yield from _protobuf(begin, file, path, told)
    except (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile) as error:
        told.count(f"cannot read the compressed file to its end: {error}", path)
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from error


_NONE: Final = "expected OTLP traces, as JSON or protobuf, got something else"


def _opened(plain: IO[bytes]) -> IO[bytes]:
    plain.seek(0)
    magic = plain.read(4)
    plain.seek(0)
    if magic[:2] == b"\x1f\x8b":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=plain))
    if magic == b"\x28\xb5\x2f\xfd":
        return cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(plain, read_across_frames=True))
    return plain


# JSON


_LARGE: Final = f"a message of more than {MAX_MESSAGE >> 20} MiB: skipped"
_DEEP: Final = "a message has a value that is too deep or too long: skipped"


def _json(begin: bytes, file: IO[bytes], path: Path, problems: Problems) -> Iterator[Span]:
    number = known = 0
    lines = _lines(begin, file)
    for line in lines:
        number += 1
        if line is None:
            problems.count(_LARGE, f"{path}:{number}")
            continue
        if not line.strip():
            continue
        try:
            message = json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError):
            if number == 1:
                # One message on many lines.
                yield from _one_message(line, lines, path, problems)
                return
            problems.count("a line is not JSON: skipped", f"{path}:{number}")
            continue
        except (ValueError, RecursionError):
            known += 1
            problems.count(_DEEP, f"{path}:{number}")
            continue
        if isinstance(message, dict) and "resourceSpans" in message:
            known += 1
            yield from _from_json(message, f"{path}:{number}", problems)
        elif isinstance(message, dict) and message.keys() & {"resourceLogs", "resourceMetrics"}:
            known += 1
        else:
            problems.count("a line is not OTLP (expected `resourceSpans`): skipped", f"{path}:{number}")
    if not known:
        raise TraceError(path, "expected OTLP JSON with `resourceSpans`, got other JSON")


def _lines(begin: bytes, file: IO[bytes]) -> Iterator[bytes | None]:
    """Yield the lines of a file; None for one that is longer than `MAX_MESSAGE`, which is not stored."""
    parts: list[bytes] = []
    size = 0
    read = begin
    while read:
        for number, part in enumerate(read.split(b"\n")):
            if number:
                yield b"".join(parts) if size <= MAX_MESSAGE else None
                parts, size = [], 0
            size += len(part)
            if size <= MAX_MESSAGE:
                parts.append(part)
            else:
                parts.clear()
        read = file.read(1 << 16)
    yield b"".join(parts) if size <= MAX_MESSAGE else None


def _plain(text: str) -> str:
    """Return a text without control characters and surrogates, which no record may have."""
    return text if text.isprintable() else _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _host(shared: Mapping[str, str]) -> str:
    return next((shared[name] for name in _HOSTS if shared.get(name)), "")


def _one_message(first: bytes, lines: Iterator[bytes | None], path: Path, problems: Problems) -> Iterator[Span]:
    parts, size = [first], len(first)
    for line in lines:
        size += MAX_MESSAGE if line is None else len(line) + 1
        if line is None or size > MAX_MESSAGE:
            raise TraceError(path, f"expected OTLP JSON, got a message of more than {MAX_MESSAGE >> 20} MiB")
        parts.append(line)
    try:
        message = json.loads(b"\n".join(parts))
    except (ValueError, RecursionError) as error:
        raise TraceError(path, f"expected OTLP JSON, got something else: {error}") from None
    if not isinstance(message, dict) or "resourceSpans" not in message:
        raise TraceError(path, "expected OTLP JSON with `resourceSpans`, got other JSON")
    yield from _from_json(message, str(path), problems)


_WRONG: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


def _from_json(message: dict[str, Any], place: str, problems: Problems) -> Iterator[Span]:
    try:
        for resource in message["resourceSpans"]:
            shared = _attributes_of_json(resource.get("resource", {}).get("attributes", ()))
            for scope in resource.get("scopeSpans", ()):
                for span in scope.get("spans", ()):
                    try:
                        found = _span_of_json(span, shared)
                    except _WRONG as error:
                        problems.count(f"an invalid span ({_what(error)}): skipped", place)
                    else:
                        yield found
    except _WRONG as error:
        problems.count(f"an invalid message ({_what(error)}): its rest is skipped", place)


def _what(error: Exception) -> str:
    """Return the type of an error, or the missing name, but no value, which may have any length."""
    return repr(error) if isinstance(error, KeyError) else type(error).__name__


def _span_of_json(span: dict[str, Any], shared: Mapping[str, str]) -> Span:
    kind = span.get("kind", 0)
    status = span.get("status", {})
    attributes = _attributes_of_json(span.get("attributes", ()))
    error = ""
    if status.get("code") in (_ERROR, "STATUS_CODE_ERROR"):
        events = [_attributes_of_json(event.get("attributes", ())) for event in span.get("events", ())]
        error = _why(attributes, events)
    return Span(
        _id(span["traceId"]),
        _id(span["spanId"]),
        _id(span.get("parentSpanId", "")),
        shared.get(_SERVICE) or "unknown_service",
        _host(shared),
        _plain(str(span.get("name", ""))[:LONGEST_VALUE]),
        KINDS.get(kind, SpanKind.UNSPECIFIED),
        _time(span["startTimeUnixNano"]),
        _time(span["endTimeUnixNano"]),
        attributes,
        error,
    )


def _id(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_VALUE:
        raise ValueError
    return _plain(value)


def _time(value: Any) -> int:
    found = int(value)
    if not 0 <= found <= LATEST_NS:
        raise ValueError
    return found


def _attributes_of_json(attributes: Any) -> dict[str, str]:
    """Return the attributes with one value, as text."""
    found = {}
    for each in attributes:
        value = next(iter(each.get("value", {}).values()), "")
        if isinstance(value, str | int | float):
            found[each["key"]] = _plain(str(value)[:LONGEST_VALUE])
    return found


# Protobuf


def _protobuf(begin: bytes, file: IO[bytes], path: Path, problems: Problems) -> Iterator[Span]:
    try:
        from google.protobuf.message import DecodeError  # noqa: PLC0415 - an extra
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData  # noqa: PLC0415
    except ImportError as error:
        raise TraceError(
            path,
            "expected OTLP traces as JSON, got other data; to read protobuf, install opentelemetry-proto: "
            "pip install 'laggard[spans]'",
        ) from error
    known = 0
    for message in _messages(begin, file, path, problems):
        data = TracesData()
        try:
            data.ParseFromString(message)
        except DecodeError:
            problems.count("a message is not OTLP: skipped", path)
            continue
        known += 1
        for resource in data.resource_spans:
            shared = _attributes_of(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    try:
                        found = _span_of(span, shared)
                    except ValueError:
                        problems.count("an invalid span (ValueError): skipped", path)
                    else:
                        yield found
    if not known:
        raise TraceError(path, _NONE)


def _messages(begin: bytes, file: IO[bytes], path: Path, problems: Problems) -> Iterator[bytes]:
    if begin[0] == _FIELD_ONE and len(begin) > 1:
        # A single message: its only field is the first one.
        yield begin + file.read(MAX_MESSAGE)
        return
    fixed = begin[0] == 0
    rest = begin
    while True:
        rest += file.read(10 - len(rest)) if len(rest) < 10 else b""
        if not rest:
            return
        size, used = (int.from_bytes(rest[:4], "big"), 4) if fixed else _varint(rest)
        if not used or size > MAX_MESSAGE:
            problems.count("expected the length of a message, got something else: the rest is skipped", path)
            return
        message = rest[used:] + file.read(max(0, size - len(rest) + used))
        if len(message) < size:
            problems.count("the file ends within a message", path)
            return
        rest = message[size:]
        yield message[:size]


def _varint(data: bytes) -> tuple[int, int]:
    """Return a number and its length in bytes; 0 for none."""
    value = 0
    for index, byte in enumerate(data):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, index + 1
    return 0, 0


def _span_of(span: Any, shared: Mapping[str, str]) -> Span:
    attributes = _attributes_of(span.attributes)
    error = ""
    if span.status.code == _ERROR:
        error = _why(attributes, [_attributes_of(event.attributes) for event in span.events])
    return Span(
        _id(span.trace_id.hex()),
        _id(span.span_id.hex()),
        _id(span.parent_span_id.hex()),
        shared.get(_SERVICE) or "unknown_service",
        _host(shared),
        _plain(span.name[:LONGEST_VALUE]),
        KINDS.get(span.kind, SpanKind.UNSPECIFIED),
        _time(span.start_time_unix_nano),
        _time(span.end_time_unix_nano),
        attributes,
        error,
    )


def _attributes_of(attributes: Any) -> dict[str, str]:
    found = {}
    for each in attributes:
        which = each.value.WhichOneof("value")
        if which in ("string_value", "int_value", "double_value", "bool_value"):
            found[each.key] = _plain(str(getattr(each.value, which))[:LONGEST_VALUE])
    return found


def _why(attributes: Mapping[str, str], events: list[dict[str, str]]) -> str:
    """Return the reason for a failure, in a word that is stable across requests."""
    sources = [attributes, *events]
    for name in (
        "error.type",
        "exception.type",
        "rpc.grpc.status_code",
        "http.response.status_code",
        "http.status_code",
    ):
        for each in sources:
            if each.get(name):
                return redact(each[name])
    return "error"
