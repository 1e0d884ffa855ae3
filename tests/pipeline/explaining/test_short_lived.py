"""Who the short-lived processes were: found in frames, and told where they have a part in what is slow."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.explaining.short_lived import came_and_went, just_begun, listed, matter, seen_s, spawns
from laggard.pipeline.explaining.verdict import verdict_of

SPENDS = FeatureScore("cpu_children_ratio", 1.8, 0.02, 0.01, 40.0)
FAULTS = FeatureScore("page_faults_minor_per_s", 9e4, 100.0, 10.0, 45.0)
USES = FeatureScore("cpu_user_ratio", 0.97, 0.02, 0.01, 50.0)
FORKS = FeatureScore("forks_per_s", 300.0, 2.0, 1.0, 60.0)


def frames(*ticks: str, step_s: float = 5.0) -> list[Frame]:
    """A frame for each text, of the rows that it names."""
    found = []
    for number, text in enumerate(ticks):
        rows = text.split()
        layout = make_layout(rows, [row.partition("[")[0] for row in rows], ["threads"])
        found.append(Frame("host", "web-1", "process", number * step_s, number, layout, np.ones((len(rows), 1))))
    return found


@pytest.mark.parametrize(
    ("ticks", "expected"),
    [
        (("make[1@9]", "make[1@9] cc1[2@10]", "make[1@9] as[3@11] cc1[4@11]", "make[1@9]"), (("cc1", 2), ("as", 1))),
        (("a[1@9]", "a[1@9] b[2@9]", "a[1@9] b[2@9]", "a[1@9]"), (("b", 1),)),  # two ticks
        (("a[1@9]", "a[1@9] b[2@9]", "a[1@9] b[2@9]", "b[2@9] a[1@9]", "a[1@9]"), ()),  # three are too many
        (("a[1@9] b[2@9]", "a[1@9]"), ()),  # its beginning is unknown
        (("a[1@9]", "a[1@9] b[2@9]"), ()),  # its end is unknown
        (("a[1@9]", "a[1@9] b[2@9]", "b[2@10] a[1@9]", "a[1@9]"), (("b", 2),)),  # the pid is used again
        (("a[1@9]", "a[1@9] sh[2@9]", "a[1@9] cc1[2@9]", "a[1@9]"), (("cc1", 1),)),  # one process, by its last name
        (("a[1@9]", "sh[2@9]", "cc1[2@9]", "cc1[2@9]", "a[1@9]"), ()),  # that lived for three ticks
        (("a", "a b", "a"), (("b", 1),)),  # rows without a pid
        (("a[1@9]",), ()),
        ((), ()),
        # The most come first, and equal ones by name.
        (("a[1@9]", "a[1@9] x[2@9] b[3@9] c[4@9] c[5@9]", "a[1@9]"), (("c", 2), ("b", 1), ("x", 1))),
    ],
)
def test_who_came_and_went(ticks, expected):
    assert came_and_went(frames(*ticks)) == expected


def test_who_has_just_begun_is_new_since_the_tick_before_unless_that_is_long_ago():
    before, frame = frames("make[1@9] sh[2@10]", "make[1@9] cc1[2@10] as[3@11]")
    assert just_begun(before, frame) == (("as", 1),), "the shell has become the compiler"
    assert just_begun(before, replace(frame, ts=before.ts + 31.0)) == ()


@pytest.mark.parametrize(("tick_s", "expected"), [(1.0, 30.0), (5.0, 30.0), (60.0, 360.0)])
def test_it_is_looked_back_over_half_a_minute_and_some_ticks(tick_s, expected):
    assert seen_s(tick_s) == expected


def test_names_are_listed_and_what_is_left_is_counted():
    assert listed((("cc1", 12),)) == "`cc1` (12)"
    assert listed((("cc1", 12), ("as", 9))) == "`cc1` (12) and `as` (9)"
    counts = (("cc1", 12), ("as", 9), ("ld", 3), ("sh", 2))
    assert listed(counts) == "`cc1` (12), `as` (9), `ld` (3) and `sh` (2)"
    assert listed((*counts, ("x", 1))) == "`cc1` (12), `as` (9), `ld` (3), `sh` (2) and 1 other"
    assert listed((*counts, ("x", 1), ("y", 1))).endswith(" and 2 others")
    assert listed((("\x1b[31m", 2),)) == "`\\x1b[31m` (2)"


def row(*features, score=8.0):
    return RowScore("make[77@9]", "make", score, features, 3600.0)


def ranking(*rows):
    return Ranking(0.0, max((each.score for each in rows), default=0.0), rows, 3600.0, young=False)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ((SPENDS,), True),
        ((FAULTS, SPENDS), True),  # nearly as unusual as the worst
        ((USES, replace(SPENDS, score=3.0)), False),
        ((replace(SPENDS, score=1.0),), False),  # it is not reported
        ((replace(SPENDS, score=math.nan),), False),
        ((USES,), False),
        ((), False),
    ],
)
def test_who_spawns_is_told_by_the_time_of_its_children(features, expected):
    assert spawns(row(*features)) == expected


def test_they_matter_where_who_is_blamed_spawns_them_or_the_host_forks():
    host = ranking(RowScore("host", "host", 3.0, (FORKS,), 3600.0))
    calm = ranking(RowScore("host", "host", 0.1, (replace(FORKS, value=3.0, score=0.5),), 3600.0))
    for verdict in (verdict_of(ranking(row(SPENDS))), verdict_of(ranking(row(replace(SPENDS, score=3.0), score=0.4)))):
        assert matter(verdict, None)
        assert matter(verdict, calm)
    hog = verdict_of(ranking(row(USES)))
    assert not matter(hog, None)
    assert not matter(hog, ranking())
    assert not matter(hog, calm)
    assert matter(hog, host)
    assert matter(verdict_of(ranking()), host)
    both = ranking(row(USES), RowScore("make[78@9]", "make", 7.0, (SPENDS,), 3600.0))
    assert matter(verdict_of(both), None), "the second culprit"
