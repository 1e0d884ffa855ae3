"""The distance of Förstner and Moonen: what a metric promises, and what singular covariances make of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from laggard.operators.covariance import distance
from laggard.operators.covariance.distance import FLOOR, centre, foerstner_moonen, pairwise, tangent, whiten

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 6)


def pool(chance: np.random.Generator, members: int, metrics: int, decades: float = 1.0) -> np.ndarray:
    """Random covariances, standard deviations over some decades."""
    samples = chance.normal(size=(members, 3 * metrics + 3, metrics))
    samples *= 10.0 ** chance.uniform(-decades, decades, (members, 1, metrics))
    found: np.ndarray = np.einsum("nti,ntj->nij", samples, samples) / samples.shape[1]
    return found


def slow_pairwise(covariances: np.ndarray) -> np.ndarray:
    return np.array([[foerstner_moonen(a, b) for b in covariances] for a in covariances])


def affine(chance: np.random.Generator, metrics: int) -> np.ndarray:
    mapped: np.ndarray = chance.normal(size=(metrics, metrics))
    assume(np.linalg.cond(mapped) < 1e3)
    return mapped


def test_the_distance_by_hand() -> None:
    # det(A - lambda B) = (2 - 8 lambda)(3 - lambda): ln^2(1/4) + ln^2 3.
    a, b = np.diag([2.0, 3.0]), np.diag([8.0, 1.0])
    assert foerstner_moonen(a, b) == pytest.approx(math.hypot(math.log(4.0), math.log(3.0)), rel=1e-14)
    # A = [[2, 1], [1, 2]] has the eigenvalues 1 and 3.
    assert foerstner_moonen(np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(2)) == pytest.approx(math.log(3.0), rel=1e-14)


@pytest.mark.parametrize(("singular", "which"), [(0, "first"), (1, "second")])
def test_a_pair_that_is_singular_is_refused(singular: int, which: str) -> None:
    both = [np.eye(2), np.eye(2)]
    both[singular] = np.diag([1.0, 0.0])
    with pytest.raises(ValueError, match=f"positive definite covariances, the {which} is not"):
        foerstner_moonen(*both)


@settings(max_examples=60, deadline=None)
@given(SEEDS, SIZES, st.integers(1, 9))
def test_all_pairs_equal_each_pair_alone(seed: int, metrics: int, members: int) -> None:
    covariances = pool(np.random.default_rng(seed), members, metrics)
    found = pairwise(covariances)
    np.testing.assert_allclose(found, slow_pairwise(covariances), rtol=1e-6, atol=1e-6)
    assert (found == found.T).all()
    assert (np.diagonal(found) == 0.0).all()


@pytest.mark.parametrize("chunk", [1, 112, 800])
def test_parts_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    covariances = pool(np.random.default_rng(chunk), 23, 4)
    whole = pairwise(covariances)
    monkeypatch.setattr(distance, "CHUNK", chunk)
    np.testing.assert_array_equal(pairwise(covariances), whole)


@settings(max_examples=60, deadline=None)
@given(SEEDS, SIZES, st.booleans())
def test_it_is_a_metric_also_where_some_are_singular(seed: int, metrics: int, singular: bool) -> None:
    chance = np.random.default_rng(seed)
    covariances = pool(chance, 6, metrics)
    if singular:
        covariances[:3] *= chance.integers(0, 2, (3, metrics))[:, None, :] * chance.integers(0, 2, (3, metrics, 1))
        covariances[:3] = [np.diag(np.diagonal(each)) for each in covariances[:3]]
    found = pairwise(covariances)
    assert np.isfinite(found).all()
    assert (found >= 0.0).all()
    assert (found[:, :, None] <= found[:, None, :] + found.T[None, :, :] + 1e-6).all()


@settings(max_examples=60, deadline=None)
@given(SEEDS, SIZES)
def test_affine_maps_change_nothing(seed: int, metrics: int) -> None:
    chance = np.random.default_rng(seed)
    covariances, mapped = pool(chance, 5, metrics), affine(chance, metrics)
    np.testing.assert_allclose(pairwise(mapped @ covariances @ mapped.T), pairwise(covariances), rtol=1e-6, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(2, 5))
def test_affine_maps_change_nothing_where_members_are_singular(seed: int, metrics: int) -> None:
    chance = np.random.default_rng(seed)
    covariances, mapped = pool(chance, 5, metrics, decades=0.3), affine(chance, metrics)
    covariances[0, 0, :] = covariances[0, :, 0] = 0.0
    found, wanted = pairwise(mapped @ covariances @ mapped.T, floor=1e-6), pairwise(covariances, floor=1e-6)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "mapped",
    [
        np.diag([1e12, 1.0, 1e-9]),
        np.eye(5, 3, -1),
        np.vstack([np.eye(3), [1.0, 0.0, 0.0], [2.0, -1.0, 0.5]]),
    ],
    ids=["units of any size", "metrics that are constant for all", "metrics that follow from others for all"],
)
def test_what_says_nothing_changes_nothing(mapped: np.ndarray) -> None:
    covariances = pool(np.random.default_rng(5), 8, 3)
    more = mapped @ covariances @ mapped.T
    assert whiten(more).shape == covariances.shape
    np.testing.assert_allclose(pairwise(more), pairwise(covariances), rtol=1e-7)


def test_a_metric_that_is_constant_for_one_sets_it_apart_as_far_as_the_floor_has_it() -> None:
    covariances = np.array([np.eye(3)] * 5)
    covariances[4, 2, 2] = 0.0
    found = pairwise(covariances)
    assert found[:4, :4].max() == 0.0
    # The pool's mean variance is 4/5; its share of that is the floor.
    np.testing.assert_allclose(found[4, :4], math.log(1.0 / (0.8 * FLOOR)), rtol=1e-9)


def test_no_member_is_further_below_the_pool_than_the_floor_has_it() -> None:
    covariances = pool(np.random.default_rng(8), 6, 3)
    covariances[4, 2], covariances[4, :, 2] = 0.0, 0.0
    found = whiten(covariances, floor=1e-3)
    least = np.linalg.eigvalsh(found)[:, 0]
    np.testing.assert_allclose(least[4], 1e-3, rtol=1e-6)
    assert np.delete(least, 4).min() > 1e-3
    assert np.isfinite(tangent(found)).all()


def test_noise_of_measurement_bounds_what_a_constant_metric_says() -> None:
    covariances = np.array([np.eye(2)] * 3)
    covariances[2, 1, 1] = 0.0
    found = pairwise(covariances, noise=np.diag([0.0, 1.0 / 12.0]))
    np.testing.assert_allclose(found[2, 0], math.log(13.0), rtol=1e-12)


def test_two_that_are_constant_in_different_metrics_keep_their_digits() -> None:
    """Eigenvalues are 1e18 apart there, more than a float has digits."""
    covariances = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])])
    turned = np.array([[0.6, -0.8], [0.8, 0.6]])
    wanted = math.sqrt(2.0) * math.log(2.0 / FLOOR)
    np.testing.assert_allclose(pairwise(turned @ covariances @ turned.T)[0, 1], wanted, rtol=1e-6)


def test_none_one_and_nothing_that_varies() -> None:
    assert pairwise(np.zeros((0, 3, 3))).shape == (0, 0)
    assert pairwise(np.ones((1, 1, 1))).tolist() == [[0.0]]
    assert pairwise(np.zeros((4, 2, 2))).tolist() == np.zeros((4, 4)).tolist()
    assert pairwise(np.array([np.full((2, 2), 1e9)] * 3)).max() == 0.0


@pytest.mark.parametrize(
    ("covariances", "floor", "message"),
    [
        (np.zeros((2, 3)), FLOOR, r"shape \(members, metrics, metrics\), got \(2, 3\)"),
        (np.array([np.eye(2), np.full((2, 2), np.nan)]), FLOOR, "that of member 1 is not"),
        (np.ones((2, 1, 1)), 0.0, "floor between 0 and 1, got 0.0"),
    ],
)
def test_what_makes_no_sense_is_refused(covariances: np.ndarray, floor: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pairwise(covariances, floor=floor)


@settings(max_examples=40, deadline=None)
@given(SEEDS, SIZES)
def test_the_center_is_where_the_logarithms_sum_to_zero(seed: int, metrics: int) -> None:
    chance = np.random.default_rng(seed)
    covariances, mapped = pool(chance, 7, metrics), affine(chance, metrics)
    middle = centre(covariances)
    assert np.abs(tangent(covariances, middle).mean(axis=0)).max() < 1e-8
    moved = centre(mapped @ covariances @ mapped.T)
    assert foerstner_moonen(moved, mapped @ middle @ mapped.T) < 1e-6


def test_one_member_of_many_moves_the_center_little() -> None:
    covariances = np.array([np.eye(1)] * 10)
    covariances[0] = 1e10
    assert centre(covariances)[0, 0] == pytest.approx(10.0, rel=1e-9)


def lengths(vectors: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
    return found


@settings(max_examples=60, deadline=None)
@given(SEEDS, SIZES)
def test_vectors_are_never_further_apart_than_members_and_as_far_from_the_center(seed: int, metrics: int) -> None:
    chance = np.random.default_rng(seed)
    covariances = pool(chance, 6, metrics)
    middle = centre(covariances)
    vectors = tangent(covariances, middle)
    assert (lengths(vectors) <= pairwise(covariances) + 1e-6).all()
    wanted = [foerstner_moonen(each, middle) for each in covariances]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), wanted, rtol=1e-6, atol=1e-7)
    mapped = affine(chance, metrics)
    moved = tangent(mapped @ covariances @ mapped.T)
    np.testing.assert_allclose(lengths(moved), lengths(vectors), rtol=1e-5, atol=1e-5)


def test_vectors_of_members_that_commute_are_exact() -> None:
    chance = np.random.default_rng(8)
    axes = np.linalg.qr(chance.normal(size=(4, 4)))[0]
    covariances = (axes * chance.lognormal(0.0, 2.0, (9, 1, 4))) @ axes.T
    np.testing.assert_allclose(lengths(tangent(covariances)), pairwise(covariances), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("samples", "least"), [(50, 0.97), (500, 0.997)])
def test_vectors_of_a_pool_that_behaves_alike_are_nearly_exact(samples: int, least: float) -> None:
    values = np.random.default_rng(9).normal(size=(80, samples, 5))
    covariances = np.einsum("nti,ntj->nij", values, values) / samples
    upper = np.triu_indices(80, 1)
    shares = lengths(tangent(covariances))[upper] / pairwise(covariances)[upper]
    assert shares.min() > least
