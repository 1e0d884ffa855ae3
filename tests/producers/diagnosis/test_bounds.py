"""Bounds that make no sense are refused where they are set."""

from __future__ import annotations

import pytest

from laggard.producers.diagnosis.bounds import Budget, Limits


@pytest.mark.parametrize(
    ("kind", "bounds", "message"),
    [
        (Limits, {"duration_s": 0}, "duration_s: expected a number above 0, got 0"),
        (Limits, {"interval_s": float("nan")}, "interval_s: expected a number above 0, got nan"),
        (Limits, {"threads": -1}, "threads: expected a number above 0, got -1"),
        (Limits, {"phases": 1}, "phases: expected at least 2"),
        *(
            (Budget, {"ratio": ratio}, "ratio: expected a part of one core above 0")
            for ratio in (0, -0.1, float("nan"))
        ),
    ],
)
def test_bounds_that_bound_nothing_are_refused(kind, bounds, message):
    with pytest.raises(ValueError, match=message):
        kind(**bounds)


def test_sessions_share_a_budget_equally():
    budget = Budget(0.04)
    assert budget.share == 0.04  # before the first one
    budget.sessions = 4
    assert budget.share == pytest.approx(0.01)
