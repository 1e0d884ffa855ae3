"""The sliding covariances against numpy's on the samples of each window, and the streams that break naive ones."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.operators.covariance.windows import CYCLE, LIFE, Windows
from tests.operators.conftest import plain

LENGTHS = (2, 5, 17)


def batch(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance in two passes, from the first sample on: numpy's mean of values near 1e9 loses digits."""
    shifted = samples - samples[0]
    covariance = np.full((samples.shape[1],) * 2, np.nan)
    if len(samples) > 1:
        covariance = np.atleast_2d(np.cov(shifted, rowvar=False))
    return samples[0] + shifted.mean(axis=0), covariance


def check(windows: Windows, length: int, slot: int, samples: np.ndarray, rtol: float) -> None:
    """Errors are relative to the spreads of both metrics; what is constant has none."""
    assert windows.counts(length)[slot] == len(samples)
    mean, covariance = windows.means(length)[slot], windows.covariances(length)[slot]
    if not len(samples):
        assert np.isnan(mean).all()
        assert np.isnan(covariance).all()
        return
    wanted_mean, wanted = batch(samples)
    if len(samples) == 1:
        np.testing.assert_allclose(mean, wanted_mean, rtol=1e-15)
        assert np.isnan(covariance).all()
        return
    spread = np.sqrt(np.diagonal(wanted))
    assert (np.abs(mean - wanted_mean) <= rtol * spread + 4e-16 * np.abs(wanted_mean)).all()
    assert (np.abs(covariance - wanted) <= rtol * np.outer(spread, spread)).all()
    if length != LIFE:
        constant = (samples == samples[0]).all(axis=0)
        assert (covariance[constant] == 0.0).all()


STEP = st.fixed_dictionaries(
    {
        "there": st.lists(st.booleans(), min_size=3, max_size=3),
        "offset": st.sampled_from([0.0, 0.0, 1e9, -1e9, 1e60]),
        "spread": st.sampled_from([0.0, 1e-3, 1.0, 1.0, 1e6]),
        "missing": st.sampled_from([None, None, None, np.nan, np.inf, 1e308]),
        "born_again": st.sampled_from([False] * 9 + [True]),
        "seed": st.integers(0, 2**32 - 1),
    }
)


@pytest.mark.slow
@given(st.lists(STEP, min_size=1, max_size=60))
def test_every_window_equals_the_batch_formulas_while_members_come_and_go(steps: list[dict]) -> None:
    windows = Windows(2, LENGTHS)
    slots = windows.claim(3)
    seen: dict[int, list[np.ndarray | None]] = {int(slot): [] for slot in slots}
    for step in steps:
        chance = np.random.default_rng(step["seed"])
        if step["born_again"]:
            windows.release(slots[1:2])
            assert windows.claim(1).tolist() == [1]
            seen[1] = []
        there = np.array(step["there"])
        values = step["offset"] + step["spread"] * chance.integers(-8, 9, (3, 2)) / 8.0
        if step["missing"] is not None:
            values[2, chance.integers(2)] = step["missing"]
        windows.add(slots[there], values[there])
        for slot in range(3):
            counts = there[slot] and not (slot == 2 and step["missing"] is not None)
            seen[slot].append(values[slot] if counts else None)
        for slot in range(3):
            for length in (*LENGTHS, LIFE):
                there_then = [each for each in seen[slot][-length:] if each is not None]
                check(windows, length, slot, np.array(there_then).reshape(-1, 2), rtol=1e-9)


def long_stream(ticks: int, lengths: tuple[int, ...], every: int) -> None:
    """Spikes, levels that step, constants, drifts and gaps, around 0 and 1e9; compared now and then."""
    chance = np.random.default_rng(3)
    members, metrics = 6, 3
    windows = Windows(metrics, lengths)
    slots = windows.claim(members)
    kept: deque[np.ndarray] = deque(maxlen=max(lengths))
    whole = []
    level = np.zeros((members, metrics))
    spread = np.ones((members, metrics))
    for tick in range(ticks):
        if tick % 97 == 0:
            level = chance.choice([0.0, 1.0, 1e6, 1e9], (members, metrics))
            spread = chance.choice([0.0, 1e-2, 1.0, 1e5], (members, metrics))
        values = level + spread * chance.normal(size=level.shape)
        values[:, 2] += values[:, 1]
        values[chance.random(members) < 0.01] *= 1e6
        values[0, 0] = 0.1  # no power of two, as 7.0 would be
        values[chance.random(members) < 0.05, chance.integers(metrics)] = np.nan
        windows.add(slots, values)
        kept.append(values)
        whole.append(values)
        if tick % every == every - 1 or tick == ticks - 1:
            for slot in range(members):
                for length in lengths:
                    samples = np.array(kept)[-length:, slot]
                    check(windows, length, slot, samples[~np.isnan(samples).any(axis=1)], rtol=1e-10)
    for slot in range(members):
        samples = np.array(whole)[:, slot]
        check(windows, LIFE, slot, samples[~np.isnan(samples).any(axis=1)], rtol=1e-10)


@pytest.mark.slow
def test_no_error_builds_up() -> None:
    long_stream(3 * CYCLE, (4, 30, 130), every=13)


@pytest.mark.slow
def test_no_error_builds_up_in_100_000_ticks() -> None:
    long_stream(100_000, (12, 48, 192), every=501)


