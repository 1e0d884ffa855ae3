"""kill -9 at random moments, of a worker that re-keys, joins and models: each frame of counters goes on exactly once.

As `kill.py`: a producer and a worker run as processes of their own over one embedded bus, and one of them gets SIGKILL
now and then. The producer appends counters of three hosts, and the performance of two applications that they serve. The
worker runs `serving`, `regression` and what joins anomalies. In the end the re-keyed frames, and all that came of them,
are compared with those of a run that nobody disturbed. How performance and re-keyed counters interleave depends on who
was quicker, and with it their places in the topic, which ids and states name: these alone are left out.

    python -m tests.evaluation.applications_kill                                   # about a minute
    python -m tests.evaluation.applications_kill --frames 60000 --seconds 600      # longer
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.regression import Regression
from laggard.pipeline.applications.regression import Regressing
from laggard.pipeline.applications.resources import trait
from laggard.pipeline.applications.serving import ServedBySettings, Serving
from laggard.pipeline.bus import Outgoing, Partition
from laggard.pipeline.bus.embedded import EmbeddedBus
from laggard.pipeline.engine.runner import Runner
from laggard.pipeline.engine.snapshots import decode_state
from laggard.pipeline.incidents.joining import Joining
from laggard.pipeline.records import Decoder, Frame, Wish, encode, make_layout
from laggard.pipeline.topics import ANOMALIES, APPLICATIONS, COUNTERS, DEAD_LETTERS, MODELS, Topics
from tests.evaluation.kill import Parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.engine.stage import Stage

ROOT: Final = Path(__file__).parents[2]
THIS: Final = [sys.executable, "-m", "tests.evaluation.applications_kill"]
HOSTS: Final = ("web-1", "web-2", "db-1")
SERVED: Final = ServedBySettings({"shop": "web-* db-1", "blog": "web-1 db-1"})
TOPICS: Final = Topics()
INPUT: Final = Partition(TOPICS.name(COUNTERS), 0)
JOINED: Final = Partition(TOPICS.name(APPLICATIONS), 0)
STAGES: Final[tuple[Stage, ...]] = (
    Serving(SERVED),
    Regressing(lambda: Regression(trait=trait), Regression.state_version, {}),
    Joining(),
)
SNAPSHOT_RECORDS: Final = 50
TICK_S: Final = 5.0
FEATURES: Final = ("cpu_user_ratio", "cpu_wait_ratio", "io_delay_ratio", "memory_rss_bytes")
BEGAN: Final = 1.7e9


def records(start: int, stop: int) -> Iterator[Outgoing]:
    """The input, each record from its number alone; what a number brings to applications stands before its counters."""
    for number in range(start, stop):
        tick, host = divmod(number, len(HOSTS))
        ts = BEGAN + TICK_S * tick
        contended = tick % 160 >= 120
        draw = np.random.default_rng(number)
        if host == 0 and tick % 2 == 0:
            for application, slower in (("shop", 0.6), ("blog", 0.0)):
                values = np.array([[100.0 + 20.0 * draw.random(), 0.05 + slower * contended + 0.005 * draw.random()]])
                layout = make_layout([application], [application], ["throughput_per_s", "response_time_mean_s"])
                frame = Frame("application", application, "performance", ts, number, layout, values)
                yield Outgoing(JOINED.topic, application, encode(frame), ts)
        if number % 701 == 350:
            wish = Wish("shop", ts, "web-1/nginx:cpu_wait_ratio", "ban" if number % 2 else "free", number)
            yield Outgoing(JOINED.topic, "shop", encode(wish), ts)
        name = HOSTS[host]
        rows = [f"nginx[{pid}@1]" for pid in range(2 + tick % 3)] + [f"job[{tick // 40}@1]"]
        values = draw.random((len(rows), len(FEATURES))) * 0.05
        values[:, 1] += 0.3 * (contended and name == "web-1")
        values[draw.random(values.shape) < 0.01] = np.nan
        layout = make_layout(rows, [row.partition("[")[0] for row in rows], FEATURES)
        yield Outgoing(INPUT.topic, name, encode(Frame("host", name, "process", ts, number, layout, values)), ts)


def produce(path: Path, frames: int, per_s: float) -> None:
    """Append what is not on the bus yet, a few numbers at once, as fast as asked for."""
    with EmbeddedBus(path) as bus:
        end = bus.bounds(INPUT)[1]
        number = 0
        for last in bus.read(INPUT, end - 1):
            number = Decoder().decode(last.value, "the last record").sequence + 1
        while number < frames:
            began = time.monotonic()
            until = min(frames, number + 1 + number % 7)
            bus.append(list(records(number, until)))
            time.sleep(max(0.0, (until - number) / per_s - (time.monotonic() - began)))
            number = until


def work(path: Path, stop: threading.Event) -> None:
    with EmbeddedBus(path) as bus:
        Runner(bus, STAGES, TOPICS, snapshot_records=SNAPSHOT_RECORDS).run(stop)


@dataclass(frozen=True)
class Result:
    """What is on the bus in the end, without places in the topic of applications."""

    inputs: list[bytes]
    rekeyed: list[tuple[str, bytes]]
    told: dict[str, list[dict[str, Any]]]
    letters: list[str]
    states: dict[str, dict[str, Any]]


PLACES: Final = ("id", "anomaly", "merged_into")


def without_places(found: Any) -> Any:
    """A record without the ids that follow from where its input was."""
    if isinstance(found, dict):
        return {name: without_places(value) for name, value in found.items() if name not in PLACES}
    return [without_places(each) for each in found] if isinstance(found, list) else found


def state_of(value: bytes) -> dict[str, Any]:
    """A state without places: how many records it has seen, and what of them waits, is the same."""
    state = decode_state(value, "state")
    state["heard"] = None
    for one in state["intervals"]["waiting"]:
        one[2] = None
    stream = state["streams"]["application"]
    for one in (stream.get("incidents") or {}, *stream["courses"]):
        one.pop("id", None)
        if isinstance(one.get("open"), dict):
            one["open"].pop("id")
    return dict(json.loads(json.dumps(state, default=lambda array: [array.dtype.str, array.shape, array.tobytes().hex()]
                                      if isinstance(array, np.ndarray) else array.hex())))  # fmt: skip


def result(path: Path) -> Result:
    with EmbeddedBus(path) as bus:
        decoder = Decoder()
        received = [(one, decoder.decode(one.value, "applications")) for one in bus.read(JOINED, 0)]
        rekeyed = [(one.key, one.value) for one, found in received if isinstance(found, Frame) and found.hosts]
        others = [one.value for one, found in received if not (isinstance(found, Frame) and found.hosts)]
        told = {
            topic.name: [without_places(json.loads(one.value)) for one in bus.read(Partition(TOPICS.name(topic), 0), 0)]
            for topic in (MODELS, ANOMALIES)
        }
        letters = [
            dict(one.headers)["laggard-reason"].decode() for one in bus.read(Partition(TOPICS.name(DEAD_LETTERS), 0), 0)
        ]
        snapshots = bus.snapshots(STAGES[1].snapshots, JOINED)
        return Result(
            [*(one.value for one in bus.read(INPUT, 0)), *others],
            rekeyed,
            # Records of several applications come in an order of their own each.
            {name: sorted(found, key=lambda one: (one["application"], one["ts"])) for name, found in told.items()},
            letters,
            {one.key: state_of(one.value) for one in snapshots if one.key},
        )


def done(bus: EmbeddedBus, frames: int) -> bool:
    """Whether all is there and processed, and what came of it too."""
    if bus.bounds(INPUT)[1] < frames:
        return False
    inputs = ((stage.name, Partition(TOPICS.name(stage.topic), 0)) for stage in STAGES)
    return all(bus.committed(TOPICS.group(name), each) >= bus.bounds(each)[1] for name, each in inputs)


def settle(path: Path, frames: int) -> None:
    """Let one more worker recover all states, and save them: the last one may have been killed as it began."""
    stop = threading.Event()
    with EmbeddedBus(path) as bus:
        last = Runner(bus, STAGES, TOPICS, snapshot_records=SNAPSHOT_RECORDS)
        while last.recovering() or not done(bus, frames):
            last.step(stop)
        stop.set()
        last.run(stop)


def undisturbed(path: Path, frames: int) -> Result:
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
        bus.append(list(records(0, frames)))
    settle(path, frames)
    return result(path)


class Processes(Parts):
    """The producer and the worker as processes."""

    def __init__(self, path: Path, frames: int, per_s: float) -> None:
        super().__init__(path, frames, per_s)
        self._commands = {
            "producer": [*THIS, "--part", "producer", str(path), "--frames", str(frames), "--per-second", str(per_s)],
            "worker": [*THIS, "--part", "worker", str(path)],
        }

    def start(self, name: str) -> None:
        self.running[name] = subprocess.Popen(self._commands[name], cwd=ROOT)


def disturbed(path: Path, frames: int, seconds: float, draw: random.Random) -> tuple[Result, dict[str, int]]:
    """Let both parts work for so long, killing them meanwhile; then let them come to their end."""
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
    parts = Processes(path, frames, frames / seconds)
    deadline = time.monotonic() + 4 * seconds + 60
    try:
        for name in parts.kills:
            parts.start(name)
        calm_from = time.monotonic() + seconds
        while time.monotonic() < calm_from:
            time.sleep(draw.uniform(0.3, 2.0))
            parts.kill(draw.choice(("producer", "worker")))
        with EmbeddedBus(path) as bus:
            while parts.running["producer"].poll() is None or not done(bus, frames):
                if time.monotonic() > deadline or parts.running["worker"].poll() is not None:
                    raise RuntimeError("the parts do not come to their end")
                time.sleep(0.05)
    finally:
        parts.end()
    settle(path, frames)
    return result(path), parts.kills


def compare(folder: Path, frames: int, seconds: float, seed: int) -> int:
    got, kills = disturbed(folder / "disturbed.db", frames, seconds, random.Random(seed))
    want = undisturbed(folder / "undisturbed.db", frames)
    checks = {
        "every record is on the bus once": got.inputs == want.inputs,
        "every frame that serves was re-keyed once": got.rekeyed == want.rekeyed and len(want.rekeyed) > 0,
        "models are equal": got.told[MODELS.name] == want.told[MODELS.name] and len(want.told[MODELS.name]) > 0,
        "anomalies and incidents are equal": got.told[ANOMALIES.name] == want.told[ANOMALIES.name]
        and any(one["kind"] == "incident" for one in want.told[ANOMALIES.name]),
        "nothing was late or refused": got.letters == want.letters == [],
        "states are equal": got.states == want.states and len(want.states) == len(("shop", "blog")),
    }
    told = {name: len(each) for name, each in want.told.items()}
    print(
        f"{sum(kills.values())} kills ({kills['producer']} of the producer, {kills['worker']} of the worker), "
        f"{frames} frames of counters, {len(want.rekeyed)} re-keyed, {told[MODELS.name]} models, "
        f"{told[ANOMALIES.name]} records of anomalies and incidents"
    )
    for check, holds in checks.items():
        print(f"{check}: {'yes' if holds else 'NO'}")
    return 0 if all(checks.values()) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=6_000, help="how many frames of counters")
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
