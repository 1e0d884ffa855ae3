"""Recovers the tasks of a member in a thread beside its own, so that it keeps polling and working meanwhile.

One recovery at a time: it is work for a processor, and two at once would both be there only when the second of them is
now. What a recovery gives depends on the committed offset alone, never on when it runs.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from laggard.pipeline.backoff import Backoff
from laggard.pipeline.bus import BusUnavailable
from laggard.pipeline.engine.recovery import Recoveries
from laggard.pipeline.engine.standby import EVERY_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from laggard.pipeline.bus import Bus, Partition
    from laggard.pipeline.engine.standby import Standby
    from laggard.pipeline.engine.tasks import Tasks

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Job:
    """A partition whose tasks are to be brought to the committed offset."""

    committed: int
    stopped: threading.Event = field(default_factory=threading.Event)
    backoff: Backoff = field(default_factory=Backoff)
    recovery: Recoveries | None = None
    future: Future[Tasks | None] | None = None


class Recoverer:
    """Recovers tasks, each as soon as those before it are done; all methods are for the member's thread.

    While there is none to recover, it keeps the standby's states warm in the same thread.

    Parameters:
        bus: where snapshots and input are.
        group: whose, for the log.
        new_tasks: makes the tasks of a partition without any state.
        standby: may have states that are nearly there.
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
        self._cold = threading.Event()  # something else is to be done than keeping states warm

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._jobs

    def under_way(self) -> Iterable[tuple[Partition, int]]:
        """The partitions and their committed offsets; may be asked by any thread."""
        return [(partition, job.committed) for partition, job in tuple(self._jobs.items())]

    @property
    def working(self) -> bool:
        """Whether a recovery is under way: some may only wait for the bus."""
        return any(job.future is not None for job in self._jobs.values())

    def begin(self, partition: Partition, committed: int) -> None:
        """Recover a partition's tasks up to the committed offset."""
        self.drop(partition)
        self._jobs[partition] = _Job(committed)
        self._submit()

    def drop(self, partition: Partition) -> None:
        """Forget a partition; a recovery of it that is under way ends at the next record."""
        if (job := self._jobs.pop(partition, None)) is not None:
            job.stopped.set()

    def _submit(self) -> None:
        now = self._clock()
        for partition, job in self._jobs.items():
            if job.future is None and job.backoff.at <= now:
                self._cold.set()
                job.future = self._executor.submit(self._recover, partition, job)

    def _recover(self, partition: Partition, job: _Job) -> Tasks | None:
        """In the thread beside: the tasks, or None where it was stopped."""
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
        """The partitions that are there: each with the committed offset and the tasks; again until it is dropped.

        Raises:
            BusError: a recovery failed, and to try again would not help.

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
                assert tasks is not None  # it is stopped only when it is taken out of the jobs
                if job.backoff.pause_s:
                    _logger.warning("%s on %s[%d] goes on: the bus is there again", self._group, *partition)
                    job.backoff.went_well()
                yield partition, job.committed, tasks
        self._submit()

    def take_retries(self) -> int:
        """How often a recovery was tried again because the bus was unavailable, since this was asked last."""
        retries, self._retries = self._retries, 0
        return retries

    def warm(self) -> None:
        """Let the standby follow, once a second.

        Raises:
            BusError: the standby failed, and to try again would not help.

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
        """Until a recovery is done, or so long."""
        if futures := [job.future for job in self._jobs.values() if job.future is not None]:
            wait(futures, timeout_s, FIRST_COMPLETED)

    def close(self) -> None:
        """End all of it."""
        for partition in tuple(self._jobs):
            self.drop(partition)
        self._cold.set()
        self._executor.shutdown(cancel_futures=True)
