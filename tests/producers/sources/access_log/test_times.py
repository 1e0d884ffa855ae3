"""Times as servers write them, against the standard library and against what cannot be."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from laggard.producers.sources.access_log.times import CLF, StrftimeReader, Zone, read_time, since_epoch

UTC = Zone("UTC")
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
MOMENTS = st.builds(dt.datetime.fromtimestamp, st.floats(10**7, 3 * 10**10), ZONES)


def read(form: str, text: str, zone: Zone | None = None) -> float:
    return StrftimeReader([form], zone).seconds((text.encode(),))


@given(MOMENTS)
def test_the_common_log_formats_time_is_what_the_standard_library_says(moment: dt.datetime) -> None:
    text = f"{moment:%d/%b/%Y:%H:%M:%S %z}"
    expected = moment.replace(microsecond=0).timestamp()
    assert read(CLF, text) == expected
    assert read_time(text, None) == expected


@given(MOMENTS)
def test_iso_8601_is_what_the_standard_library_says(moment: dt.datetime) -> None:
    assert read_time(moment.isoformat(), None) == pytest.approx(moment.timestamp(), abs=1e-5)


@given(
    MOMENTS,
    st.sampled_from(["%Y-%m-%dT%H:%M:%S%z", "%d.%m.%Y %T %z", "%s", "%a %b %e %T %Y %z", "%Y %j %r %z", "%D %T %z"]),
)
def test_what_strftime_writes_is_read_back(moment: dt.datetime, form: str) -> None:
    assume("%D" not in form or moment.year <= 2068)  # two digits say no more
    expected = moment.replace(microsecond=0).timestamp()
    text = str(int(expected)) if form == "%s" else moment.strftime(form)
    assert read(form, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-22T14:06:12Z", 1795356372.0),
        ("2026-11-22T14:06:12.123456789Z", 1795356372.123456789),
        ("2026-11-22 15:06:12,5+01:00", 1795356372.5),
        ("2026-11-22T15:06:12+01", 1795356372.0),
        ("2026/11/22 14:06:12.250", 1795356372.25),
        ("1795356372.123", 1795356372.123),
        ("1795356372123", 1795356372.123),
        ("22/Nov/2026:14:06:12 +0000", 1795356372.0),
    ],
)
def test_times_in_json(text: str, expected: float) -> None:
    assert read_time(text, UTC) == pytest.approx(expected, abs=1e-6)


def test_a_number_is_of_the_unit_that_its_size_tells() -> None:
    assert [since_epoch(1795356372 * 10**power) for power in (0, 3, 6, 9)] == pytest.approx([1795356372.0] * 4)


def test_a_leap_second_is_the_first_of_the_next_minute() -> None:
    assert read(CLF, "31/Dec/2016:23:59:60 +0000") == 1483228800.0
    assert read_time("2016-12-31T23:59:60.5Z", None) == 1483228800.5


def test_a_zone_says_of_what_clock_a_time_is() -> None:
    paris = Zone("Europe/Paris")
    assert read("%Y-%m-%d %H:%M:%S", "2026-07-01 12:00:00", paris) == read_time("2026-07-01T10:00:00Z", None)
    assert read("%Y-%m-%d %H:%M:%S", "2026-12-01 12:00:00", paris) == read_time("2026-12-01T11:00:00Z", None)
    # The hour that comes twice is its first: summer time still.
    assert read("%F %T", "2026-10-25 02:30:00", paris) == read_time("2026-10-25T00:30:00Z", None)
    assert read("%F %T", "2026-07-01 12:00:00", Zone("local")) == dt.datetime(2026, 7, 1, 12).astimezone().timestamp()


@pytest.mark.parametrize(
    "text",
    [
        *("30/Feb/2026:00:00:00 +0000", "29/Feb/2025:00:00:00 +0000", "00/Jan/2026:00:00:00 +0000"),
        *("01/Foo/2026:00:00:00 +0000", "01/Jan/2026:24:00:00 +0000", "01/Jan/2026:00:60:00 +0000"),
        *("01/Jan/2026:00:00:61 +0000", "01/Jan/2026:00:00:00 +2460", "01/Jan/1969:00:00:00 +0000"),
        *("01/Jan/2026:00:00:00", "2026-01-01T00:00:00", "", "-", "nan", "inf", "-1", "1e30", "0"),
    ],
)
def test_what_is_no_moment_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|day|month"):
        read_time(text, None)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("%d/%b %H:%M:%S %z", "its year"),
        ("%Y-%m-%d", "its year, month, day, hour"),
        ("%Y-%m-%d %H:%M:%S %q", "got %q"),
        ("%Y-%m-%d %H:%M:%S", "time_zone"),
    ],
)
def test_a_form_that_says_no_moment_is_refused(form: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        StrftimeReader([form], None)


def test_a_zone_that_is_none_is_refused() -> None:
    for name in ("Europe/Atlantis", "", "../etc/passwd"):
        with pytest.raises(ValueError, match="expected a time zone of the IANA database"):
            Zone(name)
