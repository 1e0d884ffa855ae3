"""The analysis of requests for pages: planes and histograms. `method.analysis_functions` selects the operators."""

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
    from laggard.pipeline.methods.requests.queries import RequestsFound

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

MOST_NORMAL: Final = 1_500
MOST_OUTLYING: Final = 1_000
"""The most requests on a plane: its time grows with their third power, 0.8 s for 1,800 and 3 s for 2,500."""

EVERY_S: Final = 30.0
"""The least time between two planes of a query while requests come, in seconds."""

MOST_STATES: Final = 64
"""The most states of a point, those with most time. Further ones count as one together."""

MOST_PLANES: Final = 16

Way = Literal["isomap", "principal"]
Key = tuple[str, str]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AnalysisFunctions:
    """The functions of operators that the analysis uses.

    Attributes:
        moments: returns means and spreads over requests, for `evidence`.
        evidence: returns the differences of some requests from normal ones, by the moments of both.
        isomap: returns places on a plane for points of shape (points, features); slow.
        principal: the same, but fast.
        threshold: returns the duration that separates outliers from normal requests with the fewest errors, from their
            durations in seconds and a mask of the outliers.

    """

    moments: Callable[[Sequence[Traced]], Any]
    evidence: Callable[[Any, Any], Evidence]
    isomap: Callable[[Floats], Floats]
    principal: Callable[[Floats], Floats]
    threshold: Callable[[Floats, Mask], float]


class Drawn(NamedTuple):
    """The requests that are drawn: outliers and normal ones, within the limits of both.

    Attributes:
        keys: service and id of each, in the order of time.
        normal: the number of normal requests, drawn or not.
        outlying: the number of outliers, likewise.
        newest_ts: the begin of the newest of all, seconds since the Unix epoch; NaN without any.

    """

    keys: tuple[Key, ...]
    normal: int
    outlying: int
    newest_ts: float


class Plane(NamedTuple):
    """Requests on a plane.

    Attributes:
        drawn: the requests that are drawn.
        places: their places, in seconds, shape (drawn, 2).
        way: the method that placed them.

    """

    drawn: Drawn
    places: Floats
    way: Way


class _Made(NamedTuple):
    plane: Plane
    at_s: float


def choose(
    told: RequestsFound, keys: Sequence[Key], most_normal: int = MOST_NORMAL, most_outlying: int = MOST_OUTLYING
) -> Drawn:
    """Return the requests to draw. Beyond the limits, these are evenly chosen normal ones, and the newest outliers.

    Args:
        told: the requests and their results.
        keys: the keys of the requests to choose from.
        most_normal: the most normal requests.
        most_outlying: the most outliers.

    """
    ordered = sorted(keys, key=lambda key: (told.took[key].ts, key))
    normal = [key for key in ordered if key not in told.outputs]
    outlying = [key for key in ordered if key in told.outputs]
    every = np.linspace(0, len(normal) - 1, min(len(normal), most_normal)).round().astype(int)
    chosen = {normal[place] for place in every} | set(outlying[-most_outlying:])
    newest_ts = told.took[ordered[-1]].ts if ordered else math.nan
    return Drawn(tuple(key for key in ordered if key in chosen), len(normal), len(outlying), newest_ts)


def points(told: RequestsFound, keys: Sequence[Key]) -> Floats:
    """Return each request's seconds by state, shape (requests, states); if no states are known, its duration."""
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
    """Places requests on a plane: first by principal components, then by Isomap in a thread, one plane at a time.

    Parameters:
        looking: the functions of operators.
        clock: the clock, in seconds.

    """

    def __init__(self, looking: AnalysisFunctions, clock: Callable[[], float] = time.monotonic) -> None:
        self._looking, self._clock = looking, clock
        self._made: dict[Hashable, _Made] = {}  # the least recently used one first
        self._lock = threading.Lock()
        self._worker: threading.Thread | None = None

    def plane(self, about: Hashable, told: RequestsFound, keys: Sequence[Key]) -> tuple[Plane, bool]:
        """Return requests on a plane, and whether a later call can return a better or newer one.

        Args:
            about: the key of the query: a plane from an earlier call with the same key is valid for a while.
            told: the requests and their results.
            keys: the keys of the requests to place.

        """
        with self._lock:
            cached = self._made.pop(about, None)
            if cached is not None:
                self._made[about] = cached
                if cached.plane.drawn[1:] == _summed(told, keys) or self._clock() - cached.at_s < EVERY_S:
                    return cached.plane, False
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
        if cached is not None:
            return cached.plane, True
        return Plane(drawn, self._looking.principal(where), "principal"), True

    def _make(self, about: Hashable, drawn: Drawn, where: Floats) -> None:
        """Place requests by Isomap, in the thread."""
        way: Way = "isomap"
        try:
            places = self._looking.isomap(where)
        except Exception as error:  # noqa: BLE001 - principal components still work
            _log.warning("requests cannot be placed by Isomap: %r", error)
            places, way = self._looking.principal(where), "principal"
        with self._lock:
            self._made.pop(about, None)
            self._made[about] = _Made(Plane(drawn, places, way), self._clock())
            while len(self._made) > MOST_PLANES:
                del self._made[next(iter(self._made))]
            self._worker = None


def _summed(recorded: RequestsFound, keys: Sequence[Key]) -> tuple[int, int, float]:
    outlying = sum(key in recorded.outputs for key in keys)
    return len(keys) - outlying, outlying, max((recorded.took[key].ts for key in keys), default=math.nan)


class Histogram(NamedTuple):
    """The distribution of durations.

    Attributes:
        edges_s: the edges of the bins in seconds, ascending, one more than bins; their logarithms are evenly spaced.
        normal: the number of normal requests in each bin.
        outlying: the number of outliers, likewise.
        threshold_s: see `Looking.threshold`; NaN if no duration separates the two.

    """

    edges_s: list[float]
    normal: list[int]
    outlying: list[int]
    threshold_s: float


def histogram(durations_s: Floats, outlying: Mask, looking: AnalysisFunctions, bins: int) -> Histogram:
    """Return the distribution of durations; those below a microsecond count as a microsecond.

    Args:
        durations_s: the durations in seconds, at least one.
        outlying: the mask of outliers.
        looking: the functions of operators, which find the threshold.
        bins: the number of bins.

    """
    shown = np.maximum(durations_s, 1e-6)
    low, high = float(shown.min()), float(shown.max())
    if high < 1.5 * low:  # bins must not be narrower than differences by chance
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
