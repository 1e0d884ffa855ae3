"""Counters a second and core from the topic to committed results, exactly-once; beside its parts in the same run.

    python -m tests.benchmarks.kafka [--frames 4000] [--rounds 3] [--scaling] [--latency 60]

It starts a broker of its own. Frames of 200 rows x 30 features of 8 hosts are on 4 partitions. One worker process
handles them with each of the two clients. The figure has everything: fetch, decode, score, learn, snapshots, and
transactions of outputs, states and offsets. The parts are also measured alone: the fetch of a client with the decoder,
the decoder, the operator, and the task without a bus. So is an exponentially weighted mean and variance in numpy.

Times are of the process's own CPU with all its threads, so that the broker and other work of the machine count little.
Use the shares, and the best of several rounds. `--scaling` handles the same frames with 1, 2 and 4 partitions and as
many worker processes, by wall time. On two cores that the broker shares, more than two workers cannot be faster. The
time of one worker for a frame says more. `--latency` lets 50 hosts tick once a second for this number of seconds. It
measures the time from the tick of an anomalous frame to the moment at which a subscriber has read the anomaly.

The parts of a frame's time, in us of CPU, the best of 9 to 15 rounds on a busy machine:

| | librdkafka | kafka-python |
|---|---|---|
| operator | 69 | 73 |
| the client's poll: records out of what was fetched | 7 | 46, half of it lz4 |
| the client's thread: receive, with librdkafka also decompress | 30, two thirds of it lz4 | 19 |
| decoder | 11 | 11 |
| a state saved every 200 records of its host: pack, compress | 10, of that 6 zstandard | 10 |
| task around the operator: streams, keys, telemetry | 9 | 9 |
| transactions, with the producer's threads | 2 | 6 |

These frames are slower to decompress than an agent's: lz4 took 15 to 24 us for one of them. It took 8 us for one of an
agent, with 157 processes x 25 counters and 48 kB, which it makes 3.6 times smaller (zstandard: 4.7 times). With topics
that were not compressed, a frame took librdkafka about 10 us less. It took kafka-python, which receives in Python, 85
to 240 us more. With zstandard, librdkafka took 35 to 45 us more, and kafka-python as long. Batches of one record, as of
an agent's ticks, took as long as those of 15. These changes made nothing faster: polls of 10 to 40 records instead of
100, and a compressor that is kept from snapshot to snapshot. Nor did fetching 256 kB to 8 MiB instead of 32 MiB at once
by kafka-python, or reading its socket in larger pieces. With 4 MiB it needed 180 instead of 300 MB of memory in a
backlog.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import multiprocessing
import statistics
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from kafka import KafkaConsumer, TopicPartition

from laggard.pipeline.core.bus import Incoming, Outgoing, Partition, TopicSpec
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.bus.partitioner import partition_number
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Decoder, Frame, encode
from laggard.pipeline.core.records.outputs import read_output
from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, DEAD_LETTERS, Topics
from tests.benchmarks.gaussian import numpy_alone
from tests.benchmarks.pipeline import FEATURES, ROWS, WIRED, decode_all, frames, operate, task_alone, timed
from tests.brokers import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from laggard.pipeline.core.bus.kafka.options import Client
    from laggard.pipeline.scoring.wired import Wired

CLIENTS: Final[tuple[Client, ...]] = ("kafka-python", "librdkafka")
HOSTS, PARTITIONS = 8, 4
TICKING_HOSTS, WARM_TICKS = 50, 90
GIVE_UP_S = 300.0


class Input(NamedTuple):
    """Frames on a topic; can be sent to another process."""

    servers: tuple[str, ...]
    prefix: str
    partitions: int
    frames: int

    def options(self, client: Client) -> KafkaOptions:
        return KafkaOptions(bootstrap=self.servers, client=client, prefix=self.prefix)

    @property
    def topics(self) -> Topics:
        return Topics(self.prefix)


class Cost(NamedTuple):
    """The cost of a frame, in seconds, and the largest memory of its process, in MB."""

    cpu_s: float
    wall_s: float
    memory_mb: float


def names(count: int) -> list[str]:
    """Hosts that fall evenly on four partitions, and so on two."""
    found: list[list[str]] = [[] for _ in range(4)]
    number = 0
    while min(map(len, found)) < -(-count // 4):
        name = f"host-{number}"
        found[partition_number(name, 4)].append(name)
        number += 1
    return [of_one[turn] for turn in range(-(-count // 4)) for of_one in found][:count]


def prepare(servers: tuple[str, ...], partitions: int, made: Sequence[Frame]) -> Input:
    """Put the frames on a topic of their own."""
    given = Input(servers, f"{uuid.uuid4().hex[:8]}.", partitions, len(made))
    with KafkaBus(given.options("kafka-python")) as bus:
        bus.create(given.topics.specs(partitions=partitions))
        for first in range(0, len(made), 100):
            bus.append([outgoing_of(given, one) for one in made[first : first + 100]])
    return given


def outgoing_of(given: Input, frame: Frame) -> Outgoing:
    return Outgoing(given.topics.name(COUNTERS), frame.key, encode(frame), frame.ts)


def called(name: str) -> Wired:
    """The operator under another name."""
    return dataclasses.replace(WIRED, name=name)


class Worker:
    """A worker in a process of its own, with an operator of its own name: it has a group and snapshots for itself."""

    def __init__(self, given: Input, client: Client, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(given, client, name, theirs), daemon=True)
        self._process.start()

    def stop(self) -> Cost:
        """Let it commit and leave."""
        self._pipe.send("stop")
        cost: Cost = self._pipe.recv()
        self._process.join()
        return cost


def work(given: Input, client: Client, name: str, pipe: Connection) -> None:
    """Work until a message to stop. The measurement begins after the first records, when everything is warm."""
    stop = threading.Event()
    warm = 0.1 * given.frames / given.partitions
    began = last = (0, math.nan, math.nan)
    with KafkaBus(given.options(client)) as bus:
        runner = Runner(bus, [called(name)], given.topics)
        while not pipe.poll():
            runner.step(stop)
            records = sum(task.records for task in runner.telemetry.tasks())
            if records > last[0]:
                last = records, time.process_time(), time.monotonic()
                if began[0] <= warm:
                    began = last
        stop.set()
        runner.run(stop)
    count, cpu_s, wall_s = (after - before for after, before in zip(last, began, strict=True))
    pipe.send(Cost(cpu_s / max(count, 1), wall_s / max(count, 1), largest_memory_mb()))


def largest_memory_mb() -> float:
    """Return that of this process; `getrusage` has that of the one that started it, if that was larger."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def fetch(given: Input, client: Client, pipe: Connection) -> None:
    """Fetch and decode alone, as a member of a group of its own."""
    decoder, taken = Decoder(), 0
    began, warm = 0.0, given.frames // 10
    with KafkaBus(given.options(client)) as bus:
        member = bus.subscribe(f"{given.prefix}{uuid.uuid4().hex}", [given.topics.name(COUNTERS)])
        while taken < given.frames:
            records = member.poll(0.5, 100).records
            for one in records:
                decoder.decode(one.value, "the input")
            if taken < warm <= taken + len(records):
                began, warm = time.process_time(), taken + len(records)
            taken += len(records)
        pipe.send((time.process_time() - began) / (taken - warm))
        member.close()


