"""Snapshots as records of a compacted topic: a value larger than a record is split, and put together again.

A chunk's key is `<topic>/<partition>/<key>#<chunk>`, so that compaction keeps the newest of each chunk. Its headers say
which version of the state it belongs to: the input offset, the time, the number of the chunk and how many there are.
All chunks of a version are in one partition and one transaction; a version of which chunks are missing, because they
were compacted away in favour of a newer one's, is no snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.bus import SNAPSHOTS, Partition, Snapshot
from laggard.pipeline.bus.kafka.wire import DEFAULT_BYTES, Raw, key_bytes, milliseconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from laggard.pipeline.bus import Incoming

CHUNK_BYTES: Final = DEFAULT_BYTES

_OFFSET: Final = "offset"
_TS: Final = "ts"
_CHUNK: Final = "chunk"
_CHUNKS: Final = "chunks"

RESET: Final = "reset"
"""A header of deletions: everything older of that key is void, also while it has not been compacted away."""


def topic_of(prefix: str, operator: str) -> str:
    """The topic of an operator's snapshots: `laggard.snapshots.gaussian`."""
    return f"{prefix}{SNAPSHOTS}{operator}"


def input_of(record_key: str) -> Partition | None:
    """The input partition that a record of the topic belongs to, None for what is no chunk of a snapshot."""
    topic, _, rest = record_key.partition("/")
    number, separator, _ = rest.partition("/")
    return Partition(topic, int(number)) if separator and number.isdecimal() else None


def partition_of(partition: Partition, count: int) -> int:
    """Which of the topic's partitions keeps the snapshots of this input partition."""
    return partition.number % count


def chunk_count(snapshot: Snapshot, chunk_bytes: int = CHUNK_BYTES) -> int:
    """How many records the snapshot takes."""
    return max(1, -(-len(snapshot.value) // chunk_bytes))


def records(
    snapshot: Snapshot, topic: str, partition: int, *, before: int = 0, chunk_bytes: int = CHUNK_BYTES
) -> list[Raw]:
    """The snapshot as records for this partition of its topic.

    `before` is how many chunks the key's last snapshot had: those that this one does not replace are deleted. Raises
    BusError for a time or a key that cannot be sent.
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


class _Version(NamedTuple):
    offset: int
    ts: float
    chunks: int


_Chunks = dict[int, bytes]
"""The chunks of a version that were seen, by their number."""


def newest(
    found: Iterable[Incoming], operator: str, partition: Partition, at_or_before: int | None = None
) -> Sequence[Snapshot]:
    """The newest whole snapshot of each key of this input partition, sorted by key; others' records are passed over.

    `found` is what the partition of the snapshot topic holds, in its order. Memory: of each key the newest whole
    version and what came after it.
    """
    snapshots = []
    for key, (version, parts) in _collected(found, partition, at_or_before, keep=True).items():
        value = b"".join(parts[at] for at in range(version.chunks))
        snapshots.append(Snapshot(operator, partition, key, version.offset, version.ts, value))
    return snapshots


def newest_offsets(found: Iterable[Incoming], partition: Partition) -> Mapping[str, int]:
    """By key the offset of what `newest` gives, with no value kept."""
    return {key: version.offset for key, (version, _) in _collected(found, partition, None, keep=False).items()}


def _collected(
    found: Iterable[Incoming], partition: Partition, at_or_before: int | None, *, keep: bool
) -> dict[str, tuple[_Version, _Chunks]]:
    """The newest whole version of each key, by key."""
    stem = f"{partition.topic}/{partition.number}/"
    keys: dict[str, dict[_Version, _Chunks]] = {}
    for record in found:
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
        if _whole(version, parts):
            # What was written before a whole version is not the newest, though it may have a higher offset: the group's
            # offsets were set back, or the input was created anew.
            keys[key] = {version: parts}
    return {
        key: (version, parts)
        for key, versions in sorted(keys.items())
        for version, parts in versions.items()
        if _whole(version, parts)
    }


def _whole(version: _Version, parts: _Chunks) -> bool:
    return len(parts) == version.chunks


def is_chunk(record: Incoming) -> bool:
    """Whether a record is part of a snapshot; else it deletes one, or is none of laggard's."""
    return _described(record) is not None


def _described(record: Incoming) -> tuple[_Version, int] | None:
    """Which version and chunk a record is, None for what is no chunk of a snapshot."""
    headers = dict(record.headers)
    try:
        version = _Version(int(headers[_OFFSET]), float(headers[_TS]), int(headers[_CHUNKS]))
        chunk = int(headers[_CHUNK])
    except (KeyError, ValueError):
        return None
    return (version, chunk) if 0 <= chunk < version.chunks else None
