"""Isomap beside scikit-learn's, and the threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.manifold import Isomap

from laggard.operators.requests.isomap import isomap, picture, threshold


def rolled(count: int) -> tuple[np.ndarray, np.ndarray]:
    """A sheet that is rolled up, and how far along each point is."""
    chance = np.random.default_rng(1)
    angle = np.pi * (1 + 1.5 * chance.random(count))
    points = np.column_stack((angle * np.cos(angle), 8 * chance.random(count), angle * np.sin(angle)))
    return points, angle


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", [8, 15])
def test_places_are_as_far_from_each_other_as_with_scikit_learn(neighbours: int) -> None:
    points, angle = rolled(400)
    found = isomap(points, neighbours=neighbours)
    theirs = Isomap(n_neighbors=neighbours, n_components=2, eigen_solver="dense").fit_transform(points)
    assert pdist(found) == pytest.approx(pdist(theirs), rel=1e-6, abs=1e-6)
    assert abs(np.corrcoef(found[:, 0], angle)[0, 1]) > 0.95
    assert found.std(axis=0)[0] > found.std(axis=0)[1]
    assert (found.max(axis=0) == np.abs(found).max(axis=0)).all()


def test_what_is_in_one_line_keeps_its_distances_even_in_pieces() -> None:
    line = np.concatenate((np.arange(30.0), np.arange(30.0) + 500.0))[:, None] * [[0.6, 0.8]]
    found = isomap(line, neighbours=3)
    assert pdist(found) == pytest.approx(pdist(line))
    assert found[:, 1] == pytest.approx(0.0, abs=1e-4)


def test_points_at_one_place_stay_at_one_place() -> None:
    points = np.repeat(np.array([[0.0, 0.0], [3.0, 4.0]]), 20, axis=0)
    found = isomap(points)
    assert np.abs(found[0] - found[-1]) == pytest.approx([5.0, 0.0])
    assert (found[:20] == found[0]).all()
    assert isomap(np.ones((3, 2))).tolist() == [[0.0, 0.0]] * 3
    assert isomap(np.empty((0, 2))).shape == (0, 2)
    with pytest.raises(ValueError, match="expected finite"):
        isomap(np.full((2, 2), math.nan))


def test_a_picture_has_all_outliers_and_a_sample_of_the_rest() -> None:
    points, _ = rolled(400)
    outlying = np.zeros(400, bool)
    outlying[[3, 77, 399]] = True
    found = picture(points, outlying, sample=50)
    assert len(found.requests) == len(found.places) == 53
    assert set(np.flatnonzero(outlying)) <= set(found.requests)
    assert (np.diff(found.requests) > 0).all()
    again = picture(points, outlying, sample=50)
    assert (again.requests.tolist(), again.places.tobytes()) == (found.requests.tolist(), found.places.tobytes())
    assert picture(points, outlying, sample=50, seed=1).requests.tolist() != found.requests.tolist()
    assert len(picture(points, outlying).requests) == 400


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=40))
def test_the_threshold_calls_as_few_wrongly_as_any(requests: list[tuple[int, bool]]) -> None:
    durations = np.array([each for each, _ in requests], float)
    outlying = np.array([each for _, each in requests])
    cuts = [-1.0, *durations, math.inf]
    least = min(((durations > cut) != outlying).sum() for cut in cuts if cut >= durations.min())
    assert ((durations > threshold(durations, outlying)) != outlying).sum() == least


def test_thresholds_by_hand() -> None:
    durations = np.array([300.0, 100.0, 200.0, 900.0])
    assert threshold(durations, np.array([False, False, False, True])) == 600.0
    assert threshold(durations, np.zeros(4, bool)) == math.inf
    assert threshold(durations, np.array([False, True, False, False])) == math.inf
    for wrong in (np.zeros(3, bool), np.zeros((4, 1), bool)):
        with pytest.raises(ValueError, match="expected one each"):
            threshold(durations, wrong)
    with pytest.raises(ValueError, match="expected one each"):
        threshold(np.empty(0), np.empty(0, bool))
