"""DBSCAN's noise compared with scikit-learn's, and an estimated eps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.cluster import DBSCAN

from laggard.operators.requests import outliers
from laggard.operators.requests.outliers import core_distances, core_gaps, estimated_eps, noise

# Multiples of a quarter: distances and their squares are exact, so that many are exactly eps, and points come twice.
QUARTERS = st.integers(-8, 8).map(lambda each: each / 4.0)


@st.composite
def crowds(draw: st.DrawFn) -> np.ndarray:
    shape = draw(st.tuples(st.integers(1, 60), st.integers(1, 4)))
    return draw(arrays(np.float64, shape, elements=QUARTERS))


@pytest.mark.slow
@given(crowds(), st.integers(1, 20).map(lambda each: each / 4.0), st.integers(1, 12))
def test_noise_is_that_of_dbscan(points: np.ndarray, eps: float, minimum_points: int) -> None:
    expected = DBSCAN(eps=eps, min_samples=minimum_points, algorithm="brute").fit(points).labels_ == -1
    assert noise(points, eps, minimum_points).tolist() == expected.tolist()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.01, 3.0), st.integers(1, 40))
def test_noise_is_that_of_dbscan_for_any_numbers(seed: int, eps: float, minimum_points: int) -> None:
    chance = np.random.default_rng(seed)
    points = chance.normal(size=(200, 5)) * chance.lognormal(0.0, 1.0, (200, 1))
    expected = DBSCAN(eps=eps, min_samples=minimum_points).fit(points).labels_ == -1
    assert noise(points, eps, minimum_points).tolist() == expected.tolist()


@given(crowds(), st.integers(1, 12))
def test_core_distances_are_those_of_all_pairs(points: np.ndarray, minimum_points: int) -> None:
    pairs = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    pairs.sort(axis=1)
    enough = len(points) >= minimum_points
    expected = pairs[:, minimum_points - 1] if enough else np.full(len(points), math.inf)
    assert core_distances(points, minimum_points).tolist() == expected.tolist()


def test_more_points_than_are_looked_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(3).normal(size=(500, 3))
    whole = core_distances(points, 7)
    monkeypatch.setattr(outliers, "BLOCK", 64)
    assert np.array_equal(core_distances(points, 7), whole)


def test_many_requests_that_are_the_same_take_no_longer() -> None:
    """A tree that holds each of them would compare each with all."""
    points = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [50.0, 50.0]]), [100_000, 20_000, 99], axis=0)
    found = noise(points, 5.0, 100)
    assert found.sum() == 99
    assert found[-99:].all()


def test_none_and_one() -> None:
    assert noise(np.empty((0, 3)), 1.0, 2).shape == (0,)
    assert noise(np.zeros((1, 3)), 1.0, 1).tolist() == [False]
    assert noise(np.zeros((1, 3)), 1.0, 2).tolist() == [True]
    assert core_gaps(np.zeros((2, 1)), np.empty((0, 1))).tolist() == [math.inf, math.inf]
    assert core_gaps(np.array([[3.0], [0.0]]), np.zeros((1, 1))).tolist() == [3.0, 0.0]


def test_a_far_offset_changes_nothing() -> None:
    points = np.round(8.0 * np.random.default_rng(4).normal(size=(300, 2))) / 4.0
    found = noise(points, 0.5, 8)
    assert 0 < found.sum() < 300
    assert noise(points + 2.0**30, 0.5, 8).tolist() == found.tolist()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    points = np.zeros((5, 2))
    points[3, 1] = bad
    for refuse in (lambda: noise(points, 1.0, 2), lambda: core_gaps(points, points)):
        with pytest.raises(ValueError, match=f"point 3, feature 1: expected a finite number, got {bad}"):
            refuse()


def test_parameters_out_of_range_are_refused() -> None:
    points = np.zeros((5, 2))
    with pytest.raises(ValueError, match="eps is nan: expected 0 or more"):
        noise(points, math.nan, 2)
    with pytest.raises(ValueError, match="eps is -1"):
        noise(points, -1.0, 2)
    with pytest.raises(ValueError, match="minimum_points is 0: expected 1"):
        noise(points, 1.0, 0)
    for shape in ((5,), (5, 0)):
        with pytest.raises(ValueError, match=r"points of shape \(5,.*\): expected \(points, features\)"):
            noise(np.zeros(shape), 1.0, 2)


def requests(seed: int, count: int = 3000, far: int = 30) -> np.ndarray:
    """Requests of three dense regions, the last of them outliers."""
    chance = np.random.default_rng(seed)
    points = chance.choice([20.0, 60.0, 120.0], (count, 1)) + chance.gamma(2.0, 2.0, (count, 4))
    points[count - far :] += chance.uniform(80.0, 800.0, (far, 4))
    return points


@pytest.mark.parametrize("far", [0, 30, 300])
def test_the_estimated_eps_finds_what_is_far_out(far: int) -> None:
    points = requests(5, far=far)
    eps = estimated_eps(points, 50)
    found = noise(points, eps, 50)
    assert found[len(points) - far :].all()
    assert found[: len(points) - far].mean() < 0.01
    # In any unit, and with a tenth of the requests and of those that make one core.
    assert estimated_eps(points / 1000.0, 50) == pytest.approx(eps / 1000.0)
    assert estimated_eps(points[::10], 5) == pytest.approx(eps, rel=0.5)


def test_an_eps_is_estimated_where_most_requests_are_the_same() -> None:
    assert estimated_eps(np.zeros((200, 2)), 50) == 0.0
    points = np.zeros((200, 2))
    points[:10] = np.arange(1, 21).reshape(10, 2)
    assert noise(points, estimated_eps(points, 50), 50)[:10].sum() == 9
    with pytest.raises(ValueError, match="49 points: expected 50 or more"):
        estimated_eps(np.zeros((49, 2)), 50)
