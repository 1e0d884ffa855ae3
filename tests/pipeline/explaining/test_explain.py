import math

import pytest

from laggard.operators.ranking import FeatureScore, RowScore
from laggard.pipeline.explaining.explain import clause, comparison, pid_of, printable, shortened, subject
from laggard.pipeline.explaining.phrases import DEVICES, PHRASES, PROCESS
from laggard.producers.host.host import HostCounters
from laggard.producers.host.processes import FEATURES
from laggard.producers.system.clock import Clock

WRITES = FeatureScore("io_write_bytes_per_s", 212e6, 0.1e6, 0.3e6, 40.0)
NAMED = "hog[4711@99]"


def row():
    return RowScore(NAMED, "hog", 8.0, (WRITES,), 3600.0)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (math.nan, "usually 100 ± 300 kB/s"),
        (math.inf, "more than a million times the usual 100 ± 300 kB/s"),
        (-math.inf, "more than a million standard deviations below the usual 100 ± 300 kB/s"),
    ],
)
def test_a_value_that_is_no_number_is_compared_as_far_as_that_goes(value, told):
    assert comparison(FeatureScore("io_write_bytes_per_s", value, 0.1e6, 0.3e6, 40.0)) == told


@pytest.mark.parametrize(
    ("value", "mean", "deviation", "expected"),
    [
        (5.0, math.nan, math.nan, "which it never had before"),
        (5.0, 5.0, 1.0, "as usual (5 ± 1)"),
        (5.0, 0.0, 0.0, "usually 0"),
        (5.0, 0.0, 1.0, "5 standard deviations above the usual 0 ± 1"),
        (-5.0, 5.0, 2.0, "5 standard deviations below the usual 5 ± 2"),
        (0.0, 50.0, 1.0, "0 % of the usual 50 ± 1"),
        (5.0, 50.0, 1.0, "10 % of the usual 50 ± 1"),
        (52.0, 50.0, 1.0, "2 standard deviations above the usual 50 ± 1"),
        (51.0, 50.0, 1.0, "1 standard deviation above the usual 50 ± 1"),
        (55.0, 50.0, 0.0, "usually 50"),
        (125.0, 50.0, 1.0, "2.5 times the usual 50 ± 1"),
        (12_345.0, 1.0, 1.0, "12,000 times the usual 1 ± 1"),
        (1e12, 1.0, 1.0, "more than a million times the usual 1 ± 1"),
        (math.inf, 1.0, 1.0, "more than a million times the usual 1 ± 1"),
    ],
)
def test_how_far_a_value_is_from_its_usual(value, mean, deviation, expected):
    assert comparison(FeatureScore("threads", value, mean, deviation, 1.0)) == expected


def test_every_phrase_has_one_place_for_the_value():
    for scope, known in PHRASES.items():
        for feature, phrase in known.items():
            told = clause(feature, 3.0, scope)
            assert "3" in told, (scope, feature)
            assert phrase.count("{}") == 1, (scope, feature)
            assert told.count("/s") + told.count(" a second") == feature.endswith("_per_s"), (scope, feature)


@pytest.mark.parametrize(("kind", "end"), [(kind, end) for kind, known in DEVICES.items() for end in known])
def test_a_device_is_named(kind, end):
    told = clause(f"{kind}_x_y_{end}", 3.0, "host")
    assert " x_y " in told
    assert "3" in told
    assert told.count("/s") + told.count(" a second") == end.endswith("_per_s")


@pytest.mark.parametrize(
    ("feature", "value", "scope", "told"),
    [
        ("cache_misses_per_s", 1200.0, "process", "its cache_misses_per_s is 1,200/s"),
        ("timeslices_per_s", 1234.5, "process", "it is scheduled 1,234 times a second"),
        ("disk_{}{device}_busy_ratio", 0.5, "host", "disk {device} is busy 50 % of the time"),
        ("disk_busy_ratio", 0.5, "host", "its disk_busy_ratio is 50 %"),
    ],
    ids=["a feature that nobody knows", "a rate as times a second", "a device of any name", "a device without one"],
)
def test_a_value_is_told_in_words(feature, value, scope, told):
    assert clause(feature, value, scope) == told


def test_every_counter_of_the_agent_has_its_phrase():
    assert set(FEATURES) == set(PROCESS)
    layout, _ = HostCounters(Clock()).read()
    assert [name for name in layout.features if clause(name, 1.0, "host").startswith(f"its {name}")] == []


@pytest.mark.parametrize(
    ("row_id", "pid"),
    [("nginx[4711@99]", 4711), ("nginx[4711]", 4711), ("kworker/0:1[7@3]", 7), ("nginx", None), ("a[b]", None)],
)
def test_the_process_id_is_read_from_the_row(row_id, pid):
    assert pid_of(row_id) == pid


def test_text_is_shortened_to_a_width():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abc..."
    assert printable("plain text") == "plain text"


def test_a_command_that_says_no_more_than_the_name_is_left_out():
    assert subject(row(), {NAMED: "hog"}) == "`hog` (pid 4711)"
