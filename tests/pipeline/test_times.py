"""Moments as people type them, in a zone with summer time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.cli.times import FORMS, LATEST, parse_shown, parse_time, parse_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SUMMER = timezone(timedelta(hours=2))
WINTER = timezone(timedelta(hours=1))
NOW = datetime(2026, 7, 1, 12, 0, 0, tzinfo=SUMMER).timestamp()


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Spelt out, so that no zone file is needed.
    with monkeypatch.context() as context:
        context.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", datetime(2026, 7, 1, 12, tzinfo=SUMMER)),
        ("11:05", datetime(2026, 7, 1, 11, 5, tzinfo=SUMMER)),
        ("9:05:07", datetime(2026, 7, 1, 9, 5, 7, tzinfo=SUMMER)),
        ("12:00", datetime(2026, 7, 1, 12, tzinfo=SUMMER)),
        ("12:01", datetime(2026, 6, 30, 12, 1, tzinfo=SUMMER)),
        ("yesterday 9:05", datetime(2026, 6, 30, 9, 5, tzinfo=SUMMER)),
        ("Yesterday 4:32:10", datetime(2026, 6, 30, 4, 32, 10, tzinfo=SUMMER)),
        ("2026-01-02 14:05:00", datetime(2026, 1, 2, 14, 5, tzinfo=WINTER)),
        ("2026-01-02 14:05", datetime(2026, 1, 2, 14, 5, tzinfo=WINTER)),
        ("2026-01-02T14:05:00.250Z", datetime(2026, 1, 2, 14, 5, 0, 250_000, tzinfo=UTC)),
        ("2026-01-02T14:05-05:00", datetime(2026, 1, 2, 19, 5, tzinfo=UTC)),
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=WINTER)),
        ("1700000000", datetime.fromtimestamp(1_700_000_000, UTC)),
        ("@1700000000.5", datetime.fromtimestamp(1_700_000_000.5, UTC)),
        ("-5m", datetime(2026, 7, 1, 11, 55, tzinfo=SUMMER)),
        ("5m ago", datetime(2026, 7, 1, 11, 55, tzinfo=SUMMER)),
        ("-1h 30m", datetime(2026, 7, 1, 10, 30, tzinfo=SUMMER)),
        ("  90s   ago ", datetime(2026, 7, 1, 11, 58, 30, tzinfo=SUMMER)),
    ],
)
def test_forms(text: str, moment: datetime) -> None:
    assert parse_time(text, NOW) == moment.timestamp()


def test_a_moment_as_it_is_shown_is_the_end_of_its_second() -> None:
    frame_ts = NOW - 60.0 + 0.4
    shown = time.strftime("%H:%M:%S", time.localtime(frame_ts))
    assert parse_time(shown, NOW) < frame_ts < parse_shown(shown, NOW) < NOW - 59.0
    assert parse_shown("2026-07-01T09:59:00Z", NOW) == parse_shown(shown, NOW)
    assert parse_shown("1700000000", NOW) == 1_700_000_000.0
    assert parse_shown("now", NOW + 0.3) == NOW + 0.3
    assert parse_shown("12:00", NOW) == NOW, "nothing is after now"
    assert parse_shown("2026-07-01 12:01", NOW) == NOW + 60.0, "which the command refuses"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "-",
            "ago",
            "soon",
            "14",
            "25:00",
            "14:60",
            "1:2",
            "14:05 yesterday",
            "yesterday",
            "yesterday 25:00",
            "yesterday 1:2",
            "2026-13-01",
            "2026-01-02 25:00",
        ),
        *(
            "0001-01-01",
            "9999-12-31",
            "1700000000000",
            "-100000000h",
            "5 parsecs ago",
            "٣:٤٣",
            "2026-W01-1",
            "nan",
            "5m",
        ),
    ],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; expected") as raised:
        parse_time(text, NOW)
    assert FORMS in str(raised.value)


def test_a_time_that_passed_twice_is_the_later_one_that_has_and_one_that_was_left_out_the_day_before() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=SUMMER).timestamp()
    second = datetime(2026, 10, 25, 2, 30, tzinfo=WINTER).timestamp()
    assert second - first == 3600
    assert parse_time("2:30", second + 60) == second
    assert parse_time("2:30", second - 60) == first
    assert parse_time("2:30", first - 60) == first - 86400
    assert parse_time("2026-10-25 02:30", second + 60) == first
    now = datetime(2026, 3, 29, 3, 10, tzinfo=SUMMER).timestamp()
    assert now - 86400 < parse_time("2:30", now) <= now


@given(st.text(max_size=30), st.floats(1e9, LATEST - 1))
def test_any_text_is_a_moment_or_one_clear_error(text: str, now: float) -> None:
    try:
        ts = parse_time(text, now)
    except ValueError:
        return
    assert 0 <= ts < LATEST


@given(st.integers(0, 23), st.integers(0, 59), st.floats(1e9, 4e9))
def test_a_time_of_day_is_one_that_has_passed(hour: int, minute: int, now: float) -> None:
    ts = parse_time(f"{hour}:{minute:02}", now)
    assert now - 90_000 - 3600 <= ts <= now


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", datetime(2026, 7, 1, 14, tzinfo=SUMMER)),
        ("12:01", datetime(2026, 7, 1, 12, 1, tzinfo=SUMMER)),
        ("12:00", datetime(2026, 7, 2, 12, tzinfo=SUMMER)),
        ("11:59:30", datetime(2026, 7, 2, 11, 59, 30, tzinfo=SUMMER)),
        ("2026-08-02", datetime(2026, 8, 2, tzinfo=SUMMER)),
        ("2026-07-01T13:00Z", datetime(2026, 7, 1, 13, tzinfo=UTC)),
    ],
)
def test_a_time_to_come(text: str, moment: datetime) -> None:
    assert parse_until(text, NOW) == moment.timestamp()


def test_a_time_of_day_to_come_when_the_clock_is_changed() -> None:
    before = datetime(2026, 10, 24, 18, tzinfo=SUMMER).timestamp()
    assert parse_until("18:30", before) == before + 1800.0
    assert parse_until("17:30", before) == datetime(2026, 10, 25, 17, 30, tzinfo=WINTER).timestamp()
    before = datetime(2026, 3, 28, 18, tzinfo=WINTER).timestamp()
    assert parse_until("18:30", before) == before + 1800.0
    assert parse_until("17:30", before) == datetime(2026, 3, 29, 17, 30, tzinfo=SUMMER).timestamp()


@pytest.mark.parametrize("text", ["", "soon", "-5m", "2026-06-30", "0s", "4102444800000"])
def test_what_is_no_time_to_come(text: str) -> None:
    with pytest.raises(ValueError, match="18:00"):
        parse_until(text, NOW)
