"""Threads of named processes as members of pools: a pool for each process name and pattern of thread names."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.host.pools.grouping import MAX_MEMBERS, Grouping, Member
from laggard.producers.host.pools.names import part, patterns
from laggard.producers.host.thread import FEATURES, RATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout
    from laggard.producers.host.pools.grouping import Pool
    from laggard.producers.host.process import Process
    from laggard.producers.host.processes import ProcessTable
    from laggard.producers.host.thread import Thread

_START_SLACK_S: Final = 0.02
"""A start is rounded down to a clock tick."""


class ThreadPools:
    """Watches the threads of processes except the first of each, which starts the others and waits for them.

    The first rates of a thread are NaN, except for one that began after the last tick, whose counters began at zero. A
    counter that goes backwards has no rate (NaN) at that tick.

    Args:
        names: names of the processes, or patterns as in a shell.
        grouping: decides which threads are a pool; with `FEATURES`.

    Attributes:
        left_out: the number of threads that are not watched, since all would exceed `MAX_MEMBERS`.

    """

    def __init__(self, names: Sequence[str], grouping: Grouping) -> None:
        self.left_out = 0
        self._names = tuple(names)
        self._grouping = grouping
        self._layout: Layout | None = None
        self._chosen: list[Process] = []
        self._threads: list[Thread] = []
        self._owners: list[str] = []
        self._rows: list[str] = []
        self._looks: list[int] = []
        self._now = np.full((0, len(FEATURES)), np.nan)
        self._before = np.full((0, len(RATES)), np.nan)
        self._before_s = np.zeros(0)
        self._last: tuple[float, float] | None = None  # the time of the last tick in seconds: monotonic, after boot
        self._pools: list[Pool] = []

    def read(
        self, table: ProcessTable, layout: Layout, monotonic_s: float, boot_s: float
    ) -> tuple[list[Pool], NDArray[np.float64]]:
        """Return the pools, and the values of all threads that a table just read, shape (threads, `FEATURES`)."""
        self._choose(table, layout)
        threads: list[Thread] = []
        owners: list[str] = []
        times_s: list[float] = []
        for process in self._chosen:
            own = process.threads.watched
            threads += own
            owners += [process.row] * len(own)
            times_s += [table.looked_s(process)] * len(own)
        if threads != self._threads:
            self._arrange(threads, table.tick_s)
        rows = [thread.row for thread in threads]
        values = self._rates(np.array(times_s))
        if self._grouping.waits or rows != self._rows or owners != self._owners:
            self._rows, self._owners = rows, owners
            self._pools = self._grouping.group(self._members(table.tick_s), boot_s)
        self._last = monotonic_s, boot_s
        return self._pools, values

    def _choose(self, table: ProcessTable, layout: Layout) -> None:
        if layout is not self._layout:
            self._layout = layout
            named = [process for process in table.processes if self._is_named(process.name)]
            for process in self._chosen:
                if process not in named:
                    table.watch(process, watched=False)
            self._chosen = named
        self.left_out, left = 0, MAX_MEMBERS
        for process in self._chosen:
            count = process.stat.threads - 1
            table.watch(process, watched=count <= left)
            if count <= left:
                left -= count
            else:
                self.left_out += count

    def _is_named(self, name: str) -> bool:
        return any(fnmatchcase(name, each) for each in self._names)

    def _arrange(self, threads: list[Thread], tick_s: float) -> None:
        """Give each thread its place, and its earlier values there."""
        places = {thread: place for place, thread in enumerate(self._threads)}
        known = [(new, places[thread]) for new, thread in enumerate(threads) if thread in places]
        new, old = [place for place, _ in known], [place for _, place in known]
        now = np.full((len(threads), len(FEATURES)), np.nan)
        before = np.full((len(threads), len(RATES)), np.nan)
        before_s = np.zeros(len(threads))
        now[new], before[new], before_s[new] = self._now[old], self._before[old], self._before_s[old]
        read_counts = [0] * len(threads)
        for here, there in known:
            read_counts[here] = self._looks[there]
        if self._last is not None:
            last_s, last_boot_s = self._last
            begun = [
                place
                for place, thread in enumerate(threads)
                if thread not in places and thread.start_ticks * tick_s >= last_boot_s - _START_SLACK_S
            ]
            before[begun], before_s[begun] = 0.0, last_s
        self._threads, self._looks = threads, read_counts
        self._now, self._before, self._before_s = now, before, before_s

    def _rates(self, now_s: NDArray[np.float64]) -> NDArray[np.float64]:
        read_counts = [thread.looks for thread in self._threads]
        if read_counts != self._looks:  # the others did not run
            ran = [place for place, (new, old) in enumerate(zip(read_counts, self._looks, strict=True)) if new != old]
            self._now[ran] = np.array([self._threads[place].counters for place in ran])
            self._looks = read_counts
        now, rates = self._now, len(RATES)
        values = np.empty_like(now)
        values[:, rates:] = now[:, rates:]
        differences = now[:, :rates] - self._before
        differences[differences < 0] = np.nan
        elapsed = now_s - self._before_s
        elapsed[elapsed <= 0] = np.nan
        np.divide(differences, elapsed[:, np.newaxis], out=values[:, :rates])
        self._before, self._before_s = now[:, :rates].copy(), now_s
        return values

    def _members(self, tick_s: float) -> Iterator[Member]:
        place = 0
        for process in self._chosen:
            own = process.threads.watched
            found = patterns([thread.name for thread in own])
            for thread in own:
                pool = f"{part(process.name)}/{part(found[thread.name])}"
                yield Member(pool, process.row, thread.row, pool, place, thread.start_ticks * tick_s)
                place += 1
