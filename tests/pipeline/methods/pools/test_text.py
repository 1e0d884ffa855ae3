"""Who of a pool deviates, in words: how, by what, since when; one member and many, whatever they are called."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from laggard.operators.covariance.results import Dendrogram, Deviation, Level, Report
from laggard.operators.ranking import FeatureScore, Kind
from laggard.pipeline.core.records.outputs import write_output
from laggard.pipeline.core.records.pools import MAX_LEAVES, MAX_LEVELS, MAX_RANKED
from laggard.pipeline.methods.pools.text import blamed, deviating, deviation_sentence, pool_sentence, whole_output
from tests.pipeline.methods.pools.records import NAN

TS = 1_700_000_000.0  # 22:13:20
CPU = FeatureScore("cpu_user_ratio", 0.96, 0.12, 0.03, 28.0)
MEMORY = FeatureScore("memory_rss_bytes", 1.9e9, 2.1e8, 1.2e7, 140.0)
ONE = Deviation(("w-7",), "worker-7", "leak", 3.0, (MEMORY,), TS - 360.0, NAN, 48, 4.0, NAN, "", 3600.0)


def said(**changes: object) -> str:
    return deviation_sentence(replace(ONE, **changes), TS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {},
            "`worker-7` leaks: it holds 1.9 GB of memory, in the pool usually 210 ± 12 MB, since 22:07:20 UTC (6 min).",
        ),
        (
            {"kind": "spike", "features": (CPU,), "end_ts": TS - 270.0},
            (
                "`worker-7` had a CPU spike at 22:07:20 UTC for 90 s: cpu_user_ratio came to 96 %, in the pool "
                "usually 12 ± 3 %."
            ),
        ),
        (
            {"kind": "spike", "features": (CPU,), "begin_ts": TS - 20.0},
            (
                "`worker-7` has a CPU spike since 22:13:00 UTC (20 s): cpu_user_ratio came to 96 %, in the pool "
                "usually 12 ± 3 %."
            ),
        ),
        (
            {"kind": "stuck", "features": (replace(CPU, value=0.0),)},
            (
                "`worker-7` is stuck: it does nothing while others work; it uses 0 % of one core in user mode, in the "
                "pool usually 12 ± 3 %, since 22:07:20 UTC (6 min)."
            ),
        ),
        (
            {"kind": "slower", "features": (FeatureScore("requests_per_s", 2.0, 40.0, 4.0, 9.0),)},
            (
                "`worker-7` is slower than the others: its requests_per_s is 2/s, in the pool usually 40 ± 4/s, since "
                "22:07:20 UTC (6 min)."
            ),
        ),
        (
            {"kind": "busy", "features": (CPU, replace(MEMORY, score=20.0)), "begin_ts": NAN},
            (
                "`worker-7` is busier than the others: it uses 96 % of one core in user mode, in the pool usually 12 ± "
                "3 %; and it holds 1.9 GB of memory, in the pool usually 210 ± 12 MB."
            ),
        ),
        (
            {"kind": "left", "begin_ts": TS - 90000.0},
            "`worker-7` has left the pool without a replacement since 2023-11-13 21:13:20 UTC (25 h).",
        ),
        ({"kind": "younger", "begin_ts": NAN}, "`worker-7` began later than the others, and differs by that alone."),
        ({"kind": "different", "features": (), "begin_ts": NAN}, "`worker-7` behaves unlike the others."),
        (
            {"rows": tuple("abcdefghij"), "name": "wave 3"},
            (
                "All 10 members of `wave 3` leak: memory_rss_bytes is 1.9 GB, in the pool usually 210 ± 12 MB, since "
                "22:07:20 UTC (6 min)."
            ),
        ),
        (
            {"features": (replace(MEMORY, mean=NAN, standard_deviation=NAN),), "name": "a\x1b[2J"},
            "`a\\x1b[2J` leaks: it holds 1.9 GB of memory, since 22:07:20 UTC (6 min).",
        ),
    ],
)
def test_how_one_deviates(changes: dict[str, object], expected: str) -> None:
    assert said(**changes) == expected


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("rows", [("a",), ("a", "b")])
def test_every_kind_is_a_sentence_of_one_and_of_many(kind: str, rows: tuple[str, ...]) -> None:
    told = said(kind=kind, rows=rows)
    assert told.endswith(".")
    assert "{" not in told
    assert ("All 2 members of" in told) == (len(rows) > 1)


def test_of_many_the_worst_are_told_and_the_others_counted() -> None:
    others = [replace(ONE, name=f"worker-{number}", kind="left", begin_ts=NAN) for number in range(5)]
    told = pool_sentence(others, TS, young=True)
    assert told.count("has left the pool") == 3
    assert told.endswith(" So do 2 more. The comparison is young.")
    assert pool_sentence(others[:4], TS, young=False).endswith(" So does 1 more.")
    assert pool_sentence([], TS, young=False) == "No member behaves unlike the others."


def test_the_worst_one_is_blamed_by_what_sets_it_apart_and_what_the_budget_allows_does_not_deviate() -> None:
    blame = blamed([ONE, replace(ONE, rows=("other",))])
    assert blame is not None
    assert (blame.row, blame.name, blame.feature, blame.value) == ("w-7", "worker-7", MEMORY.feature, MEMORY.value)
    assert (blame.usual, blame.usual_deviation, blame.resources) == (2.1e8, 1.2e7, ("disk", "memory"))
    without = blamed([replace(ONE, features=())])
    assert without is not None
    assert (without.name, without.feature) == ("worker-7", "")
    assert blamed([]) is None
    assert deviating([ONE, replace(ONE, score=1.0), replace(ONE, score=1.1)]) == (ONE, replace(ONE, score=1.1))


def test_a_whole_is_bounded_and_its_leaves_say_who_deviates() -> None:
    labels = tuple(f"w-{number}[1]" for number in range(100))
    merges = np.array([[0.0, 1.0, 1.0, 2.0]] + [[99.0 + at, at + 1.0, at + 1.0, at + 2.0] for at in range(1, 99)])
    dendrogram = Dendrogram(labels, merges, np.full(99, 90.0))
    deviations = tuple(replace(ONE, rows=(label,), name=f"name of {label}") for label in labels[-3:])
    younger = replace(ONE, rows=(labels[0],), kind="younger", score=0.9)
    levels = tuple(Level(f"host-{at}", dendrogram, (*deviations, younger)) for at in range(MAX_LEVELS + 5))
    alone = Level("alone", None, ())
    report = Report(TS, 100, (alone, *levels), (*[ONE] * (MAX_RANKED + 5), younger), 60.0, young=True)
    output = whole_output(report, operator="covariance", pool="p", live=False)
    assert (len(output.ranking), len(output.levels), output.members) == (MAX_RANKED, MAX_LEVELS - 1, 100)
    assert {each.kind for each in output.ranking} == {"leak"}
    leaves = output.levels[0].leaves
    assert len(leaves) <= MAX_LEAVES
    assert [leaf.label for leaf in leaves if leaf.kind == "leak"] == [*labels[-3:]]
    assert write_output(output)


@pytest.mark.parametrize(
    ("row", "name", "who"),
    [
        ("gunicorn[4711@9]/gunicorn[4713@99]", "gunicorn", "`gunicorn` (pid 4713) leaks"),
        ("java[812@9]/exec-3[815@99]", "java/exec-3", "`java/exec-3` (thread 815) leaks"),
        ("web-1/worker-12", "worker-12", "`worker-12` leaks"),
    ],
)
def test_one_is_told_from_others_of_its_name(row: str, name: str, who: str) -> None:
    assert said(rows=(row,), name=name).startswith(f"{who}: ")
