"""A bus with a service whose requests were traced, and with what the operator says of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.topics import REQUESTS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.incidents.stage import Joining
from laggard.pipeline.methods.requests.method import requests_stage
from tests.grafana.service import Held, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.records import Request

SERVICE: Final = "wordpress"
SECONDS: Final = 300
"""Ten requests each second."""

HELD: Final = (Held("lock", 200.0, 260.0, 0.05), Held("refused", 230.0, 290.0, 0.03))
"""Some wait for a lock, some for a server that refuses."""


def record(
    path: Path, begin: float, *, seconds: int = SECONDS, named: Callable[[Request], Request] | None = None
) -> None:
    """Make the bus in this file.

    Args:
        path: of the file.
        begin: when the first request ends, seconds since the Unix epoch.
        seconds: for how long there are some.
        named: makes another request of each.

    """
    topics, stages = Topics(), (requests_stage(read_settings(None, environ={}, flags=[])), Joining())
    with EmbeddedBus(path) as bus:
        bus.create(topics.specs())
        bus.create(topics.specs([topics.snapshots(each.snapshots) for each in stages if each.remembers]))
        requests = (named(each) if named is not None else each for each in traced(begin, seconds))
        bus.append([Outgoing(topics.name(REQUESTS), each.service, encode(each), each.ts) for each in requests])
        work(bus, topics, stages)


def work(bus: Bus, topics: Topics, stages: Sequence[Stage]) -> None:
    """Let a worker do all that there is to do."""
    inputs = [(topics.group(each.name), bus.partitions(topics.name(each.topic))) for each in stages]
    worker, never = Runner(bus, stages, topics, pace=Pace(commit_s=0.0)), threading.Event()
    while any(bus.committed(group, each) < bus.bounds(each)[1] for group, found in inputs for each in found):
        worker.step(never)
    for turn in worker._turns:
        turn.member.close()


def traced(begin: float, seconds: int = SECONDS) -> Iterator[Request]:
    """The requests, each with its path."""
    service = Service(SERVICE, "web-1", begin, HELD)
    for second in range(seconds):
        yield from sorted(service.requests(begin + second + 1.0), key=lambda each: each.ts)
