"""kill -9 at random moments, of a worker that re-keys, joins and models: each frame of counters goes on exactly once.

See `rekeying_kill.py`. The producer appends counters of three hosts, and the performance of two applications that they
serve. The worker runs `serving`, `regression` and what joins anomalies.

    python -m tests.evaluation.applications_kill                                   # about a minute
    python -m tests.evaluation.applications_kill --frames 60000 --seconds 600      # longer
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.regression import Regression
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import Frame, Wish, encode, make_layout
from laggard.pipeline.core.topics import ANOMALIES, APPLICATIONS, MODELS
from laggard.pipeline.methods.applications.resources import trait
from laggard.pipeline.methods.applications.serving import ServedBySettings, Serving
from laggard.pipeline.methods.applications.stage import RegressionStage
from laggard.pipeline.methods.incidents.stage import Joining
from tests.evaluation.rekeying_kill import INPUT, TOPICS, Case, Result, main

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS: Final = ("web-1", "web-2", "db-1")
SERVED: Final = ServedBySettings({"shop": "web-* db-1", "blog": "web-1 db-1"})
REGRESSING: Final = RegressionStage(lambda: Regression(trait=trait), Regression.state_version, {})
TICK_S: Final = 5.0
FEATURES: Final = ("cpu_user_ratio", "cpu_wait_ratio", "io_delay_ratio", "memory_rss_bytes")
BEGAN: Final = 1.7e9


def records(start: int, stop: int) -> Iterator[Outgoing]:
    """The input; what a number brings to applications stands before its counters."""
    joined = TOPICS.name(APPLICATIONS)
    for number in range(start, stop):
        tick, host = divmod(number, len(HOSTS))
        ts = BEGAN + TICK_S * tick
        contended = tick % 160 >= 120
        draw = np.random.default_rng(number)
        if host == 0 and tick % 2 == 0:
            for application, slower in (("shop", 0.6), ("blog", 0.0)):
                values = np.array([[100.0 + 20.0 * draw.random(), 0.05 + slower * contended + 0.005 * draw.random()]])
                layout = make_layout([application], [application], ["throughput_per_s", "response_time_mean_s"])
                frame = Frame("application", application, "performance", ts, number, layout, values)
                yield Outgoing(joined, application, encode(frame), ts)
        if number % 701 == 350:
            wish = Wish("shop", ts, "web-1/nginx:cpu_wait_ratio", "ban" if number % 2 else "free", number)
            yield Outgoing(joined, "shop", encode(wish), ts)
        name = HOSTS[host]
        rows = [f"nginx[{pid}@1]" for pid in range(2 + tick % 3)] + [f"job[{tick // 40}@1]"]
        values = draw.random((len(rows), len(FEATURES))) * 0.05
        values[:, 1] += 0.3 * (contended and name == "web-1")
        values[draw.random(values.shape) < 0.01] = np.nan
        layout = make_layout(rows, [row.partition("[")[0] for row in rows], FEATURES)
        yield Outgoing(INPUT.topic, name, encode(Frame("host", name, "process", ts, number, layout, values)), ts)


def holds(want: Result) -> dict[str, bool]:
    return {
        "both applications have a state": sorted(want.states) == ["blog", "shop"],
        "there is an incident": any(one["kind"] == "incident" for one in want.told[ANOMALIES.name]),
    }


CASE: Final = Case(
    "tests.evaluation.applications_kill",
    (Serving(SERVED), REGRESSING, Joining()),
    REGRESSING,
    records,
    (MODELS, ANOMALIES),
    "application",
    holds,
)

if __name__ == "__main__":
    sys.exit(main(CASE, __doc__))
