"""Reads partitions outside of any group through librdkafka."""

# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from laggard.pipeline.core.bus import DamagedRecord
from laggard.pipeline.core.bus.kafka.librdkafka_consumer import (
    DAMAGED,
    SLICE_S,
    arrived,
    consumer_of,
    incoming_of,
    offset_of,
    passing,
)
from laggard.pipeline.core.bus.kafka.librdkafka_errors import bus_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.bus import Incoming, Partition
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

_AT_ONCE: Final = 500

_FETCH_WAIT_MS: Final = 20
"""The time that brokers wait for records, in ms: those to read exist, and the next partition waits for this answer."""


class LibrdkafkaReader:
    """Reads one partition after the other."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        # librdkafka needs the name of a group, which is never joined: partitions are assigned explicitly.
        own = {
            "group.id": f"{options.prefix}readers",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": _FETCH_WAIT_MS,
        }
        self._consumer = consumer_of(options, "open a reader", "laggard", own)
        self._at: tuple[Partition, int] | None = None  # where the consumer continues

    def fetch(self, partition: Partition, position: int, timeout_s: float) -> tuple[Sequence[Incoming], int]:
        """Return records from this position on, and the position after them."""
        try:
            if self._at != (partition, position):
                self._consumer.assign([TopicPartition(*partition, position)])
            self._at = None
            records, after, sound = self._fetch(partition, position, time.monotonic() + timeout_s)
        except KafkaException as error:
            raise bus_error(error, f"read {partition.topic}[{partition.number}]", self._options) from error
        if sound:
            self._at = partition, after
        return records, after

    def _fetch(self, partition: Partition, position: int, deadline: float) -> tuple[list[Incoming], int, bool]:
        """Fetch like `fetch`, and also return whether the consumer continues there by itself."""
        records: list[Incoming] = []
        after = position
        while True:
            left = max(0.0, deadline - time.monotonic())
            for message in arrived(self._consumer, min(left, SLICE_S), _AT_ONCE):
                error = message.error()
                if error is None:
                    try:
                        records.append(incoming_of(message, partition))
                    except DamagedRecord:
                        if not records:
                            raise
                        return records, after, False  # the next call meets it again, and raises it
                    after = offset_of(message) + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    after = max(after, offset_of(message))
                elif error.code() in DAMAGED:
                    if not records:
                        raise DamagedRecord(partition, max(position, offset_of(message)), error.str())
                    return records, after, False  # the next call meets it again, and raises it
                elif not passing(error) and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                    raise KafkaException(error)
            if after != position or not left:
                return records, after, True

    def rest(self) -> None:
        """Fetch nothing until the next call of `fetch`: librdkafka would continue to fetch."""
        self._at = None
        with suppress(KafkaException):
            self._consumer.unassign()

    def close(self) -> None:
        """Close everything."""
        with suppress(Exception):
            self._consumer.close()
