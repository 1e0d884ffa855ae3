"""Pages of real programs, and of programs that do not do what they should: what is told, and that the others go on."""

from __future__ import annotations

import math
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
import trustme
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from laggard.producers.sources.performance import ERRORS, MEAN, QUANTILES, THROUGHPUT
from laggard.producers.sources.prometheus.fetching import Access, Secret
from laggard.producers.sources.prometheus.red import Red
from laggard.producers.sources.prometheus.selectors import Selector
from laggard.producers.sources.prometheus.targets import Targets
from tests.brokers.ports import free_port
from tests.producers.sources.prometheus.serving import Served, exposed, features, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from laggard.producers.sources.performance import Taken

GOOD = "http_request_duration_seconds_count {n}\nhttp_request_duration_seconds_sum {n}\n"


class Program:
    """A program with prometheus_client, that serves what was observed."""

    def __init__(self, stack: ExitStack) -> None:
        self.registry = CollectorRegistry()
        self.requests = Histogram("http_request_duration_seconds", "x", ["code"], registry=self.registry)
        self.queue = Gauge("queue", "x", registry=self.registry)
        self.loaded = Counter("loaded_bytes", "x", registry=self.registry)
        self.url = f"http://{exposed(stack, self.registry)}/metrics"


class Run:
    """A source with a clock of its own: ten seconds from one look to the next."""

    def __init__(self, urls: Sequence[str], **parameters: object) -> None:
        self.ts = 1_700_000_000.0
        red = parameters.pop("red", None) or Red()
        self.source = Targets("shop", urls, red=red, monotonic=lambda: self.ts, **parameters)  # type: ignore[arg-type]

    def look(self) -> Taken:
        taken = self.source.parse(self.source.read(self.ts))
        self.ts += 10.0
        return taken


@pytest.fixture
def run() -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def new(*urls: str, **parameters: object) -> Run:
        runs.append(Run(urls, **parameters))
        return runs[-1]

    yield new
    for each in runs:
        each.source.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def told(taken: Taken) -> list[str]:
    return [f"{each.place.rpartition(':')[2].partition('/')[2]}: {each.text}" for each in taken.troubles]


def test_two_real_programs_are_one_performance(run: Callable[..., Run], stack: ExitStack) -> None:
    first, second = Program(stack), Program(stack)
    for program in (first, second):
        program.requests.labels("200").observe(5)
        program.requests.labels("500").observe(5)
    measured = run(first.url, second.url)
    assert not measured.look().frames, "one look tells nothing"
    for _ in range(60):
        first.requests.labels("200").observe(0.03)
    for _ in range(40):
        second.requests.labels("500").observe(0.2)
    taken = measured.look()
    assert not taken.troubles
    assert (taken.expected, taken.places) == (2, 2)
    [frame] = taken.frames
    assert (frame.keyed_by, frame.key, frame.scope) == ("application", "shop", "performance")
    assert (frame.ts, frame.sequence) == (1_700_000_010.0, 1_700_000_010_000)
    assert frame.layout.rows == ("shop",)
    found = features(frame)
    assert found.pop(MEAN) == pytest.approx((60 * 0.03 + 40 * 0.2) / 100)
    assert found.pop(THROUGHPUT) == pytest.approx(10)
    assert found.pop(ERRORS) == pytest.approx(4)
    # 60 in (0.025, 0.05], 40 in (0.1, 0.25].
    expected = {0.5: 0.025 + 0.025 * 50 / 60, 0.75: 0.1 + 0.15 * 15 / 40, 0.99: 0.1 + 0.15 * 39 / 40}
    assert {q: found[name] for name, q in QUANTILES.items() if q in expected} == pytest.approx(expected)
    quiet = features(measured.look().frames[0])
    assert (quiet[THROUGHPUT], quiet[ERRORS]) == (0, 0)
    assert math.isnan(quiet[MEAN])


