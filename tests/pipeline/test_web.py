from __future__ import annotations

import gzip
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.records import Mark, encode
from laggard.pipeline.core.records.limits import MAX_NOTE
from laggard.pipeline.history.marks import mark_id
from laggard.pipeline.settings import Address
from laggard.pipeline.web import server
from laggard.pipeline.web.app import create_app
from laggard.pipeline.web.errors import RequestError
from laggard.pipeline.web.listen import Listen, ListenError
from laggard.pipeline.web.marks import MARKS_AT_ONCE, MAX_BODY_BYTES, Allowance, read_mark
from laggard.pipeline.web.server import serve
from tests.brokers.ports import free_port
from tests.pipeline.investigator.serving import NO_AUTHORITIES
from tests.pipeline.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

NOW = 1_700_000_000.0
TOKEN = "correct-horse-battery"


class Port:
    """A real server on a free port, and what its parts were told."""

    def __init__(self, host: str = "127.0.0.1", number: int = 0, token: str = "", page_token: str = "") -> None:
        self.registry = CollectorRegistry()
        self.left: dict[str, int] = {}
        self.marks: list[Mark] = []
        self.failure: Exception | None = None
        self.stop = threading.Event()
        self.seconds = 0.0
        self.between_s = 1.0  # marks: so they are never too many
        where = Listen.resolve(Address(host, number), token)
        app = create_app(
            listen=where,
            registry=self.registry,
            recovering=lambda: self.left,
            append=self.append,
            host="web-1",
            clock=lambda: NOW,
            allowance=Allowance(lambda: self.seconds),
            page_token=page_token,
        )
        self.serving = serve(app, where, self.stop)
        self.url = self.serving.url
        self.number = int(self.url.rpartition(":")[2])
        self.client = httpx.Client(base_url=self.url, timeout=120, verify=NO_AUTHORITIES)

    def append(self, mark: Mark) -> None:
        self.seconds += self.between_s
        if self.failure is not None:
            raise self.failure
        self.marks.append(mark)

    def close(self) -> None:
        self.client.close()
        self.serving.close()

    def post(self, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post("/marks", content=content, headers={"content-type": "application/json", **headers})


@pytest.fixture(scope="module")
def shared() -> Iterator[Port]:
    port = Port()
    yield port
    port.close()


@pytest.fixture
def port(shared: Port) -> Port:
    shared.left, shared.failure = {}, None
    shared.marks.clear()
    return shared


def refused(answer: httpx.Response, status: int, error: str) -> None:
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error", "expected"}
    assert error in answer.json()["error"]
    assert "Traceback" not in answer.text


def test_healthy_and_ready_and_what_else_is_here(port: Port) -> None:
    assert port.client.get("/-/healthy").json() == {"healthy": True}
    assert port.client.get("/-/ready").json() == {"ready": True}
    port.left = {"gaussian laggard.counters/0": 1200}
    answer = port.client.get("/-/ready")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "left": {"gaussian laggard.counters/0": 1200}}
    assert "retry-after" in answer.headers
    assert port.client.get("/-/healthy").status_code == 200
    answer = port.client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for word in ("/metrics", "/-/ready", "/marks", "web-1", "laggard why"):
        assert word in answer.text


def test_metrics_in_both_formats_and_compressed(port: Port) -> None:
    gauge = Gauge("laggard_example", "An example.", registry=port.registry)
    gauge.set(4)
    try:
        plain = port.client.get("/metrics", headers={"accept": "*/*", "accept-encoding": "identity"})
        assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert [family.name for family in parse_text(plain.text)] == ["laggard_example"]
        open_metrics = port.client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
        assert open_metrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert open_metrics.headers["content-encoding"] == "gzip"
        assert [family.name for family in parse_openmetrics(open_metrics.text)] == ["laggard_example"]
        with port.client.stream("GET", "/metrics", headers={"accept-encoding": "gzip"}) as answer:
            assert b"laggard_example 4.0" in gzip.decompress(b"".join(answer.iter_raw()))
    finally:
        port.registry.unregister(gauge)


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=x", "text/plain; version=1.x", ";;,", "é"])
def test_metrics_survive_any_accept(port: Port, accept: str) -> None:
    assert port.client.get("/metrics", headers={b"accept": accept.encode()}).status_code == 200


