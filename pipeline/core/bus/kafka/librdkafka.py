"""librdkafka as a client: members of groups and readers; its transactions are in `librdkafka_producer`.

librdkafka prefetches in threads of its own, outside of Python: a poll returns records that have already arrived.
"""

# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from laggard.pipeline.core.bus import BusError, DamagedRecord, Partition, Polled
from laggard.pipeline.core.bus.kafka.client import Membership
from laggard.pipeline.core.bus.kafka.connection import milliseconds
from laggard.pipeline.core.bus.kafka.errors import Expelled, location
from laggard.pipeline.core.bus.kafka.kafka_python import MAX_POLL_S
from laggard.pipeline.core.bus.kafka.librdkafka_consumer import (
    DAMAGED,
    SLICE_S,
    arrived,
    consumer_of,
    incoming_of,
    offset_of,
    partition_of,
    passing,
)
from laggard.pipeline.core.bus.kafka.librdkafka_errors import bus_error, code_of
from laggard.pipeline.core.bus.kafka.librdkafka_producer import LibrdkafkaTransactions
from laggard.pipeline.core.bus.kafka.librdkafka_reader import LibrdkafkaReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from confluent_kafka import Message

    from laggard.pipeline.core.bus import Incoming
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

_READY_S: Final = 2.0


