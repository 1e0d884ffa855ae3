"""A stage reads a topic, has a state for each key, and publishes; its task is the stage on one partition.

Operators are stages, and so is the one that joins anomalies to incidents. This module has the common parts of all
tasks: their position, their outputs until they are taken, the rejection of unusable records, and replay.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypedDict, Unpack

from laggard.pipeline.core.bus import Incoming, Null, Partition
from laggard.pipeline.core.engine import snapshots
from laggard.pipeline.core.engine.migrations import snapshot_name
from laggard.pipeline.core.engine.telemetry import TaskTelemetry
from laggard.pipeline.core.records import Decoder, Frame, RecordError, Request
from laggard.pipeline.core.records.outputs import Published
from laggard.pipeline.core.topics import ANOMALIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from laggard.pipeline.core.engine.snapshots import Migration
    from laggard.pipeline.core.engine.states import States
    from laggard.pipeline.core.records import Received
    from laggard.pipeline.core.topics import Topic

SNAPSHOT_RECORDS: Final = 200
MAX_KEYS: Final = 1024
"""The most keys of one task: a host of 300 processes needs about 1 MB."""

LONGEST_REASON: Final = 1000
MOST_LOGGED: Final = 20
"""The most unusable states of a task that are logged with the reason."""

FAR_AHEAD_S: Final = 3600.0
"""A frame or a request that is further ahead of the time of its record, in seconds, is rejected."""

REPLAY_HEADER: Final = "laggard-replay"
"""The header of a record that was recorded earlier: its results are not live. The value does not matter."""

NOT_SHOWN: Final = "%s cannot report the outcome of %r"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An unusable record as it was received, and the reason."""

    operator: str
    record: Incoming
    reason: str


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """A frame for another topic, made from one of this topic."""

    frame: Frame
    live: bool


Output = Published | Rekeyed | DeadLetter


class TaskOptions(TypedDict, total=False):
    """The options of a task; each has a default.

    Keys:
        snapshot_records: the most records of a key between two of its snapshots.
        max_keys: the most keys with a state.
        live: whether outputs are about the present.
        observers: the observers of its results; the methods know what they observe.
        telemetry: its counters.
    """

    snapshot_records: int
    max_keys: int
    live: bool
    observers: Sequence[Any]
    telemetry: TaskTelemetry


class Stage(ABC):
    """A reader of a topic: an operator with its settings, or one that joins anomalies.

    Attributes:
        name: its name in settings, groups, snapshots and outputs: `gaussian`.
        topic: the topic that it reads.
        state_version: the version of the form of its state.
        migrations: by an older version of its state, the migration to the next version. A state of a missing version is
            rebuilt from the input.
        writes: the topics of its results, in addition to the dead letters.
        remembers: whether its results depend on earlier records; otherwise it has no states and no snapshots.
        leads: whether it is the one stage of its topic that reports for all of them: unusable records, and feedback.

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
        """The generation of its snapshots: it grows with the versions of form and state, see `migrations.py`."""
        return snapshots.VERSION + self.state_version - 1

    @property
    def snapshots(self) -> str:
        """The name of its snapshots on a bus."""
        return snapshot_name(self.name, self.generation)

    @abstractmethod
    def task(self, partition: Partition, **options: Unpack[TaskOptions]) -> StageTask:
        """Make a task for a partition, without any state."""


class StageTask(ABC):
    """One stage on one partition: records in, outputs and snapshots out, without a bus or a clock.

    Parameters:
        stage: the stage.
        partition: the input partition.
        states: the states of all keys, empty.
        observers: the observers of its results.
        telemetry: its counters.

    Attributes:
        stage: the stage.
        partition: the input partition.
        position: the first unprocessed offset.
        outputs: the outputs until they are taken.
        states: the states of all keys.
        telemetry: its counters.

    """

    def __init__(
        self,
        stage: Stage,
        partition: Partition,
        states: States[Any],
        observers: Sequence[Any] = (),
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
        """Process the next record. The task can continue after any record.

        Returns:
            Whether its time is that at which it was made: a mark's is the moment that it asks about.

        """
        self._pass(record)
        self._counts.records += 1
        self._counts.record_bytes += len(record.value)
        if isinstance(record.value, Null):
            self._refuse_for_all(record, f"{self._place(record)}: expected a record, got none (null)")
            return False
        is_timed = False
        with self._setting_aside(record.key) as failed:
            is_timed = self._process(record)
        if failed:
            self._refuse(record, f"{self._place(record)}: not processed: {'; '.join(failed)}")
        return is_timed

    @contextmanager
    def _setting_aside(self, key: str) -> Iterator[list[str]]:
        """Drop the state of a key that raises, so that it learns from scratch: it would raise at each record.

        Yields:
            The list that gets the reason.

        """
        failed: list[str] = []
        try:
            yield failed
        except Exception as error:  # noqa: BLE001 - a third-party state may raise anything
            failed.append(error_text(error))
            self.states.set_aside(key, self.position)
            if self._counts is self.telemetry and self._failures < MOST_LOGGED:
                self._failures += 1
                _logger.warning("%s: the state of %r is unusable; it learns anew: %s: %s",
                    self.stage.name, key, type(error).__name__, str(error)[:LONGEST_REASON],
                )  # fmt: skip

    @abstractmethod
    def _process(self, record: Incoming) -> bool:
        """Process a counted record; see `process`."""

    def _pass(self, record: Incoming) -> None:
        """Advance past the next record."""
        self.position = record.offset + 1
        self.states.counted += 1

    def skip(self, record: Incoming) -> None:
        """Skip a record that is already in its key's state."""
        self._pass(record)
        self.states.skipped(record.key)

    def damaged_record(self, offset: int, reason: str) -> None:
        """Skip a record that the bus could not read."""
        self.position = offset + 1
        self._counts.records += 1
        self._refuse_for_all(Incoming(self.partition, offset, "", b"", 0.0), reason)

    def _refuse_for_all(self, record: Incoming, reason: str) -> None:
        """Reject a record that no reader of this topic can use: only one of them reports it."""
        if self.stage.leads:
            self._refuse(record, reason)

    def _refuse(self, record: Incoming, reason: str) -> None:
        self._counts.dead_letters += 1
        self.outputs.append(DeadLetter(self.stage.name, record, reason[:LONGEST_REASON]))

    def _observe(self, key: str, notify: Callable[[Any], None]) -> None:
        for observer in self._observers:
            try:
                notify(observer)
            except Exception:
                # A failure of an observer must not change results.
                _logger.exception(NOT_SHOWN, type(observer).__name__, key)

    def _place(self, record: Incoming) -> str:
        return f"{self.partition.topic}[{self.partition.number}]@{record.offset}"

    def found(self) -> None:  # noqa: B027 - most have nothing to do
        """Notify the observers that the state is ready: the worker continues with it from here."""

    @abstractmethod
    def lost(self) -> None:
        """Notify the observers that this state is dropped."""

    def refresh(self) -> None:
        """Update the telemetry of the states."""
        self.telemetry.keys = len(self.states)
        self.telemetry.state_bytes = self.states.saving.state_bytes
        self.telemetry.keys_evicted += self.states.evicted
        self.telemetry.snapshots_unusable += self.states.failed
        self.states.evicted = self.states.failed = 0

    def replay(self, records: Iterable[Incoming]) -> None:
        """Process earlier records again: nothing is counted or observed, and outputs are withheld."""
        observers, self._observers = self._observers, ()
        self._counts = TaskTelemetry(self.stage.name, self.partition.topic, self.partition.number)
        try:
            for record in records:
                self.process(record)
                self.outputs.clear()
        finally:
            self._counts, self._observers = self.telemetry, observers


