"""Slow leaks: what grows steadily is compared with what was usual before it began to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.gaussian import Gaussian
from laggard.operators.gaussian.episodes import EPISODE_S
from laggard.operators.gaussian.moments import Moments
from laggard.operators.gaussian.rises import STEADY, Rises

from .conftest import names, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

TICK_S = 30.0
HOUR = round(3600.0 / TICK_S)
LAYOUT = names([f"p{each}[{each}]" for each in range(20)], [*(f"use_{each}_per_s" for each in range(11)), "held_bytes"])


def frames(chance: np.random.Generator, leak: list[float]) -> Iterator[tuple[float, np.ndarray]]:
    """One a tick; the last feature of row 7 is `leak` above its usual 1000 +- 10."""
    for tick, held in enumerate(leak):
        values = chance.normal(1000.0, 10.0, (20, 12))
        values[7, 11] += held
        yield TICK_S * tick, values


def leaking(hours: float) -> list[float]:
    """So long, by less than half a standard deviation a minute."""
    return [2.0 * tick for tick in range(round(hours * HOUR))]


def after(gaussian: Gaussian, chance: np.random.Generator, leak: list[float]) -> tuple[str, str, float, float]:
    """The first row, its first feature, its usual value, and the raw score."""
    ts, values = 0.0, np.zeros((20, 12))
    for ts, values in frames(chance, leak):
        gaussian.learn(ts, LAYOUT, values)
    scores = gaussian.score(ts + TICK_S, LAYOUT, values)
    worst = scores.ranking(1, 1).rows[0]
    return worst.name, worst.features[0].feature, worst.features[0].mean, scores.worst


def test_a_leak_that_takes_hours_is_found(chance: np.random.Generator) -> None:
    calm, leak = [0.0] * 4 * HOUR, leaking(3.0)
    name, feature, usual, worst = after(Gaussian(stocks=["_bytes"]), chance, calm + leak)
    assert (name, feature) == ("p7", "held_bytes")
    assert usual == pytest.approx(1000.0, abs=30.0)
    blind = after(Gaussian(), chance, calm + leak)
    assert worst > 40.0 > 4.0 * blind[3]


def test_when_it_grows_no_more_its_level_is_learned_within_the_hour(chance: np.random.Generator) -> None:
    leak = leaking(3.0)
    *_, worst = after(Gaussian(stocks=["_bytes"]), chance, [0.0] * 4 * HOUR + leak + [leak[-1]] * HOUR)
    assert worst < 10.0


def test_what_has_leaked_twice_is_not_news(chance: np.random.Generator) -> None:
    calm, leak = [0.0] * 4 * HOUR, leaking(2.0)
    once = after(Gaussian(stocks=["_bytes"]), chance, calm + leak)[3]
    third = after(Gaussian(stocks=["_bytes"]), chance, 3 * (calm + leak))[3]
    assert third < 0.3 * once


def test_what_goes_up_and_down_does_not_rise(chance: np.random.Generator) -> None:
    """Random walks, of which what is usual knows nothing: the worst case."""
    rows, rises, seen = 500, Rises.none(), 0
    layout = names([f"p[{each}]" for each in range(rows)], ["held_bytes"])
    stocks, level = np.array([0]), np.zeros((1, rows))
    usual = Moments(np.full((1, rows), 100.0), np.zeros((1, rows)), np.full((1, rows), 100.0))
    for _ in range(48):
        level += chance.normal(size=level.shape)
        rises, _ = rises.after(layout, stocks, usual, Moments(np.ones_like(level), level, np.zeros_like(level)))
        seen = max(seen, len(rises.steady))
    assert 0 < len(rises.rows) < rows
    assert seen < 0.02 * rows


def test_a_rise_is_what_goes_up_from_look_to_look() -> None:
    layout, stocks = names(["a[1]", "b[2]"], ["other", "held_bytes"]), np.array([1])
    usual = Moments(np.full((2, 2), 100.0), np.zeros((2, 2)), np.full((2, 2), 100.0))

    def look(rises: Rises, level: float) -> tuple[Rises, list[str]]:
        levels = np.array([[9.0, level], [0.0, level]])
        found, ended = rises.after(layout, stocks, usual, Moments(np.ones((2, 2)), levels, np.zeros((2, 2))))
        return found, [cell.row for cell in ended]

    rises, _ = look(Rises.none(), 1.5)
    assert (rises.rows, rises.features) == (("b[2]",), ("held_bytes",))
    for step in range(int(STEADY)):
        assert not rises.steady
        rises, _ = look(rises, 2.0 + step)
    (cell,) = rises.steady
    assert (cell.row, cell.feature, cell.mean, cell.variance) == ("b[2]", "held_bytes", 0.0, 1.0)
    restored = Rises.restored(rises.snapshot())
    assert plain(restored.snapshot()) == plain(rises.snapshot())
    rises, ended = look(rises, 2.0)
    assert not rises.steady
    assert ended == ["b[2]"]


def test_a_row_that_is_gone_rises_no_more(chance: np.random.Generator) -> None:
    gaussian = Gaussian(stocks=["_bytes"])
    after(gaussian, chance, [0.0] * 2 * HOUR + leaking(1.5))
    others = names([row for row in LAYOUT.rows if row != "p7[7]"], list(LAYOUT.features))
    for tick in range(round(2 * EPISODE_S / TICK_S)):
        gaussian.learn(4 * HOUR * TICK_S + TICK_S * tick, others, chance.normal(1000.0, 10.0, (19, 12)))
    assert "p7[7]" not in gaussian.snapshot()["rises"]["rows"]


def test_a_state_that_does_not_fit_is_refused_by_name() -> None:
    state = Rises.none().snapshot() | {"level": np.zeros(2)}
    with pytest.raises(ValueError, match="rises: level: expected 0, got 2"):
        Rises.restored(state)