class Librdkafka:
    """librdkafka as the bus's client."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options

    def join(self, group: str, topics: Sequence[str], client_id: str) -> LibrdkafkaMember:
        """Join a group."""
        return LibrdkafkaMember(self._options, group, topics, client_id)

    def transactions(self, transactional_id: str) -> LibrdkafkaTransactions:
        """Take over the transactional id."""
        return LibrdkafkaTransactions(self._options, transactional_id)

    def reader(self) -> LibrdkafkaReader:
        """Open a reader."""
        return LibrdkafkaReader(self._options)


class LibrdkafkaMember:
    """One member of a group."""

    def __init__(self, options: KafkaOptions, group: str, topics: Sequence[str], client_id: str) -> None:
        self._options = options
        self._group = group
        own: dict[str, Any] = {
            "group.id": group,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": milliseconds(options.session_timeout_s),
            "heartbeat.interval.ms": milliseconds(options.session_timeout_s / 6),
            "max.poll.interval.ms": milliseconds(MAX_POLL_S),
            "enable.partition.eof": True,
        }
        if options.instance:
            own["group.instance.id"] = options.instance
        self._consumer = consumer_of(options, f"join group {group}", client_id, own)
        self._membership: Membership | None = None
        self._revoked: set[Partition] = set()
        self._assigned: set[Partition] = set()
        self._here: set[Partition] = set()  # all assigned ones
        self._paused: set[Partition] = set()
        self._faults: deque[BusError] = deque()  # to be raised by the next polls
        self._passed: dict[Partition, int] = {}  # the next positions after damaged records
        self._ends: dict[Partition, int] = {}  # of partitions that were read to their end
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    # Changes of a rebalance: librdkafka reports them inside `poll`, and waits for these callbacks.

    def _on_assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        """Hold new partitions. Every rebalance ends with this call, also one without any."""
        # The membership is read only here: one newer than the reported partitions could commit to some that belong to
        # another member by now.
        self._membership = _membership(consumer.consumer_group_metadata())
        # At an absolute offset, though `seek` sets another one later. The end is a logical one: librdkafka requests it
        # from brokers, and may return to it after the seek, past unread records:
        # https://github.com/confluentinc/librdkafka/issues/2256
        consumer.incremental_assign([TopicPartition(at.topic, at.partition, 0) for at in assigned])
        if assigned:
            consumer.pause(assigned)
        new = {Partition(at.topic, at.partition) for at in assigned}
        self._assigned |= new
        self._here |= new
        self._paused |= new

    def _on_revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        consumer.incremental_unassign(revoked)
        for at in revoked:
            partition = Partition(at.topic, at.partition)
            self._forget(partition)
            self._here.discard(partition)
            self._paused.discard(partition)
            if partition in self._assigned:
                self._assigned.discard(partition)  # not reported yet
            else:
                self._revoked.add(partition)

    def _on_lost(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        self._membership = None
        self._on_revoke(consumer, lost)

    # Reading.

    def poll(self, timeout_s: float, max_records: int) -> Polled:
        """Wait at most `timeout_s` for changes of the assignment or records."""
        self._raise_fault()
        deadline = time.monotonic() + timeout_s
        records: list[Incoming] = []
        try:
            while True:
                left = max(0.0, deadline - time.monotonic())
                for message in arrived(self._consumer, min(left, SLICE_S), max_records):
                    self._take(message, records)
                if records or self._revoked or self._assigned or self._faults or not left:
                    break
        except KafkaException as error:
            raise self._error(error) from error
        if not (records or self._revoked or self._assigned):
            self._raise_fault()
        return Polled(*self._news(), tuple(records))

    def news(self) -> Polled:
        """Return the changes of rebalances, which librdkafka reports only inside `poll`."""
        return Polled(*self._news())

    def _news(self) -> tuple[frozenset[Partition], frozenset[Partition]]:
        news = frozenset(self._revoked), frozenset(self._assigned)
        self._revoked.clear()
        self._assigned.clear()
        return news

    def _take(self, message: Message, records: list[Incoming]) -> None:
        error = message.error()
        if error is None or error.code() in DAMAGED:
            partition = partition_of(message)
            # After damage it is read again from there: this would be reported a second time.
            if self._is_damaged(partition):
                return
            if error is None:
                if self._ends:
                    self._ends.pop(partition, None)
                try:
                    records.append(incoming_of(message, partition))
                except DamagedRecord as damaged:
                    self._pass_over(damaged)
            else:
                # The error is one of a batch; librdkafka names its first record, whichever one was to be read.
                offset = max(offset_of(message), self._passed.get(partition, 0))
                self._pass_over(DamagedRecord(partition, offset, error.str()))
        elif error.code() == KafkaError._PARTITION_EOF:
            if not self._is_damaged(partition := partition_of(message)):
                self._ends[partition] = offset_of(message)
        elif error.fatal() or not passing(error):
            self._faults.append(self._error(KafkaException(error)))

    def _pass_over(self, damaged: DamagedRecord) -> None:
        self._seek(damaged.partition, damaged.offset + 1)
        self._passed[damaged.partition] = damaged.offset + 1
        self._ends.pop(damaged.partition, None)
        self._faults.append(damaged)

    def _raise_fault(self) -> None:
        """Raise an error that was found between returned records."""
        for fault in self._faults:
            if not (isinstance(fault, DamagedRecord) and fault.partition in self._paused):
                self._faults.remove(fault)
                raise fault

    def _forget(self, partition: Partition) -> None:
        """Forget the damaged records and the end of a partition."""
        self._passed.pop(partition, None)
        self._ends.pop(partition, None)
        remaining = [
            each for each in self._faults if not (isinstance(each, DamagedRecord) and each.partition == partition)
        ]
        self._faults = deque(remaining)

    def position(self, partition: Partition) -> int | None:
        """Return the end of the partition that librdkafka has reported, after all of its content; None without one."""
        return self._ends.get(partition)

    def _is_damaged(self, partition: Partition) -> bool:
        """Return whether a damaged record of a partition is to be raised: it is read again after that."""
        return any(isinstance(fault, DamagedRecord) and fault.partition == partition for fault in self._faults)

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at this offset."""
        if partition in self._here:
            self._forget(partition)
            self._seek(partition, offset)

    def _seek(self, partition: Partition, offset: int) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                self._consumer.seek(TopicPartition(*partition, offset))
            except KafkaException as error:
                # A newly assigned partition is not ready yet.
                if code_of(error) != KafkaError._STATE or time.monotonic() > deadline:
                    raise self._error(error) from error
                time.sleep(0.001)
            else:
                return

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Return no records of these."""
        if paused := self._here.intersection(partitions):
            self._ask(self._consumer.pause, [TopicPartition(*partition) for partition in paused])
            self._paused |= paused

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Return records of these again."""
        if resumed := self._here.intersection(partitions):
            self._ask(self._consumer.resume, [TopicPartition(*partition) for partition in resumed])
            self._paused -= resumed

    def _ask(self, ask: Callable[[list[TopicPartition]], None], partitions: list[TopicPartition]) -> None:
        try:
            ask(partitions)
        except KafkaException as error:
            raise self._error(error) from error

    def membership(self) -> Membership | None:
        """Return the membership as of the last rebalance that `poll` has reported."""
        return self._membership

    def _error(self, error: KafkaException) -> BusError:
        if code_of(error) in (KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL):
            return Expelled(
                f"{location(self._options)}: group {self._group}: another worker has joined as worker.instance "
                f"{self._options.instance!r}; each needs a name of its own ({error.args[0].str()})"
            )
        return bus_error(error, f"poll group {self._group}", self._options)

    def close(self) -> None:
        """Leave the group."""
        with suppress(Exception):
            self._consumer.close()


_MAGIC: Final = b"CGMDv2:"


def _membership(metadata: bytes) -> Membership | None:
    """Parse librdkafka's form of a membership: its mark, the generation as 32 bits, group, member and instance.

    There is no other access to the generation.
    """
    if not metadata.startswith(_MAGIC):
        raise AssertionError(f"expected a membership that begins with {_MAGIC!r}, got {metadata!r}")
    generation = int.from_bytes(metadata[len(_MAGIC) : len(_MAGIC) + 4], "little", signed=True)
    _, member, *_ = metadata[len(_MAGIC) + 4 :].split(b"\0")
    return None if generation < 0 else Membership((generation, metadata), member.decode(), metadata)
