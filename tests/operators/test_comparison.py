"""Pairs of periods: chance alone is not taken for a difference, and a difference is not missed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from laggard.operators.comparison import compare


@pytest.mark.parametrize("pairs", [2, 5, 9, 12])
def test_the_p_value_is_wilcoxons(pairs: int) -> None:
    chance = np.random.default_rng(pairs)
    for shift in (0.0, 0.5, 2.0):
        treated, untreated = chance.normal(size=(2, pairs))
        exact = stats.wilcoxon(treated + shift, untreated, method="exact")
        assert compare(list(treated + shift), list(untreated)).p == pytest.approx(exact.pvalue)


def test_equal_differences_share_their_ranks() -> None:
    differences = [1.0, 1.0, -1.0, 2.0, 2.0, 2.0]
    ranks = stats.rankdata(np.abs(differences))
    sums = [abs(np.dot(signs, ranks)) for signs in product((1, -1), repeat=6)]
    expected = np.mean(np.array(sums) >= abs(np.dot(np.sign(differences), ranks)))
    assert compare(differences, [0.0] * 6).p == pytest.approx(expected)


def test_one_period_in_which_the_machine_did_something_else_does_not_decide() -> None:
    found = compare([0.5, 0.52, 0.48, 0.51, 0.5, 0.49, 0.53, 0.5], [1.0, 1.02, 0.98, 90.0, 1.03, 1.0, 0.97, 1.01])
    assert found.p == pytest.approx(2 / 256)
    assert -0.6 < found.difference < -0.4
    assert found.high < 0.0


def test_chance_alone_is_taken_for_a_difference_as_often_as_it_says_and_bounds_hold_as_often() -> None:
    chance = np.random.default_rng(2)
    rounds, small, within = 2000, 0, 0
    for _ in range(rounds):
        # Heavy tails, and what all periods of a pair have in common.
        treated, untreated = chance.standard_t(3, size=(2, 8)) + 5.0 * chance.normal(size=8)
        found = compare(list(treated), list(untreated))
        small += found.p < 0.05
        within += found.low <= 0.0 <= found.high
    # Of 256 signs 10 are below 0.05, so 3.9 %; three standard deviations of such a count are 1.3 %.
    assert 0.026 < small / rounds < 0.052
    assert found.confidence == pytest.approx(1.0 - 10 / 256)
    assert 0.948 < within / rounds < 0.974


def test_a_difference_is_found() -> None:
    chance = np.random.default_rng(3)
    level = chance.lognormal(0.0, 0.5, 8)
    found = compare(list(level * 0.7), list(level))
    assert found.p == pytest.approx(2 / 256)
    assert found.low < found.difference < found.high < 0.0
    assert found.difference == pytest.approx(-0.3 * found.without, rel=0.2)


def test_no_difference_at_all_is_none() -> None:
    found = compare([3.0] * 6, [3.0] * 6)
    assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("treated", "untreated", "said"),
    [([1.0], [1.0], "2 to 16 pairs"), ([1.0, 2.0], [1.0], "pairs"), ([1.0, np.nan], [1.0, 2.0], "finite")],
)
def test_what_cannot_be_compared_is_refused(treated: list[float], untreated: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        compare(treated, untreated)
