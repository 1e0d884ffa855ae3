"""Welch's test beside scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, ttest_ind

from laggard.operators.regression.welch import welch

finite = st.floats(-1e6, 1e6, width=32)


@pytest.mark.parametrize("sizes", [(2, 2), (10, 10), (10, 3), (400, 20)])
def test_p_values_are_scipys(chance: np.random.Generator, sizes: tuple[int, int]) -> None:
    for shift in (0.0, 0.3, 5.0, 50.0):
        first, second = chance.normal(size=sizes[0]), shift + 3.0 * chance.normal(size=sizes[1])
        assert welch(first, second) == pytest.approx(ttest_ind(first, second, equal_var=False).pvalue, rel=1e-9)


@given(st.lists(finite, min_size=2, max_size=12), st.lists(finite, min_size=2, max_size=12))
def test_windows_of_any_values_have_a_p_value_that_does_not_depend_on_which_is_first(
    first: list[float], second: list[float]
) -> None:
    p = welch(np.array(first), np.array(second))
    assert 0.0 <= p <= 1.0
    assert p == pytest.approx(welch(np.array(second), np.array(first)), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_the_unit_does_not_matter(chance: np.random.Generator, scale: float) -> None:
    first, second = chance.normal(size=10), 1.0 + chance.normal(size=10)
    assert welch(first * scale, second * scale) == pytest.approx(welch(first, second), rel=1e-9)


def test_windows_that_do_not_vary_are_equal_or_not() -> None:
    assert welch(np.ones(5), np.ones(9)) == 1.0
    assert welch(np.ones(5), np.zeros(9)) == 0.0
    assert 0.0 < welch(np.ones(5), np.array([0.0, 1.5, 3.0])) < 1.0


def test_of_fewer_than_two_values_nothing_is_told() -> None:
    assert math.isnan(welch(np.ones(1), np.ones(9)))
    assert math.isnan(welch(np.ones(9), np.empty(0)))


def test_where_nothing_changed_p_values_are_uniform(chance: np.random.Generator) -> None:
    found = [welch(chance.normal(size=10), 2.0 * chance.normal(size=10)) for _ in range(4_000)]
    assert kstest(found, "uniform").pvalue > 0.01
