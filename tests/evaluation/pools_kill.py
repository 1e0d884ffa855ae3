"""kill -9 at random moments, of a worker that re-keys to pools, joins and compares: the result is an undisturbed one's.

See `rekeying_kill.py`. The producer appends counters of three hosts, whose workers are a pool and which are one
themselves, and beside that a pool that is told in parts. A worker on one host gets busy now and then, a host has none
for a while. The worker runs `pooling`, `covariance` and what joins anomalies.

    python -m tests.evaluation.pools_kill                                   # about a minute
    python -m tests.evaluation.pools_kill --frames 60000 --seconds 600      # longer
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.covariance import Covariance
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import Frame, encode, make_layout
from laggard.pipeline.core.topics import ANOMALIES, POOLS
from laggard.pipeline.methods.incidents.stage import Joining
from laggard.pipeline.methods.pools.pooling import Members, Pooling
from laggard.pipeline.methods.pools.stage import MEMBER, PoolStage
from tests.evaluation.rekeying_kill import INPUT, TOPICS, Case, Result, main

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS: Final = ("web-1", "web-2", "db-1")
MEMBERS: Final = Members({"web": "*/gunicorn", "machines": "*"})
COMPARING: Final = PoolStage(
    "covariance",
    POOLS,
    (MEMBER,),
    lambda: Covariance(windows=(12, 48)),
    Covariance.state_version,
    {},
    answers_marks=False,
)
TICK_S: Final = 5.0
FEATURES: Final = ("cpu_user_ratio", "io_read_bytes_per_s", "memory_rss_bytes")
BEGAN: Final = 1.7e9


def records(start: int, stop: int) -> Iterator[Outgoing]:
    """The input; a number is the frame of one host, and the parts of the other pool stand before it."""
    for number in range(start, stop):
        tick, at = divmod(number, len(HOSTS))
        ts, host, draw = BEGAN + TICK_S * tick + at, HOSTS[at], np.random.default_rng(number)
        load = 0.2 + 0.1 * np.sin(tick / 20.0)
        layout = make_layout([f"part-{at}"], [f"part-{at}"], FEATURES)
        values = values_of(draw, 1, load)
        part = Frame("pool", "parts", MEMBER, BEGAN + TICK_S * tick, number, layout, values)
        yield Outgoing(TOPICS.name(POOLS), "parts", encode(part), part.ts)
        rows = [f"gunicorn[{pid + 100 * (tick // 400)}@1]" for pid in range(4)] + [f"job[{tick // 40}@1]"]
        values = values_of(draw, len(rows), load)
        if host == "web-2" and tick % 160 >= 130:
            values[1, 0] += 0.9
        if host == "db-1" and tick % 200 >= 180:
            rows, values = rows[4:], values[4:]
        scope = "process"
        if number % 2:
            rows, values, scope = ["host"], values[:1], "host"
        layout = make_layout(rows, [row.partition("[")[0] for row in rows], FEATURES)
        yield Outgoing(INPUT.topic, host, encode(Frame("host", host, scope, ts, number, layout, values)), ts)


def values_of(draw: np.random.Generator, rows: int, load: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    values = np.column_stack(
        [load + 0.05 * draw.random(rows), 1e6 * load * (1.0 + draw.random(rows)), 1e8 + 1e6 * draw.random(rows)]
    )
    values[draw.random(values.shape) < 0.005] = np.nan
    return values


def holds(want: Result) -> dict[str, bool]:
    kinds = {one["kind"] for one in want.told[ANOMALIES.name]}
    return {
        "all pools have a state": sorted(want.states) == ["machines", "parts", "web"],
        "there are incidents and rankings": {"incident", "pool"} <= kinds,
    }


CASE: Final = Case(
    "tests.evaluation.pools_kill",
    (Pooling(MEMBERS), COMPARING, Joining()),
    COMPARING,
    records,
    (ANOMALIES,),
    "pool",
    holds,
)

if __name__ == "__main__":
    sys.exit(main(CASE, __doc__))
