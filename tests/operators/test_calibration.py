"""Score 1 is the budget: the rate of false incidents is simulated, beside what was asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import poisson

from laggard.operators import calibration as module
from laggard.operators.calibration import NOTICES, QUIET_S, RANGES, Calibration, Level, anew
from laggard.pipeline.alarms.trigger import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from laggard.operators.calibration import Scale

    Vector = NDArray[np.float64]

DAY_TICKS = 17_280
"""Of 5 s."""


def incidents(calibration: Calibration, raws: Vector, interval_s: float = 5.0) -> list[float]:
    """When incidents of this stream would have been reported."""
    trigger, told = Trigger(), []
    for tick, raw in enumerate(raws.tolist()):
        ts = 1e9 + interval_s * tick
        fires, trigger = trigger.after(ts, calibration.score(raw), QUIET_S)
        if fires:
            told.append(ts)
        calibration.learn(ts, raw)
    return told


def bursts(chance: np.random.Generator, ticks: int) -> Vector:
    """Quiet noise, and bursts of heavy-tailed height that fade over half a minute."""
    raws = chance.exponential(3.0, ticks)
    for at in np.flatnonzero(chance.random(ticks) < 1 / 150):
        after = raws[at : at + 30]
        np.maximum(after, chance.exponential(28.0) * np.exp(-np.arange(len(after)) / 6.0), out=after)
    return raws


def mixture(chance: np.random.Generator, ticks: int) -> Vector:
    """Of ten peaks one is from a distribution with twice the spread."""
    rare = chance.random(ticks) < 0.01
    return np.where(rare, chance.exponential(30.0, ticks), chance.exponential(15.0, ticks))


def rhythm(chance: np.random.Generator, ticks: int) -> Vector:
    """Twice as high by day as by night."""
    return chance.exponential(10.0, ticks) * (1.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(ticks) / DAY_TICKS))


NULLS: dict[str, tuple[Scale, Callable[[np.random.Generator, int], Vector]]] = {
    "exponential": ("linear", lambda chance, ticks: chance.exponential(15.0, ticks)),
    "log-likelihoods of Student's t": (
        "linear",
        lambda chance, ticks: 15.5 * np.log1p(chance.standard_t(1.5, ticks) ** 2 / 31.0),
    ),
    "bursts": ("linear", bursts),
    "mixture": ("linear", mixture),
    "rhythm of the day": ("linear", rhythm),
    "Pareto": ("logarithmic", lambda chance, ticks: chance.pareto(2.5, ticks)),
}


@pytest.mark.slow
@pytest.mark.parametrize("null", NULLS)
def test_no_more_incidents_than_the_budget_allows_and_not_many_fewer(null: str) -> None:
    """After a first day, three days with two budgets; what is outside of its bounds is so by chance in 1 of 1,000."""
    scale, draw = NULLS[null]
    raws = draw(np.random.default_rng(11), 4 * DAY_TICKS)
    for per_day in (2.0, 20.0):
        prior = (140.0, 30.0) if scale == "linear" else (5.5, 0.35)
        told = incidents(Calibration(per_day=per_day, scale=scale, prior=prior), raws)
        later = sum(ts >= 1e9 + 86400.0 for ts in told)
        assert later <= poisson.ppf(0.999, 3.0 * per_day), (per_day, later)
        # It errs on the side of too few.
        assert later >= poisson.ppf(0.001, per_day), (per_day, later)


@pytest.mark.slow
@pytest.mark.parametrize("null", ["mixture", "bursts"])
def test_the_first_day_keeps_the_budget_too(null: str) -> None:
    draws = [NULLS[null][1](np.random.default_rng(seed), DAY_TICKS) for seed in range(4)]
    told = [len(incidents(Calibration(per_day=4.0), raws)) for raws in draws]
    assert sum(told) <= poisson.ppf(0.999, 16.0)


def test_what_is_counted_is_what_would_have_been_told_at_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LASTING_S", "YOUNG_S"):
        monkeypatch.setattr(module, name, math.inf)
    chance = np.random.default_rng(2)
    raws = bursts(chance, 3000)
    raws[chance.random(3000) < 0.01] = np.nan
    # A limit that nothing comes near, so that nothing is cut off.
    calibration = Calibration(per_day=1e-6, memory_s=1e15, prior=(500.0, 30.0))
    times = 1e9 + np.cumsum(chance.choice([1.0, 5.0, 30.0, 90.0], 3000))
    for ts, raw in zip(times, raws, strict=True):
        calibration.learn(ts, raw)
    for level in (1, 3, 10, 25, 60):
        trigger, told = Trigger(), 0
        for ts, raw in zip(times, raws, strict=True):
            # On the grid, what reaches a level is at or above it; a trigger wants it to be above 1.
            fires, trigger = trigger.after(ts, np.nextafter(raw / level, np.inf), QUIET_S)
            told += fires
        assert calibration.snapshot()["counts"][level] == pytest.approx(told, rel=1e-9)
        assert told > 0


def test_a_long_trouble_and_a_huge_spike_teach_little() -> None:
    chance = np.random.default_rng(4)
    calibration = Calibration(per_day=1.0)
    usual = chance.exponential(10.0, 2 * DAY_TICKS)
    incidents(calibration, usual)
    before = calibration.limit
    for tick in range(720):
        calibration.learn(1e9 + 2 * 86400.0 + 5.0 * tick, 450.0)
    assert calibration.limit < 1.5 * before
    calibration.learn(1e9 + 3 * 86400.0, 1e9)
    assert calibration.limit < 2.0 * before


def test_what_comes_more_often_than_the_budget_is_learned() -> None:
    """Each hour the same job, at a level of its own: after some days it is told no more."""
    chance = np.random.default_rng(5)
    raws = chance.exponential(10.0, 6 * DAY_TICKS)
    raws[::720] = 260.0
    told = incidents(Calibration(per_day=1.0), raws)
    last = [ts for ts in told if ts >= 1e9 + 3 * 86400.0]
    assert len(last) <= poisson.ppf(0.999, 3.0)


@pytest.mark.parametrize("raw", [0.0, 7.3, 300.0, 5000.0])
def test_what_never_changes_is_not_told_for_ever(raw: float) -> None:
    calibration = Calibration(per_day=1.0)
    for tick in range(2 * DAY_TICKS):
        calibration.learn(5.0 * tick, raw)
    assert calibration.score(min(raw, 500.0)) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("null", NULLS)
def test_notices_are_a_fixed_multiple_of_incidents(null: str) -> None:
    """After a first day, three days; what is outside of its bounds is so by chance in 1 of 1,000."""
    scale, draw = NULLS[null]
    raws = draw(np.random.default_rng(12), 4 * DAY_TICKS)
    calibration, trigger, told = Calibration(per_day=2.0, scale=scale, notices=True), Trigger(), 0
    for tick, raw in enumerate(raws.tolist()):
        level = calibration.level
        assert level.notice <= 1.0
        fires, trigger = trigger.after(5.0 * tick, level.score(raw) / level.notice, QUIET_S)
        told += fires and tick >= DAY_TICKS
        calibration.learn(5.0 * tick, raw)
    low, high = poisson.ppf([0.0005, 0.9995], 3.0 * 2.0 * NOTICES)
    assert 0.5 * low <= told <= high
    again = Calibration(per_day=2.0, scale=scale, notices=True)
    again.restore(calibration.snapshot())
    assert again.level == calibration.level
    for part in (state := calibration.snapshot()):
        with pytest.raises(ValueError, match=f"calibration: {part}: missing"):
            again.restore({name: value for name, value in state.items() if name != part})
    assert again.level == calibration.level


@pytest.mark.parametrize("scale", RANGES)
def test_scores_grow_with_the_raw_score_and_like_it(scale: Scale) -> None:
    level = Level(scale, 3.0, 2.0)
    raws = np.array([-5.0, 0.0, 1.0, level.limit, 50.0, 1e3, 1e6])
    scores = [level.score(raw) for raw in raws]
    assert scores == sorted(scores)
    assert level.score(level.limit) == pytest.approx(1.0)
    assert level.score(2e6) / level.score(1e6) == pytest.approx(2.0)
    assert level.scores(raws) == pytest.approx(scores)
    assert level.score(math.nan) == 0.0


@pytest.mark.slow
def test_a_larger_budget_has_a_lower_limit() -> None:
    raws = bursts(np.random.default_rng(6), DAY_TICKS)
    limits = []
    for per_day in (0.03, 0.1, 1.0, 10.0, 100.0, 1e4, 1e9):
        calibration = Calibration(per_day=per_day)
        incidents(calibration, raws)
        limits.append(calibration.limit)
    assert limits == sorted(limits, reverse=True)
    assert limits[-1] > 0.0


def test_it_goes_on_from_a_snapshot_as_if_nothing_had_been() -> None:
    raws = bursts(np.random.default_rng(7), 5000)
    one, other = Calibration(per_day=10.0), Calibration(per_day=10.0)
    for tick, raw in enumerate(raws):
        one.learn(5.0 * tick, raw)
        other.learn(5.0 * tick, raw)
        if tick % 700 == 13:
            state, other = other.snapshot(), Calibration(per_day=10.0)
            other.restore(state)
            one.learn(5.0 * tick + 1.0, 3.0)
            other.learn(5.0 * tick + 1.0, 3.0)
        assert one.level == other.level
    state["counts"][:] = 1e9
    assert one.limit < 500.0


def test_a_state_that_does_not_fit_is_refused() -> None:
    state = Calibration().snapshot()
    for name in ("counts", "calm_since"):
        with pytest.raises(ValueError, match=rf"{name}: expected 512 numbers, got 3"):
            Calibration().restore(state | {name: [1.0, 2.0, 3.0]})


def test_a_state_that_counted_ticks_begins_anew() -> None:
    old = {"counts": np.ones(512), "ts": 1e9, "tick_s": 5.0, "ticks": 100.0, "unfitted": 3, "limit": 77.0}
    calibration, fresh = Calibration(), Calibration()
    calibration.restore(anew(old))
    assert calibration.limit == 77.0
    calibration.learn(1e9, 5.0)
    fresh.learn(1e9, 5.0)
    assert calibration.limit == fresh.limit


def test_a_clock_that_steps_back_and_a_machine_that_was_off_stop_nothing() -> None:
    chance = np.random.default_rng(8)
    calibration = Calibration(per_day=10.0)
    for start in (1e9, 1e9 - 1e6, 1e9 + 1e8):
        for tick in range(DAY_TICKS):
            calibration.learn(start + 5.0 * tick, chance.exponential(10.0))
    # A day has 10 that pass exp(-limit / 10) of the ticks: 75.
    assert 65.0 < calibration.limit < 95.0
