"""Streams that machines seldom have: whatever comes, nothing breaks, and a cut or a question leaves no trace."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.operators.covariance import Covariance
from laggard.operators.gaussian import Gaussian
from laggard.operators.gaussian.moments import Moments
from laggard.operators.gaussian.rises import STEADY, Rises
from laggard.operators.gaussian.versions import from_1

from .conftest import names, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Names, Tick

HELD = ("a_bytes", "b_bytes")
USED = tuple(f"use_{each}_per_s" for each in range(8))


def leaky(ticks: int, seed: int) -> list[Tick]:
    """Rows of which each holds more from tick to tick; rows and features come and go, and the clock does what it likes.

    Names come as the same object, or as an equal one, or fewer of the same.
    """
    chance = np.random.default_rng(seed)
    rows, pid, ts, stream = [f"p{each}[{each}]" for each in range(6)], 100, 1e9, []
    layout = names(rows, [*USED, *HELD])
    for tick in range(ticks):
        steps = [30.0, 31.0, 0.0, -30.0, -400.0, 1200.0, 20_000.0]
        ts += float(chance.choice(steps, p=[0.5, 0.475, 0.01, 0.006, 0.004, 0.004, 0.001]))
        event = chance.random()
        if event < 0.02:
            rows = [row for row in rows if chance.random() < 0.9]
            if event < 0.012:
                rows.append(f"p{chance.integers(6)}[{pid}]")
                pid += 1
            layout = names(rows, list(layout.features))
        elif event < 0.03:
            layout = names(rows, [each for each in (*USED, *HELD) if chance.random() < 0.95])
        elif event < 0.06:
            layout = names(rows, list(layout.features))
        values = chance.normal(1000.0, 10.0, (len(rows), len(layout.features)))
        held = np.array([each in HELD for each in layout.features])
        values[:, held] += tick * np.arange(len(rows))[:, None]
        if chance.random() < 0.1:
            values[chance.random(values.shape) < 0.1] = np.nan
        stream.append((ts, layout, values))
    return stream


def leaks_seen() -> Gaussian:
    return Gaussian(stocks=["_bytes"], resolution={"_bytes": 1.0})


def ordinary(operator: Gaussian, layout: Names, begin_s: float, ticks: int = 120) -> Any:
    """Let it learn, and give the last scores."""
    chance, scores = np.random.default_rng(1), None
    for tick in range(ticks):
        values = chance.normal(10.0, 1.0, (len(layout.rows), len(layout.features)))
        scores = operator.score(begin_s + 5.0 * tick, layout, values)
        operator.learn(begin_s + 5.0 * tick, layout, values)
    return scores


def test_scoring_another_time_does_not_change_what_is_learned() -> None:
    """Which rows and features are forgotten, and when all rows were looked at, follow from what is learned."""
    silent, asked = Gaussian(context_s=600.0), Gaussian(context_s=600.0)
    begin, fewer = names(["a[1]", "b[2]", "c[3]"], 12), names(["c[3]", "a[1]"], 11)
    for operator in (silent, asked):
        ordinary(operator, begin, 0.0)
    values = np.full((2, 11), 10.0)
    asked.score(5000.0, fewer, values)
    for operator in (silent, asked):
        operator.learn(600.0, fewer, values)
    assert plain(asked.snapshot()) == plain(silent.snapshot())
    assert "b[2]" in asked.snapshot()["rows"]


def test_a_row_that_is_gone_while_the_clock_stands_is_none_of_the_last_frame() -> None:
    both, one = names(["a[1]", "b[2]"], 12), names(["a[1]"], 12)
    whole, cut = Gaussian(), Gaussian()
    for operator in (whole, cut):
        ordinary(operator, both, 0.0)
        operator.learn(600.0, both, np.array([[10.0] * 12, [500.0] * 12]))
        operator.learn(600.0, one, np.full((1, 12), 10.0))
    cut.restore(cut.snapshot())
    assert answer(cut, (605.0, one, np.full((1, 12), 11.0))) == answer(whole, (605.0, one, np.full((1, 12), 11.0)))
    assert plain(cut.snapshot()) == plain(whole.snapshot())


def test_a_clock_that_is_set_for_the_first_time_does_not_blind_it() -> None:
    """A machine without a battery for its clock begins in 1970."""
    operator, layout = Gaussian(), names(["a[1]", "b[2]"], 12)
    ordinary(operator, layout, 0.0)
    scores = ordinary(operator, layout, 1.7e9)
    assert np.isfinite(scores.raw).all()
    assert not any(np.isnan(operator.snapshot()[f"episodes_{part}"]).any() for part in ("highest", "second"))
    assert operator.score(1.7e9 + 600.0, layout, np.full((2, 12), 100.0)).worst > 10.0 * scores.worst


@pytest.mark.parametrize(("rows", "features"), [(0, 12), (2, 0), (0, 0)])
def test_a_frame_without_anything_is_taken_in_the_middle_of_a_stream(rows: int, features: int) -> None:
    operator, layout = Gaussian(stocks=["_0"]), names(["a[1]", "b[2]"], 12)
    ordinary(operator, layout, 0.0)
    operator.learn(600.0, layout, np.full((2, 12), 40.0))
    ordinary(operator, names(list(layout.rows[:rows]), features), 605.0)
    assert np.isfinite(ordinary(operator, layout, 1300.0).raw).all()


@pytest.mark.parametrize("unit", [1e-100, 1e-141, 1e-150, 1e-161, 1e-162, 1e-163, 1e-300])
def test_units_that_are_far_too_small_do_not_matter(unit: float) -> None:
    operator, layout, chance = Gaussian(), names(["a[1]", "b[2]"], 12), np.random.default_rng(3)
    for tick in range(60):
        operator.learn(5.0 * tick, layout, chance.normal(0.0, unit, (2, 12)))
    for far in (unit, 1.0, 1e60, 1e140):
        scores = operator.score(300.0, layout, np.full((2, 12), far))
        ranked = [each.score for each in scores.ranking(2, 3).rows]
        assert np.isfinite([scores.score, *ranked]).all()
        operator.learn(300.0, layout, np.full((2, 12), far))


def look(rises: Rises, level: float, values: float = 1.0) -> tuple[Rises, int]:
    """Look at the one cell there is; how many rises have ended."""
    one = np.ones((1, 1))
    usual = Moments(100.0 * one, 0.0 * one, 100.0 * one)
    layout = names(["a[1]"], ["held_bytes"])
    found, ended = rises.after(layout, np.array([0]), usual, Moments(values * one, level * one, 0.0 * one))
    return found, len(ended)


def test_a_look_without_a_value_does_not_end_a_steady_rise() -> None:
    """As after a gap, or where the clock has stepped back: no tick is recent."""
    rises = Rises.none()
    for level in range(2, 2 + int(STEADY) + 4):
        rises, _ = look(rises, float(level))
    before = rises.steady
    rises, ended = look(rises, 0.0, values=0.0)
    assert (rises.steady, ended) == (before, 0)
    rises, ended = look(rises, 0.0)
    assert (rises.rows, ended) == ((), 1)


def test_a_steady_rise_goes_on_after_a_gap(chance: np.random.Generator) -> None:
    operator, layout = leaks_seen(), names([f"p[{each}]" for each in range(6)], [*USED, *HELD])
    for tick in range(800):
        values = chance.normal(1000.0, 10.0, (6, 10))
        values[2, 9] += max(2.0 * (tick - 400), 0.0)
        operator.learn(30.0 * tick + (1200.0 if tick >= 790 else 0.0), layout, values)
    (found,) = operator.score(25_200.0, layout, values).ranking(1, 1).rows
    assert (found.row, found.features[0].feature) == ("p[2]", "b_bytes")
    assert found.features[0].mean == pytest.approx(1000.0, abs=50.0)


def test_a_state_of_version_1_goes_on_as_from_the_same_numbers() -> None:
    """With leaks under way: what is migrated can be cut again at once."""
    stream, old = leaky(300, 5), leaks_seen()
    for ts, layout, values in stream[:150]:
        old.learn(ts, layout, values)
    state = old.snapshot()
    for name in [*(each for each in state if each.startswith("episodes_")), "cohorts", "suspects", "rises", "pool"]:
        del state[name]
    del state["pool_ts"]
    first, second = leaks_seen(), leaks_seen()
    first.restore(from_1(state | {"times": state["times"][:5]}))
    second.restore(first.snapshot())
    for tick in stream[150:]:
        assert answer(first, tick) == answer(second, tick)
    assert plain(first.snapshot()) == plain(second.snapshot())


def crowded(ticks: int, seed: int) -> list[Tick]:
    """A pool on four hosts whose members come, go, come back and go wrong, while the clock does what it likes."""
    chance = np.random.default_rng(seed)
    every = ["cpu_ratio", "memory_rss_bytes", "cpu_wait_ratio", "requests_per_s"]
    rows, fresh, ts, stream = [f"host-{each % 4}/worker-{each}" for each in range(20)], 20, 1e9, []
    for tick in range(ticks):
        ts += float(chance.choice([5.0, 0.0, -60.0, 1200.0, 100_000.0], p=[0.96, 0.02, 0.01, 0.005, 0.005]))
        event = chance.random()
        if event < 0.03:
            rows = [row for row in rows if chance.random() < 0.9]
        elif event < 0.08:
            rows = [*rows, f"host-{chance.integers(5)}/worker-{fresh}"]
            fresh += 1
        features = every[:3] if tick < 20 else every
        if chance.random() < 0.1:
            features = [each for each in features if chance.random() < 0.8]
        values = chance.normal(100.0, 5.0, (len(rows), len(features)))
        if tick % 100 >= 90:
            values[: len(rows) // 5] *= 4.0
        if chance.random() < 0.1:
            values[chance.random(values.shape) < 0.2] = chance.choice([np.nan, np.inf, 1e308, 0.0])
        there = chance.random(len(rows)) > (0.02 if tick % 50 else 1.0)
        stream.append(
            (ts, names([row for row, here in zip(rows, there, strict=True) if here], features), values[there])
        )
    return stream


def pool() -> Covariance:
    return Covariance(windows=(4, 16), limit=30)


def answer(operator: Gaussian | Covariance, tick: Tick) -> str:
    ts, layout, values = tick
    scores = operator.score(ts, layout, values)
    found = repr(
        (scores.score, scores.ranking(9, 9), getattr(scores, "deviations", ()), getattr(operator, "refused", 0))
    )
    operator.learn(ts, layout, values)
    return found


def eventful(operator: Gaussian | Covariance, tick: Tick) -> bool:
    """Whether something rises, or somebody deviates."""
    if isinstance(operator, Gaussian):
        return bool(operator.snapshot()["rises"]["steps"].max(initial=0.0) >= STEADY)
    return operator.score(*tick).score > 1.0


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("make", "stream", "events"),
    [(leaks_seen, partial(leaky, 400), 20), pytest.param(pool, partial(crowded, 330), 5, marks=pytest.mark.slow)],
    ids=["while leaks rise", "in a pool"],
)
def test_cuts_questions_and_reports_leave_no_trace(
    make: Callable[[], Gaussian | Covariance], stream: Callable[[int], list[Tick]], events: int, seed: int
) -> None:
    ticks, chance = stream(seed), np.random.default_rng(seed)
    whole, cut, asked = make(), make(), make()
    found = 0
    for number, (ts, layout, values) in enumerate(ticks):
        expected = answer(whole, ticks[number])
        found += eventful(whole, ticks[number])
        if chance.random() < 0.3:
            before, cut = cut, make()
            cut.restore(before.snapshot())
        assert answer(cut, ticks[number]) == expected, number
        if chance.random() < 0.3:
            asked.score(ts + float(chance.choice([1.0, -1.0, 5000.0])), layout, values)
        if chance.random() < 0.3:
            other = ticks[chance.integers(len(ticks))]
            asked.score(ts + 1.0, other[1], other[2])
        if isinstance(asked, Covariance) and chance.random() < 0.05:
            asked.report(replicates=0)
        asked.learn(ts, layout, values)
    assert found > events
    assert plain(cut.snapshot()) == plain(asked.snapshot()) == plain(whole.snapshot())
    if isinstance(cut, Covariance) and isinstance(whole, Covariance):
        assert repr(cut.report(replicates=0).ranking) == repr(whole.report(replicates=0).ranking)


def test_a_clock_that_is_set_for_the_first_time_does_not_make_a_pool_forget() -> None:
    """A machine without a battery for its clock begins in 1970: what was learned before is of the same members."""
    operator, layout = Covariance(windows=(4, 16)), names([f"w[{each}]" for each in range(6)], 3)
    chance = np.random.default_rng(1)
    for tick in range(300):
        values = chance.normal(10.0, 1.0, (6, 3))
        values[2] += 20.0 * (tick >= 220)
        ts = 5.0 * tick + (1.7e9 if tick >= 200 else 0.0)
        scores = operator.score(ts, layout, values)
        assert [each.rows for each in scores.deviations if each.score > 1.0 and each.rows != ("w[2]",)] == []
        operator.learn(ts, layout, values)
    assert [each.rows for each in operator.report(replicates=0).ranking] == [("w[2]",)]
