"""A disk that is full, a file that may not grow, a file that somebody holds: a clear error, nothing torn, and on."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import BusUnavailable, Commit, Outgoing, Partition, Snapshot, TopicSpec
from laggard.pipeline.core.bus.embedded import EmbeddedBus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

A = Partition("a", 0)
DISK_BYTES = 3 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 3 MiB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "laggard-test", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount a tmpfs; the file that may not grow is tested all the same")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def check(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def frame(at: int) -> Outgoing:
    return Outgoing("a", "host-1", os.urandom(20_000), float(at))


def test_a_full_disk_is_said_and_survived(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(DISK_BYTES // 2))
    path = small_disk / "bus.db"
    with EmbeddedBus(path) as bus:
        bus.create([TopicSpec("a"), TopicSpec("out")])
        member = bus.subscribe("group", ["a"])
        member.poll(0.0)
        written = 0
        said = ""
        while not said:
            try:
                bus.append([frame(written)])
                written += 1
            except BusUnavailable as error:
                said = str(error)
        assert re.search(r"bus\.db: cannot append: the disk is full, \d+ bytes free in .*disk: make room", said)
        assert written > 10
        # Whole or not at all: a commit too.
        snapshot = Snapshot("operator", A, "host-1", 5, 5.0, os.urandom(200_000))
        commit = Commit({A: 5}, [Outgoing("out", "host-1", b"anomaly", 5.0)], [snapshot])
        with pytest.raises(BusUnavailable, match="disk is full"):
            member.commit(commit)
        assert bus.committed("group", A) == 0
        assert bus.bounds(Partition("out", 0)) == (0, 0)
        # What was acknowledged is there, and can be read on.
        assert bus.bounds(A) == (0, written)
        assert len(member.poll(0.0).records) == written
        check(path)
        with EmbeddedBus(path) as other:
            assert other.bounds(A) == (0, written)

        ballast.unlink()
        member.commit(commit)
        bus.append([frame(written)])
        assert bus.committed("group", A) == 5
        assert bus.bounds(A) == (0, written + 1)
        assert list(bus.snapshots("operator", A)) == [snapshot]
        check(path)
    with EmbeddedBus(path) as bus:
        assert bus.bounds(A) == (0, written + 1)


def test_a_full_disk_at_the_first_start_is_said_and_survived(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(2 * DISK_BYTES))
    path = small_disk / "bus.db"
    with pytest.raises(BusUnavailable, match="make room"):
        EmbeddedBus(path)
    ballast.unlink()
    with EmbeddedBus(path) as bus:
        bus.create([TopicSpec("a")])
        bus.append([frame(0)])


def test_a_file_that_may_not_grow_is_said_and_survived(tmp_path: Path) -> None:
    """The same on any machine: the kernel refuses writes beyond a length, as it does beyond a quota."""
    program = """
import os, resource, sys
from pathlib import Path
from laggard.pipeline.core.bus import *
from laggard.pipeline.core.bus.embedded import EmbeddedBus
bus = EmbeddedBus(Path(sys.argv[1]))
bus.create([TopicSpec("a")])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, most))
written = 0
try:
    while True:
        bus.append([Outgoing("a", "host-1", os.urandom(20_000), float(written))])
        written += 1
except BusUnavailable as error:
    print(error)
assert bus.bounds(Partition("a", 0)) == (0, written)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
bus.append([Outgoing("a", "host-1", b"on", float(written))])
bus.close()
print(written)
"""
    path = tmp_path / "bus.db"
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True, timeout=120
    )
    said, written = done.stdout.splitlines()
    assert said.startswith(f"{path}: cannot append: ")
    assert "make room" in said
    assert int(written) > 10
    check(path)
    with EmbeddedBus(path) as bus:
        assert bus.bounds(A) == (0, int(written) + 1)


def test_a_file_that_is_held_too_long_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    with EmbeddedBus(path, busy_timeout_s=0.1) as bus, closing(sqlite3.connect(path, isolation_level=None)) as other:
        bus.create([TopicSpec("a")])
        bus.append([frame(0)])
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusUnavailable, match=r"held the file for more than 0\.1 s"):
            bus.append([frame(1)])
        assert bus.bounds(A) == (0, 1)  # readers are not disturbed
        other.execute("ROLLBACK")
        bus.append([frame(1)])
        assert bus.bounds(A) == (0, 2)


def test_a_file_that_is_held_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    with EmbeddedBus(path, busy_timeout_s=60.0) as bus:
        bus.create([TopicSpec("a")])
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            released = threading.Event()

            def release() -> None:
                released.set()
                other.execute("ROLLBACK")

            timer = threading.Timer(0.2, release)
            timer.start()
            bus.append([frame(0)])
            assert released.is_set()
            timer.join()


def test_a_revocation_is_told_though_the_file_is_held_at_that_moment(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    with EmbeddedBus(path, busy_timeout_s=0.05) as bus, closing(sqlite3.connect(path, isolation_level=None)) as other:
        bus.create([TopicSpec("a")])
        member = bus.subscribe("group", ["a"])
        assert member.poll(0.0).assigned == {A}
        bus.subscribe("group", ["a"]).close()  # came and went: the partition is free, and the member may take it
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusUnavailable):
            member.poll(0.0)
        other.execute("ROLLBACK")
        bus.subscribe("group", ["a"])
        assert member.poll(0.0).revoked == {A}


def test_many_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    program = """
import sys, time
from pathlib import Path
from laggard.pipeline.core.bus import *
from laggard.pipeline.core.bus.embedded import EmbeddedBus
time.sleep(max(0.0, float(sys.argv[3]) - time.time()))
with EmbeddedBus(Path(sys.argv[1])) as bus:
    bus.create([TopicSpec("a")])
    for at in range(20):
        bus.append([Outgoing("a", sys.argv[2], b"%d" % at, float(at))])
"""
    path = tmp_path / "bus.db"
    start = str(time.time() + 0.7)
    writers = [subprocess.Popen([sys.executable, "-c", program, path, f"host-{at}", start]) for at in range(4)]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 4
    with EmbeddedBus(path) as bus:
        assert bus.bounds(A) == (0, 80)
        for at in range(4):
            found = [record.value for record in bus.read(A, 0, key=f"host-{at}")]
            assert found == [b"%d" % number for number in range(20)]
    check(path)
