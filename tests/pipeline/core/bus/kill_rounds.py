"""Appends and commits in processes that are killed at random moments; run by `test_kill.py`.

`kill_rounds.py PATH ROUNDS SEED`: in each round one process appends and one commits on the bus at PATH. Both report,
through a pipe, each call that returned. Both get SIGKILL after a few milliseconds. Then the file must have everything
that was reported, nothing torn, and the next round continues from there. During the first half of the rounds another
process has the file open, so that its write-ahead log outlives the killed ones. It is a program of its own because it
forks.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from laggard.pipeline.core.bus import Commit, Outgoing, Partition, Snapshot, TopicSpec
from laggard.pipeline.core.bus.embedded import EmbeddedBus

IN, OUT = Partition("in", 0), Partition("out", 0)
BATCH = 3
MAX_BYTES = 1 << 20  # the least, so that checkpoints and trimming are under way when the signal comes


def append(path: Path, acknowledge: int) -> NoReturn:
    """Batches of numbered records, one number after the other whatever happened before."""
    bus = EmbeddedBus(path, MAX_BYTES)
    _, number = bus.bounds(IN)
    while True:
        bus.append(
            [
                Outgoing("in", "host-1", b"%d " % at + random.randbytes(random.choice([0, 300, 20_000])), float(at))
                for at in range(number, number + BATCH)
            ]
        )
        number += BATCH
        os.write(acknowledge, number.to_bytes(8, "little"))


def commit(path: Path, acknowledge: int) -> NoReturn:
    """The n-th commit: input offset n, output n, snapshot n."""
    bus = EmbeddedBus(path, MAX_BYTES)
    member = bus.subscribe("group", ["in"])
    number = bus.committed("group", IN)
    while True:
        snapshot = Snapshot("operator", IN, "host-1", number + 1, 0.0, b"%d " % (number + 1) * 5_000)
        member.commit(Commit({IN: number + 1}, [Outgoing("out", "host-1", b"%d" % number, 0.0)], [snapshot]))
        number += 1
        os.write(acknowledge, number.to_bytes(8, "little"))


def start(work: object, path: Path) -> tuple[int, int]:
    """A child at work; its pid and where it tells how far it is."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reads)
        (append if work is append else commit)(path, writes)
    os.close(writes)
    return pid, reads


def told(reads: int) -> int:
    """The last number that a killed child told."""
    with os.fdopen(reads, "rb") as pipe:
        data = pipe.read()
    return int.from_bytes(data[-8:], "little") if data else 0


def check(path: Path, appended: int, committed: int) -> None:
    with EmbeddedBus(path, MAX_BYTES) as bus:
        _, end = bus.bounds(IN)
        assert end >= appended, f"{appended} records were acknowledged, {end} are there"
        assert end % BATCH == 0, f"{end} records: a torn append"
        oldest, _ = bus.bounds(IN)
        numbers = [int(record.value.split()[0]) for record in bus.read(IN, 0)]
        assert numbers == list(range(oldest, end)), "records are missing, repeated or out of order"
        done = bus.committed("group", IN)
        assert done >= committed, f"{committed} commits were acknowledged, {done} are there"
        assert bus.bounds(OUT)[1] == done, "a torn commit: outputs and offsets"
        if done:
            (snapshot,) = bus.snapshots("operator", IN)
            assert snapshot.offset == done == int(snapshot.value.split()[0]), "a torn commit: snapshots and offsets"


def main() -> None:
    path, rounds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    draw = random.Random(seed)
    with EmbeddedBus(path, MAX_BYTES) as bus:
        bus.create([TopicSpec("in"), TopicSpec("out")])
        while not bus.bounds(IN)[0]:  # full from the beginning: each append may trim
            _, end = bus.bounds(IN)
            bus.append(
                [
                    Outgoing("in", "host-1", b"%d " % at + random.randbytes(20_000), 0.0)
                    for at in range(end, end + BATCH)
                ]
            )
    # A process of its own: no connection of this one may live through its forks.
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdout.readline()
    appended = committed = 0
    for number in range(rounds):
        if number == rounds // 2:  # from here on the killed are the last to have the file open
            holder.stdin.close()
            holder.wait()
        children = [start(append, path), start(commit, path)]
        for pid, reads in children:
            if number % 2:  # however slow the machine is: half of them have done something
                select.select([reads], [], [], 60.0)
            time.sleep(draw.uniform(0.004, 0.03))
            os.kill(pid, signal.SIGKILL)
        for pid, _ in children:
            os.waitpid(pid, 0)
        appended = max(appended, told(children[0][1]))
        committed = max(committed, told(children[1][1]))
        check(path, appended, committed)
    holder.stdout.close()
    with EmbeddedBus(path, MAX_BYTES) as bus:
        oldest, _ = bus.bounds(IN)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    print(f"{appended} {committed} {oldest}")


HOLD = """
import sys
from pathlib import Path
from laggard.pipeline.core.bus.embedded import EmbeddedBus
with EmbeddedBus(Path(sys.argv[1]), 1 << 20):
    print(flush=True)
    sys.stdin.read()
"""

if __name__ == "__main__":
    main()
