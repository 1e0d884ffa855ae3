"""The ticks of one host and scope: frames of counters that wait for their interval."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from laggard.pipeline.records import UNNUMBERED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from laggard.pipeline.records import Frame, Layout

REMEMBERED: Final = 256
"""So many frames of a stream are remembered, to tell what comes again."""


class Tick(NamedTuple):
    """One frame of counters."""

    ts: float
    layout: Layout
    values: NDArray[np.float64]


class Seen:
    """The frames that came last: tells those that come again.

    A frame is known by time, number and names; one without a number by its values too.
    """

    def __init__(self, seen: list[list[float]] | tuple[()] = ()) -> None:
        self._order = deque((float(ts), int(sequence), int(content)) for ts, sequence, content in seen)
        self._known = set(self._order)

    def again(self, frame: Frame) -> bool:
        """Whether it was here; it is remembered where it was not."""
        content = crc32(frame.layout.packed)
        if frame.sequence == UNNUMBERED:
            content = crc32(frame.values.tobytes(), content)
        one = (frame.ts, frame.sequence, content)
        if one in self._known:
            return True
        self._known.add(one)
        self._order.append(one)
        if len(self._order) > REMEMBERED:
            self._known.discard(self._order.popleft())
        return False

    def snapshot(self) -> list[list[float]]:
        """What is remembered, the oldest first."""
        return [list(one) for one in self._order]


@dataclass(slots=True, eq=False)
class Stream:
    """The ticks of one host and scope.

    Attributes:
        heard_ts: the time of the one that came last.
        tick_s: the time between the two that came last; 0 before there are two.
        ticks: those that are in no closed interval, in the order of their times.
        last: the newest before them.
        let_go_ts: up to here they were let go, for nobody asked for them.
        seen: those that came last.

    """

    heard_ts: float = -math.inf
    tick_s: float = 0.0
    ticks: deque[Tick] = field(default_factory=deque)
    last: Tick | None = None
    let_go_ts: float = -math.inf
    seen: Seen = field(default_factory=Seen)

    def let_go(self) -> None:
        """Let the oldest tick go."""
        self.last = self.ticks.popleft()
        self.let_go_ts = self.last.ts
