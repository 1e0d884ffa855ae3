"""Records that laggard did not write, that are too large, or that a disk has damaged."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from laggard.pipeline.core.bus import (
    BusError,
    BusUnavailable,
    Commit,
    DamagedRecord,
    Fenced,
    Incoming,
    Outgoing,
    Partition,
    Refused,
    Snapshot,
    TopicSpec,
)
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.snapshots import CHUNK_BYTES, records
from laggard.pipeline.core.bus.kafka.wire import MAX_RECORD_BYTES
from tests.pipeline.core.bus.kafka_buses import CLIENTS, kafka_options, prepare
from tests.pipeline.core.bus.test_contract import NOW, await_assignment, everything, take

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.bus.kafka.options import KafkaOptions
    from tests.brokers import Cluster

pytestmark = pytest.mark.slow


@pytest.fixture(params=CLIENTS)
def options(request: pytest.FixtureRequest, broker: Cluster) -> KafkaOptions:
    options = kafka_options(broker, request.param)
    prepare(options, input=1)
    return options


@pytest.fixture
def bus(options: KafkaOptions) -> Iterator[KafkaBus]:
    with KafkaBus(options) as bus:
        yield bus


def test_other_clients_records_are_read_and_written_back(bus: KafkaBus, options: KafkaOptions) -> None:
    topic = f"{options.prefix}input"
    partition = Partition(topic, 0)
    foreign: list[tuple[bytes | None, bytes | None]] = [
        (None, b"no key"),
        (b"\xff\xfeh\xc3\xb6st", b"no text"),
        (b"a", None),
    ]
    with KafkaProducer(bootstrap_servers=list(options.bootstrap), compression_type="gzip") as producer:
        for key, value in foreign:
            producer.send(topic, value, key, timestamp_ms=5)
        producer.send(topic, b"", b"", timestamp_ms=5)
        producer.flush()
    expected = [
        Incoming(partition, 0, "", b"no key", 0.005),
        Incoming(partition, 1, "\udcff\udcfehöst", b"no text", 0.005),
        Incoming(partition, 2, "a", b"", 0.005),
        Incoming(partition, 3, "", b"", 0.005),
    ]
    assert everything(bus, topic) == expected
    assert bus.keys(topic) == ["", "a", "\udcff\udcfehöst"]
    member = bus.subscribe(f"{options.prefix}group", [topic])
    await_assignment(member)
    assert take(member, 4) == expected
    # A dead letter goes out under the key that came in.
    member.commit(Commit({partition: 4}, [Outgoing(topic, expected[1].key, b"back", NOW)]))
    (back,) = list(bus.read(partition, 4))
    assert back.key == expected[1].key
    member.close()


def test_an_unreadable_record_is_reported_once_and_skipped(
    bus: KafkaBus, options: KafkaOptions, broker: Cluster
) -> None:
    topic = f"{options.prefix}input"
    partition = Partition(topic, 0)
    for value in (b"before", b"to be damaged", b"after"):
        bus.append([Outgoing(topic, "a", value, NOW)])
    (log,) = (broker.nodes[0].folder / "data" / f"{topic}-0").glob("*.log")
    whole = log.read_bytes()
    assert whole.count(b"to be damaged") == 1
    with log.open("r+b") as file:
        file.seek(whole.index(b"to be damaged"))
        file.write(b"x")
    found: list[object] = []
    position = 0
    while position < 3:
        try:
            for record in bus.read(partition, position):
                found.append(record.value)
                position = record.offset + 1
        except DamagedRecord as damaged:
            found.append((damaged.partition, damaged.offset))
            position = damaged.offset + 1
    assert found == [b"before", (partition, 1), b"after"]
    member = bus.subscribe(f"{options.prefix}group", [topic])
    await_assignment(member)
    found = []
    deadline = time.monotonic() + 120
    while len(found) < 3 and time.monotonic() < deadline:
        try:
            found += [record.value for record in member.poll(0.5).records]
        except DamagedRecord as damaged:
            found.append((damaged.partition, damaged.offset))
        time.sleep(0.3)  # long enough for a client that fetches ahead to find the same damage several times
    assert found == [b"before", (partition, 1), b"after"]
    member.close()


def test_a_header_whose_name_is_no_text_is_damage(bus: KafkaBus, options: KafkaOptions) -> None:
    topic = f"{options.prefix}input"
    partition = Partition(topic, 0)
    member = bus.subscribe(f"{options.prefix}group", [topic])
    await_assignment(member)
    with KafkaProducer(bootstrap_servers=list(options.bootstrap), linger_ms=30_000) as producer:
        for value, headers in ((b"before", []), (b"bad", [(NoText("name"), b"")]), (b"after", [("name", b"")])):
            producer.send(topic, value, b"a", headers)
        producer.flush()  # in one batch
    found: list[object] = []
    deadline = time.monotonic() + 120
    while len(found) < 3 and time.monotonic() < deadline:
        try:
            found += [record.value for record in member.poll(0.5).records]
        except DamagedRecord as damaged:
            found.append((damaged.partition, damaged.offset))
    # kafka-python can read nothing of a batch beyond what it cannot parse.
    assert found == [b"before", (partition, 1), b"after" if options.client == "librdkafka" else (partition, 2)]
    with pytest.raises(DamagedRecord, match=r"\[0\]@1 is damaged: .*utf-8"):
        list(bus.read(partition, 0))
    bus.append([Outgoing(topic, "a", b"another batch", NOW)])
    assert [record.value for record in take(member, 1)] == [b"another batch"]
    assert [record.value for record in bus.read(partition, 3)] == [b"another batch"]
    member.close()


class NoText(str):
    """What other clients may write: Kafka's protocol takes any bytes for a header's name."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


