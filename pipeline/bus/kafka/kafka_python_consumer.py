"""kafka-python's consumer, with what it lacks for a member of a group."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.util import Timer

from laggard.pipeline.bus import DamagedRecord, Partition
from laggard.pipeline.bus.kafka.connection import connected, kafka_python, milliseconds
from laggard.pipeline.bus.kafka.errors import unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from laggard.pipeline.bus.kafka.options import KafkaOptions

_FETCH_BYTES: Final = 4 << 20
"""Of all partitions together in one answer, or one batch where that is larger. An answer has to be there within the
time-out of a request, also on a slow line; and more at once takes more processor time, for it is fresh memory."""

_FETCH_WAIT_MS: Final = 250
_JOINING_S: Final = 0.05  # so often somebody looks whether joining has come to its end
_LOOK_S: Final = 0.2  # ... and whether a heartbeat was answered with a rebalance
_BROKEN_DATA = (kafka_errors.CorruptRecordError, kafka_errors.UnsupportedCodecError)


def consumer(options: KafkaOptions, asked: str, **settings: Any) -> Consumer:
    """A consumer that is connected. Raises BusError as `errors.unreachable` says."""
    settings = kafka_python(options) | {
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
        "fetch_max_bytes": _FETCH_BYTES,
        "max_partition_fetch_bytes": _FETCH_BYTES,
        "fetch_max_wait_ms": _FETCH_WAIT_MS,
        "metrics_enabled": False,
        **settings,
    }
    try:
        return connected(Consumer, settings)
    except Exception as error:
        raise unreachable(error, asked, options) from error


class Consumer(KafkaConsumer):  # type: ignore[misc] # kafka-python has no types
    """kafka-python's, with what it lacks.

    Its own poll waits for the end of a rebalance and brings nothing until then; it forgets that it has joined when that
    happens between two polls, and joins again, and again; and a static member whose name another process has taken is
    not told so. Here joining goes on beside, and partitions that are kept go on bringing records.
    """

    _joining: Any = None

    @property
    def is_joining(self) -> bool:
        """Whether joining has begun, and no poll has seen its end."""
        return self._joining is not None

    def subscribe_knowing(self, topics: Sequence[str], listener: News, timeout_s: float) -> None:
        """Subscribe, and know the topics' partitions before joining.

        A member that is made the leader of its group hands out what it knows of: without this, nothing.
        """
        self.subscribe(topics=list(topics), listener=listener)
        deadline = time.monotonic() + timeout_s
        while not all(self._cluster.partitions_for_topic(topic) for topic in topics):
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0:
                raise kafka_errors.KafkaTimeoutError(f"nothing is told of the topics {', '.join(topics)}")
            self._net.run(self._manager.wait_for, self._cluster.request_update(), left_ms)

    def poll_until(
        self, there: Callable[[], bool], timeout_s: float, max_records: int
    ) -> Mapping[TopicPartition, Sequence[Any]]:
        """Poll until records come or something else is there, at most so long."""
        timer = Timer(timeout_s * 1000)
        while True:
            records: Mapping[TopicPartition, Sequence[Any]] = self._poll_once(timer, max_records)
            if records or timer.expired or there():
                return records

    def _poll_once(self, timer: Any, max_records: int, update_offsets: bool = True) -> Any:
        """One round of kafka-python's own poll."""
        wait_ms = timer.timeout_ms
        if self.config["group_id"] is not None:
            wait_ms = min(wait_ms, self._stay_joined(wait_ms))
        self._fetcher.reset_offsets_if_needed()
        self._fetcher.maybe_validate_positions()
        self._fetcher.validate_offsets_if_needed()
        records, idle = self._fetcher.fetch_records(max_records, update_offsets=update_offsets, timeout_ms=wait_ms)
        if not records and idle and wait_ms > 0:
            time.sleep(min(wait_ms, self.config["retry_backoff_ms"]) / 1000)
        return records

    def _stay_joined(self, wait_ms: float) -> float:
        """Keep the membership, or join; gives how long to wait for records before the next look, in milliseconds."""
        coordinator = self._coordinator
        if self._joining is None and coordinator.need_rejoin():
            self._joining = self._manager.call_soon(coordinator.ensure_active_group_async)
        if self._joining is not None:
            if not self._joining.is_done and not self._subscription.fetchable_partitions():
                with suppress(kafka_errors.KafkaTimeoutError):
                    self._net.run(self._manager.wait_for, self._joining, wait_ms)
            if not self._joining.is_done:
                coordinator.heartbeat.poll()
                return _JOINING_S * 1000
            joined, self._joining = self._joining, None
            if joined.exception is not None:
                raise joined.exception
            return 0.0  # what it brought is to be told first
        coordinator.poll_heartbeat()
        if coordinator.stable() and not coordinator._heartbeat_enabled:  # noqa: SLF001 - nothing public says it
            # The coordinator has said so to a heartbeat, after which kafka-python falls silent.
            raise kafka_errors.FencedInstanceIdError(self.config["group_instance_id"])
        return _LOOK_S * 1000

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause new partitions. A position of its own keeps the client from waiting for the committed one."""
        for partition in partitions:
            self._subscription.pause(partition)
            self._subscription.seek(partition, 0)

    def position_now(self, partition: TopicPartition) -> int | None:
        """The position that is known, without asking for it; None before a reset has found one."""
        position = self._subscription.assignment[partition].position
        return None if position is None else int(position.offset)

    def skip_damaged(self, error: Exception) -> DamagedRecord | None:
        """Go on after the record that this error is about, where it is about one.

        A position must move before the next poll: kafka-python would look into the same batch again without an end.
        """
        batch = self._fetcher._next_partition_records  # noqa: SLF001 - nothing public says which batch it was
        if batch is None or (isinstance(error, kafka_errors.KafkaError) and not isinstance(error, _BROKEN_DATA)):
            return None
        # A batch is read from its beginning each time: beyond what cannot be parsed, kafka-python reads nothing of it.
        at, offset = batch.topic_partition, max(int(batch.next_fetch_offset), int(batch.fetch_offset))
        with suppress(Exception):
            self.seek(at, offset + 1)
        return DamagedRecord(Partition(at.topic, at.partition), offset, str(error) or type(error).__name__)

    def give_back(self, timeout_s: float = 1.0) -> None:
        """Close, whatever stands in the way."""
        with suppress(Exception):
            self.close(autocommit=False, timeout_ms=milliseconds(timeout_s))
        with suppress(Exception):
            self._client.close()


class News(ConsumerRebalanceListener):  # type: ignore[misc] # kafka-python has no types
    """What rebalances gave and took, told on the client's own thread."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._lock = threading.Lock()
        self._revoked: set[Partition] = set()
        self._assigned: set[Partition] = set()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Handed on, or lost."""
        with self._lock:
            for at in revoked:
                partition = Partition(at.topic, at.partition)
                if partition in self._assigned:
                    self._assigned.discard(partition)  # nobody was told of it yet
                else:
                    self._revoked.add(partition)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """New ones."""
        self._consumer.hold(assigned)
        with self._lock:
            self._assigned.update(Partition(at.topic, at.partition) for at in assigned)

    def is_there(self) -> bool:
        """Whether there is any."""
        return bool(self._revoked or self._assigned)

    def take(self) -> tuple[frozenset[Partition], frozenset[Partition]]:
        """What was revoked and then assigned since the last call."""
        with self._lock:
            news = frozenset(self._revoked), frozenset(self._assigned)
            self._revoked.clear()
            self._assigned.clear()
        return news
