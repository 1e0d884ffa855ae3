"""k-means beside scikit-learn's, the elbow, and when there is but one cluster."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from laggard.operators.requests import clusters
from laggard.operators.requests.clusters import clustered, elbow, k_means, scale_of


def blobs(seed: int, sizes: list[int], *, apart: float = 10.0, features: int = 4) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = np.zeros((len(sizes), features))
    centres[np.arange(len(sizes)), np.arange(len(sizes)) % features] = apart * (1 + np.arange(len(sizes)) // features)
    return centres[labels] + chance.normal(size=(len(labels), features)), labels


@pytest.mark.parametrize("k", range(1, 9))
def test_the_inertia_is_that_of_scikit_learn(k: int) -> None:
    points, _ = blobs(1, [40, 20, 10, 5, 5])
    found, theirs = k_means(points, k), KMeans(k, n_init=20, random_state=42).fit(points)
    assert found.inertia <= theirs.inertia_ * (1 + 1e-9 if k <= 5 else 1.02)
    if k <= 5:
        assert adjusted_rand_score(found.labels, theirs.labels_) == 1.0


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 3)).flatmap(
        lambda shape: arrays(np.float64, shape, elements=st.integers(-3, 3).map(float))
    ),
    st.integers(1, 6),
    st.integers(0, 100),
)
def test_every_point_is_with_the_nearest_center_and_every_center_is_a_mean(
    points: np.ndarray, k: int, seed: int
) -> None:
    k = min(k, len(np.unique(points, axis=0)))
    found = k_means(points, k, restarts=3, seed=seed)
    sizes = np.bincount(found.labels)
    assert len(sizes) == k
    assert sizes.min() > 0
    assert sizes.tolist() == sorted(sizes, reverse=True)
    distances = cdist(points, found.centres, "sqeuclidean")
    mine = distances[np.arange(len(points)), found.labels]
    assert mine == pytest.approx(distances.min(axis=1), abs=1e-9)
    assert found.inertia == pytest.approx(mine.sum(), abs=1e-9)
    for label, centre in enumerate(found.centres):
        assert centre == pytest.approx(points[found.labels == label].mean(axis=0), abs=1e-12)


def test_a_cluster_that_loses_its_points_begins_again_at_the_farthest() -> None:
    points = np.array([[0.0], [0.1], [10.0], [10.1]])
    labels, inertia = clusters._lloyd(points, np.array([[0.0], [10.0], [1e9]]))
    assert len(np.unique(labels)) == 3
    assert inertia == pytest.approx(0.005)


def test_the_same_seed_gives_the_same_bit_for_bit() -> None:
    points, _ = blobs(2, [30, 30, 9])
    one, two = clustered(points, seed=5), clustered(points, seed=5)
    assert one.labels.tolist() == two.labels.tolist()
    assert one.centres.tobytes() == two.centres.tobytes()
    assert one.inertia == two.inertia


@pytest.mark.parametrize("sizes", [[30, 20], [100, 40, 10], [116, 36, 5], [60, 60, 60]])
def test_clusters_that_are_apart_are_found(sizes: list[int]) -> None:
    points, labels = blobs(3, sizes)
    assert adjusted_rand_score(clustered(points).labels, labels) == 1.0


def test_of_many_clusters_some_may_be_joined_but_none_is_split() -> None:
    """The other side of the elbow: that of the inertia's logarithm would find all five here, and split elsewhere."""
    points, labels = blobs(4, [50] * 5, apart=30.0)
    found = clustered(points).labels
    assert 3 <= found.max() + 1 <= 5
    assert all(len(np.unique(found[labels == each])) == 1 for each in range(5))


@pytest.mark.slow
def test_one_cluster_is_rarely_split() -> None:
    split = dict.fromkeys(("normal", "even", "log-normal"), 0)
    for seed in range(25):
        chance = np.random.default_rng(seed)
        split["normal"] += int(clustered(chance.normal(size=(60, 4)) * [1, 2, 3, 9]).labels.any())
        split["even"] += int(clustered(chance.uniform(size=(60, 3))).labels.any())
        split["log-normal"] += int(clustered(chance.lognormal(0.0, 0.8, (60, 4))).labels.any())
    assert split["normal"] == split["even"] == 0
    assert split["log-normal"] <= 4


def test_one_two_and_equal_points() -> None:
    assert clustered(np.zeros((1, 3))).labels.tolist() == [0]
    assert clustered(np.array([[0.0], [9.0]])).labels.tolist() == [0, 0]
    found = clustered(np.full((20, 2), 1e9))
    assert (found.labels.tolist(), found.inertia) == ([0] * 20, 0.0)


def test_what_cannot_be_clustered_is_refused() -> None:
    with pytest.raises(ValueError, match="3 clusters of 2 distinct points"):
        k_means(np.array([[0.0], [0.0], [1.0]]), 3)
    with pytest.raises(ValueError, match="0 clusters"):
        k_means(np.zeros((3, 1)), 0)
    with pytest.raises(ValueError, match="1 clusters of 0 distinct points"):
        clustered(np.empty((0, 2)))
    with pytest.raises(ValueError, match="no inertias"):
        elbow([])
    with pytest.raises(ValueError, match="expected finite points"):
        clustered(np.array([[math.nan]]))


@pytest.mark.parametrize(
    ("inertias", "clusters"),
    [
        # As scikit-learn gives them for the 157 published outliers, for 1 to 10 clusters.
        ([115207.15, 53673.57, 18645.25, 12167.07, 8333.21, 5152.5, 3279.49, 2524.63, 2263.2, 2054.61], 3),
        ([100.0, 1.0, 0.5, 0.2], 2),
        ([5.0], 1),
        ([5.0, 0.0], 1),
        ([0.0, 0.0, 0.0], 1),
        ([4.0, 3.0, 2.0, 1.0], 1),
    ],
    ids=["published", "sharp", "of one", "of two", "of nothing", "of a straight line"],
)
def test_the_elbow_is_where_more_clusters_bring_little(inertias: list[float], clusters: int) -> None:
    assert elbow(inertias) == clusters


def test_the_scale_is_that_of_scikit_learn() -> None:
    counts = np.random.default_rng(7).poisson([3.0, 200.0, 0.5], (500, 3)).astype(float)
    counts = np.column_stack((counts, np.full(500, 7.1), np.zeros(500)))
    mean, deviation = scale_of(counts)
    assert (counts - mean) / deviation == pytest.approx(StandardScaler().fit_transform(counts), abs=1e-9)


def test_what_is_spread_evenly_varies_along_the_same_axes_as_much() -> None:
    points = np.random.default_rng(2).normal(size=(4000, 3)) * [5.0, 1.0, 0.2]
    spread = clusters._spread_evenly(points, 7)
    np.testing.assert_allclose(spread.std(axis=0), [5.0, 1.0, 0.2], rtol=0.1)
    np.testing.assert_allclose(spread.mean(axis=0) / [5.0, 1.0, 0.2], 0.0, atol=0.1)
