"""Snapshots as records of a compacted topic: a value larger than a record is split into chunks.

A chunk's key is `<topic>/<partition>/<key>#<chunk>`, so that compaction keeps the newest of each chunk. Its headers
identify the version of the state: the input offset, the time, the number of the chunk and the number of chunks. All
chunks of a version are in one partition and one transaction. A version with missing chunks, which were compacted away
in favor of a newer version's, is not a snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.bus import SNAPSHOTS, Partition, Snapshot
from laggard.pipeline.core.bus.kafka.wire import DEFAULT_BYTES, Raw, key_bytes, milliseconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from laggard.pipeline.core.bus import Incoming

CHUNK_BYTES: Final = DEFAULT_BYTES

_OFFSET: Final = "offset"
_TS: Final = "ts"
_CHUNK: Final = "chunk"
_CHUNKS: Final = "chunks"

RESET: Final = "reset"
"""The header of deletions that void all older records of the key, even before these are compacted away."""


def topic_of(prefix: str, operator: str) -> str:
    """Return the topic of the snapshots of a generation of an operator: `laggard.snapshots.gaussian.5`."""
    return f"{prefix}{SNAPSHOTS}{operator}"


def input_of(record_key: str) -> Partition | None:
    """Return the input partition of a record of the topic; None if it is not a chunk of a snapshot."""
    topic, _, rest = record_key.partition("/")
    number, separator, _ = rest.partition("/")
    return Partition(topic, int(number)) if separator and number.isdecimal() else None


def partition_of(partition: Partition, count: int) -> int:
    """Return the number of the topic's partition with the snapshots of this input partition."""
    return partition.number % count


