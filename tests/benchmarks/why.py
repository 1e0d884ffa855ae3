"""The duration of `laggard why` on two days of history: `python tests/benchmarks/why.py [BUS]`.

The history is that of one host: 285 processes with the agent's 25 counters every 5 s, the host's own row, and a mark
every hour. Four in five values are zero, and a process or two are new at every minute. The real runner has processed
it. In the last six hours one process leaks, so that `why` looks back for when it began. The history is made at `BUS` if
that does not exist, which takes minutes. Otherwise it is used again.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Frame, Mark, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.history.lookback import Lookback, grown
from laggard.pipeline.history.why import History
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.wiring import wire
from laggard.producers.host.processes import FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterator

PROCESSES = 285
TICK_S = 5.0
DAYS_S = 2 * 86400.0
LEAK_S = 6 * 3600.0
LEAK = np.array([210e6, 1.9e9])
HOST_FEATURES = [f"load_{number}" for number in range(65)]
HOST = "web-1"
TOPICS = Topics()
RUNS = 7


def records(end: float) -> Iterator[list[Frame | Mark]]:
    """The records that an agent appends at each tick, and the marks."""
    random = np.random.default_rng(1)
    busy = random.random((PROCESSES, len(FEATURES))) < 0.2
    ratios = np.array([feature.endswith("_ratio") for feature in FEATURES])
    level = 10.0 ** random.uniform(-1, np.where(ratios, 0, 6), (PROCESSES, len(FEATURES))) / np.where(ratios, 100, 1)
    born = list(range(PROCESSES))
    host_layout = make_layout(("host",), ("host",), HOST_FEATURES)
    layout = None
    ticks = int(DAYS_S / TICK_S)
    for tick in range(ticks):
        ts = end - (ticks - tick) * TICK_S
        if layout is None or tick % 12 == 0:
            born[int(random.integers(1, PROCESSES))] = PROCESSES + tick
            layout = make_layout(
                [f"worker-{row % 40}[{pid + 900}@{pid * 17}]" for row, pid in enumerate(born)],
                [f"worker-{row % 40}" for row in range(PROCESSES)],
                FEATURES,
                [f"/usr/lib/worker/bin/worker --port={pid * 7919 % 60000}" for pid in born],
            )
        values = np.where(busy, level * random.integers(90, 110, busy.shape), 0.0)
        if tick % 720 in {700, 701}:
            values[1 + tick % 7] = values.sum(axis=0)
        values[0, FEATURES.index("memory_rss_bytes")] = np.interp(end - ts, [0.0, LEAK_S], LEAK[::-1])
        host = np.round(random.normal(5.0, 0.5, (1, len(HOST_FEATURES))), 3)
        appended: list[Frame | Mark] = [
            Frame("host", HOST, "process", ts, 2 * tick, layout, values),
            Frame("host", HOST, "host", ts, 2 * tick + 1, host_layout, host),
        ]
        if tick % 720 == 701:
            appended.append(Mark(HOST, ts + 2.0, "slow"))
        yield appended


def make(path: Path) -> None:
    """Record the days, and let the worker come to its end."""
    topic, started = TOPICS.name(COUNTERS), time.perf_counter()
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        for appended in records(time.time()):
            bus.append([Outgoing(topic, HOST, encode(each), each.ts) for each in appended])
        recorded = time.perf_counter()
        runner, stop = Runner(bus, wire(read_settings(environ={})), TOPICS), threading.Event()
        (partition,) = bus.partitions(topic)
        end = bus.bounds(partition)[1]
        while runner.recovering() or bus.committed(TOPICS.group("gaussian"), partition) < end:
            runner.step(stop)
        stop.set()
        runner.run(stop)
    size = path.stat().st_size / 1e6
    worked_s = time.perf_counter() - recorded
    print(f"recorded {end} records in {recorded - started:.0f} s, worked in {worked_s:.0f} s, {size:.0f} MB")


def timed(*arguments: str) -> tuple[float, float]:
    """Wall and CPU seconds of the whole command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-P", "-m", "laggard.pipeline.cli", *arguments], check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(path: Path) -> None:
    """Ask for now, for moments spread over the days, and for the marks."""
    bus = ("--bus", str(path))
    asked: dict[str, list[tuple[str, ...]]] = {
        "laggard --version": [("--version",)] * RUNS,
        "why": [("why", *bus)] * RUNS,
        "why --json": [("why", "--json", *bus)] * RUNS,
        "why --at": [
            ("why", "--at", str(path.stat().st_mtime - DAYS_S * (run + 0.7) / (RUNS + 2)), *bus) for run in range(RUNS)
        ],
        "why --mark last": [("why", "--mark", "last", *bus)] * RUNS,
        "why --marks": [("why", "--marks", *bus)] * RUNS,
    }
    for name, commands in asked.items():
        walls, cpus = zip(*(timed(*each) for each in commands), strict=True)
        wall, worst, cpu = statistics.median(walls), max(walls), statistics.median(cpus)
        print(f"{name:20} wall median {wall:.2f} s, worst {worst:.2f} s; CPU median {cpu:.2f} s")
    print(f"load of the machine {os.getloadavg()[0]:.1f}")


def measure_growth(path: Path) -> None:
    """Look for when the leak began, alone."""
    with EmbeddedBus(path) as bus:
        history = History(bus, TOPICS, wire(read_settings(environ={}))[0])
        asked = history.ask(HOST, None, 5, 3)
        assert asked.subject is not None
        reader = history.reader(HOST)
        stop = bus.bounds(reader.partition)[1]
        began = time.process_time()
        past = Lookback(reader, asked.subject, moment=asked.frame.ts, stop=stop, tick_s=asked.tick_s)
        found = grown(past)
        cpu_ms = (time.process_time() - began) * 1e3
        assert found is not None
        lasted_h = (asked.frame.ts - found.ts) / 3600.0
        print(f"grown for {lasted_h:.2f} h: {past.lookups} lookups, CPU {cpu_ms:.0f} ms")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bus", nargs="?", type=Path, help="the history's file; by default a temporary one")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.bus or Path(folder, "laggard.db")
        if not path.exists():
            make(path)
        measure(path)
        measure_growth(path)


if __name__ == "__main__":
    main()
