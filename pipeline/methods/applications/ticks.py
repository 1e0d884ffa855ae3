"""The ticks of one host and scope: frames of counters that wait for their interval."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from laggard.pipeline.core.eventtime import Seen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout


class Tick(NamedTuple):
    """One frame of counters."""

    ts: float
    layout: Layout
    values: NDArray[np.float64]


@dataclass(slots=True, eq=False)
class Stream:
    """The ticks of one host and scope.

    Attributes:
        newest_ts: the time of the tick that arrived last.
        tick_s: the time between the last two ticks that arrived in order; 0 before there are two.
        ticks: the ticks in no closed interval, in the order of their times.
        last: the newest tick before them.
        let_go_ts: the time of the newest tick that was dropped without an interval.
        seen: the last ticks, to detect duplicates.

    """

    newest_ts: float = -math.inf
    tick_s: float = 0.0
    ticks: deque[Tick] = field(default_factory=deque)
    last: Tick | None = None
    let_go_ts: float = -math.inf
    seen: Seen = field(default_factory=Seen)

    def let_go(self) -> None:
        """Drop the oldest tick."""
        self.last = self.ticks.popleft()
        self.let_go_ts = self.last.ts
