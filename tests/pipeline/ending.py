"""Workers that end without a word, over each bus: they leave what an undisturbed one leaves."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from laggard.pipeline.core.bus import Outgoing, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Decoder, encode
from laggard.pipeline.core.topics import ANOMALIES, Topics
from tests.pipeline.core.bus.kafka_buses import CLIENTS, kafka_options
from tests.pipeline.core.engine.conftest import ONE_BY_ONE, Refusing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.core.topics import Topic

BUSES: Final = ["embedded", *(pytest.param(client, marks=pytest.mark.slow) for client in CLIENTS)]
"""The parameters of a fixture that asks `buses`."""

PATIENCE_S: Final = 120.0


def buses(
    request: pytest.FixtureRequest, folder: Path, stages: Sequence[Stage]
) -> Iterator[Callable[[], tuple[Topics, Callable[[], Bus]]]]:
    """What makes topics of their own, and what opens a bus that has them; the parameter says of which kind."""
    with ExitStack() as ended:

        def make() -> tuple[Topics, Callable[[], Bus]]:
            if request.param == "embedded":
                path, topics = folder / f"{random.random()}.db", Topics()

                def opened() -> Bus:
                    return ended.enter_context(EmbeddedBus(path))
            else:
                options = kafka_options(request.getfixturevalue("broker"), request.param, session_timeout_s=6.0)
                topics = Topics(options.prefix)

                def opened() -> Bus:
                    return ended.enter_context(KafkaBus(options))

            bus = opened()
            bus.create(topics.specs())
            bus.create(topics.specs([topics.snapshots(each.snapshots) for each in stages if each.remembers]))
            return topics, opened

        yield make


class Left(NamedTuple):
    """What workers leave: of operators, and incidents; without ids, which follow from the names of topics."""

    told: list[dict[str, Any]]
    incidents: list[dict[str, Any]]


def run(
    topics: Topics,
    opened: Callable[[], Bus],
    stages: Sequence[Stage],
    records: Sequence[Outgoing],
    steps: Callable[[], int],
) -> Left:
    """Let workers do all of it, each of which ends without a word after a number of steps."""
    bus = opened()
    bus.append(records)
    inputs = [(topics.group(each.name), bus.partitions(topics.name(each.topic))[0]) for each in stages]

    def is_done() -> bool:
        # What a transaction leaves behind its records is no record.
        return all(not [*bus.read(each, bus.committed(group, each))] for group, each in inputs)

    never, deadline = threading.Event(), time.monotonic() + PATIENCE_S
    while not is_done():
        worker = Runner(opened(), stages, topics, pace=Pace(0.0, 7, 7), snapshot_records=4)
        for _ in range(steps()):
            assert time.monotonic() < deadline
            if is_done():
                break
            worker.step(never)
        for turn in worker._turns:  # as a process that is killed: nothing more is committed
            turn.member.close()
    told = [json.loads(each.value) for each in bus.read(bus.partitions(topics.name(ANOMALIES))[0], 0)]
    return Left(
        [without_ids(each) for each in told if each["kind"] != "incident"],
        [without_ids(each) for each in told if each["kind"] == "incident"],
    )


def rekeyed(
    folder: Path, stage: Stage, topics: Topics, frames: Sequence[Frame], result: Topic
) -> list[tuple[str, int]]:
    """The keys and numbers of frames that a stage makes of these: by workers that end without a word after some steps.

    On a bus that refuses now and then. The stage needs nothing but its offset: there are no snapshots.
    """
    draw, never = random.Random(5), threading.Event()
    with EmbeddedBus(folder / "bus.db") as bus:
        bus.create(topics.specs())
        inputs = Partition(topics.name(stage.topic), 0)
        bus.append([Outgoing(inputs.topic, each.key, encode(each), each.ts) for each in frames])
        refusing = Refusing(bus, 0.05)
        while bus.committed(topics.group(stage.name), inputs) < len(frames):
            worker = Runner(refusing, [stage], topics, pace=ONE_BY_ONE)
            for _ in range(draw.randrange(1, 25)):
                worker.step(never)
            for turn in worker._turns:  # as a process that is killed: nothing more is committed
                turn.member.close()
        assert refusing.refused > 0
        assert not bus.snapshots(stage.name, inputs)
        records = bus.read(Partition(topics.name(result), 0), 0)
        return [(each.key, Decoder().decode(each.value, "").sequence) for each in records]


def without_ids(found: Any) -> Any:
    """Without what follows from the names of topics and from offsets, which are each bus's own."""
    if isinstance(found, dict):
        return {name: without_ids(each) for name, each in found.items() if name not in {"id", "anomaly"}}
    return [without_ids(each) for each in found] if isinstance(found, list) else found
