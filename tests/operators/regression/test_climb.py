"""Phase 2: the climb that tries all candidates at once beside the plainest loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import PredefinedSplit

from laggard.operators.regression.climb import FOLDS, LinearClimb, folds_of
from laggard.operators.regression.kinds import climb_kind, cross_predicted
from laggard.operators.regression.selection import climb

from .slow_climb import cross_validated, slow_climb

if TYPE_CHECKING:
    from laggard.operators.regression.models import Kind

# Whole numbers, so that metrics are either exactly collinear or clearly not.
whole = st.integers(-4, 4).map(float)


@st.composite
def small(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Few samples of metrics of which some are copies, sums or multiples of others, or constant."""
    samples, metrics = draw(st.integers(2, 24)), draw(st.integers(1, 5))
    values = draw(arrays(np.float64, (samples, metrics), elements=whole))
    extra = []
    for kind in draw(st.lists(st.sampled_from(["copy", "multiple", "sum", "constant"]), max_size=3)):
        one, other = draw(st.integers(0, metrics - 1)), draw(st.integers(0, metrics - 1))
        extra.append(
            {
                "copy": values[:, one],
                "multiple": 0.5 - 2.0 * values[:, one],
                "sum": values[:, one] + values[:, other],
                "constant": np.full(samples, 3.0),
            }[kind]
        )
    return np.column_stack((values, *extra)), draw(arrays(np.float64, samples, elements=whole))