def test_too_many_marks_are_refused_until_there_is_room_again() -> None:
    port = Port()
    try:
        port.between_s = 0.0
        assert {port.post({"note": ""}).status_code for _ in range(MARKS_AT_ONCE)} == {201}
        answer = port.post({"note": ""})
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert answer.json() == {"error": "too many marks", "expected": "at most 60 at once, and 1 a second"}
        port.seconds += 2.5
        assert [port.post({"note": ""}).status_code for _ in range(3)] == [201, 201, 429]
        assert port.post({"nota": ""}).status_code == 400, "what is no mark is said to be none all the same"
    finally:
        port.close()


def test_mark_is_appended_and_says_where_to_look(port: Port) -> None:
    answer = port.post({"note": "checkout hangs"})
    assert answer.status_code == 201
    assert answer.json() == {
        "mark": {"id": mark_id("web-1", NOW, "checkout hangs"), "ts": NOW, "host": "web-1", "note": "checkout hangs"},
        "next": "laggard why --host web-1 --at 1700000000.0",
    }
    assert (
        port.post({"note": "", "ts": 1_600_000_000, "host": "db 1"})
        .json()["next"]
        .startswith("laggard why --host 'db 1' --at 1600000000.0")
    )
    assert port.marks == [Mark("web-1", NOW, "checkout hangs"), Mark("db 1", 1.6e9, "")]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 10_000, "not JSON"),
        (b"1" * 10_000, "not JSON"),
        (b"[]", "not a mark"),
        (b"{}", "not a mark"),
        (b'{"note": null}', "'note'"),
        (b'{"note": "a\\u0000"}', "'note'"),
        (b'{"note": "", "host": "a\\u001b[2J"}', "'host'"),
        (b'{"note": "\\ud800"}', "'note'"),
        (json.dumps({"note": "x" * (MAX_NOTE + 1)}).encode(), "'note'"),
        (b'{"note": "", "host": ""}', "'host'"),
        (b'{"note": "", "host": 7}', "'host'"),
        (b'{"note": "", "ts": "now"}', "'ts'"),
        (b'{"note": "", "ts": true}', "'ts'"),
        (b'{"note": "", "ts": NaN}', "'ts'"),
        (b'{"note": "", "ts": Infinity}', "'ts'"),
        (b'{"note": "", "ts": -1}', "'ts'"),
        (b'{"note": "", "ts": 1' + b"0" * 400 + b"}", "'ts'"),
        (b'{"note": "", "ts": 1800000000}', "'ts'"),
        (b'{"note": "", "when": 1}', "unknown field 'when'"),
    ],
)
def test_what_is_no_mark_is_refused(port: Port, body: bytes, error: str) -> None:
    refused(port.post(body), 400, error)
    assert port.marks == []


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: json.dumps({"note": text}).encode()))
def test_any_body_is_a_mark_or_a_request_error(body: bytes) -> None:
    try:
        mark = read_mark(body, "web-1", NOW)
    except RequestError as error:
        assert error.status == 400  # noqa: PT017 - both outcomes are right
        assert error.response().body  # noqa: PT017
    else:
        encode(mark)


def test_how_long_a_mark_may_be(port: Port) -> None:
    assert port.post({"note": "\U0001f40c" * MAX_NOTE}).status_code == 201
    assert port.marks[0].note == "\U0001f40c" * MAX_NOTE
    refused(port.post(b" " * (MAX_BODY_BYTES + 1)), 413, "too long")
    refused(port.post({"note": ""}, **{"content-type": "text/plain"}), 415, "text/plain")
    chunked = port.client.post("/marks", content=iter([b" " * 4096] * 20), headers={"content-type": "application/json"})
    refused(chunked, 413, "too long")


def test_what_a_web_page_could_send_is_refused(port: Port) -> None:
    refused(port.post({"note": ""}, origin="http://evil.example"), 403, "cross-site")
    refused(port.post({"note": ""}, origin="null"), 403, "cross-site")
    refused(port.post({"note": ""}, origin="http://[::1"), 403, "cross-site")
    refused(port.post({"note": ""}, origin="http://127.0.0.1:1"), 403, "cross-site")
    refused(port.post({"note": ""}, **{"sec-fetch-site": "same-site"}), 403, "cross-site")
    assert port.marks == []
    assert port.post({"note": ""}, origin=port.url, **{"sec-fetch-site": "same-origin"}).status_code == 201


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9464", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "[::1]evil", ""]
)
@pytest.mark.parametrize("path", ["/metrics", "/-/healthy", "/absent"])
def test_a_rebound_name_is_refused(port: Port, host: str, path: str) -> None:
    refused(port.client.get(path, headers={"host": host}), 403, "DNS rebinding")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.8.8.8:1", "[::1]:9464"])
