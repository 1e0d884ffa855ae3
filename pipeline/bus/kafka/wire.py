"""Records as a broker has them, and as the bus gives them: keys are bytes there, times whole milliseconds."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.bus import MOST_AHEAD_S, NULL, Incoming, Null, Refused
from laggard.pipeline.bus.partitioner import partition_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.bus import Outgoing, Partition

DEFAULT_BYTES: Final = 900_000
"""What any topic takes in a record or a batch: below the 1 MiB that is a broker's default."""

MAX_RECORD_BYTES: Final = 8 << 20
"""The largest record that laggard's topics take, and their `max.message.bytes`: value, key and headers together."""

OVERHEAD_BYTES: Final = 512
"""What a record takes beside its value, key and headers: the batch around it, lengths, times."""


class Raw(NamedTuple):
    """A record for one partition, ready to be sent. A value of None deletes those of its key from a compacted topic."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    ts_ms: int
    headers: list[tuple[str, bytes]]

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        return len(self.key) + len(self.value or b"") + sum(len(name) + len(value) for name, value in self.headers)


def incoming(  # noqa: PLR0917 - once for every record: names cost time
    partition: Partition,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    ts_ms: int,
    headers: Sequence[tuple[str, bytes | None]] | None,
) -> Incoming:
    """The record as the bus gives it.

    Other clients may have written it: no key is the empty one, bytes that are no UTF-8 are kept as lone surrogates (and
    come back as those bytes), no value is `NULL`.
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
    """The key as a broker has it. Raises Refused for one that has no bytes."""
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Refused(f"expected a key of Unicode characters, got {key!r}") from error


def milliseconds_of(ts: float) -> int:
    """A time as a broker has it: Kafka knows none before 1970. Raises Refused for one that is no number.

    One that is far ahead of this machine's clock is brought near, or a single event dated wrongly would stop whoever
    has to write about it. What the record is about says its own time all the same.
    """
    if not math.isfinite(ts):
        raise Refused(f"expected a finite time, got {ts}")
    return max(0, round(min(ts, time.time() + MOST_AHEAD_S) * 1000))


def raw(record: Outgoing, partitions: int) -> Raw:
    """The record for its partition of so many. Raises Refused saying what about it cannot be sent."""
    key = key_bytes(record.key)
    return Raw(
        record.topic,
        partition_number(record.key, partitions),
        key,
        None if isinstance(record.value, Null) else record.value,
        milliseconds_of(record.ts),
        list(record.headers),
    )
