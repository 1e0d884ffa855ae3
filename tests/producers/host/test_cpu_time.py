from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from laggard.producers.host.cpu_time import CpuTime

TICK = 0.01


@pytest.mark.parametrize(
    ("updates", "expected_s"),
    [
        ([(5, 2, None), (6, 2, None)], (0.06, 0.02)),
        ([(10, 0, 100_000_000), (20, 0, None), (30, 0, 300_000_000), (40, 0, 400_000_000)], (0.4, 0.0)),
    ],
    ids=["without run time the clock ticks count", "a run time that comes and goes adds nothing twice"],
)
def test_where_the_run_time_is_missing(updates, expected_s):
    cpu = CpuTime()
    for user, system, run_ns in updates:
        cpu.update(user, system, run_ns, TICK)
    assert (cpu.user_s, cpu.system_s) == pytest.approx(expected_s)


def test_the_split_follows_the_clock_ticks():
    cpu = CpuTime()
    cpu.update(100, 0, 1_000_000_000, TICK)
    user = cpu.user_s
    cpu.update(100, 100, 2_000_000_000, TICK)
    assert user == pytest.approx(1)
    assert cpu.system_s > 0.9


def test_a_counter_that_went_backwards_takes_the_time_with_it():
    cpu = CpuTime()
    cpu.update(100, 50, 1_500_000_000, TICK)
    before = cpu.user_s
    cpu.update(20, 50, 1_600_000_000, TICK)
    assert cpu.user_s < before


@given(st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 1)), max_size=60))
@example([(1_234_567, 0.5)])  # below a clock tick
def test_user_and_system_add_up_to_the_run_time_and_stay_near_the_clock_ticks(steps):
    """The kernel's rule: the ticks are the whole ones of user and system time."""
    cpu = CpuTime()
    user_ns = system_ns = 0
    for step_ns, share in steps:
        user_before, system_before = cpu.user_s, cpu.system_s
        user_ns += int(step_ns * share)
        system_ns += step_ns - int(step_ns * share)
        cpu.update(user_ns // 10**7, system_ns // 10**7, user_ns + system_ns, TICK)
        assert cpu.user_s >= user_before
        assert cpu.system_s >= system_before
    assert cpu.user_s + cpu.system_s == pytest.approx((user_ns + system_ns) / 1e9, abs=1e-9)


def test_a_steady_small_share_comes_out_right():
    """A process that takes 3 ms a second, a third of it in the kernel, for two hours."""
    cpu = CpuTime()
    for second in range(1, 7201):
        cpu.update(second * 2 // 10, second // 10, second * 3_000_000, TICK)
    assert cpu.user_s == pytest.approx(14.4, rel=0.1)
    assert cpu.system_s == pytest.approx(7.2, rel=0.1)
