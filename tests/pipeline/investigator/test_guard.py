from __future__ import annotations

import gzip
import hmac
import logging
import socket
import threading
from typing import TYPE_CHECKING
from unittest import mock

import httpx
import pytest

from laggard.pipeline.investigator import access, app, guard
from laggard.pipeline.investigator.access import ALL_WRONG_AT_ONCE, MAX_NAME, WRONG_AT_ONCE, Access, page_listen
from laggard.pipeline.investigator.app import ASSETS
from laggard.pipeline.investigator.guard import MAX_QUERY_BYTES, REQUESTS_AT_ONCE
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given, Settings
from laggard.pipeline.web.errors import RequestError
from laggard.pipeline.web.limits import Buckets
from laggard.pipeline.web.listen import ListenError
from tests.pipeline.investigator.serving import served
from tests.pipeline.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.pipeline.investigator.serving import Served

TOKEN = "correct-horse-battery"
READ_TOKEN = "only-to-look-at-it"
DATA = "/api/v1/cluster"
MARKS = "/api/v1/marks"
MARK = {"host": "web-1", "note": "slow"}


def settings(**given: str) -> Settings:
    told = {f"serve.{name}": value for name, value in given.items()}
    return read_settings(None, environ={}, flags=[Given(name, value, "a test") for name, value in told.items()])


def as_bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """On loopback, without any token: the default."""
    with served(tmp_path_factory.mktemp("free") / "bus.db") as page:
        yield page


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("locked") / "bus.db", serve_token=TOKEN, serve_read_token=READ_TOKEN) as page:
        yield page


@pytest.fixture
def browser(locked: Served) -> Iterator[httpx.Client]:
    """Keeps cookies, as a browser does."""
    with httpx.Client(base_url=locked.url) as client:
        yield client


def opened(browser: httpx.Client, token: str = TOKEN) -> dict[str, str]:
    """The header that proves the session which is opened."""
    answer = browser.post("/api/v1/session", json={"token": token})
    assert answer.status_code == 200, answer.text
    return {"X-Laggard-Session": answer.json()["key"]}


