"""Bounds that make no sense are refused where they are set."""

from __future__ import annotations

import pytest

from laggard.producers.diagnosis.bounds import Budget, Limits


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"duration_s": 0}, "duration_s: expected a number above 0, got 0"),
        ({"interval_s": float("nan")}, "interval_s: expected a number above 0, got nan"),
        ({"threads": -1}, "threads: expected a number above 0, got -1"),
        ({"phases": 1}, "phases: expected at least 2"),
    ],
)
def test_a_limit_is_above_0(bounds, message):
    with pytest.raises(ValueError, match=message):
        Limits(**bounds)


@pytest.mark.parametrize("ratio", [0, -0.1, float("nan")])
def test_a_budget_is_a_part_of_a_core(ratio):
    with pytest.raises(ValueError, match="ratio: expected a part of one core above 0"):
        Budget(ratio)


def test_sessions_share_a_budget_equally():
    budget = Budget(0.04)
    assert budget.share == 0.04  # before the first one
    budget.sessions = 4
    assert budget.share == pytest.approx(0.01)
