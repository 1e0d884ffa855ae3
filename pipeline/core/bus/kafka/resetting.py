"""Resets operators on Kafka: deletes their snapshots in the compacted topic, and sets their group's offsets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusError, Partition
from laggard.pipeline.core.bus.kafka import snapshots as chunks
from laggard.pipeline.core.bus.kafka.errors import location
from laggard.pipeline.core.bus.kafka.wire import Raw, key_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import Snapshot
    from laggard.pipeline.core.bus.kafka.bus import KafkaBus

_AT_ONCE: Final = 1000


def reset(
    bus: KafkaBus,
    group: str,
    operators: tuple[str, ...],
    offsets: Mapping[Partition, int],
    snapshots: Sequence[Snapshot],
) -> None:
    """See `Bus.reset`. Another call completes an interrupted one."""
    if members := bus.groups.client_ids(group):
        raise BusError(
            f"{location(bus.options)}: group {group} has {len(members)} members; stop the workers first: "
            f"{', '.join(sorted(members))}"
        )
    # Offsets last: until then a new member rebuilds states without a snapshot from the input.
    for operator in operators:
        topic = chunks.topic_of(bus.options.prefix, operator)
        deletions = [*_deletions(bus, topic, offsets)]
        for start in range(0, len(deletions), _AT_ONCE):
            bus.append_raw(deletions[start : start + _AT_ONCE], f"delete snapshots in {topic}")
    for snapshot in snapshots:
        topic = chunks.topic_of(bus.options.prefix, snapshot.operator)
        number = chunks.partition_of(snapshot.partition, len(bus.partitions(topic)))
        bus.append_raw(chunks.records(snapshot, topic, number), f"save snapshots in {topic}")
    bus.groups.set_offsets(group, offsets)


def _deletions(bus: KafkaBus, topic: str, inputs: Mapping[Partition, int]) -> Iterator[Raw]:
    """Yield a deletion of each record that is part of a snapshot of one of the input partitions."""
    count = bus.topics.partition_counts([topic]).get(topic)
    if count is None:
        return
    now_ms = int(time.time() * 1000)
    for number in sorted({chunks.partition_of(partition, count) for partition in inputs}):
        there: set[str] = set()
        for record in bus.read(Partition(topic, number), 0):
            if chunks.input_of(record.key) in inputs:
                # A snapshot may be empty; a deletion lacks the headers of one.
                (there.add if chunks.is_chunk(record) else there.discard)(record.key)
        for key in sorted(there):
            yield Raw(topic, number, key_bytes(key), None, now_ms, [(chunks.RESET, b"")])
