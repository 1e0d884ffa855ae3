"""A history on a real bus, worked through by the real runner: twelve processes, one of which goes wrong once."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Frame, Mark, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.history.why import History
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from laggard.pipeline.scoring.wired import Wired

START = 1_700_000_000.0
TICK_S = 5.0
TICKS = 260
WRONG = range(150, 160)
GAP = range(180, 230)
MARKED = START + 155 * TICK_S + 2.5
HOG = "hog[4711@99]"
FEATURES = (
    "cpu_user_ratio",
    "cpu_system_ratio",
    "cpu_wait_ratio",
    "timeslices_per_s",
    "page_faults_minor_per_s",
    "switches_voluntary_per_s",
    "switches_involuntary_per_s",
    "io_read_operations_per_s",
    "io_write_operations_per_s",
    "io_write_bytes_per_s",
    "memory_rss_bytes",
    "descriptors",
)
HOST_FEATURES = ("load_1m", "cpu_busy_ratio", "memory_available_bytes")
ROWS = (*(f"worker[{pid}@7]" for pid in range(100, 111)), HOG)
LAYOUT = make_layout(
    ROWS, [row.partition("[")[0] for row in ROWS], FEATURES, [*["/bin/worker --serve"] * 11, "python3 hog.py"]
)
HOST_LAYOUT = make_layout(("host",), ("host",), HOST_FEATURES)
TOPICS = Topics()


def at(tick: float) -> float:
    return START + tick * TICK_S


def frames(host: str, ticks: Iterable[int], seed: int = 1) -> Iterator[Frame | Mark]:
    noise = np.random.default_rng(seed)
    for tick in ticks:
        values = noise.normal(100.0, 5.0, (len(ROWS), len(FEATURES)))
        values[:, :3] /= 1000.0
        values[:, 9:11] *= 1e4
        if tick in WRONG:
            values[-1, FEATURES.index("io_write_bytes_per_s")] = 212e6
            values[-1, FEATURES.index("io_write_operations_per_s")] = 4000.0
        if tick not in GAP:
            yield Frame("host", host, "process", at(tick), 2 * tick, LAYOUT, values)
            yield Frame("host", host, "host", at(tick), 2 * tick + 1, HOST_LAYOUT, np.array([[0.5, 0.25, 2e9]]))
        if host == "web-1" and tick == 155:
            yield Mark(host, MARKED, "checkout hangs")


def append(bus: EmbeddedBus, records: Iterable[Frame | Mark]) -> None:
    topic = TOPICS.name(COUNTERS)
    for each in records:
        key = each.host if isinstance(each, Mark) else each.key
        bus.append([Outgoing(topic, key, encode(each), each.ts)])


def work(bus: EmbeddedBus, wired: Sequence[Wired], snapshot_records: int = 100) -> None:
    """Let the worker come to the end of its input, and stop."""
    runner, never, stopped = (
        Runner(bus, wired, TOPICS, snapshot_records=snapshot_records),
        threading.Event(),
        threading.Event(),
    )
    partition = bus.partitions(TOPICS.name(COUNTERS))[0]
    while runner.recovering() or bus.committed(TOPICS.group("gaussian"), partition) < bus.bounds(partition)[1]:
        runner.step(never)
    stopped.set()
    runner.run(stopped)


@dataclass(frozen=True)
class Recorded:
    path: Path
    bus: EmbeddedBus
    wired: Wired
    history: History


@pytest.fixture(scope="session")
def wired() -> tuple[Wired, ...]:
    flags = {"operators": "gaussian", "gaussian.context": "40m"}
    return wire(read_settings(environ={}, flags=[Given(name, value, "test") for name, value in flags.items()]))


@pytest.fixture
def empty(tmp_path: Path, wired: Sequence[Wired]) -> Iterator[Recorded]:
    """A bus with topics and nothing else."""
    with EmbeddedBus(tmp_path / "empty.db") as bus:
        bus.create(TOPICS.specs())
        yield Recorded(tmp_path / "empty.db", bus, wired[0], History(bus, TOPICS, wired[0]))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory, wired: Sequence[Wired]) -> Iterator[Recorded]:
    """Two hosts, the last ticks not yet worked through. To be read only."""
    path = tmp_path_factory.mktemp("history") / "laggard.db"
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        first, second = list(frames("web-1", range(TICKS))), list(frames("web-2", range(40), seed=2))
        records = sorted((*first, *second), key=lambda each: each.ts)
        append(bus, records[:-10])
        work(bus, wired)
        append(bus, [*records[-10:], Mark("web-2", at(38), "slow too")])
        yield Recorded(path, bus, wired[0], History(bus, TOPICS, wired[0]))
