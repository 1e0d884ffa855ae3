"""kill -9 at random moments: every frame is counted once, and the result is that of an undisturbed run, bit for bit.

A producer and a worker run as processes of their own over one embedded bus. Now and then one of them gets SIGKILL,
wherever it is, also while it starts, and is started again. The producer continues after the last sequence number that
is on the bus. In the end the input, the outputs and the states are compared with those of an undisturbed run. These are
those of the default operators, and of the stage that joins their anomalies to incidents. The places of incidents
between anomalies depend on which process was quicker, so incidents are compared separately. One of the hosts falls
silent for an hour now and then, which ends its open anomalies.

    python tests/evaluation/kill.py                                   # about a minute
    python tests/evaluation/kill.py --frames 100000 --seconds 600     # longer
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laggard.pipeline.core.bus import Outgoing, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.engine.snapshots import decode_state
from laggard.pipeline.core.records import Decoder, Frame, Mark, encode, make_layout
from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, DEAD_LETTERS, Topics
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.incidents.stage import Joining
from laggard.pipeline.settings.reading import Given
from laggard.pipeline.wiring import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from laggard.pipeline.core.records.frame import Layout

HOSTS = 3
FEATURES = (
    "cpu_quota_throttled_ratio",
    "cpu_user_ratio",
    "pressure_cpu_some_ratio",
    "memory_rss_bytes",
    *(f"feature_{number}" for number in range(4, 12)),
)
RATIOS = 3
"""The number of features that are ratios: now large, now small, so that each operator reports something."""
TOPICS = Topics()
INPUT = Partition(TOPICS.name(COUNTERS), 0)
WIRED = wire(
    read_settings(
        environ={},
        flags=[Given("gaussian.context", "20m", "--set"), Given("gaussian.minimum_features", 5, "--set")],
    )
)
JOINING = Joining()
JOINED = Partition(TOPICS.name(ANOMALIES), 0)
SNAPSHOT_RECORDS = 50
LEAST_KILLS = 3
"""Also where the machine is too busy for that many in the time."""


def matrix(number: int, age: int) -> tuple[Layout, NDArray[np.float64]]:
    """Names and values of a frame from its number alone: some with a spike or a gap; rows come and go with the age."""
    noise = np.random.default_rng(number)
    rows = tuple(f"p{row}[{row + 1}]" for row in range(age % 3, 5 + age % 4))
    layout = make_layout(rows, [row.partition("[")[0] for row in rows], FEATURES)
    values = noise.normal(100.0, 5.0, (len(rows), len(FEATURES)))
    values[:, :RATIOS] *= 0.009 if age % 2 else 0.001
    values[noise.random(values.shape) < 0.01] = np.nan
    if number % 211 < 3:
        values[number % len(rows)] *= 40.0
    return layout, values


def host_of(number: int) -> str:
    """Whose record it is: for 1,000 of each 1,500 ticks the last host is silent, and another one there in its place."""
    tick, host = divmod(number, HOSTS)
    return f"host-{host - 1 if host == HOSTS - 1 and 150 <= tick % 1500 < 1150 else host}"


def records(start: int, stop: int) -> Iterator[Outgoing]:
    """The input, each record from its number alone: frames whose rows come and go, spikes and gaps, and marks."""
    topic = TOPICS.name(COUNTERS)
    for number in range(start, stop):
        host = host_of(number)
        ts = 1.7e9 + 5.0 * number / HOSTS
        if number % 97 == 50:
            yield Outgoing(topic, host, encode(Mark(host, ts, f"slow {number}", number)), ts)
            continue
        layout, values = matrix(number, number // 150)
        frame = Frame("host", host, "process" if number % 5 else "host", ts, number, layout, values)
        yield Outgoing(topic, host, encode(frame), ts)


def produce(path: Path, frames: int, per_s: float) -> None:
    """Append the records that are not on the bus yet, a few at once, at the given rate."""
    with EmbeddedBus(path) as bus:
        end = bus.bounds(INPUT)[1]
        number = 0
        for last in bus.read(INPUT, end - 1):
            number = Decoder().decode(last.value, "the last record").sequence + 1
        while number < frames:
            began = time.monotonic()
            batch = list(records(number, min(frames, number + 1 + number % 7)))
            bus.append(batch)
            number += len(batch)
            time.sleep(max(0.0, len(batch) / per_s - (time.monotonic() - began)))


def work(path: Path, stop: threading.Event) -> None:
    with EmbeddedBus(path) as bus:
        Runner(bus, [*WIRED, JOINING], TOPICS, snapshot_records=SNAPSHOT_RECORDS).run(stop)


Out = tuple[str, str, bytes, tuple[tuple[str, bytes], ...]]


@dataclass(frozen=True)
class Result:
    """The records on the bus in the end."""

    inputs: list[bytes]
    outputs: list[Out]
    incidents: list[Out]
    states: dict[tuple[str, str], tuple[int, bytes]]
    counted: dict[str, int]
    joined: dict[str, bytes]


def result(path: Path) -> Result:
    with EmbeddedBus(path) as bus:
        outputs = [
            (topic.name, one.key, one.value, one.headers)
            for topic in (ANOMALIES, DEAD_LETTERS)
            for one in bus.read(Partition(TOPICS.name(topic), 0), 0)
        ]
        saved = {
            (wired.name, one.key): one for wired in WIRED for one in bus.snapshots(wired.snapshots, INPUT) if one.key
        }
        joined = [one for one in bus.snapshots(JOINING.snapshots, JOINED) if one.key]
        return Result(
            [one.value for one in bus.read(INPUT, 0)],
            [one for one in outputs if not is_incident(one)],
            [one for one in outputs if is_incident(one)],
            {place: (one.offset, one.value) for place, one in saved.items()},
            {
                key: decode_state(one.value, key)["records"]
                for (name, key), one in saved.items()
                if name == WIRED[0].name
            },
            {one.key: one.value for one in joined},
        )


def is_incident(one: Out) -> bool:
    return dict(one[3]).get("ce_type") == b"laggard.incident"


def found_by(outputs: list[Out]) -> set[str]:
    """The operators of which there are anomalies."""
    sources = [dict(headers) for _, _, _, headers in outputs]
    return {
        each["ce_source"].decode().rpartition("/")[2] for each in sources if each.get("ce_type") == b"laggard.anomaly"
    }


def done(bus: EmbeddedBus, frames: int) -> bool:
    """Whether all is processed, and what came of it joined."""
    if bus.committed(TOPICS.group(WIRED[0].name), INPUT) < frames:
        return False
    return bus.committed(TOPICS.group(JOINING.name), JOINED) >= bus.bounds(JOINED)[1]


def undisturbed(path: Path, frames: int) -> Result:
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        bus.append(list(records(0, frames)))
    stop = threading.Event()
    worker = threading.Thread(target=work, args=(path, stop))
    worker.start()
    with EmbeddedBus(path) as bus:
        while worker.is_alive() and not done(bus, frames):
            time.sleep(0.02)
    stop.set()
    worker.join()
    return result(path)


class Parts:
    """The producer and the worker as processes, and how often each was killed.

    Attributes:
        pauses_s: between two kills, at least and at most.

    """

    pauses_s = (0.1, 1.2)

    def __init__(self, path: Path, frames: int, per_s: float) -> None:
        this = [sys.executable, __file__]
        self._commands = {
            "producer": [*this, "--part", "producer", str(path), "--frames", str(frames), "--per-second", str(per_s)],
            "worker": [*this, "--part", "worker", str(path)],
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.kills = dict.fromkeys(self._commands, 0)

    def start(self, name: str) -> None:
        self.running[name] = subprocess.Popen(self._commands[name])

    def kill(self, name: str) -> None:
        """Kill a part, unless it has ended well by itself, and start it again."""
        process = self.running[name]
        if process.poll() is None:
            process.kill()
        if process.wait() == 0:
            return
        if process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"the {name} ended with {process.returncode}")
        self.kills[name] += 1
        self.start(name)

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


def disturb(parts: Parts, path: Path, seconds: float, draw: random.Random, done: Callable[[EmbeddedBus], bool]) -> None:
    """Kill both parts for this time, at least `LEAST_KILLS` times. Then let them end, after all work is done."""
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
    deadline = time.monotonic() + 4 * seconds + 200
    try:
        for name in parts.kills:
            parts.start(name)
        calm_from = time.monotonic() + seconds
        while time.monotonic() < calm_from or (sum(parts.kills.values()) < LEAST_KILLS and time.monotonic() < deadline):
            time.sleep(draw.uniform(*parts.pauses_s))
            parts.kill(draw.choice(("producer", "worker")))
        with EmbeddedBus(path) as bus:
            while parts.running["producer"].poll() is None or not done(bus):
                if time.monotonic() > deadline or parts.running["worker"].poll() is not None:
                    raise RuntimeError("the parts do not come to their end")
                time.sleep(0.05)
    finally:
        parts.end()


def disturbed(path: Path, frames: int, seconds: float, draw: random.Random) -> tuple[Result, dict[str, int]]:
    parts = Parts(path, frames, frames / seconds)
    disturb(parts, path, seconds, draw, lambda bus: done(bus, frames))
    settle(path)
    return result(path), parts.kills


def settle(path: Path) -> None:
    """Let one more worker recover all states and save them: the last one may have been killed as it began."""
    with EmbeddedBus(path) as bus:
        last = Runner(bus, [*WIRED, JOINING], TOPICS, snapshot_records=SNAPSHOT_RECORDS)
        stop = threading.Event()
        while last.recovering():
            last.step(stop)
        stop.set()
        last.run(stop)


def compare(folder: Path, frames: int, seconds: float, seed: int) -> int:
    got, kills = disturbed(folder / "disturbed.db", frames, seconds, random.Random(seed))
    want = undisturbed(folder / "undisturbed.db", frames)
    due = Counter(map(host_of, range(frames)))
    unseen = sum(b'"change":"closed"' in one[2] and b'"silent_since_ts":null' not in one[2] for one in want.incidents)
    checks = {
        "every record is on the bus once": got.inputs == want.inputs and len(got.inputs) == frames,
        "every record was counted once": got.counted == due,
        "outputs are equal": got.outputs == want.outputs,
        "each operator has found something": found_by(want.outputs) == {wired.name for wired in WIRED},
        "states are equal": got.states == want.states,
        "incidents are equal": got.incidents == want.incidents and len(want.incidents) > 0,
        "what is known of them is equal": got.joined == want.joined,
        "some ended because a host fell silent": unseen > 0 or frames < 5000,
    }
    print(
        f"{sum(kills.values())} kills ({kills['producer']} of the producer, {kills['worker']} of the worker), ", end=""
    )
    told = f"{len(want.outputs)} outputs, {len(want.incidents)} records of incidents ({unseen} ended unseen)"
    print(f"{frames} records, {told}, {len(want.states)} states")
    for check, holds in checks.items():
        print(f"{check}: {'yes' if holds else 'NO'}")
    return 0 if all(checks.values()) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=10_000, help="how many records")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long parts are killed")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and victims")
    parser.add_argument("--part", choices=("producer", "worker"), help=argparse.SUPPRESS)
    parser.add_argument("--per-second", type=float, default=1000.0, help=argparse.SUPPRESS)
    parser.add_argument("path", nargs="?", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part == "producer":
        produce(given.path, given.frames, given.per_second)
        return 0
    if given.part == "worker":
        work(given.path, threading.Event())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return compare(Path(folder), given.frames, given.seconds, given.seed)


if __name__ == "__main__":
    sys.exit(main())
