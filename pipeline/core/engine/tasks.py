"""The tasks of operators in one group: they share a position, and their outputs have one order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.engine.stage import RecordTask
from laggard.pipeline.core.records import Decoder, RecordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.bus import Incoming, Partition, Snapshot
    from laggard.pipeline.core.engine.stage import Output, Stage, StageTask
    from laggard.pipeline.core.records import Received
    from laggard.pipeline.core.topics import Topics


class Tasks:
    """The tasks of one group's stages on one partition.

    They commit together. Their outputs follow the order of the input and, for one record, that of the stages. So the
    order does not depend on which operator is faster, on the worker, or on restarts. Each record is decoded once.

    Parameters:
        tasks: one or more, all at the same position.

    Attributes:
        each: the tasks in their order.
        outputs: the outputs of all tasks, until `take`.

    """

    def __init__(self, tasks: Sequence[StageTask]) -> None:
        self.each: Final = tuple(tasks)
        self.outputs: list[Output] = []
        self._given = [0] * len(tasks)
        if len(tasks) > 1:
            decoder = _Once()
            for task in self.each:
                if isinstance(task, RecordTask):
                    task.share(decoder)

    @property
    def partition(self) -> Partition:
        """The input partition."""
        return self.each[0].partition

    @property
    def position(self) -> int:
        """The first unprocessed offset."""
        return self.each[0].position

    def process(self, record: Incoming) -> bool:
        """Process the next record in each task; see `StageTask.process`."""
        is_timed = False
        for task in self.each:
            is_timed = task.process(record)
        self._gather()
        return is_timed

    def damaged_record(self, offset: int, reason: str) -> None:
        """Skip a record that the bus could not read."""
        for task in self.each:
            task.damaged_record(offset, reason)
        self._gather()

    def _gather(self) -> None:
        for place, task in enumerate(self.each):
            if task.outputs:
                self._given[place] += len(task.outputs)
                self.outputs += task.outputs
                task.outputs.clear()

    def take(self) -> tuple[list[Output], tuple[int, ...]]:
        """Remove and return the outputs, and the number of them of each task."""
        outputs, given = self.outputs, tuple(self._given)
        self.outputs, self._given = [], [0] * len(self.each)
        return outputs, given

    def snapshots(self) -> list[Snapshot]:
        """Remove and return the snapshots that are due."""
        return [snapshot for task in self.each for snapshot in task.states.take(task.position)]

    def save_all(self) -> None:
        """Let the states of all keys be saved with the next commit."""
        for task in self.each:
            task.states.save_all(task.position)

    def found(self) -> None:
        """Notify the observers that the states are ready."""
        for task in self.each:
            task.found()

    def lost(self) -> None:
        """Notify the observers that the states are dropped."""
        for task in self.each:
            task.lost()

    def refresh(self) -> None:
        """Update the telemetry of the states."""
        for task in self.each:
            task.refresh()


class _Once(Decoder):
    """Decodes a record once for several tasks in turn."""

    def __init__(self) -> None:
        super().__init__()
        self._value: bytes | None = None
        self._place = ""
        self._found: Received | RecordError | None = None

    def decode(self, value: bytes, place: str) -> Received:
        """Return the decoded record, see `Decoder`."""
        if value is not self._value or place != self._place:
            try:
                self._found = super().decode(value, place)
            except RecordError as error:
                self._found = error
            self._value, self._place = value, place
        if isinstance(self._found, RecordError):
            raise self._found
        assert self._found is not None
        return self._found


def grouped(stages: Sequence[Stage], topics: Topics) -> list[tuple[Stage, ...]]:
    """Return the stages of each group, in their order."""
    groups: dict[str, list[Stage]] = {}
    for stage in stages:
        groups.setdefault(topics.group(stage.name), []).append(stage)
    for group, members in groups.items():
        if len({stage.topic for stage in members}) > 1:
            raise ValueError(f"{group}: expected stages that read one topic, got {[each.name for each in members]}")
    return [tuple(members) for members in groups.values()]