def test_an_error_is_gone_after_a_cycle() -> None:
    windows = Windows(1, (20,))
    slots = windows.claim(3)
    values = np.random.default_rng(1).normal(size=(CYCLE, 3, 1))
    for each in values[:-20]:
        windows.add(slots, each)
    windows._moments.arrays["squares"][0] += 1e-3
    for each in values[-20:]:
        windows.add(slots, each)
    wanted = [batch(values[-20:, slot])[1][0, 0] for slot in range(3)]
    assert (windows.covariances(20)[:, 0, 0] > np.array(wanted) + 1e-5).all()
    for each in values[:3]:
        windows.add(slots, each)
    for slot in range(3):
        check(windows, 20, slot, np.concatenate([values[-17:, slot], values[:3, slot]]), rtol=1e-14)


@pytest.mark.slow
def test_around_1e9_a_spread_of_1_keeps_its_digits_for_life() -> None:
    values = 1e9 + np.random.default_rng(1).normal(size=(20_000, 1, 2))
    windows = Windows(2, (12,))
    slots = windows.claim(1)
    for each in values:
        windows.add(slots, each)
    check(windows, LIFE, 0, values[:, 0], rtol=1e-12)
    check(windows, 12, 0, values[-12:, 0], rtol=1e-12)


def test_a_constant_metric_has_exactly_no_variance_as_soon_as_its_window_is_constant() -> None:
    windows = Windows(2, (8, 64))
    slots = windows.claim(1)
    chance = np.random.default_rng(2)
    for tick in range(300):
        windows.add(slots, np.array([[0.1 if tick >= 100 else 1e9 * chance.random(), chance.random()]]))
        assert (windows.covariances(8)[0, 0] == 0.0).all() == (tick >= 107)
        assert (windows.covariances(64)[0, 0] == 0.0).all() == (tick >= 163)


def test_a_member_that_is_gone_empties_its_windows_and_keeps_its_life() -> None:
    windows = Windows(1, (3,))
    slots = windows.claim(2)
    for value in (1.0, 3.0):
        windows.add(slots, np.array([[value], [value]]))
    for _ in range(3):
        windows.add(slots[:1], np.array([[2.0]]))
    assert windows.counts(3).tolist() == [3, 0]
    assert windows.counts(LIFE).tolist() == [5, 2]
    assert np.isnan(windows.means(3)[1, 0])
    assert windows.covariances(LIFE)[1].tolist() == [[2.0]]


def test_slots_are_used_again_and_remember_nothing() -> None:
    windows = Windows(2, (4,), limit=3)
    first = windows.claim(3)
    assert first.tolist() == [0, 1, 2]
    windows.add(first, np.arange(6.0).reshape(3, 2))
    windows.release(np.array([2, 0]))
    assert len(windows) == 1
    assert windows.claim(1).tolist() == [0]
    assert windows.counts(4)[0] == windows.counts(LIFE)[0] == 0
    assert np.isnan(windows.samples(np.array([0]), 4)).all()
    assert windows.claim(1).tolist() == [2]
    with pytest.raises(ValueError, match="at most 3 members, got 4"):
        windows.claim(1)


def test_the_samples_of_a_window_come_oldest_first() -> None:
    windows = Windows(1, (2, 3))
    slots = windows.claim(2)
    assert windows.samples(slots, 3).shape == (2, 0, 1)
    for tick in range(5):
        windows.add(slots, np.array([[tick], [np.nan if tick == 3 else -tick]]))
    assert windows.samples(slots, 3)[0, :, 0].tolist() == [2.0, 3.0, 4.0]
    np.testing.assert_array_equal(windows.samples(slots[1:], 99)[0, :, 0], [-2.0, np.nan, -4.0])


@pytest.mark.parametrize("cut", [0, 1, 7, CYCLE - 1])
def test_a_restored_one_goes_on_bit_for_bit(cut: int) -> None:
    chance = np.random.default_rng(cut)
    original = Windows(3, LENGTHS)
    used: list[int] = []

    def step(*both: Windows) -> None:
        nonlocal used
        if chance.random() < 0.2 or not used:
            used = [*used, *next(iter({tuple(each.claim(2).tolist()) for each in both}))]
        if chance.random() < 0.05:
            gone, used = used[:1], used[1:]
            for each in both:
                each.release(np.array(gone))
        values = chance.lognormal(0.0, 6.0, (len(used), 3))
        for each in both:
            each.add(np.array(used), values)

    for _ in range(cut):
        step(original)
    state = original.snapshot()
    restored = Windows(3, LENGTHS)
    restored.restore(state)
    for _ in range(60):
        step(original, restored)
    assert plain(original.snapshot()) == plain(restored.snapshot())
    assert state["tick"] == cut  # a copy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, (2,)), "expected a metric"),
        ((1, ()), r"lengths=\[\]"),
        ((1, (1, 2)), "2 ticks and more"),
        ((1, (3, 3)), "different windows"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Windows(*arguments)


def test_values_that_do_not_fit_are_refused() -> None:
    windows = Windows(2, (2,))
    slots = windows.claim(1)
    with pytest.raises(ValueError, match=r"2 metrics of each of 1 slots that were claimed, got \(1, 3\)"):
        windows.add(slots, np.zeros((1, 3)))
    windows.release(slots)
    with pytest.raises(ValueError, match="that were claimed"):
        windows.add(slots, np.zeros((1, 2)))
    with pytest.raises(ValueError, match="expected a window of 2, 0, got 3"):
        windows.means(3)
    state = windows.snapshot()
    with pytest.raises(ValueError, match=r"ring: expected the shape \(4, 2, 1\), got \(2, 2, 1\)"):
        Windows(2, (4,)).restore(state)
    with pytest.raises(ValueError, match="at most 1 slots, got 2"):
        Windows(2, (2,), limit=1).restore({"used": [True, True]})
