"""What a worker keeps is bounded by what the documentation says, however long it runs and however many hosts come."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.gaussian import Gaussian
from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.scoring.wired import Wired
from tests.pipeline.core.engine.conftest import INPUT, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.bus import Incoming

pytestmark = pytest.mark.slow

ROWS, FEATURES, KEYS = 60, 25, 6
STOCKS = tuple(f"f{at}" for at in range(0, FEATURES, 3))  # of what is counted of a process a third tells what it holds
WIRED = Wired("gaussian", COUNTERS, ("process",), lambda: Gaussian(stocks=STOCKS), Gaussian.state_version, {})

CELL_BYTES = 176
"""Of `gaussian`, per row and feature."""

KEY_BYTES = 40_000
"""Names, the calibration, sequence numbers, and what follows from a layout: per key, and not more for more ticks."""


def records(hosts: int, ticks: int, growth: float = 0.0) -> Iterator[Incoming]:
    """Of a number of hosts on which everything grows by some amount each tick."""
    draw = np.random.default_rng(1)
    names = [f"p{row}" for row in range(ROWS)]
    layouts = [
        make_layout([f"{name}[{host}]" for name in names], names, [f"f{at}" for at in range(FEATURES)])
        for host in range(hosts)
    ]
    for tick in range(ticks):
        for host in range(hosts):
            values = draw.normal(5.0 + growth * tick, 1.0, (ROWS, FEATURES))
            frame = Frame("host", f"h{host}", "process", 1000.0 + 5.0 * tick, tick, layouts[host], values)
            yield record(frame, tick * hosts + host)


def kept(hosts: int, ticks: int, growth: float = 0.0) -> int:
    """Bytes that a task holds after a number of hosts and ticks, with commits on the way."""
    task = Task(WIRED, INPUT, snapshot_records=5, max_keys=KEYS)
    gc.collect()
    tracemalloc.start()
    try:
        for each in records(hosts, ticks, growth):
            task.process(each)
            task.outputs.clear()
            task.states.take(task.position)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True, scope="module")
def what_is_made_once() -> None:
    """Modules and tables that the first of them needs are no task's."""
    kept(1, 30)


def test_the_bound_is_what_the_documentation_says() -> None:
    most = KEYS * (ROWS * FEATURES * (CELL_BYTES + 8) + KEY_BYTES)
    assert KEYS * ROWS * FEATURES * 88 < kept(KEYS, 30) < most


def test_the_bound_holds_where_all_that_can_leak_does() -> None:
    calm, leaking = kept(KEYS, 120), kept(KEYS, 120, growth=0.5)
    assert calm + KEYS * ROWS * len(STOCKS) * 40 < leaking < KEYS * (ROWS * FEATURES * (CELL_BYTES + 8) + KEY_BYTES)


def test_neither_time_nor_more_hosts_need_more() -> None:
    few = kept(KEYS, 15)
    assert kept(KEYS, 60) < 1.2 * few
    assert kept(4 * KEYS, 15) < 1.2 * few + 3 * KEYS * 10_000  # the names that the decoder remembers
