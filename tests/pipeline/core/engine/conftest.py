"""A small operator, frames, and a bus that refuses at random: what the tests of the runner share."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.core.bus import Bus, BusUnavailable, Incoming, Outgoing, Partition, Subscription
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.migrations import snapshot_name
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.engine.snapshots import VERSION
from laggard.pipeline.core.records import UNNUMBERED, Frame, Mark, encode, make_layout
from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, DEAD_LETTERS, Topics
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.scoring.wired import Wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from laggard.operators.contract import Layout, Matrix
    from laggard.pipeline.core.bus import Commit, Polled, Snapshot, TopicSpec
    from laggard.pipeline.core.engine.stage import Stage

UNSCORABLE, UNLEARNABLE = 666.0, 667.0
LAYOUT = make_layout(("a[1]", "b[2]"), ("a", "b"), ("cpu_ratio", "memory_bytes"), ("a --x", "b"))


@dataclass(frozen=True)
class DriftScores:
    ts: float
    score: float
    layout: Layout
    values: Matrix
    mean: float

    def ranking(self, rows: int, features: int) -> Ranking:
        ranked = tuple(
            RowScore(
                row,
                name,
                self.score,
                tuple(
                    FeatureScore(feature, float(value), self.mean, 1.0, self.score)
                    for feature, value in zip(self.layout.features[:features], line, strict=False)
                    if value == value  # noqa: PLR0124 - not NaN
                ),
                1.0,
            )
            for row, name, line in zip(self.layout.rows[:rows], self.layout.names, self.values, strict=False)
        )
        return Ranking(self.ts, self.score, ranked, 1.0, young=False)


class Drift:
    """Scores a frame by how far its sum is from a running mean, which depends on the order of all frames."""

    state_version: ClassVar[int] = 1

    def __init__(self) -> None:
        self.learned = 0
        self.mean = np.zeros(1)

    def score(self, ts: float, layout: Layout, values: Matrix) -> DriftScores:
        if (values == UNSCORABLE).any():
            raise ValueError("cannot score this")
        distance = abs(float(np.nansum(values)) - float(self.mean[0])) / 10.0 if self.learned else 0.0
        return DriftScores(ts, distance, layout, values, float(self.mean[0]))

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        if (values == UNLEARNABLE).any():
            raise ValueError("cannot learn this")
        self.mean += (float(np.nansum(values)) - self.mean) * (0.3 if self.learned else 1.0)
        self.learned += 1

    def snapshot(self) -> dict[str, Any]:
        return {"learned": self.learned, "mean": self.mean.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.learned, self.mean = state["learned"], state["mean"].copy()


WIRED = Wired("drift", COUNTERS, ("process", "host"), Drift, Drift.state_version, {"limit": 10.0})
TOPICS = Topics("t.")
INPUT = Partition("t.counters", 0)


def at(tick: int) -> float:
    """The time of a tick, 20 s apart."""
    return 1000.0 + 20.0 * tick


def frame(
    host: str, tick: int, value: float, *, scope: str = "process", ts: float | None = None, sequence: int | None = None
) -> Frame:
    """The frame of a tick; by default its number is its sequence."""
    return Frame(
        "host", host, scope, at(tick) if ts is None else ts, tick if sequence is None else sequence, LAYOUT,
        np.array([[value, 1.0], [np.nan, 2.0]]),
    )  # fmt: skip


def record(one: Frame | Mark, offset: int = 0) -> Incoming:
    key = one.key if isinstance(one, Frame) else one.host
    return Incoming(INPUT, offset, key, encode(one), one.ts)


def new_task(**options: Any) -> Task:
    return Task(WIRED, INPUT, **({"snapshot_records": 1000} | options))


def moved(one: Task, other: Task) -> Task:
    """The other task, with the states of the first and where it is."""
    one.states.save_all(one.position)
    other.states.load(one.states.take(one.position))
    other.states.loaded(one.position)
    other.position = one.position
    return other


def told(one: Task, frames: Iterable[Frame], headers: tuple[tuple[str, bytes], ...] = ()) -> list[Any]:
    """What comes out when it is given these."""
    for offset, each in enumerate(frames, start=one.position):
        one.process(replace(record(each, offset), headers=headers))
    outputs = list(one.outputs)
    one.outputs.clear()
    return outputs


def append(bus: Bus, records: Iterable[Frame | Mark | bytes]) -> None:
    bus.append(
        [
            Outgoing(INPUT.topic, "h1", one, 1000.0)
            if isinstance(one, bytes)
            else Outgoing(INPUT.topic, one.key if isinstance(one, Frame) else one.host, encode(one), one.ts)
            for one in records
        ]
    )


def stream(length: int, hosts: int = 3, seed: int = 9) -> list[Frame | Mark | bytes]:
    """A short stream with everything in it: marks, spikes, duplicates, late frames, junk, what an operator refuses."""
    draw = random.Random(seed)
    records: list[Frame | Mark | bytes] = []
    last: Frame | Mark | None = None
    for tick in range(length):
        host = f"h{draw.randrange(hosts)}"
        kind = draw.random()
        if tick in {20, 21}:
            records.append(frame("h1", tick, UNLEARNABLE if tick == 20 else 5.0))
        elif tick in {12, 13}:
            records.append(Mark("h1", at(12), "twice", 12))
        elif tick == 22:
            records.append(b"junk")
        elif kind < 0.1:
            last = Mark(host, at(tick), f"slow at {tick}", tick)
            records.append(last)
        elif kind < 0.15 and last is not None:
            records.append(last)
        elif kind < 0.2:
            records.append(frame(host, tick, 1.0, ts=at(tick - 15), sequence=UNNUMBERED))
        elif kind < 0.25:
            records.append(b"junk %d" % tick)
        elif kind < 0.3:
            records.append(frame(host, tick, draw.choice([UNSCORABLE, UNLEARNABLE])))
        else:
            scope = draw.choice(["process", "process", "host", "agent"])
            last = frame(host, tick, draw.gauss(5.0, 1.0) + (60.0 if draw.random() < 0.1 else 0.0), scope=scope)
            records.append(last)
    return records


Out = tuple[str, str, bytes, float, tuple[tuple[str, bytes], ...]]


@dataclass(frozen=True)
class Result:
    """All that a run leaves on the bus."""

    outputs: list[Out]
    states: dict[str, bytes]
    offsets: dict[str, int]
    committed: int


def result(bus: Bus, operator: str = "drift") -> Result:
    outputs = [
        (one.partition.topic, one.key, one.value, one.ts, one.headers)
        for topic in (ANOMALIES, DEAD_LETTERS)
        for partition in bus.partitions(TOPICS.name(topic))
        for one in bus.read(partition, 0)
    ]
    snapshots = [one for one in bus.snapshots(snapshot_name(operator, VERSION), INPUT) if one.key]
    return Result(
        outputs,
        {one.key: one.value for one in snapshots},
        {one.key: one.offset for one in snapshots},
        bus.committed(TOPICS.group(operator), INPUT),
    )


NEVER = threading.Event()


ONE_BY_ONE = Pace(commit_s=0.0, commit_records=1, poll_records=1)


def runner(bus: Bus, stages: Sequence[Stage] = (WIRED,), pace: Pace = ONE_BY_ONE, **options: Any) -> Runner:
    """A runner that takes a snapshot of each key after 4 records, and commits after each poll of one record."""
    options.setdefault("snapshot_records", 4)
    return Runner(bus, stages, TOPICS, pace=pace, **options)


def drain(one: Runner, bus: Bus, operator: str = "drift") -> None:
    """Run until everything is committed."""
    end = bus.bounds(INPUT)[1]
    for _ in range(20 * end + 100):
        if not one.recovering() and bus.committed(TOPICS.group(operator), INPUT) >= end:
            return
        one.step(NEVER)
    raise AssertionError("does not come to the end")


def settle(one: Runner) -> None:
    """Step until the states are what they were."""
    until = time.monotonic() + 120
    while one.recovering():
        assert time.monotonic() < until
        one.step(NEVER)


def stop(one: Runner) -> None:
    """A clean stop, here and now."""
    stopped = threading.Event()
    stopped.set()
    one.run(stopped)


class Refusing(Bus):
    """A bus on which any call may find that it is unavailable for now: before it does anything."""

    def __init__(self, bus: Bus, share: float, seed: int = 1) -> None:
        self._bus = bus
        self._share = share
        self._draw = random.Random(seed)
        self.refused = 0

    def may_refuse(self) -> None:
        if self._draw.random() < self._share:
            self.refused += 1
            raise BusUnavailable("the disk is full")

    def create(self, topics: Iterable[TopicSpec]) -> None:
        self._bus.create(topics)

    def append(self, records: Sequence[Outgoing]) -> None:
        self._bus.append(records)

    def partitions(self, topic: str) -> Sequence[Partition]:
        return self._bus.partitions(topic)

    def partition_of(self, topic: str, key: str) -> Partition:
        return self._bus.partition_of(topic, key)

    def bounds(self, partition: Partition) -> tuple[int, int]:
        self.may_refuse()
        return self._bus.bounds(partition)

    def offset_at(self, partition: Partition, ts: float) -> int:
        return self._bus.offset_at(partition, ts)

    def read(
        self, partition: Partition, start: int, stop: int | None = None, key: str | None = None
    ) -> Iterator[Incoming]:
        for one in self._bus.read(partition, start, stop, key):
            self.may_refuse()
            yield one

    def keys(self, topic: str) -> Sequence[str]:
        return self._bus.keys(topic)

    def subscribe(self, group: str, topics: Sequence[str]) -> Subscription:
        self.may_refuse()
        return RefusingSubscription(self, self._bus.subscribe(group, topics))

    def committed(self, group: str, partition: Partition) -> int:
        return self._bus.committed(group, partition)

    def snapshots(self, operator: str, partition: Partition, at_or_before: int | None = None) -> Sequence[Snapshot]:
        self.may_refuse()
        return self._bus.snapshots(operator, partition, at_or_before)

    def reset(
        self,
        group: str,
        operators: Sequence[str],
        offsets: Mapping[Partition, int],
        snapshots: Sequence[Snapshot] = (),
    ) -> None:
        self._bus.reset(group, operators, offsets, snapshots)

    def close(self) -> None:
        self._bus.close()


class RefusingSubscription(Subscription):
    """The same of a subscription."""

    def __init__(self, bus: Refusing, subscription: Subscription) -> None:
        self._bus = bus
        self._subscription = subscription

    def poll(self, timeout_s: float, max_records: int = 500) -> Polled:
        self._bus.may_refuse()
        return self._subscription.poll(timeout_s, max_records)

    def seek(self, partition: Partition, offset: int) -> None:
        self._bus.may_refuse()
        self._subscription.seek(partition, offset)

    def pause(self, partition: Partition) -> None:
        self._bus.may_refuse()
        self._subscription.pause(partition)

    def resume(self, partition: Partition) -> None:
        self._bus.may_refuse()
        self._subscription.resume(partition)

    def committed(self, partition: Partition) -> int:
        self._bus.may_refuse()
        return self._subscription.committed(partition)

    def commit(self, commit: Commit) -> None:
        self._bus.may_refuse()
        self._subscription.commit(commit)

    def close(self) -> None:
        self._subscription.close()


@pytest.fixture
def new_bus(tmp_path: Path) -> Iterator[Callable[[], EmbeddedBus]]:
    """Makes buses, each in a file of its own, with all topics."""
    buses: list[EmbeddedBus] = []

    def make() -> EmbeddedBus:
        bus = EmbeddedBus(tmp_path / f"{len(buses)}.db")
        bus.create(TOPICS.specs())
        buses.append(bus)
        return bus

    yield make
    for bus in buses:
        bus.close()


@pytest.fixture
def bus(new_bus: Callable[[], EmbeddedBus]) -> EmbeddedBus:
    return new_bus()
