import math
import time

import pytest

from laggard.pipeline.explaining.units import counted, readable, readable_duration, readable_usual


@pytest.mark.parametrize(
    ("feature", "value", "expected"),
    [
        ("memory_rss_bytes", 0.0, "0 B"),
        ("memory_rss_bytes", -0.0, "0 B"),
        ("memory_rss_bytes", 999.0, "999 B"),
        ("memory_rss_bytes", 999_600.0, "1 MB"),
        ("memory_rss_bytes", 1_234_567_890.0, "1.23 GB"),
        ("memory_rss_bytes", -2_500_000.0, "-2.5 MB"),
        ("memory_rss_bytes", 3e18, "3,000 PB"),
        ("memory_rss_bytes", math.nan, "-"),
        ("memory_rss_bytes", math.inf, "infinite"),
        ("io_write_bytes_per_s", 212e6, "212 MB/s"),
        ("io_write_bytes_per_s", 0.25, "0.25 B/s"),
        ("cpu_user_ratio", 0.97, "97 %"),
        ("cpu_user_ratio", 3.2, "320 %"),
        ("cpu_user_ratio", 0.0316, "3.2 %"),
        ("cpu_user_ratio", 1e-7, "0 %"),
        ("faults_major_per_s", 12.34, "12.3/s"),
        ("faults_minor_per_s", 1_234_567.0, "1.23 M/s"),
        ("threads", 512.0, "512"),
        ("threads", 12_345.0, "12,345"),
        ("threads", 123_456.0, "123 k"),
        ("threads", 1e30, "1.00e+18 T"),
        ("response_time_p95_s", 0.21, "210 ms"),
        ("response_time_p95_s", 0.0, "0 s"),
        ("gc_pause_seconds", 0.000_05, "50 us"),
        ("gc_pause_seconds_per_s", 0.05, "50 ms/s"),
        ("uptime_seconds", 90_061.0, "25 h"),
    ],
)
def test_a_value_is_written_in_the_unit_that_its_feature_names(feature, value, expected):
    assert readable(feature, value) == expected


def test_a_time_is_written_as_it_is_here(monkeypatch):
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "UTC")
        time.tzset()
        assert readable("boot_timestamp_seconds", 1.7e9) == "2023-11-14 22:13:20"
    time.tzset()
    assert readable("boot_timestamp_seconds", 1e300).endswith(" d")


@pytest.mark.parametrize(
    ("feature", "mean", "deviation", "expected"),
    [
        ("io_write_bytes_per_s", 0.1e6, 3e6, "0.1 ± 3 MB/s"),
        ("memory_rss_bytes", 40e6, 0.0, "40 MB"),
        ("memory_rss_bytes", 40e6, math.nan, "40 MB"),
        ("memory_rss_bytes", math.nan, 1.0, "-"),
        ("cpu_user_ratio", 0.02, 0.01, "2 ± 1 %"),
        ("threads", 12.5, 0.25, "12.5 ± 0.25"),
        ("cpu_user_ratio", 0.0001, 0.0002, "0 %"),
        ("memory_rss_bytes", 40e6, 7.0, "40 MB"),
    ],
)
def test_mean_and_spread_share_one_unit(feature, mean, deviation, expected):
    assert readable_usual(feature, mean, deviation) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0 s"),
        (45.0, "45 s"),
        (119.0, "119 s"),
        (0.341, "0 s"),
        (120.0, "2 min"),
        (5400.0, "90 min"),
        (48_000.0, "13.3 h"),
    ],
)
def test_durations(seconds, expected):
    assert readable_duration(seconds) == expected


def test_counts_are_told_in_their_number():
    assert [counted(count, "tick") for count in (0, 1, 2, 1200)] == ["0 ticks", "1 tick", "2 ticks", "1,200 ticks"]
