"""A stage: what reads a topic, keeps a state for each key, and publishes; and its task, one stage on one partition.

An operator is a stage, and so is what joins anomalies to incidents. What all tasks have in common is here: where they
are in the input, what they give out until somebody takes it, how what cannot be used is refused, and replay.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypedDict, Unpack

from laggard.pipeline.bus import Incoming, Null, Partition
from laggard.pipeline.engine import snapshots
from laggard.pipeline.engine.migrations import snapshot_name
from laggard.pipeline.engine.telemetry import TaskTelemetry
from laggard.pipeline.records import Decoder, Frame, RecordError, Request
from laggard.pipeline.records.outputs import Published
from laggard.pipeline.topics import ANOMALIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from laggard.pipeline.engine.observers import Observer
    from laggard.pipeline.engine.snapshots import Migration
    from laggard.pipeline.engine.states import States
    from laggard.pipeline.records import Received
    from laggard.pipeline.topics import Topic

SNAPSHOT_RECORDS: Final = 200
MAX_KEYS: Final = 1024
"""Keys of one task: a host of 300 processes takes about 1 MB."""

LONGEST_REASON: Final = 1000
MOST_TOLD: Final = 20
"""States of a task that cannot be used, of which the log has the reason."""

FAR_AHEAD_S: Final = 3600.0
"""A frame or a request that is further ahead of the time of its record is refused."""

REPLAY_HEADER: Final = "laggard-replay"
"""A record with this header was recorded earlier: what comes of it is not live. Its value does not matter."""

NOT_SHOWN: Final = "%s cannot show what came of %r"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be used, as it was received, and why."""

    operator: str
    record: Incoming
    reason: str


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """A frame for those who read another topic, made of one of this."""

    frame: Frame
    live: bool


Output = Published | Rekeyed | DeadLetter


class TaskOptions(TypedDict, total=False):
    """How a task does its work; each of it has a default.

    Keys:
        snapshot_records: how many records of a key are between two of its snapshots.
        max_keys: how many keys have a state at most.
        live: whether outputs are about the present.
        observers: who wants to see what comes of the records.
        telemetry: where to count.
    """

    snapshot_records: int
    max_keys: int
    live: bool
    observers: Sequence[Observer]
    telemetry: TaskTelemetry


class Stage(ABC):
    """What reads a topic: an operator as it is wired, or what joins anomalies.

    Attributes:
        name: in settings, groups, snapshots and outputs: `gaussian`.
        topic: what it reads.
        state_version: of the form of its state.
        migrations: by an older version of its state, what makes the next version's of it. A version that is not there
            is rebuilt from the input.
        writes: where its results go, beside the dead letters.
        remembers: whether what it makes of a record depends on earlier ones; else it has no states, and no snapshots.
        leads: whether it is the one of those that read its topic that tells what is the same for all of them: records
            that nobody can use, and feedback.

    """

    __slots__ = ()

    name: str
    topic: Topic
    state_version: int
    migrations: Mapping[int, Migration]
    writes: ClassVar[tuple[Topic, ...]] = (ANOMALIES,)
    remembers: ClassVar[bool] = True
    leads: bool

    @property
    def generation(self) -> int:
        """Of its snapshots: grows with the version of their form and with that of the state, see `migrations.py`."""
        return snapshots.VERSION + self.state_version - 1

    @property
    def snapshots(self) -> str:
        """What a bus knows its snapshots by."""
        return snapshot_name(self.name, self.generation)

    @abstractmethod
    def task(self, partition: Partition, **options: Unpack[TaskOptions]) -> StageTask:
        """Make a task for a partition, without any state."""


