"""Recovery: the state of a task at the committed offset, from snapshots and from the input after them."""

from __future__ import annotations

import logging
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from laggard.pipeline.core.bus import DamagedRecord, DamagedSnapshot
from laggard.pipeline.core.engine.migrations import newest_snapshots
from laggard.pipeline.core.engine.snapshots import BASE_KEY
from laggard.pipeline.core.engine.stage import MOST_LOGGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from laggard.pipeline.core.bus import Bus, Incoming, Snapshot
    from laggard.pipeline.core.engine.loading import Loaded
    from laggard.pipeline.core.engine.stage import StageTask
    from laggard.pipeline.core.engine.tasks import Tasks

_logger = logging.getLogger(__name__)


class Recoveries:
    """Brings all tasks of a group on a partition to the committed offset, one after the other; see `Recovery`.

    Parameters:
        bus: the bus with snapshots and input.
        tasks: new tasks.

    Attributes:
        tasks: the tasks.

    """

    def __init__(self, bus: Bus, tasks: Tasks) -> None:
        self.tasks = tasks
        self._each = [Recovery(bus, task) for task in tasks.each]

    @property
    def usable(self) -> bool:
        """Whether `advance` can make progress on every task."""
        return all(each.usable for each in self._each)

    @property
    def position(self) -> int:
        """The position of the slowest task; -1 before its snapshots are loaded."""
        return min(each.position for each in self._each)

    def advance(self, committed: int, stopped: Callable[[], bool]) -> bool:
        """Continue to the committed offset. Return whether all tasks are there."""
        for each in self._each:
            each.joins = any(other.had_snapshots for other in self._each)
            if not each.advance(committed, stopped):
                return False
        return True

    def follow(self) -> None:
        """Mark all tasks as level with their owner; see `Recovery.follow`."""
        for each in self._each:
            each.follow()

    def finish(self) -> None:
        """Make all tasks ready to run; see `Recovery.finish`."""
        for each in self._each:
            each.finish()


