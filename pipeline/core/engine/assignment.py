"""A partition of a member, with its states, and its results that wait for a commit."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.bus import Commit
from laggard.pipeline.core.engine.publishing import outgoing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.bus import Incoming, Outgoing, Partition, Snapshot
    from laggard.pipeline.core.engine.tasks import Tasks
    from laggard.pipeline.core.topics import Topics

_MOST_GAPS: Final = 1000
"""The most gaps between offsets that are remembered until `LagMonitor` checks them; others are holes, not losses."""

_logger = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """A record that was processed and is not committed yet.

    Attributes:
        polled_at: the time of its poll, on the monotonic clock.
        ts: the time at which it was made, seconds since the Unix epoch; None if its time has another meaning.
        key: its key.

    """

    polled_at: float
    ts: float | None
    key: str


class Gap(NamedTuple):
    """Missing offsets that a reader expected: `start` to `stop`, exclusive."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a commit that comes from one partition.

    Attributes:
        offset: the first unprocessed one.
        outputs: the outputs of all tasks, in order.
        snapshots: the snapshots of all tasks.
        given: the number of outputs of each task.

    """

    offset: int
    outputs: tuple[Outgoing, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    given: tuple[int, ...] = ()


def commit_of(parts: Mapping[Partition, Part]) -> Commit:
    """Return one transaction of the parts of several partitions."""
    return Commit(
        {partition: part.offset for partition, part in parts.items()},
        [output for part in parts.values() for output in part.outputs],
        [snapshot for part in parts.values() for snapshot in part.snapshots],
    )


@dataclass(slots=True, eq=False)
class OwnedPartition:
    """A partition of a member.

    Attributes:
        name: the name of the group, for the log.
        tasks: its tasks, with the states.
        committed: the committed offset, at most the position of the tasks.
        waiting: the processed records that are not committed, in order.
        gaps: the gaps between offsets that `LagMonitor` has not checked yet.
        passed: the highest committed offset, also after markers of transactions; 0 without one.

    """

    name: str
    tasks: Tasks
    committed: int
    waiting: list[Waiting] = field(default_factory=list)
    gaps: deque[Gap] = field(default_factory=lambda: deque(maxlen=_MOST_GAPS))
    passed: int = 0

    @property
    def pending(self) -> bool:
        """Whether processed records are not committed."""
        return self.tasks.position != self.committed

    def process(self, record: Incoming, now: float) -> None:
        """Process the next record, polled at the time `now`."""
        position = self.tasks.position
        if record.offset > position:
            self.gaps.append(Gap(position, record.offset))
        elif record.offset < position:
            # The consumer continues with the oldest record then. Repeated records have no second effect.
            _logger.warning(
                "%s on %s[%d] goes on at %d after %d: the topic was created anew, or its brokers have lost records",
                self.name, *record.partition, record.offset, position,
            )  # fmt: skip
        if record.offset < self.passed:
            self.passed = 0
        is_timed = self.tasks.process(record)
        self.waiting.append(Waiting(now, record.ts if is_timed else None, record.key))

    def part(self, topics: Topics) -> Part | None:
        """Remove and return the part to commit now; None without one."""
        snapshots = self.tasks.snapshots()
        if not (self.pending or snapshots):
            return None
        outputs, given = self.tasks.take()
        records = tuple(outgoing(output, topics) for output in outputs)
        return Part(max(self.tasks.position, self.passed), records, tuple(snapshots), given)
