"""What a real Prometheus has scraped of a real program; and answers that are none."""

from __future__ import annotations

import json
import math
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from laggard.producers.sources.performance import ERRORS, MEAN, QUANTILES, THROUGHPUT
from laggard.producers.sources.prometheus.answers import AnswerError, Points, parse_matrix, parse_number
from laggard.producers.sources.prometheus.fetching import Access
from laggard.producers.sources.prometheus.hosts import instance_frames
from laggard.producers.sources.prometheus.page import series
from laggard.producers.sources.prometheus.red import Red
from laggard.producers.sources.prometheus.selectors import Selector
from laggard.producers.sources.prometheus.server import Server
from tests.monitoring.servers import awaited, query, running_prometheus
from tests.producers.sources.prometheus.serving import Served, exposed, features, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.producers.sources.performance import Taken


class Scene:
    """A program, and a Prometheus that looks at it twice a second."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        registry = CollectorRegistry()
        self.requests = Histogram("http_request_duration_seconds", "x", ["code"], registry=registry)
        self.loaded = Counter("loaded_bytes", "x", ["disk"], registry=registry)
        self.queue = Gauge("queue", "x", registry=registry)
        for code in ("200", "500"):
            self.requests.labels(code)
        self.loaded.labels("sda")
        self.instance = exposed(stack, registry)
        shop = {"job_name": "shop", "static_configs": [{"targets": [self.instance]}]}
        config = {"global": {"scrape_interval": "500ms"}, "scrape_configs": [shop]}
        self.url = stack.enter_context(running_prometheus(folder / "prometheus", config))

    def seen(self, expression: str, value: float) -> None:
        """Wait until Prometheus has seen a value."""
        awaited(lambda: query(self.url, expression), lambda found: bool(found) and float(found[0]["value"][1]) == value)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(tmp_path_factory.mktemp("scene"), stack)


@pytest.mark.slow
def test_a_real_prometheus(scene: Scene) -> None:
    count = 'http_request_duration_seconds_count{code="200"}'
    scene.seen(count, 0)
    red = Red(Selector.parse('{job="shop"}'))
    asked = {"queue_length": "queue", "response_time_p99_s": "scalar(vector(7))", "none": "nothing_of_this_name"}
    server = Server("shop", scene.url, red=red, queries=asked, metrics=Selector.parse('{job="shop"}'), interval_s=5.0)
    assert not server.check()
    begin = time.time()
    server.parse(server.read(begin))
    for _ in range(60):
        scene.requests.labels("200").observe(0.03)
    for _ in range(40):
        scene.requests.labels("500").observe(0.2)
    scene.loaded.labels("sda").inc(6000)
    scene.queue.set(17)
    scene.seen(count, 60)
    scene.seen("queue", 17)
    end = time.time()
    answered = server.parse(server.read(end))
    assert not answered.troubles
    performance, host = answered.frames
    found = features(performance)
    assert found[MEAN] == pytest.approx((60 * 0.03 + 40 * 0.2) / 100)
    assert found[ERRORS] / found[THROUGHPUT] == pytest.approx(0.4)
    # They were counted between two scrapes, which may follow closely where one was late.
    [scraped] = query(scene.url, f"{count}[1m]")
    times = [(float(value), float(ts)) for ts, value in scraped["values"]]
    apart = min(ts for value, ts in times if value == 60) - max(ts for value, ts in times if value < 60)
    between = max(ts for _, ts in times if ts <= end) - max(ts for _, ts in times if ts <= begin)
    assert 100 / between * 0.999 <= found[THROUGHPUT] <= 100 / apart * 1.001
    # The rates of all buckets are over the same two scrapes, so that Prometheus's own quantiles of the buckets' growth,
    # which is all that they have counted, are these.
    expression = "histogram_quantile({q}, sum by (le) (http_request_duration_seconds_bucket))"
    for name, q in QUANTILES.items():
        [theirs] = query(scene.url, expression.format(q=q))
        if name != "response_time_p99_s":
            assert found[name] == pytest.approx(float(theirs["value"][1])), name
    assert (found["queue_length"], found["response_time_p99_s"]) == (17, 7)
    assert math.isnan(found["none"])
    assert (host.layout.rows, host.hosts) == (("127.0.0.1",), ("127.0.0.1",))
    of_host = features(host)
    assert of_host['loaded_bytes_per_s{disk="sda"}'] == pytest.approx(found[THROUGHPUT] * 60)
    assert of_host["up"] == 1
    assert 0 < of_host["queue"] <= 17
    assert not [name for name in of_host if name.startswith(("http_", "loaded_bytes_created"))]


@pytest.mark.slow
def test_what_a_real_prometheus_refuses_or_does_not_have(scene: Scene) -> None:
    server = Server(
        "shop",
        scene.url,
        red=Red(Selector.parse('nothing_seconds{job="shop"}')),
        queries={"a": "sum(", "b": "up or vector(1)"},
        metrics=Selector.parse('{job="nobody"}'),
    )
    answered = server.parse(server.read(time.time()))
    assert not answered.frames
    told = {each.place.removeprefix(scene.url).strip(", "): each.text for each in answered.troubles}
    assert told["shop"] == 'expected nothing_seconds{job="shop"}'
    assert told["shop, metrics"] == 'expected series of {job="nobody"}, got none'
    assert told["shop, a"].startswith("expected 200 OK, got 400 Bad Request: ")
    assert told["shop, b"] == "expected one number, got 2 series: aggregate them, for example with sum()"
    assert answered.places == 0


def matrix(*result: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def taken(answer: bytes, *, packed: bool = False, **options: Any) -> Taken:
    """What is made of an answer."""
    with served(Served(answer, kind="application/json", packed=packed)) as url:
        server = Server("shop", url, metrics=Selector.parse("a"), access=Access(timeout_s=30.0), **options)
        return server.parse(server.read(100.0))


@pytest.mark.slow
def test_fifty_thousand_series_and_more() -> None:
    labels = ({"__name__": "a", "instance": f"h{n % 7}:9100", "n": str(n)} for n in range(50_003))
    answer = matrix(*({"metric": each, "values": [[99.0, "1"], [100.0, "2"]]} for each in labels))
    found = taken(answer, packed=True)
    assert sum(each.values.size for each in found.frames) == 50_000
    assert [each.layout.rows for each in found.frames] == [(f"h{n}",) for n in range(7)]
    assert (found.samples, found.unusable) == (100_006, 3)
    [trouble] = found.troubles
    assert trouble.text.startswith('3 series: a{n="')


def test_instances_of_one_host() -> None:
    answer = matrix(*({"metric": {"__name__": "a", "instance": f"h:{n}"}, "values": [[99.0, str(n)]]} for n in (1, 2)))
    together = taken(answer)
    assert [(each.layout.rows, features(each)) for each in together.frames] == [(("h",), {"a": 1})]
    assert "h has two series of this name" in together.troubles[0].text
    assert [each.layout.rows[0] for each in taken(answer, ports=True).frames] == ["h:1", "h:2"]


def test_instances_are_the_members_of_a_pool() -> None:
    places = ("h:1", "http://h:2/a", "h:3")
    answer = matrix(
        *(
            {"metric": {"__name__": "a", "instance": place}, "values": [[99.0, str(n)]]}
            for n, place in enumerate(places)
        ),
        {"metric": {"__name__": "b", "instance": "h:3"}, "values": [[99.0, "9"]]},
    )
    [frame] = taken(answer, keyed_by="pool", ports=True).frames
    assert (frame.keyed_by, frame.key, frame.scope, frame.ts) == ("pool", "shop", "member", 100.0)
    assert frame.layout.rows == ("h:1", "h:3", "http:::h:2:a"), "a slash would be a level"
    assert frame.layout.features == ("a", "b")
    assert str(frame.values.tolist()) == "[[0.0, nan], [2.0, 9.0], [1.0, nan]]"
    alone = taken(answer, keyed_by="pool", max_series=1)
    assert [(each.layout.rows, each.values.shape) for each in alone.frames] == [(("h",), (1, 1))]
    assert alone.unusable == 3


def test_a_pool_without_instances_has_no_frame() -> None:
    found = taken(matrix({"metric": {"__name__": "a"}, "values": [[99.0, "1"]]}), keyed_by="pool")
    assert not found.frames
    assert found.unusable == 1


def test_of_more_features_than_a_frame_has_those_that_fewest_members_have_are_left_out() -> None:
    gauges = {series("a", {"instance": f"h{member}", "n": str(n)}): 1.0 for member in range(2) for n in range(9_000)}
    gauges |= {series("b", {"instance": "h1", "n": str(n)}): 1.0 for n in range(1_000)}
    gauges |= {series("c", {"instance": "h0", "n": str(n)}): 1.0 for n in range(100)}
    found = instance_frames("checkout", 1.0, gauges, {}, keyed_by="pool")
    [frame] = found.frames
    assert frame.values.shape == (2, 10_000)
    assert (found.unusable, found.reason) == (100, "all instances together: expected at most 10,000 features")
    assert not any(feature.startswith("c") for feature in frame.layout.features)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"<html>", "expected an answer in JSON, got b'<html>'"),
        (b"[" * 100_000, "expected an answer in JSON, got b'[["),
        (b"[]", "expected the status success, got []"),
        (b'{"status": "error", "error": "no"}', "expected the status success, got 'no'"),
        (b'{"status": "success", "data": {"resultType": "vector", "result": []}}', "expected a matrix, got 'vector'"),
        (b'{"status": "success", "data": {"resultType": "matrix", "result": {}}}', "expected a matrix, got 'matrix'"),
        (matrix(1), "expected series, got something else among them"),
        (matrix({"metric": {"a": 1}, "values": []}), "expected the labels of a series, got {'a': 1}"),
        (matrix({"metric": {}, "values": 5}), "expected a list of values of , got 5"),
        (matrix({"metric": {"__name__": "a"}, "values": [[1]]}), "expected a time and a number of a, got [1]"),
        (
            matrix({"metric": {"__name__": "a"}, "values": [[1, "x"]]}),
            "expected a time and a number of a, got [1, 'x']",
        ),
    ],
    ids=range(11),
)
def test_answers_that_are_none(answer: bytes, expected: str) -> None:
    with pytest.raises(AnswerError) as raised:
        parse_matrix(answer)
    assert str(raised.value).startswith(expected)
    assert [each.text for each in taken(answer).troubles] == [str(raised.value)]


def test_numbers() -> None:
    def answer(kind: str, result: Any) -> bytes:
        return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()

    assert parse_number(answer("scalar", [1.5, "7"])) == 7
    assert parse_number(answer("vector", [{"metric": {}, "value": [1.5, "+Inf"]}])) == math.inf
    assert math.isnan(parse_number(answer("vector", [])))
    with pytest.raises(AnswerError, match="expected a vector or a scalar, got 'matrix'"):
        parse_number(answer("matrix", []))


def points(*samples: tuple[float, float]) -> Points:
    return Points([at for at, _ in samples], [value for _, value in samples])


def test_rates_over_scrapes() -> None:
    some = points((0, 10), (15, 25), (30, 40), (45, 5))
    assert some.rate(30, 45) == 5 / 15, "begun anew"
    assert some.rate(29, 50) == pytest.approx((15 + 5) / 30), "from the last scrape before the interval"
    assert some.rate(46, 56) == 5 / 15, "no scrape in the interval: over the last two"
    assert some.rate(-10, 45) == pytest.approx(35 / 45)
    assert math.isnan(points((0, 1)).rate(0, 10))
    assert math.isnan(some.rate(70, 80)), "it has ended"


def test_means_of_gauges() -> None:
    some = points((0, 1), (10, 3), (20, 5))
    assert some.mean(0, 20) == 4
    assert some.mean(20, 30) == 5, "the last one, where none came since"
    assert math.isnan(some.mean(40, 50)), "it has ended"
    assert points((0, 1)).mean(40, 50) == 1


def test_what_is_no_number_is_not_a_sample() -> None:
    answer = matrix({"metric": {"__name__": "a"}, "values": [[1, "NaN"], [2, "5"], [2, "6"], [3, "NaN"]]})
    found, samples = parse_matrix(answer)
    assert found == {series("a", {}): Points([2.0], [5.0])}
    assert samples == 4


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e9)), max_size=10, unique_by=lambda each: each[0]),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)
def test_rates_are_never_negative(samples: list[tuple[float, float]], begin: float, length: float) -> None:
    some = points(*sorted(samples))
    rate = some.rate(begin, begin + length)
    assert math.isnan(rate) or rate >= 0
    mean = some.mean(begin, begin + length)
    values = [value for _, value in samples]
    assert math.isnan(mean) or min(values) * 0.999999 <= mean <= max(values) * 1.000001
