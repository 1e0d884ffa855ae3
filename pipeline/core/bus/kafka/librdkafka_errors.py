"""librdkafka's settings, and its errors as those of kafka-python, which the rest of the Kafka bus uses."""

# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException
from kafka import errors as kafka_errors

from laggard.pipeline.core.bus.kafka.connection import RECONNECT_MAX_MS, RETRY_BACKOFF_MS, milliseconds
from laggard.pipeline.core.bus.kafka.errors import explained
from laggard.pipeline.core.bus.kafka.security import librdkafka_security

if TYPE_CHECKING:
    from laggard.pipeline.core.bus import BusError
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

# librdkafka's own errors have negative codes; the others are the protocol's.
_OWN: Final = {
    KafkaError._ALL_BROKERS_DOWN: kafka_errors.KafkaConnectionError,
    KafkaError._AUTHENTICATION: kafka_errors.SaslAuthenticationFailedError,
    KafkaError._BAD_COMPRESSION: kafka_errors.UnsupportedCodecError,
    KafkaError._BAD_MSG: kafka_errors.CorruptRecordError,
    KafkaError._FENCED: kafka_errors.ProducerFencedError,
    KafkaError._GAPLESS_GUARANTEE: kafka_errors.OutOfOrderSequenceNumberError,
    KafkaError._INVALID_ARG: kafka_errors.KafkaConfigurationError,
    KafkaError._MSG_TIMED_OUT: kafka_errors.KafkaTimeoutError,
    KafkaError._PURGE_INFLIGHT: kafka_errors.TransactionAbortedError,
    KafkaError._PURGE_QUEUE: kafka_errors.TransactionAbortedError,
    KafkaError._QUEUE_FULL: kafka_errors.KafkaTimeoutError,
    KafkaError._RESOLVE: kafka_errors.KafkaConnectionError,
    KafkaError._SSL: kafka_errors.KafkaConnectionError,
    KafkaError._STATE: kafka_errors.KafkaTimeoutError,
    KafkaError._TIMED_OUT: kafka_errors.KafkaTimeoutError,
    KafkaError._TIMED_OUT_QUEUE: kafka_errors.KafkaTimeoutError,
    KafkaError._TRANSPORT: kafka_errors.KafkaConnectionError,
    KafkaError._UNKNOWN_PARTITION: kafka_errors.UnknownTopicOrPartitionError,
    KafkaError._UNKNOWN_TOPIC: kafka_errors.UnknownTopicOrPartitionError,
    KafkaError._WAIT_CACHE: kafka_errors.KafkaTimeoutError,
    KafkaError._WAIT_COORD: kafka_errors.CoordinatorNotAvailableError,
}


def settings(options: KafkaOptions, client_id: str) -> dict[str, Any]:
    """Return the settings of every librdkafka client. Raises BusError for unusable files in the options."""
    return librdkafka_security(options) | {
        "bootstrap.servers": ",".join(options.bootstrap),
        "client.id": client_id,
        "socket.timeout.ms": milliseconds(options.request_timeout_s),
        "reconnect.backoff.max.ms": RECONNECT_MAX_MS,
        "retry.backoff.ms": RETRY_BACKOFF_MS,
        "allow.auto.create.topics": False,
        "statistics.interval.ms": 0,
        "logger": _quiet(),
        # Without a function, librdkafka writes these to standard error.
        "error_cb": lambda _: None,
    }


def translated(error: Exception) -> Exception:
    """Return the error of kafka-python for one of librdkafka; any other unchanged."""
    match error:
        case KafkaException(args=[KafkaError() as said, *_]):
            code = said.code()
            kind = kafka_errors.for_code(code) if code > 0 else _OWN.get(code, kafka_errors.KafkaError)
            same: Exception = kind(said.str())
            return same
        case BufferError():
            return TimeoutError("the queue of what is to be sent is full")
    return error


def code_of(error: Exception) -> int | None:
    """Return the code of an error of librdkafka; None for any other."""
    match error:
        case KafkaException(args=[KafkaError() as said, *_]):
            return said.code()
    return None


def bus_error(error: Exception, asked: str, options: KafkaOptions) -> BusError:
    """Return the error as the bus raises it."""
    return explained(translated(error), asked, options)


def _quiet() -> logging.Logger:
    """Return a logger that hides the client's warnings from a user's terminal, unless its level was set beforehand."""
    logger = logging.getLogger("confluent_kafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL + 1)
    return logger