@pytest.mark.slow
@given(small())
def test_what_each_candidate_would_bring_is_what_the_loop_finds(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    values, target = drawn
    ahead = LinearClimb(values, target)
    chosen: list[int] = []
    while True:
        gains, _ = ahead.gains()
        for column in range(values.shape[1]):
            if np.isfinite(gains[column]):
                expected = cross_validated(values[:, [*chosen, column]], target)
                assert gains[column] == pytest.approx(expected, rel=1e-9, abs=1e-9)
            elif column not in chosen and target.std() > 0.0:
                # It tells nothing: with it R^2 is what it was.
                without = cross_validated(values[:, chosen], target)
                expected = cross_validated(values[:, [*chosen, column]], target)
                assert expected == pytest.approx(without, rel=1e-9, abs=1e-9)
        if not np.isfinite(gains).any() or len(chosen) == 4:
            break
        chosen.append(int(np.argmax(gains)))
        ahead.add(chosen[-1])
        if len(chosen) < len(target) - 1:
            errors = ahead.errors()
            r2 = 1.0 - float(errors @ errors)
            assert r2 == pytest.approx(cross_validated(values[:, chosen], target), rel=1e-9, abs=1e-9)


@pytest.mark.slow
@given(small(), st.integers(1, 5))
def test_the_same_metrics_are_chosen_in_the_same_order(drawn: tuple[np.ndarray, np.ndarray], most: int) -> None:
    values, target = drawn
    columns = list(range(values.shape[1]))
    expected, r2 = slow_climb(values, target, columns, minimum_gain=0.01, most=most)
    found = climb(values, target, np.array(columns), minimum_gain=0.01, most=most)
    assert found.r2 == pytest.approx(r2, rel=1e-9, abs=1e-9)
    if found.columns != expected:
        # Of different metrics that are as good but for rounding either may come first.
        at = next(
            place for place, (one, other) in enumerate(zip(found.columns, expected, strict=False)) if one != other
        )
        one, other = (cross_validated(values[:, each[: at + 1]], target) for each in (found.columns, expected))
        assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize(("samples", "metrics"), [(2, 5), (4, 8), (9, 30), (10, 60), (11, 60), (35, 40), (120, 30)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_real_numbers_give_the_same_choice_and_r2(samples: int, metrics: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    load = chance.lognormal(size=samples)
    values = load[:, None] * chance.normal(size=metrics) + chance.normal(size=(samples, metrics))
    values = 1e9 * chance.lognormal(0.0, 5.0, metrics) * (values + 3.0)
    target = load + 2e-9 * values[:, 1] / values[:, 1].std() + 0.1 * chance.normal(size=samples)
    columns = chance.permutation(metrics)
    expected, r2 = slow_climb(values, target, columns.tolist(), minimum_gain=0.001, most=6)
    found = climb(values, target, columns, minimum_gain=0.001, most=6)
    assert found.columns == expected
    assert found.r2 == pytest.approx(r2, rel=1e-9)


def test_the_sign_of_what_is_left_is_the_coefficients(chance: np.random.Generator) -> None:
    values = chance.normal(size=(50, 6))
    target = values @ np.array([3.0, -2.0, 1.0, -0.5, 0.4, -0.3]) + 0.01 * chance.normal(size=50)
    ahead = LinearClimb(values, target)
    ahead.add(0)
    ahead.add(1)
    b = [LinearRegression().fit(values[:, [0, 1, column]], target).coef_[-1] for column in range(2, 6)]
    np.testing.assert_array_equal(ahead.gains()[1][2:], np.sign(b))


def test_it_is_what_scikit_learn_selects(chance: np.random.Generator) -> None:
    values = chance.normal(size=(60, 12))
    target = values[:, 3] - 0.7 * values[:, 8] + 0.4 * values[:, 1] + 0.3 * chance.normal(size=60)
    found = climb(values, target, np.arange(12), minimum_gain=0.0, most=3)
    # Squared errors of folds of equal size have the same order as R^2 of all predictions together.
    selector = SequentialFeatureSelector(
        LinearRegression(),
        n_features_to_select=3,
        scoring="neg_mean_squared_error",
        cv=PredefinedSplit(folds_of(60)),
    )
    assert sorted(found.columns) == sorted(selector.fit(values, target).get_support(indices=True).tolist())
    assert found.columns == [3, 8, 1]


def test_of_identical_metrics_the_first_candidate_is_chosen_and_no_copy_after_it(chance: np.random.Generator) -> None:
    target = chance.normal(size=20)
    values = np.repeat((target + 0.5 * chance.normal(size=20))[:, None], 300, axis=1)
    for first in (0, 7, 299):
        columns = np.roll(np.arange(300), -first)
        assert climb(values, target, columns, minimum_gain=0.0, most=5).columns == [first]


@pytest.mark.parametrize(
    ("values", "target"),
    [
        (np.ones((10, 3)), np.arange(10.0)),
        (np.arange(30.0).reshape(10, 3), np.ones(10)),
        (np.zeros((10, 3)), np.zeros(10)),
        (np.arange(6.0).reshape(2, 3), np.arange(2.0)),
        (np.arange(3.0).reshape(1, 3), np.arange(1.0)),
        (np.empty((10, 0)), np.arange(10.0)),
    ],
)
def test_where_nothing_can_be_told_nothing_is_chosen(values: np.ndarray, target: np.ndarray) -> None:
    found = climb(values, target, np.arange(values.shape[1]), minimum_gain=0.0, most=3)
    assert found.columns == []
    assert found.r2 == 0.0


def test_a_metric_is_added_for_more_than_the_minimum_gain_and_no_more_than_asked_for(
    chance: np.random.Generator,
) -> None:
    values = chance.normal(size=(200, 5))
    target = values @ np.array([4.0, 2.0, 1.0, 0.5, 0.0]) + 0.1 * chance.normal(size=200)
    steps = [climb(values, target, np.arange(5), minimum_gain=0.0, most=most) for most in range(1, 6)]
    gains = np.diff([0.0, *(step.r2 for step in steps)])
    assert [len(step.columns) for step in steps[:4]] == [1, 2, 3, 4]
    for most in range(1, 5):
        above = climb(values, target, np.arange(5), minimum_gain=float(gains[most - 1]) - 1e-9, most=5)
        below = climb(values, target, np.arange(5), minimum_gain=float(gains[most - 1]) + 1e-9, most=5)
        assert (len(above.columns), len(below.columns)) == (most, most - 1)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_the_unit_does_not_matter(chance: np.random.Generator, scale: float) -> None:
    values = chance.normal(size=(30, 6))
    target = values[:, 2] + 0.5 * values[:, 4] + 0.1 * chance.normal(size=30)
    expected = climb(values, target, np.arange(6), minimum_gain=0.01, most=4)
    for found in (
        climb(values * scale, target, np.arange(6), minimum_gain=0.01, most=4),
        climb(values, target * scale, np.arange(6), minimum_gain=0.01, most=4),
    ):
        assert found.columns == expected.columns
        assert found.r2 == pytest.approx(expected.r2, rel=1e-9)


@pytest.mark.parametrize("samples", [1, 2, 9, 10, 11, 400])
def test_folds_are_as_many_as_asked_for_or_as_there_are_samples_and_of_equal_size(samples: int) -> None:
    sizes = np.bincount(folds_of(samples))
    assert len(sizes) == min(samples, FOLDS)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("kind", ["neighbours", "tree"])
def test_the_climb_of_other_kinds_is_algorithm_2(chance: np.random.Generator, kind: Kind) -> None:
    values = chance.normal(size=(40, 5))
    target = np.sin(values[:, 3]) + (values[:, 1] > 0.0) + 0.1 * chance.normal(size=40)
    variance = float(((target - target.mean()) ** 2).sum())
    chosen, old, left = list[int](), 0.0, list(range(5))
    while left:
        tried: dict[int, float] = {}
        for column in left:
            errors = target - cross_predicted(kind, values[:, [*chosen, column]], target)
            tried[column] = 1.0 - float((errors**2).sum()) / variance
        best = max(tried, key=tried.__getitem__)
        if tried[best] - old <= 0.01:
            break
        chosen, old = [*chosen, best], tried[best]
        left.remove(best)
    found = climb_kind(kind, values, target, np.arange(5), minimum_gain=0.01, most=5)
    assert found.columns == chosen
    assert found.r2 == old
    assert set(chosen) >= {1, 3}
