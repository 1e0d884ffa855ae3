"""librdkafka's consumers: their construction, and their messages."""

# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from kafka import errors as kafka_errors

from laggard.pipeline.core.bus import DamagedRecord, Partition
from laggard.pipeline.core.bus.kafka.errors import unreachable
from laggard.pipeline.core.bus.kafka.librdkafka_errors import bus_error, settings
from laggard.pipeline.core.bus.kafka.wire import incoming

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

    from laggard.pipeline.core.bus import Incoming
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

AHEAD_KB: Final = 16 << 10
"""The most KiB of records that wait for a poll; records in flight come on top of it."""

_FETCH_BYTES: Final = 1 << 20
"""The most bytes of one partition at once, or one record if that is larger. Larger ones are slower: they need fresh
memory."""

SLICE_S: Final = 0.1
"""Waits are cut into slices of this length, in seconds, so that librdkafka's reports are noticed meanwhile."""

_FETCH_WAIT_MS: Final = 250
_FETCH_AGAIN_MS: Final = 5
"""The pause for a full queue. librdkafka's own second leaves a fast reader without records for most of it."""

_FETCH_BACKOFF_MS: Final = 50

ANY_TOPIC: Final = "laggard"
"""The topic of requests that only need an answer, which is short for any number of topics. librdkafka's `cluster_id`
sometimes waits for a whole second."""

DAMAGED: Final = frozenset((KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._UNDERFLOW))
"""librdkafka's errors for unparseable records."""

_PASSING: Final = frozenset(
    (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.UNKNOWN_MEMBER_ID,
    )
)


_headers_of: Final[Callable[[Message], Any]] = methodcaller("headers")
"""Reads headers. For a name that is not UTF-8, confluent-kafka returns a list with a hole, and also sets an error. In a
direct call Python may overlook the error, and access to the hole crashes the process. In this call it checks."""


def consumer_of(options: KafkaOptions, asked: str, client_id: str, own: dict[str, Any]) -> Consumer:
    """Make a consumer with its own settings, and wait for a broker. Raises BusUnavailable, BusError."""
    config = settings(options, client_id) | {
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "check.crcs": True,
        "fetch.wait.max.ms": _FETCH_WAIT_MS,
        "fetch.queue.backoff.ms": _FETCH_AGAIN_MS,
        "fetch.error.backoff.ms": _FETCH_BACKOFF_MS,
        "max.partition.fetch.bytes": _FETCH_BYTES,
        "queued.max.messages.kbytes": AHEAD_KB,
    }
    try:
        consumer = Consumer(config | own)
    except Exception as error:
        raise bus_error(error, asked, options) from error
    # The constructor sends no request; this waits for a broker.
    try:
        consumer.list_topics(ANY_TOPIC, options.request_timeout_s)
    except KafkaException as error:
        consumer.close()
        silent = kafka_errors.KafkaTimeoutError(f"no broker has answered for {options.request_timeout_s:g} s")
        raise unreachable(silent, asked, options) from error
    return consumer


def arrived(consumer: Consumer, timeout_s: float, most: int) -> list[Message]:
    """Return the messages that have arrived; if none has, wait for the first."""
    found = consumer.consume(most, 0.0)
    if found or not timeout_s:
        return found
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *consumer.consume(most - 1, 0.0)] if most > 1 else [first]


def incoming_of(message: Message, partition: Partition) -> Incoming:
    """Return the record of a message. Raises DamagedRecord if the names of its headers are not text."""
    try:
        headers = _headers_of(message)
    except SystemError as error:
        raise DamagedRecord(partition, offset_of(message), str(error.__cause__ or error)) from error
    return incoming(partition, offset_of(message), message.key(), message.value(), message.timestamp()[1], headers)


def offset_of(message: Message) -> int:
    """Return the offset of a message; -1 for an error without one."""
    offset = message.offset()
    return -1 if offset is None else offset


def partition_of(message: Message) -> Partition:
    """Return the partition of a message, or of its error."""
    return Partition(message.topic() or "", message.partition() or 0)


def passing(error: KafkaError) -> bool:
    """Return whether librdkafka recovers from the error by itself. The caller detects a lasting silence."""
    return error.retriable() or error.code() in _PASSING
