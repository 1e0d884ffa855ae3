"""Ticks of requests: closed by what comes, the same for the same requests, and the same form as the operator reads."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.operators.requests import rates
from laggard.pipeline.core.eventtime import SET_BACK_RECORDS, SET_BACK_S
from laggard.pipeline.methods.requests.ticks import ALL, FEATURES, MOST_CLUSTERS, TICK_S, Counted, Tick, Ticks, frame_of

ENDS = st.lists(st.tuples(st.floats(0.0, 1e4), st.integers(0, 3), st.booleans()), max_size=60)


def counted(ticks: Ticks, ends: list[tuple[float, int, bool]]) -> list[Tick]:
    closed = []
    for end, cluster, live in ends:
        ticks.classify(end)
        if (tick := ticks.hear(end)) is not None:
            closed.append(tick)
        ticks.count(live=live, cluster=cluster, lost_s=1.0 if cluster else 0.0)
    return closed


@given(ENDS)
def test_every_request_is_in_one_tick(ends: list[tuple[float, int, bool]]) -> None:
    ticks = Ticks()
    closed = counted(ticks, ends)
    if (last := ticks.close()) is not None:
        closed.append(last)
    assert ticks.close() is None
    assert sum(each.requests for each in closed) == len(ends)
    assert [each.ts for each in closed] == sorted({each.ts for each in closed})
    assert all(each.ts % TICK_S == 0.0 for each in closed)
    outlying = [one for each in closed for one in each.outlying.values()]
    assert sum(each.requests for each in outlying) == sum(cluster > 0 for _, cluster, _ in ends)
    assert all(each.lost_s == each.requests for each in outlying)
    if ends and len(closed) == 1:
        assert closed[0].live == all(live for _, _, live in ends)


@given(ENDS, st.integers(0, 60))
def test_what_is_written_down_goes_on_alike(ends: list[tuple[float, int, bool]], cut: int) -> None:
    whole, first, second = Ticks(), Ticks(), Ticks()
    want = counted(whole, ends)
    got = counted(first, ends[:cut])
    second.restore(json.loads(json.dumps(first.snapshot())))
    got += counted(second, ends[cut:])
    assert got == want
    assert second.snapshot() == whole.snapshot()


def test_a_tick_closes_with_the_first_end_beyond_it() -> None:
    ticks = Ticks()
    assert ticks.hear(100.0) is None
    ticks.count(live=True, cluster=0, lost_s=0.0)
    assert ticks.hear(109.9) is None
    ticks.count(live=True, cluster=2, lost_s=0.5)
    assert ticks.hear(110.0) == Tick(110.0, True, 2, {2: Counted(1, 0.5)})
    ticks.count(live=True, cluster=0, lost_s=0.0)
    assert ticks.hear(105.0) is None  # it is over: this one counts in the tick that is open
    ticks.count(live=True, cluster=0, lost_s=0.0)
    assert ticks.hear(990.0) == Tick(120.0, True, 2, {})  # and in between there was none


def test_the_share_of_missing_events_is_the_largest_of_the_closed_tick() -> None:
    ticks = Ticks()
    ticks.hear(100.0)
    for missing_ratio in (0.0, 0.3, 0.1):
        ticks.count(live=True, cluster=0, lost_s=0.0, missing_ratio=missing_ratio)
    assert ticks.missing_ratio == 0.0
    ticks.hear(110.0)
    assert ticks.missing_ratio == 0.3
    ticks.count(live=True, cluster=0, lost_s=0.0)
    ticks.restore(json.loads(json.dumps(ticks.snapshot())))
    assert ticks.missing_ratio == 0.3
    ticks.close()
    assert ticks.missing_ratio == 0.0


def test_it_is_open_while_something_is_in_no_closed_tick() -> None:
    ticks = Ticks()
    ticks.hear(100.0)
    found = [ticks.is_open]
    ticks.count(live=True, cluster=0, lost_s=0.0)
    found.append(ticks.is_open)
    ticks.close()
    assert [*found, ticks.is_open] == [False, True, False]


def test_what_is_an_hour_behind_is_late_and_a_dozen_of_it_is_a_clock_that_was_set_back() -> None:
    ticks = Ticks()
    assert ticks.earliest_ts == -math.inf
    ticks.hear(1e6)
    assert ticks.classify(1e6 - SET_BACK_S) == "new"
    behind = [ticks.classify(1e6 - SET_BACK_S - 1.0) for _ in range(SET_BACK_RECORDS)]
    assert behind == ["late"] * (SET_BACK_RECORDS - 1) + ["set_back"]
    ticks.classify(1e6)
    assert ticks.set_back.count == 0


def test_the_number_of_clusters_in_a_tick_is_limited() -> None:
    ticks = Ticks()
    ticks.hear(1.0)
    for number in range(1, MOST_CLUSTERS + 11):
        ticks.count(live=True, cluster=number, lost_s=1.0)
    ticks.count(live=True, cluster=1, lost_s=1.0)
    tick = ticks.close()
    assert tick is not None
    assert (len(tick.outlying), tick.requests) == (MOST_CLUSTERS, MOST_CLUSTERS + 11)
    assert tick.outlying[1] == Counted(2, 2.0)


def test_a_tick_is_a_frame_that_the_operator_reads() -> None:
    assert (ALL, FEATURES) == (rates.ALL, rates.FEATURES)
    tick = Tick(110.0, True, 50, {3: Counted(2, 0.5), 1: Counted(1, 0.25)})
    frame = frame_of("shop", tick, {1: "lock x.lock"})
    assert (frame.keyed_by, frame.key, frame.scope, frame.ts) == ("service", "shop", "request", 110.0)
    assert (frame.layout.rows, frame.layout.names) == (("all", "1", "3"), ("all", "lock x.lock", "3"))
    assert frame.values.tolist() == [[50.0, 3.0, 0.75], [1.0, 1.0, 0.25], [2.0, 2.0, 0.5]]
    judged = rates.Rates().score(frame.ts, frame.layout, frame.values)
    assert {each.row: each.name for each in judged.rows} == {"1": "lock x.lock", "3": "3"}


def test_a_state_of_an_older_version_has_no_share_of_missing_events() -> None:
    state = Ticks().snapshot()
    del state["missing_ratios"]
    ticks = Ticks()
    ticks.restore(state)
    assert ticks.snapshot() == Ticks().snapshot()


@pytest.mark.parametrize("field", ["newest_ts", "outlying", "number"])
def test_a_state_that_is_none_is_refused(field: str) -> None:
    state = Ticks().snapshot()
    del state[field]
    with pytest.raises(KeyError):
        Ticks().restore(state)
