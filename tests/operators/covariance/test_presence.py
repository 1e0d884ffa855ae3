"""Whether a deviation lasts: until its newest ticks say otherwise, whatever windows remember."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.covariance import Covariance
from laggard.pipeline.core.records import make_layout

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = tuple(f"worker-{number}" for number in range(8))
LAYOUT = make_layout(ROWS, ROWS, ("cpu_ratio", "memory_rss_bytes"))
BEFORE, LONG, AFTER = 300, 240, 300
TICK_S = 5.0


def ticks(more: float = 40e6, stop: int = BEFORE + LONG + AFTER) -> Iterator[tuple[float, np.ndarray]]:
    """Eight alike members, one of which holds more memory for twenty minutes."""
    draw = np.random.default_rng(3)
    for tick in range(stop):
        values = np.column_stack([0.2 + 0.02 * draw.standard_normal(8), 1e8 + 1e6 * draw.standard_normal(8)])
        values[2, 1] += more * (BEFORE <= tick < BEFORE + LONG)
        yield TICK_S * tick, values


def test_a_member_stands_out_from_its_third_tick_to_the_first_after_its_memory_was_freed() -> None:
    operator = Covariance()
    accused = []
    for tick, (ts, values) in enumerate(ticks()):
        scores = operator.score(ts, LAYOUT, values)
        if scores.score > 1.0:
            accused.append((tick, [each.name for each in scores.deviations]))
        operator.learn(ts, LAYOUT, values)
    assert {name for _, names in accused for name in names} == {"worker-2"}
    assert [tick for tick, _ in accused] == list(range(BEFORE + 2, BEFORE + LONG + 1))


@pytest.mark.parametrize("at", [BEFORE + 20, BEFORE + LONG + 20])
def test_a_state_goes_on_where_it_was(at: int) -> None:
    operator, restored = Covariance(), Covariance()
    every = list(ticks(stop=at + 30))
    for ts, values in every[:at]:
        operator.learn(ts, LAYOUT, values)
    restored.restore(operator.snapshot())
    for ts, values in every[at:]:
        assert restored.score(ts, LAYOUT, values).score == operator.score(ts, LAYOUT, values).score
        operator.learn(ts, LAYOUT, values)
        restored.learn(ts, LAYOUT, values)


def test_the_state_of_an_older_laggard_is_read() -> None:
    operator, restored = Covariance(), Covariance()
    for ts, values in ticks(stop=BEFORE):
        operator.learn(ts, LAYOUT, values)
    state = operator.snapshot()
    for depth in state["depths"]:
        del depth["bank"]["recent"]
        depth["nodes"] = [node[:-1] for node in depth["nodes"]]
    restored.restore(state)
    ts, values = list(ticks(stop=BEFORE + 1))[-1]
    assert restored.score(ts, LAYOUT, values).score == operator.score(ts, LAYOUT, values).score
