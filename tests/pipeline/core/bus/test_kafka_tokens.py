"""Tokens: read anew from a file, or fetched with client credentials from an endpoint that refuses now and then."""

from __future__ import annotations

import base64
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.bus.kafka.security import kafka_python_security, librdkafka_security
from laggard.pipeline.core.bus.kafka.tokens import FetchedTokens, FileTokens, expiry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HUSH = "hush:e4/b7"


def jwt(**claims: object) -> str:
    header, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims))
    return f"{header}.{body}.c2ln"


class Endpoint:
    """What it answers with, and what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: Any = {"access_token": "first", "expires_in": 100}
        self.location = ""
        self.asked: list[tuple[str, dict[str, list[str]]]] = []


@pytest.fixture
def endpoint() -> Iterator[tuple[Endpoint, str]]:
    with serving() as served:
        yield served


@contextmanager
def serving() -> Iterator[tuple[Endpoint, str]]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            endpoint.asked.append((self.headers["Authorization"], parse_qs(body)))
            content = endpoint.answer if isinstance(endpoint.answer, bytes) else json.dumps(endpoint.answer).encode()
            self.send_response(endpoint.status)
            if endpoint.location:
                self.send_header("Location", endpoint.location)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield endpoint, f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens = FileTokens(path)
    with pytest.raises(BusUnavailable, match=r"^kafka\.token_file: .*token cannot be read: No such file"):
        tokens.token()
    first, second = jwt(exp=2e9), "opaque"
    path.write_text(f"{first}\n")
    assert tokens.token() == (first, 2e9)
    assert first not in repr(tokens.token())
    path.write_text(second)
    assert tokens.token().value == second
    assert tokens.token().expires == pytest.approx(time.time() + 300, abs=5)
    for content in (b"", b"two words", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(BusError, match="expected nothing but a token"):
            tokens.token()


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c", "a.!!!.c", jwt(), jwt(exp="soon"), "a.bnVsbA.c"])
def test_a_token_that_does_not_say_when_it_expires(token: str) -> None:
    assert expiry(token) is None


def test_a_token_is_fetched_and_used_for_most_of_its_lifetime(
    endpoint: tuple[Endpoint, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said, url = endpoint
    now = time.time()
    tokens = FetchedTokens(url, "me", HUSH, "kafka")
    assert tokens.token().value == "first"
    assert tokens.token().expires == pytest.approx(now + 100, abs=5)
    pair = base64.b64decode(said.asked[0][0].removeprefix("Basic ")).decode()
    assert pair == "me:hush%3Ae4%2Fb7"  # RFC 6749, section 2.3.1
    assert [fields for _, fields in said.asked] == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
    said.answer = {"access_token": "second"}
    monkeypatch.setattr(time, "time", lambda: now + 90)
    assert tokens.token().value == "second"
    assert len(said.asked) == 2


def test_both_clients_are_given_it(endpoint: tuple[Endpoint, str]) -> None:
    said, url = endpoint
    options = KafkaOptions(sasl="oauthbearer", token_url=url, token_scope="kafka", username="me", password=HUSH)
    assert kafka_python_security(options)["sasl_oauth_token_provider"].token() == "first"
    value, expires = librdkafka_security(options)["oauth_cb"]("")
    assert value == "first"
    assert expires == pytest.approx(time.time() + 100, abs=5)
    assert [fields["scope"] for _, fields in said.asked] == [["kafka"], ["kafka"]]


@pytest.mark.parametrize(
    ("status", "answer", "kind", "said"),
    [
        (
            401,
            {"error": "invalid_client", "error_description": "who?"},
            BusError,
            "gives no token, 401: invalid_client who?",
        ),
        (400, b"<html>", BusError, "gives no token, 400; check kafka.username, kafka.password and kafka.token_scope"),
        (503, b"", BusUnavailable, "answers 503"),
        (429, b"", BusUnavailable, "answers 429"),
        (200, b"<html>", BusError, "expected an answer of JSON with an access_token"),
        (200, {"token": 1}, BusError, "expected an answer of JSON with an access_token"),
        (200, [], BusError, "expected an answer of JSON with an access_token"),
    ],
)
def test_an_endpoint_that_refuses(
    endpoint: tuple[Endpoint, str], status: int, answer: object, kind: type[BusError], said: str
) -> None:
    served, url = endpoint
    served.status, served.answer = status, answer
    with pytest.raises(BusError) as raised:
        FetchedTokens(url, "me", HUSH).token()
    assert type(raised.value) is kind
    assert said in str(raised.value)
    assert str(raised.value).startswith(f"kafka.token_url: {url}")
    assert HUSH not in str(raised.value)


def test_an_endpoint_that_is_away() -> None:
    with serving() as (_, url):
        pass
    with pytest.raises(BusUnavailable, match=r"cannot be reached: .*Connection refused"):
        FetchedTokens(url, "me", HUSH).token()


def test_a_secret_follows_no_redirection(endpoint: tuple[Endpoint, str]) -> None:
    said, url = endpoint
    with serving() as (other, elsewhere):
        said.status, said.location = 302, elsewhere
        with pytest.raises(BusError, match="gives no token, 302"):
            FetchedTokens(url, "me", HUSH).token()
        assert not other.asked
