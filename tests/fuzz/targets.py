"""What is fuzzed: how laggard gets the bytes, which errors it may raise, and real bytes to begin with.

A target raises nothing for any bytes: its own error for what it refuses is caught here, all else is a finding.
"""

from __future__ import annotations

import gzip
import json
import logging
import socket
import tarfile
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import zstandard
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open

from laggard.pipeline.cli.trace_read import requests_in
from laggard.pipeline.core.engine.snapshots import SnapshotError, encode_state, read_state
from laggard.pipeline.core.records import (
    Case,
    Decoder,
    Feedback,
    Frame,
    Mark,
    RecordError,
    Request,
    Segment,
    Spent,
    Wish,
    encode,
    make_layout,
    write_line,
)
from laggard.pipeline.core.records.outputs import write_output
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.applications.serving import ServedByFrames
from laggard.pipeline.replay import Replay
from laggard.pipeline.settings import Address, Settings
from laggard.pipeline.web.app import create_app
from laggard.pipeline.web.listen import Listen
from laggard.pipeline.web.server import serve
from laggard.pipeline.wiring import replayed
from laggard.producers.sources.access_log.formats import NAMED
from laggard.producers.sources.access_log.parsers import JSON, parser_of
from laggard.producers.sources.files import Recording, UnreadableError, merged
from laggard.producers.sources.prometheus.answers import AnswerError, parse_matrix, parse_number
from laggard.producers.sources.prometheus.page import PageError, parse_page
from laggard.producers.trace.errors import TraceError
from tests.producers.trace.ctf.written import everything

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from laggard.pipeline.core.records import Received
    from laggard.pipeline.core.records.outputs import ReplayOutput
    from laggard.producers.sources.access_log.requests import Parser

TESTS: Final = Path(__file__).parents[1]
TRACES: Final = TESTS / "producers/trace"
MIB: Final = 1 << 20
TS: Final = 1_700_000_000.0


class Target(NamedTuple):
    """What takes bytes.

    Attributes:
        run: takes them, and a folder to write to; raises what is a finding.
        seeds: real bytes, for a fuzzer to begin with.
        most_s: CPU time that one input may take.
        most_bytes: memory that it may take beside what is there.
        words: what a mutation may insert.

    """

    run: Callable[[bytes, Path], None]
    seeds: Callable[[], Iterable[bytes]]
    most_s: float = 5.0
    most_bytes: int = 256 * MIB
    words: tuple[bytes, ...] = ()


# Frames and the other records, as they are on the bus


def _records() -> Iterator[Received]:
    values = np.array([[0.12, 4096.0], [np.nan, np.inf]])
    layout = make_layout(["nginx[7]", "db"], ["nginx", "db"], ["cpu_user_ratio", "io_read_bytes_per_s"])
    yield Frame("host", "web-1", "process", TS, 7, layout, values)
    one = make_layout(["shop"], ["shop"], ["response_time_p95_s"], ["./shop"], users=["joe"], containers=["c"])
    yield Frame("application", "shop", "performance", TS, 8, one, np.array([[0.21]]), ("web-1", "db-1"))
    yield Mark("web-1", TS, "checkout hangs", 9)
    yield Wish("shop", TS, "web-1/nginx:cpu_wait_ratio", "pin", 10)
    yield Feedback("host", "web-1", TS, "5f0c", "usual", (Case("backup", ("disk",), "io_read_bytes_per_s", 4.0),))
    spent = Spent("BN", "connect", "127.0.0.1:3306", "", 0, "ECONNREFUSED", 57, 0.02)
    yield Request(
        "blog",
        TS,
        "r1",
        0.122,
        {"RU": 40.0, "BT": 3.0},
        {"RU": 0.1, "BT": 0.022},
        ("openat", "read"),
        host="web-1",
        spent=(spent,),
        threads=("php",),
        path=(Segment(0, 0.0, 0.02, "BN", "connect"),),
    )


