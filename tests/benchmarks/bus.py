"""The cost of the embedded bus: `python tests/benchmarks/bus.py`. Use the ratios, since the machine is shared.

Frames are 200 rows x 30 features with their names (row ids, names, features, command lines). Four in five values are
zero, as on real machines. The worst case has random values, which do not compress.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from laggard.pipeline.core.bus import Commit, Outgoing, Partition, Snapshot, TopicSpec
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Frame, encode, make_layout

ROWS, FEATURES = 200, 30
FRAMES = 1000
COMMITS = 300


def frames(count: int, *, zeros: float) -> list[bytes]:
    """Encoded frames, the same cells zero in all of them."""
    random = np.random.default_rng(0)
    layout = make_layout(
        rows=[f"worker-{row % 40}[{row * 37 + 900}@{row * 1733}]" for row in range(ROWS)],
        names=[f"worker-{row % 40}" for row in range(ROWS)],
        features=[f"feature_{feature}_bytes_per_s" for feature in range(FEATURES)],
        commands=[f"/usr/lib/worker/bin/worker --port={row * 7919 % 60000}" for row in range(ROWS)],
    )
    busy = random.random((ROWS, FEATURES)) >= zeros
    encoded = []
    for at in range(count):
        values = np.where(busy, random.integers(0, 1 << 20, (ROWS, FEATURES)) / 0.997, 0.0)
        encoded.append(encode(Frame("host", "host", "process", 1.7e9 + at, at, layout, values)))
    return encoded


def percentiles(seconds: list[float]) -> str:
    cuts = statistics.quantiles(seconds, n=100)
    return f"p50 {cuts[49] * 1e3:7.3f} ms   p99 {cuts[98] * 1e3:7.3f} ms"


def throughput(bus: EmbeddedBus, name: str, values: list[bytes], each: int) -> float:
    """Appends `each` at a time, reads all back; returns records appended a second."""
    topic = f"{name}-{each}"
    bus.create([TopicSpec(topic)])
    records = [Outgoing(topic, "host", value, float(at)) for at, value in enumerate(values)]
    before = bus.path.stat().st_size
    start = time.perf_counter()
    for at in range(0, len(records), each):
        bus.append(records[at : at + each])
    appending = time.perf_counter() - start
    start = time.perf_counter()
    count = sum(1 for _ in bus.read(Partition(topic, 0), 0))
    reading = time.perf_counter() - start
    assert count == len(values)
    size = sum(map(len, values))
    kept = bus.path.stat().st_size - before
    print(
        f"{name:7} {len(values[0]) / 1e3:5.1f} kB, {each:3} a time: "
        f"append {count / appending:7.0f}/s {size / appending / 1e6:6.0f} MB/s   "
        f"read {count / reading:7.0f}/s {size / reading / 1e6:6.0f} MB/s   stored {kept / size:5.2f} of it"
    )
    return count / appending


def commits(bus: EmbeddedBus, synchronous: str) -> float:
    """Latency of a commit with one small output, now and then a snapshot; returns the median in seconds."""
    bus.create([TopicSpec("input"), TopicSpec("output")])
    with bus.database.connection("measure") as connection:  # the pool is a stack: the commits below get this one
        connection.execute(f"PRAGMA synchronous={synchronous}")
    member = bus.subscribe("benchmark", ["input"])
    partition = Partition("input", 0)
    state = np.random.default_rng(1).random(20_000).tobytes()
    taken = []
    for at in range(COMMITS):
        outputs = [Outgoing("output", "host", b'{"kind": "score"}', float(at))]
        snapshots = [Snapshot("gaussian", partition, "host", at, float(at), state)] if at % 50 == 0 else []
        start = time.perf_counter()
        member.commit(Commit({partition: at}, outputs, snapshots))
        taken.append(time.perf_counter() - start)
    member.close()
    print(f"commit, synchronous={synchronous:6}: {percentiles(taken)}")
    return statistics.median(taken)


def latency(appender: EmbeddedBus, reader: EmbeddedBus, name: str) -> None:
    """From the call of append to the return of the poll that brings the record."""
    appender.create([TopicSpec("pings")])
    member = reader.subscribe(f"latency-{name}", ["pings"])
    assert member.poll(5.0).assigned
    reader_offset = reader.bounds(Partition("pings", 0))[1]
    member.seek(Partition("pings", 0), reader_offset)
    taken: list[float] = []

    def ping() -> None:
        random = np.random.default_rng(2)
        for _ in range(100):
            time.sleep(0.01 + random.random() * 0.02)
            appender.append([Outgoing("pings", "host", repr(time.perf_counter()).encode(), 0.0)])

    thread = threading.Thread(target=ping)
    thread.start()
    while len(taken) < 100:
        taken += [time.perf_counter() - float(record.value) for record in member.poll(1.0).records]
    thread.join()
    before, start = time.process_time(), time.perf_counter()
    member.poll(2.0)
    idle = (time.process_time() - before) / (time.perf_counter() - start)
    member.close()
    print(f"append to poll, {name:15}: {percentiles(taken)}   idle poll takes {idle:.2%} of a core")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"SQLite {sqlite3.sqlite_version}, frames of {ROWS} x {FEATURES}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bus.db"
        with EmbeddedBus(path) as bus, EmbeddedBus(path) as other:
            usual, worst = frames(FRAMES, zeros=0.8), frames(FRAMES, zeros=0.0)
            one = throughput(bus, "usual", usual, 1)
            many = throughput(bus, "usual", usual, 100)
            throughput(bus, "random", worst, 1)
            throughput(bus, "random", worst, 100)
            print(f"a hundred frames in one transaction: {many / one:.2f} times as many a second as one by one")
            normal, full = commits(bus, "NORMAL"), commits(bus, "FULL")
            print(f"a commit with an fsync takes {full / normal:.1f} times as long as one without")
            latency(bus, bus, "same process")
            latency(other, bus, "another process")


if __name__ == "__main__":
    main()
