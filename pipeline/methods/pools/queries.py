"""Queries of pools in the history on a bus: all pools, their deviating members, and the full report on one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.records import Decoder, Frame, RecordError
from laggard.pipeline.core.records.outputs import read_output
from laggard.pipeline.core.records.pools import PoolOutput
from laggard.pipeline.core.topics import ANOMALIES, POOLS
from laggard.pipeline.history.rebuilding import LATELY, rebuild
from laggard.pipeline.history.series import Reader
from laggard.pipeline.history.why import OutsideError
from laggard.pipeline.methods.pools.ticks import GRACE_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.pipeline.core.bus import Bus, Incoming, Partition
    from laggard.pipeline.core.records.pools import Ranked
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.methods.pools.stage import PoolStage

MOST_RECORDS: Final = 10_000
"""The most output records that are read of each partition, the newest ones: a bound for large topics."""

_PEEKED: Final = 64  # the first bytes of an output, with its kind, which is the first field


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a pool.

    Attributes:
        pool: its name.
        ts: the time of its newest frame, seconds since the Unix epoch; NaN if none is among the newest records.
        members: the number of members in its newest frames; None if none is among the newest records.
        ranking: the deviations in its last output, worst first.

    """

    pool: str
    ts: float
    members: int | None
    ranking: tuple[Ranked, ...]


def standings(bus: Bus, topics: Topics, ts: float | None = None) -> list[Standing]:
    """Return the state of all pools, now or at a time, the largest deviations first, then by name.

    Args:
        bus: the bus with their records.
        topics: the names of the topics.
        ts: the time, seconds since the Unix epoch; None for now.

    """
    counted: dict[str, tuple[float, int]] = {}
    for partition in bus.partitions(topics.name(POOLS)):
        counted |= _counted(_newest(bus, partition, LATELY, ts))
    outputs: dict[str, PoolOutput] = {}
    for partition in bus.partitions(topics.name(ANOMALIES)):
        outputs |= _last_outputs(_newest(bus, partition, MOST_RECORDS, ts), partition.topic)
    names = {*counted, *outputs, *(bus.keys(topics.name(POOLS)) if bus.knows_keys and ts is None else ())}
    found = []
    for pool in names:
        newest_ts, members = counted.get(pool, (math.nan, None))
        found.append(Standing(pool, newest_ts, members, outputs[pool].ranking if pool in outputs else ()))
    return by_worst(found)


def replayed_pools(lines: Iterable[bytes], place: str, ts: float | None = None) -> list[PoolOutput]:
    """Return the last output on each pool, by name, in the lines of `laggard replay --json`, up to a time.

    Other outputs are skipped. Raises `RecordError` that names a line that is no output.
    """
    found: dict[str, PoolOutput] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        one = read_output(line, f"{place}:{number}")
        if isinstance(one, PoolOutput) and (ts is None or one.ts <= ts):
            found[one.pool] = one
    return [found[pool] for pool in sorted(found)]


def standing_of(output: PoolOutput) -> Standing:
    """Return the state of a pool by its last output."""
    return Standing(output.pool, output.ts, output.members, output.ranking)


def by_worst(found: Iterable[Standing]) -> list[Standing]:
    """Sort pools by their largest deviation, then by name."""
    return sorted(found, key=lambda each: (-max((one.score for one in each.ranking), default=0.0), each.pool))


def pool_at(bus: Bus, topics: Topics, stage: PoolStage, pool: str, ts: float | None = None) -> PoolOutput | None:
    """Return the full report on a pool, now or at a time; None without any record of it.

    The task of the worker rebuilds it from the newest snapshot and the records after that, at most those of the last
    four hours.

    Raises `OutsideError` if the history of the pool begins after the time.
    """
    reader = Reader(bus, bus.partition_of(topics.name(stage.topic), pool), pool)
    oldest, end = bus.bounds(reader.partition)
    stop = end if ts is None else _after(reader, ts, end)
    if next(reader.backwards(stop), None) is None:
        first = next(reader.forwards(oldest, end), None)
        if first is None or ts is None:
            return None
        last = next(reader.backwards(end))
        raise OutsideError(pool, ts, first[1].ts, last[1].ts)
    task = stage.task(reader.partition)
    rebuild(task, reader, stop)
    return task.whole(pool)


def _after(reader: Reader, ts: float, end: int) -> int:
    """Return the offset of a pool's first record after a time."""
    start = reader.bus.offset_at(reader.partition, math.nextafter(ts, math.inf))
    return next((offset for offset, each in reader.forwards(start, end) if each.ts > ts), end)


def _newest(bus: Bus, partition: Partition, most: int, ts: float | None) -> Sequence[Incoming]:
    """Return the newest records up to a time, oldest first."""
    stop = None if ts is None else bus.offset_at(partition, math.nextafter(ts, math.inf))
    return list(Reader(bus, partition).newest(most, stop))


def _counted(records: Iterable[Incoming]) -> dict[str, tuple[float, int]]:
    """Return, by pool, the time of its newest frame, and the number of its members on all hosts then."""
    decoder = Decoder()
    sources: dict[str, dict[tuple[str, ...], tuple[float, frozenset[str]]]] = {}
    for record in records:
        try:
            frame = decoder.decode(record.value, record.key)
        except RecordError:
            continue  # a dead letter by now
        if isinstance(frame, Frame):
            there = frozenset(frame.layout.rows[row] for row in np.flatnonzero(np.isfinite(frame.values).any(axis=1)))
            of_pool = sources.setdefault(record.key, {})
            ts, rows = of_pool.get(frame.hosts, (-math.inf, frozenset()))
            if frame.ts >= ts:
                of_pool[frame.hosts] = frame.ts, there | rows if frame.ts == ts else there
    found = {}
    for pool, of_pool in sources.items():
        newest_ts = max(ts for ts, _ in of_pool.values())
        found[pool] = newest_ts, sum(len(rows) for ts, rows in of_pool.values() if ts >= newest_ts - GRACE_S)
    return found


def _last_outputs(records: Iterable[Incoming], topic: str) -> dict[str, PoolOutput]:
    """Return the last output on each pool."""
    kind = PoolOutput.kind.encode()
    values = {record.key: record.value for record in records if kind in record.value[:_PEEKED]}
    found = {}
    for pool, value in values.items():
        try:
            output = read_output(value, topic)
        except RecordError:
            continue
        if isinstance(output, PoolOutput):
            found[pool] = output
    return found