def chunk_count(snapshot: Snapshot, chunk_bytes: int = CHUNK_BYTES) -> int:
    """Return the number of records of the snapshot."""
    return max(1, -(-len(snapshot.value) // chunk_bytes))


def records(
    snapshot: Snapshot, topic: str, partition: int, *, before: int = 0, chunk_bytes: int = CHUNK_BYTES
) -> list[Raw]:
    """Return the snapshot as records for this partition of its topic.

    `before` is the number of chunks of the key's last snapshot: those that this one does not replace are deleted.
    Raises BusError for a time or a key that cannot be sent.
    """
    count = chunk_count(snapshot, chunk_bytes)
    ts_ms = milliseconds_of(snapshot.ts)
    stem = b"%s/%d/%s#" % (snapshot.partition.topic.encode(), snapshot.partition.number, key_bytes(snapshot.key))
    version = [
        (_OFFSET, b"%d" % snapshot.offset),
        (_TS, repr(snapshot.ts).encode()),
        (_CHUNKS, b"%d" % count),
    ]
    chunks = [
        Raw(
            topic,
            partition,
            b"%s%d" % (stem, at),
            snapshot.value[at * chunk_bytes : (at + 1) * chunk_bytes],
            ts_ms,
            [*version, (_CHUNK, b"%d" % at)],
        )
        for at in range(count)
    ]
    return chunks + [Raw(topic, partition, b"%s%d" % (stem, at), None, ts_ms, []) for at in range(count, before)]


class Chunks:
    """The snapshots that one member commits, and the number of their chunks.

    Args:
        prefix: the prefix of the names of topics.
        partitions: returns the partitions of a topic.

    """

    def __init__(self, prefix: str, partitions: Callable[[str], Sequence[Partition]]) -> None:
        self._prefix = prefix
        self._partitions = partitions
        self._counts: dict[tuple[Partition, str, str], int] = {}  # of snapshots with more than one

    def pack(self, snapshots: Sequence[Snapshot]) -> list[Raw]:
        """Return them as records. Raises BusError for a time or a key that cannot be sent."""
        packed: list[Raw] = []
        for snapshot in snapshots:
            topic = topic_of(self._prefix, snapshot.operator)
            partition = partition_of(snapshot.partition, len(self._partitions(topic)))
            packed += records(snapshot, topic, partition, before=self._counts.get(_place(snapshot), 0))
        return packed

    def committed(self, snapshots: Sequence[Snapshot]) -> None:
        """Note that these were committed."""
        for snapshot in snapshots:
            # A single chunk has no others to delete later.
            if (count := chunk_count(snapshot)) > 1:
                self._counts[_place(snapshot)] = count
            else:
                self._counts.pop(_place(snapshot), None)

    def forget(self, partitions: Collection[Partition]) -> None:
        """Forget the snapshots of partitions that are lost."""
        self._counts = {place: count for place, count in self._counts.items() if place[0] not in partitions}


def _place(snapshot: Snapshot) -> tuple[Partition, str, str]:
    return snapshot.partition, snapshot.operator, snapshot.key


class _Version(NamedTuple):
    offset: int
    ts: float
    chunks: int


_Chunks = dict[int, bytes]
"""The chunks of a version that were read, by their number."""


def newest(
    found: Iterable[Incoming], operator: str, partition: Partition, at_or_before: int | None = None
) -> Sequence[Snapshot]:
    """Return the newest whole snapshot of each key of this input partition, sorted by key; others are ignored.

    `found` is the content of the partition of the snapshot topic, in its order. Memory: the newest whole version of
    each key, and later chunks.
    """
    snapshots = []
    for key, (version, parts) in _collected(found, partition, at_or_before, keep=True).items():
        value = b"".join(parts[at] for at in range(version.chunks))
        snapshots.append(Snapshot(operator, partition, key, version.offset, version.ts, value))
    return snapshots


def newest_offsets(found: Iterable[Incoming], partition: Partition) -> Mapping[str, int]:
    """Return the offsets of the snapshots of `newest` by key, without storing values."""
    return {key: version.offset for key, (version, _) in _collected(found, partition, None, keep=False).items()}


def _collected(
    incoming: Iterable[Incoming], partition: Partition, at_or_before: int | None, *, keep: bool
) -> dict[str, tuple[_Version, _Chunks]]:
    """Return the newest whole version of each key, by key."""
    stem = f"{partition.topic}/{partition.number}/"
    keys: dict[str, dict[_Version, _Chunks]] = {}
    for record in incoming:
        if not record.key.startswith(stem):
            continue
        key, separator, _ = record.key[len(stem) :].rpartition("#")
        described = _described(record)
        if described is None:
            if separator and any(name == RESET for name, _ in record.headers):
                keys.pop(key, None)
            continue
        if not separator:
            continue
        version, chunk = described
        if at_or_before is not None and version.offset > at_or_before:
            continue
        versions = keys.setdefault(key, {})
        parts = versions.setdefault(version, {})
        parts[chunk] = record.value if keep else b""
        if _is_complete(version, parts):
            # Versions that were written before a whole one are not the newest, even with a higher offset: the group's
            # offsets were set back, or the input was recreated.
            keys[key] = {version: parts}
    return {
        key: (version, parts)
        for key, versions in sorted(keys.items())
        for version, parts in versions.items()
        if _is_complete(version, parts)
    }


def _is_complete(version: _Version, parts: _Chunks) -> bool:
    return len(parts) == version.chunks


def is_chunk(record: Incoming) -> bool:
    """Return whether a record is part of a snapshot; otherwise it deletes one, or is not laggard's."""
    return _described(record) is not None


def _described(record: Incoming) -> tuple[_Version, int] | None:
    """Return the version and the chunk number of a record; None if it is not a chunk of a snapshot."""
    headers = dict(record.headers)
    try:
        version = _Version(int(headers[_OFFSET]), float(headers[_TS]), int(headers[_CHUNKS]))
        chunk = int(headers[_CHUNK])
    except (KeyError, ValueError):
        return None
    return (version, chunk) if 0 <= chunk < version.chunks else None
