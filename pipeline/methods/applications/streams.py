"""The ticks of the hosts of an application, by host and scope, until their interval closes."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.pipeline.core.eventtime import FORGOTTEN_S, Seen
from laggard.pipeline.core.records.layout import read_layout
from laggard.pipeline.methods.applications.ticks import Stream, Tick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout
    from laggard.pipeline.methods.applications.metrics import Places

    Floats = NDArray[np.float64]
    Means = list[tuple[NDArray[np.intp], Floats]]
    """The places of metrics, and the mean of each."""

STALE_TICKS: Final = 3.0
"""A host without a tick in an interval keeps its last values for this many of its ticks."""

MAX_STREAMS: Final = 4_096
MAX_WAITING_CELLS: Final = 4_000_000


class Streams:
    """The streams of ticks, with at most `MAX_STREAMS` of them and `MAX_WAITING_CELLS` waiting values."""

    def __init__(self) -> None:
        self._each: dict[tuple[str, tuple[str, ...]], Stream] = {}
        self._cells = 0  # the number of waiting values

    @property
    def newest_ts(self) -> float:
        """The time of the newest tick of any stream; -inf without any."""
        return max((each.newest_ts for each in self._each.values()), default=-math.inf)

    def stream(self, scope: str, hosts: tuple[str, ...]) -> Stream:
        """Return the stream of this scope and these hosts; a new one replaces the most silent one at the limit."""
        key = scope, hosts
        stream = self._each.get(key)
        if stream is None:
            while len(self._each) >= MAX_STREAMS:
                self._forget(min(self._each, key=lambda each: self._each[each].newest_ts))
            stream = self._each[key] = Stream()
        return stream

    def add(self, stream: Stream, tick: Tick, waiting_s: float) -> None:
        """Add a tick to a stream. Drop its ticks that have waited for longer, and those beyond the limit."""
        if not stream.ticks or stream.ticks[-1].ts <= tick.ts:
            stream.ticks.append(tick)
        else:
            insort(stream.ticks, tick, key=lambda each: each.ts)
        self._cells += tick.values.size
        while stream.ticks[0].ts < stream.newest_ts - waiting_s:
            self._cells -= stream.ticks[0].values.size
            stream.let_go()
        while self._cells > MAX_WAITING_CELLS:
            longest = max(self._each.values(), key=lambda each: len(each.ticks))
            if len(longest.ticks) <= 1:
                return  # the newest tick of each host stays, however wide
            self._cells -= longest.ticks[0].values.size
            longest.let_go()

    def have_let_go(self, ts: float) -> bool:
        """Return whether all streams have dropped their ticks up to this time; no without any stream."""
        return bool(self._each) and all(each.let_go_ts >= ts for each in self._each.values())

    def are_past(self, end_ts: float, active_s: float) -> bool:
        """Return whether every stream with a tick within `active_s` of the newest one is past this time."""
        event_ts = self.newest_ts
        if event_ts <= end_ts:
            return False
        lately = event_ts - active_s
        return all(each.newest_ts > end_ts or each.newest_ts < lately for each in self._each.values())

    def means(self, places: Places, begin_ts: float, end_ts: float) -> Means:
        """Remove the ticks up to the end of an interval, and return the means over those in it."""
        return [mean for each in self._each.values() for mean in self._means(each, places, begin_ts, end_ts)]

    def _means(self, stream: Stream, places: Places, begin_ts: float, end_ts: float) -> Means:
        sums: dict[bytes, tuple[Layout, Floats, Floats]] = {}
        fresh = stream.last
        while stream.ticks and stream.ticks[0].ts <= end_ts:
            fresh = stream.last = tick = stream.ticks.popleft()
            self._cells -= tick.values.size
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
            return _together(places, list(sums.values()))
        if fresh is None or end_ts - fresh.ts > STALE_TICKS * stream.tick_s:
            return []
        return [places.placed(fresh.layout, fresh.values.ravel())]

    def forget_old(self, ts: float) -> None:
        """Forget the streams that are silent for `FORGOTTEN_S` at this time."""
        for key in [key for key, each in self._each.items() if each.newest_ts < ts - FORGOTTEN_S]:
            self._forget(key)

    def _forget(self, key: tuple[str, tuple[str, ...]]) -> None:
        self._cells -= sum(tick.values.size for tick in self._each.pop(key).ticks)

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
            for (scope, hosts), each in self._each.items()
        ]
        return {"streams": streams, "layouts": list(layouts)}

    def restore(self, state: dict[str, Any], place: str) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        layouts = [read_layout(packed, place) for packed in state["layouts"]]

        def tick(found: list[Any]) -> Tick:
            ts, layout, values = found
            return Tick(float(ts), layouts[layout], values)

        self._each = {
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
        self._cells = sum(tick.values.size for each in self._each.values() for tick in each.ticks)


def _together(places: Places, sums: list[tuple[Layout, Floats, Floats]]) -> Means:
    """Return the means over ticks that may have different layouts."""
    if len(sums) == 1:
        layout, total, count = sums[0]
        return [places.placed(layout, divided(total, count))]
    placed = [(places.placed(layout, total), places.placed(layout, count)[1]) for layout, total, count in sums]
    size = len(places)
    totals, counts = np.zeros(size), np.zeros(size)
    for (at, total), count in placed:
        totals[at] += total
        counts[at] += count
    known = np.flatnonzero(counts)
    return [(known, totals[known] / counts[known])]


def divided(total: Floats, count: Floats) -> Floats:
    """Return means; NaN without values."""
    means = np.full(total.size, np.nan)
    np.divide(total, count, out=means, where=count > 0.0)
    return means
