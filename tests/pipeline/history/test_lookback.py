"""Since when it has been so, in two days of history on a real bus: each row is a process with a past of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.ranking import FeatureScore
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Frame, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.history.lookback import Lookback, began_before, grown
from laggard.pipeline.history.series import Reader
from laggard.pipeline.history.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOW = 1_700_000_000.0
HOUR_S = 3600.0
TICK_S = 60.0
HOURS = 48
MB = 1e6
TOPIC = Topics().name(COUNTERS)
AWAY = (30.0, 27.0)
"""The agent did not run: hours before the moment."""


def flat_then(hours: float, rise: float = 1700.0, base: float = 200.0) -> Callable[[float, float], float]:
    return lambda ago, _: base + rise * max(0.0, 1.0 - ago / hours)


# What a process holds, in MB, a number of hours before the moment; and noise, standard normal.
SHAPES: dict[str, Callable[[float, float], float]] = {
    "leak": flat_then(6.0),
    "noisy leak": lambda ago, noise: flat_then(6.0)(ago, 0.0) * (1.0 + 0.01 * noise),
    "short leak": flat_then(0.4),
    "leak for two days": flat_then(60.0),
    "leak across the gap": flat_then(36.0),
    "leak seen in three parts": flat_then(38.0),
    "leak by the hour": lambda ago, _: 200.0 + 300.0 * max(0.0, math.ceil(6.5 - ago)),
    "leak of a saw": lambda ago, _: flat_then(6.0)(ago, 0.0) + 150.0 * (ago * 3.0 % 1.0),
    "leak after a start": lambda ago, _: math.nan if ago > 10.0 else 5.0 if ago > 9.9 else flat_then(6.0)(ago, 0.0),
    "leak from the start": lambda ago, _: math.nan if ago > 9.0 else 1900.0 - 200.0 * ago,
    "leak after a drop": lambda ago, _: 2500.0 if ago > 7.0 else flat_then(7.0)(ago, 0.0),
    "slow and then fast": lambda ago, _: flat_then(6.0)(ago, 0.0) - 2.0 * ago,
    "level": lambda ago, noise: (1900.0 if ago < 6.0 else 200.0) * (1.0 + 0.001 * noise),
    "level of half an hour": lambda ago, _: 1900.0 if ago < 0.5 else 200.0,
    "two levels": lambda ago, _: 1900.0 if ago < 4.0 else 1000.0 if ago < 8.0 else 200.0,
    "level in the gap": lambda ago, _: 1900.0 if ago < 28.0 else 200.0,
    "always": lambda _, noise: 1900.0 + noise,
    "since it began": lambda ago, _: math.nan if ago > 5.0 else 1900.0,
    "grew and stayed": lambda ago, _: 1900.0 - max(0.0, ago - 5.0) * 1700.0 if ago < 6.0 else 200.0,
    "falls": lambda ago, _: 1900.0 + 20.0 * ago,
    "noise": lambda _, noise: 1900.0 + 300.0 * noise,
    "up and down": lambda ago, _: 1900.0 - 800.0 * (1.0 - math.cos(40.0 * ago)),
    "lulls": lambda ago, _: 200.0 if ago > 6.0 or round(ago * 60.0) % 30 in {3, 4} else 1900.0,
}


def history() -> Iterator[Frame]:
    """Two days of a host, a minute between two ticks."""
    random = np.random.default_rng(1)
    features = ["memory_rss_bytes", "cpu_user_ratio"]
    host = make_layout(["host"], ["host"], ["load_1m"])
    for sequence in range(int(HOURS * HOUR_S / TICK_S) + 1):
        ts = NOW - HOURS * HOUR_S + sequence * TICK_S
        ago = (NOW - ts) / HOUR_S
        values = {name: shape(ago, float(random.normal())) * MB for name, shape in SHAPES.items()}
        there = {name: value for name, value in values.items() if not math.isnan(value)}
        cells = np.array([[value, value / MB] for value in there.values()])
        if not AWAY[1] < ago < AWAY[0]:
            layout = make_layout(there, there, features)
            yield Frame("host", "web-1", "process", ts, 2 * sequence, layout, cells)
            yield Frame("host", "web-1", "host", ts, 2 * sequence + 1, host, np.ones((1, 1)))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with EmbeddedBus(tmp_path_factory.mktemp("lookback") / "laggard.db") as bus:
        bus.create(Topics().specs())
        bus.append([Outgoing(TOPIC, each.key, encode(each), each.ts) for each in history()])
        yield Reader(bus, bus.partition_of(TOPIC, "web-1"), "web-1")


def lookback(
    reader: Reader, row: str, feature: str = "memory_rss_bytes", mean: float = 200.0 * MB, moment: float = NOW
) -> Lookback:
    now = SHAPES[row](0.0, 0.0) * MB if feature.endswith("_bytes") else SHAPES[row](0.0, 0.0)
    about = Subject("process", row, row, FeatureScore(feature, now, mean, 3.0 * MB, 40.0))
    return Lookback(reader, about, moment=moment, stop=reader.bus.bounds(reader.partition)[1], tick_s=TICK_S)


LEAKS = [
    ("leak", 6.0, 200.0),
    ("noisy leak", 6.0, 200.0),
    ("short leak", 0.4, 200.0),
    ("leak across the gap", 36.0, 200.0),
    ("leak seen in three parts", 38.0, 200.0),
    ("leak by the hour", 6.0, 200.0),
    ("leak of a saw", 6.0, 200.0),
    ("leak after a start", 6.0, 200.0),
    ("leak from the start", 9.0, 100.0),
    ("leak after a drop", 7.0, 200.0),
    ("slow and then fast", 6.0, 188.0),
    ("leak for two days", HOURS, 540.0),  # as far as the history reaches
]
"""Which, for how many hours, and from how many MB."""


@pytest.mark.parametrize(("row", "hours", "least"), LEAKS)
def test_a_leak_is_told_with_its_beginning(reader, row, hours, least):
    past = lookback(reader, row)
    found = grown(past)
    assert found is not None
    assert (NOW - found.ts) / HOUR_S == pytest.approx(hours, rel=0.1)
    assert found.value / MB == pytest.approx(least, rel=0.2)
    assert found.before == (hours == HOURS)
    assert past.lookups < 80


@pytest.mark.parametrize(
    "row",
    [
        "level",
        "level of half an hour",
        "two levels",
        "level in the gap",
        "always",
        "since it began",
        "grew and stayed",
        "falls",
        "noise",
        "up and down",
        "lulls",
    ],
)
def test_what_has_not_grown_steadily_is_not_told_to_have(reader, row):
    past = lookback(reader, row)
    assert grown(past) is None
    assert past.lookups < 60


def test_only_what_is_held_grows_and_by_little_of_what_is_unusual_it_is_a_step(reader):
    assert grown(lookback(reader, "leak")) is not None
    assert grown(lookback(reader, "leak", feature="cpu_user_ratio")) is None
    assert grown(lookback(reader, "leak", mean=-1600.0 * MB)) is None
    assert grown(lookback(reader, "leak", mean=math.nan)) is not None, "nothing is known of its usual"
    assert grown(lookback(reader, "leak", mean=1500.0 * MB)) is not None, "the usual has followed it"


@pytest.mark.parametrize(
    ("row", "hours", "before"),
    [
        ("level", 6.0, False),
        ("two levels", 8.0, False),
        ("since it began", 5.0, False),
        ("level in the gap", 27.0, False),  # it was not seen before
        ("leak", 5.4, False),  # when it was a tenth above
        ("always", 48.0, True),
        ("lulls", 6.0, False),  # short ones are skipped
    ],
)
def test_since_when_it_has_been_so_is_found_however_long_ago(reader, row, hours, before):
    past = lookback(reader, row)
    ts, begun_before = began_before(past, NOW - HOUR_S)
    assert (NOW - ts) / HOUR_S == pytest.approx(hours, rel=0.02)
    assert begun_before == before
    assert past.lookups < 30


def test_what_is_known_of_the_moment_alone_is_looked_for_before_it(reader):
    """So it is where two ticks are further apart than each tick is looked at."""
    ts, begun_before = began_before(lookback(reader, "level of half an hour"), NOW)
    assert ts == pytest.approx(NOW - 0.5 * HOUR_S, abs=2.0 * TICK_S)
    assert not begun_before


def test_a_look_takes_the_first_value_that_is_high_enough_before_a_lull_is_over(reader):
    past = lookback(reader, "lulls")
    low = NOW - 2.0 * HOUR_S - 4.0 * TICK_S
    assert past.at(low) == (low, 200.0 * MB)
    assert past.at(low, 1000.0 * MB) == (low + 2.0 * TICK_S, 1900.0 * MB)
    assert past.at(low, 5000.0 * MB) is None
    assert past.lookups == 3


def test_a_lookup_in_a_gap_or_after_now_finds_nothing_new(reader):
    past = lookback(reader, "always")
    assert past.at(NOW - 29.0 * HOUR_S) is past.now
    assert past.at(NOW + 1.0) is past.now


def test_a_row_that_is_not_there_has_neither(reader):
    about = Subject("process", "gone[1@1]", "gone", FeatureScore("memory_rss_bytes", 9.0, 1.0, 1.0, 40.0))
    past = Lookback(reader, about, moment=NOW, stop=reader.bus.bounds(reader.partition)[1], tick_s=TICK_S)
    assert grown(past) is None
    assert began_before(past, NOW - HOUR_S) == (NOW - HOUR_S, False)


def test_of_a_host_without_frames_nothing_is_older(tmp_path):
    with EmbeddedBus(tmp_path / "empty.db") as bus:
        bus.create(Topics().specs())
        reader = Reader(bus, bus.partition_of(TOPIC, "web-1"), "web-1")
        about = Subject("process", "a", "a", FeatureScore("threads", 9.0, 1.0, 1.0, 40.0))
        past = Lookback(reader, about, moment=NOW, stop=0, tick_s=TICK_S)
        assert past.oldest == NOW
        assert grown(past) is None
