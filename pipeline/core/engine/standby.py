"""Standby: replicas of the states of other members' partitions, updated by replay.

A standby is an early recovery. It loads the snapshots, and repeatedly replays the input up to the offset that the
partition's owner has committed. Outputs are withheld, and nothing is saved. When the partition is assigned to this
member, only the records that were committed in the last second are left to replay.

Each partition of the group's topic that this member does not have costs as much CPU time and memory as one that it has.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusUnavailable
from laggard.pipeline.core.engine.recovery import Recoveries

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.bus import Bus, Partition
    from laggard.pipeline.core.engine.tasks import Tasks

EVERY_S: Final = 1.0
CONFIRM_EVERY_S: Final = 300.0
"""The time between two checks for snapshots that the owner has saved, in seconds."""

_logger = logging.getLogger(__name__)


class Standby:
    """The states of other members' partitions; for one thread at a time.

    Parameters:
        bus: the bus with snapshots and input.
        group: the group whose committed offsets are followed.
        topic: the topic's full name.
        new_tasks: makes the tasks of a partition without any state.
        mine: returns whether a partition is this member's now.
        clock: seconds on a clock that never steps.

    """

    def __init__(
        self,
        bus: Bus,
        group: str,
        topic: str,
        new_tasks: Callable[[Partition], Tasks],
        mine: Callable[[Partition], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bus = bus
        self._group = group
        self._topic = topic
        self._new_tasks = new_tasks
        self._mine = mine
        self._clock = clock
        self._recoveries: dict[Partition, Recoveries] = {}
        self._confirmed_at: dict[Partition, float] = {}

    def take(self, partition: Partition) -> Recoveries | None:
        """Stop following a partition, and return its recoveries; None without usable ones."""
        recovery = self._recoveries.pop(partition, None)
        if recovery is None:
            return None
        for task in recovery.tasks.each:
            task.telemetry.standby_position = task.telemetry.standby_left_records = 0
        return recovery if recovery.usable else None

    def advance(self, stopped: Callable[[], bool]) -> None:
        """Follow the owner of each partition to its present offset, or until stopped.

        Raises:
            BusError: an error that a retry does not fix.

        """
        try:
            for partition in self._bus.partitions(self._topic):
                if stopped():
                    return
                if not self._mine(partition):
                    self._follow(partition, stopped)
        except BusUnavailable as error:
            _logger.debug("the standby of %s waits for the bus: %s", self._group, error)

    def _follow(self, partition: Partition, stopped: Callable[[], bool]) -> None:
        recovery = self._recoveries.get(partition)
        if recovery is None or not recovery.usable:
            recovery = self._recoveries[partition] = Recoveries(self._bus, self._new_tasks(partition))
        committed = self._bus.committed(self._group, partition)
        try:
            if recovery.advance(committed, stopped):
                recovery.follow()
                self._confirm(recovery)
        finally:
            for task in recovery.tasks.each:
                task.telemetry.recovery_left_records = 0
                task.telemetry.standby_position = max(0, recovery.position)
                task.telemetry.standby_left_records = committed - task.telemetry.standby_position

    def _confirm(self, recovery: Recoveries) -> None:
        """Note the snapshots that the owner has saved, so that their records need not be replayed a second time."""
        partition, now = recovery.tasks.partition, self._clock()
        if now - self._confirmed_at.get(partition, now - CONFIRM_EVERY_S) >= CONFIRM_EVERY_S:
            self._confirmed_at[partition] = now
            for task in recovery.tasks.each:
                if task.stage.remembers:
                    saved = self._bus.snapshot_offsets(task.stage.snapshots, partition)
                    task.states.confirm(saved, recovery.position)