def test_other_metrics_are_those_of_hosts(run: Callable[..., Run], stack: ExitStack) -> None:
    program = Program(stack)
    program.requests.labels("200").observe(1)
    measured = run(program.url, metrics=Selector.parse('{__name__=~".+"}'))
    measured.look()
    program.loaded.inc(5000)
    program.queue.set(math.nan)
    performance, host = measured.look().frames
    assert performance.scope == "performance"
    assert (host.scope, host.layout.rows, host.hosts, host.key) == ("host", ("127.0.0.1",), ("127.0.0.1",), "shop")
    found = features(host)
    assert found.pop("loaded_bytes_per_s") == 500
    assert math.isnan(found.pop("queue"))
    assert not found, "what the performance is made of explains nothing of it"
    with_port = run(program.url, metrics=Selector.parse("loaded_bytes_total"), ports=True)
    with_port.look()
    assert with_port.look().frames[1].layout.rows == (program.url.split("/")[2],)


def test_a_program_that_was_started_anew_and_one_that_comes_back(run: Callable[..., Run], stack: ExitStack) -> None:
    page = Served(GOOD.format(n=100).encode())
    url = stack.enter_context(served(page))
    measured = run(url)
    measured.look()
    page.content = GOOD.format(n=40).encode()
    assert features(measured.look().frames[0])[THROUGHPUT] == 4.0
    page.status = 503
    assert not measured.look().frames
    page.status, page.content = 200, GOOD.format(n=80).encode()
    assert features(measured.look().frames[0])[THROUGHPUT] == 2.0, "over both intervals"
    page.status = 503
    for _ in range(4):
        assert not measured.look().frames
    page.status, page.content = 200, GOOD.format(n=9999).encode()
    assert not measured.look().frames, "it was away for too long: this begins anew"
    page.content = GOOD.format(n=10009).encode()
    assert features(measured.look().frames[0])[THROUGHPUT] == 1.0


