"""Where no relation changes, models are given up and alarms raised as rarely as the budgets allow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

from tests.evaluation.models.null import PERFORMANCE, WORLDS, Cry, cry, show, table


@pytest.mark.slow
@pytest.mark.parametrize("world", ["autocorrelated", "heavy-tailed"])
def test_rebuilds_and_alarms_keep_to_their_budgets(world: str) -> None:
    # Ten days, with a budget of one rebuild and one alarm a day.
    found = cry(world, 0, 1_440, 600.0)
    assert found.days == pytest.approx(10.0)
    most = poisson.ppf(0.99, 10.0)
    assert sum(found.rebuilds.values()) <= most
    assert found.alarms <= most
    assert found.above < 40


def test_the_published_test_has_no_budget() -> None:
    assert sum(cry("gaussian", 0, 400, 60.0, "published").rebuilds.values()) > 5


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_a_world_is_the_same_for_the_same_seed_and_its_relation_does_not_change(world: str) -> None:
    first, second = show(world, 1, 2_880), show(world, 1, 2_880)
    np.testing.assert_array_equal(first.values, second.values)
    assert first.values.shape == (2_880, 300)
    assert len(set(first.names.ids)) == 300
    response, wait = first.performance[PERFORMANCE[0]], first.values[:, first.names.ids.index("web-1:cpu_busy_ratio")]
    # What is left once the queue is known has the same middle in both halves.
    left = np.log(response * (1.0 - wait) / 0.02)
    assert abs(np.median(left[:1_440]) - np.median(left[1_440:])) < 0.03


def test_the_table_has_a_line_for_each_world_with_its_rates() -> None:
    rebuilds = {PERFORMANCE[0]: 2, PERFORMANCE[1]: 1}
    lines = table(
        [Cry("gaussian", 2.0, rebuilds, 1, 4, 5, (1, 2)), Cry("daily", 1.0, {}, 0, 0, 0, (0, 0))]
    ).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("| gaussian | 2.0 | 1.50 (0.31 to 4.38) | 1.00, 0.50 | 1.50 | 1.00 | 2.00 (0.54 to 5.1")
    assert lines[3].startswith("| daily | 1.0 | 0.00 (0.00 to 3.69)")
