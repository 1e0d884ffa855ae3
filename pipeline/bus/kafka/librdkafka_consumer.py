"""librdkafka's consumers: how they are made, and what they bring."""

# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from kafka import errors as kafka_errors

from laggard.pipeline.bus import DamagedRecord, Partition
from laggard.pipeline.bus.kafka.errors import unreachable
from laggard.pipeline.bus.kafka.librdkafka_errors import settings, told
from laggard.pipeline.bus.kafka.wire import incoming

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

    from laggard.pipeline.bus import Incoming
    from laggard.pipeline.bus.kafka.options import KafkaOptions

AHEAD_KB: Final = 16 << 10
"""What waits to be polled at most; what is under way comes on top of it."""

_FETCH_BYTES: Final = 1 << 20
"""Of one partition at once, or one record where that is larger. Larger ones are slower: they take fresh memory."""

SLICE_S: Final = 0.1
"""A wait is cut into these, so that what librdkafka tells meanwhile is noticed."""

_FETCH_WAIT_MS: Final = 250
_FETCH_AGAIN_MS: Final = 5
"""How long a full queue is left alone. librdkafka's own second leaves a fast reader without records for most of it."""

_FETCH_BACKOFF_MS: Final = 50

ANY_TOPIC: Final = "laggard"
"""Asked about for the answer alone, which is short however many topics there are. librdkafka's `cluster_id` waits for
a whole second now and then."""

DAMAGED: Final = frozenset((KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._UNDERFLOW))
"""What librdkafka says of records that cannot be parsed."""

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
"""For a name that is no UTF-8 confluent-kafka gives a list with a hole, and an error besides. Called directly, Python
may overlook the error, and to touch the hole ends the process; called in this way, it looks."""


def consumer_of(options: KafkaOptions, asked: str, client_id: str, own: dict[str, Any]) -> Consumer:
    """Make one with settings of its own, and wait until a broker has answered. Raises BusUnavailable, BusError."""
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
        raise told(error, asked, options) from error
    # Making one asks nobody; this waits for a broker.
    try:
        consumer.list_topics(ANY_TOPIC, options.request_timeout_s)
    except KafkaException as error:
        consumer.close()
        silent = kafka_errors.KafkaTimeoutError(f"no broker has answered for {options.request_timeout_s:g} s")
        raise unreachable(silent, asked, options) from error
    return consumer


def arrived(consumer: Consumer, timeout_s: float, most: int) -> list[Message]:
    """What is there; if nothing is, wait for the first."""
    found = consumer.consume(most, 0.0)
    if found or not timeout_s:
        return found
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *consumer.consume(most - 1, 0.0)] if most > 1 else [first]


def incoming_of(message: Message, partition: Partition) -> Incoming:
    """The record that the message is. Raises DamagedRecord where the names of its headers are no text."""
    try:
        headers = _headers_of(message)
    except SystemError as error:
        raise DamagedRecord(partition, offset_of(message), str(error.__cause__ or error)) from error
    return incoming(partition, offset_of(message), message.key(), message.value(), message.timestamp()[1], headers)


def offset_of(message: Message) -> int:
    """Its offset; -1 for an error that is about none."""
    offset = message.offset()
    return -1 if offset is None else offset


def partition_of(message: Message) -> Partition:
    """Where the message is from, or what its error is about."""
    return Partition(message.topic() or "", message.partition() or 0)


def passing(error: KafkaError) -> bool:
    """Whether librdkafka mends it by itself. A silence that lasts is found out above the seam."""
    return error.retriable() or error.code() in _PASSING
