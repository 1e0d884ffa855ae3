"""kill -9 on Kafka: nothing is lost, nothing comes twice, the result is that of one undisturbed worker, bit for bit.

While frames of 20 hosts flow into a topic of Kafka, `laggard work` processes are killed with -9, wherever they are.
They are started again, stopped, added and taken away, and brokers are killed and restarted. Then the states of all
hosts are saved, and so are the committed outputs, as laggard and as Kafka's own console consumer read them. After that,
outputs, snapshots and offsets are deleted, and one undisturbed worker makes them anew from the same input.

    python -m tests.evaluation.kafka_kill                              # 50,000 frames, some ten minutes, 100 kills
    python -m tests.evaluation.kafka_kill --frames 3000 --kills 6      # about a minute
    python -m tests.evaluation.kafka_kill --brokers 3                  # a cluster, of which one broker at a time dies
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.topics import ANOMALIES, INCIDENTS
from tests.brokers import Cluster
from tests.kafka.scene import Flow, Scene
from tests.kafka.stream import HOSTS, WIRED, committed, differences, due, sequences

if TYPE_CHECKING:
    from tests.kafka.stream import Result
    from tests.kafka.workers import Worker

PARTITIONS = 6
MOST_WORKERS = 4
ALONE_S = 12.0
"""A group makes no progress if its members die faster than it notices. So it has this pause now and then."""


class Chaos:
    """The disturbances of the workers and brokers of a scene.

    Attributes:
        done: the number of disturbances of each kind.

    """

    def __init__(self, scene: Scene, draw: random.Random, client: str) -> None:
        self.done: Counter[str] = Counter()
        self._scene = scene
        self._draw = draw
        # Half of them have names that outlive their processes.
        self._workers = [
            scene.worker(kafka__client=client, **({"worker__instance": f"worker-{n}"} if n % 2 else {}))
            for n in range(MOST_WORKERS)
        ]
        self._running: list[Worker] = []
        self._paused: dict[Worker, float] = {}

    def _start(self, worker: Worker) -> None:
        worker.start()
        self._running.append(worker)

    def begin(self) -> None:
        """Start two workers and wait until they work."""
        for worker in self._workers[:2]:
            self._start(worker)
        for worker in self._workers[:2]:
            worker.await_ready()

    def act(self) -> None:
        """Do something to some worker."""
        for worker in self._running:
            worker.check()
        for worker, until in list(self._paused.items()):
            if time.monotonic() > until:
                worker.resume()
                del self._paused[worker]
        acting = [worker for worker in self._running if worker not in self._paused]
        resting = [worker for worker in self._workers if worker not in self._running]
        what = self._draw.choices(("kill", "remove", "add", "pause"), (10, 1, 2, 0.5))[0]
        if not acting or (what == "add" and resting):
            self._start(self._draw.choice(resting))
            self.done["added"] += 1
        elif what == "remove" and len(acting) > 1:
            worker = self._draw.choice(acting)
            self._running.remove(worker)
            worker.stop()
            self.done["removed"] += 1
        elif what == "pause" and len(acting) > 1 and (ready := [worker for worker in acting if worker.ready()]):
            worker = self._draw.choice(ready)
            worker.pause()
            self._paused[worker] = time.monotonic() + self._draw.uniform(3.0, 6.0)
            self.done["paused"] += 1
        else:
            worker = self._draw.choice(acting)
            self.done["killed"] += 1
            self.done["killed while ready"] += worker.ready()
            self._running.remove(worker)
            worker.kill()
            if self._draw.random() < 0.8:
                self._start(worker)

    def restart_broker(self, *, kill: bool) -> None:
        """Take a broker away for a while."""
        node = self._draw.choice(self._scene.cluster.nodes)
        node.kill() if kill else node.stop()
        time.sleep(self._draw.uniform(0.0, 3.0))
        node.start()
        self.done["brokers killed" if kill else "brokers restarted"] += 1

    def calm(self) -> None:
        """Let the remaining parts work."""
        for worker in self._paused:
            worker.resume()
        self._paused.clear()
        for worker in self._running:
            worker.check()
        for worker in self._workers[:2]:
            if worker not in self._running:
                self._start(worker)


def disturb(scene: Scene, chaos: Chaos, draw: random.Random, *, frames: int, seconds: float, kills: int) -> None:
    """Let some numbers of the stream flow, with a minimum of kills, and wait until all is committed."""
    chaos.begin()
    restarts = [(seconds / 3, True), (2 * seconds / 3, False)]
    began = calm_at = time.monotonic()
    with Flow(scene, frames, frames / seconds) as flow:
        while flow.flows or chaos.done["killed"] < kills:
            time.sleep(draw.uniform(0.2, 2.0 * seconds / max(1, kills)))
            if restarts and time.monotonic() - began > restarts[0][0]:
                chaos.restart_broker(kill=restarts.pop(0)[1])
            chaos.act()
            if time.monotonic() - calm_at > 5 * ALONE_S:
                time.sleep(ALONE_S)
                calm_at = time.monotonic()
    chaos.calm()
    scene.settle()


def undisturbed(scene: Scene, client: str) -> None:
    """Forget all that was made of the input, and let one worker make it again."""
    scene.forget()
    worker = scene.worker(kafka__client=client)
    worker.start()
    scene.await_all()
    worker.stop()


Printed = dict[tuple[str, str], list[tuple[str | None, tuple[tuple[str, str], ...], int]]]
"""As the outputs of a `Result`: values, headers, times in milliseconds."""


END = b"the end"


def printed(scene: Scene, told: int) -> Printed:
    """The anomalies as the console consumer prints them, by partition and offset; `told` of them are expected.

    It stops when it has printed enough and, of each partition, a record at its end: what is more than expected takes
    the place of one of these. On a busy machine it gets its first record late, and would end by itself before that.
    """
    topic = scene.topics.name(ANOMALIES)
    partitions = scene.bus.partitions(topic)
    keys = {scene.bus.partition_of(topic, key): key for key in map(str, range(100 * len(partitions)))}
    scene.bus.append([Outgoing(topic, keys[each], END, time.time()) for each in partitions])
    read = scene.cluster.tools.consume(topic, told + len(partitions), idle_s=60.0)
    found = defaultdict(list)
    for one in sorted(read, key=lambda one: (one.partition, one.offset)):
        if one.value == END.decode():
            continue
        what = INCIDENTS if ("ce_type", "laggard.incident") in one.headers else ANOMALIES.name
        found[what, one.key or ""].append((one.value, one.headers, round(one.ts * 1000)))
    return dict(found)


def as_printed(result: Result) -> Printed:
    """The anomalies as the console consumer would print them."""
    return {
        (what, key): [
            (value.decode(), tuple((name, text.decode()) for name, text in headers), ts) for value, headers, ts in told
        ]
        for (what, key), told in result.outputs.items()
        if what in {ANOMALIES.name, INCIDENTS}
    }


def compare(folder: Path, given: argparse.Namespace) -> int:
    draw = random.Random(given.seed)
    with (
        Cluster(folder / "cluster", given.brokers) as cluster,
        Scene(folder, cluster, "laggard.", partitions=PARTITIONS) as scene,
    ):
        chaos = Chaos(scene, draw, given.client)
        disturb(scene, chaos, draw, frames=given.frames, seconds=given.seconds, kills=given.kills)
        done = chaos.done
        got = committed(scene.bus, scene.topics)
        got_printed = printed(scene, sum(map(len, as_printed(got).values())))
        undisturbed(scene, given.client)
        want = committed(scene.bus, scene.topics)
        order = sequences(scene.bus, scene.topics)
    wrong = differences(got, want)
    joined = sum(len(told) for (what, _), told in want.outputs.items() if what == INCIDENTS)
    checks = {
        "every host's frames are in the input in their order": len(order) == HOSTS
        and all(_in_order(numbers) for numbers in order.values()),
        "every record was counted once": got.counted == due(given.frames),
        "outputs and states are equal": not wrong and want.told > joined > 0 and len(want.states) > len(WIRED) * HOSTS,
        "a client that is not laggard's reads the same": got_printed == as_printed(want),
        "so many kills": done["killed"] >= given.kills,
    }
    print(f"{done['killed']} kills, {done['killed while ready']} of them of a worker at work;", end=" ")
    print(", ".join(f"{count} {what}" for what, count in sorted(done.items()) if not what.startswith("killed")))
    outputs = f"{want.told} outputs, {joined} of them records of incidents"
    print(f"{given.frames} numbers, {outputs}, {len(want.states)} states")
    for check, holds in checks.items():
        print(f"{check}: {'yes' if holds else 'NO'}")
    for one in wrong:
        print(f"  {one}")
    if got_printed != as_printed(want):
        read, there = (sum(map(len, each.values())) for each in (got_printed, as_printed(want)))
        print(f"  that client read {read} records, expected {there}")
    if not all(checks.values()):
        for number, worker in enumerate(scene.workers):
            print(f"worker {number} said:\n{worker.log.read_text()[-4000:] if worker.log.exists() else ''}")
    return 0 if all(checks.values()) else 1


def _in_order(numbers: list[int]) -> bool:
    """Whether they grow, but for those that were appended again after an answer was lost."""
    seen: list[int] = list(dict.fromkeys(numbers))
    return seen == sorted(seen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=50_000, help="how many numbers of the stream")
    parser.add_argument("--seconds", type=float, default=0.0, help="for how long they flow (default: 5 for each kill)")
    parser.add_argument("--kills", type=int, default=100, help="at least so many kills of workers")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and victims")
    parser.add_argument("--brokers", type=int, default=1, help="of the cluster")
    parser.add_argument("--client", default="auto", help="kafka.client of the workers")
    given = parser.parse_args()
    given.seconds = given.seconds or 5.0 * given.kills
    with tempfile.TemporaryDirectory() as folder:
        return compare(Path(folder), given)


if __name__ == "__main__":
    sys.exit(main())
