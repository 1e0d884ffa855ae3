"""The middleware: what it writes, and that it never gets in an application's way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.util import setup_testing_defaults

import pytest

from laggard.producers.trace import middleware
from laggard.producers.trace.boundaries.markers import parse_marker
from laggard.producers.trace.events import Kind
from laggard.producers.trace.middleware import LONGEST, Marker, TracedASGI, TracedWSGI

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file like the kernel's: where it is written is nothing to it, so what is written is watched."""
    path = tmp_path / "marker"
    path.touch()
    return path


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    write: Callable[[int, bytes], int] = os.write

    def watched(file: int, data: bytes) -> int:
        texts.append(data.decode())
        return write(file, data)

    monkeypatch.setattr(os, "write", watched)
    return texts


def called(application: Callable[..., Iterable[bytes]], path: str = "/cart") -> Iterable[bytes]:
    environ: dict[str, Any] = {"PATH_INFO": path, "REQUEST_METHOD": "GET"}
    setup_testing_defaults(environ)
    return application(environ, lambda *_: None)


class Answer:
    """A response in parts, which knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield b"a"
        yield b"b"

    def close(self) -> None:
        self.closed = True


def test_a_request_ends_when_its_response_is_closed(marker: Path, written: list[str]) -> None:
    answer = Answer()
    body = called(TracedWSGI(lambda environ, start: answer, "shop", str(marker)))
    assert list(body) == [b"a", b"b"]
    assert [parse_marker(text) for text in written] == [(Kind.BEGIN, 1, "shop\tGET /cart")]
    assert not hasattr(body, "__len__")
    body.close()  # type: ignore[attr-defined]
    body.close()  # type: ignore[attr-defined]
    assert answer.closed
    assert [parse_marker(text) for text in written][1:] == [(Kind.END, 1, "")]


def test_paths_are_utf_8(marker: Path, written: list[str]) -> None:
    # As a server hands them over: each byte as a character (PEP 3333).
    called(TracedWSGI(lambda environ, start: [], "shop", str(marker)), "/käse".encode().decode("latin-1"))
    assert parse_marker(written[0]) == (Kind.BEGIN, 1, "shop\tGET /käse")


def test_a_list_keeps_its_length(marker: Path, written: list[str]) -> None:
    body = called(TracedWSGI(lambda environ, start: [b"ab"], "shop", str(marker)))
    assert len(body) == 1  # type: ignore[arg-type]
    assert list(body) == [b"ab"]
    body.close()  # type: ignore[attr-defined]
    assert len(written) == 2


def test_an_application_that_fails(marker: Path, written: list[str]) -> None:
    def fails(environ: object, start: object) -> Iterable[bytes]:
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        called(TracedWSGI(fails, "shop", str(marker)))
    assert [parse_marker(text).kind for text in written] == [Kind.BEGIN, Kind.END]  # type: ignore[union-attr]


def test_without_a_recorder_the_body_is_unchanged_and_the_marker_is_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    missing = str(tmp_path / "none")
    original = os.open

    def watched(path: str, flags: int) -> int:
        opened.append(path)
        return original(path, flags)

    monkeypatch.setattr(os, "open", watched)
    body = [b"ab"]
    application = TracedWSGI(lambda environ, start: body, "shop", missing)
    assert all(called(application) is body for _ in range(100))
    assert opened == [missing]


def test_it_is_found_when_somebody_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    path = tmp_path / "marker"
    one = Marker("shop", str(path))
    assert one.begin("GET /") == 0
    path.touch()
    assert one.begin("GET /") == 0
    now += middleware.ABSENT_S
    assert one.begin("GET /") == 2
    path.unlink()
    one.end(2)  # that it is gone is no trouble
    assert one.begin("GET /") == 0


def test_where_the_file_is(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(middleware.VARIABLE, str(marker))
    assert Marker("shop").begin("GET /") == 1


@pytest.mark.parametrize("name", ["a\tb\nc", "ü" * 1000, "a\udcff"])
def test_what_is_asked_for_may_be_anything(marker: Path, written: list[str], name: str) -> None:
    assert Marker("shop", str(marker)).begin(name)
    mark = parse_marker(written[0])
    assert mark is not None
    service, _, told = mark.text.partition("\t")
    assert service == "shop"
    assert "\t" not in told
    assert 0 < len(told) <= LONGEST


def test_numbers_of_threads_differ(marker: Path) -> None:
    one = Marker("shop", str(marker))
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.extend(one.begin("x") for _ in range(50))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 200


def test_asgi(marker: Path, written: list[str]) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") == "/fails":
            raise KeyError("its own")

    traced = TracedASGI(application, "shop", str(marker))

    async def run() -> None:
        await traced({"type": "http", "method": "GET", "path": "/cart"}, None, None)  # type: ignore[arg-type]
        await traced({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
        with pytest.raises(KeyError):
            await traced({"type": "http", "method": "GET", "path": "/fails"}, None, None)  # type: ignore[arg-type]

    asyncio.run(run())
    assert [parse_marker(text) for text in written] == [
        (Kind.BEGIN, 1, "shop\tGET /cart"),
        (Kind.END, 1, ""),
        (Kind.BEGIN, 2, "shop\tGET /fails"),
        (Kind.END, 2, ""),
    ]


def test_it_may_be_copied(tmp_path: Path) -> None:
    source = Path(middleware.__file__).read_text()
    (tmp_path / "traced.py").write_text(source)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import traced; print([x for x in sys.modules if 'laggard' in x])"
    )
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, tmp_path], check=True, capture_output=True, text=True
    )
    assert told.stdout.strip() == "[]"


def test_it_costs_little_without_a_recorder(tmp_path: Path) -> None:
    one = Marker("shop", str(tmp_path / "none"))
    one.begin("GET /")
    begin = time.process_time()
    for _ in range(10_000):
        one.end(one.begin("GET /cart"))
    assert (time.process_time() - begin) / 10_000 < 20e-6  # measured: 0.2 us
