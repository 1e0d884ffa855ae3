"""Principal components beside scikit-learn's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.decomposition import PCA

from laggard.operators.requests.principal import principal


def test_places_are_those_of_scikit_learn_but_for_the_sign() -> None:
    points = np.random.default_rng(1).normal(size=(300, 5)) * [5.0, 0.1, 1.0, 3.0, 0.5] + 1e3
    found = principal(points)
    theirs = PCA(2).fit_transform(points)
    assert np.abs(found) == pytest.approx(np.abs(theirs), abs=1e-6)
    assert (found.max(axis=0) == np.abs(found).max(axis=0)).all()


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (4, 0), (4, 1)])
def test_what_spreads_along_fewer_axes_has_0_along_the_others(shape: tuple[int, int]) -> None:
    found = principal(np.arange(float(shape[0] * shape[1])).reshape(shape))
    assert found.shape == (shape[0], 2)
    assert found[:, 1] == pytest.approx(0.0)


def test_no_place_is_given_to_what_is_not_finite() -> None:
    with pytest.raises(ValueError, match="expected finite"):
        principal(np.array([[1.0, math.nan]]))
