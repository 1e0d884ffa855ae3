"""kafka-python as a client: members of groups and readers; its transactions are in `kafka_python_producer`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import MemberState

from laggard.pipeline.core.bus import Partition, Polled
from laggard.pipeline.core.bus.kafka.client import Membership
from laggard.pipeline.core.bus.kafka.connection import milliseconds
from laggard.pipeline.core.bus.kafka.errors import Expelled, explained, location
from laggard.pipeline.core.bus.kafka.kafka_python_consumer import News, consumer
from laggard.pipeline.core.bus.kafka.kafka_python_producer import KafkaPythonTransactions
from laggard.pipeline.core.bus.kafka.wire import incoming

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from laggard.pipeline.core.bus import Incoming
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

MAX_POLL_S: Final = 60.0
"""The time without a poll after which a member is removed from its group, in seconds. Rebalances wait for it, too."""

_CHECK_S: Final = 0.05


class KafkaPython:
    """kafka-python as the bus's client."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options

    def join(self, group: str, topics: Sequence[str], client_id: str) -> KafkaPythonMember:
        """Join a group."""
        return KafkaPythonMember(self._options, group, topics, client_id)

    def transactions(self, transactional_id: str) -> KafkaPythonTransactions:
        """Take over the transactional id."""
        return KafkaPythonTransactions(self._options, transactional_id)

    def reader(self) -> KafkaPythonReader:
        """Open a reader."""
        return KafkaPythonReader(self._options)


class KafkaPythonMember:
    """One member of a group."""

    def __init__(self, options: KafkaOptions, group: str, topics: Sequence[str], client_id: str) -> None:
        self._options = options
        self._group = group
        self._consumer = consumer(
            options,
            f"join group {group}",
            client_id=client_id,
            group_id=group,
            group_instance_id=options.instance or None,
            partition_assignment_strategy=[CooperativeStickyAssignor],
            session_timeout_ms=milliseconds(options.session_timeout_s),
            heartbeat_interval_ms=milliseconds(options.session_timeout_s / 6),
            max_poll_interval_ms=milliseconds(MAX_POLL_S),
        )
        self._news = News(self._consumer)
        try:
            self._consumer.subscribe_knowing(topics, self._news, options.request_timeout_s)
        except Exception as error:
            self._consumer.give_back()
            raise explained(error, f"join group {group}", options) from error

    def poll(self, timeout_s: float, max_records: int) -> Polled:
        """Wait at most `timeout_s` for changes of the assignment or records."""
        try:
            batches = self._consumer.poll_until(self._news.is_there, timeout_s, max_records)
        except kafka_errors.FencedInstanceIdError as error:
            raise Expelled(
                f"{location(self._options)}: group {self._group}: another worker has joined as worker.instance "
                f"{self._options.instance!r}; each needs a name of its own"
            ) from error
        except Exception as error:
            if (damaged := self._consumer.skip_damaged(error)) is not None:
                raise damaged from error
            raise explained(error, f"poll group {self._group}", self._options) from error
        return Polled(*self._news.take(), _records(batches))

    def news(self) -> Polled:
        """Return the changes of rebalances."""
        return Polled(*self._news.take())

    def position(self, partition: Partition) -> int | None:
        """Return the read position."""
        here = self._here([partition])
        return self._consumer.position_now(here[0]) if here else None

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at this offset."""
        for at in self._here([partition]):
            self._consumer.seek(at, offset)

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Return no records of these."""
        self._consumer.pause(*self._here(partitions))

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Return records of these again."""
        self._consumer.resume(*self._here(partitions))

    def _here(self, partitions: Iterable[Partition]) -> list[TopicPartition]:
        """Return those that are assigned now: the next poll reports the loss of the others."""
        assigned = self._consumer.assignment()
        return [at for partition in partitions if (at := TopicPartition(*partition)) in assigned]

    def membership(self) -> Membership | None:
        """Return the present membership; None during a rebalance, whose losses may not have been reported yet."""
        if self._consumer.is_joining:
            return None
        metadata = self._consumer.group_metadata()
        if metadata.state is not MemberState.STABLE or metadata.generation_id < 0 or not metadata.member_id:
            return None
        return Membership((metadata.generation_id, metadata.member_id), metadata.member_id, metadata)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.give_back(self._options.request_timeout_s)


class KafkaPythonReader:
    """Reads one partition after the other."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._consumer = consumer(options, "open a reader")
        self._partition: Partition | None = None

    def fetch(self, partition: Partition, position: int, timeout_s: float) -> tuple[Sequence[Incoming], int]:
        """Return records from this position on, and the position after them."""
        at = TopicPartition(*partition)
        try:
            if partition != self._partition:
                self._partition = partition
                self._consumer.assign([at])
                self._consumer.seek(at, position)
            elif self._consumer.position_now(at) != position:
                self._consumer.seek(at, position)
            deadline = time.monotonic() + timeout_s
            while True:
                left = max(0.0, deadline - time.monotonic())
                batches = self._consumer.poll(timeout_ms=round(min(left, _CHECK_S) * 1000))
                after = self._consumer.position_now(at)
                if batches or (after is not None and after != position) or not left:
                    return _records(batches), position if after is None else after
        except Exception as error:
            self._partition = None
            if (damaged := self._consumer.skip_damaged(error)) is not None:
                raise damaged from error
            raise explained(error, f"read {partition.topic}[{partition.number}]", self._options) from error

    def rest(self) -> None:
        """Do nothing: it fetches only when it is polled."""

    def close(self) -> None:
        """Close everything."""
        self._consumer.give_back()


def _records(batches: Mapping[TopicPartition, Sequence[Any]]) -> tuple[Incoming, ...]:
    return tuple(
        incoming(partition, record.offset, record.key, record.value, record.timestamp, record.headers)
        for at, records in batches.items()
        for partition in (Partition(at.topic, at.partition),)
        for record in records
    )
