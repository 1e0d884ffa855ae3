"""Current answers, tick by tick, from the input on a bus without membership in any group."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records import Frame
from laggard.pipeline.explaining.short_lived import came_and_went, matter, seen_s
from laggard.pipeline.history.answers import answer, blamed_stream
from laggard.pipeline.history.series import Series, began, longest_lull_s, value_of
from laggard.pipeline.scoring.scopes import HOST

if TYPE_CHECKING:
    from laggard.pipeline.history.answers import Answer
    from laggard.pipeline.history.why import History

CACHED_FRAMES: Final = 48
"""The number of frames in memory of each scope, for time series."""

_MOST_BEHIND: Final = 5000  # records: beyond, a snapshot is closer to the end than the task


class Watch:
    """A task that follows one host.

    Parameters:
        history: the history of the host.
        host: the host.

    """

    def __init__(self, history: History, host: str) -> None:
        self.host = host
        self._history = history
        self._reader = history.reader(host)
        end = self._end()
        self._task = history.task_at(host, end)
        self._frames: defaultdict[str, deque[Frame]] = defaultdict(partial(deque, maxlen=CACHED_FRAMES))
        for _, record in self._reader.backwards(end):
            if isinstance(record, Frame) and self._task.wired.takes(record.scope):
                cached = self._frames[record.scope]
                if len(cached) < CACHED_FRAMES:
                    cached.appendleft(record)
                elif record.scope != HOST:
                    break

    @property
    def ts(self) -> float:
        """The time of the newest frame, -inf before the first."""
        stream = blamed_stream(self._task, self.host)
        return -math.inf if stream is None else stream.ts

    def advance(self) -> bool:
        """Process later records, and return whether there is a newer frame. Raises the errors of the bus."""
        before, end = self.ts, self._end()
        if end - self._task.position > _MOST_BEHIND:
            self._task = self._history.task_at(self.host, end)
            for cached in self._frames.values():
                cached.clear()
        for record in self._reader.stored(self._task.position, end):
            former = self._newest()
            self._task.replay((record,))
            for scope, frame in self._newest().items():
                if frame is not None and frame is not former.get(scope):
                    self._frames[scope].append(frame)
        self._task.position = end
        return self.ts > before

    def _newest(self) -> dict[str, Frame | None]:
        """Return the newest frame of each scope."""
        keyed = self._task.states.get(self.host)
        return {} if keyed is None else {scope: stream.frame for scope, stream in keyed.streams.items()}

    def answer(self, rows: int, features: int) -> Answer | None:
        """Return the answer for the newest frame; None without one."""
        found = answer(self._task, self.host, None, rows, features)
        if found is None:
            return None
        if matter(found.verdict, found.host_ranking):
            recent = found.frame.ts - seen_s(found.tick_s)
            frames = [each for each in self._frames[found.frame.scope] if each.ts >= recent]
            found = replace(found, short_lived=came_and_went(frames))
        about = found.begins
        if about is None:
            return found
        points = self._points(about.row, about.feature.feature, about.scope)
        first = began(reversed(points), about.feature, found.tick_s)
        # An onset before the frames in memory is not searched for: this runs at each tick.
        before = bool(points) and first - points[0][0] <= longest_lull_s(found.tick_s)
        return replace(found, began=first, began_before=before)

    def series(self, asked: Answer, row: str, feature: str, scope: str) -> Series:
        """Return the time series of a feature of a row over the last ticks."""
        points = self._points(row, feature, scope)
        first = points[0][0] if points else asked.frame.ts
        there = tuple(point for point in points if not math.isnan(point[1]))
        return Series(row, feature, asked.frame.ts, asked.tick_s, first, there)

    def _points(self, row: str, feature: str, scope: str) -> list[tuple[float, float]]:
        return [(frame.ts, value_of(frame, row, feature)) for frame in self._frames[scope]]

    def _end(self) -> int:
        return self._reader.bus.bounds(self._reader.partition)[1]
