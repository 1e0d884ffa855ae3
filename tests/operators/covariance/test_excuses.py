"""Differences that are no fault: of members that began later, and of programs that are no pool."""

from __future__ import annotations

import numpy as np
import pytest

from laggard.operators.covariance import Covariance
from laggard.pipeline.core.records import make_layout

FEATURES = ("cpu_user_ratio", "memory_virtual_bytes", "memory_rss_bytes", "descriptors")
CPU, VIRTUAL, RSS, DESCRIPTORS = range(4)
TICK_S = 5.0
FORKED = 300
MEMBERS = 6


def alike(ticks: int) -> np.ndarray:
    """Return six alike members, shape (ticks, members, features)."""
    draw = np.random.default_rng(3)
    levels, noise = np.array([0.08, 220e6, 20e6, 12.0]), np.array([0.02, 5e5, 2e5, 1.0])
    return levels + noise * draw.standard_normal((ticks, MEMBERS, len(FEATURES)))


def accused(values: np.ndarray) -> dict[str, int]:
    """Return the members that ever deviate, each with its first tick."""
    operator, found = Covariance(), dict[str, int]()
    rows = np.array([f"worker-{number}" for number in range(values.shape[1])])
    for tick, members in enumerate(values):
        there = np.isfinite(members).any(axis=1)
        layout = make_layout(rows[there].tolist(), rows[there].tolist(), FEATURES)
        scores = operator.score(TICK_S * tick, layout, members[there])
        for each in scores.deviations:
            if each.score > 1.0:
                found.setdefault(each.name, tick)
        operator.learn(TICK_S * tick, layout, members[there])
    return found


def filling(leak_from: int = 0) -> np.ndarray:
    """Return workers that fill their caches within an hour, the last one of which is forked later."""
    ticks = 900
    values = alike(ticks)
    for member in range(MEMBERS):
        begin = FORKED if member == MEMBERS - 1 else 0
        age = np.maximum(np.arange(ticks) - begin, 0)
        values[:, member, [VIRTUAL, RSS]] += 60e6 * (1.0 - np.exp(-age / 250.0))[:, None]
        values[:begin, member] = np.nan
    if leak_from:
        values[leak_from:, MEMBERS - 1, RSS] += 1e6 * np.arange(ticks - leak_from)
    return values


def test_a_worker_that_was_forked_later_fills_its_cache_and_is_no_leak() -> None:
    assert accused(filling()) == {}


def test_a_worker_that_was_forked_later_and_leaks_is_found() -> None:
    found = accused(filling(leak_from=700))
    assert found.keys() == {f"worker-{MEMBERS - 1}"}
    assert found[f"worker-{MEMBERS - 1}"] > 700


def unlike_programs(*, alike_memory: bool) -> np.ndarray:
    """Return the processes of a browser: one works, another grows, and their sizes have nothing in common."""
    draw = np.random.default_rng(8)
    values = alike(400)
    spread = np.linspace(-1.5, 1.5, MEMBERS)
    sizes = np.exp(np.stack([draw.permutation(spread) for _ in FEATURES], axis=1))
    sizes[:, CPU] **= 2.0
    if alike_memory:
        sizes[:, 1:] = 1.0
    values *= sizes
    values[200:230, 1, CPU] = 0.9
    return values


def test_programs_unlike_by_nature_are_no_pool() -> None:
    values = unlike_programs(alike_memory=False)
    values[250:, 4, RSS] += np.linspace(0.0, 900e6, 150)
    assert accused(values) == {}


def test_workers_of_unlike_load_that_hold_alike_amounts_are_a_pool() -> None:
    values = unlike_programs(alike_memory=True)
    values[250:, 4, RSS] += np.linspace(0.0, 900e6, 150)
    assert "worker-4" in accused(values)


@pytest.mark.parametrize("more", [1e6, 106e6])
def test_a_spinning_member_is_busy_whatever_it_maps(more: float) -> None:
    operator = Covariance()
    values = alike(420)
    values[300:, 2, CPU] = 0.97
    values[300:, 2, VIRTUAL] += more * np.linspace(0.5, 1.0, 120)
    rows = [f"worker-{number}" for number in range(MEMBERS)]
    layout = make_layout(rows, rows, FEATURES)
    reported = set()
    for tick, members in enumerate(values):
        scores = operator.score(TICK_S * tick, layout, members)
        for each in scores.deviations:
            if each.score > 1.0:
                reported.add((each.name, each.kind, each.features[0].feature))
                assert each.features[0].value == pytest.approx(0.97)  # now, not in the mean of a window
        operator.learn(TICK_S * tick, layout, members)
    assert reported == {("worker-2", kind, "cpu_user_ratio") for kind in ("spike", "busy")}
