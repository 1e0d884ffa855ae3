"""The ticks of one host and scope: frames of counters that wait for their interval."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from laggard.pipeline.eventtime import Seen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from laggard.pipeline.records import Layout


class Tick(NamedTuple):
    """One frame of counters."""

    ts: float
    layout: Layout
    values: NDArray[np.float64]


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
