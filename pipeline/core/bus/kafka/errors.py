"""Errors of brokers in laggard's words: which brokers, which operation, what to do. Never a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import errors as kafka_errors

from laggard.pipeline.core.bus import BusError, BusUnavailable, Refused
from laggard.pipeline.core.bus.kafka.denied import Denied, denied
from laggard.pipeline.core.bus.kafka.reaching import why_unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions


class Outdated(Exception):  # noqa: N818 - named for what it says
    """The group has a newer generation than this member: nothing was committed. Rejoin, then retry."""


class Displaced(Exception):  # noqa: N818
    """The brokers have fenced this member's producer: its open transaction is void.

    Another producer has taken its transactional id; or its own client raised the epoch after an error (KIP-360).
    """


class Unresolved(Exception):  # noqa: N818
    """There was no answer whether the transaction was committed."""


class Expelled(BusError):  # noqa: N818
    """The group has another member of this member's name (static membership): this one is void, and must rejoin.

    That is another worker of the same name; or this one itself, if the answer to its joining was lost.
    """


_UNAVAILABLE = (
    kafka_errors.RetriableError,
    kafka_errors.UnknownBrokerIdError,
    kafka_errors.BrokerNotAvailableError,
    kafka_errors.OutOfOrderSequenceNumberError,
    kafka_errors.UnknownProducerIdError,
    kafka_errors.InvalidProducerIdMappingError,
    kafka_errors.InvalidTxnStateError,
    kafka_errors.TransactionAbortedError,
    kafka_errors.QuotaViolationError,
    TimeoutError,
    OSError,
    RuntimeError,  # kafka-python: its event loop was closed while a call waited for it
)


def location(options: KafkaOptions) -> str:
    """Return the brokers in the form of a bus's location."""
    return "kafka://" + ",".join(options.bootstrap)


def named(partitions: Iterable[Partition]) -> str:
    """Return partitions in readable form: `laggard.counters[3]`."""
    return ", ".join(f"{topic}[{number}]" for topic, number in sorted(partitions))


def explained(error: BaseException, asked: str, options: KafkaOptions) -> BusError:  # noqa: PLR0911 - a table
    """Return the error as the bus raises it; `asked` is the failed operation: `append to laggard.counters`."""
    if isinstance(error, BusError):
        return error
    where = f"{location(options)}: cannot {asked}"
    match error:
        case kafka_errors.UnknownTopicOrPartitionError():
            return BusError(f"{where}: the topic does not exist; `laggard topics create` creates it")
        case kafka_errors.SaslAuthenticationFailedError():
            return BusError(f"{where}: the brokers refused the user or the password (kafka.username, kafka.password)")
        case kafka_errors.UnsupportedSaslMechanismError():
            return BusError(f"{where}: the brokers do not offer this kafka.sasl")
        case _ if lacks := denied(error, options):
            return Denied(f"{where}: {lacks}")
        case kafka_errors.MessageSizeTooLargeError() | kafka_errors.RecordListTooLargeError():
            return Refused(f"{where}: a record is larger than the topic's max.message.bytes")
        case kafka_errors.InvalidTimestampError():
            return Refused(
                f"{where}: the brokers do not take a record's time; check this machine's clock ({_reason(error)})"
            )
        case kafka_errors.InvalidSessionTimeoutError():
            return BusError(
                f"{where}: the brokers do not allow a kafka.session_timeout of {options.session_timeout_s:g} s; set it "
                "within their group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        case kafka_errors.UnsupportedVersionError():
            return BusError(f"{where}: expected brokers of Kafka 2.5 or newer ({_reason(error)})")
        # kafka-python has no better one for a producer that cannot continue; another producer may.
        case _ if isinstance(error, _UNAVAILABLE) or type(error) is kafka_errors.KafkaError:
            return BusUnavailable(f"{where} for now: {_reason(error)}")
    return BusError(f"{where}: {_reason(error)}")


def unreachable(error: Exception, asked: str, options: KafkaOptions) -> BusError:
    """Return the reason for the failure of the first connection; checks the brokers again to find it."""
    raised = explained(error, asked, options)
    if isinstance(raised, BusUnavailable):
        why = why_unreachable(options)
        if why is not None:
            return type(why)(f"{location(options)}: cannot {asked}: {why}")
    return raised


def _reason(error: BaseException) -> str:
    text = str(error).strip()
    name = type(error).__name__
    if not text:
        return name
    return text if text.startswith(name) else f"{name}: {text}"