def refused(answer: httpx.Response, status: int, error: str) -> None:
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error", "expected"}
    assert error in answer.json()["error"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_on_loopback_everybody_here_may_do_everything(free: Served) -> None:
    told = free.client.get(DATA).json()
    assert (told["writes"], told["who"], told["session"]) == (True, "", False)
    assert free.client.post(MARKS, json=MARK).status_code == 201


@pytest.mark.parametrize("path", ["/", "/assets/main.js", DATA, MARKS, "/api/v1/live", "/-/healthy", "/nowhere"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "10.1.2.3", "x@localhost"]
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(free: Served, path: str, host: str) -> None:
    named = host.format(port=httpx.URL(free.url).port)
    # What a proxy is said to be called is not believed.
    forwarded = {"X-Forwarded-Host": "localhost", "Forwarded": "host=localhost", "X-Original-Host": "localhost"}
    for more in ({}, forwarded):
        answer = free.client.get(path, headers={"Host": named, "Sec-Fetch-Site": "same-origin"} | more)
        refused(answer, 403, f"Host '{named}' is not a name of this page: it looks like DNS rebinding")
        assert "serve.hosts" in answer.json()["expected"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.8.8.8:1", "[::1]:9463"])
def test_loopback_has_many_names(free: Served, host: str) -> None:
    assert free.client.get(DATA, headers={"Host": host}).status_code == 200


def test_two_hosts_are_no_request(free: Served) -> None:
    url = httpx.URL(free.url)
    with socket.create_connection((url.host, url.port or 0), timeout=120) as raw:
        raw.sendall(b"GET /api/v1/cluster HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://[broken"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},  # another port of this machine is one, too
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
)
def test_another_site_neither_changes_nor_asks(free: Served, headers: dict[str, str]) -> None:
    before = free.client.get(MARKS).json()
    refused(free.client.post(MARKS, json=MARK, headers=headers), 403, "cross-site request")
    refused(free.client.get(DATA, headers=headers), 403, "cross-site request")
    refused(free.client.get("/assets/main.js", headers=headers), 403, "cross-site request")
    assert free.client.get(MARKS).json() == before


def test_a_link_from_another_site_opens_the_page_and_nothing_else(free: Served) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert free.client.get("/incidents?id=1", headers=link).status_code == 200
    refused(free.client.get("/", headers=link | {"Sec-Fetch-Dest": "iframe"}), 403, "cross-site request")
    refused(free.client.get("/", headers=link | {"Sec-Fetch-Mode": "no-cors"}), 403, "cross-site request")


def test_a_form_of_another_site_cannot_be_json(free: Served) -> None:
    answer = free.client.post(MARKS, content=b'{"host": "web-1"}', headers={"Content-Type": "text/plain"})
    refused(answer, 415, "Content-Type 'text/plain'")
    answer = free.client.options(MARKS, headers={"Origin": free.url, "Access-Control-Request-Method": "POST"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_headers_of_every_answer(free: Served) -> None:
    for path in ("/", "/assets/main.js", DATA, "/nowhere"):
        headers = free.client.get(path).headers
        policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert "strict-transport-security" not in headers
        assert "server" not in headers
    assert free.client.get(DATA).headers["cache-control"] == "no-store"


def test_an_update_of_an_asset_is_seen_at_once(free: Served) -> None:
    answer = free.client.get("/assets/main.js")
    assert answer.headers["cache-control"] == "no-cache"
    again = free.client.get("/assets/main.js", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert (answer.headers["content-encoding"], answer.headers["vary"]) == ("gzip", "Accept-Encoding")
    plain = free.client.get("/assets/main.js", headers={"Accept-Encoding": "identity"})
    assert plain.text == answer.text


def test_an_asset_is_compressed_once(free: Served) -> None:
    with mock.patch.object(gzip, "compress", wraps=gzip.compress) as compress:
        answers = [free.client.get("/assets/style.css") for _ in range(5)]
    assert {answer.headers["content-encoding"] for answer in answers} == {"gzip"}
    assert {answer.content for answer in answers} == {(ASSETS / "style.css").read_bytes()}
    assert compress.call_count == 1


def test_what_is_too_long(free: Served) -> None:
    assert free.client.get(f"{MARKS}?host={'h' * 4000}").status_code == 200
    refused(free.client.get(f"{MARKS}?host={'h' * 4097}"), 400, "parameter 'host' is wrong")
    refused(free.client.get(f"{MARKS}?host={'h' * MAX_QUERY_BYTES}"), 414, "the query is too long")
    refused(free.client.post(MARKS, json={"host": "web-1", "note": "n" * 70_000}), 413, "the body is too long")
    refused(free.client.get(DATA, headers={"X-Long": "x" * 17_000}), 431, "the headers are too long")


def test_what_holds_no_data_is_for_everybody_who_calls_it_by_its_name(locked: Served) -> None:
    for path in ("/", "/pools?pool=x", "/assets/main.js", "/-/healthy"):
        assert locked.client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        *(
            (path, {})
            for path in (
                *(DATA, MARKS, "/api/v1/live", "/api/v1/openapi.json", "/api/v1/nothing", "/api", "//api/v1/cluster"),
                *(f"{DATA}?{name}={TOKEN}" for name in ("token", "serve.token", "access_token", "X-Laggard-Session")),
                *(f"{DATA}?key={TOKEN}", f"{DATA}?authorization=Bearer+{TOKEN}"),
            )
        ),
        (DATA, {"Authorization": f"Basic {TOKEN}"}),
    ],
)
def test_nothing_else_is_opened_by_anything_but_a_bearers_token(
    locked: Served, path: str, headers: dict[str, str]
) -> None:
    answer = locked.client.get(path, headers=headers)
    refused(answer, 401, "the request is not authenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_program_shows_its_token_and_a_reader_sees_everything_and_changes_nothing(
    locked: Served, browser: httpx.Client
) -> None:
    told = locked.client.get(DATA, headers=as_bearer(TOKEN)).json()
    assert (told["writes"], told["session"]) == (True, False)
    assert locked.client.post(MARKS, json=MARK, headers=as_bearer(TOKEN)).status_code == 201
    proof = opened(browser, READ_TOKEN)
    before = locked.client.get(MARKS, headers=as_bearer(READ_TOKEN)).json()
    assert browser.get(DATA, headers=proof).json()["writes"] is False
    for answer in (
        browser.post(MARKS, json=MARK, headers=proof),
        locked.client.post(MARKS, json=MARK, headers=as_bearer(READ_TOKEN)),
        locked.client.put(MARKS, json=MARK, headers=as_bearer(READ_TOKEN)),
    ):
        refused(answer, 403, "a reader changes nothing")
    assert browser.get(MARKS, headers=proof).json() == before
    assert browser.post("/api/v1/session/end", json={}, headers=proof).status_code == 200


def test_a_session_needs_its_cookie_and_its_key(locked: Served, browser: httpx.Client) -> None:
    proof = opened(browser)
    assert browser.get(DATA, headers=proof).json()["session"] is True
    assert browser.post(MARKS, json=MARK, headers=proof).status_code == 201
    cookies = dict(browser.cookies)
    with httpx.Client(base_url=locked.url, cookies=cookies) as thief:
        refused(thief.get(DATA), 401, "the request is not authenticated")
        refused(thief.get(DATA, headers={"X-Laggard-Session": "k" * 43}), 401, "the request is not authenticated")
        other = opened(browser)  # the key of another session does not fit
        refused(thief.get(DATA, headers=other), 401, "the request is not authenticated")
    refused(locked.client.get(DATA, headers=proof), 401, "the request is not authenticated")
    refused(locked.client.post(MARKS, json=MARK, headers=proof), 401, "the request is not authenticated")


def test_the_cookie_is_for_the_browser_alone(locked: Served, browser: httpx.Client) -> None:
    answer = browser.post("/api/v1/session", json={"token": TOKEN})
    (set_cookie,) = answer.headers.get_list("set-cookie")
    pair, *attributes = set_cookie.split("; ")
    assert pair.partition("=")[0] == f"laggard-{httpx.URL(locked.url).port}"
    assert len(pair.partition("=")[2]) == len(answer.json()["key"]) == 43  # 256 bits
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert answer.headers["cache-control"] == "no-store"
    # Plain HTTP is not taken for HTTPS on a client's word.
    told = browser.post("/api/v1/session", json={"token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" not in told.headers["set-cookie"]


def test_a_session_that_was_ended_opens_nothing(browser: httpx.Client) -> None:
    proof = opened(browser)
    cookies = dict(browser.cookies)
    assert browser.post("/api/v1/session/end", json={}).status_code == 200, "without the key it ends nothing"
    assert browser.get(DATA, headers=proof).status_code == 200
    answer = browser.post("/api/v1/session/end", json={}, headers=proof)
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert not browser.cookies
    browser.cookies.update(cookies)
    refused(browser.get(DATA, headers=proof), 401, "the request is not authenticated")


def test_the_stream_of_news_ends_with_its_session(
    locked: Served, browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laggard.pipeline.investigator.live.ALIVE_S", 0.05)
    proof = opened(browser)
    with browser.stream("GET", "/api/v1/live", headers=proof, timeout=120) as news:
        assert news.status_code == 200
        lines = news.iter_lines()
        assert next(lines) == "retry: 2000"
        assert any(line.startswith("data") for line in lines)
        assert browser.post("/api/v1/session/end", json={}, headers=proof).status_code == 200
        assert not [line for line in lines if line.startswith("data")], "and it ends"


def test_wrong_tokens_are_limited_and_the_right_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "WRONG_PER_S", 0.001)  # however slow this machine is now
    with served(tmp_path / "bus.db", serve_token=TOKEN) as page:
        proof = opened(page.client)
        statuses = [page.client.post("/api/v1/session", json={"token": "w" * 16}).status_code for _ in range(7)]
        statuses += [page.client.get(DATA, headers=as_bearer(f"{TOKEN}{n}")).status_code for n in range(7)]
        assert statuses == [401] * WRONG_AT_ONCE + [429] * (14 - WRONG_AT_ONCE)
        answer = page.client.post("/api/v1/session", json={"token": "w" * 16})
        refused(answer, 429, "too many wrong tokens")
        assert 1 <= int(answer.headers["retry-after"]) <= 1000
        assert page.client.get(DATA, headers=proof).status_code == 200
        # A proxy or a shared machine: whoever shows wrong ones has the address of whoever shows the right one.
        assert page.client.get(DATA, headers=as_bearer(TOKEN)).status_code == 200
        assert page.client.post("/api/v1/session", json={"token": TOKEN}).status_code == 200


def test_wrong_tokens_from_everywhere_are_limited_together() -> None:
    seconds = 0.0
    rules = Access(settings(token=TOKEN), lambda: seconds)

    def status(token: str, peer: str) -> int:
        try:
            rules.writes(token, peer)
        except RequestError as error:
            return error.status
        return 200

    assert status(TOKEN, "10.0.0.1") == 200
    wrong = [status("w" * 16, f"2001:db8:{n:x}::1") for n in range(ALL_WRONG_AT_ONCE + 5)]
    assert wrong == [401] * ALL_WRONG_AT_ONCE + [429] * 5
    assert status(TOKEN, "2001:db8:1::1") == 200, "the right one is taken all the same"
    seconds = 3600.0
    # One customer has a network of IPv6 to himself.
    assert [status("w" * 16, f"2001:db8::{n:x}") for n in range(WRONG_AT_ONCE + 1)] == [401] * WRONG_AT_ONCE + [429]


def test_secrets_are_compared_in_constant_time(locked: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    real = hmac.compare_digest
    monkeypatch.setattr("laggard.pipeline.web.guard.hmac.compare_digest", compare)
    with httpx.Client(base_url=locked.url) as browser:
        browser.get(DATA, headers=as_bearer(TOKEN))
        assert len(compared) == 2, "with every token that there is"
        proof = opened(browser)
        assert len(compared) == 4
        browser.get(DATA, headers=proof)
        assert len(compared) == 5
    assert {len(each) for pair in compared for each in pair} == {32}, "digests, so that not even lengths are told"


def test_no_secret_is_told(locked: Served, browser: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    proof = opened(browser)
    wrong = "a-wrong-one-altogether"
    told = [
        locked.client.get(DATA, headers=as_bearer(wrong)),
        locked.client.post("/api/v1/session", json={"token": wrong, "x": TOKEN}, headers=as_bearer(TOKEN)),
        locked.client.post("/api/v1/session", json={"token": [TOKEN]}, headers=as_bearer(TOKEN)),
        browser.get(DATA, headers=proof),
        browser.get("/api/v1/openapi.json", headers=proof),
        browser.get("/", headers=proof),
    ]
    texts = [answer.text + str(answer.headers.raw) for answer in told]
    texts.append("".join(record.getMessage() for record in caplog.records if not record.name.startswith("http")))
    for secret in (TOKEN, READ_TOKEN, wrong, proof["X-Laggard-Session"], *dict(browser.cookies).values()):
        assert not [text for text in texts if secret in text]
    assert TOKEN not in repr(Access(settings(token=TOKEN)).__dict__)


class Proxied:
    """A page behind a proxy at 127.0.0.1, and a stranger at 127.0.0.2 who reaches its port, too."""

    def __init__(self, page: Served) -> None:
        self.proxy = page.client
        self.stranger = httpx.Client(base_url=page.url, transport=httpx.HTTPTransport(local_address="127.0.0.2"))


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    given = {"serve_proxies": "127.0.0.1/32,10.0.0.0/8", "serve_hosts": "laggard.example.com"}
    with served(tmp_path_factory.mktemp("proxied") / "bus.db", serve_editors="ada,*@ops", **given) as page:
        both = Proxied(page)
        with both.stranger:
            yield both


def test_a_proxy_says_who_asks(proxied: Proxied) -> None:
    for who, writes in [("ada", True), ("grace@ops", True), ("eve", False), ("adam", False), ("José <b>", False)]:
        told = proxied.proxy.get(DATA, headers={b"X-Forwarded-User": who.encode()}).json()
        assert (told["who"], told["writes"], told["session"]) == (who, writes, False)
        answer = proxied.proxy.post(MARKS, json=MARK, headers={b"X-Forwarded-User": who.encode()})
        assert answer.status_code == (201 if writes else 403)


@pytest.mark.parametrize(
    ("headers", "error", "expected"),
    [
        ([], "the request is not authenticated", "X-Forwarded-User"),
        ([(b"X-Forwarded-User", b"")], "the request is not authenticated", "X-Forwarded-User"),
        ([(b"X-Forwarded-User", "\u00a0".encode())], "the request is not authenticated", "X-Forwarded-User"),
        ([(b"Remote-User", b"ada")], "the request is not authenticated", "X-Forwarded-User"),
        ([(b"X-Forwarded-User", b"eve"), (b"X-Forwarded-User", b"ada")], "is there twice", "a proxy that replaces it"),
        ([(b"X-Forwarded-User", b"a" * (MAX_NAME + 1))], "is too long", f"at most {MAX_NAME}"),
    ],
    ids=["none", "empty", "blank", "in another header", "two", "too long"],
)
def test_requests_through_a_proxy_without_a_clear_name_are_refused(
    proxied: Proxied, headers: list[tuple[bytes, bytes]], error: str, expected: str
) -> None:
    answer = proxied.proxy.get(DATA, headers=headers)
    refused(answer, 401, error)
    assert expected in answer.json()["expected"]
    assert "www-authenticate" not in answer.headers, "there is no token to ask for"


def test_what_a_stranger_says_of_himself_is_not_believed(proxied: Proxied) -> None:
    told = {"X-Forwarded-User": "ada", "X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"}
    refused(proxied.stranger.get(DATA, headers=told), 401, "the request is not authenticated")
    refused(proxied.stranger.post(MARKS, json=MARK, headers=told), 401, "the request is not authenticated")
    assert proxied.proxy.get(DATA, headers=told).json()["who"] == "ada"


def test_the_name_by_which_a_proxy_calls_the_page(proxied: Proxied) -> None:
    headers = {"X-Forwarded-User": "ada", "Host": "laggard.example.com", "Origin": "https://laggard.example.com"}
    assert proxied.proxy.post(MARKS, json=MARK, headers=headers).status_code == 201
    refused(proxied.proxy.post(MARKS, json=MARK, headers=headers | {"Host": "localhost"}), 403, "cross-site")
    refused(proxied.proxy.get(DATA, headers=headers | {"Host": "www.laggard.example.com"}), 403, "Host ")


def test_a_cookie_over_https_stays_there(tmp_path: Path) -> None:
    with served(tmp_path / "bus.db", serve_token=TOKEN, serve_proxies="127.0.0.1") as page:
        https = {"X-Forwarded-Proto": "https"}
        answer = page.client.post("/api/v1/session", json={"token": TOKEN}, headers=https)
        assert answer.headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")


def test_names_of_a_page_that_other_machines_reach(tmp_path: Path) -> None:
    given = {"serve_listen": "0.0.0.0:0", "serve_hosts": "Laggard.Example.com"}
    with served(tmp_path / "bus.db", serve_token=TOKEN, **given) as page:
        for host in ("laggard.example.com:80", "10.1.2.3:9463", "[2001:db8::1]", socket.gethostname(), "localhost"):
            assert page.client.get(DATA, headers=as_bearer(TOKEN) | {"Host": host}).status_code == 200
        answer = page.client.get(DATA, headers=as_bearer(TOKEN) | {"Host": "evil.example"})
        refused(answer, 403, "DNS rebinding")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"listen": "0.0.0.0:0"},
            "serve.listen: 0.0.0.0:0 can be reached from other machines, so it needs a token; set ",
        ),
        ({"listen": "0.0.0.0:0"}, "set serve.token or serve.proxies, or listen on 127.0.0.1"),
        ({"token": "short"}, "serve.token: expected at least 16 printable ASCII characters without blanks, got 5"),
        ({"read_token": "with a blank inside"}, "serve.read_token: expected at least 16"),
        ({"token": TOKEN, "read_token": TOKEN}, "serve.read_token: expected another one than serve.token"),
        ({"proxies": "proxy.example.com"}, "serve.proxies: expected addresses or networks such as 10.0.0.0/24, "),
        ({"proxies": "10.0.0.7/24"}, "10.0.0.7/24 has host bits set"),
        ({"proxy_header": "X User"}, "serve.proxy_header: expected the name of a header, got 'X User'"),
        ({"proxy_header": ""}, "serve.proxy_header: expected the name of a header, got ''"),
        (
            {"hosts": "laggard:80"},
            "serve.hosts: expected names without port such as laggard.example.com, got 'laggard:80'",
        ),
        ({"hosts": "http://laggard"}, "serve.hosts: expected names without port"),
    ],
)
def test_settings_that_cannot_be_meant(given: dict[str, str], said: str) -> None:
    with pytest.raises(ListenError) as raised:
        page_listen(settings(**given))
    assert said in str(raised.value)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize("given", [{"token": TOKEN}, {"read_token": TOKEN}, {"proxies": "10.0.0.1"}])
def test_other_machines_are_let_in_where_somebody_asks_them(given: dict[str, str]) -> None:
    assert not page_listen(settings(listen="0.0.0.0:0", **given)).loopback


def test_addresses_of_proxies() -> None:
    rules = Access(settings(proxies="10.0.0.7,192.168.0.0/16,2001:db8::/32"))
    trusted = ["10.0.0.7", "192.168.3.4", "2001:db8::1", "::ffff:10.0.0.7"]
    assert all(map(rules.trusts, trusted))
    assert not any(map(rules.trusts, ["10.0.0.8", "::1", "127.0.0.1", "", "unix", "::ffff:10.0.0.8"]))


def test_too_many_requests_of_one_caller_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "REQUESTS_PER_S", 0.01)  # however slow this machine is now
    with served(tmp_path / "bus.db") as page:
        answers = [page.client.get("/api/v1/openapi.jso") for _ in range(REQUESTS_AT_ONCE + 3)]
        statuses = [answer.status_code for answer in answers]
        assert statuses == [404] * REQUESTS_AT_ONCE + [429] * 3
        refused(answers[-1], 429, "too many requests")
        assert answers[-1].json()["expected"] == "at most 200 at once, and 0.01 a second"
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 100
        assert page.client.get("/assets/main.js").status_code == 200
        with httpx.Client(base_url=page.url, transport=httpx.HTTPTransport(local_address="127.0.0.2")) as other:
            assert other.get(DATA).status_code == 200


def test_who_shows_no_token_uses_up_nothing_of_who_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "REQUESTS_PER_S", 0.001)  # however slow this machine is now
    with served(tmp_path / "bus.db", serve_token=TOKEN) as page:
        ended = [page.client.post("/api/v1/session/end", json={}).status_code for _ in range(REQUESTS_AT_ONCE + 1)]
        assert ended[-1] == 429
        assert page.client.get(DATA, headers=as_bearer(TOKEN)).status_code == 200


def test_the_least_recently_used_bucket_is_forgotten() -> None:
    seconds = 0.0
    buckets = Buckets(1, 0.5, lambda: seconds, most=2)
    assert buckets.of("a").take() == 0.0
    assert buckets.of("a").take() == 2.0
    buckets.of("b")
    buckets.of("a")
    buckets.of("c")
    assert len(buckets) == 2
    assert buckets.of("a").take() == 2.0
    seconds = 1.5
    assert buckets.of("a").take() == 0.5
    seconds = 100.0
    assert [buckets.of("a").take() for _ in range(2)] == [0.0, 2.0]


def test_few_answers_are_looked_for_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "WAIT_S", 0.2)
    going, at_once, most = threading.Event(), 0, 0
    with served(tmp_path / "bus.db") as page:
        hosts = page.reading.history.hosts.all

        def slow() -> tuple[str, ...]:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            going.wait(120)
            at_once -= 1
            return tuple(hosts())

        monkeypatch.setattr(page.reading.history.hosts, "all", slow)
        answers: list[httpx.Response] = []
        threads = [
            threading.Thread(target=lambda: answers.append(httpx.get(page.url + DATA, timeout=120)))
            for _ in range(app.READERS + 2)
        ]
        for thread in threads:
            thread.start()
        until(lambda: len(answers) >= 2)
        for answer in answers:
            refused(answer, 503, "too much is asked at once")
            assert answer.headers["retry-after"] == "5"
        assert page.client.get("/-/healthy").status_code == 200
        going.set()
        for thread in threads:
            thread.join()
        assert most == app.READERS
        assert sorted(answer.status_code for answer in answers) == [200] * app.READERS + [503] * 2
        assert page.client.get(DATA).status_code == 200, "their turns were given back"
