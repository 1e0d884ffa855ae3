"""The file of the embedded bus: what is in it after closing, who may read it, what it does for the file of others."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import (
    BusError,
    BusUnavailable,
    Commit,
    DamagedRecord,
    Fenced,
    Outgoing,
    Partition,
    TopicSpec,
)
from laggard.pipeline.core.bus.embedded import EmbeddedBus

if TYPE_CHECKING:
    from collections.abc import Callable

A = Partition("a", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bus.db"


def filled(path: Path, count: int = 10) -> EmbeddedBus:
    bus = EmbeddedBus(path)
    bus.create([TopicSpec("a")])
    bus.append([Outgoing("a", "host-1", b"%d" % at * 1_000, float(at)) for at in range(count)])
    return bus


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_what_was_discarded_is_gone_and_offsets_go_on(path: Path) -> None:
    with filled(path) as bus:
        bus.append([Outgoing("a", "host-2", b"x", 10.0)])
        bus.discard(A, 4)
        assert bus.bounds(A) == (4, 11)
        assert [record.offset for record in bus.read(A, 0)] == list(range(4, 11))
        bus.discard(A, 2)
        bus.discard(A, 10)
        assert bus.bounds(A) == (10, 11)
        assert bus.keys("a") == ["host-2"]
        bus.discard(A, 99)
        assert bus.bounds(A) == (11, 11)
        assert bus.keys("a") == []
        bus.append([Outgoing("a", "host-1", b"y", 11.0)])
        assert [record.offset for record in bus.read(A, 0)] == [11]


def test_everything_is_there_after_closing(path: Path) -> None:
    with filled(path) as bus:
        member = bus.subscribe("group", ["a"])
        member.poll(1.0)
        member.commit(Commit({A: 4}))
    assert [file.name for file in path.parent.iterdir()] == ["bus.db"]
    with EmbeddedBus(path) as bus:
        assert bus.bounds(A) == (0, 10)
        assert bus.committed("group", A) == 4
        bus.append([Outgoing("a", "host-2", b"", 0.0)])
        assert bus.bounds(A) == (0, 11)
        assert bus.keys("a") == ["host-1", "host-2"]


def test_only_the_owner_reads_file_and_folder(tmp_path: Path) -> None:
    path = tmp_path / "var" / "laggard" / "bus.db"
    with filled(path):
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_who_comes_and_goes_leaves_the_log_to_those_who_write(path: Path) -> None:
    """Several connections in one process, as of several threads, then another process that opens and closes.

    If it takes itself for the last one, it deletes the write-ahead log below others that continue to write. Then no one
    else sees their records, which are lost when they end.
    """
    program = (
        "import sys; from pathlib import Path; from laggard.pipeline.core.bus.embedded import EmbeddedBus\n"
        "from laggard.pipeline.core.bus import Partition\n"
        "with EmbeddedBus(Path(sys.argv[1])) as bus: print(bus.bounds(Partition('a', 0))[1])"
    )

    def seen() -> int:
        return int(subprocess.run([sys.executable, "-c", program, path], capture_output=True, check=True).stdout)

    with filled(path) as bus, EmbeddedBus(path) as second:
        with bus.database.connection("hold one"), bus.database.connection("open another"):
            pass
        assert seen() == 10
        second.append([Outgoing("a", "host-1", b"more", 10.0)])
        assert seen() == 11
        bus.append([Outgoing("a", "host-1", b"more", 11.0)])
        assert seen() == 12


def test_a_closed_bus_says_so(path: Path) -> None:
    bus = filled(path)
    member = bus.subscribe("group", ["a"])
    bus.close()
    bus.close()
    for ask in (lambda: bus.bounds(A), lambda: bus.append([Outgoing("a", "", b"", 0.0)]), lambda: member.poll(0.0)):
        with pytest.raises(BusError, match=r"bus\.db.*closed"):
            ask()


def test_a_waiting_poll_notices_that_the_bus_is_closed(path: Path) -> None:
    bus = filled(path, 0)
    member = bus.subscribe("group", ["a"])
    member.poll(1.0)
    timer = threading.Timer(0.1, bus.close)
    timer.start()
    begun = time.monotonic()
    with pytest.raises(BusError, match="closed"):
        member.poll(60.0)
    assert time.monotonic() - begun < 30.0
    timer.join()


def foreign(path: Path) -> None:
    change(path, "CREATE TABLE records (id)")


def newer(path: Path) -> None:
    filled(path).close()
    change(path, "PRAGMA user_version=99")


def text(path: Path) -> None:
    path.write_text("not a database at all\n" * 100)


def damaged(path: Path) -> None:
    filled(path, 300).close()
    with path.open("r+b") as file:
        file.seek(20)
        file.write(os.urandom(4096 * 3))


def folder(path: Path) -> None:
    path.mkdir()


def below_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (foreign, "another program's SQLite file"),
        (newer, "has form 99, expected 1"),
        (text, "file is not a database"),
        (damaged, "expected laggard's"),
        (folder, "expected a file"),
        (below_a_file, "expected a file"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_bus_is_named_and_left_alone(path: Path, make: Callable[[Path], None], expected: str) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(BusError, match=expected) as caught:
        EmbeddedBus(path)
    assert str(path) in str(caught.value)
    assert not isinstance(caught.value, BusUnavailable)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_an_empty_file_becomes_a_bus(path: Path) -> None:
    path.touch()
    filled(path).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user")
@pytest.mark.parametrize("refused", ["file", "folder"])
def test_a_file_of_another_user_is_refused_clearly(refused: str) -> None:
    program = (
        "import os, sys; from pathlib import Path\n"
        "from laggard.pipeline.core.bus import BusError; from laggard.pipeline.core.bus.embedded import EmbeddedBus\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try: EmbeddedBus(Path(sys.argv[1]))\n"
        "except BusError as error: print(type(error).__name__, error)\n"
    )
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are below one for root alone
        path = Path(folder, "bus.db")
        if refused == "file":
            filled(path).close()
            path.chmod(0o444)
            shutil.chown(folder, 65534)
        path.parent.chmod(0o755)
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"BusError {path}: expected a file that this user may write")


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with filled(Path("bus.db")) as bus:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with bus.database.connection("hold one"):  # so that the next is a new one
            assert bus.bounds(A) == (0, 10)
    assert not (tmp_path / "elsewhere" / "bus.db").exists()


@pytest.mark.parametrize(
    "damage", ["value = x'28b52ffd0102030405'", "value = zeroblob(700)", "size = 1 << 50", "headers = '[[1]]'"]
)
def test_a_damaged_record_is_told_once_and_passed(path: Path, damage: str) -> None:
    with filled(path) as bus:
        change(path, f"UPDATE records SET {damage} WHERE id & 0xffff = 3")
        with pytest.raises(DamagedRecord, match=r"a\[0\]@3 is damaged: "):
            list(bus.read(A, 0))
        member = bus.subscribe("group", ["a"])
        member.poll(1.0)
        assert [record.offset for record in member.poll(1.0).records] == [0, 1, 2]
        with pytest.raises(DamagedRecord) as caught:
            member.poll(1.0)
        assert (caught.value.partition, caught.value.offset) == (A, 3)
        assert [record.offset for record in member.poll(1.0).records] == [4, 5, 6, 7, 8, 9]


def test_the_newest_subscriber_takes_over_at_once(path: Path) -> None:
    with filled(path) as bus, EmbeddedBus(path) as other:
        first = bus.subscribe("group", ["a"])
        assert first.poll(0.0).assigned == {A}
        second = other.subscribe("group", ["a"])
        with pytest.raises(Fenced, match="group"):
            first.commit(Commit({A: 5}))
        assert first.poll(0.0).revoked == {A}
        assert first.poll(0.0).records == ()
        assert second.poll(0.0).assigned == {A}
        assert len(second.poll(0.0).records) == 10


def test_a_member_that_missed_its_replacement_starts_over(path: Path) -> None:
    """Taken over, worked on and left again, all between two polls of the first."""
    with filled(path) as bus, EmbeddedBus(path) as other:
        first = bus.subscribe("group", ["a"])
        first.poll(0.0)
        first.poll(0.0, 2)
        second = other.subscribe("group", ["a"])
        second.poll(0.0)
        second.commit(Commit({A: 7}))
        second.close()
        with pytest.raises(Fenced):
            first.commit(Commit({A: 2}))
        polled = first.poll(0.0)
        assert polled.revoked == polled.assigned == {A}
        assert not polled.records
        assert [record.offset for record in first.poll(0.0).records] == [7, 8, 9]


def test_a_dead_member_needs_no_clearing_away(path: Path) -> None:
    filled(path).close()
    program = (
        "import os, sys; from pathlib import Path; from laggard.pipeline.core.bus.embedded import EmbeddedBus\n"
        "member = EmbeddedBus(Path(sys.argv[1])).subscribe('group', ['a']); member.poll(1.0); os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, path], check=False, timeout=120).returncode == -9
    with EmbeddedBus(path) as bus:
        member = bus.subscribe("group", ["a"])
        assert member.poll(0.0).assigned == {A}
        member.commit(Commit({A: 1}))


def test_a_poll_brings_a_few_megabytes_at_a_time(path: Path) -> None:
    with filled(path, 0) as bus:
        bus.append([Outgoing("a", "host-1", bytes(5 << 20), float(at)) for at in range(4)])
        member = bus.subscribe("group", ["a"])
        member.poll(0.0)
        assert [len(member.poll(0.0).records) for _ in range(5)] == [1, 1, 1, 1, 0]
        assert len(list(bus.read(A, 0))) == 4


def test_a_child_process_may_not_use_its_parents_bus(path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path\n"
        "from laggard.pipeline.core.bus import BusError, Partition\n"
        "from laggard.pipeline.core.bus.embedded import EmbeddedBus\n"
        "bus = EmbeddedBus(Path(sys.argv[1]))\n"
        "if os.fork() == 0:\n"
        "    try: bus.bounds(Partition('a', 0))\n"
        "    except BusError as error: os._exit(7 if 'fork' in str(error) else 1)\n"
        "    os._exit(0)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    filled(path).close()
    assert subprocess.run([sys.executable, "-c", program, path], check=False, timeout=120).returncode == 7


def test_a_day_of_records_is_searched_without_a_scan(path: Path) -> None:
    """The steps that SQLite takes, not the time: ten times the records must not be ten times the work."""
    with filled(path, 0) as bus:
        steps = []
        for start, end in ((0, 2_000), (2_000, 20_000)):
            bus.append([Outgoing("a", f"host-{at % 3}", b"", float(at)) for at in range(start, end)])
            counted: list[None] = []
            with bus.database.connection("count") as connection:
                connection.set_progress_handler(partial(counted.append, None), 10)
            assert bus.keys("a") == ["host-0", "host-1", "host-2"]
            assert bus.offset_at(A, end * 0.7) == int(end * 0.7)
            assert bus.bounds(A) == (0, end)
            assert len(list(bus.read(A, end - 10, key="host-1"))) in {3, 4}
            steps.append(len(counted))
        assert steps[1] < 2 * steps[0] < 1_000
