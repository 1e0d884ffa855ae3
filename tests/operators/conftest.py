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


def lively(ticks: int, seed: int, *, features: int = 12, interval_s: float = 5.0) -> list[Tick]:
    """Rows and features that come and go, values of all sizes, gaps, and a clock that steps."""
    chance = np.random.default_rng(seed)
    rows = [f"p[{pid}]" for pid in range(6)]
    ts, fresh, layout = 1e9, 6, names(rows, features)
    stream = []
    for tick in range(ticks):
        ts += float(chance.choice([interval_s, interval_s, interval_s, 0.0, 7 * interval_s, -3 * interval_s]))
        if chance.random() < 0.15:
            rows = [row for row in rows if chance.random() < 0.8] + [f"p[{fresh}]"]
            fresh += 1
            layout = names(rows, features - int(chance.integers(0, 3)))
        values = chance.lognormal(0.0, 2.0, (len(layout.rows), len(layout.features)))
        values[chance.random(values.shape) < 0.05] = np.nan
        values[:, 0] = 7.0
        if tick % 40 == 39:
            values[0, 1] = chance.choice([np.inf, -np.inf, 1e308, 1e100])
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


@pytest.fixture
def chance() -> np.random.Generator:
    return np.random.default_rng(7)
