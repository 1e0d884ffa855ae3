"""Applications on a bus, as a worker has left them: a shop that was slow for a while, and a blog without counters.

The response times of the shop follow how long tasks on web-1 wait for a CPU, and from the 40th interval on how long
its database waits for disks. One of the processes has a name that would like to be more than a name.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.topics import APPLICATIONS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.applications.method import regression_stage
from laggard.pipeline.wiring import stages
from tests.pipeline.methods.applications.records import counted, measured

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.pipeline.core.records import Frame

TOPICS: Final = Topics()
INTERVALS: Final = 60
SLOW_FROM: Final = 40
INTERVAL_S: Final = 10.0
WAITS: Final = "web-1:pressure_cpu_some_ratio"
DISKS: Final = "db-1/postgres:io_delay_ratio"
HOSTILE: Final = '"><img src=x onerror="alert(1)">'
SETTINGS: Final = {"applications_hosts": "shop=web-* db-1", "operators": "gaussian,regression"}
"""What the page is served with, see `served`."""


def frames(intervals: int = INTERVALS, interval_s: float = INTERVAL_S) -> Iterator[Frame]:
    """What is on the topic of applications."""
    draw = random.Random(7)
    yield measured(0.0)
    for number in range(intervals):
        ts, waits, disks = interval_s * number, draw.uniform(0.02, 0.3), draw.uniform(0.0, 0.05)
        if number >= SLOW_FROM:
            disks = draw.uniform(0.4, 0.9)
        for second in (0.4 * interval_s, 0.9 * interval_s):
            for host, process in (("web-1", "nginx"), ("web-2", HOSTILE), ("db-1", "postgres")):
                rows = {
                    host: {
                        "pressure_cpu_some_ratio": waits if host == "web-1" else draw.uniform(0.02, 0.3),
                        "pressure_io_some_ratio": 0.9 * disks if host == "db-1" else draw.uniform(0.0, 0.05),
                        "cpu_busy_ratio": draw.uniform(0.2, 0.4),
                    },
                }
                processes = {
                    f"{host}/{process}": {
                        "cpu_wait_ratio": waits + draw.uniform(0.0, 0.05)
                        if host == "web-1"
                        else draw.uniform(0.0, 0.1),
                        "io_delay_ratio": disks if host == "db-1" else draw.uniform(0.0, 0.05),
                        "memory_rss_bytes": 1e8 + 1e6 * draw.random(),
                    },
                }
                yield counted(ts + second, rows, host=host)
                yield counted(ts + second, processes, host=host, scope="process")
        throughput = draw.uniform(90.0, 110.0)
        response = 0.02 + 0.4 * waits + 0.9 * disks + 0.002 * draw.random()
        yield measured(ts + interval_s, {"response_time_mean_s": response, "throughput_per_s": throughput})


def learned(path: Path, intervals: int = INTERVALS, interval_s: float = INTERVAL_S) -> Path:
    """A bus at this path, on which a worker has read all of it; the newest record is of now."""
    told = [*frames(intervals, interval_s), *(measured(interval_s * number, application="blog") for number in range(5))]
    shift = time.time() - max(each.ts for each in told)
    settings = read_settings(None, environ={}, flags=[])
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        bus.append([outgoing(replace(each, ts=each.ts + shift)) for each in told])
        every = (regression_stage(settings), stages(settings)[-1])
        drain(
            Runner(bus, every, TOPICS), bus, [each.name for each in every], [TOPICS.name(each.topic) for each in every]
        )
    return path


def outgoing(frame: Frame) -> Outgoing:
    """A frame as a record of its application."""
    return Outgoing(TOPICS.name(APPLICATIONS), frame.key, encode(frame), frame.ts)


def drain(runner: Runner, bus: EmbeddedBus, names: list[str], topics: list[str]) -> None:
    """Let a worker read all that there is, what it writes itself too."""
    stop = threading.Event()
    for name, topic in zip(names, topics, strict=True):
        (partition,) = bus.partitions(topic)
        while bus.committed(TOPICS.group(name), partition) < bus.bounds(partition)[1]:
            runner.step(stop)
    stop.set()
    runner.run(stop)
