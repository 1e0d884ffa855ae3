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

Each application has bounds, two of them in `streams`. `Places` bounds its metrics. It has at most `MAX_STREAMS` streams
of ticks, one for each host and scope, and forgets each after an hour of silence. If more than `MAX_WAITING` performance
frames wait for ticks, the oldest interval closes without them. Ticks wait for the performance for five intervals, or a
minute if that is longer. Beyond `MAX_WAITING_CELLS` waiting values the longest stream drops its oldest ticks. Without a
measured performance only the newest tick of each stream stays.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.eventtime import Seen, SetBack
from laggard.pipeline.core.records import Decoder, Frame, RecordError, encode
from laggard.pipeline.methods.applications.metrics import Places
from laggard.pipeline.methods.applications.streams import Streams, divided
from laggard.pipeline.methods.applications.ticks import Tick

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from laggard.pipeline.core.eventtime import Arrival
    from laggard.pipeline.methods.applications.metrics import Metrics

PERFORMANCE: Final = "performance"
COUNTERS: Final = ("process", "host")
"""The scopes of frames that are joined; others do not count."""

GRACE_S: Final = 10.0
"""A host is awaited until others are ahead of it by one interval, or by this time in seconds if it is longer."""

LONGEST_GAP: Final = 3.0
"""The first performance frame after a pause of more than this many intervals only begins an interval: its performance
is hardly that of the whole pause."""

WAITING_INTERVALS: Final = 5.0
WAITING_S: Final = 60.0
"""Ticks wait for the performance for this many intervals, or for this time in seconds if it is longer."""

MAX_WAITING: Final = 4_096


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
        self._streams = Streams()
        self._measured = Seen()
        self._measured_ts = -math.inf  # the time of the newest performance frame
        self._length_s = 0.0  # the length of the newest interval
        self._closed_ts = -math.inf
        self._waiting: deque[_Measured] = deque()
        self.set_back = SetBack(ordered=True)

    @property
    def ts(self) -> float:
        """The time of the newest frame, seconds since the Unix epoch; -inf before the first."""
        return max(self._measured_ts, self._streams.newest_ts)

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
            `late` if it is no newer than the one before, or if the ticks of its interval were dropped. `set_back` if
            enough are late, and late enough, that the newest time must have been wrong: the caller starts from scratch.

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
        if self._streams.have_let_go(ts):
            return "late"
        self._waiting.append(_Measured(before, frame, live))
        return "new"

    def tick(self, frame: Frame) -> Arrival:
        """Add a frame of counters; it is late if its interval is closed."""
        stream = self._streams.stream(frame.scope, frame.hosts)
        if stream.seen.again(frame):
            return "duplicate"
        if frame.ts <= self._closed_ts:
            return "late"
        if math.isfinite(stream.newest_ts) and frame.ts > stream.newest_ts:
            stream.tick_s = frame.ts - stream.newest_ts
        stream.newest_ts = frame.ts
        # Without a performance frame so far, no interval can begin before the newest tick.
        waiting_s = 0.0 if math.isinf(self._measured_ts) else max(WAITING_S, WAITING_INTERVALS * self._length_s)
        self._streams.add(stream, Tick(frame.ts, frame.layout, frame.values), waiting_s)
        return "new"

    # Closing intervals.

    def closed(self) -> Iterator[Interval]:
        """Yield the intervals that can be closed now, the oldest first."""
        while self._waiting and (
            len(self._waiting) > MAX_WAITING
            or self._streams.are_past(self._waiting[0].frame.ts, max(self._length_s, GRACE_S))
        ):
            yield self._close()

    def rest(self) -> Iterator[Interval]:
        """Yield all other intervals: the input has ended."""
        while self._waiting:
            yield self._close()

    def _close(self) -> Interval:
        one = self._waiting.popleft()
        end_ts = self._closed_ts = one.frame.ts
        # Names first: the values added below need their places.
        means = self._streams.means(self.places, one.begin_ts, end_ts)
        values, counts = np.zeros(len(self.places)), np.zeros(len(self.places))
        for places, mean in means:
            there = np.isfinite(mean)
            values[places] += np.where(there, mean, 0.0)
            counts[places] += there
        values = divided(values, counts)
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
        self._streams.forget_old(end_ts)
        return interval

    # State.

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            **self._streams.snapshot(),
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
        self._streams.restore(state, place)
        self._measured, self._measured_ts = Seen(state["measured"]), float(state["measured_ts"])
        self._length_s, self._closed_ts = float(state["length_s"]), float(state["closed_ts"])
        self._waiting = deque(
            _Measured(float(begin_ts), _frame(decoder, packed, place), bool(live))
            for begin_ts, packed, live in state["waiting"]
        )
        self.set_back = SetBack(int(state["set_back"]), float(state["set_back_ts"]), ordered=True)
        self.places.restore(state["places"])


def _frame(decoder: Decoder, packed: bytes, place: str) -> Frame:
    found = decoder.decode(packed, place)
    if not isinstance(found, Frame):
        raise RecordError(place, "waiting", "a frame", type(found).__name__)
    return found
