"""The statistics of members against their siblings: what they are if nothing deviates, and what is kept of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from laggard.operators.covariance.bank import SETTLED, Bank
from laggard.operators.covariance.estimates import median, normal
from laggard.operators.covariance.extremes import BLOCK, PRIOR_DEVIATION, PRIOR_MEAN
from tests.operators.conftest import plain

WINDOWS = (4, 12)


def fed(values: np.ndarray, *, groups: list[int] | None = None, resolution: float = 0.0) -> Bank:
    """A bank that has seen values of shape (ticks, members, metrics), a second each."""
    _, members, metrics = values.shape
    bank = Bank(np.full(metrics, resolution), WINDOWS)
    slots = bank.claim(members)
    numbers = np.array(groups or [0] * members)
    for tick, each in enumerate(values):
        bank.take(bank.compare(float(tick), slots, each, numbers, 1.0), each)
    return bank


def looked(bank: Bank, values: np.ndarray, *, groups: list[int] | None = None) -> np.ndarray:
    """Statistics of a tick at which all members are there."""
    numbers = np.array(groups or [0] * len(values))
    return bank.compare(1e6, np.arange(len(values)), values, numbers, 1.0).statistics


def test_medians_are_those_of_what_is_known(chance: np.random.Generator) -> None:
    x = chance.normal(size=(40, 7))
    np.testing.assert_array_equal(median(x), np.median(x, axis=1))
    x[chance.random(x.shape) < 0.4] = np.nan
    x[3] = np.nan
    known = np.isfinite(x).any(axis=1)
    np.testing.assert_array_equal(median(x)[known], np.nanmedian(x[known], axis=1))
    assert np.isnan(median(x)[~known]).all()


@pytest.mark.parametrize("degrees", [2.0, 4.0, 9.0, 40.0])
def test_students_t_becomes_normal(degrees: float) -> None:
    t = np.array([-6.0, -2.0, 0.0, 0.5, 1.0, 3.0, 8.0])
    exact = stats.norm.isf(stats.t.sf(t, degrees))
    np.testing.assert_allclose(normal(t, np.array(degrees)), exact, atol=0.05 + 0.2 / degrees**2)
    assert np.isfinite(normal(np.array([1e200, -1e200]), np.array(degrees))).all()


@pytest.mark.slow
def test_statistics_are_standard_normal_while_nothing_deviates() -> None:
    """Levels and changes of the shortest window, which are as good as independent a window later."""
    chance = np.random.default_rng(1)
    members, ticks = 12, 1200
    values = chance.normal(5.0, 1.0, (ticks, members, 2))
    bank = fed(values[:200])
    slots, found = np.arange(members), []
    for tick in range(200, ticks):
        look = bank.compare(float(tick), slots, values[tick], np.zeros(members, np.intp), 1.0)
        found.append(look.statistics)
        bank.take(look, values[tick])
    z = np.array(found)[::8]
    q = bank.traces
    of_levels = z[:, [0, 1]]
    of_changes = z[:, [bank.levels, bank.levels + 1]]
    assert q == 4
    for part in (of_levels, of_changes):
        assert np.isfinite(part).all()
        assert part.mean() == pytest.approx(0.0, abs=0.1)
        assert 0.8 < part.std() < 1.2
        # Of 3,000 this many are beyond 3.5 by chance: 1.4.
        assert np.count_nonzero(np.abs(part) > 3.5) < 12


def test_looking_changes_nothing(chance: np.random.Generator) -> None:
    bank = fed(chance.normal(size=(100, 6, 2)))
    before = plain(bank.snapshot())
    bank.compare(1e6, np.arange(4), chance.normal(1e6, 1.0, (4, 2)), np.zeros(4, np.intp), 1.0)
    assert plain(bank.snapshot()) == before


def test_who_differs_is_further_out_the_more_it_differs(chance: np.random.Generator) -> None:
    bank = fed(chance.normal(size=(200, 8, 1)))
    limit = bank.extremes.evidence_limit(8, 1.0, 1.0)
    last = 0.0
    for far in (10.0, 30.0, 100.0, 1e3, 1e6, 1e12):
        values = chance.normal(size=(8, 1))
        values[5] += far
        tick = bank.compare(1e6, np.arange(8), values, np.zeros(8, np.intp), limit)
        evidence = np.nan_to_num(tick.evidence).max(axis=(0, 1))
        assert evidence.argmax() == 5
        assert evidence[5] > last
        last = evidence[5]
    assert last > limit


def test_members_are_compared_with_those_of_their_group_only(chance: np.random.Generator) -> None:
    """Two groups as far apart as can be: in neither does a member stand out, but together they would."""
    values = chance.normal(size=(200, 8, 1))
    values[:, 4:] += 1e3
    groups = [0] * 4 + [1] * 4
    apart = looked(fed(values, groups=groups), values[-1], groups=groups)
    assert np.nanmax(np.abs(apart)) < 5.0
    shifted = values.copy()
    shifted[:, 4:] -= 1e3
    levels = slice(0, 3 * 2)
    alike = looked(fed(shifted, groups=groups), shifted[-1], groups=groups)
    np.testing.assert_allclose(np.nan_to_num(apart[levels][:, :4]), np.nan_to_num(alike[levels][:, :4]), atol=3.0)


@pytest.mark.parametrize(
    ("members", "ticks", "said"),
    [(1, 100, False), (2, 100, False), (5, SETTLED - 1, False), (5, SETTLED, True)],
    ids=["one", "two", "who is not settled", "who is"],
)
def test_nothing_is_said_of_fewer_than_three_nor_of_whom_is_not_settled(
    members: int, ticks: int, said: bool, chance: np.random.Generator
) -> None:
    bank = fed(chance.normal(size=(ticks, members, 2)))
    found = looked(bank, np.full((members, 2), 9.0))
    assert np.isfinite(found[: bank.levels]).any() == said
    assert said or np.isnan(found).all()


@pytest.mark.parametrize("level", [0.0, -3.0, 1e9])
def test_members_that_are_identical_do_not_differ(level: float) -> None:
    bank = fed(np.full((200, 5, 2), level))
    statistics = looked(bank, np.full((5, 2), level))
    assert np.nanmax(np.abs(statistics)) == 0.0


def test_deviations_below_the_resolution_are_ignored(chance: np.random.Generator) -> None:
    values = 1e-3 * chance.normal(size=(200, 6, 1))
    far = values[-1].copy()
    far[2] += 0.5
    noticed = looked(fed(values), far)
    unnoticed = looked(fed(values, resolution=1.0), far)
    assert np.nanmax(noticed[0]) > 5.0
    assert np.nanmax(np.abs(unnoticed[0])) < 1.0


def test_an_absent_metric_has_no_score_and_does_not_affect_the_others(chance: np.random.Generator) -> None:
    values = chance.normal(size=(200, 6, 2))
    values[:, :, 1] = np.nan
    values[150:, 4, 0] += 20.0
    both, alone = fed(values), fed(values[:, :, :1])
    found = looked(both, values[-1])
    metric = both.metric_of[: both.levels + both.changes]
    assert np.isnan(found[: len(metric)][metric == 1]).all()
    assert both.peaks(np.arange(6)).argmax(axis=1)[0] == alone.peaks(np.arange(6)).argmax(axis=1)[0] == 4


def test_the_worst_is_kept_with_its_time_and_what_was_usual(chance: np.random.Generator) -> None:
    values = chance.normal(10.0, 1.0, (300, 6, 2))
    values[200:230, 3, 1] += 50.0
    bank = fed(values)
    evidence, column, direction, value, usual, spread, ts = bank.largest.worst(np.arange(6))[:, :, 3][:, 1]
    assert evidence == bank.largest.worst(np.arange(6))[0].max()
    assert bank.metric_of[int(column)] == 1
    assert direction == 0.0
    assert 40.0 < value < 65.0
    assert 8.0 < usual < 12.0
    assert 0.0 < spread < 5.0
    assert 200 <= ts < 245


def test_the_stretch_above_the_limit_is_kept(chance: np.random.Generator) -> None:
    values = chance.normal(10.0, 1.0, (300, 6, 1))
    values[200:230, 3] += 80.0
    bank = Bank(np.zeros(1), WINDOWS)
    slots = bank.claim(6)
    limit = bank.extremes.evidence_limit(6, 1.0, 1.0)
    for tick, each in enumerate(values):
        bank.take(bank.compare(float(tick), slots, each, np.zeros(6, np.intp), limit), each)
    begins, untils, _ = bank.runs.best(slots)
    assert 200.0 <= begins[3] < 210.0
    assert 229.0 <= untils[3] <= 299.0
    assert np.isnan(np.delete(begins, 3)).all()
    assert np.isnan(np.delete(untils, 3)).all()


def test_the_limit_grows_with_what_is_compared_and_falls_with_the_budget() -> None:
    bank = Bank(np.zeros(2), WINDOWS)
    usual = bank.extremes.evidence_limit(10, 5.0, 1.0)
    assert bank.extremes.evidence_limit(100, 5.0, 1.0) > usual
    assert bank.extremes.evidence_limit(10, 1.0, 1.0) > usual
    assert bank.extremes.evidence_limit(10, 5.0, 10.0) < usual
    assert Bank(np.zeros(9), WINDOWS).extremes.evidence_limit(10, 5.0, 1.0) > usual
    for interval_s in (0.0, 1e9):
        assert math.isfinite(bank.extremes.evidence_limit(0, interval_s, 1.0))
    # However many false alarms are allowed, who does not differ at all is none.
    assert bank.extremes.evidence_limit(3, 60.0, 1e9) > 0.0


def test_block_maxima_begin_with_a_gumbel_distribution_of_the_prior_mean_and_deviation() -> None:
    """Their distribution is Gumbel's, which has a scale of its own: not the standard deviation."""
    location, scale = Bank(np.zeros(2), WINDOWS).extremes._limits
    np.testing.assert_array_equal(location, PRIOR_MEAN)
    np.testing.assert_allclose(stats.gumbel_r.std(scale=scale), PRIOR_DEVIATION)


