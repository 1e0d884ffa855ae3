"""Joins the frames of a pool from several hosts into ticks: each tick is one frame with all members.

The input is the records of one pool, in one order. A frame without a host has the members of all hosts; a frame with a
host has the members of that host, its *source*. A tick has one frame of each source, at the time of the newest of them,
so hosts need not sample at the same moment. If a source has several frames in a tick, the newest counts. Frames of one
source and time are parts of one frame; the next frame of the source shows that it is complete. The parts of a
source that never sends any are not waited for, nor is a source without members before its first one.

The records alone decide when a tick closes, by the times of the hosts: once every active source has a new frame. The
next frame of an active source is overdue by at most `GRACE_S`. So a host that dies delays the others once, by a tick
and this grace, and its members are absent from then on. The price: the clocks of hosts must agree within that grace.
Frames that are older than the newest closed tick by the grace or more are late.

Bounds, for each pool: `MAX_SOURCES` sources, each forgotten after an hour of silence; `MAX_WAITING_CELLS` waiting
values, beyond which the tick closes without the missing sources. The cost of a frame does not depend on the number of
sources.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.eventtime import FORGOTTEN_S, Seen, SetBack
from laggard.pipeline.core.records import Layout, make_layout
from laggard.pipeline.core.records.layout import read_layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.core.eventtime import Arrival
    from laggard.pipeline.core.records import Frame

GRACE_S: Final = 10.0
"""The time by which the next frame of a source may be overdue before ticks close without it, in seconds."""

SURE_TICKS: Final = 3
"""After this many ticks in a row in one frame each, the next one of the source is expected in one frame, too."""

MAX_SOURCES: Final = 4_096
MAX_WAITING_CELLS: Final = 4_000_000
FRAME_CELLS: Final = 100
"""The overhead of a waiting frame, in values."""

MAX_TOGETHER: Final = 256
"""The most combinations of layouts that are remembered."""


class Part(NamedTuple):
    """The names and values of one frame."""

    layout: Layout
    values: NDArray[np.float64]


class Tick(NamedTuple):
    """The frames of one source at one time; or, once it has closed, of all sources.

    Attributes:
        ts: its time, seconds since the Unix epoch.
        live: whether all of it is about the present.
        parts: its frames; those of a source in the order of their arrival.

    """

    ts: float
    live: bool
    parts: tuple[Part, ...]


@dataclass(slots=True, eq=False)
class Source:
    """The frames of one host's members, or of those of all hosts.

    Attributes:
        newest_ts: the time of the newest frame.
        tick_s: the time between the newest two frames, but at most twice the one before. 0 before there are two.
        single: the number of ticks in a row that came in one frame each, up to `SURE_TICKS`.
        waiting: the ticks of the source that are in no closed tick, in the order of time.
        seen: the last frames, to detect duplicates.

    """

    newest_ts: float = -math.inf
    tick_s: float = 0.0
    single: int = 0
    waiting: deque[Tick] = field(default_factory=deque)
    seen: Seen = field(default_factory=Seen)

    @property
    def is_ready(self) -> bool:
        """Whether a complete tick of it waits."""
        return len(self.waiting) > 1 or (bool(self.waiting) and self.single >= SURE_TICKS)

    def is_awaited(self, ts: float) -> bool:
        """Return whether a frame of it is still expected, by the time of the newest frame of all sources."""
        return ts <= self.newest_ts + self.tick_s + GRACE_S

    def hear(self, ts: float) -> None:
        """Note the time of a newer frame."""
        if self.waiting:
            self.single = min(self.single + 1, SURE_TICKS) if len(self.waiting[-1].parts) == 1 else 0
        if math.isfinite(self.newest_ts):
            gap_s = ts - self.newest_ts
            self.tick_s = min(gap_s, 2.0 * self.tick_s) if self.tick_s else gap_s
        self.newest_ts = ts


class Ticks:
    """The ticks of one pool. Deterministic: the same frames in the same order give the same ticks.

    Attributes:
        set_back: counts late frames that suggest that the clocks of producers were set back.

    """

    def __init__(self) -> None:
        self._sources: dict[tuple[str, ...], Source] = {}
        self._unready: dict[tuple[str, ...], None] = {}  # the sources without a complete waiting tick
        self._heard_ts = -math.inf  # the time of the newest frame of all
        self._closed_ts = -math.inf
        self._held_cells = 0
        self.set_back = SetBack()

    def earliest_ts(self, frame: Frame) -> float:
        """Return the time after which a frame of this source is not late, seconds since the Unix epoch."""
        source = self._sources.get(frame.hosts)
        return max(self._closed_ts - GRACE_S, -math.inf if source is None else source.newest_ts)

    # Incoming frames.

    def take(self, frame: Frame, *, live: bool) -> Arrival:
        """Add a frame.

        Returns:
            `duplicate` if it was there before. `late` if it completes a closed tick, or is older than the newest frame
            of its source, or than the newest closed tick by the grace or more. `set_back` after a row of late ones: the
            newest time must have been wrong, and the caller starts from scratch. Otherwise `new`.

        """
        source = self._sources.get(frame.hosts)
        if source is None and not frame.layout.rows:
            return "new"  # a host that never had a member is not waited for
        if source is None:
            while len(self._sources) >= MAX_SOURCES:
                self._forget(min(self._sources, key=lambda each: self._sources[each].newest_ts))
            source = self._sources[frame.hosts] = Source()
            self._unready[frame.hosts] = None
        if source.seen.again(frame):
            return "duplicate"
        if self._is_late(source, frame.ts):
            return self.set_back.late(frame.ts, max(source.newest_ts, self._closed_ts))
        self.set_back.restart()
        part = Part(frame.layout, frame.values)
        if frame.ts == source.newest_ts:
            last = source.waiting.pop()
            source.waiting.append(Tick(last.ts, last.live and live, (*last.parts, part)))
        else:
            source.hear(frame.ts)
            self._heard_ts = max(self._heard_ts, frame.ts)
            if frame.ts <= self._closed_ts:
                return "new"  # its tick has closed: it only shows that its source is there
            source.waiting.append(Tick(frame.ts, live, (part,)))
        self._held_cells += _cells(part)
        if source.is_ready:
            self._unready.pop(frame.hosts, None)
        return "new"

    def _is_late(self, source: Source, ts: float) -> bool:
        if ts == source.newest_ts and not source.waiting:
            source.single = 0  # it sends parts after all
            return True
        return ts < source.newest_ts or ts <= self._closed_ts - GRACE_S

    # Closing ticks.

    def closed(self) -> Iterator[Tick]:
        """Yield the ticks that can be closed now, the oldest first."""
        while self._may_close():
            yield self._close()

    def rest(self) -> Iterator[Tick]:
        """Yield all other ticks: the input has ended."""
        while any(each.waiting for each in self._sources.values()):
            yield self._close()

    def _may_close(self) -> bool:
        if len(self._unready) == len(self._sources):
            return False
        awaited = (key for key in self._unready if self._sources[key].is_awaited(self._heard_ts))
        return next(awaited, None) is None or self._held_cells > MAX_WAITING_CELLS

    def _close(self) -> Tick:
        there = {key: each for key, each in self._sources.items() if each.waiting}
        ts = self._closed_ts = max(each.waiting[0].ts for each in there.values())
        ticks = [self._taken(each, ts) for each in there.values()]
        self._unready |= {key: None for key, each in there.items() if not each.is_ready}
        for key in [key for key, each in self._sources.items() if each.newest_ts < ts - FORGOTTEN_S]:
            self._forget(key)
        return Tick(
            ts,
            all(each.live for each in ticks),
            tuple(part for each in ticks for part in each.parts),
        )

    def _taken(self, source: Source, ts: float) -> Tick:
        """Remove and return the newest waiting tick up to a time, of which there is at least one; drop older ones."""
        while True:
            tick = source.waiting.popleft()
            self._held_cells -= sum(map(_cells, tick.parts))
            if not source.waiting or source.waiting[0].ts > ts:
                return tick

    def _forget(self, key: tuple[str, ...]) -> None:
        self._held_cells -= sum(_cells(part) for tick in self._sources.pop(key).waiting for part in tick.parts)
        self._unready.pop(key, None)

    # State.

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        layouts: dict[bytes, int] = {}

        def packed(tick: Tick) -> list[Any]:
            parts = [[layouts.setdefault(part.layout.packed, len(layouts)), part.values] for part in tick.parts]
            return [tick.ts, tick.live, parts]

        sources = [
            {
                "hosts": list(hosts),
                "heard_ts": each.newest_ts,
                "tick_s": each.tick_s,
                "single": each.single,
                "waiting": [packed(tick) for tick in each.waiting],
                "seen": each.seen.snapshot(),
            }
            for hosts, each in self._sources.items()
        ]
        return {
            "sources": sources,
            "layouts": list(layouts),
            "closed_ts": self._closed_ts,
            "set_back": self.set_back.count,
        }

    def restore(self, state: dict[str, Any], place: str) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        layouts = [read_layout(packed, place) for packed in state["layouts"]]

        def unpacked(found: list[Any]) -> Tick:
            ts, live, parts = found
            return Tick(float(ts), bool(live), tuple(Part(layouts[at], values) for at, values in parts))

        self._sources = {
            tuple(each["hosts"]): Source(
                float(each["heard_ts"]),
                float(each["tick_s"]),
                int(each["single"]),
                deque(map(unpacked, each["waiting"])),
                Seen(each["seen"]),
            )
            for each in state["sources"]
        }
        waiting = (tick for each in self._sources.values() for tick in each.waiting)
        self._held_cells = sum(_cells(part) for each in waiting for part in each.parts)
        self._unready = {key: None for key, each in self._sources.items() if not each.is_ready}
        self._heard_ts = max((each.newest_ts for each in self._sources.values()), default=-math.inf)
        self._closed_ts, self.set_back = float(state["closed_ts"]), SetBack(int(state["set_back"]))


def _cells(part: Part) -> int:
    return part.values.size + FRAME_CELLS


class _Places(NamedTuple):
    """The joining of several layouts.

    Attributes:
        layout: the joint layout.
        cells: the places of the rows and columns of each layout in it.

    """

    layout: Layout
    cells: tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]


class Together:
    """Joins the parts of a tick into one matrix, and remembers how while names do not change."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[bytes, ...], _Places] = OrderedDict()

    def joined(self, parts: Sequence[Part]) -> Part:
        """Return all rows and features of the parts; NaN without a value. Of several values of a cell, the last counts.

        Raises:
            RecordError: there are too many rows, features or names for one frame.

        """
        if len(parts) == 1:
            return parts[0]
        names = tuple(part.layout.packed for part in parts)
        places = self._known.get(names)
        if places is None:
            places = self._known[names] = _placed([part.layout for part in parts])
            if len(self._known) > MAX_TOGETHER:
                self._known.popitem(last=False)
        values = np.full((len(places.layout.rows), len(places.layout.features)), np.nan)
        for part, (rows, columns) in zip(parts, places.cells, strict=True):
            cells = np.ix_(rows, columns)
            values[cells] = np.where(np.isnan(part.values), values[cells], part.values)
        values.setflags(write=False)
        return Part(places.layout, values)


def _placed(layouts: Sequence[Layout]) -> _Places:
    rows: dict[str, tuple[str, str]] = {}
    for each in layouts:
        rows |= {
            row: (name, command)
            for row, name, command in zip(each.rows, each.names, each.commands or ("",) * len(each.rows), strict=True)
        }
    features = dict.fromkeys(feature for each in layouts for feature in each.features)
    commands = [command for _, command in rows.values()]
    layout = make_layout(rows, [name for name, _ in rows.values()], features, commands if any(commands) else ())
    row_of = {row: at for at, row in enumerate(rows)}
    column_of = {feature: at for at, feature in enumerate(features)}
    cells = (
        (
            np.array([row_of[row] for row in each.rows], np.intp),
            np.array([column_of[feature] for feature in each.features], np.intp),
        )
        for each in layouts
    )
    return _Places(layout, tuple(cells))
