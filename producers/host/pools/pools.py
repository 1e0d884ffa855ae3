"""The pools of a machine at a tick."""

from __future__ import annotations

import logging
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.records import make_layout
from laggard.producers.host import processes, thread
from laggard.producers.host.pools.grouping import MAX_MEMBERS, MAX_POOLS, MINIMUM, SETTLED_S, Grouping
from laggard.producers.host.pools.prefork import PreforkPools
from laggard.producers.host.pools.threads import ThreadPools

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout
    from laggard.producers.host.processes import ProcessTable
    from laggard.producers.system.clock import Clock

_logger = logging.getLogger(__name__)

EMPTIED_S: Final = 120.0
EMPTIED_TICKS: Final = 3
"""For this time, in seconds, and for this number of ticks a pool without members has empty frames, which end its open
incident."""


class Members(NamedTuple):
    """A pool at a tick.

    Attributes:
        key: the host's name, a slash, and the common part of its members.
        layout: the layout of its members.
        values: float64, shape (members, features). Read-only.

    """

    key: str
    layout: Layout
    values: NDArray[np.float64]


class _Seen(NamedTuple):
    """A pool that has members, or had some lately.

    Attributes:
        features: the features of its frames.
        seen_s: when it last had members, by the monotonic clock.
        empty: the number of its empty frames since then.

    """

    features: tuple[str, ...]
    seen_s: float
    empty: int = 0


class Pools:
    """Finds and reads the pools of a machine.

    Args:
        clock: the clock of ages and of empty frames.
        host: the prefix of the keys.
        threads: names, or patterns, of the processes whose threads are watched.
        discover: whether to find prefork workers.
        minimum: the fewest members of a pool.
        titles: whether titles of processes separate prefork workers.
        settled_s: the least age of this many members, in seconds.

    Attributes:
        count: the number of pools at the last tick.
        members: the number of their members.
        left_out: the number of members beyond a bound.

    """

    def __init__(
        self,
        clock: Clock,
        host: str,
        *,
        threads: Sequence[str] = (),
        discover: bool = True,
        minimum: int = MINIMUM,
        titles: bool = True,
        settled_s: float = SETTLED_S,
    ) -> None:
        self.count = self.members = self.left_out = 0
        self.watches_threads = bool(threads)
        self._named = tuple(threads)
        self._clock = clock
        self._of_threads = Grouping(host, thread.FEATURES, minimum, settled_s)
        self._of_processes = Grouping(host, processes.FEATURES, minimum, settled_s)
        self._threads = ThreadPools(threads, self._of_threads) if threads else None
        self._prefork = PreforkPools(self._of_processes, settled_s, titles=titles) if discover else None
        self._seen: dict[str, _Seen] = {}

    def unmatched(self, names: Collection[str]) -> list[str]:
        """Return the names, or patterns, of processes with threads to watch that none of these names matches."""
        return [each for each in self._named if not any(fnmatchcase(name, each) for name in names)]

    def read(self, table: ProcessTable, layout: Layout, values: NDArray[np.float64]) -> list[Members]:
        """Return all pools with the values of their members, for a while also those that have lost all members.

        Args:
            table: the table, which was just read.
            layout: its layout: the same object as long as names stay the same.
            values: its values.

        """
        monotonic_s, boot_s = self._clock.monotonic() / 1e9, self._clock.boottime() / 1e9
        found: list[Members] = []
        if self._prefork is not None:
            pools = self._prefork.read(table, layout, boot_s)
            found += [Members(pool.key, pool.layout, values[pool.places]) for pool in pools]
        if self._threads is not None:
            pools, of_threads = self._threads.read(table, layout, monotonic_s, boot_s)
            found += [Members(pool.key, pool.layout, of_threads[pool.places]) for pool in pools]
        self.count, self.members = len(found), sum(len(each.values) for each in found)
        self._leave_out()
        found += self._without_members({each.key: each.layout.features for each in found}, monotonic_s)
        for each in found:
            each.values.setflags(write=False)
        return found

    def _without_members(self, there: dict[str, tuple[str, ...]], now_s: float) -> list[Members]:
        """Return empty frames of pools that have lost all members, given the features of those that have some."""
        empty = {
            key: each._replace(empty=each.empty + 1)
            for key, each in self._seen.items()
            if key not in there and (now_s - each.seen_s <= EMPTIED_S or each.empty < EMPTIED_TICKS)
        }
        empty = dict(list(empty.items())[-MAX_POOLS:])
        self._seen = empty | {key: _Seen(features, now_s) for key, features in there.items()}
        return [
            Members(key, make_layout([], [], each.features), np.zeros((0, len(each.features))))
            for key, each in empty.items()
        ]

    def _leave_out(self) -> None:
        """Count the members beyond a bound, and log it when that begins."""
        left_out = self._of_threads.left_out + self._of_processes.left_out
        left_out += 0 if self._threads is None else self._threads.left_out
        if left_out and not self.left_out:
            _logger.warning(
                "%d pool members are skipped: the limits are %d pools, %d members, and short names",
                left_out,
                MAX_POOLS,
                MAX_MEMBERS,
            )
        self.left_out = left_out
