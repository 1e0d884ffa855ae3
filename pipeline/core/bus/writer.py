"""Writing of the embedded bus: records and snapshots are checked, packed, and stored after older ones are trimmed."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import MOST_AHEAD_S, Refused
from laggard.pipeline.core.bus.log import PackedRecord, insert, pack_headers
from laggard.pipeline.core.bus.packing import MAX_VALUE_BYTES, pack
from laggard.pipeline.core.bus.partitioner import partition_number
from laggard.pipeline.core.bus.schema import PAGE_BYTES
from laggard.pipeline.core.bus.trimming import expire, make_room

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from laggard.pipeline.core.bus import Outgoing, Snapshot
    from laggard.pipeline.core.bus.database import Database
    from laggard.pipeline.core.bus.topic_ids import TopicIds

_EXPIRE_EVERY_S: Final = 10.0
_EXPIRE_BATCH: Final = 256
_TRANSACTION_PAGES: Final = 16  # changed by any transaction: inner pages of trees, the map of pages
_ROW_BYTES: Final = 128  # of a record in addition to its value: its row, its part of two indexes


class Writer:
    """Writes to the file in the transactions of others.

    Parameters:
        database: the file.
        topics: its topics.
        retention_s, clock: see `EmbeddedBus`.

    """

    def __init__(
        self, database: Database, topics: TopicIds, retention_s: float | None, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._topics = topics
        self._retention_s = retention_s
        self._clock = clock
        self._expired_at = -math.inf

    def pack(self, records: Sequence[Outgoing]) -> list[PackedRecord]:
        """Check and compress records, before the file is locked."""
        return [self._pack(record) for record in records]

    def _pack(self, record: Outgoing) -> PackedRecord:
        topic = self._topics.topic(record.topic)
        self._check(f"a record for {record.topic}", record.key, record.ts, record.value)
        return PackedRecord(
            topic.ids[partition_number(record.key, len(topic.ids))],
            topic.compacted,
            record.key,
            min(record.ts, time.time() + MOST_AHEAD_S),
            len(record.value),
            pack_headers(record.headers),
            pack(record.value),
        )

    def pack_snapshots(self, snapshots: Sequence[Snapshot]) -> list[tuple[Snapshot, bytes]]:
        """Check and compress snapshots likewise."""
        for snapshot in snapshots:
            self._check(f"a snapshot of {snapshot.operator}", snapshot.key, snapshot.ts, snapshot.value)
        return [(snapshot, pack(snapshot.value)) for snapshot in snapshots]

    def _check(self, what: str, key: str, ts: float, value: bytes) -> None:
        if not math.isfinite(ts):
            raise Refused(f"{self._database.path}: {what}: expected a finite time, got {ts}")
        if len(value) > MAX_VALUE_BYTES:
            raise Refused(f"{self._database.path}: {what}: expected at most {MAX_VALUE_BYTES} bytes, got {len(value)}")
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise Refused(
                f"{self._database.path}: {what}: expected a key of Unicode characters, got {key!r}"
            ) from error

    def write(
        self,
        connection: sqlite3.Connection,
        records: Sequence[PackedRecord],
        snapshots: Sequence[tuple[Snapshot, bytes]],
    ) -> None:
        """Trim, then write records, and snapshots with their packed values, in the open transaction."""
        now = self._clock()
        sizes = [len(record.value) + len(record.headers or "") for record in records]
        sizes += [len(packed) for _, packed in snapshots]
        self._trim(connection, now, sizes)
        insert(connection, records, now)
        connection.executemany(
            "INSERT OR REPLACE INTO snapshots (operator, partition, key, next_offset, ts, appended, size, value) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (s.operator, self._topics.partition_id(s.partition), s.key, s.offset, s.ts, now, len(s.value), packed)
                for s, packed in snapshots
            ],
        )

    def _trim(self, connection: sqlite3.Connection, now: float, sizes: Sequence[int]) -> None:
        # A clock that steps back must not suspend retention.
        if abs(now - self._expired_at) >= _EXPIRE_EVERY_S:
            most = max(_EXPIRE_BATCH, 2 * len(sizes))
            if expire(connection, now, self._retention_s, most) < most:
                self._expired_at = now
        # Short values share a page; a long one fills whole pages.
        pages = sum((size + _ROW_BYTES) / PAGE_BYTES + (size > PAGE_BYTES // 4) for size in sizes)
        needed = math.ceil(pages) + _TRANSACTION_PAGES
        # Until the next checkpoint the new pages are in the log, too.
        allowed = self._database.max_pages - max(0, needed - self._database.wal_bytes // PAGE_BYTES // 2)
        if needed > allowed:
            raise Refused(
                f"{self._database.path}: {sum(sizes)} bytes at once are too much for a bus bounded to "
                f"{self._database.max_bytes}"
            )
        make_room(connection, needed, allowed, now=now, retention_s=self._retention_s)
