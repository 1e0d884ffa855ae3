import itertools
import math

import pytest

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.explain import clause, comparison, pid_of, printable, sentence, shortened, subject
from laggard.pipeline.phrases import DEVICES, PHRASES, PROCESS
from laggard.producers.clock import Clock
from laggard.producers.host import HostCounters
from laggard.producers.processes import FEATURES

WRITES = FeatureScore("io_write_bytes_per_s", 212e6, 0.1e6, 0.3e6, 40.0)
READS = FeatureScore("io_read_bytes_per_s", 20e6, 0.1e6, 0.3e6, 39.0)
USES = FeatureScore("cpu_user_ratio", 0.97, 0.02, 0.01, 30.0)
NOTABLE = FeatureScore("io_write_bytes_per_s", 2e6, 0.1e6, 0.6e6, 5.0)
NAMED = "hog[4711@99]"


def row(row_id=NAMED, score=8.0, features=(WRITES,), name=None):
    return RowScore(row_id, name or row_id.partition("[")[0], score, tuple(features), 3600.0)


def ranking(*rows, young=False):
    return Ranking(1_700_000_000.0, max((each.score for each in rows), default=0.0), rows, 3600.0, young)


def test_the_worst_row_is_named_with_its_value_its_usual_and_how_far_it_is_from_that():
    assert sentence(ranking(row()), {NAMED: "python3 hog.py"}) == (
        "`hog` (pid 4711, `python3 hog.py`) is most unlike itself: it writes 212 MB/s to disk, "
        "2,100 times the usual 100 ± 300 kB/s."
    )


def test_what_is_over_but_still_counts_is_told_as_that():
    over = FeatureScore("io_write_bytes_per_s", 0.0, 0.1e6, 0.3e6, 40.0, recent=30e6)
    assert (
        "over the last seconds it writes 30 MB/s to disk, 300 times the usual 100 ± 300 kB/s, and now 0 B/s"
        in sentence(ranking(row(features=(over,))), {})
    )


def test_any_numbers_are_told():
    extremes = (math.nan, math.inf, -math.inf, 0.0, 1.0, -1.0, 5e-324, 1e308, -1e308)
    for value, mean, deviation in itertools.product(extremes, repeat=3):
        features = (FeatureScore("io_write_bytes_per_s", value, mean, deviation, 40.0),)
        assert sentence(ranking(row(features=features)), {}).endswith(".")


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


def test_without_rows_it_says_that_nothing_can_be_judged():
    assert "Nothing can be judged yet" in sentence(ranking(), {})


def test_when_nothing_is_unusual_it_says_so_and_shows_the_nearest():
    told = sentence(ranking(row(score=0.4, features=(NOTABLE,))), {})
    assert told.startswith(
        "Nothing is unusual enough for an alert. Most unlike itself is `hog` (pid 4711): it writes 2 MB/s"
    )


@pytest.mark.parametrize(("young", "told"), [(False, "Nothing is unusual."), (True, "Nothing is unusual so far.")])
def test_what_is_within_chance_is_not_told(young, told):
    faint = FeatureScore("cpu_user_ratio", 0.021, 0.02, 0.01, 0.1)
    assert sentence(ranking(row(score=0.04, features=(faint,)), young=young), {}) == told
    assert sentence(ranking(row(score=0.04, features=()), young=young), {}) == told


def test_what_stands_out_is_told_however_strict_the_budget_is():
    for young in (False, True):
        told = sentence(ranking(row(score=0.001), young=young), {})
        assert told.startswith("`hog` (pid 4711) is most unlike itself: it writes 212 MB/s")
        assert told.endswith("It is not enough for an alert.")


def test_a_young_model_does_not_say_that_nothing_is_unusual():
    told = sentence(ranking(row(score=0.4, features=(NOTABLE,)), young=True), {})
    assert told.startswith("Nothing is certain yet. Most unlike itself is `hog` (pid 4711): it writes 2 MB/s")


