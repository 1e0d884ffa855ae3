"""The queue between a producer and a bus on this machine: records wait here while the bus is unavailable."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Protocol

from laggard.pipeline.core.bus import BusError, BusUnavailable, Outgoing
from laggard.pipeline.core.engine.publishing import outgoing_diagnosis
from laggard.pipeline.core.records import Frame, Mark, Request, encode
from laggard.pipeline.core.records.diagnosis import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Sequence

Published = Frame | Mark | Diagnosis | Request
"""The records that agents and other producers publish."""

MAX_BYTES = 16 << 20
"""The most bytes that wait: some minutes of a busy host at one tick per second."""

logger = logging.getLogger(__name__)


class Appends(Protocol):
    """The target of records: a bus, or a queue before one."""

    def append(self, records: Sequence[Outgoing]) -> None:
        """See `Bus.append`."""


class Outbox:
    """Appends records to one topic, in the order of their publication.

    While the bus is unavailable they wait, and are tried again with the next ones. The log reports the beginning and
    the end of this. For one thread at a time.

    Args:
        bus: the target.
        topic: the full name of the topic.
        max_bytes: the most bytes that wait; beyond, the oldest publication is dropped and counted.
        name: the name of the bus in the log.

    Attributes:
        waiting: the number of records that wait.
        waiting_bytes: their size.
        dropped: the number of dropped records.

    """

    def __init__(self, bus: Appends, topic: str, max_bytes: int = MAX_BYTES, name: str = "the bus") -> None:
        self.waiting = 0
        self.waiting_bytes = 0
        self.dropped = 0
        self._bus = bus
        self._topic = topic
        self._max_bytes = max_bytes
        self._name = name
        self._batches: deque[list[Outgoing]] = deque()
        self._unavailable = False

    def publish(self, records: Sequence[Published]) -> None:
        """Append the records that still wait, then these.

        Raises:
            BusError: the bus rejects a publication, which is dropped; later ones wait.
            RecordError: one of these records cannot be encoded.

        """
        batch = [_outgoing(self._topic, record) for record in records]
        self._batches.append(batch)
        self.waiting += len(batch)
        self.waiting_bytes += _size(batch)
        self.flush()
        while self.waiting_bytes > self._max_bytes:
            self.dropped += len(self.take())

    def flush(self) -> None:
        """Append the waiting records until the bus is unavailable. Raises what `publish` does."""
        try:
            while self._batches:
                self._bus.append(self._batches[0])
                self.take()
        except BusUnavailable as error:
            if not self._unavailable:
                logger.warning("%s; what is published waits in memory until then", error)
            self._unavailable = True
        except BusError:
            self.dropped += len(self.take())
            raise
        else:
            if self._unavailable:
                logger.warning("%s is available again; %d records were dropped so far", self._name, self.dropped)
            self._unavailable = False

    def take(self) -> list[Outgoing]:
        """Remove and return the oldest waiting publication, to send it another way; empty if none waits."""
        if not self._batches:
            return []
        batch = self._batches.popleft()
        self.waiting -= len(batch)
        self.waiting_bytes -= _size(batch)
        return batch

    def put_back(self, batch: list[Outgoing]) -> None:
        """Put the publication that `take` returned last back to the front."""
        if batch:
            self._batches.appendleft(batch)
            self.waiting += len(batch)
            self.waiting_bytes += _size(batch)

    def close(self) -> None:
        """Append the waiting records, and log the loss if the bus is still unavailable. Raises what `publish` does."""
        self.flush()
        if self.waiting:
            logger.warning("%s is still unavailable; %d records that waited for it are lost", self._name, self.waiting)


def _outgoing(topic: str, record: Published) -> Outgoing:
    if isinstance(record, Diagnosis):
        return outgoing_diagnosis(record, topic)
    return Outgoing(topic, _key(record), encode(record), record.ts)


def _key(record: Frame | Mark | Request) -> str:
    match record:
        case Frame():
            return record.key
        case Request():
            return record.service
    return record.host


def _size(batch: Sequence[Outgoing]) -> int:
    return sum(len(record.value) for record in batch)
