"""A partition that a member has, with its state, and what of it waits for a commit."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.bus import Commit
from laggard.pipeline.engine.publishing import outgoing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.bus import Incoming, Outgoing, Partition, Snapshot
    from laggard.pipeline.engine.tasks import Tasks
    from laggard.pipeline.topics import Topics

_MOST_GAPS: Final = 1000
"""So many places where offsets are missing are remembered until somebody looks; more of them are holes, not losses."""

_logger = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """A record that was processed and is not committed yet.

    Attributes:
        polled_at: when it was polled, on the monotonic clock.
        ts: when it was made, seconds since the Unix epoch; None where its time tells something else.
        key: the record's.

    """

    polled_at: float
    ts: float | None
    key: str


class Gap(NamedTuple):
    """Offsets that a reader expected and did not get: `start` to `stop`, exclusive."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a commit that comes from one partition.

    Attributes:
        offset: the first one not yet processed.
        outputs: those of all tasks, in order.
        snapshots: those of all tasks.
        given: the number of outputs of each task.

    """

    offset: int
    outputs: tuple[Outgoing, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    given: tuple[int, ...] = ()


def commit_of(parts: Mapping[Partition, Part]) -> Commit:
    """One transaction of what several partitions put into it."""
    return Commit(
        {partition: part.offset for partition, part in parts.items()},
        [output for part in parts.values() for output in part.outputs],
        [snapshot for part in parts.values() for snapshot in part.snapshots],
    )


@dataclass(slots=True, eq=False)
class Held:
    """A partition that a member has.

    Attributes:
        name: of the group, for the log.
        tasks: what processes its records, with the states.
        committed: up to where they are committed.
        waiting: those beyond that, in order.
        gaps: where offsets were missing, until `Lookout` has looked what they were.
        passed: up to where it was committed that no record follows; 0 if it was not.

    """

    name: str
    tasks: Tasks
    committed: int
    waiting: list[Waiting] = field(default_factory=list)
    gaps: deque[Gap] = field(default_factory=lambda: deque(maxlen=_MOST_GAPS))
    passed: int = 0

    @property
    def pending(self) -> bool:
        """Whether something was processed and is not committed."""
        return self.tasks.position != self.committed

    def process(self, record: Incoming, now: float) -> None:
        """Take the next record, polled `now`."""
        position = self.tasks.position
        if record.offset > position:
            self.gaps.append(Gap(position, record.offset))
        elif record.offset < position:
            # Whoever consumes goes on with the oldest record then; of those that come again, nothing is done twice.
            _logger.warning(
                "%s on %s[%d] goes on at %d after %d: the topic was created anew, or its brokers have lost records",
                self.name, *record.partition, record.offset, position,
            )  # fmt: skip
        if record.offset < self.passed:
            self.passed = 0
        made = self.tasks.process(record)
        self.waiting.append(Waiting(now, record.ts if made else None, record.key))

    def part(self, topics: Topics) -> Part | None:
        """What is to be committed now; None where there is nothing. What it gives is not given again."""
        snapshots = self.tasks.snapshots()
        if not (self.pending or snapshots):
            return None
        outputs, given = self.tasks.take()
        told = tuple(outgoing(output, topics) for output in outputs)
        return Part(max(self.tasks.position, self.passed), told, tuple(snapshots), given)
