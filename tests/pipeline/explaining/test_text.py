"""The text about a ranking: culprits, those who wait for them, rows without a past, the host."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.explaining.text import host_lines, lasting_sentence, sentence, verdict_sentence
from laggard.pipeline.explaining.verdict import verdict_of

WRITES = FeatureScore("io_write_bytes_per_s", 212e6, 0.1e6, 0.3e6, 40.0)
READS = FeatureScore("io_read_bytes_per_s", 20e6, 0.1e6, 0.3e6, 39.0)
USES = FeatureScore("cpu_user_ratio", 0.97, 0.02, 0.01, 30.0)
NOTABLE = FeatureScore("io_write_bytes_per_s", 2e6, 0.1e6, 0.6e6, 5.0)
DELAYED = FeatureScore("io_delay_ratio", 0.62, 0.02, 0.01, 4.0)
CROWDED = FeatureScore("cpu_wait_ratio", 0.43, 0.02, 0.01, 3.0)
STOLEN = FeatureScore("cpu_steal_ratio", 0.38, 0.0, 0.001, 60.0)
PRESSED = FeatureScore("pressure_io_some_ratio", 0.62, 0.02, 0.03, 50.0)
NAMED = "hog[4711@99]"


def row(row_id=NAMED, score=8.0, features=(WRITES,), name=None, **more):
    return RowScore(row_id, name or row_id.partition("[")[0], score, tuple(features), more.pop("age_s", 3600.0), **more)


def waiting(row_id, score=0.2, feature=DELAYED):
    return row(row_id, score, (feature,), waits=True)


def ranking(*rows, young=False):
    return Ranking(1_700_000_000.0, max((each.score for each in rows), default=0.0), rows, 3600.0, young)


def about_host(*features, score=3.0):
    return ranking(row("host", score, features))


HOG = "`hog` (pid 4711) is behaving unusually: it writes 212 MB/s to disk, 2,100 times the usual 100 ± 300 kB/s"
NEAREST = "The most unusual is `hog` (pid 4711): it writes 2 MB/s to disk, 20 times the usual 100 ± 600 kB/s."
SCAN = " So is `scan` (pid 12): it reads 20 MB/s from disk, 200 times the usual 100 ± 300 kB/s."
WAITS = "waits for the disk 62 % of the time, usually 2 ± 1 %"
LOAD = FeatureScore("load_1m", 9.0, 1.0, 0.1, 5.0)
FAINT = FeatureScore("cpu_user_ratio", 0.021, 0.02, 0.01, 0.1)
SENTENCES = {
    "the worst row with its value, its usual and how far that is": (row(), f"{HOG}."),
    "what is over but still counts": (
        row(features=(FeatureScore("io_write_bytes_per_s", 0.0, 0.1e6, 0.3e6, 40.0, recent=30e6),)),
        (
            "`hog` (pid 4711) is behaving unusually: over the last seconds it writes 30 MB/s to disk, "
            "300 times the usual 100 ± 300 kB/s, and now 0 B/s."
        ),
    ),
    "what is as usual again": (
        row(features=(FeatureScore("cpu_wait_ratio", 0.0, 0.0, 0.0, 40.0, recent=0.12),)),
        (
            "`hog` (pid 4711) is behaving unusually: over the last seconds it waits for a free core 12 % of the time, "
            "usually 0 %, and now as usual again."
        ),
    ),
    "no row": ((), "Still learning: no row has been seen for long enough."),
    "nothing unusual, with the nearest": (
        row(score=0.4, features=(NOTABLE,)),
        f"Nothing reaches the alert level. {NEAREST}",
    ),
    "what is within chance": (row(score=0.04, features=(FAINT,)), "Nothing is unusual."),
    "no feature": (row(score=0.04, features=()), "Nothing is unusual."),
    "who stands out, however strict the budget is": (row(score=0.001), f"{HOG}. Below the alert level."),
    "a second feature about another resource": (
        row(features=(WRITES, READS, USES)),
        f"{HOG}; and it uses 97 % of one core in user mode, 48 times the usual 2 ± 1 %.",
    ),
    "no second feature that says far less": (
        row(features=(WRITES, FeatureScore("cpu_user_ratio", 0.03, 0.02, 0.01, 1.0))),
        f"{HOG}.",
    ),
    "a row without features": (
        row(features=()),
        "`hog` (pid 4711) is behaving unusually: all of it together, no feature alone.",
    ),
    # Culprits and victims.
    "a second row that is nearly as unusual": ((row(), row("scan[12@5]", 7.0, (READS,))), f"{HOG}.{SCAN}"),
    "no second row that is far less unusual": ((row(), row("scan[12@5]", 2.0, (READS,))), f"{HOG}."),
    "two culprits below the budget": (
        (row(score=0.3), row("scan[12@5]", 0.2, (READS,))),
        f"{HOG}.{SCAN} Below the alert level.",
    ),
    "culprits of one name together": (
        [
            row(f"burn[{pid}@5]", 8.0, (replace(USES, value=value),))
            for pid, value in enumerate((0.97, 0.95, 0.96, 0.94), 11)
        ],
        (
            "`burn` (pid 11) is behaving unusually: it uses 97 % of one core in user mode, 48 times the usual 2 ± 1 %. "
            "So are 3 more `burn` (pids 12, 13, 14), with 94 % to 96 %."
        ),
    ),
    "who waits for the culprit, behind it even if it is more unusual": (
        (waiting("nginx[7@5]", 9.0), row(), waiting("cron[8@5]")),
        f"{HOG}. Slowed down by it: `nginx` (pid 7, {WAITS}) and `cron` (pid 8, {WAITS}).",
    ),
    "who waits for something else": (
        (row(), waiting("nginx[7@5]", feature=CROWDED)),
        (
            f"{HOG}. Also waiting, for something else: "
            "`nginx` (pid 7, waits for a free core 43 % of the time, usually 2 ± 1 %)."
        ),
    ),
    "not who waits a little for something else": (
        (row(), waiting("nginx[7@5]", feature=replace(CROWDED, score=0.3))),
        f"{HOG}.",
    ),
    "nobody to blame where all wait": (
        (waiting("nginx[7@5]", 9.0), row("cat[3@1]", 0.3, (NOTABLE,))),
        (
            "No process takes far more than usual. The most unusual consumer is `cat` (pid 3): "
            "it writes 2 MB/s to disk, 20 times the usual 100 ± 600 kB/s. "
            f"Waiting longer than usual: `nginx` (pid 7, {WAITS})."
        ),
    ),
    "no faint waiting": (waiting("nginx[7@5]", 0.1, replace(DELAYED, score=0.1)), "Nothing is unusual."),
}


@pytest.mark.parametrize("what", SENTENCES)
def test_of_a_ranking_is_told(what):
    rows, told = SENTENCES[what]
    assert sentence(ranking(*([rows] if isinstance(rows, RowScore) else rows)), {}) == told


@pytest.mark.parametrize(
    ("score", "feature", "told"),
    [
        (0.4, NOTABLE, f"Nothing is certain yet. {NEAREST}"),
        (0.04, FAINT, "Nothing is unusual so far."),
        (0.001, WRITES, f"{HOG}. Below the alert level."),
    ],
    ids=["what is nearest", "what is within chance", "who stands out"],
)
def test_a_young_model_does_not_say_that_nothing_is_unusual(score, feature, told):
    assert sentence(ranking(row(score=score, features=(feature,)), young=True), {}) == told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ranking(row("host", name="host", features=(LOAD,))),
            "The host is behaving unusually: its load over the last minute is 9, 9 times the usual 1 ± 0.1.",
        ),
        (
            about_host(LOAD, score=0.2),
            (
                "The host is behaving unusually: its load over the last minute is 9, 9 times the usual 1 ± 0.1. "
                "Below the alert level."
            ),
        ),
        (about_host(STOLEN), "On the host the hypervisor takes 38 % of its CPUs away, usually 0 ± 0.1 %."),
        (about_host(score=0.2), "Nothing is unusual."),
        (ranking(), "Still learning: no row has been seen for long enough."),
    ],
    ids=["as the host", "below the budget", "by its cause", "as usual", "as unknown"],
)
def test_a_host_alone_is_told(given, told):
    assert sentence(given, {}, "host") == told


def test_a_command_is_told_beside_the_process_id():
    assert sentence(ranking(row()), {NAMED: "python3 hog.py"}).startswith(
        "`hog` (pid 4711, `python3 hog.py`) is behaving unusually: it writes 212 MB/s"
    )


def test_laggards_own_are_told_as_that_and_after_the_others():
    own = row("laggard-agent[7@5]", 9.0, (USES,))
    assert sentence(ranking(own, row(score=4.0)), {}) == (
        "`hog` (pid 4711) is behaving unusually: it writes 212 MB/s to disk, 2,100 times the usual 100 ± 300 kB/s. "
        "So is `laggard-agent` (laggard itself, pid 7): it uses 97 % of one core in user mode, "
        "48 times the usual 2 ± 1 %."
    )
    assert sentence(ranking(own), {}).startswith(
        "`laggard-agent` (laggard itself, pid 7) is behaving unusually: it uses 97 % of one core"
    )
    found = verdict_of(ranking(own, waiting("web[8@5]")), about_host(STOLEN))
    assert verdict_sentence(found, ranking(own), {}).startswith(
        "No process but laggard's own takes far more than usual. "
        "`laggard-agent` (laggard itself, pid 7) is behaving unusually: it uses 97 % of one core"
    )


def test_any_numbers_are_told():
    extremes = (math.nan, math.inf, -math.inf, 0.0, 1.0, -1.0, 5e-324, 1e308, -1e308)
    for value, mean, deviation in itertools.product(extremes, repeat=3):
        features = (FeatureScore("io_write_bytes_per_s", value, mean, deviation, 40.0),)
        assert sentence(ranking(row(features=features)), {}).endswith(".")


def test_a_name_is_data():
    evil = row("\x1b[31m[bold]x\n\u202e[7@1]", name="\x1b[31m[bold]x\n\u202e")
    told = sentence(ranking(evil), {evil.row: "rm\x00 -rf\t\udc80"})
    assert told.isprintable()
    assert "`\\x1b[31m[bold]x\\n\\u202e` (pid 7, `rm\\x00 -rf\\t\\udc80`)" in told


# Rows without a past of their own.


@pytest.mark.parametrize(
    ("basis", "age_s", "told"),
    [
        ("name", 3.0, "`hog` (pid 4711) has just started; compared with how other `hog` looked before, it writes"),
        ("name", 45.0, "`hog` (pid 4711) has run for 45 s; compared with how other `hog` looked before, it writes"),
        (
            "starts",
            3.0,
            "`hog` (pid 4711) has just started and was never seen before; compared with how other processes begin, it",
        ),
        (
            "all",
            45.0,
            "`hog` (pid 4711) has run for 45 s and was never seen before; compared with all other processes, it",
        ),
    ],
)
@pytest.mark.parametrize("score", [8.0, 0.5])
def test_a_row_without_a_past_is_told_with_what_it_is_compared_with(basis, age_s, told, score):
    for feature in (WRITES, NOTABLE):
        text = sentence(ranking(row(score=score, features=(feature,), basis=basis, age_s=age_s)), {})
        assert told in text
        assert "behaving unusually" not in text


def test_many_culprits_are_counted():
    alike = [row(f"burn[{pid}@5]", 8.0, (USES,)) for pid in range(100, 130)]
    assert "So are 29 more `burn` (pids 101, 102, 103, 104, 105, 106, 107, 108, ...), with 97 %." in sentence(
        ranking(*alike), {}
    )
    different = [row(f"burn{pid}[{pid}@5]", 8.0, (USES,)) for pid in range(30)]
    assert sentence(ranking(*different), {}).endswith("So are 26 more processes.")


def test_victims_of_one_name_are_told_together_and_many_are_counted():
    rows = [waiting(f"web[{pid}@5]") for pid in range(3)] + [waiting(f"other-{n}[{n + 9}@5]") for n in range(9)]
    text = sentence(ranking(row(), *rows), {})
    assert "3 `web` (one waits for the disk 62 % of the time, usually 2 ± 1 %), `other-0` (pid 9, " in text
    assert text.endswith(" and 6 more.")


def test_it_is_said_since_when():
    given = ranking(row(), waiting("nginx[7@5]"))
    text = verdict_sentence(verdict_of(given), given, {}, since=", since 12:00:00 (42 s)")
    assert "the usual 100 ± 300 kB/s, since 12:00:00 (42 s). Slowed down" in text


# The host.


def test_where_no_process_stands_out_it_is_the_host():
    verdict = verdict_of(ranking(waiting("nginx[7@5]", 0.5, CROWDED)), about_host(STOLEN))
    (told,) = host_lines(verdict, ", since 12:00:00 (42 s)")
    assert told == (
        "It is the host, no single process: the hypervisor takes 38 % of its CPUs away, usually 0 ± 0.1 %, "
        "since 12:00:00 (42 s)."
    )
    assert verdict_sentence(verdict, ranking(waiting("nginx[7@5]", 0.5, CROWDED)), {}).startswith(
        "No process takes far more than usual. Waiting longer than usual: `nginx` (pid 7, waits for a free core 43 %"
    )


def test_beside_a_culprit_the_host_adds_what_it_feels_and_what_no_process_can_do():
    assert host_lines(verdict_of(ranking(row()), about_host(PRESSED))) == [
        "The machine feels it: some task waits for I/O 62 % of the time, usually 2 ± 3 %."
    ]
    assert host_lines(verdict_of(ranking(row()), about_host(STOLEN))) == [
        "Beside that, on the host: the hypervisor takes 38 % of its CPUs away, usually 0 ± 0.1 %."
    ]
    crowded = FeatureScore("pressure_cpu_some_ratio", 0.9, 0.1, 0.05, 60.0)
    assert host_lines(verdict_of(ranking(row()), about_host(crowded))) == [
        "Beside that, on the host: some task waits for a CPU 90 % of the time, usually 10 ± 5 %."
    ], "who writes does not explain it"
    assert host_lines(verdict_of(ranking(row(features=(USES,))), about_host(crowded))) == [
        "The machine feels it: some task waits for a CPU 90 % of the time, usually 10 ± 5 %."
    ]
    assert host_lines(verdict_of(ranking(row()), about_host())) == []
    assert host_lines(verdict_of(ranking(row()))) == []


@pytest.mark.parametrize(("age_s", "told"), [(40.0, ["The machine booted 40 s before."]), (599.0, None), (601.0, [])])
def test_a_boot_is_told_for_ten_minutes(age_s, told):
    booted = FeatureScore("boot_timestamp_seconds", 1_700_000_000.0 - age_s, math.nan, math.nan, 0.0)
    lines = host_lines(verdict_of(ranking(row(score=0.1, features=())), about_host(booted)))
    assert lines == (["The machine booted 10 min before."] if told is None else told)


LASTING = {
    "of a resource": (
        row(),
        1,
        "`hog` (pid 4711) writes 212 MB/s to disk. It has done so for 12 min; its baseline is 100 kB/s.",
    ),
    "of cores": (
        row(features=(USES,)),
        1,
        "`hog` (pid 4711) uses 0.97 cores in user mode. It has done so for 12 min; its baseline is 0.02 cores.",
    ),
    "of one core": (
        row(features=(replace(USES, feature="cpu_system_ratio", value=12.4, mean=1.0),)),
        1,
        "`hog` (pid 4711) uses 12 cores inside the kernel. It has done so for 12 min; its baseline is 1 core.",
    ),
    "of several processes": (
        row(),
        12,
        "`hog` (12 processes together) writes 212 MB/s to disk. It has done so for 12 min; its baseline is 100 kB/s.",
    ),
    "after a gap": (row(features=()), 1, "`hog` (pid 4711) deviates from its baseline, for 12 min so far."),
}


@pytest.mark.parametrize(("given", "rows", "told"), LASTING.values(), ids=LASTING)
def test_what_lasts_is_told_with_its_baseline(given, rows, told):
    assert lasting_sentence(ranking(given), {}, "process", 720.0, rows=rows) == told


def test_who_waits_for_what_lasts_is_told():
    found = ranking(row(), waiting("nginx[7@5]"), waiting("nginx[8@5]"))
    said = lasting_sentence(found, {}, "process", 720.0)
    assert said.endswith(
        "; its baseline is 100 kB/s. "
        "These wait longer than usual: 2 `nginx` (one waits for the disk 62 % of the time, usually 2 ± 1 %)."
    )
