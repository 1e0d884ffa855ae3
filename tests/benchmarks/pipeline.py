"""Counters a second through the whole pipeline: poll, decode, score, learn, commit; beside its parts in the same run.

    python -m tests.benchmarks.pipeline

An embedded bus has frames of 200 rows x 30 features of a few hosts, and a runner processes them. Its parts process the
same frames: reading them from the bus, decoding alone, the operator alone, and the task without a bus. The library
river only scores and learns some of the counters. Times are of the process's own CPU, so that other work of the machine
counts little. Use the shares, and the best of several rounds.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.gaussian import Gaussian
from laggard.pipeline.core.bus import Incoming, Outgoing, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Decoder, Frame, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.scoring.wired import Wired
from tests.benchmarks.gaussian import river_gaussian, river_scorer

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, FEATURES = 200, 30
TOPICS = Topics()
INPUT = Partition(TOPICS.name(COUNTERS), 0)
WIRED = Wired("gaussian", COUNTERS, ("process", "host"), Gaussian, Gaussian.state_version, {})


def frames(count: int, hosts: int) -> list[Frame]:
    """Like counters of processes: most are zero or constant, some change all the time."""
    draw = np.random.default_rng(1)
    names = [f"process-{row}" for row in range(ROWS)]
    features = [f"feature_{feature}_per_s" for feature in range(FEATURES)]
    commands = [f"/usr/bin/{name} --serve" for name in names]
    layouts = [
        make_layout([f"{name}[{100 * host + row}]" for row, name in enumerate(names)], names, features, commands)
        for host in range(hosts)
    ]
    base = draw.choice([0.0, 0.0, 1.0, 4096.0, 1e6], size=(hosts, ROWS, FEATURES))
    busy = draw.random((hosts, ROWS, FEATURES)) < 0.3
    made = []
    for number in range(count):
        host = number % hosts
        values = np.where(busy[host], np.round(draw.exponential(50.0, (ROWS, FEATURES))), base[host])
        ts = 1.7e9 + 5.0 * (number // hosts)
        made.append(Frame("host", f"host-{host}", "process", ts, number, layouts[host], values))
    return made


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def read_all(bus: EmbeddedBus, into: list[Incoming]) -> None:
    """Read, without a group."""
    into.extend(bus.read(INPUT, 0))


def decode_all(records: list[Incoming]) -> None:
    """Keeps no frame, as a task does: memory that the kernel has yet to give takes longer than the decoding."""
    decoder = Decoder()
    for one in records:
        decoder.decode(one.value, "here")


def operate(made: list[Frame]) -> None:
    operators: dict[str, Gaussian] = {}
    for frame in made:
        operator = operators.get(frame.key)
        if operator is None:
            operator = operators[frame.key] = Gaussian()
        operator.score(frame.ts, frame.layout, frame.values)
        operator.learn(frame.ts, frame.layout, frame.values)


def task_alone(records: list[Incoming]) -> None:
    task = Task(WIRED, INPUT)
    for one in records:
        task.process(one)
        task.states.take(task.position)


def run(bus: EmbeddedBus, end: int) -> None:
    runner = Runner(bus, [WIRED], TOPICS)
    stop = threading.Event()
    while runner.recovering() or bus.committed(TOPICS.group(WIRED.name), INPUT) < end:
        runner.step(stop)
    stop.set()
    runner.run(stop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="where the pipeline spends its time")
    given = parser.parse_args()
    made = frames(given.frames, given.hosts)
    outgoing = [Outgoing(INPUT.topic, one.key, encode(one), one.ts) for one in made]
    series = np.stack([one.values for one in made[: given.hosts * 2 : given.hosts]])
    rivers = {"river proba.Gaussian": river_gaussian(series), "river anomaly.GaussianScorer": river_scorer(series)}
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds):
            with EmbeddedBus(Path(folder) / f"{number}.db") as bus:
                bus.create(TOPICS.specs())
                for first in range(0, len(outgoing), 100):
                    bus.append(outgoing[first : first + 100])
                records: list[Incoming] = []
                profile = cProfile.Profile()
                works: dict[str, Callable[[], object]] = {
                    "read from the bus": partial(read_all, bus, records),
                    "decode": partial(decode_all, records),
                    "operator: score and learn": partial(operate, made),
                    "task: decode, score, learn, snapshots": partial(task_alone, records),
                    "pipeline: all of it, with poll and commit": partial(run, bus, len(outgoing)),
                }
                for name, work in works.items():
                    if given.profile and name.startswith("pipeline"):
                        profile.runcall(work)
                        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
                        return
                    best[name] = min(best.get(name, 1e9), timed(work))
                for name, learn in rivers.items():
                    best[name] = min(best.get(name, 1e9), timed(learn) * len(made) / len(series))
    cells = given.frames * ROWS * FEATURES
    whole = best["pipeline: all of it, with poll and commit"]
    print(f"{given.frames} frames of {ROWS} x {FEATURES}, {given.hosts} hosts, {len(outgoing[0].value)} bytes each")
    for name, seconds in best.items():
        per_frame, speed = seconds / given.frames * 1e6, cells / seconds / 1e6
        print(f"{name:45} {per_frame:8.1f} us/frame {speed:8.1f} M counters/s {seconds / whole:7.0%}")


if __name__ == "__main__":
    main()
