"""Pools through the runner, from counters to incidents: exactly once on each bus, whoever ends in between."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import Frame, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, POOLS, Topics
from laggard.pipeline.methods.incidents.stage import Joining
from laggard.pipeline.methods.pools.pooling import Members, Pooling
from tests.pipeline.ending import BUSES, Left, buses, run
from tests.pipeline.methods.pools.records import STAGE, X

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus

STAGES = (Pooling(Members({"web": "*/gunicorn"})), STAGE, Joining())
HOSTS = ("web-1", "web-2", "db-1")
BEGAN = float(round(time.time()) - 6000)  # a broker deletes what is older than its topic's retention
FRAMES = 360


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


@pytest.fixture(params=BUSES)
def new_bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], tuple[Topics, Callable[[], Bus]]]]:
    yield from buses(request, tmp_path, STAGES)


def test_each_frame_ranking_and_incident_is_there_once_whoever_ends(
    new_bus: Callable[[], tuple[Topics, Callable[[], Bus]]],
) -> None:
    def left(steps: Callable[[], int]) -> tuple[list[bytes], Left]:
        topics, opened = new_bus()
        counters = topics.name(COUNTERS)
        records = [Outgoing(counters, each.key, encode(each), each.ts) for each in frames()]
        found = run(topics, opened, STAGES, records, steps)
        bus = opened()
        return [each.value for each in bus.read(bus.partitions(topics.name(POOLS))[0], 0)], found

    draw = random.Random(3)
    rekeyed, want = left(lambda: 1 << 30)
    got = left(lambda: draw.randrange(5, 60))
    assert len(rekeyed) == FRAMES
    assert [each["kind"] for each in want.told] == ["anomaly", "pool", "progress", "pool"]
    assert [[len(one["rows"]) for one in each["ranking"]] for each in want.told if each["kind"] == "pool"] == [[1], []]
    assert want.told[0]["blame"]["row"] == "web-2/gunicorn[2@1]"
    assert [each["change"] for each in want.incidents] == ["opened", "closed"]
    assert got == (rekeyed, want)
