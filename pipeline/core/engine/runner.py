"""The runner: drives the tasks of all stages over a bus, in one thread of one process."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from laggard.pipeline.core.backoff import FIRST_PAUSE_S, Backoff
from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.member import Member
from laggard.pipeline.core.engine.stage import MAX_KEYS, SNAPSHOT_RECORDS
from laggard.pipeline.core.engine.tasks import Tasks, grouped
from laggard.pipeline.core.engine.telemetry import Telemetry

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from laggard.pipeline.core.bus import Bus, Partition
    from laggard.pipeline.core.engine.stage import Stage, StageTask
    from laggard.pipeline.core.topics import Topics

IDLE_S = 0.5
"""The time that a member waits for records before the runner checks whether to stop, in seconds."""

TURN_S = 0.05
"""The time that each of several members waits for records if none had any, in seconds: the others wait for it."""

STOPPING_S = 5.0
"""The time that a clean stop may retry to commit while the bus is unavailable, in seconds."""

_logger = logging.getLogger(__name__)


class _Turn:
    """A member and the time of its next turn: while the bus is unavailable, pauses become longer."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.backoff = Backoff()

    def failed(self, now: float, error: BusUnavailable) -> None:
        if not self.backoff.pause_s:
            _logger.warning("%s waits for the bus: %s", self.member.name, error)
        self.backoff.failed(now)

    def went_well(self) -> None:
        if self.backoff.pause_s:
            _logger.warning("%s goes on: the bus is there again", self.member.name)
        self.backoff.went_well()


class Runner:
    """Reads, processes and commits until it is stopped.

    Results are exactly-once. Outputs, snapshots and offsets go into one transaction. An error, kill -9 or a rebalance
    between two transactions leads back to the state of the last one. While the bus is unavailable, operations are
    retried. Normal operation logs nothing.

    Parameters:
        bus: the bus, with its topics created.
        stages: the operators, and the stages that join their anomalies.
        topics: the names of the topics.
        snapshot_records: the most records of a key between two of its snapshots.
        max_keys: the most keys of a task with a state; beyond, the least recently active one is dropped.
        live: whether outputs are about the present, see `RecordTask`.
        standby: whether to replicate the states of other workers' partitions, see `Standby`.
        observers: the observers of results, see `StageTask`, called in the runner's thread.
        telemetry: its counters; given if an observer shows them, too.
        pace: the amounts of work done at once.
        clock: seconds on a clock that never steps.
        wall_clock: seconds since the Unix epoch, for latencies only.

    Attributes:
        telemetry: its counters; may be read from any thread.

    """

    def __init__(
        self,
        bus: Bus,
        stages: Sequence[Stage],
        topics: Topics,
        *,
        snapshot_records: int = SNAPSHOT_RECORDS,
        max_keys: int = MAX_KEYS,
        live: bool = True,
        standby: bool = False,
        observers: Sequence[Any] = (),
        telemetry: Telemetry | None = None,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.telemetry = telemetry = telemetry or Telemetry()
        self._clock = clock

        def new_task(stage: Stage, partition: Partition) -> StageTask:
            return stage.task(
                partition,
                snapshot_records=snapshot_records,
                max_keys=max_keys,
                live=live,
                observers=observers,
                telemetry=telemetry.task(stage.name, partition),
            )

        def member(together: Sequence[Stage]) -> Member:
            return Member(
                bus,
                together,
                topics,
                lambda partition: Tasks([new_task(stage, partition) for stage in together]),
                pace=pace or Pace(),
                standby=standby,
                telemetry=telemetry,
                clock=clock,
                wall_clock=wall_clock,
            )

        self._turns = [_Turn(member(together)) for together in grouped(stages, topics)]
        self._busy = False

    def recovering(self) -> dict[str, int]:
        """Return the groups and partitions to recover, with the records left; empty when the runner is ready."""
        left: dict[str, int] = {}
        for turn in self._turns:
            left |= turn.member.recovering()
        return left

    def update_lag(self) -> None:
        """Update lag and missed records now; `run` does so once a second."""
        for turn in self._turns:
            turn.member.update_lag()

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set; then commit the processed records, with the states, and leave.

        Raises:
            BusError: an error that a retry does not fix. Committed results remain valid.

        """
        try:
            for turn in self._turns:
                turn.member.start()
            while not stop.is_set():
                self.step(stop)
            self._finish()
        finally:
            for turn in self._turns:
                try:
                    turn.member.close()
                except BusError as error:
                    _logger.warning("%s could not leave its group: %s", turn.member.name, error)

    def step(self, stop: threading.Event) -> None:
        """Let each member that is due do its work; if there was none, wait a moment for it."""
        began = self._clock()
        ready = [turn for turn in self._turns if turn.backoff.at <= began]
        if not ready:
            stop.wait(max(0.0, min((turn.backoff.at for turn in self._turns), default=began + IDLE_S) - began))
        timeout_s = 0.0 if self._busy else IDLE_S if len(ready) <= 1 else min(IDLE_S / len(ready), TURN_S)
        self._busy = False
        for turn in ready:
            try:
                self._busy |= turn.member.step(timeout_s)
            except BusUnavailable as error:
                self.telemetry.retries += 1
                turn.failed(self._clock(), error)
            else:
                turn.went_well()

    def _finish(self) -> None:
        deadline = self._clock() + STOPPING_S
        for turn in self._turns:
            while True:
                try:
                    turn.member.finish()
                except BusUnavailable as error:
                    if self._clock() >= deadline:
                        _logger.warning("%s stops without its last commit: %s", turn.member.name, error)
                        break
                    self.telemetry.retries += 1
                    time.sleep(FIRST_PAUSE_S)
                else:
                    break
