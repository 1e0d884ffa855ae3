"""The spool and its sender before a bus that is away or refuses; with disks that are full and files that are not sound.

The bus here is an embedded one that misbehaves as it is told; tests/kafka has the same with a broker that is killed.
"""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.core import backoff
from laggard.pipeline.core.bus import BusError, BusUnavailable, Outgoing, Refused, TopicSpec
from laggard.pipeline.core.bus.database import Database
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Decoder, Frame, make_layout
from laggard.pipeline.core.sending import spool as spooling
from laggard.pipeline.core.sending.sender import Sender
from laggard.pipeline.core.sending.spool import Spool
from tests.programs import started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[4]
TOPIC = "laggard.counters"
LAYOUT = make_layout(("a[1@1]",), ("a",), ("threads",))
WIDE = make_layout(tuple(f"r{n}" for n in range(1000)), ("r",) * 1000, tuple(f"f{n}" for n in range(10)))
DAY_S = 86400.0


def frame(sequence: int) -> Frame:
    return Frame("host", "web-1", "process", 1e9 + sequence, sequence, LAYOUT, np.full((1, 1), float(sequence)))


def large(sequence: int) -> Frame:
    """Some 80 kB that cannot be compressed."""
    values = np.random.default_rng(sequence).random((1000, 10))
    return Frame("host", "web-1", "process", 1e9 + sequence, sequence, WIDE, values)


class Remote(EmbeddedBus):
    """A bus that can be away, refuse everything, or refuse single records."""

    trouble: BusError | None = None
    refuses: frozenset[int] = frozenset()
    delay_s = 0.0
    held: threading.Event | None = None
    tries = 0

    def append(self, records: Sequence[Outgoing]) -> None:
        self.tries += 1
        time.sleep(self.delay_s)
        if self.held is not None:
            self.held.wait(120)
        if self.trouble is not None:
            raise self.trouble
        if any(sequence_of(record.value) in self.refuses for record in records):
            raise Refused("a record is larger than the topic's max.message.bytes")
        super().append(records)


def sequence_of(value: bytes) -> int:
    return Decoder().decode(value, "test").sequence


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Remote]:
    with Remote(tmp_path / "remote.db") as bus:
        bus.create([TopicSpec(TOPIC)])
        yield bus


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.db"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(backoff, "LONGEST_PAUSE_S", 0.05)


def spool(path: Path, max_bytes: int = 1 << 26) -> Spool:
    return Spool(path, max_bytes, DAY_S, TOPIC)


@pytest.fixture
def opened(path: Path, remote: Remote) -> Iterator[Callable[..., Sender]]:
    senders: list[Sender] = []

    def start(**options: int) -> Sender:
        senders.append(Sender(spool(path, **options), remote))
        return senders[-1]

    yield start
    for each in senders:
        each.close(0.1)


def arrived(bus: EmbeddedBus) -> list[int]:
    (partition,) = bus.partitions(TOPIC)
    return [sequence_of(record.value) for record in bus.read(partition, 0)]


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "it does not come to it"
        time.sleep(0.01)


