"""The effect of a treatment, from pairs of periods with and without it in random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_PAIRS = 16
"""The most pairs: all signs of their differences are enumerated, 65,536 of them."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between periods with and without a treatment.

    Attributes:
        pairs: the number of pairs.
        without: the median without the treatment.
        difference: how much larger it is with the treatment: the median of all means of two differences.
        low, high: the bounds of the confidence interval of the difference.
        confidence: the confidence of the interval: at least the requested one, or the highest that so few pairs allow.
        p: the two-sided p-value.

    """

    pairs: int
    without: float
    difference: float
    low: float
    high: float
    confidence: float
    p: float


def compare(treated: Sequence[float], untreated: Sequence[float], confidence: float = 0.95) -> Comparison:
    """Compare pairs of values whose order within each pair was random.

    Without an effect, both signs of each difference are equally probable. The p-value is that of Wilcoxon's exact
    signed-rank test. It is the share of the 2^n choices of signs for which the signed ranks of the differences sum to
    at least as much. The test assumes no distribution of the values, and is robust to a period in which the machine did
    something else. The difference and its bounds are those of Hodges and Lehmann, which belong to this test.

    Reference: Hollander, Wolfe, Chicken (2014), "Nonparametric statistical methods", 3rd ed., sections 3.1 to 3.3.

    Args:
        treated: at least 2 and at most `MOST_PAIRS` values with the treatment.
        untreated: as many without it, in the same order of pairs.
        confidence: the confidence of the bounds.

    Raises:
        ValueError: there are too few or too many pairs, one is incomplete, or a value is not finite.

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
    # Ties have the mean of their ranks.
    ranks = ((sizes[:, None] > sizes).sum(axis=1) + (sizes[:, None] >= sizes).sum(axis=1) + 1) / 2.0
    # Each number from 0 to 2^n - 1 is one choice of signs.
    signs = (np.arange(1 << pairs)[:, None] >> np.arange(pairs)) & 1
    clear = abs(float(np.sign(differences) @ ranks))
    p = float(np.mean(np.abs((2 * signs - 1) @ ranks) >= clear))
    first, second = np.triu_indices(pairs)
    means = np.sort((differences[first] + differences[second]) / 2.0)
    # The number of these means below the center has the distribution of the sum of the ranks of positive differences.
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
