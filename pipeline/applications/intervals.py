"""Joins the performance of an application with the counters of its hosts, interval by interval (S2, section 2.1).

The input is what is on the topic for one application, in one order: performance frames, and frames of hosts' counters
(ticks). An interval begins at one performance frame, exclusive, and ends at the next one, inclusive. Out comes, for
each interval, the performance and one vector of all metrics: the mean of each over the ticks in the interval. A host
without a tick in it keeps its last values for three of its ticks; what is not known then is NaN.

When an interval closes follows from the records alone, by the hosts' own times: once every host that was heard lately
is past its end, which is one that has told a tick within an interval, or ten seconds, of the newest tick of any. So a
host that dies holds the others up by that much, once. The time of performance frames does not count: they may be there
long before the counters are, for these take a detour through the worker. The price: hosts' clocks have to agree to
within that grace. What comes for an interval that is closed is late.

Bounds, for each application: so many metrics as `Places` says;
`MAX_STREAMS` streams of ticks (a host has one for each scope), each forgotten when silent for an hour; `MAX_WAITING`
performance frames that wait for ticks, then the oldest goes on without; ticks that wait for performance for five
intervals, or a minute, and for `MAX_HELD_CELLS` values in all, then the oldest are let go: of an application whose
performance nobody measures only the newest tick is kept.
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
    from laggard.pipeline.eventtime import Judged

PERFORMANCE: Final = "performance"
COUNTERS: Final = ("process", "host")
"""The scopes of frames that are joined. Others say something else of an application."""

GRACE_S: Final = 10.0
"""A host is waited for until others are ahead of it by one interval, or so long where that is longer."""

KEPT_TICKS: Final = 3.0
"""A host that has no tick in an interval keeps its last values for so many of its ticks."""

LONGEST_GAP: Final = 3.0
"""Where performance frames come after a pause of more than so many intervals, the first of them only begins one: its
performance is hardly that of the whole pause."""

HELD_INTERVALS: Final = 5.0
HELD_S: Final = 60.0
"""Ticks wait so many intervals for the performance, or so long where that is longer."""

MAX_STREAMS: Final = 4_096
MAX_WAITING: Final = 4_096
MAX_HELD_CELLS: Final = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """One interval that is closed.

    Attributes:
        begin_ts: seconds since the Unix epoch, exclusive.
        ts: its end, inclusive.
        performance: what was measured of the application, by feature; NaN where nothing was, such as a response time
            without any request.
        metrics: the names of the values.
        values: float64, shape (metrics,): each metric's mean; NaN where it is not known.
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
        places: the metrics, and where the values of each are.
        set_back: counts the late performance frames that look as if their producer's clock had been set back.

    """

    def __init__(self) -> None:
        self.places = Places()
        self._streams: dict[tuple[str, tuple[str, ...]], Stream] = {}
        self._measured = Seen()
        self._measured_ts = -math.inf  # of the newest performance frame
        self._length_s = 0.0  # of the newest interval
        self._closed_ts = -math.inf
        self._waiting: deque[_Measured] = deque()
        self._held_cells = 0
        self.set_back = SetBack(ordered=True)

    @property
    def ts(self) -> float:
        """The newest time that was heard, seconds since the Unix epoch; -inf before there is one."""
        return max(self._measured_ts, max((each.heard_ts for each in self._streams.values()), default=-math.inf))

    @property
    def closed_ts(self) -> float:
        """The end of the newest closed interval; -inf before there is one."""
        return self._closed_ts

    @property
    def measured_ts(self) -> float:
        """The time of the newest performance frame; -inf before there is one."""
        return self._measured_ts

    @property
    def length_s(self) -> float:
        """The time between the newest two performance frames; 0 before there are two."""
        return self._length_s

    # Frames that come.

    def measure(self, frame: Frame, *, live: bool) -> Judged:
        """Take a performance frame.

        Returns:
            `late` where it is no newer than the one before, or where the ticks of its interval were let go; `set_back`
            where so many are late, and by so much, that the newest must have been wrong: whoever asks begins anew.

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

    def tick(self, frame: Frame) -> Judged:
        """Take a frame of counters; late is one that belongs to an interval which is closed."""
        key = frame.scope, frame.hosts
        stream = self._streams.get(key)
        if stream is None:
            while len(self._streams) >= MAX_STREAMS:
                self._forget(min(self._streams, key=lambda each: self._streams[each].heard_ts))
            stream = self._streams[key] = Stream()
        if stream.seen.again(frame):
            return "duplicate"
        if frame.ts <= self._closed_ts:
            return "late"
        if math.isfinite(stream.heard_ts) and frame.ts > stream.heard_ts:
            stream.tick_s = frame.ts - stream.heard_ts
        stream.heard_ts = frame.ts
        tick = Tick(frame.ts, frame.layout, frame.values)
        if not stream.ticks or stream.ticks[-1].ts <= tick.ts:
            stream.ticks.append(tick)
        else:
            insort(stream.ticks, tick, key=lambda each: each.ts)
        self._held_cells += tick.values.size
        self._let_go(stream)
        return "new"

    def _let_go(self, stream: Stream) -> None:
        """Let ticks go that nobody has asked for in time, or that are too many."""
        if math.isinf(self._measured_ts):
            oldest = stream.heard_ts  # no interval can begin before the next performance frame
        else:
            oldest = stream.heard_ts - max(HELD_S, HELD_INTERVALS * self._length_s)
        while stream.ticks[0].ts < oldest:
            self._held_cells -= stream.ticks[0].values.size
            stream.let_go()
        while self._held_cells > MAX_HELD_CELLS:
            longest = max(self._streams.values(), key=lambda each: len(each.ticks))
            if len(longest.ticks) <= 1:
                return  # each host's newest is kept, however wide
            self._held_cells -= longest.ticks[0].values.size
            longest.let_go()

    def _forget(self, key: tuple[str, tuple[str, ...]]) -> None:
        self._held_cells -= sum(tick.values.size for tick in self._streams.pop(key).ticks)

    # Intervals that close.

    def closed(self) -> Iterator[Interval]:
        """The intervals that can be closed by now, the oldest first."""
        while self._waiting and (self._is_past(self._waiting[0].frame.ts) or len(self._waiting) > MAX_WAITING):
            yield self._close()

    def rest(self) -> Iterator[Interval]:
        """All others: nothing will come any more."""
        while self._waiting:
            yield self._close()

    def _is_past(self, end_ts: float) -> bool:
        """Whether every host that was heard lately is past this time."""
        event_ts = max((each.heard_ts for each in self._streams.values()), default=-math.inf)
        if event_ts <= end_ts:
            return False
        lately = event_ts - max(self._length_s, GRACE_S)
        return all(each.heard_ts > end_ts or each.heard_ts < lately for each in self._streams.values())

    def _close(self) -> Interval:
        one = self._waiting.popleft()
        end_ts = self._closed_ts = one.frame.ts
        # Names first: what is added below has to have a place.
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
        """A stream's mean over its ticks in an interval, with the places of its metrics: one for each layout."""
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
            with np.errstate(over="ignore"):  # what is infinite then is left out
                total += np.where(there, flat, 0.0)
            count += there
        if sums:
            return self._together(list(sums.values()))
        if fresh is None or end_ts - fresh.ts > KEPT_TICKS * stream.tick_s:
            return []
        return [self.places.placed(fresh.layout, fresh.values.ravel())]

    def _together(
        self, sums: list[tuple[Layout, NDArray[np.float64], NDArray[np.float64]]]
    ) -> list[tuple[NDArray[np.intp], NDArray[np.float64]]]:
        """Means over ticks that may have had different rows."""
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
        for key in [key for key, each in self._streams.items() if each.heard_ts < ts - FORGOTTEN_S]:
            self._forget(key)

    # State.

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        layouts: dict[bytes, int] = {}

        def packed(tick: Tick) -> list[Any]:
            return [tick.ts, layouts.setdefault(tick.layout.packed, len(layouts)), tick.values]

        streams = [
            {
                "scope": scope,
                "hosts": list(hosts),
                "heard_ts": each.heard_ts,
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
        """Take over a state that `snapshot` gave. Raises `ValueError` or `KeyError` naming what does not fit."""
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
    """Means; NaN of nothing."""
    means = np.full(total.size, np.nan)
    np.divide(total, count, out=means, where=count > 0.0)
    return means


def _frame(decoder: Decoder, packed: bytes, place: str) -> Frame:
    found = decoder.decode(packed, place)
    if not isinstance(found, Frame):
        raise RecordError(place, "waiting", "a frame", type(found).__name__)
    return found