def await_arrival(bus: EmbeddedBus, wanted: list[int]) -> None:
    until(lambda: len(arrived(bus)) >= len(wanted))
    assert arrived(bus) == wanted


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def test_what_is_published_arrives_in_order_and_leaves_the_spool(
    opened: Callable[..., Sender], remote: Remote, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sender = opened()
    for sequence in range(0, 30, 3):
        sender.publish([frame(sequence), frame(sequence + 1), frame(sequence + 2)])
    await_arrival(remote, list(range(30)))
    until(lambda: not sender.waiting)
    assert (sender.dropped, said(caplog)) == (0, [])
    sender.close()
    with EmbeddedBus(path) as left:
        (partition,) = left.partitions("spool")
        assert list(left.read(partition, 0)) == []


def test_while_the_bus_is_away_records_wait_and_publishing_does_not(
    opened: Callable[..., Sender], remote: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    remote.trouble = BusUnavailable("kafka://b1: cannot append for now")
    remote.delay_s = 1.0
    sender = opened()
    began = time.monotonic()
    for sequence in range(100):
        sender.publish([frame(sequence)])
    took_s = time.monotonic() - began
    assert sender.waiting == 100
    remote.delay_s = 0.0
    until(lambda: remote.tries >= 5)
    remote.trouble = None
    await_arrival(remote, list(range(100)))
    until(lambda: len(said(caplog)) > 1)
    assert took_s < 30.0, "a publication does not wait for the bus: 100 of them would take more than 100 s"
    assert [line.partition(";")[0] for line in said(caplog)] == [
        "kafka://b1: cannot append for now",
        "the bus takes records again",
    ]


@pytest.mark.slow
def test_a_stop_waits_for_a_bus_that_takes_records_and_not_for_one_that_does_not(
    opened: Callable[..., Sender], remote: Remote, caplog: pytest.LogCaptureFixture, path: Path
) -> None:
    first = opened()
    remote.delay_s = 2.0  # of each append: longer than a stop in trouble waits
    first.publish([frame(0)])
    until(lambda: remote.tries == 1)
    first.close(60.0)
    assert (arrived(remote), said(caplog)) == ([0], [])

    remote.delay_s, remote.trouble = 0.0, BusUnavailable("away")
    second = opened()
    second.publish([frame(1)])
    until(lambda: said(caplog))
    remote.delay_s = 60.0
    tries = remote.tries
    until(lambda: remote.tries > tries)
    began = time.monotonic()
    second.close()
    assert time.monotonic() - began < 30.0, "an append that hangs is left alone"
    assert said(caplog) == [
        f"away; what is published waits in {path} until then",
        f"1 records wait in {path}; they are sent after the next start",
    ]


def test_trouble_at_the_stop_is_said_and_tried_again_while_there_is_time(
    opened: Callable[..., Sender], remote: Remote, caplog: pytest.LogCaptureFixture, path: Path
) -> None:
    remote.held, remote.trouble = threading.Event(), BusUnavailable("away")
    sender = opened()
    sender.publish([frame(0)])
    until(lambda: remote.tries == 1)

    def heal() -> None:
        assert remote.held is not None
        until(sender._stop.is_set)
        remote.held.set()
        until(lambda: said(caplog))
        remote.trouble = None

    healing = threading.Thread(target=heal)
    healing.start()
    sender.close(60.0)
    healing.join()
    assert arrived(remote) == [0]
    assert said(caplog)[0] == f"away; what is published waits in {path} until then"


def test_what_a_stopped_agent_leaves_is_sent_by_the_next(
    opened: Callable[..., Sender], remote: Remote, caplog: pytest.LogCaptureFixture, path: Path
) -> None:
    remote.trouble = BusUnavailable("away")
    first = opened()
    for sequence in range(5):
        first.publish([frame(sequence)])
    began = time.monotonic()
    first.close(0.3)
    assert time.monotonic() - began < 30.0
    assert said(caplog)[-1] == f"5 records wait in {path}; they are sent after the next start"
    until(lambda: not first._thread.is_alive())  # it has nothing on its way any more
    remote.trouble = None
    second = opened()
    second.publish([frame(5)])
    await_arrival(remote, list(range(6)))


def test_a_stop_sends_what_still_waits(opened: Callable[..., Sender], remote: Remote) -> None:
    remote.delay_s = 0.1
    sender = opened()
    for sequence in range(20):
        sender.publish([frame(sequence)])
    sender.close(60.0)
    assert arrived(remote) == list(range(20))


KILLED = """
import sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.pipeline.core.sending.test_spool import Remote, Sender, frame, spool
remote = Remote(Path(sys.argv[1]))
sender = Sender(spool(Path(sys.argv[2])), remote)
sequence = int(sys.argv[3])
while True:
    sender.publish([frame(sequence)])
    print(sequence, flush=True)
    sequence += 1
"""


@pytest.mark.slow
def test_killed_at_any_moment_nothing_is_lost_or_out_of_order(remote: Remote, path: Path, tmp_path: Path) -> None:
    root = str(ROOT)
    published = -1
    for round_ in range(6):
        command = [sys.executable, "-c", KILLED.format(root=root), str(remote.path), str(path), str(published + 1)]
        with started(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(15 + 17 * round_):
                published = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            for line in process.stdout:
                published = int(line)
        # One more may have been kept without being said.
        with EmbeddedBus(path) as left:
            (partition,) = left.partitions("spool")
            kept = [sequence_of(record.value) for record in left.read(partition, 0)]
        published = max([published, *kept, *arrived(remote)[-1:]])
    last = Sender(spool(path), remote)
    last.close(60.0)
    found = arrived(remote)
    firsts = list(dict.fromkeys(found))
    assert firsts == list(range(published + 1)), "nothing lost, and in order but for what came twice"
    assert len(found) - len(firsts) <= 6 * spooling.BATCH_RECORDS


def test_beyond_its_bound_the_oldest_go_and_are_counted(
    opened: Callable[..., Sender], remote: Remote, caplog: pytest.LogCaptureFixture, path: Path
) -> None:
    remote.trouble = BusUnavailable("away")
    sender = opened(max_bytes=2 << 20)
    for sequence in range(100):
        sender.publish([large(sequence)])
    assert path.stat().st_size <= 2 << 20
    assert 50 < sender.dropped < 95, "the log of what was written last comes on top of the file"
    assert sender.waiting + sender.dropped == 100
    remote.trouble = None
    until(lambda: "is empty again" in said(caplog)[-1])
    found = arrived(remote)
    assert found[-5:] == list(range(95, 100))
    assert found == sorted(found)
    assert len(found) + sender.dropped == 100
    lines = said(caplog)
    assert sum("the oldest are dropped until" in line for line in lines) == 1
    assert lines[-1] == f"the spool {path} is empty again; {sender.dropped} records were dropped so far"


@pytest.mark.slow
def test_the_file_gets_small_again(opened: Callable[..., Sender], remote: Remote, path: Path) -> None:
    remote.trouble = BusUnavailable("away")
    sender = opened()
    for sequence in range(200):
        sender.publish([large(sequence)])
    grown = path.stat().st_size
    remote.trouble = None
    await_arrival(remote, list(range(200)))
    for sequence in range(200, 230):
        sender.publish([frame(sequence)])
        time.sleep(0.005)
    sender.close(60.0)
    with EmbeddedBus(path):
        pass  # the write-ahead log goes into the file
    assert grown > 12 << 20
    assert path.stat().st_size < grown / 2


def test_a_right_that_is_missing_is_said_once_and_tried_again(
    opened: Callable[..., Sender], remote: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    remote.trouble = BusError("kafka://b1: cannot append: it lacks an ACL")
    sender = opened()
    for sequence in range(3):
        sender.publish([frame(sequence)])
    until(lambda: remote.tries >= 4)
    assert arrived(remote) == []
    remote.trouble = BusUnavailable("away")
    until(lambda: len(said(caplog)) > 1)
    remote.trouble = None
    await_arrival(remote, [0, 1, 2])
    until(lambda: len(said(caplog)) > 2)
    assert [line.partition(";")[0] for line in said(caplog)] == [
        "kafka://b1: cannot append: it lacks an ACL",
        "away",
        "the bus takes records again",
    ]
    assert sender.dropped == 0


def test_a_rejected_record_is_counted_and_skipped(
    opened: Callable[..., Sender], remote: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    remote.refuses = frozenset({2, 5})
    sender = opened()
    sender.publish([frame(sequence) for sequence in range(8)])
    await_arrival(remote, [0, 1, 3, 4, 6, 7])
    until(lambda: not sender.waiting)
    assert sender.dropped == 2
    assert said(caplog) == ["a record is larger than the topic's max.message.bytes; it is skipped (1 so far)"]


def test_what_was_sent_of_a_batch_is_not_sent_again_and_a_refused_record_is_counted_once(
    opened: Callable[..., Sender], remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.refuses = frozenset({1})
    append, calls = remote.append, iter(range(100))

    def flaky(records: Sequence[Outgoing]) -> None:
        if next(calls) in {4, 5}:
            raise BusUnavailable("away")
        append(records)

    monkeypatch.setattr(remote, "append", flaky)
    sender = opened()
    sender.publish([frame(sequence) for sequence in range(5)])
    await_arrival(remote, [0, 2, 3, 4])
    assert sender.dropped == 1


@pytest.mark.parametrize(("owner", "name"), [(Spool, "take"), (Remote, "append")], ids=["of the spool", "of the bus"])
def test_sending_survives_an_unexpected_error(
    opened: Callable[..., Sender],
    remote: Remote,
    *,
    owner: type,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole, calls = getattr(owner, name), iter(range(100))

    def broken(*arguments: object) -> object:
        if next(calls) < 2:
            raise LookupError("of its own")
        return whole(*arguments)

    monkeypatch.setattr(owner, name, broken)
    sender = opened()
    sender.publish([frame(0)])
    sender.publish([frame(1)])
    await_arrival(remote, [0, 1])
    until(lambda: len(said(caplog)) > 1)
    assert [line.partition(";")[0] for line in said(caplog)] == [
        "sending failed with LookupError: of its own",
        "the bus takes records again",
    ]


def test_a_spool_that_cannot_be_read_for_now_lets_nothing_newer_pass(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waiting, read, busy = spool(path), EmbeddedBus.read, threading.Event()
    full = Full(monkeypatch, path)

    def refusing(bus: EmbeddedBus, *arguments: object) -> object:
        if busy.is_set():
            raise BusUnavailable(f"{path}: cannot read")
        return read(bus, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(EmbeddedBus, "read", refusing)
    waiting.publish([frame(0)])
    full.now = True
    waiting.publish([frame(1)])
    busy.set()
    assert waiting.take() == []
    assert waiting.take() == []
    busy.clear()
    assert [sequence_of(record.value) for record in waiting.take()] == [0]
    assert [sequence_of(record.value) for record in waiting.take()] == [1]
    assert sum("what waits in it is not sent until then" in line for line in said(caplog)) == 1
    full.now = False
    waiting.close()


# Disks.


class Full:
    """Makes every write to one file fail as on a full disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.now = False
        writing = Database.writing

        def refusing(database: Database, asked: str) -> object:
            if self.now and database.path == path:
                raise BusUnavailable(f"{path}: cannot {asked}: the disk is full")
            return writing(database, asked)

        monkeypatch.setattr(Database, "writing", refusing)


def test_on_a_full_disk_records_go_to_the_bus_from_memory(
    opened: Callable[..., Sender],
    remote: Remote,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    full = Full(monkeypatch, path)
    remote.trouble = BusUnavailable("away")
    sender = opened()
    for sequence in range(5):
        sender.publish([frame(sequence)])
    full.now = True
    for sequence in range(5, 10):
        sender.publish([frame(sequence)])
    assert sender.waiting == 10
    remote.trouble = None
    await_arrival(remote, list(range(10)))
    for sequence in range(10, 13):
        sender.publish([frame(sequence)])
    await_arrival(remote, list(range(13)))
    full.now = False
    sender.publish([frame(13)])
    await_arrival(remote, list(range(14)))
    lines = [line for line in said(caplog) if "spool.db" in line and "disk is full" in line]
    assert len(lines) == 1, "said once"
    assert sender.dropped == 0


def test_a_spool_that_cannot_be_opened_for_now_is_opened_later(
    remote: Remote, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, full = EmbeddedBus.__init__, threading.Event()
    full.set()

    def refusing(bus: EmbeddedBus, where: Path, *arguments: object, **options: object) -> None:
        if full.is_set() and where == path:
            raise BusUnavailable(f"{where}: no room")
        opening(bus, where, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(EmbeddedBus, "__init__", refusing)
    waiting = spool(path)
    waiting.publish([frame(0)])
    assert waiting.waiting == 1
    full.clear()
    waiting.publish([frame(1)])
    assert [sequence_of(record.value) for record in waiting.take()] == [0, 1]
    assert waiting.close() == 2


@pytest.mark.parametrize("damage", [b"this is no SQLite file, and never was one" * 200, b""])
def test_a_damaged_file_is_put_aside(
    opened: Callable[..., Sender], remote: Remote, path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(damage)
    sender = opened()
    sender.publish([frame(1)])
    await_arrival(remote, [1])
    assert path.with_name("spool.db.damaged").exists() == bool(damage)
    assert any("is moved to" in line for line in said(caplog)) == bool(damage)


def test_a_file_that_is_damaged_while_it_is_in_use_is_put_aside(remote: Remote, path: Path) -> None:
    waiting = spool(path)
    for sequence in range(50):
        waiting.publish([large(sequence)])
    waiting.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        for at in range(8192, size, 4096):
            file.seek(at)
            file.write(os.urandom(4096))
    again = spool(path)
    found: list[int] = []
    for sequence in range(100, 110):
        again.publish([frame(sequence)])
        found += [sequence_of(record.value) for record in again.take()]
        again.sent()
    assert found[-1] == 109
    again.close()


def test_another_programs_file_is_refused_at_once(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    with pytest.raises(BusError, match="another program's SQLite file"):
        spool(path)
