"""Joins the performance of an application with the counters of its hosts, interval by interval (S2, section 2.1).

The input is the records of one application, in one order: performance frames, and frames of the counters of hosts
(ticks). An interval begins at one performance frame, exclusive, and ends at the next one, inclusive. Its output is the
performance and one vector of all metrics: the mean of each over the ticks in the interval. A host without a tick in it
keeps its last values for three of its ticks; then they are NaN.

The records alone decide when an interval closes, by the times of the hosts: once every active host is past its end. An
active host has a tick within one interval, or ten seconds if that is longer, of the newest tick of any host. So a host
that dies delays the others once, by that time. The time of performance frames does not count: they may arrive long
before the counters, which are re-keyed by the worker. The price: the clocks of hosts must agree within that grace.
Frames for a closed interval are late.

Bounds, for each application: the metrics, by `Places`; `MAX_STREAMS` streams of ticks (one for each host and scope),
each forgotten after an hour of silence; `MAX_WAITING` performance frames that wait for ticks, then the oldest interval
closes without them. Ticks wait for the performance for five intervals, or a minute if that is longer. Beyond
`MAX_WAITING_CELLS` waiting values the longest stream drops its oldest ticks. Without a measured performance only the
newest tick of each stream stays.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.pipeline.applications.metrics import Places
from laggard.pipeline.applications.ticks import Stream, Tick
from laggard.pipeline.eventtime import FORGOTTEN_S, Seen, SetBack
from laggard.pipeline.records import Decoder, Frame, Layout, RecordError, encode
from laggard.pipeline.records.layout import read_layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from laggard.pipeline.applications.metrics import Metrics
    from laggard.pipeline.eventtime import Arrival

PERFORMANCE: Final = "performance"
COUNTERS: Final = ("process", "host")
"""The scopes of frames that are joined; others do not count."""

GRACE_S: Final = 10.0
"""A host is awaited until others are ahead of it by one interval, or by this time in seconds if it is longer."""

STALE_TICKS: Final = 3.0
"""A host without a tick in an interval keeps its last values for this many of its ticks."""

LONGEST_GAP: Final = 3.0
"""The first performance frame after a pause of more than this many intervals only begins an interval: its performance
is hardly that of the whole pause."""

WAITING_INTERVALS: Final = 5.0
WAITING_S: Final = 60.0
"""Ticks wait for the performance for this many intervals, or for this time in seconds if it is longer."""

MAX_STREAMS: Final = 4_096
MAX_WAITING: Final = 4_096
MAX_WAITING_CELLS: Final = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """A closed interval.

    Attributes:
        begin_ts: its start, seconds since the Unix epoch, exclusive.
        ts: its end, inclusive.
        performance: the measured performance by feature; NaN if there was none, such as a response time without any
            request.
        metrics: the names of the values.
        values: the means of the metrics, float64, shape (metrics,); NaN if unknown.
        frame: the performance frame at its end.
        live: whether it is about the present.

    """

    begin_ts: float
    ts: float
    performance: Mapping[str, float]
    metrics: Metrics
    values: NDArray[np.float64]
    frame: Frame
    live: bool


class _Measured(NamedTuple):
    """A performance frame that waits for the ticks of its interval."""

    begin_ts: float
    frame: Frame
    live: bool


class Intervals:
    """The intervals of one application. Deterministic: the same frames in the same order give the same intervals.

    Attributes:
        places: the metrics, and the places of their values.
        set_back: counts late performance frames that suggest that the clock of their producer was set back.

    """

    def __init__(self) -> None:
        self.places = Places()
        self._streams: dict[tuple[str, tuple[str, ...]], Stream] = {}
        self._measured = Seen()
        self._measured_ts = -math.inf  # the time of the newest performance frame
        self._length_s = 0.0  # the length of the newest interval
        self._closed_ts = -math.inf
        self._waiting: deque[_Measured] = deque()
        self._held_cells = 0
        self.set_back = SetBack(ordered=True)

    @property
    def ts(self) -> float:
        """The time of the newest frame, seconds since the Unix epoch; -inf before the first."""
        return max(self._measured_ts, max((each.newest_ts for each in self._streams.values()), default=-math.inf))

    @property
    def closed_ts(self) -> float:
        """The end of the newest closed interval; -inf before the first."""
        return self._closed_ts

    @property
    def measured_ts(self) -> float:
        """The time of the newest performance frame; -inf before the first."""
        return self._measured_ts

    @property
    def length_s(self) -> float:
        """The time between the newest two performance frames; 0 before there are two."""
        return self._length_s

    # Incoming frames.

    def measure(self, frame: Frame, *, live: bool) -> Arrival:
        """Add a performance frame.

        Returns:
            `late` if it is no newer than the one before, or if the ticks of its interval were dropped; `set_back` if so
            many are late, and by so much, that the newest time must have been wrong: the caller starts from scratch.

        """
        if self._measured.again(frame):
            return "duplicate"
        before, ts = self._measured_ts, frame.ts
        if ts <= before:
            return self.set_back.late(ts, before)
        self.set_back.restart()
        usual, self._measured_ts = self._length_s, ts
        if math.isinf(before):
            return "new"
        self._length_s = ts - before
        if usual and self._length_s > LONGEST_GAP * usual:
            return "new"
        if self._streams and all(each.let_go_ts >= ts for each in self._streams.values()):
            return "late"
        self._waiting.append(_Measured(before, frame, live))
        return "new"

    def tick(self, frame: Frame) -> Arrival:
        """Add a frame of counters; it is late if its interval is closed."""
        key = frame.scope, frame.hosts
        stream = self._streams.get(key)
        if stream is None:
            while len(self._streams) >= MAX_STREAMS:
                self._forget(min(self._streams, key=lambda each: self._streams[each].newest_ts))
            stream = self._streams[key] = Stream()
        if stream.seen.again(frame):
            return "duplicate"
        if frame.ts <= self._closed_ts:
            return "late"
        if math.isfinite(stream.newest_ts) and frame.ts > stream.newest_ts:
            stream.tick_s = frame.ts - stream.newest_ts
        stream.newest_ts = frame.ts
        tick = Tick(frame.ts, frame.layout, frame.values)
        if not stream.ticks or stream.ticks[-1].ts <= tick.ts:
            stream.ticks.append(tick)
        else:
            insort(stream.ticks, tick, key=lambda each: each.ts)
        self._held_cells += tick.values.size
        self._let_go(stream)
        return "new"

    def _let_go(self, stream: Stream) -> None:
        """Drop ticks that have waited for too long, or that are too many."""
        if math.isinf(self._measured_ts):
            oldest = stream.newest_ts  # no interval can begin before the next performance frame
        else:
            oldest = stream.newest_ts - max(WAITING_S, WAITING_INTERVALS * self._length_s)
        while stream.ticks[0].ts < oldest:
            self._held_cells -= stream.ticks[0].values.size
            stream.let_go()
        while self._held_cells > MAX_WAITING_CELLS:
            longest = max(self._streams.values(), key=lambda each: len(each.ticks))
            if len(longest.ticks) <= 1:
                return  # the newest tick of each host stays, however wide
            self._held_cells -= longest.ticks[0].values.size
            longest.let_go()

    def _forget(self, key: tuple[str, tuple[str, ...]]) -> None:
        self._held_cells -= sum(tick.values.size for tick in self._streams.pop(key).ticks)

    # Closing intervals.

    def closed(self) -> Iterator[Interval]:
        """Yield the intervals that can be closed now, the oldest first."""
        while self._waiting and (self._is_past(self._waiting[0].frame.ts) or len(self._waiting) > MAX_WAITING):
            yield self._close()

    def rest(self) -> Iterator[Interval]:
        """Yield all other intervals: the input has ended."""
        while self._waiting:
            yield self._close()

    def _is_past(self, end_ts: float) -> bool:
        """Return whether every active host is past this time."""
        event_ts = max((each.newest_ts for each in self._streams.values()), default=-math.inf)
        if event_ts <= end_ts:
            return False
        lately = event_ts - max(self._length_s, GRACE_S)
        return all(each.newest_ts > end_ts or each.newest_ts < lately for each in self._streams.values())

    def _close(self) -> Interval:
        one = self._waiting.popleft()
        end_ts = self._closed_ts = one.frame.ts
        # Names first: the values added below need their places.
        means = [mean for each in self._streams.values() for mean in self._means(each, one.begin_ts, end_ts)]
        values, counts = np.zeros(len(self.places)), np.zeros(len(self.places))
        for places, mean in means:
            there = np.isfinite(mean)
            values[places] += np.where(there, mean, 0.0)
            counts[places] += there
        values = _divided(values, counts)
        metrics = self.places.seen(counts > 0.0)
        interval = Interval(
            one.begin_ts,
            end_ts,
            dict(zip(one.frame.layout.features, one.frame.values[0].tolist(), strict=True)),
            metrics,
            values,
            one.frame,
            one.live,
        )
        self._forget_old(end_ts)
        return interval

    def _means(
        self, stream: Stream, begin_ts: float, end_ts: float
    ) -> list[tuple[NDArray[np.intp], NDArray[np.float64]]]:
        """Return the places of a stream's metrics, and their means over its ticks in an interval."""
        sums: dict[bytes, tuple[Layout, NDArray[np.float64], NDArray[np.float64]]] = {}
        fresh = stream.last
        while stream.ticks and stream.ticks[0].ts <= end_ts:
            fresh = stream.last = tick = stream.ticks.popleft()
            self._held_cells -= tick.values.size
            if tick.ts <= begin_ts:
                continue
            flat = tick.values.ravel()
            there = np.isfinite(flat)
            _, total, count = sums.setdefault(
                tick.layout.packed, (tick.layout, np.zeros(flat.size), np.zeros(flat.size))
            )
            with np.errstate(over="ignore"):  # infinite means are left out later
                total += np.where(there, flat, 0.0)
            count += there
        if sums:
            return self._together(list(sums.values()))
        if fresh is None or end_ts - fresh.ts > STALE_TICKS * stream.tick_s:
            return []
        return [self.places.placed(fresh.layout, fresh.values.ravel())]

    def _together(
        self, sums: list[tuple[Layout, NDArray[np.float64], NDArray[np.float64]]]
    ) -> list[tuple[NDArray[np.intp], NDArray[np.float64]]]:
        """Return places and means over ticks that may have different layouts."""
        if len(sums) == 1:
            layout, total, count = sums[0]
            return [self.places.placed(layout, _divided(total, count))]
        placed = [
            (self.places.placed(layout, total), self.places.placed(layout, count)[1]) for layout, total, count in sums
        ]
        size = len(self.places)
        totals, counts = np.zeros(size), np.zeros(size)
        for (places, total), count in placed:
            totals[places] += total
            counts[places] += count
        places = np.flatnonzero(counts)
        return [(places, totals[places] / counts[places])]

    def _forget_old(self, ts: float) -> None:
        for key in [key for key, each in self._streams.items() if each.newest_ts < ts - FORGOTTEN_S]:
            self._forget(key)

    # State.

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        layouts: dict[bytes, int] = {}

        def packed(tick: Tick) -> list[Any]:
            return [tick.ts, layouts.setdefault(tick.layout.packed, len(layouts)), tick.values]

        streams = [
            {
                "scope": scope,
                "hosts": list(hosts),
                "heard_ts": each.newest_ts,
                "tick_s": each.tick_s,
                "ticks": [packed(tick) for tick in each.ticks],
                "last": None if each.last is None else packed(each.last),
                "let_go_ts": each.let_go_ts,
                "seen": each.seen.snapshot(),
            }
            for (scope, hosts), each in self._streams.items()
        ]
        return {
            "streams": streams,
            "layouts": list(layouts),
            "measured": self._measured.snapshot(),
            "measured_ts": self._measured_ts,
            "length_s": self._length_s,
            "closed_ts": self._closed_ts,
            "waiting": [[one.begin_ts, encode(one.frame), one.live] for one in self._waiting],
            "set_back": self.set_back.count,
            "set_back_ts": self.set_back.ts,
            "places": self.places.snapshot(),
        }

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        layouts = [read_layout(packed, place) for packed in state["layouts"]]

        def tick(found: list[Any]) -> Tick:
            ts, layout, values = found
            return Tick(float(ts), layouts[layout], values)

        self._streams = {
            (each["scope"], tuple(each["hosts"])): Stream(
                float(each["heard_ts"]),
                float(each["tick_s"]),
                deque(map(tick, each["ticks"])),
                None if each["last"] is None else tick(each["last"]),
                float(each["let_go_ts"]),
                Seen(each["seen"]),
            )
            for each in state["streams"]
        }
        self._held_cells = sum(tick.values.size for each in self._streams.values() for tick in each.ticks)
        self._measured, self._measured_ts = Seen(state["measured"]), float(state["measured_ts"])
        self._length_s, self._closed_ts = float(state["length_s"]), float(state["closed_ts"])
        self._waiting = deque(
            _Measured(float(begin_ts), _frame(decoder, packed, place), bool(live))
            for begin_ts, packed, live in state["waiting"]
        )
        self.set_back = SetBack(int(state["set_back"]), float(state["set_back_ts"]), ordered=True)
        self.places.restore(state["places"])


def _divided(total: NDArray[np.float64], count: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return means; NaN without values."""
    means = np.full(total.size, np.nan)
    np.divide(total, count, out=means, where=count > 0.0)
    return means


def _frame(decoder: Decoder, packed: bytes, place: str) -> Frame:
    found = decoder.decode(packed, place)
    if not isinstance(found, Frame):
        raise RecordError(place, "waiting", "a frame", type(found).__name__)
    return found
