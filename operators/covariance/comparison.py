"""The comparison of the members of a pool at one tick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Slots = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Tick:
    """The comparison of the present members at one tick. Members are along the last axis.

    Attributes:
        ts: seconds since the Unix epoch.
        slots: the slots of the present members, shape (n,).
        statistics: standard normal without deviations, shape (columns, n); NaN if unknown.
        evidence: the excess over what any member reaches, by direction and column, shape (2, columns, n).
        alone: the scores of members by this tick alone, shape (n,).
        scores: the scores of members, above 1 is more than the budget allows, shape (n,).
        spreads: the spread among members, shape (columns, n), in the units of the metrics.
        sums, weights, references: the means after this tick.
        variance: the variance of the differences of members over groups, shape (levels + changes,).
        medians: the medians of the siblings, in the units of the metrics, shape (metrics, n).
        differences: the differences from them, and those given the other metrics, shape (2 x metrics, n).

    """

    ts: float
    slots: Slots
    statistics: Floats
    evidence: Floats
    alone: Floats
    scores: Floats
    spreads: Floats
    sums: Floats
    weights: Floats
    references: Floats
    variance: Floats
    medians: Floats
    differences: Floats
