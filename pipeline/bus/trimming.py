"""What leaves the embedded bus, and when: by age, and by size with the oldest first.

What never leaves: the newest snapshot of each operator, partition and key, and the records of compacted topics, of
which each key has one. Everything runs inside of a write that is under way, in small batches, so that no write is long.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from laggard.pipeline.bus.database import PAGE_BYTES
from laggard.pipeline.bus.log import OFFSET_BITS, first_id

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_BATCH: Final = 64
_MOST: Final = 2048  # what one transaction deletes to become smaller, so that a lowered bound is met by and by

# A snapshot that a newer one of the same key stands beside.
_SUPERSEDED: Final = """
SELECT id, appended, length(value) FROM snapshots AS s WHERE next_offset < (
    SELECT max(next_offset) FROM snapshots AS n WHERE n.operator = s.operator AND n.partition = s.partition
    AND n.key = s.key) ORDER BY id LIMIT ?
"""


def expire(connection: sqlite3.Connection, now: float, retention_s: float | None, most: int) -> int:
    """Delete what has been there for longer than its topic's retention or the bus's. Returns how many.

    Age counts from when a record was appended, as with Kafka's log-append time: a producer whose clock is wrong can
    neither make the history vanish nor keep it for ever.
    """
    deleted = 0
    topics = connection.execute(
        "SELECT p.id, t.retention_s FROM partitions AS p JOIN topics AS t ON t.id = p.topic WHERE NOT t.compacted"
    ).fetchall()
    for partition, own in topics:
        limits = [limit for limit in (own, retention_s) if limit is not None]
        if limits:
            deleted += _delete_records(connection, partition, now - min(limits), most - deleted)
    if retention_s is not None:
        deleted += _delete_snapshots(connection, now - retention_s, most - deleted)
    return deleted


def discard(connection: sqlite3.Connection, partition: int, before: int) -> None:
    """Delete a partition's records before an offset."""
    ids = (first_id(partition), first_id(partition) + before)
    keys = connection.execute("SELECT DISTINCT key FROM records WHERE id >= ? AND id < ?", ids).fetchall()
    connection.execute("DELETE FROM records WHERE id >= ? AND id < ?", ids)
    _delete_unused(connection, {key for (key,) in keys})


def make_room(connection: sqlite3.Connection, pages: int, max_pages: int) -> None:
    """Delete the oldest, whatever topic it is of, until so many pages fit.

    When there is nothing left that may go, SQLite's own bound on the file refuses the write.
    """
    deleted = 0
    while deleted < _MOST:
        excess = _used_pages(connection) + pages - max_pages
        batch = _delete_oldest(connection, excess * PAGE_BYTES) if excess > 0 else 0
        if batch == 0:
            return
        deleted += batch


def _used_pages(connection: sqlite3.Connection) -> int:
    (length,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(length) - int(free)


def _delete_oldest(connection: sqlite3.Connection, excess: int) -> int:
    """A batch of what was appended first, only as far as no other log has anything older and as bytes are wanted."""
    heads: list[tuple[float, int | None]] = [
        (appended, partition)
        for partition, appended in connection.execute(
            "SELECT p.id, (SELECT appended FROM records WHERE id >= p.id << :bits AND id < (p.id + 1) << :bits "
            "ORDER BY id LIMIT 1) FROM partitions AS p JOIN topics AS t ON t.id = p.topic WHERE NOT t.compacted",
            {"bits": OFFSET_BITS},
        )
        if appended is not None
    ]
    heads += [(appended, None) for _, appended, _ in connection.execute(_SUPERSEDED, (1,))]
    if not heads:
        return 0
    heads.sort(key=lambda head: head[0])
    until = heads[1][0] if len(heads) > 1 else math.inf
    partition = heads[0][1]
    if partition is None:
        return _delete_snapshots(connection, until, _BATCH, excess)
    return _delete_records(connection, partition, until, _BATCH, excess)


def _delete_records(
    connection: sqlite3.Connection, partition: int, until: float, most: int, excess: float = math.inf
) -> int:
    """Delete a partition's oldest records that were appended until then: so many or, if that is fewer, so many bytes.

    What lies before such a record is older than it whatever its time says: the clock has stepped since.
    """
    first = first_id(partition)
    rows = connection.execute(
        "SELECT id, appended, length(value), key FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
        (first, first_id(partition + 1), most),
    ).fetchall()
    while rows and rows[-1][1] > until:
        rows.pop()
    rows = rows[: _enough(rows, excess)]
    if rows:
        connection.execute("DELETE FROM records WHERE id >= ? AND id <= ?", (first, rows[-1][0]))
        _delete_unused(connection, {row[3] for row in rows})
    return len(rows)


def _delete_unused(connection: sqlite3.Connection, keys: set[int]) -> None:
    connection.executemany(
        "DELETE FROM keys WHERE id = :key AND NOT EXISTS (SELECT 1 FROM records WHERE key = :key)",
        [{"key": key} for key in keys],
    )


def _delete_snapshots(connection: sqlite3.Connection, until: float, most: int, excess: float = math.inf) -> int:
    rows = [row for row in connection.execute(_SUPERSEDED, (most,)) if row[1] <= until]
    rows = rows[: _enough(rows, excess)]
    connection.executemany("DELETE FROM snapshots WHERE id = ?", [row[:1] for row in rows])
    return len(rows)


def _enough(rows: Sequence[tuple[int, float, int]], excess: float) -> int:
    """How many of the rows, of which the third column is their length, free so many bytes."""
    for count, row in enumerate(rows, 1):
        excess -= row[2]
        if excess <= 0:
            return count
    return len(rows)
