"""What is worked out of requests for whoever looks at them; `method.looking` says by which operators."""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from laggard.operators.requests.results import Evidence, Traced
    from laggard.pipeline.requests.queries import Told

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

MOST_NORMAL: Final = 1_500
MOST_OUTLYING: Final = 1_000
"""So many requests are on a plane: time grows with their third power, 0.8 s of 1,800 and 3 s of 2,500."""

EVERY_S: Final = 30.0
"""While requests come, they are placed anew no more often."""

MOST_STATES: Final = 64
"""Those that take most time. What more of them there are counts together."""

MOST_PLANES: Final = 16

Way = Literal["isomap", "principal"]
Key = tuple[str, str]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Looking:
    """The operators' parts that this takes.

    Attributes:
        moments: means and spreads over requests; what it gives is for `evidence`.
        evidence: what sets some requests apart from normal ones, by the moments of both.
        isomap: places on a plane, of points of shape (points, features): slow.
        principal: the same, at once.
        threshold: the duration above which the fewest requests are called out of line wrongly, by their durations in
            seconds and by which are out of line.

    """

    moments: Callable[[Sequence[Traced]], Any]
    evidence: Callable[[Any, Any], Evidence]
    isomap: Callable[[Floats], Floats]
    principal: Callable[[Floats], Floats]
    threshold: Callable[[Floats, Mask], float]


class Drawn(NamedTuple):
    """Which requests are drawn: all that are out of line, and of the normal ones as many as there is room for.

    Attributes:
        keys: service and id of each, in the order of time.
        normal: how many normal ones there are, drawn or not.
        outlying: how many outlying ones, likewise.
        newest_ts: when the newest of all began, seconds since the Unix epoch; NaN where there is none.

    """

    keys: tuple[Key, ...]
    normal: int
    outlying: int
    newest_ts: float


class Plane(NamedTuple):
    """Requests on a plane.

    Attributes:
        drawn: which.
        places: of each, in seconds, shape (drawn, 2).
        way: how they were placed.

    """

    drawn: Drawn
    places: Floats
    way: Way


class _Made(NamedTuple):
    plane: Plane
    at_s: float


def choose(
    told: Told, keys: Sequence[Key], most_normal: int = MOST_NORMAL, most_outlying: int = MOST_OUTLYING
) -> Drawn:
    """Those of some requests that are drawn: of more than there is room for, normal ones evenly, the newest outliers.

    Args:
        told: what is known of them.
        keys: which.
        most_normal: so many of the normal ones.
        most_outlying: so many of the others.

    """
    ordered = sorted(keys, key=lambda key: (told.took[key].ts, key))
    normal = [key for key in ordered if key not in told.outputs]
    outlying = [key for key in ordered if key in told.outputs]
    every = np.linspace(0, len(normal) - 1, min(len(normal), most_normal)).round().astype(int)
    chosen = {normal[place] for place in every} | set(outlying[-most_outlying:])
    newest_ts = told.took[ordered[-1]].ts if ordered else math.nan
    return Drawn(tuple(key for key in ordered if key in chosen), len(normal), len(outlying), newest_ts)


def points(told: Told, keys: Sequence[Key]) -> Floats:
    """The seconds of each request in each state, shape (requests, states); where no states are known, the duration."""
    sums: dict[str, float] = {}
    for key in keys:
        for state, time_s in told.took[key].times_s.items():
            sums[state] = sums.get(state, 0.0) + time_s
    ranked = sorted(sums, key=lambda state: (-sums[state], state))
    places = {state: min(place, MOST_STATES - 1) for place, state in enumerate(ranked)}
    if not places:
        return np.array([[told.took[key].duration_s] for key in keys]).reshape(len(keys), 1)
    found = np.zeros((len(keys), min(len(places), MOST_STATES)))
    for number, key in enumerate(keys):
        for state, time_s in told.took[key].times_s.items():
            found[number, places[state]] += time_s
    return found


