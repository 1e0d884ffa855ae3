"""Deletion from the embedded bus: by age, and by size so that all topics lose the same share of their retention.

The newest snapshot of each operator, partition and key is never deleted, nor are the records of compacted topics, which
have one per key. Everything runs inside a write that is under way, in small batches, so that no write is long.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.bus import DEFAULT_RETENTION_S
from laggard.pipeline.core.bus.log import OFFSET_BITS, first_id
from laggard.pipeline.core.bus.schema import PAGE_BYTES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

_BATCH: Final = 64
_MOST: Final = 2048  # deletions of one transaction for size, so that a lowered bound is reached step by step

# Snapshots with a newer one of the same key.
_SUPERSEDED: Final = """
SELECT id, appended, length(value) FROM snapshots AS s WHERE next_offset < (
    SELECT max(next_offset) FROM snapshots AS n WHERE n.operator = s.operator AND n.partition = s.partition
    AND n.key = s.key) ORDER BY id LIMIT ?
"""


def expire(connection: sqlite3.Connection, now: float, retention_s: float | None, most: int) -> int:
    """Delete records beyond the retention of their topic, and snapshots beyond that of the bus. Return their number.

    `retention_s` is that of the bus: for snapshots, and for topics without their own; None for no bound.

    Age counts from the time of appending, like Kafka's log-append time. So a producer with a wrong clock can neither
    delete the history nor preserve it forever.
    """
    deleted = 0
    topics = connection.execute(
        "SELECT p.id, t.retention_s FROM partitions AS p JOIN topics AS t ON t.id = p.topic WHERE NOT t.compacted"
    ).fetchall()
    for partition, own in topics:
        limit = retention_s if own is None else own
        if limit is not None:
            deleted += _delete_records(connection, partition, now - limit, most - deleted)
    if retention_s is not None:
        deleted += _delete_snapshots(connection, now - retention_s, most - deleted)
    return deleted


def discard(connection: sqlite3.Connection, partition: int, before: int) -> None:
    """Delete a partition's records before an offset."""
    ids = (first_id(partition), first_id(partition) + before)
    keys = connection.execute("SELECT DISTINCT key FROM records WHERE id >= ? AND id < ?", ids).fetchall()
    connection.execute("DELETE FROM records WHERE id >= ? AND id < ?", ids)
    _delete_unused(connection, {key for (key,) in keys})


def make_room(
    connection: sqlite3.Connection, pages: int, max_pages: int, *, now: float, retention_s: float | None
) -> None:
    """Delete the oldest records and snapshots until this number of pages fits.

    The age counts as a share of the retention. So readings for 48 h and incidents for 30 days begin at the same share.
    If nothing more may be deleted, SQLite's own bound on the file rejects the write.
    """
    deleted = 0
    while deleted < _MOST:
        excess = _used_pages(connection) + pages - max_pages
        batch = (
            _delete_oldest(connection, excess * PAGE_BYTES, now, retention_s or DEFAULT_RETENTION_S)
            if excess > 0
            else 0
        )
        if batch == 0:
            return
        deleted += batch


def _used_pages(connection: sqlite3.Connection) -> int:
    (length,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(length) - int(free)


class _Head(NamedTuple):
    """The oldest item of a log.

    Attributes:
        age: its age as a share of the log's retention.
        appended: its time, seconds since the Unix epoch.
        retention_s: the retention, in seconds.
        partition: the partition; None for the log of superseded snapshots.

    """

    age: float
    appended: float
    retention_s: float
    partition: int | None


def _heads(connection: sqlite3.Connection, now: float, retention_s: float) -> Iterator[_Head]:
    """Yield the oldest item of each log with any."""
    found = connection.execute(
        "SELECT p.id, t.retention_s, (SELECT appended FROM records WHERE id >= p.id << :bits AND "
        "id < (p.id + 1) << :bits ORDER BY id LIMIT 1) FROM partitions AS p JOIN topics AS t ON t.id = p.topic "
        "WHERE NOT t.compacted",
        {"bits": OFFSET_BITS},
    )
    for partition, own, appended in found:
        if appended is not None:
            own_s = own or retention_s
            yield _Head((now - appended) / own_s, appended, own_s, partition)
    for _, appended, _ in connection.execute(_SUPERSEDED, (1,)):
        yield _Head((now - appended) / retention_s, appended, retention_s, None)


def _delete_oldest(connection: sqlite3.Connection, excess: int, now: float, retention_s: float) -> int:
    """Delete a batch from the log with the oldest item, up to the oldest one of other logs, and only enough bytes."""
    heads = sorted(_heads(connection, now, retention_s), key=lambda head: head.age, reverse=True)
    if not heads:
        return 0
    oldest, until = heads[0], math.inf
    if len(heads) > 1:
        until = max(oldest.appended, now - heads[1].age * oldest.retention_s)
    if oldest.partition is None:
        return _delete_snapshots(connection, until, _BATCH, excess)
    return _delete_records(connection, oldest.partition, until, _BATCH, excess)


def _delete_records(
    connection: sqlite3.Connection, partition: int, until: float, most: int, excess: float = math.inf
) -> int:
    """Delete a partition's oldest records that were appended by `until`: at most `most`, and only `excess` bytes.

    Records before these are older, even with a later time: the clock has stepped since.
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
    """Return how many of the rows, with their length in the third column, free this number of bytes."""
    for count, row in enumerate(rows, 1):
        excess -= row[2]
        if excess <= 0:
            return count
    return len(rows)
