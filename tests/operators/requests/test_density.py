"""Noise against a sliding reference is DBSCAN's noise on that reference, however it slid there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from laggard.operators.requests.density import FIRST, Density
from laggard.operators.requests.outliers import core_distances, core_gaps


def _filled(points: np.ndarray, **given_: object) -> Density:
    density = Density(**given_)  # type: ignore[arg-type]
    for number, point in enumerate(points):
        density.learn(float(number), point, outlier=False)
    return density


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from([150, 300, 1000]))
def test_it_scores_like_dbscan_over_what_it_keeps(seed: int, minimum_points: int, size: int) -> None:
    chance = np.random.default_rng(seed)
    points = np.round(chance.standard_exponential((400, 3)) * 8) / 8  # ties at exactly eps
    density = _filled(points, eps=0.5, minimum_points=minimum_points, size=size)
    kept = points[-size:]
    for point in np.round(chance.standard_exponential((10, 3)) * 8) / 4:
        among = np.vstack([kept, point])
        enough = min(minimum_points, max(5, int(len(kept) * 0.05)))
        core = core_distances(among, enough) <= 0.5
        if core[-1]:
            assert density.score(point) == 0.0
            continue
        old = core_distances(kept, enough) <= 0.5  # of those before: a new one makes no other a core point
        gap = core_gaps(point[None], kept[old])[0] / 0.5
        assert density.score(point) == pytest.approx(gap)


def test_a_trouble_that_lasts_is_no_dense_region_before_it_has_lasted_long() -> None:
    chance = np.random.default_rng(3)
    density = Density(eps=1.0, minimum_points=20, size=2_000, settle_s=600.0)
    for number in range(1_000):
        density.learn(number * 0.1, chance.normal(size=2) * 0.2, outlier=False)
    trouble = np.array([10.0, 0.0])
    scores = []
    for number in range(200):
        ts = 100.0 + number * 5.0
        vector = trouble + chance.normal(size=2) * 0.1
        scores.append(density.score(vector))
        density.learn(ts, vector, outlier=scores[-1] > 1.0)
    assert min(scores[:120]) > 1.0  # ten minutes
    assert scores[-1] == 0.0


def test_eps_is_estimated_and_follows_what_requests_are_like() -> None:
    chance = np.random.default_rng(4)
    density = Density(eps=None, minimum_points=20, size=1_000)
    assert math.isnan(density.eps)
    assert density.score(np.zeros(2)) == 0.0
    for number in range(2_000):
        density.learn(float(number), chance.normal(size=2), outlier=False)
    before = density.eps
    assert density.score(np.array([8.0, 0.0])) > 1.0
    for number in range(2_000, 6_000):
        density.learn(float(number), chance.normal(size=2) * 10.0, outlier=False)
    assert 5.0 * before < density.eps < 20.0 * before
    assert density.score(np.array([8.0, 0.0])) == 0.0


def test_few_points_are_not_judged_and_more_dimensions_may_come() -> None:
    density = Density(eps=1.0, minimum_points=5, size=500)
    for number in range(FIRST - 1):
        density.learn(float(number), np.zeros(1), outlier=False)
        assert density.score(np.array([100.0])) == 0.0
    density.learn(99.0, np.zeros(1), outlier=False)
    assert density.score(np.array([0.0, 3.0])) == 3.0
    density.learn(100.0, np.array([0.0, 3.0]), outlier=True)
    assert density.score(np.array([4.0])) == 4.0


def test_a_state_goes_on_where_it_was_written_down() -> None:
    chance = np.random.default_rng(5)
    one = Density(eps=None, minimum_points=10, size=300)
    points = chance.normal(size=(900, 3))
    for number, point in enumerate(points[:450]):
        one.learn(float(number * 10), point, outlier=number % 17 == 0)
    other = Density(eps=None, minimum_points=10, size=300)
    other.restore(one.snapshot())
    for number, point in enumerate(points[450:], 450):
        assert one.score(point) == other.score(point)
        one.learn(float(number * 10), point, outlier=number % 17 == 0)
        other.learn(float(number * 10), point, outlier=number % 17 == 0)
    for name, value in one.snapshot().items():
        assert_array_equal(value, other.snapshot()[name])
    with pytest.raises(ValueError, match="vectors"):
        Density(eps=1.0, minimum_points=10, size=100).restore(one.snapshot())


def test_what_was_written_down_stays_as_it_was_when_it_is_full() -> None:
    chance = np.random.default_rng(9)
    density = _filled(chance.normal(size=(300, 2)), eps=0.5, minimum_points=5, size=300)
    written = density.snapshot()
    before = written["vectors"].copy()
    density.learn(300.0, np.array([7.0, 8.0]), outlier=False)
    assert_array_equal(written["vectors"], before)
