"""Any bytes and any lines give a record or one clear error, and none of them more memory and time than is bounded."""

from __future__ import annotations

import struct
import time
import tracemalloc
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.records import Decoder, Received, RecordError, encode, make_layout, read_line, write_line
from laggard.pipeline.core.records.limits import MAX_RECORD_BYTES
from tests.pipeline.core.records.conftest import RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable

PLACE = "counters[3]@1042"
MIB = 1 << 20


class Form(NamedTuple):
    """How records are written and read, and how long what is said of a wrong one may be."""

    write: Callable[[Received], bytes]
    read: Callable[[bytes, str], Received]
    said: int


BYTES = Form(encode, lambda value, place: Decoder().decode(value, place), 1000)
LINES = Form(lambda record: write_line(record).encode(), read_line, 2000)
FORMS = pytest.mark.parametrize("form", [BYTES, LINES], ids=["bytes", "lines"])


def read_or_refuse(form: Form, value: Any) -> Received | None:
    """Any other error than the one is for the test to fail on."""
    try:
        record = form.read(value, PLACE)
    except RecordError as error:
        told = str(error)
        fits = error.place == PLACE and error.expected and told.startswith(f"{PLACE}: ")
        if not fits or not told.isprintable() or len(told) > form.said:
            raise AssertionError(repr(told)) from error
        return None
    # What was taken can be passed on, a line in either form.
    encode(record)
    if form is LINES:
        write_line(record)
    return record


@FORMS
@given(value=st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_anything_gives_a_record_or_one_error(form: Form, value: bytes) -> None:
    read_or_refuse(form, value)


@given(text=st.text())
def test_any_text_is_a_line_or_one_error(text: str) -> None:
    read_or_refuse(LINES, text)


@FORMS
@given(record=RECORDS, edits=st.lists(st.tuples(st.integers(0), st.integers(0, 9), st.binary(max_size=4)), min_size=1))
def test_what_is_damaged_gives_a_record_or_one_error(
    form: Form, record: Received, edits: list[tuple[int, int, bytes]]
) -> None:
    value = form.write(record)
    for at, gone, come in edits:
        start = at % (len(value) + 1)
        value = value[:start] + come + value[start + gone :]
    read_or_refuse(form, value)


@FORMS
@given(record=RECORDS, cut=st.integers(0))
def test_what_is_cut_off_or_too_long_is_refused(form: Form, record: Received, cut: int) -> None:
    value = form.write(record)
    assert read_or_refuse(form, value[: cut % len(value)]) is None
    assert read_or_refuse(form, value + b"\0") is None


# Each of these would become far more than it is, in memory or in time.


def with_layout(packed: bytes, values: bytes = b"") -> bytes:
    fields = {"v": [1, 0], "kind": "frame", "layout": packed, "values": values}
    return cast("bytes", msgpack.packb(fields))


HOSTILE_BYTES = {
    "arrays nested deeply": b"\x91" * MIB,
    "maps nested deeply": b"\x81\xa0" * MIB,
    "an array that claims four billion": b"\xdd\xff\xff\xff\xff",
    "a map that claims four billion": b"\xdf\xff\xff\xff\xff",
    "text that claims four gigabytes": b"\x81\xa4rows\xdb\xff\xff\xff\xff",
    "bytes that claim four gigabytes": b"\x81\xa4rows\xc6\xff\xff\xff\xff",
    "an extension that claims four gigabytes": b"\x81\xa4rows\xc9\xff\xff\xff\xff\x05",
    "a million empty maps": b"\x81\xa1x\xdd\x00\x0f\x42\x40" + b"\x80" * 1_000_000,
    "a map of a million": b"\xdf\x00\x0f\x42\x40" + b"\xa0\xc0" * 1_000_000,
    "many arrays of many empty maps": b"\x81\xa1x\xdc\x01\x00" + (b"\xdc\xff\xff" + b"\x80" * 0xFFFF) * 256,
    "many short texts": b"\x81\xa1x\xdc\x00\xff" + (b"\xdc\xff\xff" + b"\xa2ab" * 0xFFFF) * 255,
    "just below the limit": b"\x81\xa1x\xdc\x00\x0a" + (b"\xdd\x00\x01\x86\xa0" + b"\x80" * 100_000) * 10,
    "too long": b"\x81\xa1x\xc6" + struct.pack(">I", MAX_RECORD_BYTES) + bytes(MAX_RECORD_BYTES),
    "names of many": with_layout(msgpack.packb({"rows": bytes(8 * MIB), "names": b"", "features": b""})),
    "a layout of empty maps": with_layout(b"\x81\xa4rows\xdc\x00\x80" + (b"\xdc\xff\xff" + b"\x80" * 0xFFFF) * 128),
    "a huge matrix of few names": with_layout(make_layout(["a"], ["a"], ["x"]).packed, values=bytes(32 * MIB)),
}  # fmt: skip
START = '{"ts": 1, "host": "h", "rows": '
HOSTILE_LINES = {
    "lists nested deeply": "[" * MIB,
    "objects nested deeply": '{"a":' * MIB,
    "rows nested deeply": START + '{"a":' * 100_000 + "1" + "}" * 100_001,
    "many empty lists": START + "[" + "[]," * 4 * MIB + "[]]}",
    "many empty objects": START + "[" + "{}," * 4 * MIB + "{}]}",
    "many numbers": START + "[" + "1.5," * 6 * MIB + "1]}",
    "a long integer": '{"ts": ' + "9" * 4 * MIB + "}",
    "a long fraction": '{"ts": 0.' + "9" * 4 * MIB + ', "host": "h", "rows": []}',
    "a name many times": "{" + '"a":1,' * 100_000 + '"b":1}',
    "many names and one twice": "{" + ",".join(f'"{number}":1' for number in range(100_000)) + ',"7":1}',
    "each row with its own feature": START + "{" + ",".join(f'"{n}":{{"{n}":1}}' for n in range(9_000)) + "}}",
    "too many features": START + '{"a":{' + ",".join(f'"{number}":1' for number in range(10_001)) + "}}}",
    "too many rows": START + "{" + ",".join(f'"{number}":{{}}' for number in range(100_001)) + "}}",
    "escapes": START + '"' + "\\ud83d\\udc0c" * 200_000 + '"}',
    "too long": " " * ((64 << 20) + 1),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "value", "most"),
    [
        *(pytest.param(BYTES, value, 2 * len(value) + 130 * MIB, id=name) for name, value in HOSTILE_BYTES.items()),
        *(pytest.param(LINES, line, 130 * MIB, id=f"in a line, {name}") for name, line in HOSTILE_LINES.items()),
    ],
)
def test_what_is_hostile_costs_bounded_memory_and_time(form: Form, value: bytes | str, most: int) -> None:
    tracemalloc.start()
    begin = time.process_time()
    try:
        assert read_or_refuse(form, value) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most
    assert time.process_time() - begin < 20.0
