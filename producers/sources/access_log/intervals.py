"""Requests by interval of the log's own time: their number, their failures, and their durations.

An interval holds the requests that ended from its beginning on and before its end; intervals begin at multiples of
their length since the epoch. The reader of the lines closes an interval once no more of its lines are expected.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.producers.sources.performance import ERRORS, MEAN, QUANTILES, STANDARD_DEVIATION, THROUGHPUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from laggard.producers.sources.access_log.requests import Requests

EXACT: Final = 1_000_000
"""The most durations in one interval with exact quantiles; beyond, they are those of a random sample of this size."""

LONGEST_SILENCE: Final = 360
"""The most empty intervals in a row that are published one by one in a catch-up; more become a single long one."""

_FAILED: Final = 500
_SWITCHING: Final = 101


class Interval(NamedTuple):
    """A closed interval.

    Attributes:
        ts: its end, in seconds since the Unix epoch.
        features: by name; response times are NaN if no request has one.
        sampled: whether its quantiles are those of a sample.

    """

    ts: float
    features: Mapping[str, float]
    sampled: bool


class Added(NamedTuple):
    """The result of adding requests.

    Attributes:
        late: the number that ended in a closed interval.
        ahead: the number that ended later than possible.
        last: the index of the last interval that got one, or None.

    """

    late: int
    ahead: int
    last: int | None


class Durations:
    """The durations of one interval: moments of all, and the values up to a bound, a uniform random sample beyond it.

    The sample is Vitter's algorithm R (ACM TOMS 11(1), 1985), by batches; moments are joined as by Chan et al. (1979).

    Args:
        seed: the seed of the sample, so that the same lines give the same quantiles.
        bound: the most values that are stored.

    """

    def __init__(self, seed: int, bound: int = EXACT) -> None:
        self.count = 0
        self._mean = 0.0
        self._squares = 0.0
        self._bound = bound
        self._pieces: list[NDArray[np.float64]] = []
        self._kept: NDArray[np.float64] | None = None
        self._seed = seed

    @property
    def sampled(self) -> bool:
        """Whether some values are no longer stored."""
        return self._kept is not None

    def add(self, values: NDArray[np.float64]) -> None:
        """Add durations in seconds."""
        if not len(values):
            return
        mean, count = float(values.mean()), self.count + len(values)
        apart = mean - self._mean
        self._squares += float(np.square(values - mean).sum()) + apart**2 * self.count * len(values) / count
        self._mean += apart * len(values) / count
        if self._kept is None:
            self._pieces.append(values)
            if count > self._bound:
                self._sample()
        else:
            self._replace(self._kept, values, self.count)
        self.count = count

    def features(self) -> dict[str, float]:
        """Return the mean, the standard deviation (of all requests, so divided by their number), and quantiles.

        Quantiles are linear between the two nearest (Hyndman and Fan, 1996, definition 7), the default of numpy.
        """
        if not self.count:
            return dict.fromkeys((MEAN, STANDARD_DEVIATION, *QUANTILES), math.nan)
        reservoir = self._kept if self._kept is not None else np.concatenate(self._pieces)
        quantiles = np.quantile(reservoir, list(QUANTILES.values()))
        return {
            MEAN: self._mean,
            STANDARD_DEVIATION: math.sqrt(self._squares / self.count),
            **dict(zip(QUANTILES, map(float, quantiles), strict=True)),
        }

    def _sample(self) -> None:
        """Store no more values than the bound from here on."""
        values = np.concatenate(self._pieces)
        self._pieces.clear()
        self._random = np.random.default_rng(self._seed)
        self._kept = values[: self._bound].copy()
        self._replace(self._kept, values[self._bound :], self._bound)

    def _replace(self, reservoir: NDArray[np.float64], values: NDArray[np.float64], before: int) -> None:
        """Put the n-th value in a random place with the probability bound / n."""
        places = self._random.integers(0, np.arange(before + 1, before + len(values) + 1))
        taken = places < self._bound
        reservoir[places[taken]] = values[taken]  # of two values for one place, the later one remains


class _Open:
    """An interval that is still open."""

    def __init__(self, index: int) -> None:
        self.requests = 0
        self.failed = 0
        self.durations = Durations(index)


class Intervals:
    """Gathers requests by interval. Deterministic: the same calls give the same intervals.

    Args:
        interval_s: the length of an interval.
        begin: the first interval begins at the next multiple of `interval_s`.
        resumed: whether earlier intervals were published, so that their requests are late; otherwise these are ignored.
        timed: whether requests have durations.
        statuses: whether they have a status.

    Attributes:
        until: the end of the last closed interval, or the beginning of the first one.

    """

    def __init__(
        self, interval_s: float, begin: float, *, resumed: bool = False, timed: bool = True, statuses: bool = True
    ) -> None:
        self._interval_s = interval_s
        self._next = math.ceil(begin / interval_s)
        self._first = 0 if resumed else self._next
        self._open: dict[int, _Open] = {}
        self._timed = timed
        self._statuses = statuses

    @property
    def until(self) -> float:
        """The end of the last closed interval, or the beginning of the first one."""
        return self._next * self._interval_s

    def end_of(self, index: int) -> float:
        """Return the end of an interval."""
        return (index + 1) * self._interval_s

    def add(self, requests: Requests, latest: float) -> Added:
        """Add requests, in any order; those that ended later than `latest` are left out."""
        ahead = requests.ts > latest
        index = np.floor(requests.ts / self._interval_s).astype(np.int64)
        late = (index >= self._first) & (index < self._next)
        good = (index >= self._next) & ~ahead
        # A connection that became a WebSocket is not a response: it lasts for as long as a page stays open.
        timed = good & ~np.isnan(requests.duration_s) & (requests.status != _SWITCHING)
        indices = np.unique(index[good])
        for each in map(int, indices):
            found = self._open.get(each) or self._open.setdefault(each, _Open(each))
            within = good & (index == each)
            found.requests += int(within.sum())
            found.failed += int((within & (requests.status >= _FAILED)).sum())
            found.durations.add(requests.duration_s[within & timed])
        return Added(int(late.sum()), int(ahead.sum()), int(indices[-1]) if len(indices) else None)

    def close(self, watermark: float) -> Iterator[Interval]:
        """Close and yield the intervals that end at or before a time, in order: no more of their lines are expected."""
        end = math.floor(watermark / self._interval_s)
        while self._next < end:
            first = min((*self._open, end))
            silence = first - self._next
            length = silence if silence > LONGEST_SILENCE else 1
            yield self._closed(self._next + length - 1, length)

    def skip(self, ts: float) -> None:
        """Drop the intervals before that of a time, since nothing is known of them."""
        self._next = max(self._next, math.floor(ts / self._interval_s))
        for index in [index for index in self._open if index < self._next]:
            del self._open[index]

    def _closed(self, index: int, length: int) -> Interval:
        found = self._open.pop(index, None) or _Open(index)
        seconds = length * self._interval_s
        features = {THROUGHPUT: found.requests / seconds}
        if self._statuses:
            features[ERRORS] = found.failed / seconds
        if self._timed:
            features |= found.durations.features()
        self._next = index + 1
        return Interval(self.end_of(index), features, found.durations.sampled)
