"""Answers from the history on a bus: what was slow at a moment, and the culprits.

The state before the moment comes from the nearest snapshot and from the input after it, by the same `Task` that the
runner drives. Later records have no part in the answer, except for the next frame if none before the moment is near.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.records import Frame
from laggard.pipeline.explaining.short_lived import came_and_went, matter, seen_s
from laggard.pipeline.history.answers import answer, blamed_stream
from laggard.pipeline.history.hosts import Hosts
from laggard.pipeline.history.lookback import Lookback, began_before, grown
from laggard.pipeline.history.marks import Marks
from laggard.pipeline.history.rebuilding import rebuild
from laggard.pipeline.history.series import LONGEST_S, Reader, began, longest_lull_s, read_series, value_of
from laggard.pipeline.scoring.scopes import HOST, MARK_WINDOW_S
from laggard.pipeline.scoring.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records import Received
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.explaining.short_lived import Counts
    from laggard.pipeline.history.answers import Answer
    from laggard.pipeline.history.marks import Marked
    from laggard.pipeline.history.series import Series
    from laggard.pipeline.scoring.wired import Wired

BEFORE: Final = 1.25
"""A time series is at least this many times as long as the deviation has lasted."""


class OutsideError(Exception):
    """The moment is before, after or in a gap of the history of a host, which reaches from `first` to `last`."""

    def __init__(self, host: str, ts: float, first: float, last: float) -> None:
        super().__init__(f"no frame of {host!r} near {ts}; its history goes from {first} to {last}")
        self.host = host
        self.ts = ts
        self.first = first
        self.last = last


class Learned(NamedTuple):
    """A task that has learned from a host's history.

    Attributes:
        task: the task, which is at the state of the host before its position.
        since: the time of the first record that it learned, if older ones are in no snapshot that is left; otherwise
            NaN.

    """

    task: Task
    since: float


class History:
    """The frames and marks on a bus, and an operator's results on them.

    Parameters:
        bus: the bus.
        topics: the names of its topics.
        wired: the operator.

    Attributes:
        hosts: the recorded hosts.

    """

    def __init__(self, bus: Bus, topics: Topics, wired: Wired) -> None:
        self._bus = bus
        self._topic = topics.name(wired.topic)
        self._wired = wired
        self._marks = Marks(bus, topics, wired)
        self.hosts = Hosts(bus, self._topic, wired.snapshots)

    def reader(self, host: str) -> Reader:
        """Return a reader of the records of a host."""
        return Reader(self._bus, self._bus.partition_of(self._topic, host), host)

    def task_at(self, host: str, stop: int) -> Task:
        """Return a task at the state of the host before the offset `stop`."""
        return self.learned(host, stop).task

    def learned(self, host: str, stop: int) -> Learned:
        """Return the same task, with the time from which on it has learned."""
        reader = self.reader(host)
        task = Task(self._wired, reader.partition, live=False)
        start = rebuild(task, reader, stop)
        first = next(reader.forwards(start, stop), None) if start else None
        return Learned(task, math.nan if first is None else first[1].ts)

    def go_on(self, learned: Learned, host: str, stop: int) -> None:
        """Advance a task by the later records of the host, before the offset `stop`."""
        learned.task.replay(self.reader(host).stored(learned.task.position, stop))
        learned.task.position = stop

    def ask(
        self,
        host: str,
        ts: float | None,
        rows: int,
        features: int,
        *,
        asking: int | None = None,
        learned: Learned | None = None,
    ) -> Answer:
        """Return what was slow at a moment.

        Args:
            host: the host; see `Hosts.choose`.
            ts: the moment, seconds since the Unix epoch; None for the newest frame, however old that is.
            rows: the most rows in the ranking.
            features: the most features of each row.
            asking: the pid of the querying process if it runs on the host: it is left out.
            learned: a task that is already at the state before `stop_of` the moment.

        Raises:
            OutsideError: there is no frame near the moment.

        """
        reader = self.reader(host)
        end = self._bus.bounds(reader.partition)[1]
        stop = self.stop_of(host, ts)
        task, since = learned or self.learned(host, stop)
        stream = blamed_stream(task, host)
        window_s = max(MARK_WINDOW_S, 2.0 * stream.interval_s if stream else 0.0)
        if ts is not None and not (stream and ts - stream.ts <= window_s):
            # S0 judges the closest frame within a window. None is before the moment, so it may be the next one.
            behind = next((offset for offset, each in reader.forwards(stop, end) if self._is_blamed(each)), stop - 1)
            task.replay(reader.stored(stop, behind + 1))
        found = answer(task, host, ts, rows, features, asking=asking)
        if found is not None and (ts is None or abs(ts - found.frame.ts) <= window_s):
            return self._begun(replace(found, since=since, short_lived=self._short_lived(found)))
        raise self._outside(host, reader, end, ts)

    def stop_of(self, host: str, ts: float | None) -> int:
        """Return the offset of the first frame after a moment; the end for None, or without one."""
        reader = self.reader(host)
        end = self._bus.bounds(reader.partition)[1]
        return end if ts is None else self._after(reader, ts, end)

    def series(self, asked: Answer, row: str, feature: str, scope: str | None = None) -> Series:
        """Return the time series of a feature of a row of the judged frame, or of another scope, around the moment.

        If the deviation has lasted for long, the series reaches back to before its onset.
        """
        reader, until = self.reader(asked.host), asked.frame.ts
        began_ts = asked.began if asked.grown is None else asked.grown.ts
        since = until - BEFORE * (until - began_ts) if began_ts <= until else until
        scope = scope or asked.frame.scope
        return read_series(reader, scope, row, feature, moment=until, tick_s=asked.tick_s, since=since)

    def _begun(self, result: Answer) -> Answer:
        """Return the answer with its onset, and with its growth."""
        about = result.begins
        if about is None:
            return result
        reader, until = self.reader(result.host), result.frame.ts
        stop = self._after(reader, until, self._bus.bounds(reader.partition)[1])

        def points() -> Iterator[tuple[float, float]]:
            for _, record in reader.backwards(stop):
                if isinstance(record, Frame) and record.scope == about.scope and record.ts <= until + 1e-3:
                    if record.ts < until - LONGEST_S:
                        return
                    yield record.ts, value_of(record, about.row, about.feature.feature)

        first, before = began(points(), about.feature, result.tick_s), False
        past = Lookback(reader, about, moment=until, stop=stop, tick_s=result.tick_s)
        growth = grown(past)
        if growth is None and until - first > LONGEST_S - longest_lull_s(result.tick_s) - result.tick_s:
            first, before = began_before(past, first)
        return replace(result, began=first, began_before=before, grown=growth)

    def _short_lived(self, result: Answer) -> Counts:
        """Return the short-lived processes; see `Answer.short_lived`."""
        if not matter(result.verdict, result.host_ranking):
            return ()
        reader, until = self.reader(result.host), result.frame.ts
        start = self._bus.offset_at(reader.partition, until - seen_s(result.tick_s))
        stop = self._after(reader, until, self._bus.bounds(reader.partition)[1])
        frames = (each for _, each in reader.forwards(start, stop) if isinstance(each, Frame))
        return came_and_went([each for each in frames if each.scope == result.frame.scope and each.ts <= until])

    def marks(self, host: str | None = None) -> list[Marked]:
        """Return the marks of a host, or of all hosts, newest first."""
        return self._marks.of(host)

    def _after(self, reader: Reader, ts: float, end: int) -> int:
        """Return the offset of the first frame after a moment, or `end`.

        The bus only finds the first record. That may be a mark or of another host, from a clock that is ahead.
        """
        start = self._bus.offset_at(reader.partition, math.nextafter(ts, math.inf))
        frames = ((offset, each) for offset, each in reader.forwards(start, end) if self._is_blamed(each))
        return next((offset for offset, each in frames if each.ts > ts), end)

    def _is_blamed(self, record: Received) -> bool:
        return isinstance(record, Frame) and record.scope != HOST and self._wired.takes(record.scope)

    def _outside(self, host: str, reader: Reader, stop: int, ts: float | None) -> OutsideError:
        oldest = self._bus.bounds(reader.partition)[0]
        first = next((each.ts for _, each in reader.forwards(oldest, stop) if self._is_blamed(each)), math.nan)
        last = next((each.ts for _, each in reader.backwards(stop) if self._is_blamed(each)), math.nan)
        return OutsideError(host, last if ts is None else ts, first, last)
