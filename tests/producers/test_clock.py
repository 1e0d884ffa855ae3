from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.clock import FAR_AHEAD_S, Clock, Schedule, Timeline

SECOND = 1_000_000_000


def test_time_is_the_wall_clock(time):
    timeline = Timeline(time.clock)
    assert timeline.now() == 1_700_000_000
    time.pass_(5)
    assert timeline.now() == 1_700_000_005
    assert timeline.offset_s == 0


def test_a_step_forward_is_adopted_at_once(time):
    timeline = Timeline(time.clock)
    timeline.now()
    time.pass_(1)
    time.wall += 3600 * SECOND
    assert timeline.now() == 1_700_003_601
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


def test_a_clock_that_was_far_ahead_is_followed_at_once(time):
    timeline = Timeline(time.clock)
    timeline.now()
    time.pass_(10)
    time.wall -= 365 * 86_400 * SECOND
    assert timeline.now() == 1_700_000_010 - 365 * 86_400
    assert timeline.offset_s == 0


def test_a_suspended_machine_comes_back_to_the_right_time(time):
    timeline = Timeline(time.clock)
    timeline.now()
    time.suspend(8 * 3600)
    time.pass_(1)
    assert timeline.now() == 1_700_000_000 + 8 * 3600 + 1


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
    ("late_s", "missed", "next_s"),
    [(0.0, 0, 5), (2.4, 0, 5), (2.6, 1, 10), (4.9, 1, 10), (5.0, 1, 10), (7.4, 1, 10), (7.6, 2, 15), (3600, 720, 3605)],
)
def test_missed_ticks_are_counted_and_not_caught_up(time, late_s, missed, next_s):
    schedule = Schedule(5, time.clock)
    schedule.begin()
    time.pass_(5 + late_s)
    assert schedule.begin() == missed
    assert schedule.delay_s() == pytest.approx(next_s - late_s)


def test_a_suspended_machine_misses_nothing(time):
    schedule = Schedule(5, time.clock)
    schedule.begin()
    time.suspend(3600)
    time.pass_(5)
    assert schedule.begin() == 0
    assert schedule.delay_s() == 5


def test_a_tick_by_hand_leaves_the_grid_alone(time):
    schedule = Schedule(5, time.clock)
    schedule.begin()
    time.pass_(1)
    assert schedule.begin() == 0
    assert schedule.delay_s() == 4


@pytest.mark.parametrize("interval_s", [0, 0.49, 3601, -1, float("nan"), float("inf")])
def test_intervals_have_bounds(interval_s):
    with pytest.raises(ValueError, match=r"interval_s: expected 0\.5 to 3600 seconds, got"):
        Schedule(interval_s, Clock())