def _frame(data: bytes, folder: Path) -> None:
    for decoder in (_decoder(), Decoder()):
        with suppress(RecordError):
            encode(decoder.decode(data, "counters[0]@1"))  # what was taken can be passed on
            write_line(decoder.decode(data, "counters[0]@1"))


@cache
def _decoder() -> Decoder:
    """One that remembers what came before, too."""
    return Decoder()


# Snapshots


def _snapshot(data: bytes, folder: Path) -> None:
    with suppress(SnapshotError):
        encode_state(read_state(data, "snapshot")[0])


def _snapshot_unpacked(data: bytes, folder: Path) -> None:
    """Without this, a mutation only ever meets the checksum."""
    _snapshot(zstandard.ZstdCompressor(level=1).compress(data), folder)


def _snapshots() -> Iterator[bytes]:
    for path in sorted((TESTS / "pipeline/core/engine/golden").glob("*.snapshot")):
        yield zstandard.ZstdDecompressor().decompress(path.read_bytes())


# Recordings: lines of JSON


def _lines() -> Iterator[bytes]:
    yield b"".join(write_line(record).encode().strip() + b"\n" for record in _records())
    for record in _records():
        yield write_line(record).encode().strip() + b"\n"
    ticks = [
        {"ts": TS + tick, "host": "web-1", "scope": "queue", "rows": {"mail": {"length_count": 3 * tick}}}
        for tick in range(20)
    ]
    yield b"".join(json.dumps(tick).encode() + b"\n" for tick in ticks)


def _recording(data: bytes, folder: Path) -> None:
    for _ in _read(data, folder, "r.jsonl"):
        pass


def _packed_recordings() -> Iterator[bytes]:
    for lines in _lines():
        yield gzip.compress(lines)
        yield zstandard.ZstdCompressor().compress(lines)


def _packed_recording(data: bytes, folder: Path) -> None:
    for name in ("r.jsonl.gz", "r.jsonl.zst"):
        for _ in _read(data, folder, name):
            pass


def _read(data: bytes, folder: Path, name: str) -> Iterator[tuple[str, Received]]:
    path = folder / name
    path.write_bytes(data)
    with suppress(UnreadableError), Recording(str(path)) as recording:
        yield from merged([recording], _nowhere)


def _nowhere(problem: str) -> None:
    assert problem


@cache
def _settings() -> Settings:
    return read_settings(environ={}, flags=[])


def _told(output: ReplayOutput) -> None:
    assert write_output(output)


def _replay(data: bytes, folder: Path) -> None:
    """Through all operators, as `laggard replay` does."""
    served = ServedByFrames()
    run = Replay(replayed(_settings(), served), _told, _nowhere, scores=True, served=served)
    for place, record in _read(data, folder, "r.jsonl"):
        run.take(place, record)
    run.finish()


# Traces. A folder's files stand in one input, each after its name.

_FILE: Final = b"\n--file--"


def _joined(files: Iterable[Path], most_bytes: int = 64 * 1024) -> bytes:
    return b"".join(_FILE + path.name.encode() + b"\n" + path.read_bytes()[:most_bytes] for path in sorted(files))


def _trace(data: bytes, folder: Path) -> None:
    for number, file in enumerate(data.split(_FILE)[1:]):
        name, _, content = file.partition(b"\n")
        safe = "".join(letter for letter in name.decode("latin-1")[:40] if letter.isalnum() or letter in "_.")
        (folder / (safe.strip(".") or str(number))).write_bytes(content)
    _requests(folder)


def _requests(path: Path) -> None:
    """As `laggard trace read` does."""
    with suppress(TraceError):
        for request in requests_in(path, _nowhere):
            encode(request)


def _ctf() -> Iterator[bytes]:
    for options in ({}, {"header": "large"}, {"natural": True}, {"in_packets": False}):
        with _temporary() as folder:
            yield _joined(everything(**options).write(Path(folder)).iterdir())
    for name in ("markers", "discarded", "perf_and_lttng"):
        with _temporary() as folder, tarfile.open(TRACES / f"ctf/data/{name}.tar.xz") as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder)
            for metadata in Path(folder).rglob("metadata"):
                yield _joined((path for path in metadata.parent.iterdir() if path.is_file()), 16 * 1024)


