"""What is slow right now, tick by tick: follows the input on a bus without being a member of any group."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

from laggard.pipeline.records import Frame
from laggard.pipeline.series import Series, value_of
from laggard.pipeline.why import answer, blamed_stream

if TYPE_CHECKING:
    from laggard.pipeline.why import Answer, History

KEPT_TICKS: Final = 48
"""So many frames are kept for time series."""

_MOST_BEHIND: Final = 5000  # records: beyond that a snapshot is nearer than what is left to be read


class Watch:
    """Follows one host.

    Parameters:
        history: where it is recorded.
        host: which one.

    """

    def __init__(self, history: History, host: str) -> None:
        self.host = host
        self._history = history
        self._reader = history.reader(host)
        self._frames: deque[Frame] = deque(maxlen=KEPT_TICKS)
        end = self._end()
        self._task = history.task_at(host, end)
        scope = self._task.wired.scopes[0]
        for _, record in self._reader.backwards(end):
            if isinstance(record, Frame) and record.scope == scope:
                self._frames.appendleft(record)
                if len(self._frames) == KEPT_TICKS:
                    break

    @property
    def ts(self) -> float:
        """The time of the newest frame, -inf before the first."""
        stream = blamed_stream(self._task, self.host)
        return -math.inf if stream is None else stream.ts

    def advance(self) -> bool:
        """Take what was appended since; gives whether there is a newer frame. Raises what the bus raises."""
        before, end = self.ts, self._end()
        if end - self._task.position > _MOST_BEHIND:
            self._task = self._history.task_at(self.host, end)
            self._frames.clear()
        for record in self._reader.stored(self._task.position, end):
            self._task.replay((record,))
            stream = blamed_stream(self._task, self.host)
            if stream is not None and stream.frame is not None and stream.offset == record.offset:
                self._frames.append(stream.frame)
        self._task.position = end
        return self.ts > before

    def answer(self, rows: int, features: int) -> Answer | None:
        """What is unusual in the newest frame, None where there is none."""
        return answer(self._task, self.host, None, rows, features)

    def series(self, asked: Answer, row: str, feature: str) -> Series:
        """The time series of a feature of a row over the last ticks."""
        points = tuple((frame.ts, value_of(frame, row, feature)) for frame in self._frames)
        first = self._frames[0].ts if self._frames else asked.frame.ts
        there = tuple(point for point in points if not math.isnan(point[1]))
        return Series(row, feature, asked.frame.ts, asked.tick_s, first, there)

    def _end(self) -> int:
        return self._reader.bus.bounds(self._reader.partition)[1]
