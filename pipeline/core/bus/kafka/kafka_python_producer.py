"""kafka-python's producer, with a limit on every wait: transactions, and appending."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafka import KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from laggard.pipeline.core.bus import BusError, BusUnavailable, Refused
from laggard.pipeline.core.bus.kafka.connection import connected, kafka_python, milliseconds
from laggard.pipeline.core.bus.kafka.errors import Displaced, Outdated, Unresolved, explained, location, unreachable
from laggard.pipeline.core.bus.kafka.shared_client import SharedClient
from laggard.pipeline.core.bus.kafka.wire import DEFAULT_BYTES, MAX_RECORD_BYTES, OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.bus.kafka.client import Membership, Offset
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions
    from laggard.pipeline.core.bus.kafka.wire import Raw

_CLOSE_S: Final = 1.0
_FENCED = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)
_OUTDATED = (
    kafka_errors.CommitFailedError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.UnknownMemberIdError,
    kafka_errors.RebalanceInProgressError,
)


def _producer(options: KafkaOptions, action: str, client_id: str, **settings: Any) -> _Producer:
    timeout_ms = milliseconds(options.request_timeout_s)
    settings = kafka_python(options, client_id) | {
        "acks": "all",
        "enable_idempotence": True,
        "compression_type": "lz4",
        "batch_size": DEFAULT_BYTES,
        "max_request_size": MAX_RECORD_BYTES + OVERHEAD_BYTES,
        "max_block_ms": timeout_ms,
        "delivery_timeout_ms": timeout_ms,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
        **settings,
    }
    try:
        return connected(_Producer, settings)
    except Exception as error:
        raise unreachable(error, action, options) from error


class KafkaPythonTransactions:
    """The transactions of one transactional id."""

    def __init__(self, options: KafkaOptions, transactional_id: str) -> None:
        self._options = options
        self._id = transactional_id
        self.broken = False
        self._producer = _producer(
            options,
            "open a transactional producer",
            transactional_id,
            transactional_id=transactional_id,
            transaction_timeout_ms=milliseconds(options.transaction_timeout_s),
            delivery_timeout_ms=milliseconds(max(options.transaction_timeout_s, options.request_timeout_s)),
        )
        try:
            self._producer.init_transactions()
        except Exception as error:
            self.close()
            raise explained(error, f"take the transactional id {transactional_id}", options) from error

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
        producer = self._producer
        action = f"commit a transaction of group {group}"
        try:
            producer.begin_transaction()
            sent = [producer.send_raw(record) for record in records]
            producer.send_offsets(
                {TopicPartition(*partition): OffsetAndMetadata(*offset, -1) for partition, offset in offsets.items()},
                membership.token,
                deadline,
            )
            producer.flush_by(deadline)
            for future in sent:
                future.get(timeout=0)
        except Exception as error:
            self._abort(deadline)
            if isinstance(error, _OUTDATED):
                raise Outdated(str(error)) from error
            if isinstance(error, (kafka_errors.FencedInstanceIdError, *_FENCED)) or producer.is_fenced:
                raise Displaced(str(error)) from error
            raise explained(error, action, self._options) from error
        try:
            producer.commit_by(time.monotonic() + self._options.request_timeout_s)
        except Exception as error:
            self.broken = True
            if isinstance(error, _FENCED):
                raise Displaced(str(error)) from error
            raise Unresolved(str(error)) from error

    def _abort(self, deadline: float) -> None:
        try:
            self._producer.abort_by(max(deadline, time.monotonic() + _CLOSE_S))
        except Exception:  # noqa: BLE001 - the next producer with this id ends the open transaction
            self.broken = True

    def close(self) -> None:
        """Close everything."""
        self._producer.give_back()


class Appender:
    """Appends records at least once, in order. Safe to use from several threads; connects on first use."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._shared: SharedClient[_Producer] = SharedClient(options, lambda producer: producer.give_back())

    def append(self, records: Sequence[Raw], asked: str) -> None:
        """Append records, and return when all are on as many brokers as the topic requires."""
        producer = self._shared.get(asked, lambda: _producer(self._options, asked, "laggard"))
        deadline = time.monotonic() + self._options.request_timeout_s + _CLOSE_S
        try:
            sent = [producer.send_raw(record) for record in records]
            for future in sent:
                future.get(timeout=max(0.0, deadline - time.monotonic()))
        except Exception as error:
            # Its queued records must not be sent later, after they are appended again.
            self._shared.discard(producer)
            if isinstance(error, kafka_errors.KafkaTimeoutError):
                waited = f"the brokers have not acknowledged it for {self._options.request_timeout_s:g} s"
                raise BusUnavailable(f"{location(self._options)}: cannot {asked} for now: {waited}") from error
            raised = explained(error, asked, self._options)
            if not isinstance(raised, BusUnavailable) and len(records) > 1:
                kind = Refused if isinstance(raised, Refused) else BusError
                raised = kind(f"{raised}; of {len(records)} records some may have been appended")
            raise raised from error

    def close(self) -> None:
        """Close the connections."""
        self._shared.close()


class _Producer(KafkaProducer):  # type: ignore[misc] # kafka-python has no types
    """kafka-python's producer, whose own waits for the end of a transaction have no limit."""

    def send_raw(self, record: Raw) -> Any:
        """Send a record, and return its future."""
        topic, partition, key, value, ts_ms, headers = record
        return self.send(topic, value, key, headers, partition, ts_ms)

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], token: object, deadline: float) -> None:
        """Add a group's offsets to the transaction."""
        result = self._transaction_manager.send_offsets_to_transaction(dict(offsets), token)
        self._wait(result, deadline, "no answer to the offsets of a transaction")

    def flush_by(self, deadline: float) -> None:
        """Wait until all sent records have arrived, or failed."""
        self.flush(timeout=max(0.001, deadline - time.monotonic()))

    def commit_by(self, deadline: float) -> None:
        """Commit the transaction."""
        self._wait(self._transaction_manager.begin_commit(), deadline, "no answer to the end of a transaction")

    def abort_by(self, deadline: float) -> None:
        """Abort the transaction."""
        self._wait(self._transaction_manager.begin_abort(), deadline, "no answer to the abort of a transaction")

    def _wait(self, result: Any, deadline: float, what: str) -> None:
        self._sender.wakeup()
        if not result.wait(timeout_ms=max(1.0, (deadline - time.monotonic()) * 1000)):
            raise kafka_errors.KafkaTimeoutError(what)

    @property
    def is_fenced(self) -> bool:
        """Whether another producer has this one's transactional id."""
        return isinstance(self._transaction_manager.last_error, _FENCED)

    def give_back(self) -> None:
        """Close without waiting for an open transaction."""
        self._sender.force_close()
        self._sender.join(_CLOSE_S)
        with suppress(Exception):
            self.close(timeout=0)
        self._closed = True
