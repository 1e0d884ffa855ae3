"""The incremental Gaussians against batch formulas, river's statistics, and the cases where naive ones break."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from river import proba, stats

from laggard.operators.gaussian.moments import Block, Moments

VALUES = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)
SERIES = hnp.arrays(np.float64, hnp.array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=12), elements=VALUES)


def learned(series: np.ndarray, present: np.ndarray | None = None) -> Moments:
    block = Block.empty(*series.shape[1:])
    for tick, values in enumerate(series):
        block.learn(values, None if present is None else present[tick])
    return block.moments()


@given(SERIES)
def test_every_prefix_equals_the_batch_formulas_and_river(series: np.ndarray) -> None:
    block = Block.empty(*series.shape[1:])
    mean, variance, gaussian = stats.Mean(), stats.Var(), proba.Gaussian()
    for count, values in enumerate(series, start=1):
        block.learn(values, None)
        moments = block.moments()
        scale = np.abs(series[:count]).max() + 1.0
        np.testing.assert_allclose(moments.mean, series[:count].mean(axis=0), atol=1e-12 * scale)
        for river_one in (mean, variance, gaussian):
            river_one.update(float(values[0, 0]))
        assert moments.mean[0, 0] == pytest.approx(mean.get(), abs=1e-10 * scale)
        assert moments.mean[0, 0] == pytest.approx(gaussian.mu, abs=1e-10 * scale)
        if count > 1:
            batch = series[:count].var(axis=0, ddof=1)
            np.testing.assert_allclose(moments.variance(), batch, rtol=1e-9, atol=1e-12 * scale**2)
            assert moments.variance()[0, 0] == pytest.approx(variance.get(), rel=1e-9, abs=1e-9 * scale**2)


@given(SERIES)
def test_a_block_that_is_known_to_be_empty_learns_the_same_bits(series: np.ndarray) -> None:
    known = Block.empty(*series.shape[1:])
    unknown = Block(*(np.zeros(series.shape[1:]) for _ in range(4)))
    for values in series:
        known.learn(values, None)
        unknown.learn(values, None)
        for part in ("weight", "first", "total", "squares"):
            assert getattr(known, part).tobytes() == getattr(unknown, part).tobytes()


@given(SERIES, st.data())
def test_absent_values_change_nothing_in_their_cell(series: np.ndarray, data: st.DataObject) -> None:
    present = data.draw(hnp.arrays(np.bool_, series.shape))
    moments = learned(np.where(present, series, 0.0), present)
    for row, feature in np.ndindex(*series.shape[1:]):
        there = series[present[:, row, feature], row, feature]
        alone = learned(there.reshape(-1, 1, 1))
        assert moments.weight[row, feature] == len(there)
        assert moments.mean[row, feature] == alone.mean[0, 0]
        assert moments.squares[row, feature] == alone.squares[0, 0]


@given(SERIES, SERIES)
def test_merging_two_parts_equals_learning_the_whole(first: np.ndarray, second: np.ndarray) -> None:
    rows, features = np.minimum(first.shape[1:], second.shape[1:])
    first, second = first[:, :rows, :features], second[:, :rows, :features]
    whole = np.concatenate([first, second])
    merged = learned(first).merged(learned(second), 1.0)
    scale = np.abs(whole).max() + 1.0
    np.testing.assert_allclose(merged.mean, whole.mean(axis=0), atol=1e-11 * scale)
    np.testing.assert_allclose(merged.squares, whole.var(axis=0) * len(whole), rtol=1e-8, atol=1e-10 * scale**2)


def test_forgetting_weighs_each_block_by_its_age() -> None:
    blocks = np.random.default_rng(1).normal(3.0, 2.0, (5, 4, 1, 1))
    moments = Moments.empty(1, 1)
    for block in blocks:
        moments = moments.merged(learned(block), 0.5)
    weights = np.repeat(0.5 ** np.arange(4, -1, -1), 4)
    values = blocks.ravel()
    mean = np.average(values, weights=weights)
    assert moments.weight[0, 0] == pytest.approx(weights.sum())
    assert moments.mean[0, 0] == pytest.approx(mean)
    assert moments.squares[0, 0] == pytest.approx(np.sum(weights * (values - mean) ** 2))


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, -3.3, 1e15, 1e-300, 1e150])
def test_a_constant_has_exactly_no_spread(constant: float) -> None:
    moments = learned(np.full((1000, 1, 1), constant)).merged(learned(np.full((50, 1, 1), constant)), 0.9)
    assert moments.mean[0, 0] == constant
    assert moments.squares[0, 0] == 0.0


def test_a_small_spread_on_a_large_offset_keeps_its_digits() -> None:
    values = 1e15 + np.random.default_rng(2).integers(-8, 9, 5000).astype(float)
    moments = learned(values[:4000].reshape(-1, 1, 1)).merged(learned(values[4000:].reshape(-1, 1, 1)), 1.0)
    assert moments.variance()[0, 0] == pytest.approx(
        np.var(values - 1e15, ddof=1), rel=0.02
    )  # the mean has steps of 1/8 there


def test_nothing_and_one_value_have_no_variance() -> None:
    empty = Moments.empty(2, 3).merged(Moments.empty(2, 3), 0.5)
    assert not empty.weight.any()
    assert not empty.variance().any()
    assert not learned(np.ones((1, 2, 3))).variance().any()
    assert learned(np.ones((4, 0, 3))).mean.shape == (0, 3)


def test_learning_through_the_head_is_learning() -> None:
    block = Block.empty(3, 4)
    head = block.head(2, 3)
    head.learn(np.ones((2, 3)), None)
    assert head.settle()
    block.learn(np.full((3, 4), 4.0), None)
    moments = block.moments()
    assert moments.weight.sum() == 18
    assert moments.mean[:2, :3] == pytest.approx(2.5)
    assert (moments.mean[2] == 4.0).all()
    assert (moments.mean[:, 3] == 4.0).all()
