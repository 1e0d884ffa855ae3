"""A cluster with laggard's topics on it, a stream that flows into them, and workers."""

from __future__ import annotations

import gc
import math
import re
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from laggard.pipeline.core.bus import BusUnavailable, Partition, TopicSpec
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions, servers_of
from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, DEAD_LETTERS, Topics
from tests.kafka.stream import JOINING, SETTINGS, WIRED, committed, differences, expected, read_inputs, records
from tests.kafka.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.brokers import Cluster
    from tests.kafka.stream import Result

CAUGHT_UP_S = 150.0


class Scene:
    """One stream under a prefix of its own; several scenes can be on one cluster.

    Parameters:
        folder: for the workers.
        cluster: runs.
        prefix: of the topics.
        partitions: of each topic.
        settings: of the workers, beside those of the stream.

    Attributes:
        bus: of the scene itself.
        topics: their names.
        group: that of the workers.
        workers: all that were started.

    """

    def __init__(
        self,
        folder: Path,
        cluster: Cluster,
        prefix: str,
        *,
        partitions: int = 4,
        settings: dict[str, object] | None = None,
    ) -> None:
        self.cluster = cluster
        self.topics = Topics(prefix)
        self.group = self.topics.group(WIRED[0].name)
        self.workers: list[Worker] = []
        self._folder = folder
        self._settings = {
            "bus.location": cluster.location,
            "topics.prefix": prefix,
            "kafka.session_timeout": "2s",
            **SETTINGS,
            **(settings or {}),
        }
        self._partitions = partitions
        self._began = time.time() - 12 * 3600
        self._sent = 0
        self.bus = self._open()
        self.create()

    def _open(self) -> KafkaBus:
        return KafkaBus(
            KafkaOptions(bootstrap=servers_of(self.cluster.location), prefix=self.topics.prefix, request_timeout_s=60.0)
        )

    def forget(self) -> None:
        """Delete all that was made of the input: outputs, snapshots, offsets."""
        snapshots = (self.topics.snapshots(stage.snapshots) for stage in (*WIRED, JOINING))
        made = (ANOMALIES, DEAD_LETTERS, *snapshots)
        names = "|".join(re.escape(self.topics.name(topic)) for topic in made)
        self.cluster.tools.run("kafka-topics", "--delete", "--topic", names)
        for group in (self.group, self.topics.group(JOINING.name)):
            self.cluster.tools.run("kafka-consumer-groups", "--delete", "--group", group)
        # A client takes topics that were deleted and created again for those that it knows.
        self.bus.close()
        self.bus = self._open()
        self.create()

    def create(self) -> None:
        """Create the topics that are not there."""
        specs = list(self.topics.specs(partitions=self._partitions))
        for stage in (*WIRED, JOINING):
            snapshots = self.topics.name(self.topics.snapshots(stage.snapshots))
            specs.append(TopicSpec(snapshots, self._partitions, compacted=True))
        self.bus.create(specs)

    @property
    def inputs(self) -> Sequence[Partition]:
        """The partitions of the input."""
        return self.bus.partitions(self.topics.name(COUNTERS))

    def worker(self, **settings: object) -> Worker:
        """A further worker; not started yet."""
        told = {name.replace("__", "."): value for name, value in settings.items()}
        self.workers.append(Worker(self._folder / f"worker-{len(self.workers)}", {**self._settings, **told}))
        return self.workers[-1]

    def send(self, count: int, *, per_s: float = 0.0, stop: threading.Event | None = None) -> None:
        """Let a number of further records flow, waiting for the brokers where they are away."""
        end = self._sent + count
        while self._sent < end and not (stop and stop.is_set()):
            began = time.monotonic()
            batch = min(end - self._sent, 1 + self._sent % 13 if per_s else 500)
            outgoing = list(records(self.topics, self._sent, self._sent + batch, self._began))
            while True:
                try:
                    self.bus.append(outgoing)
                    break
                except BusUnavailable:
                    time.sleep(0.1)
            self._sent += batch
            if per_s:
                time.sleep(max(0.0, batch / per_s - (time.monotonic() - began)))

    @property
    def sent(self) -> int:
        """How many numbers of the stream have been sent."""
        return self._sent

    def left(self) -> int:
        """How many records of the input, and of what came of it, are not committed yet."""
        left = sum(
            max(0, self.bus.bounds(partition)[1] - self.bus.committed(self.group, partition))
            for partition in self.inputs
        )
        return left or sum(map(self._unjoined, self.bus.partitions(self.topics.name(ANOMALIES))))

    def _unjoined(self, partition: Partition) -> int:
        """Offsets do not tell: the last ones are those of markers.

        The input counts as committed before all that came of it can be read: the brokers write marker after marker.
        """
        end = self.bus.topics.settled_end(partition)
        committed = self.bus.committed(self.topics.group(JOINING.name), partition)
        return sum(1 for _ in self.bus.read(partition, max(committed, self.bus.bounds(partition)[0]), end))

    def await_all(self) -> None:
        """Wait until all input is committed, with all workers that run still running, as long as they get on."""
        running = [worker for worker in self.workers if worker.alive]
        deadline, before = time.monotonic() + CAUGHT_UP_S, math.inf
        while time.monotonic() < deadline:
            for worker in running:
                worker.check()
            with suppress(BusUnavailable):
                left = self.left()
                if not left:
                    return
                if left != before:  # first of the input, then of what came of it
                    deadline, before = time.monotonic() + CAUGHT_UP_S, left
            time.sleep(0.1)
        told = "\n".join(worker.said()[-2000:] for worker in running)
        groups = "\n".join(
            self.cluster.tools.run("kafka-consumer-groups", "--describe", "--group", group)
            for group in (self.group, self.topics.group(JOINING.name))
        )
        what = f"{before} records are left, and no fewer after {CAUGHT_UP_S} s"
        raise AssertionError(f"{what}:\n{groups}\nthe workers say:\n{told}")

    def stop_workers(self) -> None:
        """Let all workers that run commit and leave."""
        for worker in self.workers:
            if worker.alive:
                worker.stop()

    def settle(self) -> None:
        """Wait until all input is committed, let all workers leave, and let one more recover all states and save them.

        A worker that is stopped while partitions are on their way to it has no states of theirs to save.
        """
        self.await_all()
        self.stop_workers()
        last = self.worker()
        last.start()
        last.await_ready()
        last.stop()

    def check(self, want: Result | None = None) -> None:
        """All that was sent is committed once, and outputs and states are those of an undisturbed task, bit for bit.

        `want` is given where the input is not there any more.
        """
        self.settle()
        want = want or expected(read_inputs(self.bus, self.topics), self.topics)
        got = committed(self.bus, self.topics)
        assert want.told
        assert differences(got, want) == []

    def end(self) -> None:
        """End what runs."""
        for worker in self.workers:
            worker.end()
        self.bus.close()
        gc.collect()  # kafka-python leaves connections to lost brokers behind, which are to be noticed here

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Flow:
    """A thread that lets records flow while something happens.

    Attributes:
        error: what ended it early.

    """

    def __init__(self, scene: Scene, count: int, per_s: float) -> None:
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(scene, count, per_s), name="flow", daemon=True)

    def _run(self, scene: Scene, count: int, per_s: float) -> None:
        try:
            scene.send(count, per_s=per_s, stop=self._stop)
        except BaseException as error:  # noqa: BLE001 - told to who waits for it
            self.error = error

    @property
    def flows(self) -> bool:
        """Whether there is more to come."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Let no more flow."""
        self._stop.set()

    def join(self) -> None:
        """Wait for its end; raises what it raised."""
        self._thread.join()
        if self.error is not None:
            raise self.error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._stop.set()
            self._thread.join(30)
        else:
            self.join()
