"""Welch's test: the unpaired t-test with unequal variances, for two windows of residuals (S2, section 2.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr

if TYPE_CHECKING:
    from numpy.typing import NDArray


def welch(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of Welch's test.

    t = (m1 - m2) / sqrt(v1 / n1 + v2 / n2), with Satterthwaite's degrees of freedom.

    Args:
        first: shape (n1,), without NaN.
        second: shape (n2,), without NaN.

    Returns:
        The p-value; NaN if one of them has fewer than two values. If neither varies, 1 for equal means, otherwise 0.

    References: Welch (1947), "The generalization of Student's problem when several different population variances are
    involved", Biometrika 34.

    """
    n1, n2 = len(first), len(second)
    if min(n1, n2) < 2:
        return math.nan
    # In units of the largest value, so that squares neither underflow nor overflow.
    unit = max(float(np.abs(first).max()), float(np.abs(second).max())) or 1.0
    first, second = first / unit, second / unit
    m1, m2 = float(first.mean()), float(second.mean())
    e1, e2 = float(first.var(ddof=1)) / n1, float(second.var(ddof=1)) / n2
    if e1 + e2 <= 0.0:
        return 1.0 if m1 == m2 else 0.0
    t = (m1 - m2) / math.sqrt(e1 + e2)
    share = e1 / (e1 + e2)
    freedom = 1.0 / (share * share / (n1 - 1) + (1.0 - share) ** 2 / (n2 - 1))
    return float(2.0 * stdtr(freedom, -abs(t)))
