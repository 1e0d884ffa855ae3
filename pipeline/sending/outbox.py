"""Between a producer and a bus on this machine: records wait here while that is unavailable for now."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Protocol

from laggard.pipeline.bus import BusError, BusUnavailable, Outgoing
from laggard.pipeline.engine.publishing import outgoing_diagnosis
from laggard.pipeline.records import Frame, Mark, Request, encode
from laggard.pipeline.records.diagnosis import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Sequence

Published = Frame | Mark | Diagnosis | Request
"""What agents and the other producers publish."""

MAX_BYTES = 16 << 20
"""What may wait: some minutes of a busy host at one tick a second."""

logger = logging.getLogger(__name__)


class Appends(Protocol):
    """What records are appended to: a bus, or what stands before one."""

    def append(self, records: Sequence[Outgoing]) -> None:
        """See `Bus.append`."""


class Outbox:
    """Appends records to one topic, in the order in which they were published.

    While the bus is unavailable they wait, and are tried again with the next ones; that is logged when it begins and
    when it ends. For one thread at a time.

    Args:
        bus: where they go.
        topic: the full name of the topic.
        max_bytes: how much may wait; beyond that the oldest publication is dropped and counted.
        name: what the bus is called in the log.

    Attributes:
        waiting: how many records wait.
        waiting_bytes: how much that is.
        dropped: how many records were dropped.

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
        """Append what still waits, and these after it.

        Raises:
            BusError: the bus will not take them at all; they are not kept.
            RecordError: one of them cannot be written.

        """
        batch = [_outgoing(self._topic, record) for record in records]
        self._batches.append(batch)
        self.waiting += len(batch)
        self.waiting_bytes += _size(batch)
        self.flush()
        while self.waiting_bytes > self._max_bytes:
            self.dropped += len(self.take())

    def flush(self) -> None:
        """Append what waits, as far as the bus is available. Raises what `publish` does."""
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
        """Give up the oldest publication that waits, for whoever brings it on another way; empty where none waits."""
        if not self._batches:
            return []
        batch = self._batches.popleft()
        self.waiting -= len(batch)
        self.waiting_bytes -= _size(batch)
        return batch

    def put_back(self, batch: list[Outgoing]) -> None:
        """Let what was taken last wait again, before all else."""
        if batch:
            self._batches.appendleft(batch)
            self.waiting += len(batch)
            self.waiting_bytes += _size(batch)

    def close(self) -> None:
        """Append what waits, and say what is lost because the bus is still unavailable. Raises what `publish` does."""
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
