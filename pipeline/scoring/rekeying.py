"""A stage that re-keys: reads the counters of hosts, and writes them to another topic under other keys.

It has no state: duplicates and late frames pass unchanged, and the readers of the other topic detect them. The output
is committed with the offset of the input, so that each frame of counters is re-keyed once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack

from laggard.pipeline.core.engine.stage import MAX_KEYS, SNAPSHOT_RECORDS, RecordTask, Rekeyed, Stage
from laggard.pipeline.core.engine.states import States
from laggard.pipeline.core.records import Frame, RecordError
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.scoring.keyed import Keyed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from laggard.pipeline.core.bus import Incoming, Partition
    from laggard.pipeline.core.engine.snapshots import Migration
    from laggard.pipeline.core.engine.stage import TaskOptions
    from laggard.pipeline.core.records import Received

SCOPES: Final = ("process", "host")
"""The scopes of frames that are re-keyed; others do not count for pools and applications."""

MAX_LAYOUTS: Final = 4_096
"""The most layouts that are remembered with the names of their rows under other keys."""


class Rekeyer(Protocol):
    """Makes frames for other keys from a host's frame. It may remember names, but no state that changes its output."""

    def __call__(self, frame: Frame) -> Iterator[Frame]:
        """Return the frames for other keys. Raises `RecordError` if names are too long for such a frame."""


class Rekeying(Stage):
    """A stage that re-keys; see `Stage`."""

    topic = COUNTERS
    remembers = False
    leads = False
    state_version = 1
    migrations: Mapping[int, Migration] = {}

    @abstractmethod
    def rekeyer(self) -> Rekeyer:
        """Return the rekeyer of one task."""

    def task(self, partition: Partition, **options: Unpack[TaskOptions]) -> RekeyingTask:
        """Make a task for a partition."""
        return RekeyingTask(self, partition, **options)


class RekeyingTask(RecordTask):
    """Re-keys the counters of one partition.

    Parameters:
        stage: the stage of the task.
        partition: the source of the frames.
        options: see `TaskOptions`; frames that are not live are marked as recorded earlier.

    """

    states: States[Any]

    def __init__(self, stage: Rekeying, partition: Partition, **options: Unpack[TaskOptions]) -> None:
        states = States(stage, partition, lambda: Keyed({}), SNAPSHOT_RECORDS, MAX_KEYS)
        live = options.get("live", True)
        super().__init__(stage, partition, states, options.get("observers", ()), options.get("telemetry"), live=live)
        self._rekeyer = stage.rekeyer()

    def _receive(self, record: Incoming, received: Received) -> None:
        """Re-key a record; skip those that have no other key."""
        if not isinstance(received, Frame) or received.keyed_by != "host" or received.scope not in SCOPES:
            return
        if received.key != record.key:
            return  # the operators reject it
        try:
            for frame in self._rekeyer(received):
                self.outputs.append(Rekeyed(frame, live=self._is_live(record)))
        except RecordError as error:
            self._refuse(record, f"{self._place(record)}: not re-keyed: {error}")

    def lost(self) -> None:
        """Do nothing: there is no state to drop."""
