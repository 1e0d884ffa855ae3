"""A day of one large machine on an embedded bus, worked through by the real worker: what the page is measured on.

    python -m tests.benchmarks.history /tmp/page/laggard.db
    python -m tests.benchmarks.history /tmp/page/laggard.db --processes 500 --hours 24 --tick 5 --seed 1

The machine is one of `tests.evaluation.simulated`, its newest frame is of now. Its processes come and go, three of them
get into trouble during the day, a last one is in trouble at the end of it, and two moments are marked. The records have
gone through the operators as they are after installation, so that snapshots, anomalies and incidents are there.
"""

from __future__ import annotations

import argparse
import threading
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Frame, Mark, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import stages
from tests.evaluation.simulated import DAY_S, HOST_FEATURES, START, Fault, Kind, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.records import Layout
    from tests.evaluation.simulated import Tick

HOST: Final = "web-1"

TROUBLED: Final = "hog[4711@99]"
"""The row of the process that is in trouble at the end."""

CORES: Final = 32

SHORT_PER_H: Final = 240.0
"""Processes that come and go, an hour."""

_BATCH: Final = 200  # ticks that are appended at once
_MAX_BYTES: Final = 4 << 30
_TOPICS: Final = Topics()


def make_history(path: Path, processes: int = 500, hours: float = 24.0, tick_s: float = 5.0, seed: int = 1) -> None:
    """Make the file of a bus with the history of host `HOST`, that ends now.

    Args:
        path: the file; it must not exist yet.
        processes: that live long.
        hours: of history.
        tick_s: between ticks, in seconds.
        seed: of the random numbers.

    """
    if path.exists():
        raise FileExistsError(f"{path}: expected a file that is not there yet")
    settings = read_settings(environ={}, flags=[Given("host", HOST, "a benchmark")])
    topic = _TOPICS.name(COUNTERS)
    ends = time.time()
    begins = ends - hours * 3600.0
    with EmbeddedBus(path, max_bytes=_MAX_BYTES) as bus:
        bus.create(_TOPICS.specs())
        running = stages(settings)
        runner, never = Runner(bus, running, _TOPICS), threading.Event()
        batch: list[Outgoing] = []
        marked = (0.6, "slow"), (0.1, "slow again")
        marks = [Mark(HOST, ends - share * hours * 3600.0, note) for share, note in marked]
        for number, frames in enumerate(_frames(processes, hours, tick_s, seed, begins)):
            while marks and marks[0].ts <= frames[0].ts:
                mark = marks.pop(0)
                batch.append(Outgoing(topic, HOST, encode(mark), mark.ts))
            batch += [Outgoing(topic, HOST, encode(frame), frame.ts) for frame in frames]
            if number % _BATCH == _BATCH - 1:
                bus.append(batch)
                batch.clear()
                runner.step(never)
        bus.append(batch)
        while any(
            bus.committed(_TOPICS.group(stage.name), each) < bus.bounds(each)[1]
            for stage in running
            for each in bus.partitions(_TOPICS.name(stage.topic))
        ):
            runner.step(never)
        stopped = threading.Event()
        stopped.set()
        runner.run(stopped)


def _frames(processes: int, hours: float, tick_s: float, seed: int, begins: float) -> Iterator[list[Frame]]:
    """The frames of each tick: of processes, and of the host itself."""
    days = hours / 24.0
    kind = Kind("large", processes, tick_s, CORES, SHORT_PER_H)
    lasts = hours * 3600.0
    services = [number for number, name in enumerate(Machine(kind, days, seed).names) if name.startswith("service")]
    troubles = [("hog", 0.3, 600.0), ("io", 0.55, 300.0), ("leak", 0.75, 3600.0), ("hog", 1.0 - 90.0 / lasts, 90.0)]
    faults = tuple(
        Fault(what, services[number], START + share * lasts, START + share * lasts + for_s, 0.9)
        for number, (what, share, for_s) in enumerate(troubles)
    )
    sequence = count(1)
    host_layout = make_layout(("host",), ("host",), (*HOST_FEATURES, "cpu_busy_ratio"))
    users, system = (HOST_FEATURES.index(each) for each in ("cpu_user_ratio", "cpu_system_ratio"))
    named: tuple[Layout, Layout] | None = None
    for tick in Machine(kind, days, seed, faults).ticks():
        if named is None or named[0] is not tick.layout:
            named = tick.layout, _named(tick, services[len(troubles) - 1])
        ts = tick.ts - START + begins
        busy = tick.host[:, users] + tick.host[:, system]
        host = np.column_stack([tick.host, np.minimum(busy, 1.0)])
        yield [
            Frame("host", HOST, "process", ts, next(sequence), named[1], tick.values),
            Frame("host", HOST, "host", ts, next(sequence), host_layout, host),
        ]


def _named(tick: Tick, troubled: int) -> Layout:
    """The layout of a tick with ids, command lines, users and containers as an agent sends them."""
    rows: list[str] = []
    for number, row in enumerate(tick.layout.rows):
        name, _, rest = row.rstrip("]").partition("[")
        pid, _, start = rest.partition("@")
        rows.append(f"{name}[{pid.replace('s', '9')}@{start}]" if number != troubled else TROUBLED)
    names = [row.partition("[")[0] for row in rows]
    commands = ["" if name.startswith("kworker") else f"/usr/bin/{name} --config /etc/{name}.toml" for name in names]
    users = ["root" if name.startswith("kworker") else "www-data" for name in names]
    containers = [
        f"docker:{number:012x}" if number % 3 == 0 else f"{name}.service" for number, name in enumerate(names)
    ]
    return make_layout(rows, names, tick.layout.features, commands, users=users, containers=containers)


def main() -> None:
    """Make a history, and say what it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--processes", type=int, default=500)
    parser.add_argument("--hours", type=float, default=DAY_S / 3600.0)
    parser.add_argument("--tick", type=float, default=5.0, help="seconds between ticks")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.path.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    make_history(given.path, given.processes, given.hours, given.tick, given.seed)
    print(f"{given.path}: {given.path.stat().st_size / 1e6:.0f} MB in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