def _ftrace() -> Iterator[bytes]:
    for name in ("whole", "lost"):
        with _temporary() as folder:
            for packed in (TRACES / "ftrace/recorded" / name).glob("*.gz"):
                if packed.name != "trace.txt.gz":
                    (Path(folder) / packed.stem).write_bytes(gzip.decompress(packed.read_bytes())[:24_576])
            (Path(folder) / "names").touch()
            yield _joined(Path(folder).iterdir())


def _otlp(data: bytes, folder: Path) -> None:
    path = folder / "spans"
    path.write_bytes(data)
    _requests(path)


def _spans() -> Iterator[bytes]:
    for path in sorted((TRACES / "spans/data").iterdir()):
        yield path.read_bytes()
    yield gzip.compress((TRACES / "spans/data/lines.jsonl").read_bytes())


# Prometheus

_OPEN: Final = "application/openmetrics-text; version=1.0.0"


def _prometheus(data: bytes, folder: Path) -> None:
    for kind in ("text/plain; version=0.0.4", _OPEN):
        with suppress(PageError):
            assert parse_page(data, kind, lambda name: not name.startswith("other")).duplicates >= 0
    for parse in (parse_matrix, parse_number):
        with suppress(AnswerError):
            parse(data)


def _pages() -> Iterator[bytes]:
    registry = CollectorRegistry()
    seconds = Histogram("http_request_duration_seconds", "x", ["handler"], registry=registry, buckets=(0.1, 1))
    seconds.labels('/a"b\\c\n').observe(0.5, {"trace_id": "1"})
    Counter("http_requests", "x", ["code"], registry=registry).labels("200").inc(7)
    Gauge("queue", "x", registry=registry).set(float("inf"))
    yield generate_latest(registry)
    yield generate_open(registry)
    series = {"metric": {"__name__": "up", "job": "a"}, "values": [[TS, "1"], [TS + 1, "NaN"]]}
    yield json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}}).encode()
    yield json.dumps({"status": "success", "data": {"resultType": "scalar", "result": [TS, "2"]}}).encode()


# Access logs

_FORMATS: Final = (*NAMED, "$time_iso8601|${status}|$request_time", "$msec $upstream_response_time", JSON)


def _access_log(data: bytes, folder: Path) -> None:
    for said in _FORMATS:
        found = _parser(said).parse(data)
        assert len(found.ts) == len(found.duration_s) == len(found.status)
        assert len(found.ts) + found.unreadable <= data.count(b"\n") + 1


@cache
def _parser(said: str) -> Parser:
    return parser_of(said, {})


def _logs() -> Iterator[bytes]:
    yield b'127.0.0.1 - - [22/Nov/2026:14:06:12 +0000] "GET /a?b=\\x22c HTTP/1.1" 200 612 "-" "curl (\\"x\\")" 0.123\n'
    yield b'::1 - joe [22/Nov/2026:15:06:12 +0100] "GET / HTTP/1.1" 503 - "-" "Mozilla \\"5\\"" 250000\n'
    yield b'10.0.0.1 - - [22/Nov/2026:14:06:12 +0000] "GET / HTTP/2.0" 200 5 "-" "-" 12 "web@docker" "http://a" 500ms\n'
    yield b"2026-11-22T15:06:12+01:00|200|1.5\n1795356372.0 0.010, 0.020 : 0.030\n"
    yield b'{"ts": 1795356372.25, "duration": 0.000929675, "status": 200, "request": {"method": "GET", "uri": "/"}}\n'
    yield b'{"StartUTC": "2026-11-22T14:06:12.500000001Z", "Duration": 1500000000, "DownstreamStatus": 502}\n'
    yield b'{"start_time": "2026-11-22T14:06:12.250Z", "response_code": 200, "duration": 226}\n'
    yield b'{"time_iso8601": "2026-11-22T14:06:12+00:00", "status": "499", "request_time": "0.123"}\n'


