"""Periodic checks of a member's partitions on the bus, in a thread of its own: a call may take long."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import Bus, Partition
    from laggard.pipeline.core.engine.assignment import OwnedPartition
    from laggard.pipeline.core.engine.telemetry import TaskTelemetry

EVERY_S: Final = 1.0
_logger = logging.getLogger(__name__)


class LagMonitor:
    """Updates the lag of a member's partitions, and counts the records that it missed.

    Offsets may have holes, so neither is a difference of offsets alone. Offsets in a gap are missed records if they are
    below the oldest available one. There is no lag if nothing can be read between the position and the end.

    Parameters:
        bus: the bus of the partitions.
        group: the name of the member's group, for the log.
        held: the member's partitions at any moment.
        recovering: returns the partitions in recovery, each with the committed offset.
        counted: returns the counters of the tasks on a partition.

    """

    def __init__(
        self,
        bus: Bus,
        group: str,
        held: Mapping[Partition, OwnedPartition],
        recovering: Callable[[], Iterable[tuple[Partition, int]]],
        counted: Callable[[Partition], Iterable[TaskTelemetry]],
    ) -> None:
        self._bus = bus
        self._group = group
        self._held = held
        self._recovering = recovering
        self._counted = counted
        self._seen: dict[Partition, tuple[int, int]] = {}  # the position and the end at the last check
        self._empty_to: dict[Partition, int] = {}  # nothing can be read from the position to here
        self._looking = threading.Lock()  # `close` checks, too, perhaps while the thread does
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Check the partitions once a second from here on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"{self._group} lag", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(EVERY_S):
            try:
                self.update()
            except Exception:
                # If this thread ended, lag and losses would freeze without notice.
                _logger.exception("%s cannot check its partitions", self._group)

    def update(self) -> None:
        """Check all partitions once. Values that the bus cannot provide now do not change."""
        with self._looking:
            self._update()

    def _update(self) -> None:
        all_owned, recovering = dict(self._held), dict(self._recovering())
        # Before the bounds are read: otherwise a deletion in between would make a hole look like a loss.
        gaps = {partition: len(owned.gaps) for partition, owned in all_owned.items()}
        for partition, (oldest, end) in self._bounds(sorted(all_owned.keys() | recovering.keys())):
            if self._stopped.is_set():
                return
            if (owned := all_owned.get(partition)) is not None:
                with suppress(BusError):
                    self._update_one(partition, owned, gaps[partition], oldest, end)
            elif partition not in self._held:
                self._set_lag(partition, max(0, end - recovering[partition]))

    def _set_lag(self, partition: Partition, lag: int) -> None:
        for counted in self._counted(partition):
            counted.lag_records = lag

    def _bounds(self, partitions: Sequence[Partition]) -> Iterator[tuple[Partition, tuple[int, int]]]:
        """Yield the bounds that the bus can provide now; reads and commits report the errors."""
        try:
            yield from self._bus.all_bounds(partitions).items()
        except BusError:
            # Perhaps only the leader of one of them is unavailable.
            for partition in partitions:
                with suppress(BusError):
                    yield partition, self._bus.bounds(partition)

    def _update_one(self, partition: Partition, owned: OwnedPartition, seen: int, oldest: int, end: int) -> None:
        gaps = [owned.gaps.popleft() for _ in range(seen)]
        if missed := sum(max(0, min(oldest, gap.stop) - gap.start) for gap in gaps):
            for task in owned.tasks.each:
                task.telemetry.missed_records += missed
            _logger.warning(
                "%s on %s[%d]: %d records were deleted before they were read; going on without them",
                self._group, *partition, missed,
            )  # fmt: skip
        committed, position = owned.committed, owned.tasks.position
        idle = committed == position < end and self._seen.get(partition) == (position, end)
        if idle and self._empty_to.get(partition) != end and self._is_empty(partition, position, end):
            self._empty_to[partition] = end
        self._seen[partition] = position, end
        empty = position == committed and self._empty_to.get(partition) == end
        if self._held.get(partition) is owned:
            self._set_lag(partition, 0 if empty else max(0, end - committed))

    def _is_empty(self, partition: Partition, start: int, stop: int) -> bool:
        """Return whether there is nothing to read: no record has come since the last check, despite these offsets."""
        return next(iter(self._bus.read(partition, start, stop)), None) is None

    def close(self) -> None:
        """Stop, after a last check if there are unchecked gaps."""
        if self._thread is not None and any(owned.gaps for owned in tuple(self._held.values())):
            self.update()
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
