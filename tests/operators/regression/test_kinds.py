"""What is fitted on the metrics that were chosen, and how linear models are tracked from then on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from laggard.operators.regression.kinds import (
    BUILT,
    FORGETTING,
    LinearFit,
    cross_predicted,
    estimator,
    fitted,
    restored,
)
from laggard.operators.regression.models import KINDS, Kind
from tests.operators.conftest import plain


def samples(chance: np.random.Generator, count: int = 30, terms: int = 3) -> tuple[np.ndarray, np.ndarray]:
    standard = chance.normal(size=(count, terms))
    values = np.array([5.0, -1e3, 0.4])[:terms] + np.array([1.0, 100.0, 0.1])[:terms] * standard
    return values, 3.0 + standard @ np.array([1.0, -2.0, 0.5][:terms]) + 0.1 * chance.normal(size=count)


def test_a_linear_fit_is_least_squares(chance: np.random.Generator) -> None:
    values, target = samples(chance)
    fit, expected = LinearFit(values, target), LinearRegression().fit(values, target)
    np.testing.assert_allclose(fit.fitted, expected.predict(values), rtol=1e-9)
    np.testing.assert_allclose(fit.coefficients, [expected.intercept_, *expected.coef_], rtol=1e-7)
    assert fit.predict(values[7]) == pytest.approx(float(expected.predict(values[7:8])[0]), rel=1e-9)


def test_its_deviations_are_from_what_is_predicted_without_the_sample(chance: np.random.Generator) -> None:
    values, target = samples(chance)
    expected = target - cross_val_predict(LinearRegression(), values, target, cv=LeaveOneOut())
    np.testing.assert_allclose(LinearFit(values, target).deviations, expected, rtol=1e-7)


def test_the_model_of_nothing_is_the_mean() -> None:
    fit = fitted("tree", np.empty((4, 0)), np.array([1.0, 2.0, 3.0, 6.0]))
    assert fit.predict(np.empty(0)) == pytest.approx(3.0)
    assert fit.coefficients == pytest.approx([3.0])


def test_following_a_sample_is_least_squares_with_forgetting(chance: np.random.Generator) -> None:
    values, target = samples(chance, 200)
    fit, first = LinearFit(values[:20], target[:20]), 20
    begin = np.concatenate(([fit.coefficients[0]], fit.coefficients[1:]))
    for x, y in zip(values[first:], target[first:] + 1.0, strict=True):
        fit.learn(x, float(y))
    # The same sum of squares, minimized at once: all samples with their weights, and the coefficients at the beginning.
    centre, spread = values[:first].mean(axis=0), values[:first].std(axis=0)
    design = np.column_stack((np.ones(len(values)), (values - centre) / spread))
    built = np.concatenate(([begin[0] + begin[1:] @ centre], begin[1:] * spread))
    weights = np.sqrt(FORGETTING ** np.maximum(len(values) - np.maximum(np.arange(len(values)), first - 1) - 1, 0))
    targets = np.concatenate((design[:first] @ built, target[first:] + 1.0))
    rows = np.vstack((design * weights[:, None], np.sqrt(BUILT) * np.eye(4)))
    b = np.linalg.lstsq(rows, np.concatenate((targets * weights, np.sqrt(BUILT) * built)), rcond=None)[0]
    np.testing.assert_allclose(fit.coefficients[1:], b[1:] / spread, rtol=1e-6)
    assert fit.predict(values[3]) == pytest.approx(float(design[3] @ b), rel=1e-9)


@pytest.mark.slow
def test_following_is_stable_for_as_long_as_it_goes_on(chance: np.random.Generator) -> None:
    values, target = samples(chance, 20_000)
    fit = LinearFit(values[:20], target[:20])
    errors = []
    for x, y in zip(values[20:], target[20:], strict=True):
        errors.append(float(y) - fit.predict(x))
        fit.learn(x, float(y))
    # The noise is 0.1, and with a memory of 33 samples three coefficients and an intercept cost a few percent more.
    for part in np.array_split(np.array(errors[100:]), 20):
        assert 0.09 < np.sqrt(np.mean(part * part)) < 0.125


def test_metrics_that_stand_still_and_move_again_are_predicted_as_before(chance: np.random.Generator) -> None:
    values, target = samples(chance, 40)
    fit = LinearFit(values, target)
    still = values.mean(axis=0)
    for _ in range(5_000):
        fit.learn(still, float(target.mean() + 0.1 * chance.normal()))
    further, expected = samples(chance, 40)
    residuals = [y - fit.predict(x) for x, y in zip(further, expected, strict=True)]
    assert np.sqrt(np.mean(np.square(residuals))) < 0.2


def test_two_metrics_that_are_one_stay_in_a_model_without_harm(chance: np.random.Generator) -> None:
    x = chance.normal(size=(3_000, 1))
    values, target = np.hstack((x, x, np.ones_like(x))), 2.0 + x[:, 0]
    fit = LinearFit(values[:10], target[:10])
    for row, y in zip(values[10:], target[10:], strict=True):
        assert fit.predict(row) == pytest.approx(y, abs=1e-6)
        fit.learn(row, float(y))
    assert fit.coefficients[1] == pytest.approx(fit.coefficients[2])


def test_a_value_that_is_missing_or_out_of_all_bounds_is_not_followed(chance: np.random.Generator) -> None:
    values, target = samples(chance)
    fit = LinearFit(values, target)
    before = plain(fit.snapshot())
    for wrong in (np.nan, np.inf, -np.inf, 1e300):
        fit.learn(np.array([wrong, *values[0, 1:]]), 1.0)
    assert plain(fit.snapshot()) == before
    assert np.isnan(fit.predict(np.array([np.nan, *values[0, 1:]])))


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_the_unit_does_not_matter(chance: np.random.Generator, scale: float) -> None:
    values, target = samples(chance, terms=1)
    fit, expected = LinearFit(values * scale, target), LinearFit(values, target)
    assert fit.predict(values[3] * scale) == pytest.approx(expected.predict(values[3]), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_is_restored_predicts_the_same_to_the_bit(chance: np.random.Generator, kind: Kind) -> None:
    values, target = samples(chance)
    fit = fitted(kind, values, target)
    fit.learn(values[4], 2.0)
    snapshot = fit.snapshot()
    again = restored(snapshot)
    for row in [*values, values.mean(axis=0)]:
        assert again.predict(row) == fit.predict(row)
        again.learn(row, 3.0)
        fit.learn(row, 3.0)
    assert plain(again.snapshot()) == plain(fit.snapshot())
    assert plain(fitted(kind, values, target).snapshot()).keys() == snapshot.keys()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("neighbours", KNeighborsRegressor), ("tree", DecisionTreeRegressor), ("boosting", GradientBoostingRegressor)],
)
def test_the_other_kinds_are_scikit_learns(chance: np.random.Generator, kind: Kind, expected: type) -> None:
    values, target = samples(chance, 60)
    assert isinstance(estimator(kind, 60), expected)
    fit = fitted(kind, values, target)
    # In units of each metric's spread: neighbors are near in all metrics alike, and trees do not mind.
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    np.testing.assert_allclose(
        [fit.predict(row) for row in values], estimator(kind, 60).fit(scaled, target).predict(scaled), rtol=1e-9
    )
    assert np.isnan(fit.coefficients).all()
    assert fit.coefficients.shape == (4,)
    errors = target - cross_predicted(kind, values, target)
    np.testing.assert_array_equal(fit.deviations, errors)
    assert 0.0 < np.mean(errors**2) < target.var()


@pytest.mark.parametrize("kind", ["neighbours", "tree", "boosting"])
@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_fewer_samples_than_folds_and_neighbors_are_enough(kind: Kind, count: int) -> None:
    values = np.arange(float(count))[:, None]
    fit = fitted(kind, values, values[:, 0])
    assert np.isfinite(fit.predict(np.array([0.5])))
