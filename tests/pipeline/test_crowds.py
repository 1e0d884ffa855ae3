"""Many clients that hold on to a port, or ask it for much: a request for health is still answered."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from laggard.pipeline.settings import Address
from laggard.pipeline.web.listen import Listen
from laggard.pipeline.web.server import MOST_REQUESTS, serve
from tests.pipeline.investigator.serving import NO_AUTHORITIES, served
from tests.pipeline.test_web import Port
from tests.pipeline.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

PROBES: Final = 20

HALF: Final = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
BODY: Final = b"POST /marks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"


@pytest.fixture(params=["worker", "page"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Each server that an orchestrator probes."""
    if request.param == "page":
        with served(tmp_path / "bus.db") as page:
            yield page.url
        return
    port = Port()
    yield port.url
    port.close()


def one_address(_: int) -> str:
    return "127.0.0.1"


def many_addresses(number: int) -> str:
    return f"127.0.0.{2 + number % 250}"


def held(url: str, count: int, address: Callable[[int], str], sent: bytes) -> list[socket.socket]:
    """Connections that have sent something, and wait."""
    where = ("127.0.0.1", int(url.rpartition(":")[2]))
    connections = []
    for number in range(count):
        connections.append(socket.create_connection(where, source_address=(address(number), 0)))
        with suppress(OSError):  # closed already
            connections[-1].sendall(sent)
    return connections


def probed(url: str, connections: Sequence[socket.socket], paths: Sequence[str]) -> list[int]:
    """The statuses of probes, each by a connection of its own, while the others send a byte now and then."""
    statuses = []
    for number in range(PROBES):
        for connection in connections[number::PROBES]:
            with suppress(OSError):
                connection.sendall(b"x")
        answer = httpx.get(url + paths[number % len(paths)], timeout=120, verify=NO_AUTHORITIES)
        statuses.append(answer.status_code)
    return statuses


@pytest.mark.parametrize("address", [one_address, many_addresses])
@pytest.mark.parametrize("count", [34, 260, 600])
def test_slow_connections_keep_no_probe_from_its_answer(url: str, count: int, address: Callable[[int], str]) -> None:
    connections = held(url, count, address, HALF)
    try:
        assert probed(url, connections, ["/-/healthy"]) == [200] * PROBES
    finally:
        for connection in connections:
            connection.close()


def test_slow_bodies_keep_no_probe_and_no_scrape_from_its_answer() -> None:
    port = Port()
    try:
        with ExitStack() as closing:
            connections = held(port.url, 2 * MOST_REQUESTS, lambda _: "127.0.0.2", BODY)
            for connection in connections:
                closing.enter_context(connection)
            assert probed(port.url, [], ["/-/healthy", "/-/ready", "/metrics"]) == [200] * PROBES
    finally:
        port.close()


class Held:
    """An application whose answers wait until they may go on."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.stop = threading.Event()
        self.go_on = threading.Event()

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            self.entered.release()
            while not self.go_on.is_set():
                await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(("shared", "answered"), [(False, 16), (True, 32)], ids=["one client", "a proxy"])
def test_one_client_has_half_of_the_answers_at_once_and_a_proxy_all(*, shared: bool, answered: int) -> None:
    app = Held()
    serving = serve(app, Listen.resolve(Address("127.0.0.1", 0)), app.stop, shared=lambda peer: shared)
    slow = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
    connections = held(serving.url, answered, one_address, slow)
    try:
        for _ in range(answered):
            assert app.entered.acquire(timeout=120)
        refused = httpx.get(serving.url, timeout=120, verify=NO_AUTHORITIES)
        assert refused.status_code == 503
        assert refused.json() == {
            "error": "too many requests at once",
            "expected": "at most 32 at once, 16 by one client",
        }
        assert refused.headers["retry-after"] == "5"
        (other,) = held(serving.url, 1, lambda _: "127.0.0.2", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connections.append(other)
        assert other.recv(12) == (b"HTTP/1.1 503" if shared else b"HTTP/1.1 200")
        assert httpx.get(f"{serving.url}/-/healthy", timeout=120, verify=NO_AUTHORITIES).status_code == 200
        app.go_on.set()
        until(lambda: httpx.get(serving.url, timeout=120, verify=NO_AUTHORITIES).status_code == 200)
    finally:
        app.go_on.set()
        for connection in connections:
            connection.close()
        serving.close()


def test_what_clients_send_fills_no_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "filters", [])  # those of servers that others left open
    port = Port()
    try:
        with caplog.at_level(logging.WARNING, "uvicorn.error"):
            for _ in range(100):
                (connection,) = held(port.url, 1, one_address, b"no HTTP\r\n\r\n")
                with connection:
                    assert connection.recv(12) == b"HTTP/1.1 400"
        assert 1 <= len(caplog.records) <= 12
    finally:
        port.close()
