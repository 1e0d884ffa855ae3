"""The bus on Kafka: topics, offsets, snapshots and groups at the brokers in its location."""

from __future__ import annotations

import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from laggard.pipeline.core.bus import Bus, BusError, BusUnavailable, DamagedRecord, Partition, Refused
from laggard.pipeline.core.bus.kafka import snapshots as chunks
from laggard.pipeline.core.bus.kafka.broker_requests import BrokerRequests
from laggard.pipeline.core.bus.kafka.errors import location
from laggard.pipeline.core.bus.kafka.group_admin import GroupAdmin
from laggard.pipeline.core.bus.kafka.kafka_python_producer import Appender
from laggard.pipeline.core.bus.kafka.members import KafkaSubscription
from laggard.pipeline.core.bus.kafka.resetting import reset
from laggard.pipeline.core.bus.kafka.topic_admin import SETTLING_S, TopicAdmin
from laggard.pipeline.core.bus.kafka.wire import DEFAULT_BYTES, raw
from laggard.pipeline.core.bus.partitioner import partition_number
from laggard.pipeline.core.extras import installing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import Incoming, Outgoing, Snapshot, Subscription, TopicSpec
    from laggard.pipeline.core.bus.kafka.client import Client, Reader
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions
    from laggard.pipeline.core.bus.kafka.wire import Raw

_FETCH_S: Final = 0.5
_STEP_S: Final = 0.05


