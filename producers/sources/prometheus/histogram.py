"""Quantiles of a histogram with fixed buckets, as PromQL's `histogram_quantile` computes them.

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
        bounds: shape (buckets,), increasing, the last one infinite.
        counts: shape (buckets,), the number or the rate of observations that are at most each bound; never decreasing.

    """

    bounds: NDArray[np.float64]
    counts: NDArray[np.float64]

    def quantile(self, q: float) -> float:
        """Return the value below which a share `q` lies, in the unit of the bounds; NaN without observations.

        Observations count as uniform within a bucket; the first one begins at 0 if its bound is positive. A quantile
        above all finite bounds is the greatest of these; one below a first bound that is not positive is that bound.
        """
        total = self.counts[-1]
        if len(self.bounds) < 2 or not total > 0 or not 0 <= q <= 1:
            return math.nan
        rank = q * total
        at = int(np.searchsorted(self.counts[:-1], rank))  # the first bucket that reaches the rank, or the last one
        if at == len(self.bounds) - 1:
            return float(self.bounds[-2])
        end = float(self.bounds[at])
        if at == 0 and end <= 0:
            return end
        begin, before = (float(self.bounds[at - 1]), float(self.counts[at - 1])) if at else (0.0, 0.0)
        inside = float(self.counts[at]) - before
        return begin + (end - begin) * ((rank - before) / inside) if inside > 0 else begin


def summed(parts: Sequence[Mapping[float, float]]) -> Histogram | None:
    """Return the histogram of all parts together; None if no part has an infinite bucket and a finite one.

    Each part maps upper bounds to counts. Bounds may differ, for example during the rollout of a new version. A part
    without a bound counts there as if its observations were uniform within its bucket, so that none appears or gets
    lost. Observations beyond its finite bounds count as infinite.
    """
    complete = [part for part in parts if math.inf in part and len(part) > 1]
    if not complete:
        return None
    bounds = np.array(sorted(set().union(*complete)), np.float64)
    counts = np.zeros(len(bounds))
    for part in complete:
        own = np.array(sorted(part), np.float64)
        heights = np.maximum.accumulate(np.array([part[bound] for bound in own.tolist()], np.float64))
        if own[0] > 0:  # where the first bucket begins
            own, heights = np.r_[0.0, own], np.r_[0.0, heights]
        counts[:-1] += np.interp(bounds[:-1], own[:-1], heights[:-1], left=0.0)
        counts[-1] += heights[-1]
    return Histogram(bounds, counts)
