"""Requests out of spans. `data` holds real exports of opentelemetry-sdk 1.45: three requests to two services."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.records import Decoder, Segment, Spent, encode
from laggard.producers.trace import otlp
from laggard.producers.trace.errors import TraceError
from laggard.producers.trace.otlp_span import Span, SpanKind
from laggard.producers.trace.spans import Spans, is_entry, read_spans, request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.pipeline.core.records import Request

DATA = Path(__file__).parent / "data"
FILES = ["lines.jsonl", "one.json", "bare.pb", "delimited.pb", "varint.pb"]
START = 1_700_000_000_000_000_000


def ns(times: dict[str, float] | Any) -> dict[str, int]:
    return {state: round(time * 1e9) for state, time in times.items()}


def checked(request: Request) -> Request:
    """What holds for each request."""
    duration = round(request.duration_s * 1e9)
    for times in (request.times_s, request.critical_s):
        assert sum(ns(times).values()) == duration
    assert sum(round(spent.time_s * 1e9) for spent in request.spent) == duration
    assert request.times_s.keys() == request.counts.keys()
    assert len(request.path) <= 100
    assert request.path[0].begin_s == 0.0
    assert request.path[-1].end_s == request.duration_s
    assert all(one.end_s == two.begin_s for one, two in zip(request.path, request.path[1:], strict=False))
    assert {0, *(segment.thread for segment in request.path)} == set(range(len(request.threads)))
    return request


def spans_of(*spans: tuple[str, str, int, int] | tuple[str, str, int, int, dict[str, Any]]) -> list[Span]:
    """Spans by name: `parent`, begin and end in milliseconds, and what else is known of them."""
    found: dict[str, Span] = {}
    for name, parent, begin, end, *more in spans:
        options: dict[str, Any] = {"kind": SpanKind.INTERNAL, "service": "shop", "host": "", "attributes": {}}
        if not parent:
            options["kind"] = SpanKind.SERVER
        options.update(more[0] if more else {})
        span = Span(
            trace="t",
            span=name,
            parent=parent,
            name=name,
            begin_ns=START + begin * 1_000_000,
            end_ns=START + end * 1_000_000,
            **options,
        )
        if parent in found:
            found[parent].children.append(span)
        found[name] = span
    return list(found.values())


def pieces(request: Request) -> list[tuple[int, str, str]]:
    """Of the path the begin in milliseconds, state and detail."""
    return [(round(each.begin_s * 1e3), each.state, each.detail) for each in request.path]


CALL: dict[str, Any] = {
    "kind": SpanKind.CLIENT,
    "attributes": {"server.address": "db-1", "server.port": "3306", "db.system": "mysql"},
}


@pytest.mark.parametrize("name", FILES)
def test_all_forms_of_an_export_say_the_same(name):
    spans = read_spans(DATA / name)

    found = [checked(request) for request in spans]

    assert spans.warnings == ()
    assert found == list(read_spans(DATA / "one.json"))
    assert [(request.service, request.host, request.name) for request in found] == [
        ("shop", "web-1", "GET /cart/{id}"),
        ("catalogue", "web-2", "GET /items/{id}"),
    ] * 3
    assert found[-1].request.startswith(found[-2].request.partition("-")[0])


def test_what_a_real_request_was_spent_on():
    request = [request for request in read_spans(DATA / "lines.jsonl") if request.service == "shop"][-1]

    told = [spent._replace(time_s=0.0) for spent in request.spent]
    # `render header` ran beside `render body`, which took longer: it was not waited for.
    assert told == [
        Spent("self", "render body", "", "", 0, "", 1, 0.0),
        Spent("client", "GET", "catalogue:8080", "catalogue", 0, "", 1, 0.0),
        Spent("self", "", "", "", 0, "", 1, 0.0),
        Spent("client", "SELECT shop.items", "db-1:3306", "", 0, "", 1, 0.0),
        Spent("client", "Payments/Charge", "Payments", "", 0, "UNAVAILABLE", 1, 0.0),
        Spent("producer", "publish", "orders", "", 0, "", 1, 0.0),
    ]
    assert request.syscalls == (
        *("SELECT shop.items", "GET", "render header", "render body", "publish", "Payments/Charge"),
    )
    assert request.counts == {"self": 5.0, "client": 3.0, "producer": 1.0}
    assert request.threads == ("shop", "web-2/catalogue")
    assert set(request.times_s) == {"self", "client", "producer"}
    assert set(request.critical_s) == {"self", "client", "producer", "server"}
    assert Decoder().decode(encode(request), "") == request


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        pytest.param(
            [("root", "", 0, 10), ("a", "root", 1, 4, CALL), ("b", "root", 5, 9)],
            [(0, "self", ""), (1, "client", "a"), (4, "self", ""), (5, "self", "b"), (9, "self", "")],
            id="one after the other",
        ),
        pytest.param(
            [("root", "", 0, 10), ("a", "root", 1, 6, CALL), ("b", "root", 1, 9, CALL)],
            [(0, "self", ""), (1, "client", "b"), (9, "self", "")],
            id="side by side: the last to end",
        ),
        pytest.param(
            [("root", "", 0, 10), ("a", "root", 1, 6, CALL), ("b", "root", 5, 9, CALL), ("c", "root", 2, 5, CALL)],
            [(0, "self", ""), (2, "client", "c"), (5, "client", "b"), (9, "self", "")],
            id="overlapping: only what had ended was waited for",
        ),
        pytest.param(
            [("root", "", 0, 10), ("a", "root", -3, 2, CALL), ("b", "root", 8, 14, CALL)],
            [(0, "client", "a"), (2, "self", ""), (8, "client", "b")],
            id="beyond the parent: cut off",
        ),
        pytest.param(
            [("root", "", 0, 10), ("a", "root", 12, 14), ("b", "root", -2, -1), ("c", "root", 5, 5)],
            [(0, "self", "")],
            id="outside of the parent, or of no length: nothing",
        ),
        pytest.param(
            [("root", "", 0, 10), ("a", "root", 2, 9), ("b", "a", 3, 12, CALL), ("c", "a", 2, 3, CALL)],
            [(0, "self", ""), (2, "client", "c"), (3, "client", "b"), (9, "self", "")],
            id="one in another",
        ),
        pytest.param(
            [
                ("root", "", 0, 10),
                ("call", "root", 2, 8, {"kind": SpanKind.CLIENT}),
                ("in", "call", 3, 7, {"kind": SpanKind.SERVER, "service": "stock", "host": "b"}),
                ("query", "in", 4, 5, {"service": "stock", "host": "b", **CALL}),
            ],
            [
                *((0, "self", ""), (2, "client", "call"), (3, "server", "in"), (4, "client", "query")),
                *((5, "server", "in"), (7, "client", "call"), (8, "self", "")),
            ],
            id="another service",
        ),
        pytest.param(
            [
                ("root", "", 0, 10),
                ("call", "root", 2, 8, {"kind": SpanKind.CLIENT}),
                ("in", "call", 103, 107, {"kind": SpanKind.SERVER, "service": "stock", "host": "b"}),
                ("within", "in", 104, 105, {"service": "stock", "host": "b"}),
            ],
            [
                *((0, "self", ""), (2, "client", "call"), (3, "server", "in"), (4, "server", "within")),
                *((5, "server", "in"), (7, "client", "call"), (8, "self", "")),
            ],
            id="another host whose clock is 100 ms ahead",
        ),
        pytest.param(
            [
                ("root", "", 0, 10),
                ("send", "root", 2, 3, {"kind": SpanKind.PRODUCER}),
                ("receive", "send", 20, 30, {"kind": SpanKind.CONSUMER, "service": "mail"}),
            ],
            [(0, "self", ""), (2, "producer", "send"), (3, "self", "")],
            id="a message is not waited for",
        ),
    ],
)
def test_the_path_is_what_was_waited_for(spans, expected):
    assert pieces(checked(request_of(spans_of(*spans)[0]))) == expected


def test_from_its_own_service_a_call_is_a_wait():
    spans = spans_of(
        ("root", "", 0, 10),
        ("call", "root", 2, 8, {"kind": SpanKind.CLIENT}),
        ("in", "call", 3, 7, {"kind": SpanKind.SERVER, "service": "stock"}),
    )

    request = checked(request_of(spans[0]))

    assert ns(request.times_s) == {"client": 6_000_000, "self": 4_000_000}
    assert ns(request.critical_s) == {"client": 2_000_000, "self": 4_000_000, "server": 4_000_000}
    assert request.spent[0] == Spent("client", "call", "", "stock", 0, "", 1, 0.006)


def test_many_alike_are_summed_and_each_is_counted():
    """A query for each row, instead of one for all."""
    queries = [(f"q{index}", "root", 2 * index, 2 * index + 1, CALL) for index in range(1, 401)]
    named = [
        (*query[:4], {**CALL, "attributes": {**CALL["attributes"], "db.operation": "SELECT"}}) for query in queries
    ]

    request = checked(request_of(spans_of(("root", "", 0, 1000), *named)[0]))

    assert request.counts == {"client": 400.0, "self": 401.0}
    assert request.spent[1] == Spent("client", "SELECT", "db-1:3306", "", 0, "", 400, 0.4)
    assert request.syscalls == ("SELECT",) * 400


@pytest.mark.slow
def test_a_trace_of_20000_levels_is_no_trouble():
    spans = [("0", "", 0, 100_000), *((str(at), str(at - 1), at, 100_000 - at) for at in range(1, 20_000))]

    request = checked(request_of(spans_of(*spans)[0]))

    assert ns(request.times_s) == {"self": 100_000_000_000}


@st.composite
def trees(draw: Callable[..., Any]) -> Sequence[Span]:
    """Spans anyhow: overlapping, beyond their parents, of other services and hosts."""
    count = draw(st.integers(1, 40))
    rows = []
    for index in range(count):
        parent = "" if index == 0 else f"s{draw(st.integers(0, index - 1))}"
        begin = draw(st.integers(0, 60)) if index else 0
        end = begin + draw(st.integers(0, 60)) if index else 50
        kind = draw(st.sampled_from(SpanKind))
        service, host = draw(st.sampled_from([("shop", "a"), ("shop", "b"), ("stock", "b"), ("mail", "")]))
        rows.append((f"s{index}", parent, begin, end, {"kind": kind, "service": service, "host": host}))
    return spans_of(*rows)


@given(trees())
def test_times_sum_to_the_duration_whatever_the_spans(spans):
    by_name = {span.span: span for span in spans}

    for span in spans:
        if is_entry(span, by_name.get(span.parent)) and span.end_ns > span.begin_ns:
            checked(request_of(span))


@pytest.mark.parametrize(
    ("span", "parent", "expected"),
    [
        ({"kind": SpanKind.SERVER}, None, True),
        ({"kind": SpanKind.CONSUMER}, None, True),
        ({"kind": SpanKind.INTERNAL}, None, False),
        ({"kind": SpanKind.SERVER}, {"service": "edge", "kind": SpanKind.INTERNAL}, True),
        ({"kind": SpanKind.SERVER}, {"kind": SpanKind.CLIENT}, True),  # the service calls itself
        ({"kind": SpanKind.SERVER}, {"kind": SpanKind.SERVER}, False),  # two libraries saw the same request
        ({"kind": SpanKind.CONSUMER}, {"kind": SpanKind.PRODUCER}, True),
        ({"kind": SpanKind.CLIENT}, {"kind": SpanKind.SERVER}, False),
    ],
)
def test_which_spans_are_requests(span, parent, expected):
    rows = [("p", "", 0, 9, parent)] if parent else []
    found = spans_of(*rows, ("s", "p", 1, 2, span))

    assert is_entry(found[-1], found[0] if parent else None) is expected
    assert is_entry(spans_of(("job", "", 0, 1, {"kind": SpanKind.INTERNAL}))[0], None)


# Files


def exported(*spans: dict[str, Any], service: str = "shop") -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


def span(number: int, *, trace: int = 1, parent: str = "", at: float = 0.0, took: float = 0.1, kind: int = 2) -> Any:
    begin = START + round(at * 1e9)
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        **({"parentSpanId": parent} if parent else {}),
        "name": "GET /cart/4711",
        "kind": kind,
        "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(begin + round(took * 1e9)),
        "status": {},
    }


def written(path: Path, *messages: Any) -> Path:
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return path


@pytest.mark.parametrize("kind", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize("name", FILES)
def test_compressed_files_are_read_too(tmp_path, name, kind):
    path = tmp_path / name
    path.write_bytes(kind((DATA / name).read_bytes()))

    assert list(read_spans(path)) == list(read_spans(DATA / name))


def test_a_root_that_comes_late_is_waited_for(tmp_path):
    child = span(2, parent=f"{1:016x}", kind=3, at=0.01, took=0.05)
    path = written(tmp_path / "f.jsonl", exported(child), exported(span(3, trace=2, at=30)), exported(span(1, took=40)))

    spans = read_spans(path)

    # The last one ends after the trace's 60 s of patience had begun.
    assert [ns(request.times_s) for request in spans] == [
        {"self": 100_000_000},
        {"client": 50_000_000, "self": 39_950_000_000},
    ]
    assert spans.warnings == ()


def test_a_root_that_comes_too_late_is_told(tmp_path):
    child = span(2, parent=f"{1:016x}", kind=3, at=0.01, took=0.05)
    path = written(tmp_path / "f.jsonl", exported(child), exported(span(3, trace=2, at=90)), exported(span(1)))

    spans = read_spans(path)

    assert [request.request for request in spans] == [f"{2:032x}-{3:016x}"]
    assert spans.warnings == (
        f"{path}: a trace has no root and no request to a service: skipped",
        f"{path}: a span arrived after its trace was complete: skipped",
    )


def test_the_number_of_waiting_spans_is_limited(tmp_path):
    path = written(tmp_path / "f.jsonl", *(exported(span(number, trace=number)) for number in range(1, 8)))

    spans = Spans(path, most=3)

    assert len(list(spans)) == 7
    assert spans.warnings == (f"{path}: more than 3 spans wait: a trace is closed early (4 times)",)


def test_texts_that_no_record_may_have_are_cleaned(tmp_path):
    odd = {**span(1), "name": "GET /\x00\ud800", "traceId": "\x01" * 500}
    path = written(tmp_path / "f.jsonl", exported(odd, service="sh\x1bop"))

    (request,) = read_spans(path)

    assert Decoder().decode(encode(request), "") == request
    assert (request.service, request.name) == ("sh\ufffdop", "GET /\ufffd\ufffd")


def test_spans_within_each_other_in_a_circle_are_cut_open(tmp_path):
    within = [span(1, parent=f"{3:016x}"), span(2, parent=f"{1:016x}", kind=1), span(3, parent=f"{2:016x}", kind=3)]
    itself = span(4, parent=f"{4:016x}")
    path = written(tmp_path / "f.jsonl", exported(*within, itself))

    spans = read_spans(path)

    assert [(request.request[-1], ns(request.times_s)) for request in spans] == [
        ("1", {"client": 100_000_000}),
        ("4", {"self": 100_000_000}),
    ]
    assert spans.warnings == (f"{path}: spans are parents of each other: the cycle is cut (2 times)",)


def test_a_server_without_its_caller_says_so(tmp_path):
    path = written(tmp_path / "f.jsonl", exported(span(1, parent="00000000000000ff")))

    (request,) = read_spans(path)

    assert request.notes == ("its caller was not recorded",)
    assert request.name == "GET /cart/*"
    assert request.path == (Segment(0, 0.0, 0.1, "self", ""),)


def backward() -> Any:
    return {**span(9), "endTimeUnixNano": str(START - 5)}


@pytest.mark.parametrize(
    ("lines", "requests", "expected"),
    [
        ([exported(span(1)), "{", exported(span(2))], 2, ":2: a line is not JSON: skipped"),
        ([exported(span(1)), {"a": 1}], 1, ":2: a line is not OTLP (expected `resourceSpans`): skipped"),
        ([exported(span(1)), {"resourceMetrics": []}], 1, None),
        ([exported(span(1), {"name": "x"})], 1, ":1: an invalid span (KeyError('traceId')): skipped"),
        ([exported(span(1), backward())], 1, ": a span has impossible times: skipped"),
        ([exported(span(1), span(1))], 1, ": two spans have the same id: the second is skipped"),
        ([exported(span(1, took=0.0))], 0, ": a request has no duration: skipped"),
        ([exported(span(1, kind=99))], 1, None),
        (
            [exported(span(1, kind=1, parent=f"{2:016x}"))],
            0,
            ": a trace has no root and no request to a service",
        ),
    ],
)
def test_what_is_wrong_with_a_part_is_told_and_the_rest_is_read(tmp_path, lines, requests, expected):
    path = tmp_path / "f.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))

    spans = read_spans(path)

    assert len(list(spans)) == requests
    if expected is None:
        assert spans.warnings == ()
    else:
        (warning,) = spans.warnings
        assert warning.removeprefix(str(path)).startswith(expected)


def span_of(number: int, **other: object) -> dict[str, object]:
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": "GET /",
        "kind": 2,
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000000500000000",
        **other,
    }


def message_of(*spans: object) -> str:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


DEEP = 100_000 * "[" + 100_000 * "]"
GOOD = message_of(span_of(1)), message_of(span_of(2))


@pytest.mark.parametrize(
    ("hostile", "requests", "expected"),
    [
        (f'{{"resourceSpans": [], "deep": {DEEP}}}', 2, "a message has a value that is too deep or too long"),
        (f'{{"resourceSpans": {"9" * 5000}}}', 2, "a message has a value that is too deep or too long"),
        (
            message_of(span_of(3, startTimeUnixNano="9" * 5000), span_of(4)),
            3,
            "an invalid span (ValueError)",
        ),
        (message_of(span_of(3, endTimeUnixNano=2**63), span_of(4)), 3, "an invalid span (ValueError)"),
        (message_of(span_of(3, endTimeUnixNano=1e999), span_of(4)), 3, "an invalid span (OverflowError)"),
        (message_of(span_of(3, traceId="a" * 10_000), span_of(4)), 3, "an invalid span (ValueError)"),
        (message_of(span_of(3, traceId=[[1]]), span_of(4)), 3, "an invalid span (ValueError)"),
        (message_of(7, span_of(4)), 3, "an invalid span (AttributeError)"),
        ("{" + "x" * 2_000_000, 2, "a message of more than 1 MiB"),
    ],
    ids=["deep", "long", "time", "late", "infinite", "id", "nested id", "no span", "large"],
)
def test_one_hostile_record_does_not_cost_the_others(tmp_path, monkeypatch, hostile, requests, expected):
    monkeypatch.setattr(otlp, "MAX_MESSAGE", 1 << 20)
    monkeypatch.setattr(otlp, "_LARGE", "a message of more than 1 MiB: skipped")
    for place, lines in enumerate([(hostile, *GOOD), (GOOD[0], hostile, GOOD[1])]):
        path = tmp_path / f"spans{place}.jsonl"
        content = "\n".join(lines).encode()
        path.write_bytes(gzip.compress(content) if place else content)
        spans = read_spans(path)
        assert len(list(spans)) == requests
        assert [*spans.warnings] == [f"{path}:{place + 1}: {expected}: skipped"]


def test_a_line_without_an_end_is_never_held_whole(tmp_path):
    """200 MB of one line, from 200 kB: it took as much memory, and more to join."""
    path = tmp_path / "spans.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(f"{GOOD[0]}\n".encode())
        for _ in range(200):
            file.write(bytes(1 << 20).replace(b"\0", b"x"))
        file.write(f"\n{GOOD[1]}\n".encode())
    tracemalloc.start()
    spans = read_spans(path)
    found = len(list(spans))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == 2
    assert most < 2 * otlp.MAX_MESSAGE
    assert list(spans.warnings) == [f"{path}:2: a message of more than 64 MiB: skipped"]


def test_a_message_over_many_lines_is_bounded_too(tmp_path, monkeypatch):
    monkeypatch.setattr(otlp, "MAX_MESSAGE", 1 << 20)
    path = tmp_path / "spans.json"
    path.write_text("{\n" + 2_000_000 * " \n" + "}")
    with pytest.raises(TraceError, match="got a message of more than 1 MiB"):
        list(read_spans(path))


def test_damaged_compressed_data_ends_the_file_only(tmp_path):
    content = bytearray(gzip.compress("\n".join(GOOD).encode()))
    content[20:40] = bytes(20)
    path = tmp_path / "spans.jsonl.gz"
    path.write_bytes(content)
    spans = read_spans(path)
    assert list(spans) == []
    assert "cannot read the compressed file to its end" in spans.warnings[0]


def cut(content: bytes) -> bytes:
    return content[:-20]


def second_damaged(content: bytes) -> bytes:
    first = 4 + int.from_bytes(content[:4], "big")
    return content[: first + 4] + b"\xff" * (len(content) - first - 4)


@pytest.mark.parametrize(
    ("name", "change", "requests", "expected"),
    [
        ("delimited.pb", cut, 3, ": the file ends within a message"),
        ("varint.pb", cut, 3, ": the file ends within a message"),
        ("delimited.pb", second_damaged, 3, ": a message is not OTLP: skipped"),
        ("lines.jsonl", cut, 3, ":2: a line is not JSON: skipped"),
    ],
)
def test_a_file_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path, name, change, requests, expected):
    path = tmp_path / name
    path.write_bytes(change((DATA / name).read_bytes()))

    spans = read_spans(path)

    assert len(list(spans)) == requests
    assert [warning.removeprefix(str(path)) for warning in spans.warnings] == [expected]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ": expected OTLP traces, got an empty file"),
        (b"   \n", ": expected OTLP traces, as JSON or protobuf, got something else"),
        (
            b"PERFILE2" + bytes(90),
            ": expected OTLP traces, got a recording of perf: `perf data convert --to-ctf FOLDER",
        ),
        (b"/* CTF 1.8 */ trace {", ": expected OTLP traces, got a part of a CTF trace: give its folder instead"),
        (b"hello, this is a text", ": expected OTLP traces, as JSON or protobuf, got something else"),
        (b'{"data": [{"traceID": "1"}]}', ": expected OTLP JSON with `resourceSpans`, got other JSON"),
        (b'[{"traceId": "1"}]', ": expected OTLP JSON with `resourceSpans`, got other JSON"),
        (b'{"resourceSpans": [', ": expected OTLP JSON, got something else: "),
        (b"\n\xff\xff\xff\xff\xff", ": expected OTLP traces, as JSON or protobuf, got something else"),
    ],
)
def test_what_is_no_otlp_says_so(tmp_path, content, expected):
    path = tmp_path / "spans"
    path.write_bytes(content)

    with pytest.raises(TraceError) as raised:
        list(read_spans(path))

    assert str(raised.value).removeprefix(str(path)).startswith(expected)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TraceError, match="cannot be read: No such file or directory"):
        list(read_spans(tmp_path / "none"))
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        list(read_spans(tmp_path))


def test_without_protobuf_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.proto.trace.v1.trace_pb2", None)

    with pytest.raises(TraceError, match=r"as JSON, got other data; .*: pip install 'laggard\[spans\]'"):
        list(read_spans(DATA / "bare.pb"))
    assert len(list(read_spans(DATA / "one.json"))) == 6
