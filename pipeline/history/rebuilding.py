"""A past state, from the newest snapshot before a moment and the records after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.engine.migrations import newest_snapshots
from laggard.pipeline.history.series import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.engine.stage import StageTask

UNLEARNED_S: Final = 4 * 3600.0
"""Without a near snapshot, as in the first minutes, the task learns this much before the moment, in seconds."""

LATELY: Final = 500
"""The number of newest records of a partition that contain each active key."""


def rebuild(task: StageTask, reader: Reader, stop: int) -> int:
    """Bring a task without any state to that of the reader's key before the offset `stop`.

    Returns:
        The offset from which on it has learned; 0 if it has learned all records, or continues a snapshot.

    """
    bus, partition, key = reader.bus, reader.partition, reader.key
    assert key is not None
    snapshots = newest_snapshots(bus, task.stage, partition, stop)
    saved = task.states.load(each for each in snapshots if each.key == key).saved.get(key, 0)
    start = max(saved, bus.bounds(partition)[0])
    if (newest := next(reader.backwards(stop), None)) is not None:
        start = max(start, bus.offset_at(partition, newest[1].ts - UNLEARNED_S))
    task.replay(reader.stored(start, stop))
    task.position = stop
    return 0 if saved else start


def known_keys(bus: Bus, topic: str) -> Sequence[str]:
    """Return the recorded keys, sorted.

    If the bus would have to be read from its beginning: those in the newest records.
    """
    if bus.knows_keys:
        return sorted(bus.keys(topic))
    return sorted({record.key for each in bus.partitions(topic) for record in Reader(bus, each).newest(LATELY)})