def in_a_process(target: Callable[..., None], *given: object) -> float:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(*given, theirs), daemon=True)
    process.start()
    answer: float = ours.recv()
    process.join()
    return answer


@contextmanager
def workers(given: Input, client: Client, count: int) -> Iterator[tuple[KafkaBus, str, list[Worker]]]:
    """Start this number of workers of one group, which begins at the beginning. Yield it with a bus to observe it."""
    name = f"gaussian-{uuid.uuid4().hex[:8]}"
    with KafkaBus(given.options("kafka-python")) as bus:
        snapshots = given.topics.name(given.topics.snapshots(called(name).snapshots))
        bus.create([TopicSpec(snapshots, given.partitions, compacted=True)])
        yield bus, given.topics.group(name), [Worker(given, client, name) for _ in range(count)]


def committed(bus: KafkaBus, given: Input, group: str) -> int:
    found = bus.groups.offsets(group, bus.partitions(given.topics.name(COUNTERS))).committed
    return sum(offset.offset for offset in found.values())


def await_committed(bus: KafkaBus, given: Input, group: str, count: float) -> float:
    """The time at which a number of records is committed, on the monotonic clock."""
    deadline = time.monotonic() + GIVE_UP_S
    while committed(bus, given, group) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{committed(bus, given, group)} of {count} records are committed")
        time.sleep(0.02)
    return time.monotonic()


