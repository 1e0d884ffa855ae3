"""The time for which a partition stands still when its worker is killed, and its parts.

    python -m tests.benchmarks.recovery                         # on the embedded bus
    python -m tests.benchmarks.recovery --bus kafka             # on a Kafka broker of its own
    python -m tests.benchmarks.recovery --bus kafka --standby
    python -m tests.benchmarks.recovery --bus kafka://b1:9092   # on yours: makes topics with a prefix of their own

Each tick of a host is a frame of 200 processes x 30 features and one of the host itself, as an agent's. A worker
processes enough ticks that each host's state has been saved once, each at another place. So the replay is as long as on
any day. Then the worker is killed with -9 while new frames come. Another one, which is a member of the group already,
takes the partition over. On the embedded bus it starts only then, since there are no sessions to wait for. Use the
parts: the machine may do other work.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.gaussian import Gaussian
from laggard.pipeline.core.bus import Outgoing, Partition
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.bus.opening import open_bus
from laggard.pipeline.core.engine.migrations import newest_snapshots
from laggard.pipeline.core.engine.recovery import Recovery
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Frame, encode, make_layout
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.scoring.wired import Wired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.bus import Bus

ROWS, FEATURES, HOST_FEATURES = 200, 30, 60
TICK_S = 5.0
WIRED = Wired("gaussian", COUNTERS, ("process", "host"), Gaussian, Gaussian.state_version, {})
FOR_EVER = threading.Event()


def ticks(hosts: int, first: int, count: int) -> Iterator[list[Frame]]:
    """All frames of a tick: most counters are zero or constant, some change all the time."""
    draw = np.random.default_rng(first)
    names = [f"process-{row}" for row in range(ROWS)]
    features = [f"feature_{feature}_per_s" for feature in range(FEATURES)]
    layouts = [
        make_layout([f"{name}[{host + row}]" for row, name in enumerate(names)], names, features)
        for host in range(hosts)
    ]
    of_host = make_layout(["host"], ["host"], [f"host_{feature}_per_s" for feature in range(HOST_FEATURES)])
    fixed = np.random.default_rng(1)
    base = fixed.choice([0.0, 0.0, 1.0, 4096.0, 1e6], size=(hosts, ROWS, FEATURES))
    busy = fixed.random((hosts, ROWS, FEATURES)) < 0.3
    for tick in range(first, first + count):
        frames = []
        for host in range(hosts):
            ts, sequence = 1.7e9 + TICK_S * tick + host / hosts, 2 * tick
            values = np.where(busy[host], np.round(draw.exponential(50.0, (ROWS, FEATURES))), base[host])
            frames.append(Frame("host", f"host-{host}", "process", ts, sequence, layouts[host], values))
            load = draw.exponential(50.0, (1, HOST_FEATURES))
            frames.append(Frame("host", f"host-{host}", "host", ts, sequence + 1, of_host, load))
        yield frames


def produce(bus: Bus, topic: str, hosts: int, first: int, count: int) -> None:
    for frames in ticks(hosts, first, count):
        for start in range(0, len(frames), 100):
            bus.append([Outgoing(topic, one.key, encode(one), one.ts) for one in frames[start : start + 100]])


def opened(location: str, prefix: str) -> Bus:
    return open_bus(location, max_bytes=64 << 30, retention_s=None, kafka=KafkaOptions(prefix=prefix))


def work(location: str, prefix: str) -> None:
    """The worker that is killed; says when it has the partition."""
    with opened(location, prefix) as bus:
        runner = Runner(bus, [WIRED], Topics(prefix))
        while runner.recovering() or not runner.telemetry.tasks():
            runner.step(FOR_EVER)
        print("ready", flush=True)
        runner.run(FOR_EVER)


class Watch:
    """The time since its last report, and the part of it in which a processor worked for this process."""

    def __init__(self) -> None:
        self._at = time.monotonic(), time.process_time()

    def __str__(self) -> str:
        (began, worked), self._at = self._at, (time.monotonic(), time.process_time())
        return f"{self._at[0] - began:.1f} s (processor {self._at[1] - worked:.1f} s)"


class Takeover:
    """One run of the benchmark."""

    def __init__(self, location: str, prefix: str, hosts: int, *, standby: bool) -> None:
        self.location = location
        self.prefix = prefix
        self.hosts = hosts
        self.topics = Topics(prefix)
        self.input = Partition(self.topics.name(COUNTERS), 0)
        self.group = self.topics.group(WIRED.name)
        self.standby = standby
        self.kafka = location.startswith("kafka://")

    def run(self, count: int) -> None:
        with opened(self.location, self.prefix) as bus, contextlib.ExitStack() as ended:
            specs = self.topics.specs()
            bus.create([*specs, *self.topics.specs([self.topics.snapshots(WIRED.snapshots)])] if self.kafka else specs)
            command = [sys.executable, "-m", "tests.benchmarks.recovery", "--part", self.location, self.prefix]
            owner = subprocess.Popen(command, stdout=subprocess.PIPE)
            ended.callback(owner.wait)
            ended.callback(owner.kill)
            runner = Runner(bus, [WIRED], self.topics, standby=self.standby)
            ended.callback(self.stop, runner)
            assert owner.stdout is not None
            owner.stdout.readline()
            began = time.monotonic()
            producing = threading.Thread(target=produce, args=(bus, self.input.topic, self.hosts, 0, count))
            producing.start()
            while producing.is_alive() or bus.committed(self.group, self.input) < 2 * count * self.hosts:
                if owner.poll() is not None:
                    raise RuntimeError(f"the worker ended with {owner.returncode}")
                if self.kafka:
                    runner.step(FOR_EVER)
                else:
                    time.sleep(0.1)
            print(f"{2 * count * self.hosts:,} records were taken in {time.monotonic() - began:.0f} s")
            self.settle(bus, runner)
            self.tell_parts(bus)
            self.take_over(bus, runner, owner, count)

    @staticmethod
    def stop(runner: Runner) -> None:
        """Leave the group; what the benchmark did not commit does not matter."""
        for turn in runner._turns:
            turn.member.close()

    def settle(self, bus: Bus, runner: Runner) -> None:
        """Let a standby come to where the owner is."""
        counted = runner.telemetry.task(WIRED.name, self.input)
        while self.standby and counted.standby_position < bus.committed(self.group, self.input):
            runner.step(FOR_EVER)

    def tell_parts(self, bus: Bus) -> None:
        """Print the parts of a recovery in turn, with their processor time, since the machine may do more."""
        committed = bus.committed(self.group, self.input)
        watch = Watch()
        snapshots = newest_snapshots(bus, WIRED, self.input)
        size = sum(len(one.value) for one in snapshots)
        print(f"snapshots: {len(snapshots) - 1:,} hosts, {size / 1e6:.0f} MB, read in {watch}")
        task = Task(WIRED, self.input)
        loaded = task.states.load(snapshots)
        print(f"states: {task.states.saving.state_bytes / 1e6:.0f} MB, restored in {watch}")
        del snapshots, task
        base = committed if loaded.base is None else loaded.base
        wanted = records = 0
        for record in bus.read(self.input, base, committed):
            records += 1
            wanted += record.offset >= loaded.saved.get(record.key, 0)
        print(f"input after the base: {records:,} records, read in {watch}; {wanted:,} of them are in no snapshot")
        Recovery(bus, Task(WIRED, self.input)).advance(committed, lambda: False)
        print(f"all of a recovery: {watch}")
        print(f"resident: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most")

    def take_over(self, bus: Bus, runner: Runner, owner: subprocess.Popen[bytes], count: int) -> None:
        fresh = next(ticks(self.hosts, count, 1))
        before = bus.committed(self.group, self.input)
        killed = time.monotonic()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        bus.append([Outgoing(self.input.topic, one.key, encode(one), one.ts) for one in fresh[:100]])
        counted = runner.telemetry.task(WIRED.name, self.input)
        assigned = recovered = 0.0
        while bus.committed(self.group, self.input) <= before:
            runner.step(FOR_EVER)
            if counted.assignments and not assigned:
                assigned = time.monotonic() - killed
            if assigned and not runner.recovering() and not recovered:
                recovered = time.monotonic() - killed
        first = time.monotonic() - killed
        print(f"from the kill: assigned after {assigned:.1f} s, recovered after {recovered:.1f} s, ", end="")
        print(f"the first new result committed after {first:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bus", default="embedded", help="embedded, kafka (a broker of its own), or kafka://HOST:PORT")
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--ticks", type=int, default=30, help="before the worker is killed")
    parser.add_argument("--standby", action="store_true", help="the one that takes over keeps the states warm")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        work(*given.part)
        return
    prefix = f"recovery-{uuid.uuid4().hex[:8]}."
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ended:
        location = given.bus
        if location == "embedded":
            location = str(Path(folder) / "bus.db")
        elif location == "kafka":
            from tests.brokers import Cluster  # noqa: PLC0415 - needs Java

            location = ended.enter_context(Cluster(Path(folder) / "cluster")).location
        print(f"{given.hosts} hosts, each {ROWS} x {FEATURES}, {os.cpu_count()} cores")
        Takeover(location, prefix, given.hosts, standby=given.standby).run(given.ticks)


if __name__ == "__main__":
    main()
