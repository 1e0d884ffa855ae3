"""Rate, errors and duration: which metrics are taken, and what is reported about them."""

from __future__ import annotations

import math

import pytest

from laggard.producers.sources.performance import ERRORS, MEAN, QUANTILES, THROUGHPUT
from laggard.producers.sources.prometheus.page import Series, parse_page, series
from laggard.producers.sources.prometheus.red import USUAL_DURATIONS, Red
from laggard.producers.sources.prometheus.selectors import Selector


def rates(text: str) -> dict[Series, float]:
    return dict(parse_page(text.encode(), "text/plain", lambda _: True).samples)


def durations(name: str, labels: str = "", count: float = 10.0, total: float = 5.0) -> str:
    inner = f"{{{labels}}}" if labels else ""
    comma = f"{labels}," if labels else ""
    buckets = f'{name}_bucket{{{comma}le="0.5"}} {count / 2}\n{name}_bucket{{{comma}le="+Inf"}} {count}\n'
    return f"{buckets}{name}_sum{inner} {total}\n{name}_count{inner} {count}\n"


def select(text: str) -> Selector:
    return Selector.parse(text)


def test_a_usual_name_is_found() -> None:
    found = Red().features(rates(durations("http_request_duration_seconds") + "up 1\n"), {})
    assert list(found) == [THROUGHPUT, MEAN, *QUANTILES]
    assert found[THROUGHPUT] == 10
    assert found[MEAN] == 0.5
    assert found["response_time_p50_s"] == 0.5


def test_the_first_of_the_usual_names_is_taken_and_stays() -> None:
    red = Red()
    later, first = USUAL_DURATIONS[3].name, USUAL_DURATIONS[0].name
    assert red.features(rates(durations(later, count=7)), {})[THROUGHPUT] == 7
    both = rates(durations(later, count=7) + durations(first, count=9))
    assert red.features(both, {})[THROUGHPUT] == 7
    assert Red().features(both, {})[THROUGHPUT] == 9


def test_label_sets_are_summed_and_chosen_by_matchers() -> None:
    text = durations("x_seconds", 'handler="/a"', 10, 1) + durations("x_seconds", 'handler="/health"', 90, 0.9)
    whole = Red(select("x_seconds")).features(rates(text), {})
    assert whole[THROUGHPUT] == 100
    assert whole[MEAN] == pytest.approx(0.019)
    part = Red(select('x_seconds{handler!="/health"}')).features(rates(text), {})
    assert (part[THROUGHPUT], part[MEAN]) == (10, 0.1)
    assert Red(select("x_seconds_bucket")).features(rates(text), {}) == whole


def test_matchers_alone_choose_among_usual_names() -> None:
    text = durations("http_request_duration_seconds", 'job="shop"', 10) + durations(
        "http_server_requests_seconds", 'job="other"', 90
    )
    assert Red(select('{job="shop"}')).features(rates(text), {})[THROUGHPUT] == 10
    queries = Red(select('{job="shop"}')).queries
    assert len(queries) == 1
    assert queries[0].endswith(',job="shop"}')
    assert "|http_request_duration_seconds_bucket|" in queries[0]


@pytest.mark.parametrize(
    ("name", "unit", "mean_s"),
    [
        ("x_seconds", "", 0.5),
        ("x_milliseconds", "", 0.0005),
        ("x_ms", "", 0.0005),
        ("x_us", "", 5e-7),
        ("x", "", 0.5),
        ("x", "ms", 0.0005),
        ("x_seconds", "us", 5e-7),
    ],
)
def test_units(name: str, unit: str, mean_s: float) -> None:
    found = Red(select(name), unit=unit).features(rates(durations(name)), {})
    assert found[MEAN] == pytest.approx(mean_s)
    assert found["response_time_p50_s"] == pytest.approx(mean_s)


@pytest.mark.parametrize(
    ("labels", "failed"),
    [
        (('code="200"', 'code="503"'), 10),
        (('status="2xx"', 'status="5xx"'), 10),
        (('code="200"', 'code="404"'), 0),
        (('code="OK"', 'code="5"'), 0),
        (('path="/500"', 'path="/501"'), None),
    ],
)
def test_errors_are_found_by_their_status(labels: tuple[str, str], failed: float | None) -> None:
    text = durations("x_seconds", labels[0], 90) + durations("x_seconds", labels[1], 10)
    assert Red(select("x_seconds")).features(rates(text), {}).get(ERRORS) == failed


def test_errors_and_throughput_of_counters() -> None:
    text = durations("x_seconds") + 'http_requests_total{code="200"} 30\nhttp_requests_total{code="500"} 2\nfailed 4\n'
    found = Red(select("x_seconds")).features(rates(text), {})
    assert (found[THROUGHPUT], found[ERRORS]) == (10, 2)
    found = Red(select("x_seconds"), select("http_requests_total"), select("failed")).features(rates(text), {})
    assert (found[THROUGHPUT], found[ERRORS]) == (32, 4)
    found = Red(throughput=select("http_requests_total"), errors=select('{code=~"2.."}')).features(rates(text), {})
    assert found == {THROUGHPUT: 32, ERRORS: 30}


def test_without_requests_the_times_are_not_known() -> None:
    found = Red().features(rates(durations("http_request_duration_seconds", count=0, total=0)), {})
    assert found[THROUGHPUT] == 0
    assert math.isnan(found[MEAN])
    assert all(math.isnan(found[name]) for name in QUANTILES)


def test_a_summary_tells_its_quantiles_where_it_is_alone() -> None:
    told = "x_seconds_sum 5\nx_seconds_count 10\n"
    now = {series("x_seconds", {"quantile": q}): value for q, value in (("0.5", 0.3), ("0.99", 2.0))}
    found = Red(select("x_seconds")).features(rates(told), now)
    assert found == {THROUGHPUT: 10, MEAN: 0.5, "response_time_p50_s": 0.3, "response_time_p99_s": 2.0}
    two = 'x_seconds_sum{p="1"} 5\nx_seconds_count{p="1"} 10\nx_seconds_sum{p="2"} 5\nx_seconds_count{p="2"} 10\n'
    assert Red(select("x_seconds")).features(rates(two), now) == {THROUGHPUT: 20, MEAN: 0.5}


def test_what_is_not_there_is_said() -> None:
    assert Red().features(rates("up 1\n"), {}) == {}
    assert "http_server_request_duration_seconds" in Red().expected
    assert Red(select('x{a="b"}')).expected == 'x{a="b"}'


def test_what_is_no_bound_is_left_out() -> None:
    text = durations("x_seconds") + 'x_seconds_bucket{le="many"} 5\nx_seconds_bucket 7\n'
    assert Red(select("x_seconds")).features(rates(text), {})["response_time_p50_s"] == 0.5
