"""Pages as programs serve them: what is read, and of bad ones what is said."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open

from laggard.producers.sources.prometheus.page import Page, PageError, Series, parse_page, series

TEXT, OPEN = "text/plain; version=0.0.4; charset=utf-8", "application/openmetrics-text; version=1.0.0; charset=utf-8"


def read(text: str, kind: str = TEXT, *wanted: str) -> Page:
    return parse_page(text.encode(), kind, lambda name: not wanted or name in wanted)


def told(text: str | bytes, kind: str = TEXT) -> str:
    with pytest.raises(PageError) as raised:
        parse_page(text if isinstance(text, bytes) else text.encode(), kind, lambda _: True)
    return str(raised.value)


def registry() -> CollectorRegistry:
    found = CollectorRegistry()
    histogram = Histogram("http_request_duration_seconds", "x", ["handler"], registry=found, buckets=(0.1, 1))
    histogram.labels('/a"b\\c\n').observe(0.5, {"trace_id": "1"})
    histogram.labels("/d").observe(3)
    Counter("http_requests", "x", ["code"], registry=found).labels("200").inc(7)
    Gauge("queue", "x", registry=found).set(math.inf)
    Summary("other_seconds", "x", registry=found).observe(2)
    return found


def test_both_formats_say_the_same() -> None:
    text = parse_page(generate_latest(registry()), TEXT, lambda name: not name.endswith("_created"))
    opened = parse_page(generate_open(registry()), OPEN, lambda name: not name.endswith("_created"))
    assert text.samples == opened.samples
    labels = (("handler", '/a"b\\c\n'), ("le", "1.0"))
    assert text.samples[Series("http_request_duration_seconds_bucket", labels)] == 1
    assert text.samples[series("http_requests_total", {"code": "200"})] == 7
    assert text.samples[series("queue", {})] == math.inf
    assert text.counters >= {"http_requests_total"}


def test_only_wanted_samples_are_parsed() -> None:
    text = "other{ this is no line at all\n" + generate_latest(registry()).decode()
    wanted = "http_request_duration_seconds_count"
    assert [one.name for one in read(text, TEXT, wanted).samples] == [wanted] * 2
    opened = generate_open(registry()).decode()
    assert [one.name for one in read(opened, OPEN, wanted).samples] == [wanted] * 2


@pytest.mark.parametrize(
    ("text", "kind", "samples", "counters", "duplicates"),
    [
        pytest.param(
            *("# TYPE hits counter\nhits 3\n", TEXT, {series("hits", {}): 3}, {"hits"}, 0),
            id="names of counters stay as they are",
        ),
        pytest.param(
            *('a{x="1"} 1\na{x="1"} 2\na{x="1",y=""} 3\nb 1\n', TEXT),
            *({series("a", {"x": "1"}): 1, series("b", {}): 1}, set(), 2),
            id="of a series that comes twice the first counts",
        ),
        pytest.param("", TEXT, {}, set(), 0, id="nothing is a page"),
        pytest.param("# EOF\n", OPEN, {}, set(), 0, id="nothing and its end is a page"),
    ],
)
def test_what_is_read(
    text: str, kind: str, *, samples: dict[Series, float], counters: set[str], duplicates: int
) -> None:
    page = read(text, kind)
    assert page.samples == samples
    assert page.counters == counters
    assert page.duplicates == duplicates


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("a 1\nb", TEXT, "the page is truncated: expected a line break at its end"),
        ("a 1\n", OPEN, "the page is truncated: expected '# EOF' at its end"),
        (b"a 1\nb\xff 2\n", TEXT, "line 2: expected UTF-8"),
        ("a 1\nb{ 2\n", TEXT, "line 2: expected a metric, its labels and a number, got 'b{ 2'"),
        ("a 1\n<html>\n", TEXT, "line 2: expected a metric, its labels and a number, got '<html>'"),
        ("a one\n", TEXT, "line 1: expected a metric, its labels and a number, got 'a one'"),
        ("a\n", TEXT, "line 1: expected a metric, its labels and a number, got 'a'"),
        (
            "# TYPE a counter\na_total -1\n# EOF\n",
            OPEN,
            "expected metrics in text: 'Counter-like samples cannot be neg",
        ),
        ("# TYPE a counter\na_total NaN\n# EOF\n", OPEN, "expected metrics in text: 'Counter-like samples cannot be N"),
    ],
)
def test_what_is_said_of_bad_pages(text: str | bytes, kind: str, expected: str) -> None:
    assert told(text, kind).startswith(expected)


@given(st.one_of(st.text(), st.binary().map(lambda b: b.decode(errors="replace"))), st.sampled_from([TEXT, OPEN]))
def test_whatever_comes_is_read_or_refused(text: str, kind: str) -> None:
    with suppress(PageError):  # and nothing else
        page = parse_page(text.encode(errors="replace"), kind, lambda _: True)
        assert all(isinstance(value, float) for value in page.samples.values())


@given(
    st.dictionaries(
        st.tuples(
            st.from_regex(r"[a-z]{1,3}", fullmatch=True),
            st.dictionaries(
                st.sampled_from(["x", "y"]),
                st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=5),
                max_size=2,
            ).map(lambda labels: tuple(sorted(labels.items()))),
        ),
        st.floats(),
        max_size=6,
    )
)
def test_what_is_written_is_read_as_it_was(samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]) -> None:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"')

    lines = []
    for (name, labels), number in samples.items():
        written = ",".join(f'{label}="{escaped(value)}"' for label, value in labels)
        lines.append(f"{name}{{{written}}} {number!r}\n")
    page = read("".join(lines))
    assert page.duplicates == 0
    expected = {Series(name, labels): number for (name, labels), number in samples.items()}
    assert page.samples.keys() == expected.keys()
    for one, value in page.samples.items():
        assert value == pytest.approx(expected[one], nan_ok=True)
