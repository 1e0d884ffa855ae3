"""Recovers the tasks of a member in another thread, while the member continues to poll and process.

One recovery runs at a time. Recoveries are CPU-bound: two at once would both end only when the second one ends now.
The result of a recovery depends on the committed offset alone, never on the time at which it runs.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from laggard.pipeline.core.backoff import Backoff
from laggard.pipeline.core.bus import BusUnavailable
from laggard.pipeline.core.engine.recovery import Recoveries
from laggard.pipeline.core.engine.standby import EVERY_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from laggard.pipeline.core.bus import Bus, Partition
    from laggard.pipeline.core.engine.standby import Standby
    from laggard.pipeline.core.engine.tasks import Tasks

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Job:
    """The recovery of a partition's tasks up to the committed offset."""

    committed: int
    stopped: threading.Event = field(default_factory=threading.Event)
    backoff: Backoff = field(default_factory=Backoff)
    recovery: Recoveries | None = None
    future: Future[Tasks | None] | None = None


class Recoverer:
    """Recovers the tasks of one partition after the other; its methods are for the member's thread.

    Without a recovery to do, it updates the standby's states in the same thread.

    Parameters:
        bus: the bus with snapshots and input.
        group: the name of the group, for the log.
        new_tasks: makes the tasks of a partition without any state.
        standby: the standby, which may have states that are nearly recovered.
        clock: seconds on a clock that never steps.

    """

    def __init__(
        self,
        bus: Bus,
        group: str,
        new_tasks: Callable[[Partition], Tasks],
        standby: Standby | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._retries = 0
        self._bus = bus
        self._group = group
        self._new_tasks = new_tasks
        self._standby = standby
        self._clock = clock
        self._jobs: dict[Partition, _Job] = {}
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"{group} recovery")
        self._warming: Future[None] | None = None
        self._warm_at = -math.inf
        self._cold = threading.Event()  # interrupts the standby

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._jobs

    def under_way(self) -> Iterable[tuple[Partition, int]]:
        """Return the partitions and their committed offsets; for any thread."""
        return [(partition, job.committed) for partition, job in tuple(self._jobs.items())]

    @property
    def working(self) -> bool:
        """Whether a recovery is under way, unlike those that wait for the bus."""
        return any(job.future is not None for job in self._jobs.values())

    def begin(self, partition: Partition, committed: int) -> None:
        """Recover a partition's tasks up to the committed offset."""
        self.drop(partition)
        self._jobs[partition] = _Job(committed)
        self._submit()

    def drop(self, partition: Partition) -> None:
        """Forget a partition; a running recovery of it ends at the next record."""
        if (job := self._jobs.pop(partition, None)) is not None:
            job.stopped.set()

    def _submit(self) -> None:
        now = self._clock()
        for partition, job in self._jobs.items():
            if job.future is None and job.backoff.at <= now:
                self._cold.set()
                job.future = self._executor.submit(self._recover, partition, job)

    def _recover(self, partition: Partition, job: _Job) -> Tasks | None:
        """Recover tasks, in the other thread; return None if stopped."""
        stopped = job.stopped.is_set
        if job.recovery is None and self._standby is not None:
            job.recovery = self._standby.take(partition)
        while not stopped():
            if job.recovery is None or not job.recovery.usable:
                job.recovery = Recoveries(self._bus, self._new_tasks(partition))
            if job.recovery.advance(job.committed, stopped):
                job.recovery.finish()
                return job.recovery.tasks
        return None

    def recovered(self) -> Iterator[tuple[Partition, int, Tasks]]:
        """Yield the recovered partitions, each with the committed offset and the tasks, until they are dropped.

        Raises:
            BusError: a recovery failed, and a retry does not help.

        """
        for partition, job in tuple(self._jobs.items()):
            future = job.future
            if future is None or not future.done():
                continue
            try:
                tasks = future.result()
            except BusUnavailable as error:
                if not job.backoff.pause_s:
                    _logger.warning("%s on %s[%d] waits for the bus: %s", self._group, *partition, error)
                self._retries += 1
                job.backoff.failed(self._clock())
                job.future = None
            else:
                assert tasks is not None  # a job is stopped only when it leaves the jobs
                if job.backoff.pause_s:
                    _logger.warning("%s on %s[%d] goes on: the bus is there again", self._group, *partition)
                    job.backoff.went_well()
                yield partition, job.committed, tasks
        self._submit()

    def take_retries(self) -> int:
        """Return the number of retries since the last call, because the bus was unavailable."""
        retries, self._retries = self._retries, 0
        return retries

    def warm(self) -> None:
        """Let the standby follow, once a second.

        Raises:
            BusError: the standby failed, and a retry does not help.

        """
        now = self._clock()
        if self._standby is None or now < self._warm_at or not (self._warming is None or self._warming.done()):
            return
        if self._warming is not None:
            self._warming.result()
        self._warm_at = now + EVERY_S
        self._cold.clear()
        self._warming = self._executor.submit(self._standby.advance, self._cold.is_set)

    def wait(self, timeout_s: float) -> None:
        """Wait until a recovery is done, at most for this time."""
        if futures := [job.future for job in self._jobs.values() if job.future is not None]:
            wait(futures, timeout_s, FIRST_COMPLETED)

    def close(self) -> None:
        """End the recoveries, the standby and the thread."""
        for partition in tuple(self._jobs):
            self.drop(partition)
        self._cold.set()
        self._executor.shutdown(cancel_futures=True)
