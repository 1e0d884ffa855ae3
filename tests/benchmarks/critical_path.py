"""Requests from a kernel's trace: events a second, and how much memory a long trace takes.

    python -m tests.benchmarks.critical_path [--events 2000000] [--rounds 3] [--stuck] [--recording FOLDER]

The input is simulated: eight workers that serve requests of some 150 events one after the other, with waits for
disks, timers, other threads and CPUs; or a recorded folder. The ways take turns within each round; the median round
counts, in CPU time of one core. Memory is what the process has at most beyond what it had before: batches
are made as they are read, so that it is the analysis's own. `--events 25000000` is about a GiB of ftrace's pages. With
`--stuck` one more request begins with the trace and never ends: the most that is kept.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.events import Events, Kind
from laggard.producers.trace.ftrace.recording import Recording
from tests.producers.trace.simulated import (
    Interrupted,
    Kernel,
    Preempted,
    Run,
    Stage,
    Wait,
    WaitFor,
    length,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.producers.trace.simulated import Step

WORKERS: Final = 8
REQUESTS: Final = 25
"""Of each worker, before all is repeated later."""

BATCH: Final = 100_000


def steps(draw: random.Random) -> list[Step]:
    """Of a request: mostly system calls, as of a script that includes files and asks a database."""
    made: list[Step] = []
    for _ in range(draw.randint(1, 10)):
        for _ in range(draw.randint(2, 15)):
            made += [Run(draw.randint(1_000, 50_000)), Kernel(draw.randint(300, 5_000), "openat", draw.choice([3, -2]))]
        waits: list[Step] = [
            WaitFor((Run(50_000), Kernel(1_000, "pread64"), Run(20_000)), 2_000, 9_000, how="loopback"),
            WaitFor((Run(5_000), Wait("disk", 200_000, 9_000)), 2_000, 9_000),
            WaitFor((Run(30_000),), 1_000, 4_000, how="futex"),
            Wait("disk", 150_000, 8_000),
            Wait("timer", 1_000_000, 10_000),
            Preempted(40_000),
            Interrupted(3_000, 2_000),
        ]
        made.append(draw.choice(waits))
    return made


def stretch() -> tuple[Events, int]:
    """A stretch of trace, and how long it is: all threads are idle before and after."""
    draw = random.Random(10)
    stage = Stage()
    ends = []
    for number in range(WORKERS):
        worker = stage.actor(f"worker-{number}")
        at = 2_000_000 + number * 10_000
        for _ in range(REQUESTS):
            served = steps(draw)
            at += length(served) + 50_000
            stage.request(worker, at - length(served), served, f"shop\tGET /{draw.randint(1, 5)}")
        ends.append(at)
    [batch] = stage.batches()
    return batch, max(ends)


def repeated(wanted: int) -> Iterator[Events]:
    """That stretch, one after the other, until there are enough events."""
    batch, period = stretch()
    told = 0
    for number in itertools.count():
        events = batch.events.copy()
        events["ts"] += number * period
        for at in range(0, len(events), BATCH):
            if told >= wanted:
                return
            yield Events(events[at : at + BATCH], batch.texts)
            told += len(events[at : at + BATCH])


def stuck(batches: Iterator[Events]) -> Iterator[Events]:
    """With a request on a thread of its own that never ends."""
    first = next(batches)
    event = first.events[:1].copy()
    event["kind"], event["tid"], event["cpu"] = Kind.BEGIN, 99_999, 999
    yield Events(np.concatenate([event, first.events]), first.texts)
    yield from batches


def without_requests(batch: Events) -> Events:
    """So that only the pass over the events is left."""
    events = batch.events
    return Events(events[(events["kind"] != Kind.BEGIN) & (events["kind"] != Kind.END)], batch.texts)


def analysed(batches: Iterator[Events]) -> Analysis:
    analysis = Analysis()
    for batch in batches:
        analysis.feed(batch)
    analysis.finish()
    return analysis


def events_per_s(make: Callable[[], Iterator[Events]]) -> tuple[float, Analysis]:
    """Of an analysis, without the time in which the batches are made."""
    analysis = Analysis()
    spent = 0.0
    for batch in make():
        since = time.process_time()
        analysis.feed(batch)
        spent += time.process_time() - since
    analysis.finish()
    return analysis.report.events / spent, analysis


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stuck", action="store_true")
    parser.add_argument("--recording", type=Path)
    arguments = parser.parse_args()

    def source() -> Iterator[Events]:
        batches = iter(Recording(arguments.recording)) if arguments.recording else repeated(arguments.events)
        return stuck(batches) if arguments.stuck else batches

    next(source())  # What is imported and made once is not the analysis's.
    before = peak_bytes()
    analysis = analysed(source())
    grown = peak_bytes() - before
    report = analysis.report
    print(
        f"{report.events:,} events, {report.requests:,} requests, {report.events / max(1, report.requests):,.0f} each"
    )
    print(f"memory: {grown / 2**20:,.0f} MiB more than before, {(before + grown) / 2**20:,.0f} MiB in all")
    ways = {
        "the pass over the events": lambda: map(without_requests, source()),
        "with requests, in full": source,
    }
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            rounds[name].append(events_per_s(way)[0])
    for name, rates in rounds.items() if arguments.rounds else ():
        print(f"{name:28} {statistics.median(rates):12,.0f} events/s")
    for warning in report.warnings:
        print(f"warning: {warning}")


if __name__ == "__main__":
    main()
