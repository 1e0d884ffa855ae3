"""Requests through the runner, to incidents: exactly once on each bus, whoever ends in between."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.topics import REQUESTS, Topics
from laggard.pipeline.methods.incidents.stage import Joining
from tests.pipeline.ending import BUSES, Left, buses, run
from tests.pipeline.methods.requests.stages import T0, calm, locked, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records import Request

STAGES = (stage(), Joining())
BEGAN = 10.0 * (round(time.time()) // 10) - 6000.0  # a broker deletes what is older than its topic's retention


def requests() -> list[Request]:
    """Calm, then some wait for a lock, then calm until that has ended."""
    troubled = [*calm(60, 90, 0.2), *(locked(60.55 + 1.0 * at) for at in range(30))]
    found = sorted([*calm(0, 60, 0.2), *troubled, *calm(90, 600, 3.0)], key=lambda each: each.ts + each.duration_s)
    return [
        replace(each, ts=each.ts - T0 + BEGAN, sequence=number, host=f"web-{number % 2}")
        for number, each in enumerate(found)
    ]


@pytest.fixture(params=BUSES)
def new_bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], tuple[Topics, Callable[[], Bus]]]]:
    yield from buses(request, tmp_path, STAGES)


def test_each_outlier_anomaly_and_incident_is_there_once_whoever_ends(
    new_bus: Callable[[], tuple[Topics, Callable[[], Bus]]],
) -> None:
    def left(steps: Callable[[], int]) -> Left:
        topics, opened = new_bus()
        name = topics.name(REQUESTS)
        records = [Outgoing(name, each.service, encode(each), each.ts) for each in requests()]
        return run(topics, opened, STAGES, records, steps)

    draw = random.Random(3)
    want = left(lambda: 1 << 30)
    got = left(lambda: draw.randrange(5, 60))
    kinds = [each["kind"] for each in want.told]
    assert kinds.count("request") > 5
    assert [each for each in kinds if each != "request"] == ["anomaly", "progress"]
    assert [each["change"] for each in want.incidents] == ["opened", "closed"]
    assert all(each["service"] == "shop" for each in want.told)
    assert got == want
