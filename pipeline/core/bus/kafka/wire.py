"""Records in the form of brokers, where keys are bytes and times whole milliseconds, and in that of the bus."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.bus import MOST_AHEAD_S, NULL, Incoming, Null, Refused
from laggard.pipeline.core.bus.partitioner import partition_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.bus import Outgoing, Partition

DEFAULT_BYTES: Final = 900_000
"""The most bytes of a record or a batch that any topic accepts: below the brokers' default of 1 MiB."""

MAX_RECORD_BYTES: Final = 8 << 20
"""The most bytes of value, key and headers in laggard's topics: their `max.message.bytes` less `OVERHEAD_BYTES`."""

OVERHEAD_BYTES: Final = 512
"""The bytes of a record in addition to its value, key and headers: the batch around it, lengths, times."""


class Raw(NamedTuple):
    """A record for one partition, ready to be sent. The value None deletes those of its key from a compacted topic."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    ts_ms: int
    headers: list[tuple[str, bytes]]

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        return len(self.key) + len(self.value or b"") + sum(len(name) + len(value) for name, value in self.headers)


def incoming(  # noqa: PLR0917 - once for every record: names cost time
    partition: Partition,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    ts_ms: int,
    headers: Sequence[tuple[str, bytes | None]] | None,
) -> Incoming:
    """Return the record in the form of the bus.

    Other clients may have written it. A missing key becomes the empty one, and a missing value becomes `NULL`. Bytes of
    a key that are not UTF-8 become lone surrogates, which turn back into these bytes.
    """
    return Incoming(
        partition,
        offset,
        "" if key is None else key.decode("utf-8", "surrogateescape"),
        NULL if value is None else value,
        ts_ms / 1000,
        tuple((name, b"" if content is None else content) for name, content in headers) if headers else (),
    )


def key_bytes(key: str) -> bytes:
    """Return the key in the form of brokers. Raises Refused for one that cannot be encoded."""
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Refused(f"expected a key of Unicode characters, got {key!r}") from error


def milliseconds_of(ts: float) -> int:
    """Return a time in the form of brokers: Kafka has none before 1970. Raises Refused for one that is not finite.

    A time that is far ahead of this machine's clock is reduced to `MOST_AHEAD_S`. Otherwise a single wrongly dated
    event would stop the writer. The content of the record still has its own time.
    """
    if not math.isfinite(ts):
        raise Refused(f"expected a finite time, got {ts}")
    return max(0, round(min(ts, time.time() + MOST_AHEAD_S) * 1000))


def raw(record: Outgoing, partitions: int) -> Raw:
    """Return the record for its partition of this number. Raises Refused that names the part that cannot be sent."""
    key = key_bytes(record.key)
    return Raw(
        record.topic,
        partition_number(record.key, partitions),
        key,
        None if isinstance(record.value, Null) else record.value,
        milliseconds_of(record.ts),
        list(record.headers),
    )
