"""A pipeline for the page: operators that have worked, unusable records, and some that wait."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Frame, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import stages

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus

TOPICS: Final = Topics()
OPERATORS: Final = "gaussian,cpu"
HOST: Final = "web-1"
FRAMES, WAITING = 30, 5
JUNK: Final = b"junk \xff<script>alert(1)</script>"
ROWS: Final = ("laggard-agent[7@1]", "laggard-worker[8@1]", "laggard-reader[6@1]", "<img src=x onerror=alert(1)>[9@1]")


def frame(number: int, ts: float) -> Frame:
    """What is read of the host at a tick."""
    names = tuple(row.partition("[")[0] for row in ROWS)
    layout = make_layout(ROWS, names, ("cpu_user_ratio", "cpu_system_ratio", "memory_rss_bytes"))
    values = np.array([[0.02, 0.01, 4e7], [0.05, 0.01, 9e7], [0.0, 0.0, 1e7], [0.3, 0.1, 2e8]]) * (
        1.0 + 0.01 * (number % 7)
    )
    return Frame("host", HOST, "process", ts, number, layout, values)


def begun(path: Path) -> None:
    """Make an embedded bus on which it has begun."""
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        begin(bus, TOPICS)


def begin(bus: Bus, topics: Topics) -> None:
    """The operators have read all but the last frames; one that is late, and junk, they refused."""

    def append(*frames: Frame) -> None:
        bus.append([Outgoing(topics.name(COUNTERS), each.key, encode(each), each.ts) for each in frames])

    now = time.time()
    append(*(frame(number, now - FRAMES + number) for number in range(1, FRAMES + 1)))
    append(frame(FRAMES + 100, now - 1000.0))
    bus.append([Outgoing(topics.name(COUNTERS), HOST, JUNK, now, (("sent-by", b"<b>somebody</b>"),))])
    work(bus, topics)
    append(*(frame(FRAMES + number, now + 0.1 * number) for number in range(1, WAITING + 1)))


def work(bus: Bus, topics: Topics = TOPICS) -> None:
    """Let the operators, and what joins their anomalies, read all that is there."""
    every, stop = stages(read_settings(None, {}, [Given("operators", OPERATORS, "a test")])), threading.Event()
    runner = Runner(bus, every, topics)
    places = [(each, partition) for each in every for partition in bus.partitions(topics.name(each.topic))]
    while any(bus.committed(topics.group(each.name), place) < bus.bounds(place)[1] for each, place in places):
        runner.step(stop)
    stop.set()
    runner.run(stop)
