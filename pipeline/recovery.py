"""Recovery: the state of a task as it was at the committed offset, from snapshots and from the input after them."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from laggard.pipeline.bus import BusError, BusUnavailable, DamagedRecord
from laggard.pipeline.states import BASE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from laggard.pipeline.bus import Bus, Incoming, Snapshot
    from laggard.pipeline.task import Task

_logger = logging.getLogger(__name__)


def recover(bus: Bus, task: Task, committed: int, stopped: Callable[[], bool]) -> bool:
    """Bring a new task to the committed offset: load its snapshots, replay the input after them, withhold outputs.

    A key whose snapshot cannot be used is learned again from all of its records that are still there. Input that was
    deleted before it could be replayed is counted, and the task goes on without it; both are said in the log.

    Args:
        bus: where snapshots and input are.
        task: new; not to be used when this raises or gives False.
        committed: the first offset that was not processed yet.
        stopped: asked before each record; True ends the recovery.

    Returns:
        Whether it was brought to an end.

    Raises:
        BusUnavailable: for now; try again with another new task.

    """
    began = time.monotonic()
    where = f"{task.wired.name} on {task.partition.topic}[{task.partition.number}]"
    snapshots = _snapshots(bus, task, committed, where)
    loaded = task.states.load(snapshots)
    oldest = min(bus.bounds(task.partition)[0], committed)
    # What is in a key's snapshot is passed over below, so that to begin too early is never wrong.
    without_base = oldest if snapshots else 0
    start = without_base if loaded.base is None else loaded.base
    if start < oldest:
        task.telemetry.missed_records += oldest - start
        _logger.warning(
            "%s: %d records that are in no snapshot were deleted; going on without them", where, oldest - start
        )
    for key, reason in loaded.damaged.items():
        _logger.warning("%s: a snapshot cannot be used; learning from the input again: %s", where, reason)
        if key != BASE_KEY:
            loaded.saved[key] = oldest
            if not _replay(task, _records(bus, task, oldest, committed, key), loaded.saved, committed, stopped):
                return False
            loaded.saved[key] = committed
    if not _replay(task, _records(bus, task, max(start, oldest), committed), loaded.saved, committed, stopped):
        return False
    task.states.loaded()
    task.position = committed
    task.telemetry.recovery_left_records = 0
    task.telemetry.recovery_seconds = time.monotonic() - began
    return True


def _snapshots(bus: Bus, task: Task, committed: int, where: str) -> Sequence[Snapshot]:
    try:
        return bus.snapshots(task.wired.name, task.partition, committed)
    except BusUnavailable:
        raise
    except BusError as error:
        _logger.warning("%s: the snapshots cannot be read; learning from the input again: %s", where, error)
        return ()


def _records(bus: Bus, task: Task, start: int, stop: int, key: str | None = None) -> Iterator[Incoming]:
    """The records that can be read; one that is damaged became a dead letter when it was processed."""
    while True:
        try:
            yield from bus.read(task.partition, start, stop, key)
        except DamagedRecord as damaged:
            start = damaged.offset + 1
        else:
            return


def _replay(
    task: Task, records: Iterator[Incoming], saved: dict[str, int], committed: int, stopped: Callable[[], bool]
) -> bool:
    """Take the records that are not in their key's snapshot; gives whether it came to the end."""

    def unsaved() -> Iterator[Incoming]:
        for record in records:
            task.telemetry.recovery_left_records = committed - record.offset
            if stopped():
                return
            if record.offset >= saved.get(record.key, 0):
                yield record

    task.replay(unsaved())
    return not stopped()
