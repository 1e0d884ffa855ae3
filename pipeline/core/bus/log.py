"""The logs of the embedded bus: the records of partitions in the SQLite file.

All functions work in the open transaction of the connection; `partition` is the partition's id in the file.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.bus import DamagedRecord, Incoming
from laggard.pipeline.core.bus.packing import unpack

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from laggard.pipeline.core.bus import Partition

OFFSET_BITS: Final = 40
"""A record's id is its partition's id, then its offset in this many bits: a partition is one range of the tree."""

FETCH_BYTES: Final = 8 << 20
"""The most bytes of values in one fetch, unless a single record is longer."""


def first_id(partition: int) -> int:
    """Return the id of a partition's offset 0; the ids of its records range from here to the next partition's."""
    return partition << OFFSET_BITS


@dataclass(frozen=True, slots=True)
class PackedRecord:
    """A record ready to be written, packed before the file is locked."""

    partition: int
    compacted: bool
    key: str
    ts: float
    size: int
    headers: str | None
    value: bytes


class StoredRecord(NamedTuple):
    """A record in the file."""

    offset: int
    key: str
    ts: float
    size: int
    headers: str | None
    value: bytes


def insert(connection: sqlite3.Connection, records: Sequence[PackedRecord], now: float) -> None:
    """Append in order. In a compacted topic the key's earlier record is deleted at once."""
    logs: dict[int, tuple[int, float]] = {}
    keys: dict[tuple[int, str], int] = {}
    rows = []
    for record in records:
        partition = record.partition
        if partition not in logs:
            offset, newest = connection.execute(
                "SELECT next_offset, newest_ts FROM partitions WHERE id = ?", (partition,)
            ).fetchone()
            logs[partition] = (offset, -math.inf if newest is None else newest)
        offset, newest = logs[partition]
        newest = max(newest, record.ts)
        logs[partition] = (offset + 1, newest)
        pair = (partition, record.key)
        key = keys.get(pair)
        if key is None:
            key = keys[pair] = _key_id(connection, partition, record.key)
        rows.append(
            (first_id(partition) + offset, key, record.ts, newest, now, record.size, record.headers, record.value)
        )
    connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.executemany(
        "UPDATE partitions SET next_offset = ?, newest_ts = ? WHERE id = ?",
        [(offset, newest, partition) for partition, (offset, newest) in logs.items()],
    )
    newest_ids = {row[1]: row[0] for row, record in zip(rows, records, strict=True) if record.compacted}
    connection.executemany("DELETE FROM records WHERE key = ? AND id < ?", list(newest_ids.items()))


def _key_id(connection: sqlite3.Connection, partition: int, key: str) -> int:
    found = connection.execute("SELECT id FROM keys WHERE partition = ? AND key = ?", (partition, key)).fetchone()
    if found is None:
        found = connection.execute(
            "INSERT INTO keys (partition, key) VALUES (?, ?) RETURNING id", (partition, key)
        ).fetchone()
    return int(found[0])


def bounds(connection: sqlite3.Connection, partition: int) -> tuple[int, int]:
    """Return the oldest available offset, and that of the next record."""
    (end,) = connection.execute("SELECT next_offset FROM partitions WHERE id = ?", (partition,)).fetchone()
    first = first_id(partition)
    oldest = connection.execute(
        "SELECT id FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT 1", (first, first + end)
    ).fetchone()
    return (end if oldest is None else oldest[0] - first), end


def offset_at(connection: sqlite3.Connection, partition: int, ts: float) -> int:
    """Return the first offset whose record has this time or a later one; the end without one."""
    first = first_id(partition)
    oldest, end = bounds(connection, partition)
    # `newest_ts` never decreases: bisect to the first record where it has reached this time.
    low, high = oldest, end
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(
            "SELECT newest_ts FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT 1", (first + middle, first + high)
        ).fetchone()
        if row is None or row[0] >= ts:
            high = middle
        else:
            low = middle + 1
    # This is the record, unless the time was that of a deleted one.
    found = connection.execute(
        "SELECT id FROM records WHERE id >= ? AND id < ? AND ts >= ? ORDER BY id LIMIT 1",
        (first + low, first + end, ts),
    ).fetchone()
    return end if found is None else int(found[0]) - first


def fetch(
    connection: sqlite3.Connection,
    partition: int,
    start: int,
    stop: int | None = None,
    *,
    most: int,
    key: str | None = None,
) -> list[StoredRecord]:
    """Return at most `most` records from `start` on and before `stop`; only those of `key` if given."""
    first = first_id(partition)
    last = first_id(partition + 1) if stop is None else first + stop
    # Without a key this scans the tree; with one, the index of the key, without reading records of others.
    only = "" if key is None else "AND r.key = (SELECT id FROM keys WHERE partition = :partition AND key = :key)"
    rows = connection.execute(
        "SELECT r.id - :first, k.key, r.ts, r.size, r.headers, r.value FROM records AS r "  # noqa: S608 - constants
        f"CROSS JOIN keys AS k ON k.id = r.key WHERE r.id >= :start AND r.id < :last {only} ORDER BY r.id LIMIT :most",
        {"first": first, "start": first + start, "last": last, "partition": partition, "key": key, "most": most},
    )
    found: list[StoredRecord] = []
    total = 0
    for row in rows:
        record = StoredRecord._make(row)
        total += record.size
        if found and total > FETCH_BYTES:
            break
        found.append(record)
    rows.close()
    return found


def incoming(partition: Partition, stored: StoredRecord) -> Incoming:
    """Return the record as it was appended. Raises DamagedRecord for invalid bytes in the file."""
    try:
        value = unpack(stored.value, stored.size)
        headers = () if stored.headers is None else _headers(stored.headers)
    except (AttributeError, TypeError, ValueError) as error:
        raise DamagedRecord(partition, stored.offset, str(error)) from error
    return Incoming(partition, stored.offset, stored.key, value, stored.ts, headers)


def pack_headers(headers: Sequence[tuple[str, bytes]]) -> str | None:
    """Return headers in their stored form: JSON, with each byte of a value as the character of that number."""
    return json.dumps([(name, value.decode("latin-1")) for name, value in headers]) if headers else None


def _headers(packed: str) -> tuple[tuple[str, bytes], ...]:
    return tuple((str(name), value.encode("latin-1")) for name, value in json.loads(packed))