def check_order(bus: KafkaBus, given: Input) -> None:
    """A frame out of order would be late, and so a dead letter."""
    letters = sum(bus.bounds(each)[1] for each in bus.partitions(given.topics.name(DEAD_LETTERS)))
    if letters:
        raise AssertionError(f"{letters} dead letters")


def end_to_end(given: Input, client: Client) -> Cost:
    """One worker, from the topic to what is committed."""
    with workers(given, client, 1) as (bus, group, (worker,)):
        await_committed(bus, given, group, given.frames)
        check_order(bus, given)
        return worker.stop()


def scaling(servers: tuple[str, ...], made: Sequence[Frame]) -> None:
    """Frames a second by the wall, with as many workers as partitions."""
    for count in (1, 2, 4):
        given = prepare(servers, count, made)
        for client in CLIENTS:
            with workers(given, client, count) as (bus, group, all_of_them):
                # Before that they start, and hand partitions to each other.
                began = await_committed(bus, given, group, 0.4 * given.frames)
                first = committed(bus, given, group)
                took_s = await_committed(bus, given, group, given.frames) - began
                check_order(bus, given)
                costs = [worker.stop() for worker in all_of_them]
            cpu_us = statistics.mean(cost.cpu_s for cost in costs) * 1e6
            print(
                f"{client:13} {count} partitions, {count} workers {(given.frames - first) / took_s:8.0f} frames/s, "
                f"{cpu_us:6.1f} us of CPU a frame"
            )


def latency(servers: tuple[str, ...], client: Client, seconds: int) -> None:
    """From a tick to the anomaly at a subscriber; the hosts tick one after the other, evenly over each second."""
    hosts = names(TICKING_HOSTS)
    ticks = WARM_TICKS + seconds
    made = [
        dataclasses.replace(one, key=hosts[number % len(hosts)])
        for number, one in enumerate(frames(ticks * len(hosts), len(hosts)))
    ]
    chance = np.random.default_rng(2)
    slow_at = {host: WARM_TICKS + int(chance.integers(10, seconds)) for host in hosts}
    start = time.time() - WARM_TICKS
    for number, frame in enumerate(made):
        values = frame.values
        if number // len(hosts) >= slow_at[frame.key]:
            values = values.copy()
            values[number % ROWS] += 1e9
        made[number] = dataclasses.replace(frame, ts=start + number / len(hosts), values=values)
    given = prepare(servers, PARTITIONS, made[: WARM_TICKS * len(hosts)])
    with workers(given, client, 1) as (bus, group, (worker,)):
        await_committed(bus, given, group, given.frames)
        began = time.time() + 0.5
        shift = began - made[given.frames].ts
        seen: dict[str, float] = {}
        stop = threading.Event()
        subscriber = threading.Thread(target=subscribe, args=(given, seen, stop))
        subscriber.start()
        published = {}
        for frame in made[given.frames :]:
            time.sleep(max(0.0, frame.ts + shift - time.time()))
            now = time.time()
            bus.append([outgoing_of(given, dataclasses.replace(frame, ts=now))])
            published[frame.key, round(now * 1000)] = time.time() - now
        time.sleep(3.0)
        stop.set()
        subscriber.join()
        cost = worker.stop()
    took = np.array(list(seen.values()))
    p50, p99 = np.quantile(took, (0.5, 0.99))
    appended = np.quantile(list(published.values()), (0.5, 0.99))
    print(
        f"{client:13} tick to anomaly: {len(took)} anomalies of {len(hosts)} hosts, p50 {p50 * 1e3:.0f} ms, "
        f"p99 {p99 * 1e3:.0f} ms, most {took.max() * 1e3:.0f} ms (of that the append: p50 {appended[0] * 1e3:.0f}, "
        f"p99 {appended[1] * 1e3:.0f} ms); worker {cost.memory_mb:.0f} MB"
    )


