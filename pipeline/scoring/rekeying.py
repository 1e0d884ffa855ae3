"""A stage that re-keys: reads hosts' counters, and writes what others are to read of them to another topic.

It has no state: what comes twice, or late, goes on as it came, and whoever reads it there tells so. What is re-keyed is
committed with the input's offset, so that each frame of counters is there once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack

from laggard.pipeline.engine.stage import MAX_KEYS, SNAPSHOT_RECORDS, RecordTask, Rekeyed, Stage
from laggard.pipeline.engine.states import States
from laggard.pipeline.records import Frame, RecordError
from laggard.pipeline.scoring.keyed import Keyed
from laggard.pipeline.topics import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from laggard.pipeline.bus import Incoming, Partition
    from laggard.pipeline.engine.snapshots import Migration
    from laggard.pipeline.engine.stage import TaskOptions
    from laggard.pipeline.records import Received

SCOPES: Final = ("process", "host")
"""The scopes of frames that are re-keyed. Others say something else of a host."""

MAX_LAYOUTS: Final = 4_096
"""So many layouts are remembered with how their rows are called elsewhere."""


class Rekeyer(Protocol):
    """Makes frames for other keys of one of a host. It may remember names, and nothing that changes what it makes."""

    def __call__(self, frame: Frame) -> Iterator[Frame]:
        """What others are to read of it. Raises `RecordError` where names are too long for such a frame."""


class Rekeying(Stage):
    """What re-keys, as a stage; see `Stage`."""

    topic = COUNTERS
    remembers = False
    leads = False
    state_version = 1
    migrations: Mapping[int, Migration] = {}

    @abstractmethod
    def rekeyer(self) -> Rekeyer:
        """What makes the frames of one task."""

    def task(self, partition: Partition, **options: Unpack[TaskOptions]) -> RekeyingTask:
        """Make a task for a partition."""
        return RekeyingTask(self, partition, **options)


class RekeyingTask(RecordTask):
    """Re-keys the counters of one partition.

    Parameters:
        stage: whose task it is.
        partition: where the frames come from.
        options: see `TaskOptions`; what is not live goes on as recorded earlier.

    """

    states: States[Any]

    def __init__(self, stage: Rekeying, partition: Partition, **options: Unpack[TaskOptions]) -> None:
        states = States(stage, partition, lambda: Keyed({}), SNAPSHOT_RECORDS, MAX_KEYS)
        live = options.get("live", True)
        super().__init__(stage, partition, states, options.get("observers", ()), options.get("telemetry"), live=live)
        self._rekeyer = stage.rekeyer()

    def _receive(self, record: Incoming, received: Received) -> None:
        """Take a record; what nobody wants elsewhere is passed over."""
        if not isinstance(received, Frame) or received.keyed_by != "host" or received.scope not in SCOPES:
            return
        if received.key != record.key:
            return  # the operators tell it
        try:
            for frame in self._rekeyer(received):
                self.outputs.append(Rekeyed(frame, live=self._is_live(record)))
        except RecordError as error:
            self._refuse(record, f"{self._place(record)}: not re-keyed: {error}")

    def lost(self) -> None:
        """There is no state to be given up."""