def test_a_second_feature_is_told_when_it_is_about_another_resource():
    told = sentence(ranking(row(features=(WRITES, READS, USES))), {})
    assert "reads" not in told
    assert "and it uses 97 % of one core in user mode, 48 times the usual 2 ± 1 %" in told


def test_a_second_feature_that_says_far_less_is_left_out():
    weak = FeatureScore("cpu_user_ratio", 0.03, 0.02, 0.01, 1.0)
    assert "core" not in sentence(ranking(row(features=(WRITES, weak))), {})


@pytest.mark.parametrize(("score", "told"), [(7.0, True), (2.0, False)])
def test_a_second_row_is_told_when_it_is_nearly_as_unusual(score, told):
    text = sentence(ranking(row(), row("scan[12@5]", score, (READS,))), {})
    assert ("Then comes `scan` (pid 12): it reads 20 MB/s from disk" in text) == told


def test_a_row_without_features_is_still_named():
    assert "`hog`" in sentence(ranking(row(features=())), {})


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
        (55.0, 50.0, 0.0, "usually 50"),
        (125.0, 50.0, 1.0, "2.5 times the usual 50 ± 1"),
        (12_345.0, 1.0, 1.0, "12,000 times the usual 1 ± 1"),
        (1e12, 1.0, 1.0, "more than a million times the usual 1 ± 1"),
        (math.inf, 1.0, 1.0, "more than a million times the usual 1 ± 1"),
    ],
)
def test_how_far_a_value_is_from_its_usual(value, mean, deviation, expected):
    assert comparison(FeatureScore("threads", value, mean, deviation, 1.0)) == expected


def test_a_feature_nobody_knows_is_told_by_its_name_and_unit():
    assert clause("cache_misses_per_s", 1200.0) == "its cache_misses_per_s is 1,200/s"


def test_a_rate_is_told_as_times_a_second():
    assert clause("timeslices_per_s", 1234.5) == "it is scheduled 1,234 times a second"


@pytest.mark.parametrize(("scope", "feature"), [(scope, name) for scope, known in PHRASES.items() for name in known])
def test_every_phrase_has_one_place_for_the_value(scope, feature):
    told = clause(feature, 3.0, scope)
    assert "3" in told
    assert PHRASES[scope][feature].count("{}") == 1
    assert told.count("/s") + told.count(" a second") == feature.endswith("_per_s")


@pytest.mark.parametrize(("kind", "end"), [(kind, end) for kind, known in DEVICES.items() for end in known])
def test_a_device_is_named(kind, end):
    told = clause(f"{kind}_x_y_{end}", 3.0, "host")
    assert " x_y " in told
    assert "3" in told
    assert told.count("/s") + told.count(" a second") == end.endswith("_per_s")


def test_a_device_may_have_any_name():
    assert clause("disk_{}{device}_busy_ratio", 0.5, "host") == "disk {device} is busy 50 % of the time"
    assert clause("disk_busy_ratio", 0.5, "host") == "its disk_busy_ratio is 50 %"


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


def test_a_name_is_data():
    evil = row("\x1b[31m[bold]x\n\u202e[7@1]", name="\x1b[31m[bold]x\n\u202e")
    told = sentence(ranking(evil), {evil.row: "rm\x00 -rf\t\udc80"})
    assert told.isprintable()
    assert "`\\x1b[31m[bold]x\\n\\u202e` (pid 7, `rm\\x00 -rf\\t\\udc80`)" in told


def test_text_is_shortened_to_a_width():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abc..."
    assert printable("plain text") == "plain text"


def test_a_command_that_says_no_more_than_the_name_is_left_out():
    assert subject(row(), {NAMED: "hog"}) == "`hog` (pid 4711)"


def test_a_host_is_not_told_by_the_name_of_its_row():
    told = sentence(
        ranking(row("host", name="host", features=(FeatureScore("load_1m", 9.0, 1.0, 0.1, 5.0),))), {}, "host"
    )
    assert told == "The host is most unlike itself: its load over the last minute is 9, 9 times the usual 1 ± 0.1."
