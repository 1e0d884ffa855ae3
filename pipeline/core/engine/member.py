"""A member of a group: polls its partitions, runs the tasks of the group's stages on each of them, and commits.

Outputs of tasks wait until they go into one transaction with the offset of their partition. If the bus is unavailable
for a commit, the same commit is retried before anything else is read. Fenced partitions are removed from it: the work
on them is void, and their states are recovered from what is committed.

A new partition is paused, recovered in another thread (`Recoverer`), and continues at the committed offset. Meanwhile
the member polls and processes its other partitions, so that a long recovery costs it neither time nor its place in the
group.

Memory: each stage's states of each partition that the member has or recovers (see `states`), and `Pace.poll_records`
records. It also has the results since the last commit, of at most `Pace.commit_records` records and one poll. While the
snapshots of a partition are loaded, it has those of one partition as bytes. With a standby it has the states of all
other partitions, too.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.backoff import Backoff
from laggard.pipeline.core.bus import BusUnavailable, DamagedRecord
from laggard.pipeline.core.engine.assignment import OwnedPartition
from laggard.pipeline.core.engine.background import LagMonitor
from laggard.pipeline.core.engine.committer import Committer
from laggard.pipeline.core.engine.former import going_on
from laggard.pipeline.core.engine.recoverer import Recoverer
from laggard.pipeline.core.engine.standby import Standby
from laggard.pipeline.core.topics import DEAD_LETTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.pipeline.core.bus import Bus, Partition, Polled, Subscription
    from laggard.pipeline.core.engine.committer import Pace
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.engine.tasks import Tasks
    from laggard.pipeline.core.engine.telemetry import TaskTelemetry, Telemetry
    from laggard.pipeline.core.topics import Topics

RECOVERING_S: Final = 0.05
"""The time that a poll waits for records while a recovery may end, in seconds."""

IDLE_S: Final = 1.0
"""The time since its last commit after which a member that reads nothing commits its read positions, in seconds."""

LOGGED_AFTER: Final = 5
"""The number of failures to begin a recovery after which it is logged: some are normal during a rebalance."""

_logger = logging.getLogger(__name__)


class Member:
    """A member of the group of one or more stages. Its methods are for one thread, except for `recovering`.

    Parameters:
        bus: the bus, with its topics created.
        stages: the stages of the group, which read one topic.
        topics: the names of the topics.
        new_tasks: makes their tasks for a partition, without any state.
        pace: the amounts of work done at once.
        standby: whether to replicate the states of other members' partitions.
        telemetry: its counters.
        clock: seconds on a clock that never steps.
        wall_clock: seconds since the Unix epoch, for latencies only.

    Attributes:
        name: the name of the group, without the prefix.

    """

    def __init__(
        self,
        bus: Bus,
        stages: Sequence[Stage],
        topics: Topics,
        new_tasks: Callable[[Partition], Tasks],
        *,
        pace: Pace,
        standby: bool = False,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._stages = tuple(stages)
        self._group, self._topic = topics.group(stages[0].name), topics.name(stages[0].topic)
        self.name = self._group.removeprefix(topics.prefix)
        self._bus = bus
        self._topics = topics
        self._pace = pace
        self._telemetry = telemetry
        self._clock = clock
        self._subscription: Subscription | None = None
        self._joined = False
        self._held: dict[Partition, OwnedPartition] = {}
        self._lost: dict[Partition, Backoff] = {}  # assigned, without a state yet
        self._committer = Committer(self._held, topics, pace, telemetry, self._lose, clock=clock, wall_clock=wall_clock)
        self._remembering = [stage for stage in self._stages if stage.remembers]
        warm = (
            Standby(bus, self._group, self._topic, new_tasks, self._is_mine) if standby and self._remembering else None
        )
        self._recoverer = Recoverer(bus, self.name, new_tasks, warm, clock)
        self._lag_monitor = LagMonitor(bus, self.name, self._held, self._recoverer.under_way, self._counted)

    def _is_mine(self, partition: Partition) -> bool:
        return partition in self._held or partition in self._lost

    def recovering(self) -> dict[str, int]:
        """Return the groups and partitions to recover, with the number of records left; empty without any."""
        if not self._joined:
            return {self.name: 1}
        return {
            f"{self.name} {partition.topic}[{partition.number}]": max(
                1, sum(counted.recovery_left_records for counted in self._counted(partition))
            )
            for partition in tuple(self._lost)
        }

    def _counted(self, partition: Partition) -> list[TaskTelemetry]:
        """Return the counters of each task on a partition."""
        return [self._telemetry.task(stage.name, partition) for stage in self._stages]

    def step(self, timeout_s: float) -> bool:
        """Read records, waiting at most `timeout_s` for them, process and commit them.

        Returns:
            Whether there were any: then there may be more.

        Raises:
            BusUnavailable: nothing is lost; call again later.
            BusError: a topic is missing, or another error that a retry does not fix.

        """
        subscription = self._subscription
        if subscription is None:
            written = dict.fromkeys(topic for stage in self._stages for topic in stage.writes)
            outputs = [self._topics.name(topic) for topic in (*written, DEAD_LETTERS)]
            self._bus.require(outputs, [stage.snapshots for stage in self._remembering])
            subscription = self._subscription = self._bus.subscribe(self._group, [self._topic])
        self._committer.retry(subscription)
        busy = True
        try:
            polled = subscription.poll(self._patience_s(timeout_s), self._pace.poll_records)
        except DamagedRecord as damaged:
            if (owned := self._held.get(damaged.partition)) is not None:
                owned.tasks.damaged_record(damaged.offset, str(damaged))
        else:
            self._take(polled)
            busy = bool(polled.records)
        self._recover(subscription)
        self._joined = self._joined or subscription.joined
        if self._committer.due():
            self._committer.prepare()
            self._committer.retry(subscription)
        if not busy and self._clock() >= self._committer.committed_at + IDLE_S:
            self._committer.pass_over(subscription)
        return busy

    def _patience_s(self, timeout_s: float) -> float:
        """Return the time to wait for records, in seconds."""
        if self._committer.pending():
            timeout_s = min(timeout_s, max(0.0, self._committer.committed_at + self._pace.commit_s - self._clock()))
        if self._lost:
            # Without any state no record can be processed: `_recover` waits for a recovery instead.
            timeout_s = 0.0 if self._recoverer.working and not self._held else min(timeout_s, RECOVERING_S)
        return timeout_s

    def _take(self, polled: Polled) -> None:
        for partition in polled.revoked:
            self._drop(partition)
            self._lost.pop(partition, None)
            for counted in self._counted(partition):
                counted.revocations += 1
                counted.lost()
        for partition in polled.assigned:
            self._lose(partition)
            for counted in self._counted(partition):
                counted.assignments += 1
        now = self._clock()
        for record in polled.records:
            # A record without a state is read again after the recovery.
            if (owned := self._held.get(record.partition)) is not None:
                owned.process(record, now)

    def _drop(self, partition: Partition) -> None:
        """Drop the states of a partition, and its recovery."""
        self._recoverer.drop(partition)
        if (owned := self._held.pop(partition, None)) is not None:
            owned.tasks.lost()
            for counted in self._counted(partition):
                counted.lost()

    def _lose(self, partition: Partition) -> None:
        """Drop the states of an assigned partition, to recover them from what is committed."""
        self._lost[partition] = Backoff()
        self._drop(partition)

    def _recover(self, subscription: Subscription) -> None:
        """Begin the recoveries that are due, and resume the partitions whose recovery has ended."""
        for partition, backoff in self._lost.items():
            if partition not in self._recoverer and backoff.at <= self._clock():
                try:
                    subscription.pause(partition)
                    self._recoverer.begin(partition, self._start(subscription, partition))
                except BusUnavailable as error:
                    # Continue with the others: perhaps only the leader of this partition is unavailable.
                    self._telemetry.retries += 1
                    backoff.failed(self._clock())
                    if backoff.failures == LOGGED_AFTER:
                        _logger.warning("%s on %s[%d] cannot be claimed yet: %s", self.name, *partition, error)
                else:
                    if backoff.failures >= LOGGED_AFTER:
                        _logger.warning("%s on %s[%d] is claimed now", self.name, *partition)
                    backoff.went_well()
        if not self._held:
            self._recoverer.wait(RECOVERING_S)
        for partition, committed, tasks in self._recoverer.recovered():
            subscription.seek(partition, committed)
            subscription.resume(partition)
            self._recoverer.drop(partition)
            tasks.refresh()
            self._held[partition] = OwnedPartition(self.name, tasks, committed)
            tasks.found()
            del self._lost[partition]
        if self._joined and not self._lost:
            self._recoverer.warm()
        self._telemetry.retries += self._recoverer.take_retries()

    def _start(self, subscription: Subscription, partition: Partition) -> int:
        """Return the offset at which to continue a partition; see `former`."""
        committed = subscription.committed(partition)
        start = going_on(self._bus, self._topics, self._stages, partition, committed)
        if start > committed:
            _logger.warning(
                "%s on %s[%d] goes on at %d, where an older laggard was: one group runs %s now",
                self.name, *partition, start, ", ".join(stage.name for stage in self._stages),
            )  # fmt: skip
        return start

    def start(self) -> None:
        """Update lag and missed records from here on, in a thread of its own."""
        self._lag_monitor.start()

    def update_lag(self) -> None:
        """Update lag and missed records now."""
        self._lag_monitor.update()

    def finish(self) -> None:
        """Commit all processed records, with the states of all keys. Raises BusUnavailable; call again then."""
        subscription = self._subscription
        if subscription is None:
            return
        for owned in self._held.values():
            owned.tasks.save_all()
        while True:
            self._committer.retry(subscription)
            if not self._committer.prepare():
                return

    def close(self) -> None:
        """Leave the group. The next member processes uncommitted records again."""
        self._recoverer.close()
        self._lag_monitor.close()
        try:
            if self._subscription is not None:
                self._subscription.close()
        finally:
            for partition in tuple(self._held):
                self._drop(partition)