class RecordTask(StageTask):
    """One stage on one partition of frames, marks and other `records`; parameters as those of `StageTask`.

    Parameters:
        live: whether outputs are about the present. It is an argument, not a comparison with a clock, so that the same
            input gives the same outputs. Records with the replay header are never live.

    """

    def __init__(
        self,
        stage: Stage,
        partition: Partition,
        states: States[Any],
        observers: Sequence[Any] = (),
        telemetry: TaskTelemetry | None = None,
        *,
        live: bool = True,
    ) -> None:
        super().__init__(stage, partition, states, observers, telemetry)
        self._live = live
        self._decoder = Decoder()

    def share(self, decoder: Decoder) -> None:
        """Share a decoder with other tasks that process the same records."""
        self._decoder = decoder

    def _process(self, record: Incoming) -> bool:
        try:
            received = self._decoder.decode(record.value, self._place(record))
        except RecordError as error:
            self._refuse_for_all(record, str(error))
            return not recorded_earlier(record)
        if isinstance(received, Frame | Request) and 0.0 < record.ts < received.ts - FAR_AHEAD_S:
            # All later records would be late.
            expected = f"a time of at most an hour after the record's own, {record.ts!r}"
            self._refuse_for_all(record, f"{self._place(record)}: expected {expected}, got {received.ts!r}")
            return False
        self._receive(record, received)
        return isinstance(received, Frame) and not recorded_earlier(record)

    def receive(self, record: Incoming, received: Received) -> None:
        """Process the next record, which is already decoded."""
        self._pass(record)
        self._receive(record, received)

    @abstractmethod
    def _receive(self, record: Incoming, received: Received) -> None:
        """Process a decoded record, after the position has advanced past it."""

    def finish(self) -> None:
        """Publish results that wait for more input, for recorded data: on a bus more may always come."""

    def _has_key(self, record: Incoming, key: str) -> bool:
        """Return whether a record has the key of its content, and reject it otherwise."""
        if record.key and key == record.key:  # the snapshot of the base has the empty key
            return True
        self._refuse_for_all(record, f"{self._place(record)}: expected the record's key {record.key!r}, got {key!r}")
        return False

    def _refuse_late(self, record: Incoming, reason: str) -> None:
        self._counts.late += 1
        self._refuse(record, f"{self._place(record)}: late: {reason}")

    def _is_live(self, record: Incoming) -> bool:
        return self._live and not recorded_earlier(record)


def recorded_earlier(record: Incoming) -> bool:
    """Return whether a record was recorded earlier, by its header."""
    return bool(record.headers) and any(name == REPLAY_HEADER for name, _ in record.headers)


def error_text(error: Exception) -> str:
    """Return an unexpected error as text, with its type."""
    return f"{type(error).__name__}: {error}"
