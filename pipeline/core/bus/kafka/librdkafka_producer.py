"""librdkafka's transactions."""

# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from kafka import errors as kafka_errors

from laggard.pipeline.core.bus.kafka.connection import milliseconds
from laggard.pipeline.core.bus.kafka.errors import Displaced, Outdated, Unresolved, unreachable
from laggard.pipeline.core.bus.kafka.librdkafka_consumer import ANY_TOPIC
from laggard.pipeline.core.bus.kafka.librdkafka_errors import bus_error, code_of, settings, translated
from laggard.pipeline.core.bus.kafka.wire import DEFAULT_BYTES, MAX_RECORD_BYTES, OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.bus.kafka.client import Membership, Offset
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions
    from laggard.pipeline.core.bus.kafka.wire import Raw

_ABORT_S: Final = 1.0
_LEAST_S: Final = 0.001
_GRACE_S: Final = 0.5

_FENCED: Final = frozenset(
    (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
    )
)
_OUTDATED: Final = frozenset(
    (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS)
)

_PURGED: Final = frozenset((KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE))
"""The errors of records that were dropped because of another error."""


class LibrdkafkaTransactions:
    """The transactions of one transactional id."""

    def __init__(self, options: KafkaOptions, transactional_id: str) -> None:
        self._options = options
        self.broken = False
        ends_ms = milliseconds(max(options.request_timeout_s, options.transaction_timeout_s))
        config: dict[str, Any] = settings(options, transactional_id) | {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": ends_ms,
            # Not sooner: otherwise a record on a slow line would fail, though in time for its transaction.
            "message.timeout.ms": ends_ms,
            "message.max.bytes": MAX_RECORD_BYTES + OVERHEAD_BYTES,
            "batch.size": DEFAULT_BYTES,
            "compression.type": "lz4",
            "delivery.report.only.error": True,
        }
        action = f"take the transactional id {transactional_id}"
        try:
            self._producer: Any = Producer(config)
        except Exception as error:
            raise unreachable(translated(error), action, options) from error
        try:
            # With a connection the coordinator is found at once; otherwise librdkafka retries after half a second.
            self._producer.list_topics(ANY_TOPIC, options.request_timeout_s)
            self._producer.init_transactions(options.request_timeout_s)
        except Exception as error:
            self.close()
            raise unreachable(translated(error), action, options) from error

    def run(
        self,
        records: Sequence[Raw],
        offsets: Mapping[Partition, Offset],
        group: str,
        membership: Membership,
        timeout_s: float,
    ) -> None:
        """Commit records and offsets in one transaction."""
        deadline = time.monotonic() + timeout_s
        try:
            self._send(records, offsets, membership, deadline)
        except Exception as error:  # noqa: BLE001 - after any error the open transaction must end
            self._abort(error, group)
        try:
            self._producer.commit_transaction(_left(deadline))
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                self._abort(error, group)
            self.broken = True
            if code_of(error) in _FENCED:
                raise Displaced(error.args[0].str()) from error
            raise Unresolved(error.args[0].str()) from error

    def _send(
        self,
        records: Sequence[Raw],
        offsets: Mapping[Partition, Offset],
        membership: Membership,
        deadline: float,
    ) -> None:
        """Begin a transaction, and add everything to it; when it returns, the brokers have it."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failed.append(error)

        self._producer.begin_transaction()
        for topic, partition, key, value, ts_ms, headers in records:
            self._producer.produce(
                topic, value, key, partition=partition, timestamp=ts_ms, headers=headers, on_delivery=delivered
            )
        positions = [TopicPartition(*partition, *offset) for partition, offset in offsets.items()]
        try:
            self._send_offsets(positions, membership, deadline)
            waiting = self._producer.flush(_left(deadline))
        except Exception:
            # A rejected record ends the transaction, which makes the offsets fail.
            self._producer.poll(0)
            if failed and failed[0].code() not in _PURGED:
                raise KafkaException(failed[0]) from None
            raise
        if failed:
            raise KafkaException(failed[0])
        if waiting:
            raise kafka_errors.KafkaTimeoutError(f"{waiting} records were not sent in time")

    def _send_offsets(self, positions: list[TopicPartition], membership: Membership, deadline: float) -> None:
        """Add the offsets to the transaction.

        When the group's coordinator disappears, librdkafka may wait in this call forever, despite the timeout
        (confluentinc/librdkafka#5456, #5511). Then the call is abandoned, and another producer takes over.
        """
        raised: list[Exception] = []

        def send() -> None:
            try:
                self._producer.send_offsets_to_transaction(positions, membership.token, _left(deadline))
            except Exception as error:  # noqa: BLE001 - raised again by the waiting thread
                raised.append(error)

        sending = threading.Thread(target=send, name="offsets of a transaction", daemon=True)
        sending.start()
        sending.join(_left(deadline) + _GRACE_S)
        if sending.is_alive():
            self.broken = True
            raise kafka_errors.KafkaTimeoutError("no answer to the offsets of a transaction")
        if raised:
            raise raised[0]

    def _abort(self, error: Exception, group: str) -> NoReturn:
        """Abort the open transaction, so that nothing of it is committed; then raise the error in the bus's form."""
        try:
            self._producer.abort_transaction(_ABORT_S)
        except Exception:  # noqa: BLE001 - the next producer with this id ends the open transaction
            self.broken = True
        code = code_of(error)
        if code in _OUTDATED:
            raise Outdated(error.args[0].str()) from error
        if code in _FENCED:
            raise Displaced(error.args[0].str()) from error
        raise bus_error(error, f"commit a transaction of group {group}", self._options) from error

    def close(self) -> None:
        """Close everything.

        Errors refer to this object for as long as a caller has them. A producer that lived on with it would repeat its
        unanswered requests on a new connection, a commit that counts as failed among them.
        """
        with suppress(Exception):
            self._producer.purge(blocking=False)
        del self._producer


def _left(deadline: float) -> float:
    return max(_LEAST_S, deadline - time.monotonic())
