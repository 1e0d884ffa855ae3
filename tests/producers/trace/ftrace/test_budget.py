"""Events a second: on average no more than allowed, and in whole stretches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.trace.ftrace.budget import HOLDS_S, Budget


@given(st.integers(1, 10**6), st.lists(st.tuples(st.integers(0, 10**6), st.floats(0.01, 2)), min_size=1, max_size=300))
def test_no_more_than_allowed(allowed: int, steps: list[tuple[int, float]]) -> None:
    budget, on, came, passed, most = Budget(allowed), True, 0, 0.0, 0
    for rate, step_s in steps:
        events = int(rate * step_s) if on else 0
        came, passed, most = came + events, passed + step_s, max(most, events)
        on = budget.spend(events, step_s)
        assert came <= allowed * (passed + HOLDS_S) + most + 1
        assert on or came


def test_half_on_and_half_off_where_twice_as_many_come() -> None:
    budget, on, states = Budget(1000), True, []
    for _ in range(400):
        on = budget.spend(1000 if on else 0, 0.5)
        states.append(on)
    after = states[states.index(False) :]
    stretches = "".join("x" if state else "." for state in after).rstrip("x").split(".")
    assert {len(stretch) for stretch in stretches if stretch} == {9}  # of half a second, and one that fills the bucket
    assert 0.45 < sum(after) / len(after) < 0.55


def test_always_on_within_the_budget() -> None:
    budget = Budget(1000)
    assert all(budget.spend(500, 0.5) for _ in range(100))


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_no_budget(rate: float) -> None:
    with pytest.raises(ValueError, match="expected more than 0"):
        Budget(rate)