def test_names_of_loopback_are_served(port: Port, host: str) -> None:
    assert port.client.get("/-/healthy", headers={"host": host}).status_code == 200


def test_errors_are_json_and_tell_nothing_of_the_inside(port: Port, caplog: pytest.LogCaptureFixture) -> None:
    refused(port.client.get("/absent"), 404, "/absent")
    wrong = port.client.delete("/marks")
    refused(wrong, 405, "DELETE /marks")
    assert wrong.headers["allow"] == "POST"
    port.failure = BusUnavailable("the disk is full")
    busy = port.post({"note": ""})
    refused(busy, 503, "the disk is full")
    assert busy.headers["retry-after"] == "5"
    port.failure = BusError("not a database")
    refused(port.post({"note": ""}), 500, "not a database")
    port.failure = RuntimeError("secret")
    with caplog.at_level(logging.ERROR):
        answer = port.post({"note": ""})
        until(lambda: "secret" in caplog.text)  # logged after the answer
    refused(answer, 500, "internal error")
    assert "secret" not in answer.text
    assert "RuntimeError: secret" in caplog.text
    port.failure = None
    assert port.post({"note": ""}).status_code == 201


def test_answers_do_not_wait_for_an_acknowledgement(port: Port) -> None:
    port.client.get("/-/healthy")
    took_s = []
    for _ in range(20):
        before = time.monotonic()
        port.client.get("/-/healthy")
        took_s.append(time.monotonic() - before)
    assert min(took_s) < 0.03  # 40 ms each while Nagle's algorithm holds the bodies back


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/ready", "/absent"])
def test_every_answer_has_the_security_headers(port: Port, path: str) -> None:
    headers = port.client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_many_scrapes_at_once_beside_a_client_that_sends_no_request(port: Port) -> None:
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(httpx.get(port.url + "/metrics").status_code)) for _ in range(8)
    ]
    with socket.create_connection(("127.0.0.1", port.number)) as half:
        half.sendall(b"POST /marks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [200] * 8


# Listening


def test_a_connection_that_asks_for_nothing_is_closed(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_ASKING_S", 0.5)
    with socket.create_connection(("127.0.0.1", port.number)) as held:
        held.settimeout(0.1)

        def closed() -> bool:
            try:
                held.sendall(b"G")  # one byte now and then is no question
                return held.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        until(closed)


def test_connections_that_read_no_answer_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = threading.Event()

    async def much(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(64 << 20), "more_body": True})
        await send({"type": "http.response.body"})  # waits until the first part is taken
        given_up.set()

    monkeypatch.setattr(server, "_ASKING_S", 0.1)
    monkeypatch.setattr(server, "_STUCK_S", 0.5)
    serving = serve(much, Listen.resolve(Address("127.0.0.1", 0)), threading.Event())
    try:
        with socket.create_connection(("127.0.0.1", int(serving.url.rpartition(":")[2]))) as held:
            held.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert given_up.wait(120)
    finally:
        serving.close()


@pytest.mark.parametrize(
    ("host", "token", "error"),
    [
        ("nowhere.invalid", "", r"'nowhere\.invalid' cannot be resolved"),
        ("0.0.0.0", "", r"needs a token; set web\.token"),
        ("::", "", r"needs a token; set web\.token"),
        *(
            ("127.0.0.1", weak, r"web\.token: expected at least 16")
            for weak in ("short", "x" * 15, "a blank in the token", "nöt-ascii-not-ascii", "x" * 20 + "\n")
        ),
    ],
)
def test_where_it_cannot_listen_is_said_without_showing_a_token(host: str, token: str, error: str) -> None:
    with pytest.raises(ListenError, match=error) as raised:
        Listen.resolve(Address(host, 0), token)
    assert not token or token not in str(raised.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_with_a_token_others_may_reach_it_and_it_does_not_show_in_a_repr(host: str) -> None:
    listen = Listen.resolve(Address(host, 0), TOKEN)
    assert not listen.loopback
    assert TOKEN not in repr(listen)


def test_where_the_page_asks_for_a_token_marks_do_too_and_metrics_do_not() -> None:
    port = Port(page_token=TOKEN)
    try:
        for wrong in ("", TOKEN, "Bearer " + TOKEN[:-1]):
            refused(port.post({"note": "by nobody"}, authorization=wrong), 401, "no valid token")
        assert port.marks == []
        assert port.post({"note": ""}, authorization="Bearer " + TOKEN).status_code == 201
        assert port.client.get("/metrics").status_code == 200
        assert "Authorization: Bearer TOKEN" in port.client.get("/").text
    finally:
        port.close()


def test_with_a_token_everything_but_health_asks_for_it() -> None:
    port = Port("0.0.0.0", token=TOKEN)
    try:
        for path in ("/-/healthy", "/-/ready"):
            assert port.client.get(path, headers={"host": "10.1.2.3:9464"}).status_code == 200
        for wrong in (
            "",
            TOKEN,
            "Basic " + TOKEN,
            "Bearer",
            "Bearer " + TOKEN[:-1],
            "Bearer " + TOKEN + "x",
            "Bearer é",
        ):
            for path in ("/", "/metrics", "/absent"):
                answer = port.client.get(path, headers={b"authorization": wrong.encode()})
                refused(answer, 401, "no valid token")
                assert answer.headers["www-authenticate"] == "Bearer"
            if wrong.isascii():
                refused(port.post({"note": ""}, authorization=wrong), 401, "no valid token")
        assert port.marks == []
        right = {"authorization": "Bearer " + TOKEN, "host": "laggard.monitoring.svc:9464"}
        assert port.client.get("/metrics", headers=right).status_code == 200
        assert "Authorization: Bearer TOKEN" in port.client.get("/", headers=right).text
        assert port.post({"note": "x"}, authorization="bearer " + TOKEN).status_code == 201
        refused(port.post({"note": ""}, origin="http://evil.example", **right), 403, "cross-site")
    finally:
        port.close()


def test_an_address_that_cannot_be_had_is_named_with_what_to_do(port: Port) -> None:
    listen = Listen.resolve(Address("127.0.0.1", port.number))
    with pytest.raises(
        ListenError, match=rf"127\.0\.0\.1:{port.number}: another program.*set web\.listen to another port, such as"
    ):
        serve(lambda: None, listen, threading.Event())  # type: ignore[arg-type,misc]
    with pytest.raises(ListenError, match=r"192\.0\.2\.1:0: no address of this machine"):
        Listen.resolve(Address("192.0.2.1", 0), TOKEN).bind()


def test_it_stops_with_the_event_and_gives_the_port_back(monkeypatch: pytest.MonkeyPatch) -> None:
    port = Port(number=free_port())  # none that a connection may take meanwhile
    assert port.client.get("/-/healthy").status_code == 200  # leaves an idle connection open
    port.stop.set()

    def gone() -> bool:
        try:
            httpx.get(port.url, timeout=120)
        except httpx.TransportError as error:  # another one while it was just closing
            return isinstance(error, httpx.ConnectError)
        return False

    until(gone)
    port.close()
    monkeypatch.setattr(server, "_TICK_S", 60.0)
    again = Port(number=port.number)
    before = time.monotonic()
    again.close()
    assert time.monotonic() - before < 30  # at once, not at the next tick
    again.close()


def test_a_request_in_flight_is_finished_before_it_stops() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(Port):
        def append(self, mark: Mark) -> None:
            entered.set()
            go_on.wait(120)
            super().append(mark)

    port = Slow()
    answers: list[int] = []
    posting = threading.Thread(target=lambda: answers.append(port.post({"note": ""}).status_code))
    posting.start()
    assert entered.wait(120)
    port.stop.set()
    time.sleep(0.15)
    go_on.set()
    posting.join()
    port.close()
    assert answers == [201]


def test_its_loop_turns_unless_an_answer_holds_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_TICK_S", 0.02)
    entered, go_on = threading.Event(), threading.Event()

    async def blocking(scope: Scope, receive: Receive, send: Send) -> None:
        entered.set()
        go_on.wait(120)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    serving = serve(blocking, Listen.resolve(Address("127.0.0.1", 0), ""), threading.Event())
    until(lambda: serving.turns > 2)
    asking = threading.Thread(target=lambda: httpx.get(serving.url, timeout=120, verify=NO_AUTHORITIES))
    asking.start()
    assert entered.wait(120)
    turns = serving.turns
    time.sleep(0.2)
    assert serving.turns == turns
    go_on.set()
    asking.join()
    until(lambda: serving.turns > turns)
    serving.close()


def test_imports_stay_lean() -> None:
    heavy = {"scipy", "rich", "uvloop", "httptools", "websockets", "jinja2", "httpx", "multipart"}
    code = "import sys, laggard.pipeline.web.app, laggard.pipeline.web.server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not heavy & set(done.stdout.split())
