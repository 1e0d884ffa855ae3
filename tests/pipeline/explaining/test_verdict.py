"""Culprits, and processes that only wait, told apart by what they take."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.explaining.counters import CATALOGUE
from laggard.pipeline.explaining.verdict import SPREAD, WAITS, above, narrowed, only_waits, resources_of, verdict_of

WAITED = FeatureScore("cpu_wait_ratio", 0.5, 0.02, 0.01, 12.0)
USED = FeatureScore("cpu_user_ratio", 0.5, 0.02, 0.01, 20.0)
SCHEDULED = FeatureScore("timeslices_per_s", 500.0, 20.0, 10.0, 20.0)


def row(name="hog", score=8.0, features=(USED,), waits=False):
    return RowScore(f"{name}[7@5]", name, score, tuple(features), 60.0, waits=waits)


def ranking(*rows):
    return Ranking(1.7e9, max((each.score for each in rows), default=math.nan), rows, 3600.0, young=False)


def test_who_hogs_what_others_use_too_is_no_victim_although_it_waits_most():
    hog = row(features=(USED, WAITED), waits=True)
    assert not only_waits(hog)
    verdict = verdict_of(ranking(hog, row("web", 7.0, (WAITED, SCHEDULED), waits=True)))
    assert [each.name for each in verdict.culprits] == ["hog"]
    assert [each.row.name for each in verdict.victims] == ["web"]
    assert verdict.resources == verdict.victims[0].resources == {"cpu"}


def test_a_second_culprit_is_nearly_as_unusual_as_the_first():
    verdict = verdict_of(ranking(row(score=8.0), row("b", 4.1), row("c", 3.9)))
    assert [each.name for each in verdict.culprits] == ["hog", "b"]
    weak = replace(USED, score=14.0)
    assert verdict_of(ranking(row(score=0.9, features=(weak,)))).culprits == ()
    assert verdict_of(ranking(row(score=0.9))).culprits[0].name == "hog"


@pytest.mark.parametrize("name", ["laggard-agent", "laggard-reader", "laggard"])
def test_laggards_own_come_after_all_others_and_are_not_hidden(name: str):
    agent, other = row(name, 9.0), row("hog", 4.0)
    verdict = verdict_of(ranking(agent, other))
    assert verdict.culprits == (other,)
    assert verdict.own == (agent,)
    assert verdict.taker == other
    assert verdict_of(ranking(row("hog", 9.0), row("laggard-agent", 4.4))).own == (), "not nearly as unusual"
    alone = verdict_of(ranking(agent, row("web", 0.1, ())))
    assert (alone.culprits, alone.own) == ((agent,), ()), "nobody else is to blame"
    ails = verdict_of(ranking(agent, row("web", 0.1, ())), ranking(COLD))
    assert (ails.culprits, ails.own) == ((), (agent,))
    assert ails.causes, "what laggard takes explains nothing of the host"


def test_of_victims_the_one_that_waits_longest_comes_first():
    longer = replace(WAITED, value=0.9)
    rows = [row("a", 0.1, (WAITED,), waits=True), row("b", 0.1, (longer,), waits=True), row("c", 0.1, (WAITED,))]
    assert [each.row.name for each in verdict_of(ranking(*rows)).victims] == ["b", "a"]


@pytest.mark.parametrize("feature", WAITS)
def test_a_little_waiting_makes_no_victim(feature):
    for value in (WAITS[feature] * 0.9, math.nan):
        little = FeatureScore(feature, value, 0.0, 0.0, 9.0)
        assert verdict_of(ranking(row(features=(little,), waits=True))).victims == ()


@pytest.mark.parametrize(
    ("value", "recent", "mean", "deviation", "expected"),
    [
        (0.5, None, 0.1, 0.1, True),
        (0.0, 0.5, 0.1, 0.1, True),
        (0.5, 0.0, 0.1, 0.1, False),
        (0.5, None, 0.3, 0.01, False),
        (0.5, None, 0.1, 0.2, False),
        (0.04, None, 0.0, 0.0, False),
        (0.5, None, math.nan, math.nan, False),
        (0.5, None, 0.0, math.nan, True),
        (math.nan, None, 0.0, 0.0, False),
    ],
)
def test_what_is_told_is_far_above_its_usual_by_every_measure(value, recent, mean, deviation, expected):
    assert above(FeatureScore("cpu_wait_ratio", value, mean, deviation, 1.0, recent), 0.05) is expected


FAULTS = FeatureScore("page_faults_major_per_s", 90.0, 0.1, 0.3, 18.0)
READS = FeatureScore("io_read_bytes_per_s", 9e6, 1e3, 1e3, 30.0)
COLD = row(
    "host",
    3.0,
    (
        FeatureScore("page_faults_major_per_s", 900.0, 1.0, 3.0, 60.0),
        FeatureScore("paging_in_bytes_per_s", 9e7, 1e4, 1e4, 60.0),
    ),
)


@pytest.mark.parametrize(("readers", "blamed"), [(SPREAD - 1, SPREAD - 1), (SPREAD, 0), (40, 0)])
def test_who_reads_anew_what_was_in_memory_is_a_victim_where_many_do(readers, blamed):
    rows = [row(f"app-{number}", 3.0, (READS, FAULTS)) for number in range(readers)]
    verdict = verdict_of(ranking(*rows), ranking(COLD))
    assert len(verdict.culprits) == blamed
    assert len(verdict.victims) == readers - blamed
    assert bool(verdict.causes) is not bool(blamed)


def test_the_row_that_empties_the_cache_is_the_culprit():
    rows = [row(f"app-{number}", 3.0, (READS, FAULTS)) for number in range(SPREAD)]
    writes = FeatureScore("memory_rss_bytes", 9e9, 1e6, 1e6, 30.0)
    verdict = verdict_of(ranking(row("hog", 5.0, (writes,)), *rows), ranking(COLD))
    assert [each.name for each in verdict.culprits] == ["hog"]
    assert len(verdict.victims) == SPREAD
    without = verdict_of(ranking(*rows), ranking(row("host", 1.0, ())))
    assert len(without.culprits) == SPREAD, "the host's cache is as usual"


def test_without_rows_there_is_no_culprit():
    verdict = verdict_of(ranking(), ranking())
    assert (verdict.culprits, verdict.taker, verdict.victims, verdict.causes) == ((), None, (), ())


def test_a_ranking_is_narrowed():
    found = narrowed(ranking(row(features=(USED, WAITED)), row("b")), 1, 1)
    assert [(each.name, each.features) for each in found.rows] == [("hog", (USED,))]


def test_a_culprit_uses_the_resource_of_its_counter():
    counters = [each for each in CATALOGUE if each.process and each.resource and each.weight]
    assert len(counters) > 20
    for each in counters:
        assert each.resource in resources_of(replace(USED, feature=each.name)), each.name


def test_many_sockets_do_not_explain_damaged_packets():
    sockets = FeatureScore("sockets", 500.0, 20.0, 10.0, 20.0)
    damaged = FeatureScore("network_eth0_receive_errors_per_s", 50.0, 0.0, 0.1, 20.0)
    host = RowScore("host", "host", 8.0, (damaged,), 3600.0, waits=False)
    verdict = verdict_of(ranking(row(features=(sockets,))), ranking(host))
    assert verdict.resources == {"network"}
    assert [each.resource for each in verdict.causes] == ["network"]
