"""Counts the requests of a service by ticks of event time: all of them, and those of each cluster.

A request counts when it ends. Ends are not in order, since requests overlap and hosts publish in batches. So a tick
closes with the first end beyond it, and a later request counts in the tick that is open then. There is no waiting, and
no other clock than that of the requests. Without requests there are no ticks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.eventtime import SET_BACK_S, SetBack
from laggard.pipeline.core.records import UNNUMBERED, Frame, make_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.eventtime import Arrival

TICK_S: Final = 10.0

REQUEST: Final = "request"
"""The scope of frames whose rows are clusters of outlying requests."""

ALL: Final = "all"
"""The row of all requests of a tick; each other row is a cluster, by its number."""

FEATURES: Final = ("requests", "outliers", "lost_s")
"""The requests that ended in the tick, the outliers among them, and their lost time."""

MOST_CLUSTERS: Final = 256
"""The most clusters of one tick. Outliers of further ones count among all requests only."""


class Counted(NamedTuple):
    """Outlying requests of one cluster in one tick.

    Attributes:
        requests: the number of requests.
        lost_s: their lost time in total, in seconds.

    """

    requests: int = 0
    lost_s: float = 0.0


class Tick(NamedTuple):
    """A closed tick.

    Attributes:
        ts: its end, seconds since the Unix epoch.
        live: whether all of it is about the present.
        requests: the number of requests.
        outlying: the outliers by the number of their cluster.

    """

    ts: float
    live: bool
    requests: int
    outlying: Mapping[int, Counted]


@dataclass(slots=True, eq=False)
class Ticks:
    """The ticks of one service. Deterministic: the same requests in the same order give the same ticks.

    Attributes:
        newest_ts: the newest end of a request, seconds since the Unix epoch.
        set_back: counts late requests, which may come from a clock that was set back.
        missing_ratio: the largest `missing_ratio` of a request of the tick that closed last.

    """

    newest_ts: float = -math.inf
    set_back: SetBack = field(default_factory=SetBack)
    missing_ratio: float = 0.0
    _number: int = 0  # the number of the open tick: its begin in units of `TICK_S`
    _live: bool = True
    _requests: int = 0
    _outlying: dict[int, Counted] = field(default_factory=dict)
    _missing_ratio: float = 0.0  # of the open tick

    @property
    def earliest_ts(self) -> float:
        """The earliest end of a request that is not late, seconds since the Unix epoch."""
        return self.newest_ts - SET_BACK_S

    @property
    def is_open(self) -> bool:
        """Whether there are requests in no closed tick."""
        return self._requests > 0

    def classify(self, ts: float) -> Arrival:
        """Return whether a request that ended at this time counts.

        Returns:
            `new` if it counts; `late` if it is far behind the newest; `set_back` after a row of late ones, by
            which the newest must be wrong: the caller then starts from scratch.

        """
        if ts >= self.earliest_ts:
            self.set_back.restart()
            return "new"
        return self.set_back.late(ts, self.newest_ts)

    def hear(self, ts: float) -> Tick | None:
        """Note the end of a request, and return the tick that closes before it; None without one."""
        closed = None
        if ts > self.newest_ts:
            self.newest_ts = ts
            number = math.floor(ts / TICK_S)
            if number > self._number:
                closed = self.close()
                self._number = number
        return closed

    def count(self, *, live: bool, cluster: int, lost_s: float, missing_ratio: float = 0.0) -> None:
        """Count a request after `hear`; `cluster` is the number of an outlier's cluster, 0 for a normal request."""
        self._live = self._live and live
        self._missing_ratio = max(self._missing_ratio, missing_ratio)
        self._requests += 1
        if cluster and (cluster in self._outlying or len(self._outlying) < MOST_CLUSTERS):
            before = self._outlying.get(cluster, Counted())
            self._outlying[cluster] = Counted(before.requests + 1, before.lost_s + lost_s)

    def close(self) -> Tick | None:
        """Close and return the open tick; None if it is empty."""
        if not self._requests:
            return None
        tick = Tick((self._number + 1) * TICK_S, self._live, self._requests, self._outlying)
        self.missing_ratio = self._missing_ratio
        self._live, self._requests, self._outlying, self._missing_ratio = True, 0, {}, 0.0
        return tick

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "newest_ts": self.newest_ts,
            "set_back": self.set_back.count,
            "number": self._number,
            "live": self._live,
            "requests": self._requests,
            "outlying": [[number, *counted] for number, counted in self._outlying.items()],
            "missing_ratios": [self.missing_ratio, self._missing_ratio],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        self.newest_ts, self.set_back = float(state["newest_ts"]), SetBack(int(state["set_back"]))
        self._number = int(state["number"])
        self._live, self._requests = bool(state["live"]), int(state["requests"])
        self._outlying = {
            int(number): Counted(int(requests), float(lost_s)) for number, requests, lost_s in state["outlying"]
        }
        # Not in states of older versions.
        self.missing_ratio, self._missing_ratio = map(float, state.get("missing_ratios", (0.0, 0.0)))


def frame_of(service: str, tick: Tick, names: Mapping[int, str]) -> Frame:
    """Return a tick as a frame, with a row for all requests and one for each of its clusters, by number.

    Args:
        service: the service.
        tick: the tick.
        names: the names of clusters by number.

    """
    numbers = sorted(tick.outlying)
    rows = [str(number) for number in numbers]
    layout = make_layout([ALL, *rows], [ALL, *(names.get(number, str(number)) for number in numbers)], FEATURES)
    outlying = [tick.outlying[number] for number in numbers]
    found = sum(each.requests for each in outlying), sum(each.lost_s for each in outlying)
    values = np.array([[tick.requests, *found], *([each.requests, *each] for each in outlying)], np.float64)
    values.setflags(write=False)
    return Frame("service", service, REQUEST, tick.ts, UNNUMBERED, layout, values)