class StageTask(ABC):
    """One stage on one partition. Records in, outputs and snapshots out; knows no bus and no clock.

    Parameters:
        stage: which.
        partition: where the records come from.
        states: of all keys, without any.
        observers: who wants to see what comes of the records.
        telemetry: where to count.

    Attributes:
        stage: which.
        partition: where the records come from.
        position: the first offset that was not processed.
        outputs: what came out, until somebody takes it.
        states: of all keys.
        telemetry: where it counts.

    """

    def __init__(
        self,
        stage: Stage,
        partition: Partition,
        states: States[Any],
        observers: Sequence[Observer] = (),
        telemetry: TaskTelemetry | None = None,
    ) -> None:
        self.stage = stage
        self.partition = partition
        self.position = 0
        self.outputs: list[Output] = []
        self.states = states
        self.telemetry = telemetry or TaskTelemetry(stage.name, partition.topic, partition.number)
        self._counts = self.telemetry
        self._observers = observers
        self._failures = 0

    def process(self, record: Incoming) -> bool:
        """Take the next record: whatever it is, the task can go on after it.

        Returns:
            Whether its time is when it was made: a mark's is the moment that it asks about.

        """
        self._pass(record)
        self._counts.records += 1
        self._counts.record_bytes += len(record.value)
        if isinstance(record.value, Null):
            self._refuse_for_all(record, f"{self._place(record)}: expected a record, got none (null)")
            return False
        made = False
        with self._setting_aside(record.key) as failed:
            made = self._process(record)
        if failed:
            self._refuse(record, f"{self._place(record)}: not processed: {'; '.join(failed)}")
        return made

    @contextmanager
    def _setting_aside(self, key: str) -> Iterator[list[str]]:
        """Give the state of a key up where it raises, so that the key learns anew: it would raise at each record.

        Yields:
            Where the reason is put.

        """
        failed: list[str] = []
        try:
            yield failed
        except Exception as error:  # noqa: BLE001 - a state that somebody else wrote may raise anything
            failed.append(f"{type(error).__name__}: {error}")
            self.states.set_aside(key, self.position)
            if self._counts is self.telemetry and self._failures < MOST_TOLD:
                self._failures += 1
                _logger.warning("%s: what was learned of %r cannot be used; it learns anew: %s: %s",
                    self.stage.name, key, type(error).__name__, str(error)[:LONGEST_REASON],
                )  # fmt: skip

    @abstractmethod
    def _process(self, record: Incoming) -> bool:
        """Take a record, which is counted; see `process`."""

    def _pass(self, record: Incoming) -> None:
        """Note that the next record has come."""
        self.position = record.offset + 1
        self.states.counted += 1

    def skip(self, record: Incoming) -> None:
        """Pass over a record that is in its key's state already."""
        self._pass(record)
        self.states.skipped(record.key)

    def damaged_record(self, offset: int, reason: str) -> None:
        """Pass over a record that the bus could not read."""
        self.position = offset + 1
        self._counts.records += 1
        self._refuse_for_all(Incoming(self.partition, offset, "", b"", 0.0), reason)

    def _refuse_for_all(self, record: Incoming, reason: str) -> None:
        """Refuse what nobody who reads this topic can use: one of them tells it."""
        if self.stage.leads:
            self._refuse(record, reason)

    def _refuse(self, record: Incoming, reason: str) -> None:
        self._counts.dead_letters += 1
        self.outputs.append(DeadLetter(self.stage.name, record, reason[:LONGEST_REASON]))

    def _observe(self, key: str, tell: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                tell(observer)
            except Exception:
                # It only looks on: what it misses changes no result.
                _logger.exception(NOT_SHOWN, type(observer).__name__, key)

    def _place(self, record: Incoming) -> str:
        return f"{self.partition.topic}[{self.partition.number}]@{record.offset}"

    def found(self) -> None:  # noqa: B027 - most have nothing to do
        """Tell the observers that the state is there: the worker goes on with it from here."""

    @abstractmethod
    def lost(self) -> None:
        """Tell the observers that this state is given up."""

    def refresh(self) -> None:
        """Bring the telemetry of the states up to date."""
        self.telemetry.keys = len(self.states)
        self.telemetry.state_bytes = self.states.state_bytes
        self.telemetry.keys_evicted += self.states.evicted
        self.telemetry.snapshots_unusable += self.states.failed
        self.states.evicted = self.states.failed = 0

    def replay(self, records: Iterable[Incoming]) -> None:
        """Take records that were processed before: nothing is counted or shown, and what comes of them is withheld."""
        observers, self._observers = self._observers, ()
        self._counts = TaskTelemetry(self.stage.name, self.partition.topic, self.partition.number)
        try:
            for record in records:
                self.process(record)
                self.outputs.clear()
        finally:
            self._counts, self._observers = self.telemetry, observers


class RecordTask(StageTask):
    """One stage on one partition of frames, marks and what else `records` has; parameters as those of `StageTask`.

    Parameters:
        live: whether outputs are about the present. It is an argument, not a comparison with a clock, so that the same
            input gives the same outputs; records with the replay header are never live.

    """

    def __init__(
        self,
        stage: Stage,
        partition: Partition,
        states: States[Any],
        observers: Sequence[Observer] = (),
        telemetry: TaskTelemetry | None = None,
        *,
        live: bool = True,
    ) -> None:
        super().__init__(stage, partition, states, observers, telemetry)
        self._live = live
        self._decoder = Decoder()

    def share(self, decoder: Decoder) -> None:
        """Use a decoder that other tasks use for the same records."""
        self._decoder = decoder

    def _process(self, record: Incoming) -> bool:
        try:
            received = self._decoder.decode(record.value, self._place(record))
        except RecordError as error:
            self._refuse_for_all(record, str(error))
            return not recorded_earlier(record)
        if isinstance(received, Frame | Request) and 0.0 < record.ts < received.ts - FAR_AHEAD_S:
            # Whatever came after it would be late.
            expected = f"a time of at most an hour after the record's own, {record.ts!r}"
            self._refuse_for_all(record, f"{self._place(record)}: expected {expected}, got {received.ts!r}")
            return False
        self._receive(record, received)
        return isinstance(received, Frame) and not recorded_earlier(record)

    def receive(self, record: Incoming, received: Received) -> None:
        """Take the next record, which is decoded already."""
        self._pass(record)
        self._receive(record, received)

    @abstractmethod
    def _receive(self, record: Incoming, received: Received) -> None:
        """Take a record that is decoded and counted."""

    def finish(self) -> None:
        """Give out what waited for more: nothing will come. For recorded data; on a bus something always may."""

    def _is_live(self, record: Incoming) -> bool:
        return self._live and not recorded_earlier(record)


def recorded_earlier(record: Incoming) -> bool:
    """Whether a record was recorded before it came to where it is."""
    return bool(record.headers) and any(name == REPLAY_HEADER for name, _ in record.headers)
