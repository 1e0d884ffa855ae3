"""The queue of an agent's records for a bus on the network, in order: in a bounded file, or in memory if necessary.

The file is an embedded bus with one topic. A record leaves it after the bus has acknowledged it, so a crash at any
moment loses nothing in the file. Records that were acknowledged just before a crash are sent again; readers detect them
by their sequence numbers. If the disk is full, records wait in memory, and are sent from there.
"""

from __future__ import annotations

import logging
import threading
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusError, BusUnavailable, DamagedRecord, Incoming, Outgoing, Partition, TopicSpec
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.sqlite_errors import DamagedFile
from laggard.pipeline.core.engine.namesakes import RUN_HEADER
from laggard.pipeline.core.sending.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from laggard.pipeline.core.sending.outbox import Published

BATCH_BYTES: Final = 4 << 20
"""A batch from the file ends with the record that reaches this size: a bound on the memory for catching up."""

BATCH_RECORDS: Final = 500

_TOPIC: Final = "spool"
_PARTITION: Final = Partition(_TOPIC, 0)
_BUSY_S: Final = 2.0

_logger = logging.getLogger(__name__)


class Spool:
    """Records of one producer that wait for a bus. Safe to use from several threads; only one of them may take records.

    Args:
        path: the path of the file, which no other process uses.
        max_bytes: the maximum size of the file; beyond it the oldest records are dropped and counted.
        retention_s: the longest time that a record may wait, in seconds.
        topic: the full name of the target topic on the bus.

    Attributes:
        path: the path of the file.
        news: set when there may be records to take.

    Raises BusError for an unusable file. A damaged file is renamed, and replaced by a new one. A temporarily
    unavailable file is opened later.

    """

    def __init__(self, path: Path, max_bytes: int, retention_s: float, topic: str) -> None:
        self.path = path
        self.news = threading.Event()
        self._max_bytes = max_bytes
        self._retention_s = retention_s
        self._topic = topic
        self._run = (RUN_HEADER, uuid.uuid4().hex[:16].encode())
        self._lock = threading.Lock()
        self._outbox = Outbox(self, _TOPIC, name=f"the spool {path}")
        self._bus: EmbeddedBus | None = None
        self._position = 0  # the records before this offset were taken
        self._taken = 0
        self._lent: list[Outgoing] = []  # the taken records that are in no file
        self._lost = 0
        self._overflowing = False
        self._unreadable = False
        with suppress(BusUnavailable):
            self._opened()

    def publish(self, records: Sequence[Published]) -> None:
        """Queue the records of a tick. Waits only for the disk. Raises BusError if they cannot be stored."""
        with self._lock:
            self._outbox.publish(records)
            self._recount()
        self.news.set()

    def append(self, records: Sequence[Outgoing]) -> None:
        """Write records to the file, for the outbox; see `Bus.append`."""
        try:
            self._opened().append(records)
        except DamagedFile as error:
            self._put_aside(error)
            self._opened().append(records)

    def take(self) -> list[Outgoing]:
        """Return the oldest records for the bus; empty if none wait. They stay in the file until `sent` is called.

        Records in memory were published later than those in the file, so they come after them. A temporarily
        unreadable file holds them back; a file that could not be opened yet does not.
        """
        with self._lock:
            try:
                found: Sequence[Incoming | Outgoing] = self._read()
            except BusError as error:
                if self._bus is not None:
                    self._log_unreadable(error)
                    return []
                found = []
            self._unreadable = False
            if not found:
                found = self._lent = self._outbox.take()
            self._taken = len(found)
            if not found and self._overflowing:
                self._overflowing = False
                _logger.warning("the spool %s is empty again; %d records were dropped so far", self.path, self.dropped)
            return [Outgoing(self._topic, each.key, each.value, each.ts, (*each.headers, self._run)) for each in found]

    def sent(self) -> None:
        """Delete the taken records, which have arrived."""
        with self._lock, suppress(BusError):  # after an error the next call deletes them
            self._taken, self._lent = 0, []
            if self._bus is not None:
                self._bus.discard(_PARTITION, self._position)

    @property
    def waiting(self) -> int:
        """The number of records that have not arrived yet."""
        with self._lock:
            return self._taken + self._recount() + self._outbox.waiting

    @property
    def dropped(self) -> int:
        """The number of records that were lost since this process began: over the size limit, too old, or damaged."""
        return self._outbox.dropped + self._lost

    def close(self) -> int:
        """Write the records in memory to the file, or log their loss; return the number that stays in the file."""
        with self._lock, suppress(BusError):
            in_file = 0 if self._lent else self._taken
            self._outbox.put_back(self._lent)
            self._outbox.close()
            if self._bus is not None:
                in_file += self._recount()
                self._bus.close()
                return in_file
        return 0

    def _opened(self) -> EmbeddedBus:
        if self._bus is None:
            bus = self._open()
            self._position = bus.bounds(_PARTITION)[0]
            self._bus = bus
        return self._bus

    def _open(self) -> EmbeddedBus:
        try:
            return self._made()
        except DamagedFile as error:
            self._put_aside(error)
            return self._made()

    def _made(self) -> EmbeddedBus:
        bus = EmbeddedBus(self.path, self._max_bytes, self._retention_s, busy_timeout_s=_BUSY_S)
        bus.create([TopicSpec(_TOPIC)])
        return bus

    def _put_aside(self, error: DamagedFile) -> None:
        aside = self.path.with_name(f"{self.path.name}.damaged")
        _logger.error("%s; its records are lost: it is moved to %s, and a new one is started", error, aside)
        if self._bus is not None:
            with suppress(BusError):
                self._bus.close()
            self._bus = None
        with suppress(OSError):
            self.path.replace(aside)
        for end in ("-wal", "-shm"):
            self.path.with_name(f"{self.path.name}{end}").unlink(missing_ok=True)

    def _read(self) -> list[Incoming]:
        found: list[Incoming] = []
        size, damaged = 0, True
        while damaged and not found:
            damaged = False
            try:
                bus = self._opened()
                self._recount()
                for record in bus.read(_PARTITION, self._position):
                    found.append(record)
                    size += len(record.value)
                    if size >= BATCH_BYTES or len(found) >= BATCH_RECORDS:
                        break
            except DamagedRecord as error:
                damaged = True
                if not found:
                    _logger.warning("%s; it is skipped", error)
                    self._lost += 1
                    self._position = error.offset + 1
            except DamagedFile as error:
                self._put_aside(error)
        if found:
            self._position = found[-1].offset + 1
        return found

    def _log_unreadable(self, error: BusError) -> None:
        if not self._unreadable:
            _logger.warning("%s; what waits in it is not sent until then", error)
        self._unreadable = True

    def _recount(self) -> int:
        """Count the records dropped unsent since the last call, and return the number that is left in the file."""
        if self._bus is None:
            return 0
        try:
            oldest, end = self._bus.bounds(_PARTITION)
        except BusError:
            return 0
        if oldest > self._position:
            self._lost += oldest - self._position
            self._position = oldest
            if not self._overflowing:
                self._overflowing = True
                _logger.warning(
                    "the spool %s is full, or its oldest records waited for too long: the oldest are dropped until the "
                    "bus takes them",
                    self.path,
                )
        return end - self._position
