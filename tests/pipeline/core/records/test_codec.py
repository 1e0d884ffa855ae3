"""What is encoded comes back bit for bit, and any bytes at all give a record or one clear error."""

from __future__ import annotations

import gc
import math
import pickle
import re
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.records import (
    Case,
    Decoder,
    Feedback,
    Frame,
    Layout,
    Mark,
    Received,
    RecordError,
    Request,
    Segment,
    Spent,
    Wish,
    codec,
    encode,
    make_layout,
)
from laggard.pipeline.core.records.limits import MAX_PLAIN_BYTES, MAX_TS
from tests.pipeline.core.records.conftest import RECORDS
from tests.pipeline.core.records.test_hostile import BYTES, read_or_refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    Parts = Callable[[Received], list[Any]]

PLACE = "counters[3]@1042"
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.binary(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


VALUES = np.array([[1.0, 2.0]])


def frame(values: Any = VALUES, **changes: Any) -> Frame:
    fields = {"keyed_by": "host", "key": "web-1", "scope": "process", "ts": 1.7e9, "sequence": 7}
    layout = make_layout(["nginx[7]"], ["nginx"], ["cpu_user_ratio", "memory_rss_bytes"])
    return Frame(**{**fields, "layout": layout, "values": values, **changes})


@given(record=RECORDS)
def test_what_goes_in_comes_out_bit_for_bit(record: Received, parts: Parts) -> None:
    encoded = encode(record)
    assert parts(Decoder().decode(encoded, PLACE)) == parts(record)
    assert encode(Decoder().decode(encoded, PLACE)) == encoded


OPTIONAL = {"hosts", "host", "name", "critical_s", "spent", "threads", "path", "notes", "texts"}
OPTIONAL |= {"cases", "until_ts", "incident", "note"}


@given(record=RECORDS, data=st.data(), junk=JUNK)
def test_any_field_may_hold_anything(record: Received, data: st.DataObject, junk: Any) -> None:
    fields = msgpack.unpackb(encode(record))
    name = data.draw(st.sampled_from(sorted(fields)))
    read_or_refuse(BYTES, msgpack.packb(fields | {name: junk}))
    del fields[name]
    assert read_or_refuse(BYTES, msgpack.packb(fields)) is None or name in OPTIONAL


@given(record=st.from_type(Frame), name=st.sampled_from(["rows", "names", "features", "commands"]), junk=JUNK)
def test_any_field_of_a_layout_may_hold_anything(record: Frame, name: str, junk: Any) -> None:
    packed = msgpack.packb(msgpack.unpackb(record.layout.packed) | {name: junk})
    read_or_refuse(BYTES, msgpack.packb(msgpack.unpackb(encode(record)) | {"layout": packed}))


def test_the_bits_of_nan_survive_and_values_are_a_read_only_view() -> None:
    bits = np.array([[0x7FF0000000000001, 0xFFF8DEADBEEF0001]], np.uint64)
    found = Decoder().decode(encode(frame(bits.view(np.float64))), PLACE)
    assert isinstance(found, Frame)
    assert (found.values.view(np.uint64) == bits).all()
    assert not found.values.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        found.values[0, 0] = 0.0


def test_values_that_are_not_contiguous_are_written_row_by_row() -> None:
    layout = make_layout(["a", "b", "c"], ["a", "b", "c"], ["x", "y"])
    values = np.arange(6.0).reshape(2, 3).T
    found = Decoder().decode(encode(frame(values, layout=layout)), PLACE)
    assert isinstance(found, Frame)
    assert found.values.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


# Layouts.


def test_the_same_names_give_the_same_layout() -> None:
    decoder = Decoder()

    def layout_of(record: Frame) -> Layout:
        found = decoder.decode(encode(record), PLACE)
        assert isinstance(found, Frame)
        return found.layout

    other = make_layout(["b"], ["b"], ["x", "y"])
    first, second = layout_of(frame()), layout_of(frame(layout=other))
    assert first is not second
    assert layout_of(frame()) is layout_of(frame(key="web-2")) is layout_of(frame(scope="thread")) is first
    assert layout_of(frame(layout=other)) is second


def test_a_known_layout_does_not_hide_a_wrong_field() -> None:
    decoder = Decoder()
    decoder.decode(encode(frame()), PLACE)
    fields = msgpack.unpackb(encode(frame()))
    wrongs: list[tuple[str, Any]] = [
        ("ts", -1.0), ("ts", True), ("sequence", 1.0), ("hosts", ["a"]), ("hosts", ""), ("hosts", None), ("key", []),
    ]  # fmt: skip
    for field, wrong in wrongs:
        with pytest.raises(RecordError, match=f"field '{field}'"):
            decoder.decode(msgpack.packb(fields | {field: wrong}), PLACE)


@pytest.mark.slow
@pytest.mark.parametrize(("streams", "most"), [(500, 2 * 50), (1, 1)])
def test_a_decoder_holds_a_bounded_number_of_layouts(streams: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are never seen again, of many hosts and of one."""
    monkeypatch.setattr(codec, "MAX_STREAMS", 50)

    def held() -> int:
        return sum(isinstance(each, Layout) for each in gc.get_objects())

    gc.collect()
    before = held()
    decoder = Decoder()
    for number in range(500):
        layout = make_layout([f"row-{number}"], ["row"], ["x", "y"])
        decoder.decode(encode(frame(layout=layout, key=f"host-{number % streams}")), PLACE)
    assert 1 <= held() - before <= most + codec.SPARE_LAYOUTS + 1


# Versions.


@pytest.mark.parametrize("version", [None, 1, [1], [1, 0, 0], [0, 9], [1, -1], ["1", "0"], [1.0, 0.5], [], {}])
def test_what_is_no_version_is_refused(version: Any) -> None:
    with pytest.raises(RecordError, match=r"field 'v': expected a version \[1, minor\]"):
        Decoder().decode(msgpack.packb({"v": version, "kind": "mark"}), PLACE)


# What is refused, and what is said of it.


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"keyed_by": "planet"}, "field 'keyed_by': expected 'host', 'application', 'pool' or 'service', got 'planet'"),
        ({"key": ""}, "field 'key': expected text of 1 to 253 characters without control characters, got ''"),
        ({"key": "a\nb"}, r"field 'key': expected text of 1 to 253 characters without control characters, got 'a\nb'"),
        ({"key": "\udc80"}, r"field 'key': .*, got '\udc80'"),
        ({"key": "x" * 254}, "field 'key': .* of 254 characters"),
        ({"scope": None}, "field 'scope': .*, got nothing"),
        ({"ts": float("nan")}, "field 'ts': expected seconds since the Unix epoch, from 0 to 253402300799, got nan"),
        ({"ts": float("inf")}, "field 'ts'"),
        ({"ts": 1.7e12}, "field 'ts'"),
        ({"ts": 10**400}, "field 'ts': .*, got an integer of 1,329 bits"),
        ({"ts": True}, "field 'ts'"),
        ({"sequence": -2}, "field 'sequence'"),
        ({"sequence": 1 << 63}, "field 'sequence'"),
        ({"sequence": 1.0}, "field 'sequence'"),
        ({"hosts": ("a",)}, "field 'hosts': expected nothing for a frame keyed by host"),
        (
            {"keyed_by": "application", "hosts": ("a", "a")},
            "field 'hosts': expected each name only once, got 'a' 2 times",
        ),
        ({"keyed_by": "application", "hosts": "a"}, "field 'hosts': expected a list of at most 10,000, got 'a'"),
        ({"values": [[1.0, 2.0]]}, "field 'values': expected an array of float64, got list of length 1"),
        (
            {"values": np.zeros((1, 2), np.float32)},
            "field 'values': expected an array of float64, got an array of float32",
        ),
        ({"values": np.zeros(2)}, r"field 'values': expected the shape (1, 2), got (2,)"),
    ],
)
def test_a_wrong_frame_is_not_written(changes: dict[str, Any], told: str) -> None:
    pattern = re.escape(told).replace(r"\.\*", ".*")
    with pytest.raises(RecordError, match=pattern):
        encode(frame(**changes))


SPENT = Spent("BF", "fcntl", "/srv/a.lock", "worker", 812, "", 1, 0.5)
SEGMENT = Segment(0, 0.2, 0.5, "BF", "fcntl")


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (Mark("h", 1.0, "\0"), "note"),
        (Mark("h", 1.0, "x" * 4097), "note"),
        (Mark("h", -1.0), "ts"),
        (Request("s", 1.0, "", 1.0), "request"),
        (Request("s", 1.0, "r", float("inf")), "duration_s"),
        (Request("s", 1.0, "r", 1.0, {"RS": -1.0}), r"counts\['RS'\]"),
        (Request("s", 1.0, "r", 1.0, {"RS": "1"}), r"counts\['RS'\]"),  # type: ignore[dict-item]
        (Request("s", 1.0, "r", 1.0, {}, {"": 1.0}), "times_s"),
        (Request("s", 1.0, "r", 1.0, {}, {}, ("open", "")), r"syscalls\[1\]"),
        (Request("s", 1.0, "r", 1.0, {}, {}, ("open",) * 100_001), "syscalls"),
        (Request("s", 1.0, "r", 1.0, host="a\n"), "host"),
        (Request("s", 1.0, "r", 1.0, name="x" * 1025), "name"),
        (Request("s", 1.0, "r", 1.0, critical_s={"RU": math.nan}), r"critical_s\['RU'\]"),
        (Request("s", 1.0, "r", 1.0, spent=(SPENT,) * 65), "spent"),
        (Request("s", 1.0, "r", 1.0, spent=(("RU", "read"),)), r"spent\[0\]"),  # type: ignore[arg-type]
        (Request("s", 1.0, "r", 1.0, spent=(SPENT, SPENT._replace(state=""))), r"spent\.state\[1\]"),
        (Request("s", 1.0, "r", 1.0, spent=(SPENT._replace(by="\0"),)), r"spent\.by\[0\]"),
        (Request("s", 1.0, "r", 1.0, spent=(SPENT._replace(pid=-1),)), r"spent\.pid\[0\]"),
        (Request("s", 1.0, "r", 1.0, spent=(SPENT._replace(times=1.5),)), r"spent\.times\[0\]"),  # type: ignore[arg-type]
        (Request("s", 1.0, "r", 1.0, spent=(SPENT._replace(time_s=math.inf),)), r"spent\.time_s\[0\]"),
        (Request("s", 1.0, "r", 1.0, threads=("",)), r"threads\[0\]"),
        (Request("s", 1.0, "r", 1.0, path=(SEGMENT,)), r"path\.thread"),
        (Request("s", 1.0, "r", 1.0, threads=("a",), path=(SEGMENT._replace(thread=-1),)), r"path\.thread\[0\]"),
        (Request("s", 1.0, "r", 1.0, threads=("a",), path=(SEGMENT._replace(end_s=0.1),)), r"path\.end_s\[0\]"),
        (Request("s", 1.0, "r", 1.0, threads=("a",), path=(SEGMENT._replace(state=""),)), r"path\.state\[0\]"),
        (Request("s", 1.0, "r", 1.0, threads=("a",), path=(SEGMENT,) * 101), "path"),
        (Request("s", 1.0, "r", 1.0, notes=("",)), r"notes\[0\]"),
        (Wish("", 1.0, "web-1:x", "pin"), "application"),
        (Wish("shop", -1.0, "web-1:x", "pin"), "ts"),
        (Wish("shop", 1.0, "x", "pin"), "metric"),
        (Wish("shop", 1.0, ":x", "pin"), "metric"),
        (Wish("shop", 1.0, "web-1:", "pin"), "metric"),
        (Wish("shop", 1.0, "web-1:x", "drop"), "wish"),  # type: ignore[arg-type]
        (Feedback("rack", "h", 1.0, "a", "usual"), "keyed_by"),  # type: ignore[arg-type]
        (Feedback("host", "h", 1.0, "", "usual"), "id"),
        (Feedback("host", "h", 1.0, "a", "odd"), "says"),  # type: ignore[arg-type]
        (Feedback("host", "h", 1.0, "a", "usual", until_ts=2.0), "until_ts"),
        (Feedback("host", "h", 1.0, "a", "expected"), "until_ts"),
        (Feedback("host", "h", 1.0, "a", "usual", (Case(),) * 65), "cases"),
        (Feedback("host", "h", 1.0, "a", "usual", ("backup",)), r"cases\[0\]"),  # type: ignore[arg-type]
        (Feedback("host", "h", 1.0, "a", "usual", (Case(name="\0"),)), r"cases\[0\].name"),
        (Feedback("host", "h", 1.0, "a", "usual", (Case(), Case(excess=-1.0))), r"cases\[1\].excess"),
        (Feedback("host", "h", 1.0, "a", "usual", (Case(resources=("",)),)), r"cases\[0\].resources\[0\]"),
    ],
)
def test_a_wrong_mark_request_or_wish_is_not_written(record: Received, field: str) -> None:
    with pytest.raises(RecordError, match=f"^field '{field}': expected "):
        encode(record)


def test_the_last_second_is_taken_and_the_next_is_not() -> None:
    assert Decoder().decode(encode(Mark("h", MAX_TS)), PLACE).ts == MAX_TS
    with pytest.raises(RecordError):
        encode(Mark("h", MAX_TS + 1.0))


def test_an_error_survives_pickling() -> None:
    error = RecordError(PLACE, "rows", "text", "nothing")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.place, again.field, again.expected) == (str(error), PLACE, "rows", "text")
    assert str(error) == "counters[3]@1042: field 'rows': expected text, got nothing"


# What is large.


def test_a_large_record_is_taken(parts: Parts) -> None:
    """All that is large in it is byte strings."""
    rows = [f"worker[{number}@{number * 7919}]" for number in range(20_000)]
    layout = make_layout(
        rows, ["worker"] * len(rows), [f"feature_{number}" for number in range(100)], ["/bin/worker"] * len(rows)
    )
    values = np.arange(2_000_000.0).reshape(20_000, 100)
    record = frame(values, layout=layout)
    encoded = encode(record)
    assert len(encoded) > 16 * MAX_PLAIN_BYTES
    assert parts(Decoder().decode(encoded, PLACE)) == parts(record)


def test_a_record_may_not_hold_much_beside_byte_strings() -> None:
    with pytest.raises(RecordError, match="more than 1,048,576 bytes that are not in byte strings"):
        Decoder().decode(msgpack.packb({"v": [1, 0], "kind": "mark", "note": "x" * MAX_PLAIN_BYTES}), PLACE)
    syscalls = [f"{number:01000}" for number in range(2000)]
    with pytest.raises(RecordError, match=r"expected a record of at most .* bytes, got more than 1,048,576 bytes"):
        encode(Request("s", 1.0, "r", 1.0, {}, {}, tuple(syscalls)))


def test_a_request_takes_few_bytes() -> None:
    """Each text once: 247 system calls, sixty things and a path of a hundred pieces."""
    names = ("openat", "read", "fcntl", "futex", "connect", "poll")
    request = Request(
        "shop", 1.0, "r1", 0.1, {"RS": 200.0}, {"RS": 0.1}, tuple(names[number % 6] for number in range(247)),
        spent=(SPENT,) * 60, threads=("php-fpm[1]",), path=(SEGMENT,) * 100,
    )  # fmt: skip
    assert len(encode(request)) < 5_000
    assert Decoder().decode(encode(request), PLACE) == request


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"texts": ["a"], "syscalls": [0, 1]}, "'syscalls': expected places in 'texts', which has 1, got 1"),
        ({"texts": ["a"], "syscalls": [-1]}, "'syscalls': expected places in 'texts', which has 1, got -1"),
        ({"texts": ["a"], "syscalls": [0.0]}, "'syscalls': expected places in 'texts', which has 1, got 0.0"),
        ({"texts": ["a"], "syscalls": ["a"]}, "'syscalls': expected places in 'texts', which has 1, got 'a'"),
        ({"texts": "a", "syscalls": []}, "'texts': expected a list of at most 100,000, got 'a'"),
        ({"texts": [1], "syscalls": []}, "'texts[0]': expected text"),
        ({"texts": ["a"], "spent": [[0, 0, 0, 0, 1, 7, 1, 1.0]]}, "'spent': expected places in 'texts'"),
        ({"texts": ["a"], "spent": [[0, 0]]}, "'spent[0]': expected a list of state, syscall, on, by, pid, result"),
        ({"texts": ["a"], "spent": [7]}, "'spent[0]': expected a list of state, syscall"),
        ({"texts": ["a"], "spent": 7}, "'spent': expected a list of at most 64, got 7"),
        ({"texts": ["a"], "path": [[0, 0.0, 1.0, 0, 0]]}, "'path.thread': expected places in 'threads', which has 0"),
        ({"syscalls": [0]}, "'syscalls[0]': expected text"),
    ],
)
def test_places_of_texts_that_are_none_are_refused(fields: dict[str, Any], told: str) -> None:
    written = msgpack.unpackb(encode(Request("shop", 1.0, "r1", 0.1))) | fields
    with pytest.raises(RecordError, match=re.escape(told)):
        Decoder().decode(msgpack.packb(written), PLACE)
