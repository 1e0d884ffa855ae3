"""Pools for the page, compared by a worker's runner: one that is flat, one with groups, and one with a hostile name."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Frame, make_layout
from tests.pipeline.methods.pools.test_pools_command import (
    FEATURES,
    LEAKS_FROM,
    TICK_S,
    TICKS,
    TOPICS,
    append,
    drain,
    ticks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FLAT: Final = "web-1/gunicorn"
FLEET: Final = "fleet"
HOSTILE: Final = '<script>alert(1)</script>"><img src=x onerror=alert(1)>\u202egnp'
SMALL: Final = "checkout"
THREADS: Final = "web-1/java/exec"
"""A pool whose members are all below one path, as threads are."""

HOSTS, WORKERS = 3, 6
LEAKING: Final = "web-1/worker-0"


def compared(path: Path) -> float:
    """Make a bus on which a worker has compared pools until now; in two of them one member leaks.

    Gives the time of the newest tick, seconds since the Unix epoch.
    """
    begin = time.time() - TICK_S * (TICKS - 1)
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        for pool, members in ((FLAT, 8), (SMALL, 2), (HOSTILE, 4)):
            append(bus, list(ticks(pool, members, begin)))
        append(bus, list(_fleet(begin)))
        append(bus, list(_threads(begin)))
        drain(bus)
    return begin + TICK_S * (TICKS - 1)


def _threads(begin: float) -> Iterator[Frame]:
    layout = make_layout(
        [f"java[812@9931]/exec-{number}[{814 + number}@9940]" for number in range(1, 7)],
        [f"java/exec-{number}" for number in range(1, 7)],
        FEATURES,
    )
    for each in ticks(THREADS, 6, begin):
        yield replace(each, layout=layout)


def _fleet(begin: float) -> Iterator[Frame]:
    """Workers of several hosts; the first one of the second host leaks."""
    draw = np.random.default_rng(3)
    rows = [f"web-{host}/worker-{worker}" for host in range(HOSTS) for worker in range(WORKERS)]
    layout, members = make_layout(rows, rows, FEATURES), len(rows)
    for tick in range(TICKS):
        load = draw.gamma(4.0, 0.05)
        values = np.empty((members, len(FEATURES)))
        values[:, 0] = load * draw.normal(1.0, 0.1, members)
        values[:, 1] = 0.3 * load * draw.normal(1.0, 0.1, members)
        values[:, 2] = draw.normal(2.1e8, 2e6, members)
        values[:, 3] = 1e6 * load * draw.normal(1.0, 0.2, members)
        values[rows.index(LEAKING), 2] *= 1.01 ** max(tick - LEAKS_FROM, 0)
        yield Frame("pool", FLEET, "member", begin + TICK_S * tick, tick, layout, values)
