"""Streams of frames for the operators' tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True, eq=False)
class Names:
    """A layout as operators see it."""

    rows: tuple[str, ...]
    names: tuple[str, ...]
    features: tuple[str, ...]
    commands: tuple[str, ...] = ()


Tick = tuple[float, Names, np.ndarray]


def names(rows: list[str], features: int | list[str]) -> Names:
    found = [f"feature_{each}" for each in range(features)] if isinstance(features, int) else features
    return Names(tuple(rows), tuple(row.split("[")[0] for row in rows), tuple(found))


def lively(ticks: int, seed: int, *, features: int | list[str] = 12, interval_s: float = 5.0) -> list[Tick]:
    """Rows and features that come and go, values of all sizes, gaps, and a clock that steps."""
    chance = np.random.default_rng(seed)
    rows = [f"p[{pid}]" for pid in range(6)]
    every = features if isinstance(features, list) else [f"feature_{each}" for each in range(features)]
    ts, fresh, layout = 1e9, 6, names(rows, every)
    stream = []
    for tick in range(ticks):
        ts += float(chance.choice([interval_s, interval_s, interval_s, 0.0, 7 * interval_s, -3 * interval_s]))
        if chance.random() < 0.15:
            rows = [row for row in rows if chance.random() < 0.8] + [f"p[{fresh}]"]
            fresh += 1
            layout = names(rows, every[: len(every) - int(chance.integers(0, 3))])
        values = chance.lognormal(0.0, 2.0, (len(layout.rows), len(layout.features)))
        values[chance.random(values.shape) < 0.05] = np.nan
        values[:, 0] = 7.0
        if tick % 40 == 39:
            values[0, 1] = chance.choice([np.inf, -np.inf, 1e308, 1e100])
        stream.append((ts, layout, values))
    return stream


def restless(ticks: int, seed: int) -> list[Tick]:
    """A machine on which processes start, end and come again under the same name, and now and then one goes wrong."""
    chance = np.random.default_rng(seed)
    rows, pid, ts = [f"p{each}[{each}]" for each in range(8)], 100, 1e9
    layout, stream = names(rows, 12), []
    for _ in range(ticks):
        ts += float(chance.choice([1.0, 5.0, 0.0, -2.0, 700.0], p=[0.9, 0.05, 0.02, 0.02, 0.01]))
        if chance.random() < 0.25:
            kept = []
            for row in rows:
                pid += 1
                if chance.random() < 0.95:
                    kept.append(row if chance.random() < 0.85 else f"{row.split('[')[0]}[{pid}]")
            rows = [*kept, f"p{chance.integers(12)}[{pid}]"]
            layout = names(rows, 12 - int(chance.integers(0, 2)))
        elif chance.random() < 0.2:
            layout = names(rows, list(layout.features))  # the same names, but another object
        values = chance.lognormal(0.0, 1.0, (len(layout.rows), len(layout.features)))
        if chance.random() < 0.2:
            values[chance.integers(len(rows)), 2] *= 1000.0
        if chance.random() < 0.1:
            values[chance.random(values.shape) < 0.1] = np.nan
        stream.append((ts, layout, values))
    return stream


def plain(state: Any) -> Any:
    """A snapshot in a form that compares bit for bit."""
    if isinstance(state, np.ndarray):
        return (state.dtype.str, state.shape, state.tobytes())
    if isinstance(state, dict):
        return {key: plain(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [plain(value) for value in state]
    return repr(state)


def size(state: Any) -> int:
    """The numbers and names in a state."""
    if isinstance(state, np.ndarray):
        return state.size
    if isinstance(state, dict | list | tuple):
        return sum(map(size, state.values() if isinstance(state, dict) else state))
    return 1


@pytest.fixture
def chance() -> np.random.Generator:
    return np.random.default_rng(7)
