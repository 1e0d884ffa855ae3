"""Between a producer and the bus: records wait here while the bus is unavailable for now."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from laggard.pipeline.bus import BusError, BusUnavailable, Outgoing
from laggard.pipeline.records import Frame, Mark, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.bus import Bus

MAX_BYTES = 16 << 20
"""What may wait: some minutes of a busy host at one tick a second."""

logger = logging.getLogger(__name__)


class Outbox:
    """Appends records to one topic, in the order in which they were published.

    While the bus is unavailable they wait, and are tried again with the next ones; that is logged when it begins and
    when it ends.

    Args:
        bus: where they go.
        topic: the full name of the topic.
        max_bytes: how much may wait; beyond that the oldest publication is dropped and counted.

    Attributes:
        waiting_bytes: how much waits.
        dropped: how many records were dropped.

    """

    def __init__(self, bus: Bus, topic: str, max_bytes: int = MAX_BYTES) -> None:
        self.waiting_bytes = 0
        self.dropped = 0
        self._bus = bus
        self._topic = topic
        self._max_bytes = max_bytes
        self._waiting: deque[list[Outgoing]] = deque()
        self._unavailable = False

    def publish(self, records: Sequence[Frame | Mark]) -> None:
        """Append what still waits, and these after it.

        Raises:
            BusError: the bus will not take them at all; they are not kept.

        """
        batch = [
            Outgoing(self._topic, record.key if isinstance(record, Frame) else record.host, encode(record), record.ts)
            for record in records
        ]
        self._waiting.append(batch)
        self.waiting_bytes += _size(batch)
        self.flush()
        while self.waiting_bytes > self._max_bytes:
            self.dropped += len(self._first())

    def flush(self) -> None:
        """Append what waits, as far as the bus is available. Raises what `publish` does."""
        try:
            while self._waiting:
                self._bus.append(self._waiting[0])
                self._first()
        except BusUnavailable as error:
            if not self._unavailable:
                logger.warning("%s; what is published waits in memory until then", error)
            self._unavailable = True
        except BusError:
            self.dropped += len(self._first())
            raise
        else:
            if self._unavailable:
                logger.warning("the bus is available again; %d records were dropped so far", self.dropped)
            self._unavailable = False

    def close(self) -> None:
        """Append what waits, and say what is lost because the bus is still unavailable. Raises what `publish` does."""
        self.flush()
        if lost := sum(map(len, self._waiting)):
            logger.warning("the bus is still unavailable; %d records that waited for it are lost", lost)

    def _first(self) -> list[Outgoing]:
        batch = self._waiting.popleft()
        self.waiting_bytes -= _size(batch)
        return batch


def _size(batch: Sequence[Outgoing]) -> int:
    return sum(len(record.value) for record in batch)
