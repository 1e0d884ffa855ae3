"""A member of an operator's group: polls its partitions, runs a task for each of them, and commits.

What a task gives out waits until its partition's offset goes with it into one transaction. A commit that the bus could
not take for now is tried again as it is, before anything else is read; one that was fenced is void, and the state is
recovered from what is committed.
"""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from laggard.pipeline.bus import BusUnavailable, Commit, DamagedRecord, Fenced
from laggard.pipeline.publishing import outgoing
from laggard.pipeline.recovery import recover

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.bus import Bus, Incoming, Outgoing, Partition, Polled, Snapshot, Subscription
    from laggard.pipeline.task import Task
    from laggard.pipeline.telemetry import Telemetry
    from laggard.pipeline.topics import Topics
    from laggard.pipeline.wiring import Wired

LAG_EVERY_S = 1.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is done at once.

    Attributes:
        commit_s: commits are at least so far apart; what comes after a pause is committed at once.
        commit_records: ... unless so many records wait for one.
        poll_records: so many records are read at once, and are in memory together.

    """

    commit_s: float = 0.2
    commit_records: int = 5000
    poll_records: int = 100


@dataclass(slots=True, eq=False)
class _Held:
    """A partition that this member has, with its state.

    Attributes:
        task: what processes its records.
        committed: up to where they are committed.
        waiting: for each record beyond that when it was polled, on the monotonic clock, and its own time.
        lag_at: when the lag was looked at.
        outputs: how many the prepared commit takes from it.

    """

    task: Task
    committed: int
    waiting: list[tuple[float, float]] = field(default_factory=list)
    lag_at: float = -math.inf
    outputs: int = 0


class Member:
    """One operator's member of its group.

    Parameters:
        bus: where everything is; its topics have been created.
        wired: the operator.
        topics: the names of the topics.
        new_task: makes a task for a partition, without any state.
        pace: how much is done at once.
        telemetry: where to count.
        clock: seconds on a clock that never steps.
        wall_clock: seconds since the Unix epoch, for latencies only.

    """

    def __init__(
        self,
        bus: Bus,
        wired: Wired,
        topics: Topics,
        new_task: Callable[[Partition], Task],
        *,
        pace: Pace,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.wired = wired
        self._bus = bus
        self._topics = topics
        self._new_task = new_task
        self._pace = pace
        self._telemetry = telemetry
        self._clock = clock
        self._wall_clock = wall_clock
        self._subscription: Subscription | None = None
        self._joined = False
        self._held: dict[Partition, _Held] = {}
        self._lost: dict[Partition, None] = {}  # ours, but without a state
        self._commit: Commit | None = None
        self._committed_at = -math.inf

    def recovering(self) -> dict[str, int]:
        """What is to be done until all states are what they were, with the records left; empty when nothing is."""
        if not self._joined:
            return {self.wired.name: 1}
        return {
            f"{self.wired.name} {partition.topic}[{partition.number}]": max(
                1, self._telemetry.task(self.wired.name, partition).recovery_left_records
            )
            for partition in tuple(self._lost)
        }

    def step(self, timeout_s: float, stopped: Callable[[], bool]) -> None:
        """Read what is there, waiting at most `timeout_s` for it, process and commit it.

        Raises:
            BusUnavailable: nothing is lost; call again later.

        """
        subscription = self._subscription
        if subscription is None:
            subscription = self._subscription = self._bus.subscribe(
                self._topics.group(self.wired.name), [self._topics.name(self.wired.topic)]
            )
        self._try_commit(subscription)
        if self._pending():
            timeout_s = min(timeout_s, max(0.0, self._committed_at + self._pace.commit_s - self._clock()))
        try:
            polled = subscription.poll(0.0 if self._lost else timeout_s, self._pace.poll_records)
        except DamagedRecord as damaged:
            if (held := self._held.get(damaged.partition)) is not None:
                held.task.damaged_record(damaged.offset, str(damaged))
        else:
            self._take(polled)
        for partition in tuple(self._lost):
            self._recover(subscription, partition, stopped)
        self._joined = True
        if self._due():
            self._prepare()
            self._try_commit(subscription)
        self._look_at_lag()

    def _take(self, polled: Polled) -> None:
        for partition in polled.revoked:
            self._drop(partition)
            self._lost.pop(partition, None)
        for partition in polled.assigned:
            self._drop(partition)
            self._lost[partition] = None
        now = self._clock()
        for record in polled.records:
            # Without a state it is read again after the recovery.
            if (held := self._held.get(record.partition)) is not None:
                if record.offset != held.task.position:
                    self._count_missed(held.task, record)
                held.task.process(record)
                held.waiting.append((now, record.ts))

    def _drop(self, partition: Partition) -> None:
        if self._held.pop(partition, None) is not None:
            self._telemetry.task(self.wired.name, partition).lost()

    def _count_missed(self, task: Task, record: Incoming) -> None:
        """Offsets may have holes; what retention deleted unread is below the oldest offset."""
        with suppress(BusUnavailable):
            oldest = self._bus.bounds(record.partition)[0]
            if (missed := min(oldest, record.offset) - task.position) > 0:
                task.telemetry.missed_records += missed
                _logger.warning(
                    "%s on %s[%d]: %d records were deleted before they were read; going on without them",
                    self.wired.name, *record.partition, missed,
                )  # fmt: skip

    def _recover(self, subscription: Subscription, partition: Partition, stopped: Callable[[], bool]) -> None:
        committed = subscription.committed(partition)
        task = self._new_task(partition)
        if recover(self._bus, task, committed, stopped):
            subscription.seek(partition, committed)
            task.refresh()
            self._held[partition] = _Held(task, committed)
            del self._lost[partition]

    def _look_at_lag(self) -> None:
        now = self._clock()
        for partition, held in self._held.items():
            if now - held.lag_at >= LAG_EVERY_S:
                held.lag_at = now
                end = self._bus.bounds(partition)[1]
                held.task.telemetry.lag_records = max(0, end - held.committed)

    # Committing.

    def _pending(self) -> bool:
        return any(held.task.position > held.committed for held in self._held.values())

    def _due(self) -> bool:
        if self._clock() >= self._committed_at + self._pace.commit_s:
            return self._pending()
        return sum(len(held.waiting) for held in self._held.values()) >= self._pace.commit_records

    def _prepare(self) -> None:
        """Put what waits into one commit."""
        offsets: dict[Partition, int] = {}
        outputs: list[Outgoing] = []
        snapshots: list[Snapshot] = []
        for partition, held in self._held.items():
            task = held.task
            saved = task.states.take(task.position)
            if task.position > held.committed or saved:
                offsets[partition] = task.position
                outputs += [outgoing(output, self._topics) for output in task.outputs]
                held.outputs = len(task.outputs)
                snapshots += saved
                task.outputs.clear()
        self._commit = Commit(offsets, outputs, snapshots) if offsets else None

    def _try_commit(self, subscription: Subscription) -> None:
        """Commit what was prepared, if anything was. Raises BusUnavailable with the commit kept."""
        commit = self._commit
        if commit is None:
            return
        began = self._clock()
        try:
            subscription.commit(commit)
        except Fenced:
            self._telemetry.fenced += 1
            self._commit = None
            for partition in commit.offsets:
                self._drop(partition)
                self._lost[partition] = None
            return
        self._commit = None
        self._committed_at = self._clock()
        self._count(commit, self._committed_at - began)

    def _count(self, commit: Commit, took_s: float) -> None:
        wall = self._wall_clock()
        for partition, offset in commit.offsets.items():
            held = self._held[partition]
            held.committed = offset
            telemetry = held.task.telemetry
            telemetry.commits += 1
            telemetry.outputs += held.outputs
            telemetry.commit_duration_seconds.add(took_s)
            for polled_at, ts in held.waiting:
                telemetry.processing_seconds.add(self._committed_at - polled_at)
                telemetry.latency_seconds.add(wall - ts)
            held.waiting.clear()
            held.task.refresh()
        for snapshot in commit.snapshots:
            telemetry = self._held[snapshot.partition].task.telemetry
            telemetry.snapshots += 1
            telemetry.snapshot_bytes += len(snapshot.value)

    def finish(self) -> None:
        """Commit all that was processed, with the states of all keys. Raises BusUnavailable; call again then."""
        subscription = self._subscription
        if subscription is None:
            return
        for held in self._held.values():
            held.task.states.save_all(held.task.position)
        while True:
            self._try_commit(subscription)
            self._prepare()
            if self._commit is None:
                return

    def close(self) -> None:
        """Leave the group. What was not committed is processed again by the next member."""
        if self._subscription is not None:
            self._subscription.close()
        for partition in tuple(self._held):
            self._drop(partition)
