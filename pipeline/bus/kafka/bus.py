"""The bus on Kafka: topics, offsets, snapshots and groups at the brokers that its location names."""

from __future__ import annotations

import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from laggard.pipeline.bus import Bus, BusError, BusUnavailable, DamagedRecord, Partition, Refused
from laggard.pipeline.bus.kafka import snapshots as chunks
from laggard.pipeline.bus.kafka.admin import SETTLING_S, Admin
from laggard.pipeline.bus.kafka.errors import location
from laggard.pipeline.bus.kafka.kafka_python_producer import Appender
from laggard.pipeline.bus.kafka.members import KafkaSubscription
from laggard.pipeline.bus.kafka.resetting import reset
from laggard.pipeline.bus.kafka.wire import DEFAULT_BYTES, raw
from laggard.pipeline.bus.partitioner import partition_number
from laggard.pipeline.extras import installing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from laggard.pipeline.bus import Incoming, Outgoing, Snapshot, Subscription, TopicSpec
    from laggard.pipeline.bus.kafka.client import Client, Reader
    from laggard.pipeline.bus.kafka.options import KafkaOptions
    from laggard.pipeline.bus.kafka.wire import Raw

_FETCH_S: Final = 0.5
_STEP_S: Final = 0.05


class KafkaBus(Bus):
    """The bus on Kafka.

    Args:
        options: where the brokers are and how they are reached. Nothing is connected before something is asked: brokers
            that cannot be reached are BusUnavailable then.

    Readers see what is committed; the end of a partition is the end of that. Times are whole milliseconds, and none is
    before 1970. Groups share partitions by Kafka's cooperative-sticky protocol; what a member does about those that
    died is said in `members`. The past of a snapshot is there until the topic is compacted.

    """

    knows_keys = False

    def __init__(self, options: KafkaOptions) -> None:
        self.options = options
        self.admin = Admin(options)
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
        """What members and readers use."""
        with self._lock:
            if self._client is None:
                self._client = client_of(self.options)
            return self._client

    # Topics.

    def create(self, topics: Iterable[TopicSpec]) -> None:
        """Create what is missing."""
        self.admin.create(topics)

    def partitions(self, topic: str) -> Sequence[Partition]:
        """All partitions of a topic, as many as it had when it was first asked for."""
        return [Partition(topic, number) for number in range(self._count(topic))]

    def require(self, topics: Iterable[str], operators: Iterable[str]) -> None:
        """Snapshots have a topic for each operator."""
        for topic in (*topics, *(chunks.topic_of(self.options.prefix, operator) for operator in operators)):
            self._count(topic)

    def partition_of(self, topic: str, key: str) -> Partition:
        """Where the records of this key are: as Kafka's default partitioner says."""
        return Partition(topic, partition_number(key, self._count(topic)))

    def _count(self, topic: str) -> int:
        count = self._counts.get(topic)
        if count is None:
            count = self._ask_count(topic)
        return count

    def _ask_count(self, topic: str) -> int:
        count = self.admin.partition_counts([topic]).get(topic)
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
        # A topic may have got more partitions since, of which the brokers learn one after the other.
        deadline = time.monotonic() + SETTLING_S
        while not 0 <= number < self._ask_count(topic):
            if number < 0 or time.monotonic() > deadline:
                raise BusError(
                    f"{location(self.options)}: expected a partition of {topic} from 0 to {self._counts[topic] - 1}, "
                    f"got {number}"
                )
            time.sleep(_STEP_S)

    def keys(self, topic: str) -> Sequence[str]:
        """Sorted. Reads the whole topic: no broker knows its keys."""
        return sorted({record.key for partition in self.partitions(topic) for record in self.read(partition, 0)})

    # Writing.

    def append(self, records: Sequence[Outgoing]) -> None:
        """Return when all are on as many brokers as their topics ask for."""
        if packed := self.pack(records):
            self._appender.append(packed, f"append to {', '.join(sorted({record.topic for record in packed}))}")

    def pack(self, records: Sequence[Outgoing]) -> list[Raw]:
        """The records for their partitions. Raises BusError for one that cannot be sent, before any is."""
        return [self._pack(record) for record in records]

    def _pack(self, record: Outgoing) -> Raw:
        topic = record.topic
        count = self._count(topic)
        try:
            packed = raw(record, count)
        except Refused as error:
            raise Refused(f"{location(self.options)}: a record for {topic}: {error}") from error
        if packed.size > DEFAULT_BYTES:  # only then is it worth asking the topic for its limit
            limit = self._limits.get(topic)
            if limit is None:
                limit = self._limits[topic] = self.admin.max_record_bytes(topic)
            if packed.size > limit:
                raise Refused(
                    f"{location(self.options)}: a record for {topic}: expected at most {limit} bytes, as the topic's "
                    f"max.message.bytes says, got {packed.size}"
                )
        return packed

    def append_raw(self, records: Sequence[Raw], asked: str) -> None:
        """Append records that are ready to be sent; for what the contract has no words for."""
        self._appender.append(records, asked)

    # Reading.

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """The oldest offset still there, and the one after the last that is committed."""
        self.check(partition)
        return self.admin.bounds(partition)

    def all_bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, tuple[int, int]]:
        """In two questions, however many there are."""
        for partition in partitions:
            self.check(partition)
        return self.admin.all_bounds(partitions)

    def offset_at(self, partition: Partition, ts: float) -> int:
        """By the broker's own index of times."""
        self.check(partition)
        found = self.admin.offset_at(partition, ts)
        return self.admin.bounds(partition)[1] if found is None else found

    def read(
        self, partition: Partition, start: int, stop: int | None = None, key: str | None = None
    ) -> Iterator[Incoming]:
        """Batch by batch; what is deleted meanwhile is passed over. Raises DamagedRecord."""
        oldest, end = self.bounds(partition)
        if stop is None or stop > end:
            end = self.admin.settled_end(partition)
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
        """Sorted by key. Reads all that the partition of the operator's snapshot topic holds."""
        place = self._snapshots_of(operator, partition)
        return [] if place is None else chunks.newest(self.read(place, 0), operator, partition, at_or_before)

    def snapshot_offsets(self, operator: str, partition: Partition) -> Mapping[str, int]:
        """Without keeping a state in memory."""
        place = self._snapshots_of(operator, partition)
        return {} if place is None else chunks.newest_offsets(self.read(place, 0), partition)

    def _snapshots_of(self, operator: str, partition: Partition) -> Partition | None:
        """Where the snapshots of this input partition are; None where the operator has no topic for them."""
        self.check(partition)
        topic = chunks.topic_of(self.options.prefix, operator)
        count = self._counts.get(topic) or self.admin.partition_counts([topic]).get(topic)
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
        """The group's committed offset."""
        self.check(partition)
        offset = self.admin.settled_offset(group, partition)
        return 0 if offset is None else offset.offset

    def reset(
        self,
        group: str,
        operators: Sequence[str],
        offsets: Mapping[Partition, int],
        snapshots: Sequence[Snapshot] = (),
    ) -> None:
        """Refused while the group has members. Reads what the partitions of the snapshot topics hold."""
        for partition in offsets:
            self.check(partition)
        reset(self, group, tuple(operators), offsets, snapshots)

    def close(self) -> None:
        """Give the connections back; members that are left leave their groups."""
        # One of librdkafka's that nobody closed would keep the process from ending.
        for member in tuple(self._members):
            member.close()
        with self._lock:
            self._closed = True
            readers, self._readers = self._readers, []
        for reader in readers:
            reader.close()
        self._appender.close()
        self.admin.close()


def client_of(options: KafkaOptions) -> Client:
    """The client that the options ask for; `auto` is librdkafka where it is installed. Raises BusError."""
    installed = find_spec("confluent_kafka") is not None
    if options.client == "librdkafka" and not installed:
        raise BusError(f"kafka.client is librdkafka, which is not installed; {installing('librdkafka')}")
    # Here, so that a client that is not used is not loaded either.
    if installed and options.client != "kafka-python":
        from laggard.pipeline.bus.kafka.librdkafka import Librdkafka  # noqa: PLC0415

        return Librdkafka(options)
    from laggard.pipeline.bus.kafka.kafka_python import KafkaPython  # noqa: PLC0415

    return KafkaPython(options)
