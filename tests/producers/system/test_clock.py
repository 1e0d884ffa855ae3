from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.system.clock import FAR_AHEAD_S, Clock, Schedule, Timeline

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("passed_s", "suspended_s", "stepped_s"),
    [(5, 0, 0), (1, 0, 3600), (10, 0, -365 * 86_400), (1, 8 * 3600, 0)],
    ids=["nothing else happens", "it steps forward", "it was far ahead", "the machine was suspended"],
)
def test_time_is_the_wall_clock_at_once(time, passed_s, suspended_s, stepped_s):
    timeline = Timeline(time.clock)
    assert timeline.now() == 1_700_000_000
    time.suspend(suspended_s)
    time.pass_(passed_s)
    time.wall += stepped_s * SECOND
    assert timeline.now() == 1_700_000_000 + passed_s + suspended_s + stepped_s
    assert timeline.offset_s == 0


def test_after_a_step_back_time_goes_on_at_half_speed_until_it_agrees(time):
    timeline = Timeline(time.clock)
    timeline.now()
    time.pass_(10)
    time.wall -= 20 * SECOND
    assert timeline.now() == 1_700_000_005
    assert timeline.offset_s == 15
    time.pass_(10)
    assert timeline.now() == 1_700_000_010
    assert timeline.offset_s == 10
    time.pass_(20)
    assert timeline.now() == 1_700_000_020
    assert timeline.offset_s == 0
    time.pass_(5)
    assert timeline.now() == 1_700_000_025


@given(st.lists(st.tuples(st.integers(1, 10 * SECOND), st.integers(-(10**13), 10**13)), max_size=50))
def test_time_goes_backwards_only_when_it_was_far_ahead(steps):
    wall, monotonic = 1_700_000_000 * SECOND, 0
    timeline = Timeline(Clock(wall=lambda: wall, monotonic=lambda: monotonic))
    last = timeline.now()
    for passed, stepped in steps:
        monotonic += passed
        wall += passed + stepped
        now = timeline.now()
        assert now >= last or now == wall / 1e9 < last + passed / 2e9 - FAR_AHEAD_S
        assert wall / 1e9 <= now <= wall / 1e9 + FAR_AHEAD_S
        assert now - last <= max(wall / 1e9 - last, passed / 2e9) + 1e-6
        last = now


def test_ticks_are_on_a_grid_even_if_each_takes_a_while(time):
    schedule = Schedule(5, time.clock)
    assert schedule.delay_s() == 0
    begun = []
    for _ in range(4):
        time.pass_(schedule.delay_s())
        begun.append(time.monotonic / SECOND)
        assert schedule.begin() == 0
        time.pass_(0.7)
    assert begun == [100, 105, 110, 115]


@pytest.mark.parametrize(
    ("late_s", "suspended_s", "missed", "next_s"),
    [
        *((0.0, 0, 0, 5), (2.4, 0, 0, 5), (2.6, 0, 1, 10), (4.9, 0, 1, 10), (5.0, 0, 1, 10), (7.4, 0, 1, 10)),
        *((7.6, 0, 2, 15), (3600, 0, 720, 3605)),
        pytest.param(0.0, 3600, 0, 5, id="a suspended machine misses nothing"),
        pytest.param(-4.0, 0, 0, 0, id="one by hand leaves the grid alone"),
    ],
)
def test_missed_ticks_are_counted_and_not_caught_up(time, late_s, suspended_s, missed, next_s):
    schedule = Schedule(5, time.clock)
    schedule.begin()
    time.suspend(suspended_s)
    time.pass_(5 + late_s)
    assert schedule.begin() == missed
    assert schedule.delay_s() == pytest.approx(next_s - late_s)


@pytest.mark.parametrize("interval_s", [0, 0.49, 3601, -1, float("nan"), float("inf")])
def test_intervals_have_bounds(interval_s):
    with pytest.raises(ValueError, match=r"interval_s: expected 0\.5 to 3600 seconds, got"):
        Schedule(interval_s, Clock())