def subscribe(given: Input, seen: dict[str, float], stop: threading.Event) -> None:
    """Read anomalies like another program, with a consumer of kafka-python, and record when each arrives."""
    topic = given.topics.name(ANOMALIES)
    consumer = KafkaConsumer(
        bootstrap_servers=list(given.servers), isolation_level="read_committed", auto_offset_reset="earliest"
    )
    with KafkaBus(given.options("kafka-python")) as bus:
        places = {TopicPartition(*each): bus.bounds(each)[1] for each in bus.partitions(topic)}
    consumer.assign(list(places))
    for place, end in places.items():
        consumer.seek(place, end)
    while not stop.is_set():
        for records in consumer.poll(timeout_ms=200).values():
            for record in records:
                seen[dict(record.headers)["ce_id"].decode()] = time.time() - read_output(record.value, topic).ts
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scaling", action="store_true", help="frames a second with 1, 2 and 4 workers")
    parser.add_argument("--latency", type=int, default=0, metavar="SECONDS", help="from tick to anomaly, for so long")
    given = parser.parse_args()
    hosts = names(HOSTS)
    made = [
        dataclasses.replace(one, key=hosts[number % HOSTS]) for number, one in enumerate(frames(given.frames, HOSTS))
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(Cluster(folder / "cluster", heap_mb=512))
        servers = tuple(broker.bootstrap.split(","))
        if given.latency:
            for client in CLIENTS:
                latency(servers, client, given.latency)
        if given.scaling:
            scaling(servers, made)
        if not (given.scaling or given.latency):
            parts(prepare(servers, PARTITIONS, made), made, given.rounds)


def parts(given: Input, made: list[Frame], rounds: int) -> None:
    """The whole and its parts, in turns."""
    place = Partition(given.topics.name(COUNTERS), 0)
    records = [Incoming(place, offset, one.key, encode(one), one.ts) for offset, one in enumerate(made)]
    numpy_work = numpy_alone(np.stack([one.values for one in made[: 200 * HOSTS : HOSTS]]))
    works: dict[str, Callable[[], float]] = {
        "numpy, mean and variance alone": lambda: timed(numpy_work) * len(made) / len(made[: 200 * HOSTS : HOSTS]),
        "decoder": partial(timed, partial(decode_all, records)),
        "operator: score and learn": partial(timed, partial(operate, made)),
        "task: decode, score, learn, snapshots": partial(timed, partial(task_alone, records)),
    }
    best: dict[str, Cost] = {}
    for _ in range(rounds):
        found = {name: Cost(run() / len(made), math.nan, math.nan) for name, run in works.items()}
        for client in CLIENTS:
            found[f"{client}: fetch and decode"] = Cost(in_a_process(fetch, given, client), math.nan, math.nan)
            found[f"{client}: from the topic to committed results"] = end_to_end(given, client)
        for name, cost in found.items():
            best[name] = min(cost, best.get(name, cost))
    print(f"{given.frames} frames of {ROWS} x {FEATURES}, {HOSTS} hosts, {PARTITIONS} partitions, exactly-once")
    for name, (cpu_s, wall_s, memory_mb) in best.items():
        wall = "" if math.isnan(wall_s) else f"   by the wall {wall_s * 1e6:6.1f} us/frame, {memory_mb:4.0f} MB"
        speed = ROWS * FEATURES / cpu_s / 1e6
        print(f"{name:52} {cpu_s * 1e6:7.1f} us/frame {speed:7.1f} M counters/s and core{wall}")


if __name__ == "__main__":
    main()
