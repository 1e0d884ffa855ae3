"""What leaves the embedded bus, and when: by age, and by size with the oldest first.

What never leaves: the newest snapshot of each operator, partition and key, and the records of compacted topics, of
which each key has one. Everything runs inside of a write that is under way, in small batches, so that no write is long.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from laggard.pipeline.bus.log import OFFSET_BITS, first_id

if TYPE_CHECKING:
    import sqlite3

_BATCH: Final = 64
_MOST: Final = 2048  # what one transaction deletes to become smaller, so that a lowered bound is met by and by
_VACUUM_PAGES: Final = 1024

# A snapshot that a newer one of the same key stands beside.
_SUPERSEDED: Final = """
SELECT id, appended FROM snapshots AS s WHERE next_offset < (
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


def make_room(connection: sqlite3.Connection, pages: int, max_pages: int) -> None:
    """Delete the oldest, whatever topic it is of, until so many pages fit; give pages back to a file that is too long.

    When there is nothing left that may go, SQLite's own bound on the file refuses the write.
    """
    deleted = 0
    while deleted < _MOST and _used_pages(connection) + pages > max_pages:
        batch = _delete_oldest(connection)
        if batch == 0:
            break
        deleted += batch
    (length,) = connection.execute("PRAGMA page_count").fetchone()
    if length > max_pages:
        connection.execute(f"PRAGMA incremental_vacuum({min(length - max_pages, _VACUUM_PAGES)})").fetchall()


def _used_pages(connection: sqlite3.Connection) -> int:
    (length,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(length) - int(free)


def _delete_oldest(connection: sqlite3.Connection) -> int:
    """A batch of what was appended first, only as far as no other log has anything older."""
    heads: list[tuple[float, int | None]] = [
        (appended, partition)
        for partition, appended in connection.execute(
            "SELECT p.id, (SELECT appended FROM records WHERE id >= p.id << :bits AND id < (p.id + 1) << :bits "
            "ORDER BY id LIMIT 1) FROM partitions AS p JOIN topics AS t ON t.id = p.topic WHERE NOT t.compacted",
            {"bits": OFFSET_BITS},
        )
        if appended is not None
    ]
    heads += [(appended, None) for _, appended in connection.execute(_SUPERSEDED, (1,))]
    if not heads:
        return 0
    heads.sort(key=lambda head: head[0])
    until = heads[1][0] if len(heads) > 1 else math.inf
    partition = heads[0][1]
    if partition is None:
        return _delete_snapshots(connection, until, _BATCH)
    return _delete_records(connection, partition, until, _BATCH)


def _delete_records(connection: sqlite3.Connection, partition: int, until: float, most: int) -> int:
    """Delete a partition's oldest records, at most so many, that were appended until then.

    What lies before such a record is older than it whatever its time says: the clock has stepped since.
    """
    first = first_id(partition)
    rows = connection.execute(
        "SELECT id, key, appended FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
        (first, first_id(partition + 1), most),
    ).fetchall()
    while rows and rows[-1][2] > until:
        rows.pop()
    if rows:
        connection.execute("DELETE FROM records WHERE id >= ? AND id <= ?", (first, rows[-1][0]))
        connection.executemany(
            "DELETE FROM keys WHERE id = :key AND NOT EXISTS (SELECT 1 FROM records WHERE key = :key)",
            [{"key": key} for key in {row[1] for row in rows}],
        )
    return len(rows)


def _delete_snapshots(connection: sqlite3.Connection, until: float, most: int) -> int:
    rows = [row for row in connection.execute(_SUPERSEDED, (most,)) if row[1] <= until]
    connection.executemany("DELETE FROM snapshots WHERE id = ?", [row[:1] for row in rows])
    return len(rows)