def test_a_time_far_ahead_is_brought_near_for_the_broker(bus: KafkaBus, options: KafkaOptions) -> None:
    topic = f"{options.prefix}input"
    partition = Partition(topic, 0)
    member = bus.subscribe(f"{options.prefix}group", [topic])
    await_assignment(member)
    ahead = time.time() + 30 * 86_400
    snapshot = Snapshot("operator", partition, "a", 0, ahead, b"state")
    member.commit(Commit({partition: 0}, [Outgoing(topic, "a", b"about then", ahead)], [snapshot]))
    (record,) = everything(bus, topic)
    assert 0 < record.ts - time.time() < 3600
    assert list(bus.snapshots("operator", partition)) == [snapshot]
    member.close()


@pytest.mark.parametrize("how", ["append", "commit"])
def test_a_time_that_the_broker_does_not_take_is_refused(
    bus: KafkaBus, options: KafkaOptions, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """As from a machine whose clock is wrong."""
    topic = f"{options.prefix}input"
    partition = Partition(topic, 0)
    member = bus.subscribe(f"{options.prefix}group", [topic])
    await_assignment(member)
    ahead = time.time() + 30 * 86_400
    monkeypatch.setattr("laggard.pipeline.core.bus.kafka.wire.MOST_AHEAD_S", 31 * 86_400.0)
    records = [Outgoing(topic, "a", b"wrong", ahead)]
    with pytest.raises(Refused, match="check this machine's clock"):
        bus.append(records) if how == "append" else member.commit(Commit({partition: 0}, records))
    for _ in range(3):  # a refused producer may have to be opened anew, or be fenced by its own abort
        with suppress(BusUnavailable, Fenced):
            member.commit(Commit({partition: 0}, [Outgoing(topic, "a", b"right", NOW)]))
            break
    assert [record.value for record in everything(bus, topic)] == [b"right"]
    member.close()


def test_a_record_beyond_the_topics_limit_is_refused_before_any_is_sent(bus: KafkaBus, options: KafkaOptions) -> None:
    topic, small = f"{options.prefix}input", f"{options.prefix}small"
    admin = KafkaAdminClient(bootstrap_servers=list(options.bootstrap))
    admin.create_topics({small: {"num_partitions": 1, "configs": {"max.message.bytes": "1100000"}}})
    admin.close()
    for name, limit in ((topic, MAX_RECORD_BYTES), (small, 1_100_000)):
        good = Outgoing(name, "a", b"good", NOW)
        with pytest.raises(Refused, match=rf"{name}.*expected at most \d+ bytes.*max\.message\.bytes"):
            bus.append([good, Outgoing(name, "a", bytes(limit), NOW)])
        assert everything(bus, name) == []
        bus.append([good, Outgoing(name, "a", bytes(limit - 10_000), NOW)])
        assert [len(record.value) for record in everything(bus, name)] == [4, limit - 10_000]


def test_a_snapshot_larger_than_a_record_is_split_and_one_half_written_ignored(
    bus: KafkaBus, options: KafkaOptions
) -> None:
    topic, operator = f"{options.prefix}input", f"{options.prefix}snapshots.operator"
    partition = Partition(topic, 0)
    member = bus.subscribe(f"{options.prefix}group", [topic])
    await_assignment(member)
    value = bytes(range(256)) * (MAX_RECORD_BYTES // 256 + 1)
    large = Snapshot("operator", partition, "a#b/c", 3, NOW + 0.123456, value)
    small = Snapshot("operator", partition, "b", 2, NOW, b"")
    member.commit(Commit({partition: 0}, (), [large, small]))
    assert list(bus.snapshots("operator", partition)) == [large, small]
    half = records(Snapshot("operator", partition, "a#b/c", 4, NOW, bytes(3 * CHUNK_BYTES)), operator, 0)[:2]
    bus._appender.append(half, "write half a snapshot")
    assert list(bus.snapshots("operator", partition)) == [large, small]
    assert bus.snapshot_offsets("operator", partition) == {"a#b/c": 3, "b": 2}
    member.close()


def test_partitions_that_a_topic_gets_later_are_found(bus: KafkaBus, options: KafkaOptions) -> None:
    topic = f"{options.prefix}input"
    assert bus.bounds(Partition(topic, 0)) == (0, 0)
    with pytest.raises(BusError, match=topic):
        bus.bounds(Partition(topic, 1))
    admin = KafkaAdminClient(bootstrap_servers=list(options.bootstrap))
    admin.create_partitions({topic: 2})
    admin.close()
    assert bus.bounds(Partition(topic, 1)) == (0, 0)


def test_topics_that_others_create_at_once_are_there(options: KafkaOptions) -> None:
    spec = TopicSpec(f"{options.prefix}shared", 3, retention_s=3600.0)
    failures: list[BaseException] = []

    def create() -> None:
        try:
            with KafkaBus(options) as bus:
                bus.create([spec])
                assert len(bus.partitions(spec.name)) == 3
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=create) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
