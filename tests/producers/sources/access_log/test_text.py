"""Lines in the formats of nginx and Apache: what they say, and what cannot be read."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.sources.access_log.formats import NAMED, text_format
from laggard.producers.sources.access_log.text import TextParser
from laggard.producers.sources.access_log.times import Zone

if TYPE_CHECKING:
    from laggard.producers.sources.access_log.requests import Requests

BEGIN = 1795356372.0  # 2026-11-22 14:06:12 UTC
NGINX = (
    b'127.0.0.1 - - [22/Nov/2026:14:06:12 +0000] "GET /a?b=\\x22c HTTP/1.1" 200 612 "-" "curl/7.88 (\\"x\\")" 0.123\n'
)
APACHE = b'::1 - joe [22/Nov/2026:15:06:12 +0100] "GET / HTTP/1.1" 503 - "-" "Mozilla \\"5\\"" 250000\n'


def parsed(form: str, block: bytes, zone: str | None = None) -> Requests:
    return TextParser(text_format(form, None if zone is None else Zone(zone))).parse(block)


def only(form: str, line: bytes, zone: str | None = None) -> tuple[float, float, int]:
    found = parsed(form, line, zone)
    assert found.unreadable == 0, found.reported
    assert len(found.ts) == 1
    return float(found.ts[0]), float(found.duration_s[0]), int(found.status[0])


def test_combined_with_the_time_behind() -> None:
    assert only("nginx", NGINX) == (BEGIN, 0.123, 200)
    # Apache says when a request began.
    assert only("apache", APACHE) == (BEGIN + 0.25, 0.25, 503)
    traefik = (
        b'10.0.0.1 - - [22/Nov/2026:14:06:12 +0000] "GET / HTTP/2.0" 200 5 "-" "-" 12 "web@docker" '
        b'"http://172.17.0.2:80" 500ms\n'
    )
    assert only("traefik", traefik) == (BEGIN + 0.5, 0.5, 200)


@pytest.mark.parametrize(
    ("form", "line", "expected"),
    [
        ("[$time_local] $status $request_time", "[22/Nov/2026:14:06:12 +0000] 200 0.010", (BEGIN, 0.01, 200)),
        ("$msec $status $request_time", "1795356372.500 499 3.000", (BEGIN + 0.5, 3.0, 499)),
        ("$time_iso8601|${status}|$request_time", "2026-11-22T15:06:12+01:00|200|1.5", (BEGIN, 1.5, 200)),
        ("$msec $upstream_response_time", "1795356372.0 0.010, 0.020 : 0.030", (BEGIN, 0.06, 0)),
        ("$msec $upstream_response_time", "1795356372.0 0.010, - : 0.005", (BEGIN, 0.015, 0)),
        ("$msec $upstream_response_time", "1795356372.0 -", (BEGIN, math.nan, 0)),
        ("$msec $upstream_response_time", "1795356372.0 -, -", (BEGIN, math.nan, 0)),
        ("$msec $upstream_response_time $request_time", "1795356372.0 0.5 0.7", (BEGIN, 0.7, 0)),
        # Several times: the finest; the same variable twice; variables that touch.
        ("$time_local $msec $status $status", "22/Nov/2026:14:06:13 +0000 1795356372.250 200 200",
         (BEGIN + 0.25, 0, 200)),
        ("$uri$is_args$args $host$msec", "/a?b=1 web1795356372.000", (BEGIN, 0, 0)),
        ('$remote_addr "$http_user_agent" $msec "$request_uri"', '::1 "\\"\\\\" 1795356372.0 "a b"', (BEGIN, 0, 0)),
        # A user's name may hold a blank.
        ("$remote_addr - $remote_user [$time_local] $status", "::1 - john doe [22/Nov/2026:14:06:12 +0000] 200",
         (BEGIN, 0, 200)),
        ("log_format timed escape=json '{\"t\":\"$time_iso8601\",' '\"s\":$status,'\n  '\"d\":$request_time}';",
         '{"t":"2026-11-22T14:06:12+00:00","s":200,"d":0.25}', (BEGIN, 0.25, 200)),
        ('log_format quoted "$msec \\"$request\\" $status";', '1795356372.0 "GET / HTTP/1.1" 200', (BEGIN, 0, 200)),
        ("%t %>s %D", "[22/Nov/2026:14:06:12 +0000] 200 1500000", (BEGIN + 1.5, 1.5, 200)),
        ("%t %s %>s %T", "[22/Nov/2026:14:06:12 +0000] 302 200 2", (BEGIN + 2, 2.0, 200)),
        ("%t %T/%D", "[22/Nov/2026:14:06:12 +0000] 1/1500000", (BEGIN + 1.5, 1.5, 0)),
        ("%t %{ms}T", "[22/Nov/2026:14:06:12 +0000] 250", (BEGIN + 0.25, 0.25, 0)),
        ("%t %{us}T", "[22/Nov/2026:14:06:12 +0000] 250", (BEGIN + 0.00025, 0.00025, 0)),
        ("%{end:sec}t %D", "1795356372 5000000", (BEGIN, 5.0, 0)),
        ("%{msec}t %D", "1795356372250 5000000", (BEGIN + 5.25, 5.0, 0)),
        ("%{end:usec}t %D", "1795356372250000 5", (BEGIN + 0.25, 5e-6, 0)),
        ("%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t %>s %D", "22/Nov/2026 14:06:12.250 +0000 200 500000",
         (BEGIN + 0.75, 0.5, 200)),
        ("%{end:%Y-%m-%dT%H:%M:%S}t.%{end:usec_frac}tZ %D", "2026-11-22T14:06:12.000250Z 1000000",
         (BEGIN + 0.00025, 1.0, 0)),
        ('LogFormat "%v:%p %h %l %u %t \\"%r\\" %>s %O \\"%{Referer}i\\" \\"%!200,304{User-Agent}i\\" %D" vhost',
         'shop:443 ::1 - - [22/Nov/2026:14:06:12 +0000] "GET /\\"x HTTP/1.1" 404 9 "-" "-" 1000',
         (BEGIN + 0.001, 0.001, 404)),
        ("%t %>s %D%%", "[22/Nov/2026:14:06:12 +0000] - -%", (BEGIN, math.nan, 0)),
        ("€$msec€$host€ $status", "€1795356372.0€shöp€ 200", (BEGIN, 0, 200)),
    ],
)  # fmt: skip
def test_formats_in_the_servers_own_languages(form: str, line: str, expected: tuple[float, float, int]) -> None:
    zone = "UTC" if "T%H" in form else None
    for end in ("\n", "\r\n"):
        ts, duration_s, status = only(form, (line + end).encode(), zone)
        assert ts == pytest.approx(expected[0], abs=1e-6)
        if "request_time" in form or "response_time" in form or "%D" in form or "T" in form:
            assert duration_s == pytest.approx(expected[1], abs=1e-9, nan_ok=True)
        else:
            assert math.isnan(duration_s)
        assert status == expected[2]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("combinde", "expected one of nginx, apache, traefik, json, or a format"),
        ("$remote_addr $status", r"expected a time in the format: \$time_local"),
        ("%h %>s %D", "expected one of nginx"),
        ("%{begin:sec}t", None),
        ("%{%d/%b/%Y}t", "year, month, day, hour"),
        ("%{%F %T}t %D", "expected time_zone"),
        ("%{%F %T %z}t%{end:msec_frac}t", "of the begin or of the end"),
        ("%t %{min}T", "expected %T"),
        ("$msec\n$status", "one line"),
        ("", "expected one of nginx"),
    ],
)
def test_what_is_no_format_is_refused(form: str, expected: str | None) -> None:
    if expected is None:
        text_format(form)
    else:
        with pytest.raises(ValueError, match=expected):
            text_format(form)


def test_lines_that_cannot_be_read_are_told_and_those_around_them_count() -> None:
    broken = [
        b"\n",
        b"\x00\xff\xfe junk\n",
        NGINX[:40] + b"\n",
        NGINX.replace(b"Nov", b"Foo"),
        NGINX.replace(b"22/Nov", b"31/Nov"),
        NGINX.replace(b"0.123", b"-0.1"),
        NGINX.replace(b" 200 ", b" 20 "),
        NGINX[:-1] + b" more\n",
    ]
    block = b"".join(NGINX + line for line in broken) + NGINX
    found = parsed("nginx", block)
    assert len(found.ts) == len(broken) + 1
    assert found.unreadable == len(broken) - 1  # a blank line is nothing
    assert [each.offset for each in found.reported] == [block.index(line) for line in broken[1:4]]
    assert "expected a line of '$remote_addr" in found.reported[0].reason
    assert "\\\\xff" in found.reported[0].reason
    apache = parsed("apache", APACHE.replace(b" 250000", b" -5"))
    assert (apache.unreadable, apache.reported[0].reason.partition(",")[0]) == (1, "expected a non-negative duration")
    assert parsed("nginx", b"").unreadable == 0


def test_a_line_alone_says_the_same_as_one_of_many() -> None:
    lines = [NGINX.replace(b":12 ", b":%02d " % (n % 60)).replace(b"0.123", b"0.%03d" % n) for n in range(500)]
    whole = parsed("nginx", b"".join(lines))
    with_junk = parsed("nginx", b"junk\n" + b"".join(lines))
    for one, other in zip(whole[:3], with_junk[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    assert with_junk.unreadable == 1


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=40)


def escaped_by_nginx(text: str) -> bytes:
    """Return the form of a value under `escape=default`."""
    return b"".join(
        b"\\x%02X" % byte if byte in b'"\\' or byte < 32 or byte > 126 else bytes([byte]) for byte in text.encode()
    )


@given(st.tuples(TEXT, TEXT, TEXT), st.floats(1, 4e9), st.floats(0, 1e6), st.integers(100, 599))
def test_whatever_a_client_sends_does_not_change_what_is_read(
    texts: tuple[str, str, str], ts: float, duration_s: float, status: int
) -> None:
    """Clients choose paths and headers; in quotation marks nothing of them can look like the end of the field."""
    sent = [escaped_by_nginx(each) for each in texts]
    when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(ts)).encode()
    line = b'::1 - - [%s] "%s" %d 5 "%s" "%s" %.3f\n' % (when, sent[0], status, sent[1], sent[2], duration_s)
    assert only("nginx", line) == (math.floor(ts), float(f"{duration_s:.3f}"), status)


@given(
    st.binary(max_size=300), st.sampled_from([*NAMED, "$msec $request_time", "%t %D", '"$uri" $host$uri $msec "$args"'])
)
def test_no_junk_raises_or_is_lost(junk: bytes, form: str) -> None:
    block = junk + b"\n"
    found = parsed(form, block)
    lines = [line for line in block.split(b"\n") if line.strip(b"\r") and not line.isspace()]
    assert len(found.ts) + found.unreadable == len(lines)


@given(st.integers(0, len(NGINX) - 1), st.binary(min_size=1, max_size=4))
def test_a_line_with_a_broken_part_is_read_or_told(at: int, put: bytes) -> None:
    block = NGINX + NGINX[:at] + put + NGINX[at + 1 : -1] + b"\n" + NGINX
    found = parsed("nginx", block)
    assert len(found.ts) >= 2
    assert found.ts[0] == found.ts[-1] == BEGIN


@pytest.mark.parametrize("form", [*NAMED, "$uri$msec", '$host $uri [$msec] "$args"'])
def test_no_line_takes_long_to_refuse(form: str) -> None:
    """A client chooses the text of a line, so no text may stop the reader of the log."""
    for pattern in (b" - ", b'"', b'\\"', b"[", b'" "', b"1", b' "a" '):
        line = pattern * (200_000 // len(pattern)) + b"\n"
        began = time.process_time()
        assert parsed(form, line).unreadable == 1
        assert time.process_time() - began < 2.0
