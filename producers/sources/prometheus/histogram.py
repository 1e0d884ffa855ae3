"""Quantiles of a histogram with fixed buckets, as PromQL's `histogram_quantile` takes them.

Reference: https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Observations by upper bound.

    Attributes:
        bounds: shape (buckets,), growing, the last one infinite.
        counts: shape (buckets,), how many observations, or how many a second, are not above each bound; never falls.

    """

    bounds: NDArray[np.float64]
    counts: NDArray[np.float64]

    def quantile(self, q: float) -> float:
        """The value below which a share `q` lies, in the unit of the bounds; NaN where nothing was observed.

        Within a bucket observations are taken to lie evenly; the first one begins at 0 where its bound is positive. A
        quantile above all finite bounds is the greatest of these, one below a first bound that is not positive is that.
        """
        total = self.counts[-1]
        if len(self.bounds) < 2 or not total > 0 or not 0 <= q <= 1:
            return math.nan
        rank = q * total
        at = int(np.searchsorted(self.counts[:-1], rank))  # the first bucket that reaches the rank, else the last one
        if at == len(self.bounds) - 1:
            return float(self.bounds[-2])
        end = float(self.bounds[at])
        if at == 0 and end <= 0:
            return end
        begin, before = (float(self.bounds[at - 1]), float(self.counts[at - 1])) if at else (0.0, 0.0)
        inside = float(self.counts[at]) - before
        return begin + (end - begin) * ((rank - before) / inside) if inside > 0 else begin


def summed(parts: Sequence[Mapping[float, float]]) -> Histogram | None:
    """The histogram of all together; None where none of them has an infinite bucket and a finite one.

    Each maps upper bounds to counts. Where bounds differ, as while a new version is rolled out, one that lacks a bound
    counts there as if its observations lay evenly within its bucket, so that none appears or gets lost; what is beyond
    its finite bounds counts as infinite.
    """
    whole = [part for part in parts if math.inf in part and len(part) > 1]
    if not whole:
        return None
    bounds = np.array(sorted(set().union(*whole)), np.float64)
    counts = np.zeros(len(bounds))
    for part in whole:
        own = np.array(sorted(part), np.float64)
        heights = np.maximum.accumulate(np.array([part[bound] for bound in own.tolist()], np.float64))
        if own[0] > 0:  # where the first bucket begins
            own, heights = np.r_[0.0, own], np.r_[0.0, heights]
        counts[:-1] += np.interp(bounds[:-1], own[:-1], heights[:-1], left=0.0)
        counts[-1] += heights[-1]
    return Histogram(bounds, counts)
