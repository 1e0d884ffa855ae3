"""kill -9 at random moments, of a worker that re-keys or judges: what its evaluations have in common.

As `kill.py`: a producer and a worker run as processes of their own over one embedded bus, and one of them gets SIGKILL
now and then. The producer appends what a case says, number by number. In the end what is on the bus is compared with
that of an undisturbed run. How re-keyed counters of one key interleave with those of others depends on who was
quicker. So of a state all is compared but how many records of the partition came before its newest.
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

from laggard.pipeline.core.bus import Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.engine.snapshots import decode_state, encode_state
from laggard.pipeline.core.records import Decoder, Frame
from laggard.pipeline.core.topics import COUNTERS, DEAD_LETTERS, Topics
from tests.evaluation.kill import Parts, disturb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from laggard.pipeline.core.bus import Outgoing
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.topics import Topic

ROOT: Final = Path(__file__).parents[2]
TOPICS: Final = Topics()
INPUT: Final = Partition(TOPICS.name(COUNTERS), 0)
SNAPSHOT_RECORDS: Final = 50
CHUNK: Final = 100


@dataclass(frozen=True)
class Case:
    """A case: the producer's records, and the worker's stages.

    Attributes:
        module: the module whose `main` its processes run.
        stages: the stages that the worker runs.
        operator: the stage whose states are compared.
        records: what the producer appends for the numbers from one to another, each from its number alone; the last one
            of a number is of `source`, and has it as its sequence.
        told: the topics of the results.
        key: the field of a result that names its subject.
        holds: further conditions on the undisturbed result.
        source: the topic that the producer appends to; others have the re-keyed records.

    """

    module: str
    stages: Sequence[Stage]
    operator: Stage
    records: Callable[[int, int], Iterator[Outgoing]]
    told: tuple[Topic, ...]
    key: str
    holds: Callable[[Result], dict[str, bool]]
    source: Topic = COUNTERS

    @property
    def input(self) -> Partition:
        """The partition that the producer appends to."""
        return Partition(TOPICS.name(self.source), 0)

    @property
    def joined(self) -> Partition:
        """The partition of the re-keyed frames, which the operator reads."""
        return Partition(TOPICS.name(self.operator.topic), 0)


@dataclass(frozen=True)
class Result:
    """The records on the bus in the end."""

    inputs: list[bytes]
    rekeyed: dict[str, list[bytes]]
    told: dict[str, list[dict[str, Any]]]
    letters: list[str]
    states: dict[str, bytes]


def produce(case: Case, path: Path, frames: int, per_s: float) -> None:
    """Append the numbers that are not on the bus yet, a few at once, at the given rate."""
    with EmbeddedBus(path) as bus:
        end = bus.bounds(case.input)[1]
        number = 0
        for last in bus.read(case.input, end - 1):
            number = Decoder().decode(last.value, "the last record").sequence + 1
        while number < frames:
            began = time.monotonic()
            until = min(frames, number + 1 + number % 7)
            bus.append(list(case.records(number, until)))
            time.sleep(max(0.0, (until - number) / per_s - (time.monotonic() - began)))
            number = until


def work(case: Case, path: Path, stop: threading.Event) -> None:
    with EmbeddedBus(path) as bus:
        Runner(bus, case.stages, TOPICS, snapshot_records=SNAPSHOT_RECORDS).run(stop)


def result(case: Case, path: Path) -> Result:
    with EmbeddedBus(path) as bus:
        decoder = Decoder()
        received = [(one, decoder.decode(one.value, "joined")) for one in bus.read(case.joined, 0)]
        rekeyed: dict[str, list[bytes]] = {}
        for one, found in received:
            if isinstance(found, Frame) and found.hosts:
                rekeyed.setdefault(one.key, []).append(one.value)
        others = [
            one.value
            for one, found in received
            if case.joined != case.input and not (isinstance(found, Frame) and found.hosts)
        ]
        told = {
            topic.name: [json.loads(one.value) for one in bus.read(Partition(TOPICS.name(topic), 0), 0)]
            for topic in case.told
        }
        letters = [
            dict(one.headers)["laggard-reason"].decode() for one in bus.read(Partition(TOPICS.name(DEAD_LETTERS), 0), 0)
        ]
        snapshots = bus.snapshots(case.operator.snapshots, case.joined)
        return Result(
            [*(one.value for one in bus.read(case.input, 0)), *others],
            rekeyed,
            # Records of several keys, and those of who joins anomalies, come in an order of their own each.
            {
                name: sorted(found, key=lambda one: (one[case.key], one["ts"], one["kind"] == "incident"))
                for name, found in told.items()
            },
            letters,
            {one.key: encode_state(decode_state(one.value, one.key) | {"heard": 0}) for one in snapshots if one.key},
        )


def done(case: Case, bus: EmbeddedBus, frames: int) -> bool:
    """Whether all is there and processed, and what came of it too."""
    if bus.bounds(case.input)[1] < frames:
        return False
    inputs = ((stage.name, Partition(TOPICS.name(stage.topic), 0)) for stage in case.stages)
    return all(bus.committed(TOPICS.group(name), each) >= bus.bounds(each)[1] for name, each in inputs)


def settle(case: Case, path: Path, frames: int, appended: int | None = None) -> None:
    """Let one more worker recover all states, and save them: the last one may have been killed as it began.

    By default all frames are appended already. Otherwise the rest is appended in small steps. If all records of one key
    were there before those of another are re-keyed, the other key would be far behind, and count as silent.
    """
    stop = threading.Event()
    with EmbeddedBus(path) as bus:
        last = Runner(bus, case.stages, TOPICS, snapshot_records=SNAPSHOT_RECORDS)
        number = frames if appended is None else appended
        while last.recovering() or not done(case, bus, number) or number < frames:
            if number < frames and done(case, bus, number):
                until = min(frames, number + CHUNK)
                bus.append(list(case.records(number, until)))
                number = until
            last.step(stop)
        stop.set()
        last.run(stop)


def undisturbed(case: Case, path: Path, frames: int) -> Result:
    with EmbeddedBus(path) as bus:
        bus.create(TOPICS.specs())
    settle(case, path, frames, appended=0)
    return result(case, path)


class Processes(Parts):
    """The producer and the worker as processes."""

    pauses_s = (0.3, 1.2)

    def __init__(self, case: Case, path: Path, frames: int, per_s: float) -> None:
        super().__init__(path, frames, per_s)
        this = [sys.executable, "-m", case.module]
        self._commands = {
            "producer": [*this, "--part", "producer", str(path), "--frames", str(frames), "--per-second", str(per_s)],
            "worker": [*this, "--part", "worker", str(path)],
        }

    def start(self, name: str) -> None:
        self.running[name] = subprocess.Popen(self._commands[name], cwd=ROOT)


def disturbed(
    case: Case, path: Path, frames: int, seconds: float, draw: random.Random
) -> tuple[Result, dict[str, int]]:
    parts = Processes(case, path, frames, frames / seconds)
    disturb(parts, path, seconds, draw, lambda bus: done(case, bus, frames))
    settle(case, path, frames)
    return result(case, path), parts.kills


def compare(case: Case, folder: Path, frames: int, seconds: float, seed: int) -> int:
    got, kills = disturbed(case, folder / "disturbed.db", frames, seconds, random.Random(seed))
    want = undisturbed(case, folder / "undisturbed.db", frames)
    checks = {
        "every record is on the bus once": got.inputs == want.inputs,
        "every frame was re-keyed once": got.rekeyed == want.rekeyed
        and bool(want.rekeyed) == (case.joined != case.input),
        **{f"what is on {name} is equal": got.told[name] == told and len(told) > 0 for name, told in want.told.items()},
        "nothing was late or refused": got.letters == want.letters == [],
        "states are equal": got.states == want.states,
        **case.holds(want),
    }
    print(
        f"{sum(kills.values())} kills ({kills['producer']} of the producer, {kills['worker']} of the worker), "
        f"{frames} records of {case.source.name}, {sum(map(len, want.rekeyed.values()))} re-keyed, "
        + ", ".join(f"{len(told)} records of {name}" for name, told in want.told.items())
    )
    for check, holds in checks.items():
        print(f"{check}: {'yes' if holds else 'NO'}")
    return 0 if all(checks.values()) else 1


def main(case: Case, description: str | None) -> int:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=6_000, help="how many records are produced")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long parts are killed")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and victims")
    parser.add_argument("--part", choices=("producer", "worker"), help=argparse.SUPPRESS)
    parser.add_argument("--per-second", type=float, default=1000.0, help=argparse.SUPPRESS)
    parser.add_argument("path", nargs="?", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part == "producer":
        produce(case, given.path, given.frames, given.per_second)
        return 0
    if given.part == "worker":
        work(case, given.path, threading.Event())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return compare(case, Path(folder), given.frames, given.seconds, given.seed)
