"""Whether a treatment made a difference, from pairs of periods with and without it in a random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_PAIRS = 16
"""All signs of so many differences are gone through: 65,536."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between periods with and without a treatment.

    Attributes:
        pairs: how many pairs there were.
        without: the median without the treatment.
        difference: how much more it is with the treatment: the median of all means of two differences.
        low, high: what the difference lies between with the probability `confidence`.
        confidence: at least the one wanted where there are pairs enough for it, else as high as they allow.
        p: how probable a difference that is as clear, in either direction, is by chance alone.

    """

    pairs: int
    without: float
    difference: float
    low: float
    high: float
    confidence: float
    p: float


def compare(treated: Sequence[float], untreated: Sequence[float], confidence: float = 0.95) -> Comparison:
    """Compare pairs of values whose order within each pair was drawn by lot.

    If the treatment does nothing, each difference could as well have had the other sign. The p-value is the share of
    the 2^n signs for which the ranks of the differences, with their signs, sum up to at least as much: Wilcoxon's
    signed-rank test, exact. It asks nothing of the values' distribution, and one period in which the machine did
    something else does not decide. The difference and its bounds are those of Hodges and Lehmann, which go with it.

    Reference: Hollander, Wolfe, Chicken (2014), "Nonparametric statistical methods", 3rd ed., sections 3.1 to 3.3.

    Args:
        treated: at least 2 and at most `MOST_PAIRS` values with the treatment.
        untreated: as many without it, in the same order of pairs.
        confidence: wanted of the bounds.

    Raises:
        ValueError: there are too few or too many, not as many of both, or one is not finite.

    Example:
        >>> found = compare([1.0, 1.2, 0.9, 1.1, 1.0, 0.8], [2.0, 2.3, 1.7, 2.2, 1.9, 2.1])
        >>> round(found.difference, 2), round(found.p, 3)
        (-1.05, 0.031)

    """
    with_it, without = np.asarray(treated, dtype=np.float64), np.asarray(untreated, dtype=np.float64)
    if with_it.shape != without.shape or with_it.ndim != 1 or not 2 <= len(with_it) <= MOST_PAIRS:
        raise ValueError(f"expected 2 to {MOST_PAIRS} pairs, got {with_it.shape} and {without.shape}")
    if not (np.isfinite(with_it).all() and np.isfinite(without).all()):
        raise ValueError("expected finite values")
    differences = with_it - without
    pairs = len(differences)
    sizes = np.abs(differences)
    # What ties shares the mean of its ranks.
    ranks = ((sizes[:, None] > sizes).sum(axis=1) + (sizes[:, None] >= sizes).sum(axis=1) + 1) / 2.0
    # Each number from 0 to 2^n - 1 is one choice of signs.
    signs = (np.arange(1 << pairs)[:, None] >> np.arange(pairs)) & 1
    clear = abs(float(np.sign(differences) @ ranks))
    p = float(np.mean(np.abs((2 * signs - 1) @ ranks) >= clear))
    first, second = np.triu_indices(pairs)
    means = np.sort((differences[first] + differences[second]) / 2.0)
    # So many of these means are below the centre as the sum of the ranks of positive differences says.
    below = np.bincount(signs @ np.arange(1, pairs + 1)).cumsum() / (1 << pairs)
    cut = max(int(np.searchsorted(below, (1.0 - confidence) / 2.0, side="right")), 1)
    return Comparison(
        pairs=pairs,
        without=float(np.median(without)),
        difference=float(np.median(means)),
        low=float(means[cut - 1]),
        high=float(means[-cut]),
        confidence=1.0 - 2.0 * float(below[cut - 1]),
        p=p,
    )