class Planes:
    """Places requests on a plane: at once by principal components, then by Isomap, in a thread, one after the other.

    Parameters:
        looking: how.
        clock: seconds.

    """

    def __init__(self, looking: Looking, clock: Callable[[], float] = time.monotonic) -> None:
        self._looking, self._clock = looking, clock
        self._made: dict[Hashable, _Made] = {}  # the one asked for least recently first
        self._lock = threading.Lock()
        self._worker: threading.Thread | None = None

    def plane(self, about: Hashable, told: Told, keys: Sequence[Key]) -> tuple[Plane, bool]:
        """Requests on a plane, and whether a better or newer one is being made: who asks again will get it.

        Args:
            about: what is looked at, by its name: the plane of an earlier call with the same serves for a while.
            told: what is known of requests.
            keys: which of them.

        """
        with self._lock:
            made = self._made.pop(about, None)
            if made is not None:
                self._made[about] = made
                if made.plane.drawn[1:] == _summed(told, keys) or self._clock() - made.at_s < EVERY_S:
                    return made.plane, False
        drawn = choose(told, keys)
        if not drawn.keys:
            return Plane(drawn, np.zeros((0, 2)), "isomap"), False
        where = points(told, drawn.keys)
        with self._lock:
            if self._worker is None:
                self._worker = threading.Thread(
                    target=self._make, args=(about, drawn, where), name="requests-plane", daemon=True
                )
                self._worker.start()
        if made is not None:
            return made.plane, True
        return Plane(drawn, self._looking.principal(where), "principal"), True

    def _make(self, about: Hashable, drawn: Drawn, where: Floats) -> None:
        """In the thread."""
        way: Way = "isomap"
        try:
            places = self._looking.isomap(where)
        except Exception as error:  # noqa: BLE001 - what is drawn at once is still there
            _log.warning("requests cannot be placed by Isomap: %r", error)
            places, way = self._looking.principal(where), "principal"
        with self._lock:
            self._made.pop(about, None)
            self._made[about] = _Made(Plane(drawn, places, way), self._clock())
            while len(self._made) > MOST_PLANES:
                del self._made[next(iter(self._made))]
            self._worker = None


def _summed(told: Told, keys: Sequence[Key]) -> tuple[int, int, float]:
    outlying = sum(key in told.outputs for key in keys)
    return len(keys) - outlying, outlying, max((told.took[key].ts for key in keys), default=math.nan)


class Histogram(NamedTuple):
    """How many requests took how long.

    Attributes:
        edges_s: of the bins, ascending, one more than there are bins; their logarithms are evenly spaced.
        normal: requests in each bin.
        outlying: likewise.
        threshold_s: see `Looking.threshold`; NaN where no duration tells the two apart.

    """

    edges_s: list[float]
    normal: list[int]
    outlying: list[int]
    threshold_s: float


def histogram(durations_s: Floats, outlying: Mask, looking: Looking, bins: int) -> Histogram:
    """The durations of requests, of which there is at least one, in so many bins. None is below a microsecond.

    Args:
        durations_s: of each.
        outlying: which are out of line.
        looking: finds the threshold.
        bins: how many.

    """
    shown = np.maximum(durations_s, 1e-6)
    low, high = float(shown.min()), float(shown.max())
    if high < 1.5 * low:  # all alike: a bin is not to be narrower than what differs by chance
        low, high = low / 1.25, high * 1.25
    edges = np.geomspace(low, high, bins + 1)
    edges[0], edges[-1] = low, high
    threshold_s = looking.threshold(durations_s, outlying)
    return Histogram(
        edges.tolist(),
        np.histogram(shown[~outlying], edges)[0].tolist(),
        np.histogram(shown[outlying], edges)[0].tolist(),
        threshold_s if outlying.any() and math.isfinite(threshold_s) else math.nan,
    )
