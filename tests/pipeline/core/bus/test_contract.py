"""The contract of every bus: no test knows which one it is.

Offsets grow but may have gaps, since a Kafka transaction uses one for its marker. Times are whole milliseconds, as
Kafka's are. Groups may take seconds to settle. The suite may find other suites' topics on the bus, so each test names
its own.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import (
    Bus,
    BusError,
    Commit,
    Fenced,
    Incoming,
    Outgoing,
    Partition,
    Polled,
    Refused,
    Snapshot,
    Subscription,
    TopicSpec,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SETTLED_S = 90.0
"""The longest time for which a group may assign partitions."""

NOW = 1_700_000_000.0


def new_topic(bus: Bus, partitions: int = 1, *, compacted: bool = False) -> str:
    name = f"contract-{uuid.uuid4().hex}"
    bus.create([TopicSpec(name, partitions, compacted=compacted)])
    return name


def numbered(topic: str, count: int, key: str = "host-1", start: int = 0) -> list[Outgoing]:
    return [Outgoing(topic, key, b"%d" % at, NOW + at) for at in range(start, start + count)]


def values(records: Sequence[Incoming]) -> list[bytes]:
    return [record.value for record in records]


def everything(bus: Bus, topic: str) -> list[Incoming]:
    return [record for partition in bus.partitions(topic) for record in bus.read(partition, 0)]


def await_assignment(member: Subscription) -> frozenset[Partition]:
    deadline = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        polled = member.poll(1.0)
        assert not polled.records
        if polled.assigned:
            return polled.assigned
    raise AssertionError("nothing was assigned")


def take(member: Subscription, count: int, max_records: int = 500) -> list[Incoming]:
    """Polls until a number of records came."""
    records: list[Incoming] = []
    deadline = time.monotonic() + SETTLED_S
    while len(records) < count and time.monotonic() < deadline:
        polled = member.poll(1.0, max_records)
        assert len(polled.records) <= max_records
        records += polled.records
    assert len(records) == count
    return records


# Topics and records.


def test_an_empty_partition_has_no_records_keys_or_times(bus: Bus) -> None:
    topic = new_topic(bus)
    (partition,) = bus.partitions(topic)
    bus.append([])
    oldest, end = bus.bounds(partition)
    assert oldest == end
    assert list(bus.read(partition, 0)) == []
    assert bus.keys(topic) == []
    assert bus.offset_at(partition, NOW) == end
    assert bus.committed("nobody", partition) == 0
    assert bus.snapshots("operator", partition) == []


def test_creating_again_changes_nothing(bus: Bus, attach: Callable[[], Bus]) -> None:
    topic = new_topic(bus, 3)
    bus.append(numbered(topic, 4))
    other = attach()
    other.create([TopicSpec(topic, 5), TopicSpec(topic, 1)])
    assert [partition.number for partition in other.partitions(topic)] == [0, 1, 2]
    assert values(everything(other, topic)) == [b"0", b"1", b"2", b"3"]


def test_what_is_not_there_is_named(bus: Bus) -> None:
    missing = f"missing-{uuid.uuid4().hex}"
    topic = new_topic(bus)
    nowhere = Partition(topic, 1)
    for ask in (
        lambda: bus.partitions(missing),
        lambda: bus.partition_of(missing, "host-1"),
        lambda: bus.append(numbered(missing, 1)),
        lambda: bus.keys(missing),
        lambda: bus.subscribe("group", [topic, missing]),
    ):
        with pytest.raises(BusError, match=missing):
            ask()
    for ask_partition in (
        lambda: bus.bounds(nowhere),
        lambda: bus.offset_at(nowhere, NOW),
        lambda: list(bus.read(nowhere, 0)),
        lambda: bus.snapshots("operator", nowhere),
        lambda: bus.committed("group", nowhere),
    ):
        with pytest.raises(BusError, match=topic):
            ask_partition()


@pytest.mark.parametrize(
    "value",
    [b"", b"\0", b"x" * 511, b"x" * 512, bytes(range(256)) * 1000, b"\0" * 3_000_000],
    ids=lambda v: str(len(v)),
)
def test_a_record_comes_back_bit_for_bit(bus: Bus, attach: Callable[[], Bus], value: bytes) -> None:
    topic = new_topic(bus)
    headers = (("content-type", b"application/json"), ("content-type", b"\xff\0"), ("", b""))
    bus.append([Outgoing(topic, "Höst/😀 1", value, NOW + 0.125, headers)])
    (record,) = everything(attach(), topic)
    assert record == Incoming(Partition(topic, 0), record.offset, "Höst/😀 1", value, NOW + 0.125, headers)
    assert bus.keys(topic) == ["Höst/😀 1"]


def test_offsets_grow_and_bounds_enclose_them(bus: Bus) -> None:
    topic = new_topic(bus)
    (partition,) = bus.partitions(topic)
    for at in range(3):
        bus.append(numbered(topic, 10, start=10 * at))
    records = list(bus.read(partition, 0))
    assert values(records) == [b"%d" % at for at in range(30)]
    offsets = [record.offset for record in records]
    assert all(before < after for before, after in itertools.pairwise(offsets))
    oldest, end = bus.bounds(partition)
    assert oldest <= offsets[0]
    assert end > offsets[-1]


def test_a_key_is_in_one_partition_and_in_order(bus: Bus) -> None:
    topic = new_topic(bus, 4)
    hosts = [f"host-{number}" for number in range(40)]
    bus.append([Outgoing(topic, host, b"%d" % at, NOW + at) for at in range(5) for host in hosts])
    for host in hosts:
        partition = bus.partition_of(topic, host)
        assert values(list(bus.read(partition, 0, key=host))) == [b"0", b"1", b"2", b"3", b"4"]
    assert {bus.partition_of(topic, host).number for host in hosts} == {0, 1, 2, 3}
    assert {(record.key, record.partition) for record in everything(bus, topic)} == {
        (host, bus.partition_of(topic, host)) for host in hosts
    }
    assert bus.keys(topic) == sorted(hosts)


def test_read_takes_from_start_to_stop_and_one_key(bus: Bus) -> None:
    topic = new_topic(bus)
    (partition,) = bus.partitions(topic)
    bus.append([Outgoing(topic, "even" if at % 2 == 0 else "odd", b"%d" % at, NOW + at) for at in range(10)])
    at = [record.offset for record in bus.read(partition, 0)]
    assert values(list(bus.read(partition, at[3], at[6]))) == [b"3", b"4", b"5"]
    assert values(list(bus.read(partition, at[3], at[8], "odd"))) == [b"3", b"5", b"7"]
    assert values(list(bus.read(partition, at[9]))) == [b"9"]
    assert list(bus.read(partition, at[3], at[3])) == []
    assert list(bus.read(partition, at[6], at[3])) == []
    assert list(bus.read(partition, at[9] + 1)) == []
    assert list(bus.read(partition, at[9] + 1000, at[9] + 2000)) == []
    assert len(list(bus.read(partition, 0, at[9] + 1000))) == 10
    assert list(bus.read(partition, 0, key="neither")) == []


def test_read_ends_where_the_end_was(bus: Bus) -> None:
    topic = new_topic(bus)
    bus.append(numbered(topic, 3))
    records = bus.read(Partition(topic, 0), 0)
    bus.append(numbered(topic, 3, start=3))
    assert values(list(records)) == [b"0", b"1", b"2"]


def test_offset_at_finds_the_first_of_that_time_or_later(bus: Bus) -> None:
    topic = new_topic(bus)
    (partition,) = bus.partitions(topic)
    times = [10.0, 11.0, 11.0, 15.0, 12.0, 13.0, 20.0, 14.0]  # of several producers: slightly out of order
    bus.append([Outgoing(topic, f"host-{at % 3}", b"", NOW + ts) for at, ts in enumerate(times)])
    offsets = [record.offset for record in bus.read(partition, 0)]
    _, end = bus.bounds(partition)
    for asked in [0.0, 9.999, 10.0, 10.001, 11.0, 11.5, 12.0, 14.0, 15.0, 15.5, 20.0]:
        first = next(at for at, ts in enumerate(times) if ts >= asked)
        # A bus may count the room before a record to it.
        assert values(list(bus.read(partition, bus.offset_at(partition, NOW + asked), offsets[first]))) == []
        assert bus.offset_at(partition, NOW + asked) <= offsets[first]
    assert bus.offset_at(partition, NOW + 20.001) == end


def test_an_append_with_one_bad_record_appends_nothing(bus: Bus) -> None:
    topic = new_topic(bus)
    with pytest.raises(BusError):
        bus.append([*numbered(topic, 3), *numbered(f"missing-{uuid.uuid4().hex}", 1)])
    with pytest.raises(Refused, match="finite"):
        bus.append([*numbered(topic, 3), Outgoing(topic, "host-1", b"", float("nan"))])
    with pytest.raises(Refused, match="key"):
        bus.append([*numbered(topic, 3), Outgoing(topic, "\ud800", b"", NOW)])
    assert everything(bus, topic) == []


def test_a_compacted_topic_keeps_the_newest_of_each_key(bus: Bus) -> None:
    topic = new_topic(bus, compacted=True)
    for at in range(5):
        bus.append([Outgoing(topic, key, b"%d" % at, NOW + at) for key in ("a", "b", "a")])
    bus.append([Outgoing(topic, "c", b"first", NOW)])
    newest = {record.key: record.value for record in everything(bus, topic)}
    assert newest == {"a": b"4", "b": b"4", "c": b"first"}
    assert bus.keys(topic) == ["a", "b", "c"]


def test_threads_append_at_once(bus: Bus) -> None:
    topic = new_topic(bus, 2)

    def produce(host: str) -> None:
        for at in range(20):
            bus.append([Outgoing(topic, host, b"%d" % at, NOW + at)])

    hosts = [f"host-{number}" for number in range(4)]
    threads = [threading.Thread(target=produce, args=(host,)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for host in hosts:
        found = list(bus.read(bus.partition_of(topic, host), 0, key=host))
        assert values(found) == [b"%d" % at for at in range(20)]


# Groups.


def test_a_new_group_reads_from_the_beginning(bus: Bus) -> None:
    topic = new_topic(bus)
    bus.append(numbered(topic, 25))
    member = bus.subscribe(f"group-{topic}", [topic])
    assert await_assignment(member) == {Partition(topic, 0)}
    assert member.joined
    assert member.committed(Partition(topic, 0)) == 0
    assert values(take(member, 25, max_records=10)) == [b"%d" % at for at in range(25)]
    assert member.poll(0.0) == Polled()
    member.close()


def test_a_poll_waits_for_a_record_and_not_longer(bus: Bus, attach: Callable[[], Bus]) -> None:
    topic = new_topic(bus)
    member = bus.subscribe(f"group-{topic}", [topic])
    await_assignment(member)
    begun = time.monotonic()
    assert not member.poll(0.2).records
    assert 0.15 < time.monotonic() - begun < 60.0
    timer = threading.Timer(0.2, attach().append, [numbered(topic, 1)])
    timer.start()
    begun = time.monotonic()
    while not (records := member.poll(60.0).records):
        pass
    assert values(records) == [b"0"]
    assert time.monotonic() - begun < 30.0
    timer.join()
    member.close()


def test_seek_moves_only_this_member(bus: Bus) -> None:
    topic = new_topic(bus)
    bus.append(numbered(topic, 6))
    (partition,) = bus.partitions(topic)
    at = [record.offset for record in bus.read(partition, 0)]
    member = bus.subscribe(f"group-{topic}", [topic])
    with pytest.raises(BusError, match="assigned"):
        member.seek(partition, 0)
    await_assignment(member)
    member.seek(partition, at[4])
    assert values(take(member, 2)) == [b"4", b"5"]
    member.seek(partition, at[1])
    assert values(take(member, 5)) == [b"1", b"2", b"3", b"4", b"5"]
    member.seek(partition, 0)
    assert len(take(member, 6)) == 6
    assert bus.committed(f"group-{topic}", partition) == 0
    member.close()


def test_a_paused_partition_brings_nothing_and_goes_on_where_it_was(bus: Bus) -> None:
    topic = new_topic(bus, 2)
    keys = {bus.partition_of(topic, key): key for key in ("a", "b", "c", "d", "e", "f")}
    paused, other = sorted(keys)
    member = bus.subscribe(f"group-{topic}", [topic])
    with pytest.raises(BusError, match="assigned"):
        member.pause(paused)
    with pytest.raises(BusError, match="assigned"):
        member.resume(paused)
    assert await_assignment(member) == {paused, other}
    member.pause(paused)
    bus.append(numbered(topic, 3, keys[paused]) + numbered(topic, 3, keys[other]))
    assert values(take(member, 3)) == [b"0", b"1", b"2"]
    assert not member.poll(0.3).records
    bus.append(numbered(topic, 1, keys[other], start=3))
    assert values(take(member, 1)) == [b"3"]
    member.resume(paused)
    first, second, _ = take(member, 3)
    assert first.value == b"0"
    member.pause(paused)
    member.seek(paused, second.offset)
    assert not member.poll(0.3).records
    member.resume(paused)
    assert values(take(member, 2)) == [b"1", b"2"]
    member.close()


def test_a_commit_moves_offsets_outputs_and_snapshots_together(bus: Bus, attach: Callable[[], Bus]) -> None:
    topic, results = new_topic(bus), new_topic(bus)
    (partition,) = bus.partitions(topic)
    group = f"group-{topic}"
    bus.append(numbered(topic, 10))
    member = bus.subscribe(group, [topic])
    await_assignment(member)
    read = take(member, 4, max_records=4)
    position = read[-1].offset + 1
    snapshot = Snapshot("operator", partition, "host-1", position, NOW + 3, b"state" * 1000)
    member.commit(Commit({partition: position}, [Outgoing(results, "host-1", b"out", NOW)], [snapshot]))

    other = attach()
    assert other.committed(group, partition) == member.committed(partition) == position
    assert values(everything(other, results)) == [b"out"]
    assert list(other.snapshots("operator", partition)) == [snapshot]
    assert list(other.snapshots("another", partition)) == []
    member.close()

    successor = other.subscribe(group, [topic])
    await_assignment(successor)
    assert values(take(successor, 6)) == [b"%d" % at for at in range(4, 10)]
    successor.close()


def test_a_commit_with_one_bad_output_commits_nothing(bus: Bus) -> None:
    topic, results = new_topic(bus), new_topic(bus)
    (partition,) = bus.partitions(topic)
    bus.append(numbered(topic, 3))
    member = bus.subscribe(f"group-{topic}", [topic])
    await_assignment(member)
    position = take(member, 3)[-1].offset + 1
    snapshot = Snapshot("operator", partition, "host-1", position, NOW, b"state")
    good = Outgoing(results, "host-1", b"out", NOW)
    with pytest.raises(BusError, match="missing"):
        member.commit(Commit({partition: position}, [good, *numbered("missing", 1)], [snapshot]))
    assert member.committed(partition) == 0
    assert everything(bus, results) == []
    assert list(bus.snapshots("operator", partition)) == []
    member.commit(Commit({partition: position}, [good], [snapshot]))
    assert values(everything(bus, results)) == [b"out"]
    member.close()


def test_a_commit_may_be_of_offsets_alone_and_groups_do_not_disturb_each_other(bus: Bus) -> None:
    topic = new_topic(bus)
    (partition,) = bus.partitions(topic)
    bus.append(numbered(topic, 5))
    members = [bus.subscribe(f"group-{number}-{topic}", [topic]) for number in range(2)]
    for member in members:
        await_assignment(member)
    first = take(members[0], 5)
    members[0].commit(Commit({partition: first[2].offset}))
    assert members[0].committed(partition) == first[2].offset
    assert values(take(members[1], 5)) == values(first)
    assert members[1].committed(partition) == 0
    for member in members:
        member.close()


def test_a_member_reads_all_partitions_of_all_its_topics(bus: Bus) -> None:
    topics = [new_topic(bus, 3), new_topic(bus)]
    records = [Outgoing(topic, f"host-{at}", b"%d" % at, NOW + at) for at in range(30) for topic in topics]
    bus.append(records)
    member = bus.subscribe(f"group-{topics[0]}", topics)
    assigned: set[Partition] = set()
    while len(assigned) < 4:
        assigned |= await_assignment(member)
    assert assigned == {partition for topic in topics for partition in bus.partitions(topic)}
    taken = take(member, 60, max_records=7)
    assert {(record.partition.topic, record.key) for record in taken} == {(r.topic, r.key) for r in records}
    for partition in assigned:
        offsets = [record.offset for record in taken if record.partition == partition]
        assert offsets == sorted(set(offsets))
    member.commit(Commit({record.partition: record.offset + 1 for record in taken}))
    member.close()


def settle(members: Sequence[Subscription], partition: Partition, held: dict[Subscription, bool]) -> Subscription:
    """Polls all members until exactly one of them has the partition, for three rounds."""
    rounds = 0
    deadline = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        news = False
        for member in members:
            polled = member.poll(0.05)
            if partition in polled.revoked:
                assert held[member]
                held[member] = False
                news = True
            if partition in polled.assigned:
                assert not held[member]
                held[member] = news = True
        holders = [member for member in members if held[member]]
        rounds = 0 if news or len(holders) != 1 else rounds + 1
        if rounds == 3:
            return holders[0]
    raise AssertionError("the group did not settle")


def test_one_member_has_a_partition_and_the_other_is_fenced(bus: Bus, attach: Callable[[], Bus]) -> None:
    topic, results = new_topic(bus), new_topic(bus)
    (partition,) = bus.partitions(topic)
    group = f"group-{topic}"
    bus.append(numbered(topic, 4))
    positions = [record.offset for record in bus.read(partition, 0)]
    members = [bus.subscribe(group, [topic])]
    held = {members[0]: False}
    settle(members, partition, held)
    members.append(attach().subscribe(group, [topic]))
    held[members[1]] = False
    holder = settle(members, partition, held)
    (other,) = set(members) - {holder}

    snapshot = Snapshot("operator", partition, "host-1", positions[2], NOW, b"state")
    with pytest.raises(Fenced):
        other.commit(Commit({partition: positions[2]}, [Outgoing(results, "host-1", b"void", NOW)], [snapshot]))
    assert bus.committed(group, partition) == 0
    assert everything(bus, results) == []
    assert list(bus.snapshots("operator", partition)) == []

    holder.commit(Commit({partition: positions[1]}, [Outgoing(results, "host-1", b"out", NOW)]))
    assert bus.committed(group, partition) == positions[1]
    holder.close()
    assert settle([other], partition, held) is other
    other.seek(partition, other.committed(partition))  # settling may have polled records
    assert values(take(other, 3)) == [b"1", b"2", b"3"]
    other.commit(Commit({partition: positions[3]}, [Outgoing(results, "host-1", b"out too", NOW)]))
    assert values(everything(bus, results)) == [b"out", b"out too"]
    other.close()


def test_a_member_that_left_neither_polls_nor_commits(bus: Bus) -> None:
    topic = new_topic(bus)
    (partition,) = bus.partitions(topic)
    bus.append(numbered(topic, 1))
    member = bus.subscribe(f"group-{topic}", [topic])
    await_assignment(member)
    take(member, 1)
    member.close()
    member.close()
    with pytest.raises(BusError):
        member.poll(0.0)
    with pytest.raises(BusError):
        member.commit(Commit({partition: 1}))
    assert bus.committed(f"group-{topic}", partition) == 0


# Snapshots.


def test_the_newest_snapshot_of_each_key_is_kept(bus: Bus) -> None:
    topic = new_topic(bus)
    (partition,) = bus.partitions(topic)
    bus.append(numbered(topic, 20))
    at = [record.offset for record in bus.read(partition, 0)]
    member = bus.subscribe(f"group-{topic}", [topic])
    await_assignment(member)
    taken = [
        Snapshot("operator", partition, key, at[position], NOW + position, f"{key}{position}".encode() * 300)
        for position in (5, 10, 15)
        for key in ("a", "b")
        if (key, position) != ("b", 15)
    ]
    for snapshot in taken:
        member.commit(Commit({partition: snapshot.offset}, (), [snapshot]))
    replaced = Snapshot("operator", partition, "a", at[15], NOW + 15, b"again")
    member.commit(Commit({}, (), [replaced]))
    assert sorted(bus.snapshots("operator", partition), key=lambda s: s.key) == [replaced, taken[3]]
    assert bus.snapshot_offsets("operator", partition) == {"a": replaced.offset, "b": taken[3].offset}
    for bound, expected in ((at[5], taken[:2]), (at[10] + 1, taken[2:4]), (at[15], [replaced, taken[3]])):
        found = sorted(bus.snapshots("operator", partition, bound), key=lambda s: s.key)
        # The past may be gone, but is never another.
        assert all(snapshot in expected for snapshot in found)
    assert list(bus.snapshots("operator", partition, at[5] - 1)) == []
    member.close()


# Beginning anew.


def test_a_group_that_is_reset_begins_where_it_was_told_without_its_snapshots(
    bus: Bus, attach: Callable[[], Bus]
) -> None:
    topic = new_topic(bus, 2)
    group = f"group-{topic}"
    bus.append([record for key in "abcdefgh" for record in numbered(topic, 4, key)])
    partitions = bus.partitions(topic)
    ends = {partition: bus.bounds(partition)[1] for partition in partitions}
    member = bus.subscribe(group, [topic])
    assigned: set[Partition] = set()
    while assigned != set(partitions):
        assigned |= await_assignment(member)
    large = b"large" * 300_000
    snapshots = [
        Snapshot("operator", partition, key, ends[partition], NOW, value)
        for partition in partitions
        for key, value in (("a/b#1", large), ("b", b"small"))
    ]
    member.commit(Commit(ends, (), snapshots))
    member.close()

    first, second = partitions
    again = bus.bounds(first)[0] + 1
    other = attach()
    other.reset(group, ["operator", "missing"], {first: again})
    for seen in (bus, other):
        assert seen.committed(group, first) == again
        assert seen.committed(group, second) == ends[second]
        assert list(seen.snapshots("operator", first)) == []
        assert seen.snapshot_offsets("operator", first) == {}
        assert len(seen.snapshots("operator", second)) == 2

    # A known snapshot may replace them.
    known = Snapshot("operator", first, "b", again, NOW, b"known")
    other.reset(group, ["operator"], {first: again}, [known])
    for seen in (bus, other):
        assert list(seen.snapshots("operator", first)) == [known]
        assert seen.committed(group, first) == again

    # A new snapshot is kept as if there had been none, also at an earlier position.
    member = bus.subscribe(group, [topic])
    assigned = set()
    while assigned != set(partitions):
        assigned |= await_assignment(member)
    assert {record.offset for record in take(member, ends[first] - again)} == set(range(again, ends[first]))
    learned = Snapshot("operator", first, "b", again + 1, NOW, b"anew")
    member.commit(Commit({first: again + 1}, (), [learned]))
    member.close()
    assert list(bus.snapshots("operator", first)) == [learned]
