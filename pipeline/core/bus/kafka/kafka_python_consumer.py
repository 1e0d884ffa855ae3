"""kafka-python's consumer, with additions for members of groups."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.util import Timer

from laggard.pipeline.core.bus import DamagedRecord, Partition
from laggard.pipeline.core.bus.kafka.connection import connected, kafka_python, milliseconds
from laggard.pipeline.core.bus.kafka.errors import unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

_FETCH_BYTES: Final = 4 << 20
"""The most bytes of all partitions in one answer, or one batch if that is larger. An answer must arrive within the
timeout of a request, also on a slow line. Larger answers cost more CPU time, since they need fresh memory."""

_FETCH_WAIT_MS: Final = 250
_JOINING_S: Final = 0.05  # the time between checks whether joining has ended
_CHECK_S: Final = 0.2  # ... and whether a heartbeat was answered with a rebalance
_BROKEN_DATA = (kafka_errors.CorruptRecordError, kafka_errors.UnsupportedCodecError)


def consumer(options: KafkaOptions, asked: str, **settings: Any) -> Consumer:
    """Return a connected consumer. Raises BusError as in `errors.unreachable`."""
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
    """kafka-python's consumer, with additions.

    The original poll waits for the end of a rebalance and returns nothing until then. If joining ends between two
    polls, the original forgets it, and joins again and again. It does not report that another process has taken the
    name of a static member. Here joining runs in the background, and retained partitions still return records.
    """

    _joining: Any = None

    @property
    def is_joining(self) -> bool:
        """Whether joining has begun, and no poll has seen its end."""
        return self._joining is not None

    def subscribe_knowing(self, topics: Sequence[str], listener: News, timeout_s: float) -> None:
        """Subscribe, and load the topics' partitions before joining.

        The leader of a group assigns only the partitions that it knows: without this, none.
        """
        self.subscribe(topics=list(topics), listener=listener)
        deadline = time.monotonic() + timeout_s
        while not all(self._cluster.partitions_for_topic(topic) for topic in topics):
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0:
                raise kafka_errors.KafkaTimeoutError(f"there is no metadata of the topics {', '.join(topics)}")
            self._net.run(self._manager.wait_for, self._cluster.request_update(), left_ms)

    def poll_until(
        self, there: Callable[[], bool], timeout_s: float, max_records: int
    ) -> Mapping[TopicPartition, Sequence[Any]]:
        """Poll until records come or `there` returns True, at most for `timeout_s`."""
        timer = Timer(timeout_s * 1000)
        while True:
            records: Mapping[TopicPartition, Sequence[Any]] = self._poll_once(timer, max_records)
            if records or timer.expired or there():
                return records

    def _poll_once(self, timer: Any, max_records: int, update_offsets: bool = True) -> Any:
        """Run one round of kafka-python's own poll."""
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
        """Keep the membership, or join. Return the time to wait for records before the next check, in milliseconds."""
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
            return 0.0  # its changes must be reported first
        coordinator.poll_heartbeat()
        if coordinator.stable() and not coordinator._heartbeat_enabled:  # noqa: SLF001 - no public attribute has it
            # The coordinator has reported it to a heartbeat, after which kafka-python sends no more.
            raise kafka_errors.FencedInstanceIdError(self.config["group_instance_id"])
        return _CHECK_S * 1000

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause new partitions, and set a position, so that the client does not wait for the committed one."""
        for partition in partitions:
            self._subscription.pause(partition)
            self._subscription.seek(partition, 0)

    def position_now(self, partition: TopicPartition) -> int | None:
        """Return the known position, without a request; None before a reset has found one."""
        position = self._subscription.assignment[partition].position
        return None if position is None else int(position.offset)

    def skip_damaged(self, error: Exception) -> DamagedRecord | None:
        """Continue after the record that caused this error, and return its damage; None if no record did.

        The position must move before the next poll: otherwise kafka-python would parse the same batch forever.
        """
        batch = self._fetcher._next_partition_records  # noqa: SLF001 - no public attribute has the batch
        if batch is None or (isinstance(error, kafka_errors.KafkaError) and not isinstance(error, _BROKEN_DATA)):
            return None
        # kafka-python reads a batch from its beginning each time, and nothing of it after an unparseable record.
        at, offset = batch.topic_partition, max(int(batch.next_fetch_offset), int(batch.fetch_offset))
        with suppress(Exception):
            self.seek(at, offset + 1)
        return DamagedRecord(Partition(at.topic, at.partition), offset, str(error) or type(error).__name__)

    def give_back(self, timeout_s: float = 1.0) -> None:
        """Close, despite any error."""
        with suppress(Exception):
            self.close(autocommit=False, timeout_ms=milliseconds(timeout_s))
        with suppress(Exception):
            self._client.close()


class News(ConsumerRebalanceListener):  # type: ignore[misc] # kafka-python has no types
    """The changes of rebalances, reported on the client's own thread."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._lock = threading.Lock()
        self._revoked: set[Partition] = set()
        self._assigned: set[Partition] = set()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Note revoked or lost partitions."""
        with self._lock:
            for at in revoked:
                partition = Partition(at.topic, at.partition)
                if partition in self._assigned:
                    self._assigned.discard(partition)  # not reported yet
                else:
                    self._revoked.add(partition)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Note and hold new partitions."""
        self._consumer.hold(assigned)
        with self._lock:
            self._assigned.update(Partition(at.topic, at.partition) for at in assigned)

    def is_there(self) -> bool:
        """Return whether there are any changes."""
        return bool(self._revoked or self._assigned)

    def take(self) -> tuple[frozenset[Partition], frozenset[Partition]]:
        """Remove and return the revoked and the assigned partitions since the last call."""
        with self._lock:
            news = frozenset(self._revoked), frozenset(self._assigned)
            self._revoked.clear()
            self._assigned.clear()
        return news
