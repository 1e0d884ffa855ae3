"""What the runner counts: of each task its records, what became of them, and how long that took.

Plain numbers, each written by one thread at a time: that of the member, or of its recovery while the task is not there
yet. Any other thread may read them at any time.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.bus import Partition

LATENCY_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0)
COMMIT_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Example(NamedTuple):
    """One record of many.

    Attributes:
        key: the record's.
        ts: its time, seconds since the Unix epoch.
        seconds: how long it took.

    """

    key: str
    ts: float
    seconds: float


class Distribution:
    """Durations counted by size.

    Attributes:
        bounds: upper bounds of the buckets in seconds, inclusive, ascending.
        counts: one for each bound, and one for what is above the last.
        total: the sum of all durations, in seconds.
        examples: of each of `counts` the newest that was given with its record; None where there is none.

    """

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        self.examples: list[Example | None] = [None] * len(self.counts)

    def add(self, seconds: float, times: int = 1) -> int:
        """Count a duration; gives its place in `counts`. What a clock that steps makes negative counts as 0."""
        seconds = max(seconds, 0.0)
        place = bisect_left(self.bounds, seconds)
        self.counts[place] += times
        self.total += seconds * times
        return place

    def add_record(self, key: str, ts: float, seconds: float) -> None:
        """Count the duration of a record, which becomes the example of its size."""
        self.examples[self.add(seconds)] = Example(key, ts, max(seconds, 0.0))


def _latency() -> Distribution:
    return Distribution(LATENCY_BOUNDS_S)


@dataclass(slots=True, eq=False)
class TaskTelemetry:
    """Of one operator on one partition. Counters count since this process began; replayed records are not in them.

    Attributes:
        operator: the operator's name.
        topic: the topic's full name.
        partition: its number.
        records: records read, whatever became of them.
        record_bytes: their values' bytes.
        duplicates: records that came a second time and changed nothing.
        late: frames older than their stream's last one; each is a dead letter too.
        clocks_set_back: streams that were begun anew, because their producer's clock had been far ahead.
        namesakes: keys of which more than one agent publishes, since this process has their partition.
        dead_letters: records that could not be used.
        missed_records: records that retention deleted before they were read.
        anomalies: anomalies that were committed.
        outputs: records that were committed to other topics, whatever they are.
        commits: transactions.
        snapshots: snapshots committed.
        snapshot_bytes: their bytes.
        snapshots_migrated: snapshots of an older version that were loaded.
        snapshots_unusable: snapshots that could not be used, so that the state was learned from the input again, and
            states that failed at a record, so that they are learned anew.
        keys_evicted: keys whose state was given up because there were too many, or because they fell silent.
        assignments: how often the partition came to this process.
        revocations: how often it went away from it.
        lag_records: gauge: records on the bus that are not committed yet.
        recovery_left_records: gauge: records to be replayed until the state is again what it was.
        keys: gauge: keys that have a state.
        state_bytes: gauge: the newest snapshots of all keys, before compression.
        latency_seconds: from a record's own time to the commit of what came out of it.
        processing_seconds: from the poll that brought a record to the same commit.
        commit_duration_seconds: how long commits took.
        recovery_seconds: gauge: how long the last recovery took.
        standby_position: gauge: the first offset that is not in the standby's state; 0 where there is none.
        standby_left_records: gauge: what the partition's owner has committed and is not in that state.

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
        """The task has gone to somebody else: its gauges are theirs now."""
        self.lag_records = self.recovery_left_records = self.keys = self.state_bytes = 0
        self.recovery_seconds = 0.0


class Telemetry:
    """Of all tasks that this process has had.

    Attributes:
        retries: how often something was tried again because the bus was unavailable.
        fenced: how often a commit was refused because another member had taken partitions over.

    """

    def __init__(self) -> None:
        self.retries = 0
        self.fenced = 0
        self._tasks: dict[tuple[str, Partition], TaskTelemetry] = {}

    def task(self, operator: str, partition: Partition) -> TaskTelemetry:
        """The numbers of a task; they go on where they were when it comes back."""
        found = self._tasks.get((operator, partition))
        if found is None:
            found = self._tasks[operator, partition] = TaskTelemetry(operator, partition.topic, partition.number)
        return found

    def tasks(self) -> tuple[TaskTelemetry, ...]:
        """All tasks, in the order in which they came."""
        return tuple(self._tasks.values())
