"""Standby: the states of partitions that other members have, kept warm by replay.

A standby does what a recovery does, only earlier: it loads the snapshots and replays the input up to what the
partition's owner has committed, again and again, with outputs withheld and nothing saved. When the partition comes to
this member, what is left to be replayed is what was committed in the last second.

It costs as much processor time and memory as having the partition, for each partition of the group's topic that
this member has not.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from laggard.pipeline.bus import BusUnavailable
from laggard.pipeline.engine.recovery import Recoveries

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.bus import Bus, Partition
    from laggard.pipeline.engine.tasks import Tasks

EVERY_S: Final = 1.0
CONFIRM_EVERY_S: Final = 300.0
"""How often the standby looks which snapshots the owner has saved meanwhile."""

_logger = logging.getLogger(__name__)


class Standby:
    """States of partitions that other members have; for one thread at a time.

    Parameters:
        bus: where snapshots and input are.
        group: whose committed offsets are followed.
        topic: the topic's full name.
        new_tasks: makes the tasks of a partition without any state.
        mine: whether a partition is this member's now.
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
        """What there is of a partition; it is not followed any more."""
        recovery = self._recoveries.pop(partition, None)
        if recovery is None:
            return None
        for task in recovery.tasks.each:
            task.telemetry.standby_position = task.telemetry.standby_left_records = 0
        return recovery if recovery.usable else None

    def advance(self, stopped: Callable[[], bool]) -> None:
        """Follow each partition's owner to where it is now, or until it is stopped.

        Raises:
            BusError: to try again would not help.

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
        """Look which snapshots the owner has saved, so that what is in them need not be replayed a second time."""
        partition, now = recovery.tasks.partition, self._clock()
        if now - self._confirmed_at.get(partition, now - CONFIRM_EVERY_S) >= CONFIRM_EVERY_S:
            self._confirmed_at[partition] = now
            for task in recovery.tasks.each:
                if task.stage.remembers:
                    saved = self._bus.snapshot_offsets(task.stage.snapshots, partition)
                    task.states.confirm(saved, recovery.position)
