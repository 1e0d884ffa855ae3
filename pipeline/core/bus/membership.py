"""Members of the embedded bus's groups: their partitions, their positions, and fencing."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import BusError, DamagedRecord, Fenced, Partition, Polled, Subscription
from laggard.pipeline.core.bus.log import FETCH_BYTES, fetch, incoming
from laggard.pipeline.core.bus.watch import Watch, touch

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from laggard.pipeline.core.bus import Commit, Incoming
    from laggard.pipeline.core.bus.embedded import EmbeddedBus


class EmbeddedSubscription(Subscription):
    """One member of a group; for one thread at a time."""

    def __init__(self, bus: EmbeddedBus, group: str, partitions: Sequence[Partition]) -> None:
        self._bus = bus
        self._group = group
        self._member = os.urandom(16).hex()
        self._ids = {partition: bus.topics.partition_id(partition) for partition in partitions}
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._turn = 0
        self._left = False
        with bus.database.writing("subscribe") as connection:
            connection.executemany(
                "INSERT INTO progress (consumers, partition, member) VALUES (?, ?, ?) "
                "ON CONFLICT (consumers, partition) DO UPDATE SET member = excluded.member",
                [(group, identity, self._member) for identity in self._ids.values()],
            )
        self._watch = Watch(bus.path)

    def poll(self, timeout_s: float, max_records: int = 500) -> Polled:
        """Return changes of the assignment first, then records. Raises a DamagedRecord once, after earlier records."""
        deadline = time.monotonic() + timeout_s
        while True:
            polled = self._poll_now(max_records)
            left = deadline - time.monotonic()
            if polled.records or polled.assigned or polled.revoked or left <= 0:
                return polled
            self._watch.wait(left)

    def _poll_now(self, max_records: int) -> Polled:
        if self._left:
            raise BusError(f"group {self._group}: cannot poll: this member has left")
        with self._bus.database.reading("poll") as connection:
            holders, offsets = self._progress(connection)
            mine = {partition for partition, holder in holders.items() if holder == self._member}
            free = {partition for partition, holder in holders.items() if holder is None}
            revoked = frozenset(self._positions.keys() - mine)
            if not revoked and not free and mine <= self._positions.keys():
                return Polled(records=tuple(self._fetch(connection, max_records)))
        if free:
            mine |= self._take(free)
            offsets = self._read_offsets()
        # Only now that nothing can fail any more: these changes are returned once.
        for partition in revoked:
            del self._positions[partition]
            self._paused.discard(partition)
        assigned = frozenset(mine - self._positions.keys())
        for partition in assigned:
            self._positions[partition] = offsets[partition]
        return Polled(revoked=revoked, assigned=assigned)

    def _progress(self, connection: sqlite3.Connection) -> tuple[dict[Partition, str | None], dict[Partition, int]]:
        """Return the member and the committed offset of each of the group's partitions."""
        rows = {
            identity: (member, offset)
            for identity, member, offset in connection.execute(
                "SELECT partition, member, next_offset FROM progress WHERE consumers = ?", (self._group,)
            )
        }
        return (
            {partition: rows[identity][0] for partition, identity in self._ids.items()},
            {partition: rows[identity][1] for partition, identity in self._ids.items()},
        )

    def _read_offsets(self) -> dict[Partition, int]:
        with self._bus.database.reading("read a group's offsets") as connection:
            return self._progress(connection)[1]

    def _take(self, free: Iterable[Partition]) -> set[Partition]:
        """Claim partitions that a member has left. Return those that no other member claimed first."""
        claimed = set()
        with self._bus.database.writing("take partitions over") as connection:
            for partition in free:
                changed = connection.execute(
                    "UPDATE progress SET member = ? WHERE consumers = ? AND partition = ? AND member IS NULL",
                    (self._member, self._group, self._ids[partition]),
                )
                if changed.rowcount:
                    claimed.add(partition)
        return claimed

    def _fetch(self, connection: sqlite3.Connection, max_records: int) -> list[Incoming]:
        """Return new records, beginning with another partition each time, so that a busy one does not starve others."""
        partitions = [partition for partition in self._positions if partition not in self._paused]
        records: list[Incoming] = []
        self._turn += 1
        for at in range(len(partitions)):
            partition = partitions[(at + self._turn) % len(partitions)]
            most = max_records - len(records)
            if most <= 0 or sum(len(record.value) for record in records) >= FETCH_BYTES:
                break
            for stored in fetch(connection, self._ids[partition], self._positions[partition], most=most):
                try:
                    record = incoming(partition, stored)
                except DamagedRecord:
                    if records:
                        return records  # the next poll raises
                    self._positions[partition] = stored.offset + 1
                    raise
                records.append(record)
                self._positions[partition] = stored.offset + 1
        return records

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at this offset."""
        self._check_assigned("seek in", partition)
        self._positions[partition] = max(0, offset)

    def pause(self, partition: Partition) -> None:
        """Return no records of this partition."""
        self._check_assigned("pause", partition)
        self._paused.add(partition)

    def resume(self, partition: Partition) -> None:
        """Return records of this partition again."""
        self._check_assigned("resume", partition)
        self._paused.discard(partition)

    def _check_assigned(self, what: str, partition: Partition) -> None:
        if partition not in self._positions:
            raise BusError(f"group {self._group}: cannot {what} {partition}: it is not assigned to this member")

    def committed(self, partition: Partition) -> int:
        """Return the group's committed offset."""
        return self._bus.committed(self._group, partition)

    def commit(self, commit: Commit) -> None:
        """Commit all of it, or nothing."""
        bus = self._bus
        packed = bus.writer.pack(commit.outputs)
        snapshots = bus.writer.pack_snapshots(commit.snapshots)
        touched = {*commit.offsets, *(snapshot.partition for snapshot in commit.snapshots)}
        for partition in touched - self._ids.keys():
            raise BusError(f"group {self._group}: cannot commit {partition}: it is of no topic of this member")
        with bus.database.writing("commit") as connection:
            holders, _ = self._progress(connection)
            if fenced := frozenset(partition for partition in touched if holders[partition] != self._member):
                names = ", ".join(f"{topic}[{number}]" for topic, number in sorted(fenced))
                raise Fenced(f"group {self._group}: another member has taken {names} over", fenced)
            bus.writer.write(connection, packed, snapshots)
            connection.executemany(
                "UPDATE progress SET next_offset = ? WHERE consumers = ? AND partition = ?",
                [(offset, self._group, self._ids[partition]) for partition, offset in commit.offsets.items()],
            )
        if packed:
            touch(bus.path)

    def close(self) -> None:
        """Leave the group; an earlier member gets the partitions back."""
        if self._left:
            return
        self._left = True
        self._positions.clear()
        self._watch.close()
        with self._bus.database.writing("leave a group") as connection:
            connection.execute(
                "UPDATE progress SET member = NULL WHERE consumers = ? AND member = ?", (self._group, self._member)
            )
        touch(self._bus.path)