def test_a_reused_slot_begins_without_history(chance: np.random.Generator) -> None:
    values = chance.normal(size=(3 * BLOCK, 5, 2))
    values[:, 2] += 1e3
    bank = fed(values)
    assert bank.peaks(np.array([2])).max() > 1.0
    bank.release(np.array([2]))
    assert bank.claim(1).tolist() == [2]
    assert bank.extremes.ticks(np.array([2])).tolist() == [0.0]
    assert bank.peaks(np.array([2])).max() == 0.0
    assert bank.largest.worst(np.array([2])).max() == 0.0
    assert np.isnan(bank.runs.best(np.array([2]))[0]).all()
    assert np.isnan(bank.differences(np.array([2]))).all()


@pytest.mark.slow
def test_a_bank_goes_on_from_a_snapshot_though_members_were_forgotten_since_the_last_block() -> None:
    """A member's peak depends on the members at the last block, not on those that are left."""
    chance = np.random.default_rng(2)
    values = chance.normal(size=(3 * BLOCK, 6, 2)) * np.arange(1.0, 7.0)[:, None] ** 3
    whole, restored = fed(values[: 2 * BLOCK + 5]), Bank(np.zeros(2), WINDOWS)
    whole.release(np.array([5]))
    restored.restore(whole.snapshot())
    left = values[:, :5]
    for tick in range(2 * BLOCK + 5, 3 * BLOCK):
        found = []
        for bank in (whole, restored):
            look = bank.compare(float(tick), np.arange(5), left[tick], np.zeros(5, np.intp), 1.0)
            bank.take(look, left[tick])
            found.append(look.scores.tobytes())
        assert found[0] == found[1]
    assert plain(restored.snapshot()) == plain(whole.snapshot())


def test_more_members_than_there_is_room_for_are_refused() -> None:
    bank = Bank(np.zeros(1), WINDOWS, limit=4)
    bank.claim(3)
    with pytest.raises(ValueError, match="expected at most 4 members, got 5"):
        bank.claim(2)


@pytest.mark.parametrize("part", ["sums", "peak", "runs", "variance", "relation", "limits"])
def test_a_state_that_does_not_fit_is_refused_by_name(part: str, chance: np.random.Generator) -> None:
    state = fed(chance.normal(size=(30, 4, 2))).snapshot()
    with pytest.raises(ValueError, match=rf"{part}: expected the shape"):
        Bank(np.zeros(2), WINDOWS).restore(state | {part: np.zeros(7)})
