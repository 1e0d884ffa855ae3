"""The bus for one machine: topics, offsets and snapshots in one SQLite file, with nothing to install.

Several processes may have it open at once: an agent appending, a worker committing, `why` reading. Its size is bounded
by bytes and by age, and the oldest is deleted first (see `trimming`). For the durability of the file see `database`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import DEFAULT_RETENTION_S, Bus, BusError, DamagedSnapshot, Partition, Snapshot
from laggard.pipeline.core.bus.database import Database
from laggard.pipeline.core.bus.log import bounds, fetch, incoming, offset_at
from laggard.pipeline.core.bus.membership import EmbeddedSubscription
from laggard.pipeline.core.bus.packing import unpack
from laggard.pipeline.core.bus.partitioner import partition_number
from laggard.pipeline.core.bus.topic_ids import TopicIds
from laggard.pipeline.core.bus.trimming import discard
from laggard.pipeline.core.bus.watch import touch
from laggard.pipeline.core.bus.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from laggard.pipeline.core.bus import Incoming, Outgoing, Subscription, TopicSpec

MIN_BYTES: Final = 1 << 20
_CHUNK_RECORDS: Final = 500
_NO_BOUND: Final = (1 << 63) - 1


class EmbeddedBus(Bus):
    """The bus in one SQLite file.

    Args:
        path: the file; it and its folder are created if missing, for their owner alone.
        max_bytes: the most bytes of the file and its write-ahead log, at least 1 MiB. The oldest records and snapshots
            are deleted for new ones, by their age as a share of their retention. The newest snapshots and compacted
            records stay, and if they alone fill the file, writes are rejected.
        retention_s: the longest time that a record or a snapshot stays after it was appended, in seconds; None leaves
            it to `max_bytes`. Not for topics with their own `retention_s`, compacted topics and newest snapshots.
        clock: seconds since the Unix epoch, for ages only.
        busy_timeout_s: the time to wait for another writing process before `BusUnavailable`, in seconds.

    Groups: the newest subscriber takes over all partitions of its topics, at once. The earlier member detects this at
    its next poll or commit. So a member that died needs no cleanup. When a member leaves by `close`, an earlier one
    gets the partitions back.

    Offsets of a partition never repeat. Retention moves `bounds`: a reader whose position is below the first of them
    has missed records, and continues with the oldest available one.

    """

    def __init__(
        self,
        path: Path,
        max_bytes: int = 1 << 30,
        retention_s: float | None = DEFAULT_RETENTION_S,
        clock: Callable[[], float] = time.time,
        *,
        busy_timeout_s: float = 10.0,
    ) -> None:
        if max_bytes < MIN_BYTES:
            raise BusError(f"{path}: expected a bound of at least {MIN_BYTES} bytes, got {max_bytes}")
        self.path = path.absolute()  # connections are opened later, too, from any working directory
        self.database = Database(self.path, max_bytes, busy_timeout_s)
        self.topics = TopicIds(self.database)
        self.writer = Writer(self.database, self.topics, retention_s, clock)

    # Topics.

    def create(self, topics: Iterable[TopicSpec]) -> None:
        """Create missing topics, all or none."""
        specs = list(topics)
        for spec in specs:
            if spec.partitions < 1:
                raise BusError(f"{self.path}: topic {spec.name}: expected at least 1 partition, got {spec.partitions}")
        with self.database.writing("create topics") as connection:
            for spec in specs:
                cursor = connection.execute(
                    "INSERT INTO topics (name, partitions, retention_s, compacted) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (name) DO NOTHING",
                    (spec.name, spec.partitions, spec.retention_s, spec.compacted),
                )
                if cursor.rowcount:
                    connection.executemany(
                        "INSERT INTO partitions (topic, number) VALUES (?, ?)",
                        [(cursor.lastrowid, number) for number in range(spec.partitions)],
                    )

    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return all partitions of a topic."""
        return [Partition(topic, number) for number in range(len(self.topics.topic(topic).ids))]

    def partition_of(self, topic: str, key: str) -> Partition:
        """Return the partition of this key, by Kafka's default partitioner."""
        return Partition(topic, partition_number(key, len(self.topics.topic(topic).ids)))

    def keys(self, topic: str) -> Sequence[str]:
        """Return the sorted keys, from a table of keys, not from the records."""
        found: list[str] = []
        ids = self.topics.topic(topic).ids
        with self.database.reading("list keys") as connection:
            for partition in ids:
                found += [
                    key for (key,) in connection.execute("SELECT key FROM keys WHERE partition = ?", (partition,))
                ]
        return sorted(found)

    # Writing.

    def append(self, records: Sequence[Outgoing]) -> None:
        """Append in one transaction."""
        packed = self.writer.pack(records)
        if not packed:
            return
        with self.database.writing("append") as connection:
            self.writer.write(connection, packed, ())
        touch(self.path)

    def discard(self, partition: Partition, before: int) -> None:
        """Delete a partition's records before an offset, for readers that need each record once; the file shrinks."""
        identity = self.topics.partition_id(partition)
        with self.database.writing("discard") as connection:
            discard(connection, identity, before)
        self.database.shrink()

    # Reading.

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """Return the oldest available offset, and the next one."""
        identity = self.topics.partition_id(partition)
        with self.database.reading("look at a partition") as connection:
            return bounds(connection, identity)

    def offset_at(self, partition: Partition, ts: float) -> int:
        """Return the first offset by bisection, in the order of arrival also for late records."""
        identity = self.topics.partition_id(partition)
        with self.database.reading("look for a time") as connection:
            return offset_at(connection, identity, ts)

    def read(
        self, partition: Partition, start: int, stop: int | None = None, key: str | None = None
    ) -> Iterator[Incoming]:
        """Yield records in steps of a few MB; meanwhile trimmed ones are skipped. Raises DamagedRecord."""
        identity = self.topics.partition_id(partition)
        _, end = self.bounds(partition)
        stop = end if stop is None else min(stop, end)
        return _read(self.database, partition, identity, max(0, start), stop, key)

    def snapshots(self, operator: str, partition: Partition, at_or_before: int | None = None) -> Sequence[Snapshot]:
        """Return snapshots sorted by key. Those of the past remain until retention deletes them."""
        identity = self.topics.partition_id(partition)
        with self.database.reading("read snapshots") as connection:
            rows = connection.execute(
                "SELECT key, next_offset, ts, size, value FROM snapshots JOIN ("
                "SELECT key AS newest_key, max(next_offset) AS newest FROM snapshots WHERE operator = :operator "
                "AND partition = :partition AND next_offset <= :bound GROUP BY key) "
                "ON operator = :operator AND partition = :partition AND key = newest_key AND next_offset = newest "
                "ORDER BY key",
                {
                    "operator": operator,
                    "partition": identity,
                    "bound": _NO_BOUND if at_or_before is None else at_or_before,
                },
            ).fetchall()
        found = []
        for key, offset, ts, size, stored in rows:
            try:
                value = unpack(stored, size)
            except ValueError as error:
                place = f"snapshot of {operator} for {key!r} at {partition.topic}[{partition.number}]@{offset}"
                raise DamagedSnapshot(f"{self.path}: {place} is damaged: {error}") from error
            found.append(Snapshot(operator, partition, key, offset, ts, value))
        return found

    def snapshot_offsets(self, operator: str, partition: Partition) -> Mapping[str, int]:
        """Return the offsets from the index alone."""
        identity = self.topics.partition_id(partition)
        with self.database.reading("read the offsets of snapshots") as connection:
            return dict(
                connection.execute(
                    "SELECT key, max(next_offset) FROM snapshots WHERE operator = ? AND partition = ? GROUP BY key",
                    (operator, identity),
                ).fetchall()
            )

    # Groups.

    def subscribe(self, group: str, topics: Sequence[str]) -> Subscription:
        """Take over the partitions of these topics from their present member."""
        return EmbeddedSubscription(self, group, [each for topic in topics for each in self.partitions(topic)])

    def committed(self, group: str, partition: Partition) -> int:
        """Return the group's committed offset."""
        identity = self.topics.partition_id(partition)
        with self.database.reading("read a group's offset") as connection:
            row = connection.execute(
                "SELECT next_offset FROM progress WHERE consumers = ? AND partition = ?", (group, identity)
            ).fetchone()
        return 0 if row is None else int(row[0])

    def reset(
        self,
        group: str,
        operators: Sequence[str],
        offsets: Mapping[Partition, int],
        snapshots: Sequence[Snapshot] = (),
    ) -> None:
        """Reset a group in one transaction. A member that is still there loses its partitions."""
        packed = self.writer.pack_snapshots(snapshots)
        identities = {partition: self.topics.partition_id(partition) for partition in offsets}
        with self.database.writing("reset a group") as connection:
            connection.executemany(
                "DELETE FROM snapshots WHERE operator = ? AND partition = ?",
                [(operator, identity) for operator in operators for identity in identities.values()],
            )
            self.writer.write(connection, (), packed)
            connection.executemany(
                "INSERT INTO progress (consumers, partition, next_offset) VALUES (?, ?, ?) "
                "ON CONFLICT (consumers, partition) DO UPDATE SET next_offset = excluded.next_offset, member = NULL",
                [(group, identities[partition], offset) for partition, offset in offsets.items()],
            )
        touch(self.path)

    def close(self) -> None:
        """Close the file. Running calls still end; waiting polls raise BusError."""
        self.database.close()
        touch(self.path)


def _read(  # noqa: PLR0917 - a slice of a partition
    database: Database, partition: Partition, identity: int, start: int, stop: int, key: str | None
) -> Iterator[Incoming]:
    """Yield records in steps, so that no view of the file stays open between them."""
    while start < stop:
        with database.reading("read") as connection:
            rows = fetch(connection, identity, start, stop, most=_CHUNK_RECORDS, key=key)
        if not rows:
            return
        for row in rows:
            yield incoming(partition, row)
        start = rows[-1][0] + 1
