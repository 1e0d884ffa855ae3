"""Phase 1: correlations and their p-values beside numpy's and scipy's, and which metrics are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import pearsonr

from laggard.operators.regression.correlation import best, correlations, lengths, p_values


@pytest.mark.parametrize("samples", [3, 4, 10, 60, 400])
def test_coefficients_and_p_values_are_those_of_numpy_and_scipy(chance: np.random.Generator, samples: int) -> None:
    target = chance.lognormal(size=samples)
    weights = np.linspace(-2.0, 2.0, 80)
    values = target[:, None] * weights + chance.normal(size=(samples, 80)) * chance.lognormal(0.0, 3.0, 80)
    r = correlations(values, target)
    np.testing.assert_allclose(r, [np.corrcoef(column, target)[0, 1] for column in values.T], rtol=1e-9, atol=1e-12)
    expected = [pearsonr(column, target) for column in values.T]
    np.testing.assert_allclose(r, [each.statistic for each in expected], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(p_values(r, samples), [each.pvalue for each in expected], rtol=1e-6, atol=1e-300)


@pytest.mark.parametrize("seed", range(4))
def test_no_coefficient_is_beyond_one_however_it_is_rounded(seed: int) -> None:
    target = np.random.default_rng(seed).normal(size=50)
    factors = np.array([1.0, 3.0, 1e-3, -1.0, -7.0])
    r = correlations(target[:, None] * factors, target)
    np.testing.assert_allclose(r, np.sign(factors), rtol=1e-14)
    assert np.abs(r).max() <= 1.0


def test_p_values_far_out_keep_their_order() -> None:
    r = np.array([0.0, 0.5, -0.5, 0.99, 0.999999, 1.0, np.nan])
    p = p_values(r, 100)
    assert p[0] == 1.0
    assert p[1] == p[2]
    assert p[1] > p[3] > p[4] > p[5] == 0.0
    assert np.isnan(p[6])


@pytest.mark.parametrize("samples", [0, 1, 2])
def test_of_two_samples_and_fewer_no_p_value_can_be_told(samples: int) -> None:
    values = np.arange(3.0 * samples).reshape(samples, 3)
    r = correlations(values, np.arange(float(samples)))
    assert r.shape == (3,)
    np.testing.assert_array_equal(np.isnan(r), samples < 2)
    assert np.isnan(p_values(r, samples)).all()


@given(arrays(np.float64, st.tuples(st.integers(3, 30), st.integers(1, 8)), elements=st.floats(-1e6, 1e6, width=32)))
def test_a_coefficient_is_the_one_in_many_digits_or_the_metric_is_constant(values: np.ndarray) -> None:
    target = np.arange(float(len(values))) ** 2
    r = correlations(values, target)
    assert ((np.abs(r) <= 1.0) | np.isnan(r)).all()
    exact = values.astype(np.longdouble)
    deviations, centred = exact - exact.mean(axis=0), target - target.mean()
    spread = np.sqrt((deviations**2).mean(axis=0))
    for column in range(values.shape[1]):
        if np.isnan(r[column]):
            assert spread[column] <= 2e-9 * np.abs(values[:, column]).max()
        else:
            expected = (deviations[:, column] @ centred) / np.sqrt(
                (deviations[:, column] @ deviations[:, column]) * (centred @ centred)
            )
            assert abs(r[column] - expected) < 1e-7


def test_what_is_constant_or_not_finite_in_every_sample_has_no_coefficient(chance: np.random.Generator) -> None:
    target = chance.normal(size=20)
    values = np.column_stack([target] * 7)
    values[:, 0] = 0.0
    values[:, 1] = 1e15
    values[:, 2] = 0.1 + 1e-17 * chance.normal(size=20)
    values[3, 3] = np.nan
    values[4, 4] = np.inf
    values[[5, 6], 5] = np.inf, -np.inf
    r = correlations(values, target)
    np.testing.assert_array_equal(np.isnan(r), [True] * 6 + [False])
    assert r[6] == pytest.approx(1.0)
    assert np.isnan(correlations(values, np.full(20, 3.0))).all()


@pytest.mark.parametrize("of_target", [1e-300, 1e-9, 1e300])
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-20, 1e20, 1e160, 1e300])
def test_the_unit_does_not_matter(chance: np.random.Generator, scale: float, of_target: float) -> None:
    target = chance.normal(size=15)
    values = target[:, None] + chance.normal(size=(15, 4))
    np.testing.assert_allclose(
        correlations(values * scale, target * of_target), correlations(values, target), rtol=1e-9
    )


def test_an_offset_of_a_billion_does_not_matter(chance: np.random.Generator) -> None:
    target = chance.normal(size=50)
    # Steps that a float near 1e9 can hold.
    values = np.round((20.0 * target[:, None] + chance.normal(size=(50, 4))) * 1024.0) / 1024.0
    np.testing.assert_allclose(correlations(1e9 + values, target), correlations(values, target), rtol=1e-12)


@given(arrays(np.float64, (5, 3), elements=st.floats(-1e300, 1e300)))
def test_lengths_are_euclidean_for_all_sizes(columns: np.ndarray) -> None:
    expected = np.sqrt((columns.astype(np.longdouble) ** 2).sum(axis=0))
    np.testing.assert_allclose(lengths(columns), expected.astype(np.float64), rtol=1e-12, atol=1e-320)


@pytest.mark.parametrize("count", [2, 3, 17, 1000, 7_522])
def test_identical_metrics_have_the_same_coefficient_to_the_bit_wherever_they_stand(
    chance: np.random.Generator, count: int
) -> None:
    target = chance.normal(size=10)
    values = np.repeat((target + chance.normal(size=10))[:, None], count, axis=1)
    assert len(set(correlations(values, target).tolist())) == 1


def test_the_best_are_in_descending_order_and_of_equal_ones_the_first_comes_first() -> None:
    r = np.array([0.3, -0.9, 0.5, 0.9, np.nan, -0.5, 0.5, 0.0, 0.9])
    assert best(r, 9).tolist() == [1, 3, 8, 2, 5, 6, 0, 7]
    for count in range(1, 10):
        assert best(r, count).tolist() == [1, 3, 8, 2, 5, 6, 0, 7][:count]
    assert best(np.full(5, np.nan), 3).tolist() == []
    assert best(np.empty(0), 3).tolist() == []


@given(st.lists(st.floats(-1.0, 1.0) | st.just(float("nan")), max_size=60), st.integers(1, 70))
def test_the_best_are_what_sorting_all_of_them_gives(values: list[float], count: int) -> None:
    r = np.array(values)
    strength = [round(abs(each), 12) for each in values]
    known = [at for at in range(len(values)) if not np.isnan(values[at])]
    assert best(r, count).tolist() == sorted(known, key=lambda at: -strength[at])[:count]


def test_fifty_thousand_metrics(chance: np.random.Generator) -> None:
    target = chance.normal(size=60)
    values = chance.normal(size=(60, 50_000))
    values[:, 40_000] += 3.0 * target
    values[:, 7] -= 2.0 * target
    r = correlations(values, target)
    assert best(r, 2).tolist() == [40_000, 7]
    assert r[49_999] == pytest.approx(np.corrcoef(values[:, 49_999], target)[0, 1])