class Recovery:
    """Brings a new task to the committed offset: loads its snapshots, replays the input after them, withholds outputs.

    A key with an unusable snapshot is learned again from all of its remaining records. Input that was deleted before
    its replay is counted, and the task continues without it. Both are logged.

    Each call of `advance` continues where the last one ended. So a recovery can follow a group whose offset grows, as a
    standby does, and continue after the bus was unavailable.

    Parameters:
        bus: the bus with snapshots and input.
        task: a new task; not to be used for anything else before `finish`.

    Attributes:
        task: the task.
        position: the next offset to replay; -1 before the snapshots are loaded.
        had_snapshots: whether the bus had any for this task.
        joins: whether other tasks of the group had some. A task without snapshots is then new: it has missed no input.

    """

    def __init__(self, bus: Bus, task: StageTask) -> None:
        self.task = task
        self.position = -1
        self.had_snapshots = self.joins = False
        self._bus = bus
        self._where = f"{task.stage.name} on {task.partition.topic}[{task.partition.number}]"
        self._saved: dict[str, int] = {}
        self._begun = False
        self._took_s = 0.0

    @property
    def usable(self) -> bool:
        """Whether `advance` can make progress; otherwise a new recovery of a new task is needed."""
        return self.position >= 0 or not self._begun

    def advance(self, committed: int, stopped: Callable[[], bool]) -> bool:
        """Continue to the committed offset.

        Args:
            committed: the first unprocessed offset.
            stopped: called before each record; True ends the call.

        Returns:
            Whether it is there. If not, it was stopped, or it is no longer usable: the offset was set back, or input
            that it had not read was deleted since it loaded the snapshots.

        Raises:
            BusUnavailable: call again later, if it is usable.

        """
        if not self.task.stage.remembers:
            self.position, self._begun = committed, True
            return True
        began = time.monotonic()
        follows = self._begun
        if not follows and not self._load(committed, stopped):
            return False
        since = self.position
        try:
            there = since <= committed and self._replay_to(committed, stopped)
        finally:
            self._took_s += time.monotonic() - began
        if since > committed or (follows and since < committed and self._bus.bounds(self.task.partition)[0] > since):
            self.position = -1
            return False
        return there

    def _load(self, committed: int, stopped: Callable[[], bool]) -> bool:
        """Load the snapshots, and set the position to the beginning of the replay. Return False if stopped."""
        task = self.task
        snapshots = self._snapshots(committed)
        oldest = min(self._bus.bounds(task.partition)[0], committed)
        self._begun = True
        loaded = task.states.load(snapshots)
        # Records in their key's snapshot are skipped below, so that an early beginning is never wrong.
        self.had_snapshots = bool(snapshots)
        without_base = oldest if snapshots or self.joins else 0
        start = without_base if loaded.base is None else loaded.base
        self._report(loaded, start, oldest)
        counted = task.states.counted
        self._saved = loaded.saved
        if damaged := [key for key in loaded.damaged if key != BASE_KEY]:
            loaded.saved.update(dict.fromkeys(damaged, oldest))
            if not self._replay(self._records_of(damaged, oldest, committed), committed, stopped):
                return False
            for key in damaged:
                loaded.saved[key] = committed
                task.states.relearned(key, counted)
        self.position = min(max(start, oldest), committed)
        return True

    def _report(self, loaded: Loaded[Any], start: int, oldest: int) -> None:
        telemetry = self.task.telemetry
        if start < oldest:
            telemetry.missed_records += oldest - start
            _logger.warning(
                "%s: %d records that are in no snapshot were deleted; going on without them",
                self._where, oldest - start,
            )  # fmt: skip
        telemetry.snapshots_migrated += loaded.migrated
        telemetry.snapshots_unusable += len(loaded.damaged)
        if loaded.migrated:
            _logger.warning("%s: %d snapshots of an older version were migrated", self._where, loaded.migrated)
        for reason in islice(loaded.damaged.values(), MOST_LOGGED):
            _logger.warning("%s: a snapshot is unusable; learning from the input again: %s", self._where, reason)
        if len(loaded.damaged) > MOST_LOGGED:
            _logger.warning("%s: %d more snapshots are unusable", self._where, len(loaded.damaged) - MOST_LOGGED)

    def _snapshots(self, committed: int) -> Sequence[Snapshot]:
        task = self.task
        try:
            newest = newest_snapshots(self._bus, task.stage, task.partition)
            if all(snapshot.offset <= committed for snapshot in newest):
                return newest
            # The group's offset was set back. The base does not cover keys without a snapshot from before it.
            earlier = newest_snapshots(self._bus, task.stage, task.partition, committed)
            return [snapshot for snapshot in earlier if snapshot.key != BASE_KEY]
        except (DamagedRecord, DamagedSnapshot) as error:
            _logger.warning("%s: the snapshots cannot be read; learning from the input again: %s", self._where, error)
            return ()

    def _replay_to(self, committed: int, stopped: Callable[[], bool]) -> bool:
        if not self._replay(self._records(self.position, committed), committed, stopped):
            return False
        # Offsets may have holes: the last record need not be just before the committed offset.
        self.position = committed
        self.task.telemetry.recovery_left_records = 0
        return True

    def _records(self, start: int, stop: int, key: str | None = None) -> Iterator[Incoming]:
        """Yield the readable records: a damaged one became a dead letter when it was processed."""
        while True:
            try:
                yield from self._bus.read(self.task.partition, start, stop, key)
            except DamagedRecord as damaged:
                start = damaged.offset + 1
            else:
                return

    def _records_of(self, keys: Sequence[str], start: int, stop: int) -> Iterator[Incoming]:
        """Return the records of some keys, in one pass for any number of keys."""
        if len(keys) == 1:
            return self._records(start, stop, keys[0])
        wanted = frozenset(keys)
        return (record for record in self._records(start, stop) if record.key in wanted)

    def _replay(self, records: Iterator[Incoming], committed: int, stopped: Callable[[], bool]) -> bool:
        """Replay the records that are not in their key's snapshot. Return whether it has reached the end."""
        telemetry, saved, follows = self.task.telemetry, self._saved, self.position >= 0

        def unsaved() -> Iterator[Incoming]:
            for record in records:
                telemetry.recovery_left_records = committed - record.offset
                if stopped():
                    return
                if record.offset >= saved.get(record.key, 0):
                    yield record
                else:
                    self.task.skip(record)
                if follows:
                    self.position = record.offset + 1

        self.task.replay(unsaved())
        return not stopped()

    def follow(self) -> None:
        """Mark the task as level with its owner: from here on it does the same, with outputs withheld."""
        self.task.states.follow()

    def finish(self) -> None:
        """Make the task ready to run from the offset that `advance` has reached."""
        self.task.states.loaded(self.position)
        self.task.position = self.position
        self.task.telemetry.recovery_seconds = self._took_s
