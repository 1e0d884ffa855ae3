"""How a member deviates: what metrics count by their names, and the decision list line by line."""

from __future__ import annotations

import math

import pytest

from laggard.operators.covariance.kinds import (
    NOTHING,
    SHORT_S,
    SHORT_TICKS,
    SUDDEN_S,
    SUDDEN_TICKS,
    YOUNGER,
    Sign,
    kind_of,
    nature,
)

INTERVAL_S = 1.0
LONG_S = 2.0 * max(SHORT_S, SHORT_TICKS * INTERVAL_S)


@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        ("cpu_user_ratio", "use"),
        ("cpu_percent", "use"),
        ("cpu_seconds", "use"),
        ("requests_per_s", "use"),
        ("io_read_bytes_per_s", "use"),
        ("CPU_Rate", "use"),
        ("cpu_wait_ratio", "wait"),
        ("io_delay_ratio", "wait"),
        ("cpu_quota_throttled_ratio", "wait"),
        ("pressure_io_some_ratio", "wait"),
        ("response_time_s", "wait"),
        ("request_latency_s", "wait"),
        ("queue_length", "wait"),
        ("blocked_ratio", "wait"),
        ("memory_rss_bytes", "stock"),
        ("descriptors", "stock"),
        ("", "stock"),
    ],
)
def test_what_a_metric_counts_is_told_by_its_name(feature: str, expected: str) -> None:
    assert nature(feature) == expected


def sign(
    feature: str, *, above: bool = True, evidence: float = 2.0, rising: bool = False, lasting: bool = True
) -> Sign:
    value = 3.0 if above else 0.5
    return Sign(feature, above, evidence, value, 1.0, rising, lasting)


def idle(evidence: float = 2.0, value: float = 0.0) -> Sign:
    return Sign("cpu_ratio", above=False, evidence=evidence, value=value, usual=1.0, rising=False, lasting=True)


USE, WAIT, STOCK = "cpu_ratio", "cpu_wait_ratio", "memory_rss_bytes"


@pytest.mark.parametrize(
    ("signs", "duration_s", "age_share", "expected"),
    [
        ([], LONG_S, 1.0, "different"),
        ([sign("")], LONG_S, 1.0, "different"),
        # Used more: for how long, and whether it still is.
        ([sign(USE)], 0.0, 1.0, "spike"),
        ([sign(USE)], math.nan, 1.0, "spike"),
        ([sign(USE)], LONG_S, 1.0, "busy"),
        ([sign(USE, lasting=False)], 0.0, 1.0, "spike"),
        ([sign(USE, lasting=False)], LONG_S, 1.0, "busy"),
        ([sign(USE)], (SUDDEN_S + SHORT_S) / 2.0, 1.0, "busy"),
        ([sign(USE, lasting=False)], (SUDDEN_S + SHORT_S) / 2.0, 1.0, "spike"),
        # Used less: stuck who does nothing, whatever else is out more.
        ([sign(USE, above=False)], LONG_S, 1.0, "slower"),
        ([idle()], LONG_S, 1.0, "stuck"),
        ([sign(STOCK, evidence=9.0), idle()], LONG_S, 1.0, "stuck"),
        ([idle(value=NOTHING)], LONG_S, 1.0, "stuck"),
        ([idle(value=NOTHING * 1.1)], LONG_S, 1.0, "slower"),
        ([idle(evidence=0.9)], LONG_S, 1.0, "slower"),
        ([Sign(USE, False, 2.0, 0.0, math.nan, False, True)], LONG_S, 1.0, "slower"),
        # Waits.
        ([sign(WAIT)], 0.0, 1.0, "slower"),
        ([sign(WAIT, above=False)], LONG_S, 1.0, "different"),
        # Holds more.
        ([sign(STOCK, rising=True)], LONG_S, 1.0, "leak"),
        ([sign(STOCK)], 0.0, 1.0, "leak"),
        ([sign(STOCK)], LONG_S, 1.0, "different"),
        ([sign(STOCK, lasting=False)], 0.0, 1.0, "spike"),
        ([sign(STOCK, lasting=False)], LONG_S, 1.0, "different"),
        ([sign(STOCK, rising=True), sign(USE, above=False, evidence=1.5)], LONG_S, 1.0, "slower"),
        ([sign(STOCK, rising=True), sign(USE, above=False, evidence=0.9)], LONG_S, 1.0, "leak"),
        # Holds less.
        ([sign(STOCK, above=False)], LONG_S, 1.0, "different"),
        ([sign(STOCK, above=False)], LONG_S, YOUNGER, "different"),
        ([sign(STOCK, above=False)], LONG_S, YOUNGER / 2.0, "younger"),
        # The covariance says nothing of the kind where a metric does.
        ([sign("", evidence=9.0), sign(STOCK, rising=True)], LONG_S, 1.0, "leak"),
    ],
)
def test_the_kind(signs: list[Sign], duration_s: float, age_share: float, expected: str) -> None:
    assert kind_of(signs, duration_s=duration_s, interval_s=INTERVAL_S, age_share=age_share) == expected


def test_what_is_short_is_counted_in_ticks_where_they_are_long() -> None:
    """A tick a minute: what windows remember of a spike outlasts it by ticks, not by seconds."""
    for lasting, ticks in ((True, SUDDEN_TICKS), (False, SHORT_TICKS)):
        signs = [sign(USE, lasting=lasting)]
        assert kind_of(signs, duration_s=60.0 * ticks, interval_s=60.0, age_share=1.0) == "spike"
        assert kind_of(signs, duration_s=60.0 * (ticks + 1), interval_s=60.0, age_share=1.0) == "busy"