# HTTP: the port for metrics and marks, over a socket


class _Port:
    """A real server; what goes wrong in it is remembered."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        handler = logging.Handler(logging.ERROR)
        handler.emit = lambda record: self.wrong.append(handler.format(record))  # type: ignore[method-assign]
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).addHandler(handler)
        listen = Listen.resolve(Address("127.0.0.1", 0))
        app = create_app(
            listen=listen, registry=CollectorRegistry(), recovering=dict, append=lambda _: None, host="web-1"
        )
        self.number = int(serve(app, listen, threading.Event()).url.rpartition(":")[2])

    def ask(self, data: bytes) -> bytes:
        """What it answers until it closes."""
        answer = b""
        address = "127.0.0.1", self.number
        with socket.create_connection(address, timeout=60) as connection, suppress(ConnectionError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                answer += part
        return answer


@cache
def _port() -> _Port:
    return _Port()


def _http(data: bytes, folder: Path) -> None:
    port = _port()
    answer = port.ask(data)
    assert answer[:9] in (b"", b"HTTP/1.1 "), answer[:80]
    assert b"HTTP/1.1 500" not in answer, answer[:400]
    wrong, port.wrong = port.wrong, []
    assert not wrong, wrong[0]


def _asked() -> Iterator[bytes]:
    head = b"Host: 127.0.0.1\r\nConnection: close\r\n"
    for path in (b"/", b"/metrics", b"/-/ready", b"/nothing"):
        accept = b"Accept: application/openmetrics-text;version=1.0.0;q=0.5\r\nAccept-Encoding: gzip\r\n"
        yield b"GET " + path + b" HTTP/1.1\r\n" + head + accept + b"\r\n"
    body = b'{"note": "checkout hangs", "host": "web-1", "ts": 1700000000.5}'
    post = b"POST /marks HTTP/1.1\r\n" + head + b"Content-Type: application/json\r\n"
    yield post + b"Content-Length: %d\r\n\r\n" % len(body) + body
    yield post + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="laggard-fuzz-")


_JSON: Final = (b"null", b"1e999", b"-1", b"[]", b"{}", b'""', b"[" * 2000, b"9" * 400, b"NaN", b'"\\ud800"', b"true")
_NUMBERS: Final = (
    bytes(8),
    b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
    b"\x80" + bytes(7),
    b"\0\0\xf0\x7f",
    b"\xff\xff\xff\x7f",
)

TARGETS: Final = {
    "frame": Target(_frame, lambda: map(encode, _records()), words=_NUMBERS),
    "snapshot": Target(_snapshot_unpacked, _snapshots, most_bytes=1024 * MIB, words=_NUMBERS),
    "recording": Target(_recording, _lines, words=_JSON),
    "packed": Target(_packed_recording, _packed_recordings, words=_NUMBERS),
    "replay": Target(_replay, _lines, most_s=20.0, words=_JSON),
    "ctf": Target(_trace, _ctf, words=(*_NUMBERS, _FILE, b"align = 8;", b"size = 64;", b"struct { integer", b"0")),
    "ftrace": Target(_trace, _ftrace, words=(*_NUMBERS, *_JSON)),
    "otlp": Target(_otlp, _spans, words=(*_NUMBERS, *_JSON)),
    "prometheus": Target(_prometheus, _pages, words=(*_JSON, b"# TYPE ", b"{", b"}", b"_bucket", b'le="', b"# EOF\n")),
    "access_log": Target(_access_log, _logs, words=(*_JSON, b"-", b"99999999999999999999", b'"', b"[", b"+9999")),
    "http": Target(_http, _asked, words=(*_JSON, b"\r\n", b"Content-Length: ", b"Host: ", b"%00", b"Upgrade: x\r\n")),
}
