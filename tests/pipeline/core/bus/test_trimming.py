"""The embedded bus stays within its bounds, and what must stay stays."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import BusError, BusUnavailable, Commit, Outgoing, Partition, Snapshot, TopicSpec
from laggard.pipeline.core.bus.embedded import MIN_BYTES, EmbeddedBus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

A, B = Partition("a", 0), Partition("b", 0)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bus(tmp_path: Path, clock: Clock) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path / "bus.db", MIN_BYTES, 3600.0, clock) as bus:
        bus.create([TopicSpec("a"), TopicSpec("b", retention_s=60.0), TopicSpec("newest", compacted=True)])
        yield bus


def size(bus: EmbeddedBus) -> int:
    return sum(path.stat().st_size for path in bus.path.parent.iterdir())


def noise(count: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(count)


def check(bus: EmbeddedBus) -> None:
    with closing(sqlite3.connect(bus.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [(10,), (300, 700), (4_000, 9_000), (0, 50_000), (100_000,)], ids=str)
def test_the_files_stay_within_the_bound(bus: EmbeddedBus, clock: Clock, lengths: tuple[int, ...]) -> None:
    draw = random.Random(1)
    appended = 0
    while appended < 2 * MIN_BYTES:
        batch = [
            Outgoing(draw.choice("aab"), f"host-{draw.randrange(5)}", noise(draw.choice(lengths), at), float(at))
            for at in range(draw.choice([1, 1, 1, 400 if max(lengths) < 1000 else 5 if max(lengths) < 10_000 else 2]))
        ]
        appended += sum(len(record.value) + 50 for record in batch)
        bus.append(batch)
        clock.now += 0.01
        assert size(bus) <= MIN_BYTES
    for partition in (A, B):
        oldest, end = bus.bounds(partition)
        assert 0 < oldest <= end
        assert oldest < end or partition == B, "its retention is shorter, so it loses more"
        offsets = [record.offset for record in bus.read(partition, 0)]
        assert offsets == list(range(oldest, end))
    check(bus)


def test_the_room_is_used(bus: EmbeddedBus) -> None:
    for at in range(120):
        bus.append([Outgoing("a", "host-1", noise(10_000, at), float(at))])
    oldest, end = bus.bounds(A)
    assert end == 120
    assert (end - oldest) * 10_000 > 0.6 * MIN_BYTES


@pytest.mark.parametrize(("retention_s", "share"), [(None, 1.0), (3600.0, 1.0), (7200.0, 2.0), (1800.0, 0.5)])
def test_topics_lose_the_same_share_of_their_retention(
    bus: EmbeddedBus, clock: Clock, retention_s: float | None, share: float
) -> None:
    """One topic is fast, one is slow: the records that are left of both reach back as far, by their retention."""
    slow = Partition("slow", 0)
    bus.create([TopicSpec("slow", retention_s=retention_s)])
    for at in range(1_000):
        bus.append([Outgoing("a", "host-1", noise(4_000, at), float(at))])
        if at % 20 == 0:
            bus.append([Outgoing("newest", "host-1", b"%d" % at, float(at))])
            bus.append([Outgoing("slow", "host-1", b"rare", float(at))])
        clock.now += 1.0
    age, slow_age = (1_000 - next(bus.read(partition, 0)).ts for partition in (A, slow))
    assert age < 400
    assert age * share - 20 <= slow_age <= age * share + 20
    assert [record.value for record in bus.read(Partition("newest", 0), 0)] == [b"980"]


def test_offsets_go_on_when_everything_expired(bus: EmbeddedBus, clock: Clock) -> None:
    for at in range(10):
        bus.append([Outgoing("a", f"host-{at}", b"", float(at))])
    clock.now += 3601.0
    bus.append([Outgoing("a", "host-new", b"new", 100.0)])
    assert bus.bounds(A) == (10, 11)
    assert bus.keys("a") == ["host-new"]
    clock.now += 3601.0
    bus.append([Outgoing("b", "host-1", b"", 100.0)])
    assert bus.bounds(A) == (11, 11)
    assert bus.keys("a") == []
    assert list(bus.read(A, 0)) == []
    assert bus.offset_at(A, 0.0) == 11
    bus.append([Outgoing("a", "host-new", b"newer", 100.0)])
    assert [(record.offset, record.value) for record in bus.read(A, 0)] == [(11, b"newer")]


def test_a_topic_may_keep_more_than_the_bus(bus: EmbeddedBus, clock: Clock) -> None:
    bus.create([TopicSpec("long", retention_s=86400.0)])
    bus.append([Outgoing(topic, "host-1", b"", 0.0) for topic in ("a", "long")])
    clock.now += 3601.0
    bus.append([Outgoing("a", "host-1", b"", 0.0)])
    assert bus.bounds(A) == (1, 2)
    assert bus.bounds(Partition("long", 0)) == (0, 1)
    clock.now += 82_800.0
    bus.append([Outgoing("a", "host-1", b"", 0.0)])
    assert bus.bounds(Partition("long", 0)) == (1, 1)


def test_a_topic_may_keep_less_than_the_bus(bus: EmbeddedBus, clock: Clock) -> None:
    bus.append([Outgoing("a", "host-1", b"", 0.0), Outgoing("b", "host-1", b"", 0.0)])
    clock.now += 61.0
    bus.append([Outgoing("a", "host-1", b"", 0.0)])
    assert bus.bounds(A) == (0, 2)
    assert bus.bounds(B) == (1, 1)


def test_many_expired_records_are_deleted_gradually(bus: EmbeddedBus, clock: Clock) -> None:
    bus.append([Outgoing("a", "host-1", b"", 0.0)] * 1_500)
    clock.now += 3601.0
    for at in range(10):
        bus.append([Outgoing("a", "host-1", b"", 1.0)])
        oldest, _ = bus.bounds(A)
        assert oldest <= (at + 1) * 256
    assert bus.bounds(A) == (1_500, 1_510)


def test_a_clock_that_steps_forward_and_back_does_not_stop_retention(bus: EmbeddedBus, clock: Clock) -> None:
    clock.now += 1e6
    bus.append([Outgoing("a", "host-1", b"from the future", 0.0)])
    clock.now -= 1e6
    bus.append([Outgoing("a", "host-1", b"", 0.0)])
    clock.now += 3601.0
    bus.append([Outgoing("a", "host-1", b"", 0.0)])
    assert bus.bounds(A) == (2, 3)


def test_a_reader_that_was_overtaken_goes_on_with_the_oldest(bus: EmbeddedBus, clock: Clock) -> None:
    bus.append([Outgoing("a", "host-1", b"%d" % at, 0.0) for at in range(5)])
    member = bus.subscribe("group", ["a"])
    member.poll(1.0)
    records = bus.read(A, 0)
    clock.now += 3601.0
    bus.append([Outgoing("a", "host-1", b"new", 0.0)])
    (record,) = member.poll(1.0).records
    assert (record.offset, record.value) == (5, b"new")
    assert bus.bounds(A)[0] > member.committed(A)
    assert list(records) == []
    member.seek(A, 0)
    assert [record.offset for record in member.poll(1.0).records] == [5]


def snapshot(key: str, offset: int, value: bytes = b"") -> Snapshot:
    return Snapshot("operator", A, key, offset, float(offset), value)


def test_superseded_snapshots_expire_and_the_newest_stay(bus: EmbeddedBus, clock: Clock) -> None:
    member = bus.subscribe("group", ["a"])
    member.commit(Commit({}, (), [snapshot("gone", 1), snapshot("alive", 1)]))
    clock.now += 60.0
    member.commit(Commit({}, (), [snapshot("alive", 2)]))
    assert bus.snapshots("operator", A, 1) == [snapshot("alive", 1), snapshot("gone", 1)]
    clock.now += 3590.0
    member.commit(Commit({}, (), [snapshot("alive", 3)]))
    assert bus.snapshots("operator", A, 1) == [snapshot("gone", 1)]
    assert bus.snapshots("operator", A, 2) == [snapshot("alive", 2), snapshot("gone", 1)]
    clock.now += 1e6
    member.commit(Commit({A: 0}))
    assert bus.snapshots("operator", A, 2) == [snapshot("gone", 1)]
    assert bus.snapshots("operator", A) == [snapshot("alive", 3), snapshot("gone", 1)]


def test_superseded_snapshots_make_room_in_their_turn(bus: EmbeddedBus, clock: Clock) -> None:
    member = bus.subscribe("group", ["a"])
    for at in range(300):
        clock.now += 1.0
        bus.append([Outgoing("a", "host-1", noise(5_000, at), float(at))])
        if at % 10 == 0:
            member.commit(Commit({A: at}, (), [snapshot("host-1", at, noise(10_000, at))]))
            assert size(bus) <= MIN_BYTES
    oldest, _ = bus.bounds(A)
    assert oldest > 50
    assert bus.snapshots("operator", A, oldest - 20) == []
    assert bus.snapshots("operator", A, oldest + 20) != []
    assert bus.snapshots("operator", A) == [snapshot("host-1", 290, noise(10_000, 290))]
    assert member.committed(A) == 290


def test_a_bus_full_of_what_must_stay_says_so_and_goes_on_when_it_is_replaced(bus: EmbeddedBus) -> None:
    with pytest.raises(BusUnavailable, match=r"bound of 1048576 bytes .* raise the bound"):  # noqa: PT012 - any of them
        for at in range(1_000):
            bus.append([Outgoing("newest", f"host-{at}", noise(5_000, at), 0.0)])
    assert size(bus) <= MIN_BYTES
    keys = bus.keys("newest")
    assert len(keys) > 100
    check(bus)
    for key in keys:
        bus.append([Outgoing("newest", key, b"small", 0.0)])
    assert {record.value for record in bus.read(Partition("newest", 0), 0)} == {b"small"}
    bus.append([Outgoing("newest", "host-new", noise(5_000), 0.0)])


def test_too_much_at_once_is_refused_and_leaves_everything(bus: EmbeddedBus) -> None:
    bus.append([Outgoing("a", "host-1", b"kept", 0.0)])
    with pytest.raises(BusError, match="at once"):
        bus.append([Outgoing("a", "host-1", noise(MIN_BYTES), 0.0)])
    assert [record.value for record in bus.read(A, 0)] == [b"kept"]


def test_a_lowered_bound_is_met_gradually(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    with EmbeddedBus(path, 8 * MIN_BYTES) as bus:
        bus.create([TopicSpec("a")])
        for at in range(120):
            bus.append([Outgoing("a", "host-1", noise(50_000, at), float(at))])
        assert path.stat().st_size > 5 * MIN_BYTES
    with EmbeddedBus(path, 2 * MIN_BYTES) as bus:
        for at in range(20):
            bus.append([Outgoing("a", "host-1", noise(1_000, at), 200.0 + at)])
        assert size(bus) <= 2 * MIN_BYTES
        assert [record.ts for record in bus.read(A, 130)] == [200.0 + at for at in range(10, 20)]
        check(bus)


def test_a_foreign_reader_that_never_ends_cannot_fill_the_disk(bus: EmbeddedBus) -> None:
    bus.append([Outgoing("a", "host-1", b"", 0.0)])
    with closing(sqlite3.connect(bus.path, isolation_level=None)) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("SELECT * FROM records").fetchone()
        with pytest.raises(BusUnavailable, match="old view"):  # noqa: PT012 - which of them, is not the point
            for at in range(100):
                bus.append([Outgoing("a", "host-1", noise(50_000, at), 0.0)])
        assert size(bus) <= 2 * MIN_BYTES
    bus.append([Outgoing("a", "host-1", b"goes on", 0.0)])
    bus.append([Outgoing("a", "host-1", b"goes on", 0.0)])
    assert size(bus) <= MIN_BYTES


def test_a_bound_below_the_least_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BusError, match="at least 1048576 bytes"):
        EmbeddedBus(tmp_path / "bus.db", MIN_BYTES - 1)
