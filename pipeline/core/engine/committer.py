"""The commits of a member: the results on its partitions, together with the offsets up to which they reach."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import Fenced
from laggard.pipeline.core.engine.assignment import Part, commit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.pipeline.core.bus import Partition, Subscription
    from laggard.pipeline.core.engine.assignment import OwnedPartition
    from laggard.pipeline.core.engine.telemetry import Telemetry
    from laggard.pipeline.core.topics import Topics


@dataclass(frozen=True, slots=True)
class Pace:
    """The amounts of work done at once.

    Attributes:
        commit_s: the least time between commits, in seconds; records after a pause are committed at once.
        commit_records: ... unless this number of records waits for a commit.
        poll_records: the most records that are read at once, and are in memory together.

    """

    commit_s: float = 0.2
    commit_records: int = 5000
    poll_records: int = 100


class Committer:
    """Prepares one commit at a time, and retries it until it succeeds.

    Parameters:
        held: the partitions of the member; it changes.
        topics: the names of the topics.
        pace: the amounts of work done at once.
        telemetry: the member's counters.
        lose: drops the state of a fenced partition, and removes it from `held`.
        clock: seconds on a clock that never steps.
        wall_clock: seconds since the Unix epoch, for latencies only.

    Attributes:
        committed_at: the time of the last commit, by the clock.

    """

    def __init__(
        self,
        held: Mapping[Partition, OwnedPartition],
        topics: Topics,
        pace: Pace,
        telemetry: Telemetry,
        lose: Callable[[Partition], None],
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self.committed_at = -math.inf
        self._held = held
        self._topics = topics
        self._pace = pace
        self._telemetry = telemetry
        self._lose = lose
        self._clock = clock
        self._wall_clock = wall_clock
        self._parts: dict[Partition, Part] = {}  # of the commit that has not succeeded yet

    def pending(self) -> bool:
        """Return whether any partition has uncommitted results."""
        return any(owned.pending for owned in self._held.values())

    def due(self) -> bool:
        """Return whether the results are due."""
        if self._clock() >= self.committed_at + self._pace.commit_s:
            return self.pending()
        return sum(len(owned.waiting) for owned in self._held.values()) >= self._pace.commit_records

    def pass_over(self, subscription: Subscription) -> None:
        """Commit positions after markers of transactions, so that monitoring shows no lag of the group."""
        ends = {partition: subscription.position(partition) for partition in self._held}
        self._parts = {
            partition: Part(end)
            for partition, end in ends.items()
            if end is not None and end > max(self._held[partition].tasks.position, self._held[partition].passed)
        }
        self.retry(subscription)

    def prepare(self) -> bool:
        """Prepare one commit of everything that waits, and return whether there is anything."""
        parts = ((partition, owned.part(self._topics)) for partition, owned in self._held.items())
        self._parts = {partition: part for partition, part in parts if part is not None}
        return bool(self._parts)

    def retry(self, subscription: Subscription) -> None:
        """Commit the prepared parts, if any. Raises BusUnavailable, after which the same commit can be retried."""
        while self._parts:
            began = self._clock()
            try:
                subscription.commit(commit_of(self._parts))
            except Fenced as fenced:
                self._telemetry.fenced += 1
                for partition in self._void(fenced):
                    del self._parts[partition]
                    self._lose(partition)
            else:
                parts, self._parts = self._parts, {}
                self.committed_at = self._clock()
                for partition, part in parts.items():
                    self._count(self._held[partition], part, self.committed_at - began)

    def _void(self, fenced: Fenced) -> tuple[Partition, ...]:
        """Return the fenced partitions of the commit."""
        return tuple(fenced.partitions & self._parts.keys() if fenced.partitions else ()) or tuple(self._parts)

    def _count(self, owned: OwnedPartition, part: Part, took_s: float) -> None:
        wall = self._wall_clock()
        owned.committed = min(part.offset, owned.tasks.position)
        owned.passed = max(part.offset, owned.passed)
        for place, task in enumerate(owned.tasks.each):
            telemetry = task.telemetry
            telemetry.commits += 1
            telemetry.outputs += part.given[place] if part.given else 0
            telemetry.commit_duration_seconds.add(took_s)
            for polled_at, ts, key in owned.waiting:
                telemetry.processing_seconds.add(self.committed_at - polled_at)
                if ts is not None:
                    telemetry.latency_seconds.add_record(key, ts, wall - ts)
            saved = [each for each in part.snapshots if each.operator == task.stage.snapshots]
            telemetry.snapshots += len(saved)
            telemetry.snapshot_bytes += sum(len(snapshot.value) for snapshot in saved)
        owned.waiting.clear()
        owned.tasks.refresh()
