"""The counters of the runner: the records of each task, their results, and durations.

Plain numbers, each written by one thread at a time: that of the member, of its recovery or of its lag monitor. Any
other thread may read them at any time.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.core.bus import Partition

LATENCY_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0)
COMMIT_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Example(NamedTuple):
    """One record as an example of many.

    Attributes:
        key: its key.
        ts: its time, seconds since the Unix epoch.
        seconds: its duration.

    """

    key: str
    ts: float
    seconds: float


class Distribution:
    """A histogram of durations.

    Attributes:
        bounds: upper bounds of the buckets in seconds, inclusive, ascending.
        counts: one for each bound, and one for durations above the last.
        total: the sum of all durations, in seconds.
        examples: the newest record of each bucket; None without one.

    """

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        self.examples: list[Example | None] = [None] * len(self.counts)

    def add(self, seconds: float, times: int = 1) -> int:
        """Count a duration, and return its place in `counts`. A negative one, from a clock that steps, counts as 0."""
        seconds = max(seconds, 0.0)
        place = bisect_left(self.bounds, seconds)
        self.counts[place] += times
        self.total += seconds * times
        return place

    def add_record(self, key: str, ts: float, seconds: float) -> None:
        """Count the duration of a record, which becomes the example of its bucket."""
        self.examples[self.add(seconds)] = Example(key, ts, max(seconds, 0.0))


def _latency() -> Distribution:
    return Distribution(LATENCY_BOUNDS_S)


@dataclass(slots=True, eq=False)
class TaskTelemetry:
    """The counters of one operator on one partition, since this process began. Replayed records do not count.

    Attributes:
        operator: the operator's name.
        topic: the topic's full name.
        partition: its number.
        records: records read, used or not.
        record_bytes: the bytes of their values.
        duplicates: repeated records, which changed nothing.
        late: frames older than the last one of their stream; each is also a dead letter.
        clocks_set_back: streams that were restarted from scratch, because their producer's clock had been far ahead.
        namesakes: keys with more than one publishing agent, since this process has their partition.
        dead_letters: unusable records.
        missed_records: records that retention deleted before they were read.
        anomalies: detected anomalies.
        outputs: records committed to other topics.
        commits: transactions.
        snapshots: committed snapshots.
        snapshot_bytes: their bytes.
        snapshots_migrated: loaded snapshots of an older version.
        snapshots_unusable: unusable snapshots, whose state was learned again from the input, and states that failed and
            are learned from scratch.
        keys_evicted: keys whose state was dropped: there were too many, they fell silent, or the state failed.
        assignments: assignments of the partition to this process.
        revocations: revocations of the partition from this process.
        lag_records: gauge: records on the bus that are not committed yet.
        recovery_left_records: gauge: records left to replay until the state is recovered.
        keys: gauge: keys with a state.
        state_bytes: gauge: the newest snapshots of all keys, before compression.
        latency_seconds: from a record's own time to the commit of its results.
        processing_seconds: from the poll of a record to the same commit.
        commit_duration_seconds: durations of commits.
        recovery_seconds: gauge: the duration of the last recovery.
        standby_position: gauge: the first offset that is not in the standby's state; 0 without one.
        standby_left_records: gauge: records that the partition's owner has committed and that are not in that state.

    """

    operator: str
    topic: str
    partition: int
    records: int = 0
    record_bytes: int = 0
    duplicates: int = 0
    late: int = 0
    clocks_set_back: int = 0
    namesakes: int = 0
    dead_letters: int = 0
    missed_records: int = 0
    anomalies: int = 0
    outputs: int = 0
    commits: int = 0
    snapshots: int = 0
    snapshot_bytes: int = 0
    snapshots_migrated: int = 0
    snapshots_unusable: int = 0
    keys_evicted: int = 0
    assignments: int = 0
    revocations: int = 0
    lag_records: int = 0
    recovery_left_records: int = 0
    keys: int = 0
    state_bytes: int = 0
    latency_seconds: Distribution = field(default_factory=_latency)
    processing_seconds: Distribution = field(default_factory=_latency)
    commit_duration_seconds: Distribution = field(default_factory=lambda: Distribution(COMMIT_BOUNDS_S))
    recovery_seconds: float = 0.0
    standby_position: int = 0
    standby_left_records: int = 0

    def lost(self) -> None:
        """Reset the gauges of a task that this process does not have any more."""
        self.lag_records = self.recovery_left_records = self.keys = self.state_bytes = 0
        self.recovery_seconds = 0.0


class Telemetry:
    """The counters of all tasks that this process has had.

    Attributes:
        retries: retries because the bus was unavailable.
        fenced: commits that were rejected because another member had taken over partitions.

    """

    def __init__(self) -> None:
        self.retries = 0
        self.fenced = 0
        self._tasks: dict[tuple[str, Partition], TaskTelemetry] = {}

    def task(self, operator: str, partition: Partition) -> TaskTelemetry:
        """Return the counters of a task. They continue if it comes back."""
        found = self._tasks.get((operator, partition))
        if found is None:
            found = self._tasks[operator, partition] = TaskTelemetry(operator, partition.topic, partition.number)
        return found

    def tasks(self) -> tuple[TaskTelemetry, ...]:
        """Return the counters of all tasks, in the order of their first assignment."""
        return tuple(self._tasks.values())
