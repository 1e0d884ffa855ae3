"""Ward's clusters and their p-values: against plain loops, exact enumeration, and figures of R's pvclust."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage

from laggard.operators.covariance import clustering
from laggard.operators.covariance.clustering import SCALES, au_p_values, cluster_shares, support, ward
from tests.operators.covariance.slow_clustering import members, slow_ward

# The result of `msfit` of pvclust 2.2-0 (R) for shares at 0.5, 0.6 ... 1.4 and 1,000 replicates: au, bp, v, c, se.au.
# Made-up shares that cover its branches, then edges 2, 3, 9, 12 and 16 of a real run: pvclust(lung[1:100, 1:20],
# "minkowski", "ward.D2"). Published as fixtures of pvclust-py (github.com/NIH-NLM/pvclust-py, tests/fixtures).
ZEROS, ONES = [0.0] * 10, [1.0] * 10
MSFIT: dict[str, tuple[list[float], tuple[float, ...]]] = {
    "strong": (
        [0.60, 0.66, 0.72, 0.78, 0.84, 0.88, 0.91, 0.94, 0.96, 0.975],
        (0.999312891405593, 0.88649018629048, -2.20404207795348, 0.995970230352339, 0.000242715723642567),
    ),
    "weak": (
        [0.30, 0.33, 0.36, 0.39, 0.42, 0.45, 0.48, 0.51, 0.54, 0.57],
        (0.910147877915832, 0.461290817370459, -0.622241967241361, 0.719424253789858, 0.0127646374814312),
    ),
    "near one": (
        [0.90, 0.93, 0.95, 0.965, 0.978, 0.985, 0.990, 0.994, 0.996, 0.998],
        (0.998627503750357, 0.985351889587926, -2.5872084741447, 0.407731061278447, 0.000825907836594145),
    ),
    "never": (ZEROS, (0.0, 0.0, 0.0, 0.0, 0.0)),
    "always": (ONES, (1.0, 1.0, 0.0, 0.0, 0.0)),
    "hardly ever": ([0.0005] * 10, (0.0, 0.0, 0.0, 0.0, 0.0)),
    "nearly always": ([0.9995] * 10, (1.0, 1.0, 0.0, 0.0, 0.0)),
    "two scales": ([0.0] * 8 + [0.4, 0.6], (0.0, 0.0, 0.0, 0.0, 0.0)),
    "three scales": (
        [0.0] * 7 + [0.3, 0.4, 0.6],
        (1.0, 0.067529781088095, -4.35120533026412, 5.84564950742003, 7.97532763974688e-24),
    ),
    "from never to always": (
        [0.0, 0.001, 0.01, 0.2, 0.5, 0.8, 0.95, 0.999, 1.0, 1.0],
        (1.0, 0.806461844769262, -8.48178607292558, 7.61685443327984, 8.3344467029905e-58),
    ),
    "lung 2": (
        [0.974, 0.974, 0.990, 0.993, 0.990, 0.995, 1.0, 0.999, 1.0, 1.0],
        (0.988349378059037, 0.994677013700065, -2.41128433435217, -0.142825312078903, 0.0115367953679106),
    ),
    "lung 3": (
        [0.879, 0.917, 0.936, 0.952, 0.971, 0.975, 0.980, 0.983, 0.986, 0.987],
        (0.99067162041209, 0.972303639993996, -2.13405108959814, 0.218268070231676, 0.0035599794586628),
    ),
    "lung 9": (
        [0.216, 0.219, 0.253, 0.256, 0.260, 0.240, 0.268, 0.250, 0.265, 0.262],
        (0.584745667513032, 0.255262961778582, 0.221984882911783, 0.436034115171569, 0.0328784238125515),
    ),
    "lung 12": (
        [0.108, 0.117, 0.138, 0.173, 0.179, 0.196, 0.199, 0.207, 0.218, 0.222],
        (0.812440978043046, 0.188120648382394, -0.00104213269393595, 0.885885164773484, 0.0253256659506954),
    ),
    "lung 16": (
        [0.522, 0.575, 0.612, 0.637, 0.683, 0.707, 0.738, 0.763, 0.746, 0.766],
        (0.917772743579338, 0.701167097555606, -0.959002552387051, 0.431242382021159, 0.0121488934188076),
    ),
}


@pytest.mark.parametrize("case", MSFIT)
def test_the_fit_is_that_of_pvclust(case: str) -> None:
    shares, wanted = MSFIT[case]
    found = support(np.array([shares]), SCALES, 1000)
    np.testing.assert_allclose([part[0] for part in found], wanted, rtol=1e-9, atol=1e-12)


def test_a_mean_share_of_one_half_counts_as_found() -> None:
    assert support(np.array([[0.0] * 5 + [1.0] * 5]), SCALES, 1000).au.tolist() == [1.0]


def test_clusters_are_fitted_each_alone() -> None:
    together = support(np.array([shares for shares, _ in MSFIT.values()]), SCALES, 1000)
    for at, (shares, _) in enumerate(MSFIT.values()):
        alone = support(np.array([shares]), SCALES, 1000)
        assert [part[at] for part in together] == [part[0] for part in alone]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(1, 6))
def test_the_tree_is_that_of_lance_and_williams(seed: int, count: int, rows: int) -> None:
    data = np.random.default_rng(seed).normal(size=(rows, count))
    merges = ward(data)
    clusters, heights = slow_ward(data)
    assert members(merges) == clusters
    np.testing.assert_allclose(merges[:, 2], heights, rtol=1e-9)
    assert merges[:, 3].tolist() == [len(each) for each in clusters]


def test_the_tree_by_hand() -> None:
    # 0 and 1 merge at 1. To 9 it is then (2 * 9 + 2 * 8 - 1 * 1) / 3 = 11.
    assert ward(np.array([[0.0, 1.0, 9.0]])).round(9).tolist() == [[0.0, 1.0, 1.0, 2.0], [2.0, 3.0, 11.0, 3.0]]


@pytest.mark.parametrize("data", [np.zeros((3, 1)), np.array([[0.0, np.nan]]), np.zeros(3)])
def test_what_cannot_be_clustered_is_refused(data: np.ndarray) -> None:
    with pytest.raises(ValueError, match="finite data of two objects and more in columns, got the shape"):
        ward(data)


# floor(rows * r) / rows, as pvclust has it: of few rows several scales are one.
@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        (2, [1, 2]),
        (8, [4, 5, 6, 7, 8, 9, 10, 11]),
        (10, [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
        (63, [31, 37, 44, 50, 56, 63, 69, 75, 81, 88]),
    ],
)
def test_samples_have_whole_numbers_of_rows(rows: int, sizes: list[int]) -> None:
    data = np.random.default_rng(1).normal(size=(rows, 3))
    _, scales = cluster_shares(data, ward(data), replicates=1, seed=0)
    np.testing.assert_allclose(scales * rows, sizes)


def test_shares_are_those_of_all_samples_there_are() -> None:
    """Seven objects, three rows: of each size all 3^size samples are enumerated."""
    data = np.random.default_rng(2).normal(size=(3, 7))
    merges = ward(data)
    replicates = 4_000
    shares, scales = cluster_shares(data, merges, replicates=replicates, seed=3)
    wanted = np.zeros_like(shares)
    for at, size in enumerate((scales * 3).round().astype(int)):
        samples = list(itertools.product(range(3), repeat=size))
        for sample in samples:
            clusters = slow_ward(data[list(sample)])[0]
            wanted[:, at] += [each in clusters for each in members(merges)]
        wanted[:, at] /= len(samples)
    assert ((wanted > 0.0) & (wanted < 1.0)).sum() > 10
    assert (wanted[-1] == 1.0).all()
    error = np.sqrt(wanted * (1.0 - wanted) / replicates)
    assert (np.abs(shares - wanted) <= 4.0 * error).all()


@pytest.mark.parametrize("count", [5, 64, 65, 80])
def test_clusters_are_told_apart_also_where_bits_do_not_suffice(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    chance = np.random.default_rng(count)
    data = chance.normal(size=(12, count)) + 3.0 * chance.normal(size=(12, 4))[:, chance.integers(0, 4, count)]
    merges = ward(data)
    trees: list[np.ndarray] = []

    def noted(*arguments: Any) -> np.ndarray:
        trees.append(linkage(*arguments))
        return trees[-1]

    monkeypatch.setattr(clustering, "linkage", noted)
    shares, scales = cluster_shares(data, merges, replicates=20, seed=1)
    found = [set(members(tree)) for tree in trees]
    wanted = [
        [sum(each in tree for tree in found[20 * at : 20 * at + 20]) / 20 for at in range(len(scales))]
        for each in members(merges)
    ]
    np.testing.assert_array_equal(shares, wanted)
    assert 0.0 < shares[:-1].mean() < 1.0


def test_memory_is_bounded_by_parts_that_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(4).normal(size=(9, 7))
    merges = ward(data)
    whole = cluster_shares(data, merges, replicates=50, seed=1)[0]
    monkeypatch.setattr(clustering, "DISTANCES", 50)
    monkeypatch.setattr(clustering, "PAIRS", 5)
    np.testing.assert_array_equal(cluster_shares(data, merges, replicates=50, seed=1)[0], whole)


def test_a_seed_gives_the_same_values_again() -> None:
    data = np.random.default_rng(5).normal(size=(10, 10))
    merges = ward(data)
    first = au_p_values(data, merges, replicates=50, seed=1)
    np.testing.assert_array_equal(first, au_p_values(data, merges, replicates=50, seed=1))
    assert (first != au_p_values(data, merges, replicates=50, seed=2)).any()


def test_clusters_that_are_there_are_supported_and_the_whole_always_is() -> None:
    chance = np.random.default_rng(6)
    groups = np.array([0] * 6 + [1] * 3)
    data = chance.normal(size=(60, 9)) + 1.5 * chance.normal(size=(60, 2))[:, groups]
    merges = ward(data)
    p_values = dict(zip(members(merges), au_p_values(data, merges, replicates=200), strict=True))
    assert p_values[frozenset({0, 1, 2, 3, 4, 5})] > 95.0
    assert p_values[frozenset({6, 7, 8})] > 95.0
    assert p_values[frozenset(range(9))] == 100.0
    assert min(p_values.values()) < 95.0


def test_two_members_and_members_that_are_all_alike() -> None:
    assert au_p_values(np.array([[0.0, 1.0], [1.0, 0.0]]), ward(1.0 - np.eye(2)), replicates=10).tolist() == [100.0]
    alike = np.zeros((5, 5))
    merges = ward(alike)
    assert merges[:, 2].max() == 0.0
    assert au_p_values(alike, merges, replicates=10).tolist() == [100.0] * 4


def test_merges_of_other_data_are_refused() -> None:
    with pytest.raises(ValueError, match=r"merges of 3 objects, got replicates=10, \(1, 4\)"):
        au_p_values(np.zeros((3, 3)), ward(np.eye(2)), replicates=10)
    with pytest.raises(ValueError, match="expected a replicate"):
        au_p_values(np.eye(2), ward(np.eye(2)), replicates=0)