class KafkaBus(Bus):
    """The bus on Kafka.

    Args:
        options: the brokers, and how to reach them. The bus connects on first use: unreachable brokers raise
            BusUnavailable then.

    Readers see committed records; the end of a partition is the end of these. Times are whole milliseconds, and none is
    before 1970. Groups share partitions by Kafka's cooperative-sticky protocol; for members that died see `claims`. Old
    snapshots are available until the topic is compacted.

    """

    knows_keys = False

    def __init__(self, options: KafkaOptions) -> None:
        self.options = options
        self.requests = BrokerRequests(options)
        self.topics = TopicAdmin(self.requests)
        self.groups = GroupAdmin(self.requests)
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._limits: dict[str, int] = {}
        self._appender = Appender(options)
        self._client: Client | None = None
        self._readers: list[Reader] = []
        self._members: WeakSet[KafkaSubscription] = WeakSet()
        self._closed = False

    @property
    def client(self) -> Client:
        """The client of members and readers."""
        with self._lock:
            if self._client is None:
                self._client = client_of(self.options)
            return self._client

    # Topics.

    def create(self, topics: Iterable[TopicSpec]) -> None:
        """Create missing topics."""
        self.topics.create(topics)

    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return all partitions of a topic, as many as at the first request."""
        return [Partition(topic, number) for number in range(self._count(topic))]

    def require(self, topics: Iterable[str], operators: Iterable[str]) -> None:
        """Raise BusError unless there are these topics, and one for the snapshots of each operator."""
        for topic in (*topics, *(chunks.topic_of(self.options.prefix, operator) for operator in operators)):
            self._count(topic)

    def partition_of(self, topic: str, key: str) -> Partition:
        """Return the partition of this key's records, by Kafka's default partitioner."""
        return Partition(topic, partition_number(key, self._count(topic)))

    def _count(self, topic: str) -> int:
        count = self._counts.get(topic)
        if count is None:
            count = self._ask_count(topic)
        return count

    def _ask_count(self, topic: str) -> int:
        count = self.topics.partition_counts([topic]).get(topic)
        if count is None:
            raise BusError(
                f"{location(self.options)}: the topic {topic} does not exist; `laggard topics create` creates those of "
                "laggard"
            )
        self._counts[topic] = count
        return count

    def check(self, partition: Partition) -> None:
        """Raise BusError for a partition that does not exist."""
        topic, number = partition
        if 0 <= number < self._count(topic):
            return
        # A topic may have more partitions now, of which the brokers learn one after the other.
        deadline = time.monotonic() + SETTLING_S
        while not 0 <= number < self._ask_count(topic):
            if number < 0 or time.monotonic() > deadline:
                raise BusError(
                    f"{location(self.options)}: expected a partition of {topic} from 0 to {self._counts[topic] - 1}, "
                    f"got {number}"
                )
            time.sleep(_STEP_S)

    def keys(self, topic: str) -> Sequence[str]:
        """Return the sorted keys. Reads the whole topic: no broker knows its keys."""
        return sorted({record.key for partition in self.partitions(topic) for record in self.read(partition, 0)})

    # Writing.

    def append(self, records: Sequence[Outgoing]) -> None:
        """Append records, and return when all are on as many brokers as their topics require."""
        if packed := self.pack(records):
            self._appender.append(packed, f"append to {', '.join(sorted({record.topic for record in packed}))}")

    def pack(self, records: Sequence[Outgoing]) -> list[Raw]:
        """Return the records for their partitions. Raises BusError for one that cannot be sent, before any is."""
        return [self._pack(record) for record in records]

    def _pack(self, record: Outgoing) -> Raw:
        topic = record.topic
        count = self._count(topic)
        try:
            packed = raw(record, count)
        except Refused as error:
            raise Refused(f"{location(self.options)}: a record for {topic}: {error}") from error
        if packed.size > DEFAULT_BYTES:  # smaller ones fit into any topic
            limit = self._limits.get(topic)
            if limit is None:
                limit = self._limits[topic] = self.topics.max_record_bytes(topic)
            if packed.size > limit:
                raise Refused(
                    f"{location(self.options)}: a record for {topic}: expected at most {limit} bytes, as the topic's "
                    f"max.message.bytes says, got {packed.size}"
                )
        return packed

    def append_raw(self, records: Sequence[Raw], asked: str) -> None:
        """Append records that are ready to be sent, for uses beyond the contract."""
        self._appender.append(records, asked)

    # Reading.

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """Return the oldest available offset, and the one after the last committed record."""
        self.check(partition)
        return self.topics.bounds(partition)

    def all_bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, tuple[int, int]]:
        """Return the bounds of any number of partitions, in two requests."""
        for partition in partitions:
            self.check(partition)
        return self.topics.all_bounds(partitions)

    def offset_at(self, partition: Partition, ts: float) -> int:
        """Return the offset from the broker's own index of times."""
        self.check(partition)
        found = self.topics.offset_at(partition, ts)
        return self.topics.bounds(partition)[1] if found is None else found

    def read(
        self, partition: Partition, start: int, stop: int | None = None, key: str | None = None
    ) -> Iterator[Incoming]:
        """Yield records batch by batch; meanwhile deleted ones are skipped. Raises DamagedRecord."""
        oldest, end = self.bounds(partition)
        if stop is None or stop > end:
            end = self.topics.settled_end(partition)
        return self._read(partition, max(start, oldest), end if stop is None else min(stop, end), key)

    def _read(self, partition: Partition, position: int, stop: int, key: str | None) -> Iterator[Incoming]:
        if position >= stop:
            return
        reader = self._borrow()
        sound = False
        try:
            silent_s = 0.0
            while position < stop:
                records, after = reader.fetch(partition, position, _FETCH_S)
                if after == position:
                    silent_s += _FETCH_S
                    if silent_s >= self.options.request_timeout_s:
                        raise BusUnavailable(
                            f"{location(self.options)}: cannot read {partition.topic}[{partition.number}] for now: "
                            f"nothing came from {position} on"
                        )
                    continue
                silent_s = 0.0
                position = after
                for record in records:
                    if record.offset >= stop:
                        break
                    if key is None or record.key == key:
                        yield record
            sound = True
        except (DamagedRecord, GeneratorExit):
            sound = True
            raise
        finally:
            self._give_back(reader, sound)

    def _borrow(self) -> Reader:
        with self._lock:
            if self._closed:
                raise BusError(f"{location(self.options)}: cannot read: the bus is closed")
            if self._readers:
                return self._readers.pop()
        return self.client.reader()

    def _give_back(self, reader: Reader, sound: bool) -> None:
        if sound:
            reader.rest()
        with self._lock:
            if sound and not self._closed:
                self._readers.append(reader)
                return
        reader.close()

    def snapshots(self, operator: str, partition: Partition, at_or_before: int | None = None) -> Sequence[Snapshot]:
        """Return snapshots sorted by key. Reads the whole partition of the operator's snapshot topic."""
        place = self._snapshots_of(operator, partition)
        return [] if place is None else chunks.newest(self.read(place, 0), operator, partition, at_or_before)

    def snapshot_offsets(self, operator: str, partition: Partition) -> Mapping[str, int]:
        """Return the offsets without storing a state in memory."""
        place = self._snapshots_of(operator, partition)
        return {} if place is None else chunks.newest_offsets(self.read(place, 0), partition)

    def _snapshots_of(self, operator: str, partition: Partition) -> Partition | None:
        """Return the partition with the snapshots of this input partition; None without a topic for them."""
        self.check(partition)
        topic = chunks.topic_of(self.options.prefix, operator)
        count = self._counts.get(topic) or self.topics.partition_counts([topic]).get(topic)
        if count is None:
            return None
        self._counts[topic] = count
        return Partition(topic, chunks.partition_of(partition, count))

    # Groups.

    def subscribe(self, group: str, topics: Sequence[str]) -> Subscription:
        """Become a member; the partitions come with later polls."""
        for topic in topics:
            self._count(topic)
        member = KafkaSubscription(self, group, topics)
        self._members.add(member)
        return member

    def committed(self, group: str, partition: Partition) -> int:
        """Return the group's committed offset."""
        self.check(partition)
        offset = self.groups.settled_offset(group, partition)
        return 0 if offset is None else offset.offset

    def reset(
        self,
        group: str,
        operators: Sequence[str],
        offsets: Mapping[Partition, int],
        snapshots: Sequence[Snapshot] = (),
    ) -> None:
        """Reset a group; raises BusError while it has members. Reads the partitions of the snapshot topics."""
        for partition in offsets:
            self.check(partition)
        reset(self, group, tuple(operators), offsets, snapshots)

    def close(self) -> None:
        """Close the connections; remaining members leave their groups."""
        # An open member of librdkafka would prevent the process from ending.
        for member in tuple(self._members):
            member.close()
        with self._lock:
            self._closed = True
            readers, self._readers = self._readers, []
        for reader in readers:
            reader.close()
        self._appender.close()
        self.requests.close()


def client_of(options: KafkaOptions) -> Client:
    """Return the client of the options; `auto` is librdkafka if it is installed. Raises BusError."""
    installed = find_spec("confluent_kafka") is not None
    if options.client == "librdkafka" and not installed:
        raise BusError(f"kafka.client is librdkafka, which is not installed; {installing('librdkafka')}")
    # Imported here, so that an unused client is not loaded.
    if installed and options.client != "kafka-python":
        from laggard.pipeline.core.bus.kafka.librdkafka import Librdkafka  # noqa: PLC0415

        return Librdkafka(options)
    from laggard.pipeline.core.bus.kafka.kafka_python import KafkaPython  # noqa: PLC0415

    return KafkaPython(options)
