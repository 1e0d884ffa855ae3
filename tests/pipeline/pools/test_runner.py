"""Pools through the runner, from counters to incidents: exactly once on each bus, whoever ends in between."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.pipeline.bus import Outgoing
from laggard.pipeline.bus.embedded import EmbeddedBus
from laggard.pipeline.bus.kafka.bus import KafkaBus
from laggard.pipeline.engine.member import Pace
from laggard.pipeline.engine.runner import Runner
from laggard.pipeline.incidents.joining import Joining
from laggard.pipeline.pools.pooling import Members, Pooling
from laggard.pipeline.records import Frame, encode, make_layout
from laggard.pipeline.topics import ANOMALIES, COUNTERS, POOLS, Topics
from tests.pipeline.bus.kafka_buses import CLIENTS, kafka_options
from tests.pipeline.pools.records import STAGE, X

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from laggard.pipeline.bus import Bus

STAGES = (Pooling(Members({"web": "*/gunicorn"})), STAGE, Joining())
HOSTS = ("web-1", "web-2", "db-1")
BEGAN = float(round(time.time()) - 6000)  # a broker deletes what is older than its topic's retention
FRAMES = 360
PATIENCE_S = 120.0


def frames() -> list[Frame]:
    """Counters of three hosts with two workers each; one is busy for a while, and is calm again."""
    draw, found = random.Random(1), []
    for number in range(FRAMES):
        tick, at = divmod(number, len(HOSTS))
        values = np.array([[0.1 + 0.1 * draw.random()] for _ in range(3)])
        values[1] += 3.0 * (HOSTS[at] == "web-2" and 20 <= tick < 30)
        layout = make_layout(["gunicorn[1@1]", "gunicorn[2@1]", "cron[3@1]"], ["gunicorn", "gunicorn", "cron"], [X])
        found.append(Frame("host", HOSTS[at], "process", BEGAN + 5.0 * tick + at, number, layout, values))
    return found


@pytest.fixture(params=["embedded", *(pytest.param(client, marks=pytest.mark.slow) for client in CLIENTS)])
def new_bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], tuple[Topics, Callable[[], Bus]]]]:
    """Makes topics of their own, and what opens a bus that has them."""
    with ExitStack() as ended:

        def make() -> tuple[Topics, Callable[[], Bus]]:
            if request.param == "embedded":
                path, topics = tmp_path / f"{random.random()}.db", Topics()

                def opened() -> Bus:
                    return ended.enter_context(EmbeddedBus(path))
            else:
                options = kafka_options(request.getfixturevalue("broker"), request.param, session_timeout_s=6.0)
                topics = Topics(options.prefix)

                def opened() -> Bus:
                    return ended.enter_context(KafkaBus(options))

            bus = opened()
            bus.create(topics.specs())
            bus.create(topics.specs([topics.snapshots(each.snapshots) for each in STAGES if each.remembers]))
            return topics, opened

        yield make


def run(topics: Topics, opened: Callable[[], Bus], steps: Callable[[], int]) -> dict[str, list[Any]]:
    """Let workers do all of it, each of which ends without a word after so many steps; gives what they leave."""
    bus = opened()
    counters = topics.name(COUNTERS)
    bus.append([Outgoing(counters, each.key, encode(each), each.ts) for each in frames()])
    inputs = [(topics.group(each.name), bus.partitions(topics.name(each.topic))[0]) for each in STAGES]

    def is_done() -> bool:
        # What a transaction leaves behind its records is no record.
        return all(not [*bus.read(each, bus.committed(group, each))] for group, each in inputs)

    never, deadline = threading.Event(), time.monotonic() + PATIENCE_S
    while not is_done():
        worker = Runner(opened(), STAGES, topics, pace=Pace(0.0, 7, 7), snapshot_records=4)
        for _ in range(steps()):
            assert time.monotonic() < deadline
            if is_done():
                break
            worker.step(never)
        for turn in worker._turns:  # as a process that is killed: nothing more is committed
            turn.member.close()
    told = [json.loads(each.value) for each in bus.read(bus.partitions(topics.name(ANOMALIES))[0], 0)]
    rekeyed = [each.value for each in bus.read(bus.partitions(topics.name(POOLS))[0], 0)]
    of_operator = [without_ids(each) for each in told if each["kind"] != "incident"]
    return {
        "rekeyed": rekeyed,
        "told": of_operator,
        "incidents": [without_ids(each) for each in told if each["kind"] == "incident"],
    }


def without_ids(found: Any) -> Any:
    """Without what follows from the names of topics and from offsets, which are each bus's own."""
    if isinstance(found, dict):
        return {name: without_ids(each) for name, each in found.items() if name not in {"id", "anomaly"}}
    return [without_ids(each) for each in found] if isinstance(found, list) else found


def test_each_frame_ranking_and_incident_is_there_once_whoever_ends(
    new_bus: Callable[[], tuple[Topics, Callable[[], Bus]]],
) -> None:
    draw = random.Random(3)
    want = run(*new_bus(), lambda: 1 << 30)
    got = run(*new_bus(), lambda: draw.randrange(5, 60))
    assert len(want["rekeyed"]) == FRAMES
    assert [each["kind"] for each in want["told"]] == ["anomaly", "pool", "pool", "progress"]
    assert [[len(one["rows"]) for one in each["ranking"]] for each in want["told"] if each["kind"] == "pool"] == [
        [1],
        [],
    ]
    assert want["told"][0]["blame"]["row"] == "web-2/gunicorn[2@1]"
    assert [each["change"] for each in want["incidents"]] == ["opened", "closed"]
    assert got == want