BAD = {
    "down": (None, "cannot be reached: Connection refused"),
    "error": (Served(b"no database\n", status=500), "expected 200 OK, got 500 Internal Server Error: no database"),
    "redirect": (
        Served(b"", status=302, headers={"Location": "/login"}),
        "expected 200 OK, got 302 Found to '/login'; use that address instead",
    ),
    "slow": (Served(GOOD.encode() * 40, drip_s=0.05), "expected the whole page within 1 s"),
    "half": (Served(GOOD.format(n=1).encode(), cut_to=50), "the page is truncated: 24 bytes are missing"),
    "half packed": (Served(GOOD.format(n=1).encode(), packed=True, cut_to=30), "the page is truncated: "),
    "no gzip": (
        Served(GOOD.format(n=1).encode(), headers={"Content-Encoding": "gzip"}),
        "expected gzip data, as the page declares: Error -3 while decompressing data: incorrect header check",
    ),
    "other packing": (
        Served(b"x", headers={"Content-Encoding": "br"}),
        "expected a page with gzip compression or none, got 'br'",
    ),
    "large": (Served(b"a 1\n" * 5000), "expected a page of at most 10,000 bytes (max_bytes)"),
    "bomb": (Served(b"a 1\n" * 5_000_000, packed=True), "expected a page of at most 10,000 bytes (max_bytes)"),
    "html": (Served(b"{ <html>\n"), "line 1: expected a metric, its labels and a number, got '{ <html>'"),
    "no line": (
        Served(b"http_request_duration_seconds_count many\n"),
        "line 1: expected a metric, its labels and a number, got 'http_request_duration_seconds_count many'",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD)
def test_a_bad_page_is_told_and_the_others_go_on(case: str, run: Callable[..., Run], stack: ExitStack) -> None:
    what, expected = BAD[case]
    good = Served(GOOD.format(n=100).encode())
    bad = f"http://127.0.0.1:{free_port()}" if what is None else stack.enter_context(served(what))
    access = Access(timeout_s=1.0 if case == "slow" else 60.0, max_bytes=10_000)
    measured = run(f"{bad}/bad", stack.enter_context(served(good)), access=access)
    first = measured.look()
    assert told(first)[0].startswith(f"bad: {expected}")
    assert (first.expected, first.places, len(first.troubles)) == (2, 1, 1)
    good.content = GOOD.format(n=120).encode()
    [frame] = measured.look().frames
    assert features(frame)[THROUGHPUT] == 2.0
    assert [each.text.startswith(expected) for each in measured.source.check()] == [True]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "expected an HTTP response: BadStatusLine "),
        (b"", "expected the whole page within 0.5 s"),
        (b"HTTP/1.1 200 OK\r\nA: ", "expected the whole page within 0.5 s"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "the page is truncated"),
    ],
)
def test_who_is_no_server_of_pages(said: bytes, expected: str, run: Callable[..., Run]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as connected:
                connected.sendall(said)
                if not said.endswith(b"\r\n"):
                    while connected.recv(4096):  # until the other side has enough
                        pass
                else:
                    connected.recv(4096)

        thread = threading.Thread(target=answer)
        thread.start()
        port = listening.getsockname()[1]
        [trouble] = run(f"http://127.0.0.1:{port}/", access=Access(timeout_s=0.5)).look().troubles
        thread.join()
    assert trouble.text.startswith(expected)


def test_impossible_counters_duplicates_and_changing_labels(run: Callable[..., Run], stack: ExitStack) -> None:
    page = Served(b"")
    measured = run(stack.enter_context(served(page)), red=Red(throughput=Selector.parse("requests_total")))
    page.content = b'requests_total{p="a"} 10\nrequests_total{p="b"} 10\n'
    measured.look()
    page.content = b'requests_total{p="a"} 20\nrequests_total{p="a"} 7\nrequests_total{p="b"} -3\nrequests_total 5\n'
    taken = measured.look()
    assert [features(each) for each in taken.frames] == [{THROUGHPUT: 1.0}]
    assert [each.text for each in taken.troubles] == [
        "1 duplicate samples",
        "requests_total: expected a counter, of at least 0, got -3.0",
    ]
    assert not any(each.lasting for each in taken.troubles)
    assert (taken.samples, taken.unusable) == (4, 2)
    page.content = b'requests_total{p="a"} NaN\nrequests_total 25\n'
    taken = measured.look()
    assert [features(each) for each in taken.frames] == [{THROUGHPUT: 2.0}]
    assert taken.unusable == 1


def test_a_metric_that_is_not_there_is_asked_for(run: Callable[..., Run], stack: ExitStack) -> None:
    measured = run(stack.enter_context(served(Served(b"up 1\n"))), red=Red(Selector.parse("shop_seconds")))
    assert not measured.look().troubles
    assert [each.text for each in measured.look().troubles] == ["expected shop_seconds"]


@pytest.mark.slow
def test_what_is_over_the_bound_of_series_is_counted_and_told(run: Callable[..., Run], stack: ExitStack) -> None:
    page = Served("".join(f'a{{x="{number:05}"}} 1\n' for number in range(50_010)).encode())
    measured = run(stack.enter_context(served(page)), metrics=Selector.parse("a"), access=Access(timeout_s=20.0))
    measured.look()
    taken = measured.look()
    [frame] = [each for each in taken.frames if each.scope == "host"]
    assert frame.values.shape == (1, 10_000), "no frame has more features"
    assert frame.layout.features[-1] == 'a{x="09999"}'
    assert taken.unusable == 40_010
    assert any(
        each.text.startswith('40010 series: a{x="10000"}: expected at most 50,000 series') for each in taken.troubles
    )


def test_who_asks(run: Callable[..., Run], stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Served(GOOD.format(n=1).encode(), user="me:hush", packed=True)
    url = stack.enter_context(served(page))
    assert told(run(url).look()) == [
        ": expected 200 OK, got 401 Unauthorized; check username and password_file, or token_file"
    ]
    secret = tmp_path / "secret"
    by_file = run(url, access=Access(username="me", password=Secret(secret)))
    assert told(by_file.look()) == [f": cannot read the secret in {secret}: No such file or directory"]
    secret.write_text("two\nlines\n")
    assert told(by_file.look()) == [f": {secret}: expected one line with the secret"]
    secret.write_text("hush\n")
    assert not by_file.look().troubles, "it is read anew each time"
    page.user, page.token = "", "abc"
    by_variable = run(url, access=Access(token=Secret(variable="SHOP_TOKEN")))
    monkeypatch.delenv("SHOP_TOKEN", raising=False)
    assert told(by_variable.look()) == [": the environment variable SHOP_TOKEN is not set: expected a secret in it"]
    monkeypatch.setenv("SHOP_TOKEN", "abc")
    assert not by_variable.look().troubles
    asked = page.asked[-1]
    assert asked["Accept"].startswith("application/openmetrics-text;version=1.0.0,")
    assert (asked["Accept-Encoding"], asked["X-Prometheus-Scrape-Timeout-Seconds"]) == ("gzip", "5")


def test_tls(run: Callable[..., Run], stack: ExitStack, tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    url = stack.enter_context(served(Served(GOOD.format(n=1).encode()), context))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    other.cert_pem.write_to_path(str(tmp_path / "other.pem"))
    assert not run(url, access=Access(ca_file=tmp_path / "ca.pem")).look().troubles
    [trouble] = run(url, access=Access(ca_file=tmp_path / "other.pem")).look().troubles
    assert trouble.text.startswith("its certificate is not trusted: ")
    [trouble] = run(url, access=Access(ca_file=tmp_path / "none.pem")).look().troubles
    assert trouble.text == f"expected certificates as PEM in {tmp_path / 'none.pem'}: No such file or directory"
    plain = stack.enter_context(served(Served(b"")))
    [trouble] = run(plain.replace("http:", "https:"), access=Access(timeout_s=2.0)).look().troubles
    assert trouble.text.startswith("TLS failed: ")


def test_many_targets_are_read_at_the_same_time(run: Callable[..., Run], stack: ExitStack) -> None:
    together = threading.Barrier(20, timeout=20.0)

    @contextmanager
    def meeting() -> Iterator[str]:
        page = Served(GOOD.format(n=1).encode())
        page.asked = _Meeting(together)
        with served(page) as url:
            yield url

    urls = [stack.enter_context(meeting()) for _ in range(20)]
    taken = run(*urls, access=Access(timeout_s=30.0)).look()
    assert (taken.places, taken.troubles) == (20, [])


class _Meeting(list[dict[str, str]]):
    """No question is answered before all have asked."""

    def __init__(self, barrier: threading.Barrier) -> None:
        super().__init__()
        self._barrier = barrier

    def append(self, _: dict[str, str]) -> None:
        self._barrier.wait()


def test_instances_are_the_members_of_a_pool(stack: ExitStack) -> None:
    one, other = Program(stack), Program(stack)
    down = f"http://127.0.0.1:{free_port()}/metrics"
    ts = 1_700_000_000.0
    members = Targets(
        "checkout",
        [one.url, other.url, down],
        metrics=Selector.parse('{__name__=~"queue|loaded_bytes_total|idle"}'),
        monotonic=lambda: ts,
        keyed_by="pool",
        ports=True,
    )
    stack.callback(members.close)
    idle = Gauge("idle", "x", registry=other.registry)
    for _ in range(2):
        taken = members.parse(members.read(ts))
        ts += 10.0
        one.queue.set(7)
        one.loaded.inc(50)
        idle.set(1)
    [frame] = taken.frames
    assert (frame.keyed_by, frame.key, frame.scope, frame.hosts) == ("pool", "checkout", "member", ())
    assert (frame.ts, frame.sequence) == (ts - 10.0, (ts - 10.0) * 1000)
    places = [each.url.removeprefix("http://").removesuffix("/metrics") for each in (one, other)]
    assert sorted(frame.layout.rows) == sorted(places)
    assert frame.layout.names == frame.layout.rows
    assert frame.layout.features == ("idle", "loaded_bytes_per_s", "queue")
    rows = dict(zip(frame.layout.rows, frame.values.tolist(), strict=True))
    assert rows[places[0]][1:] == [5.0, 7.0]
    assert math.isnan(rows[places[0]][0])
    assert rows[places[1]] == [1.0, 0.0, 0.0]
    assert (taken.expected, taken.places, taken.unusable) == (3, 2, 0)
