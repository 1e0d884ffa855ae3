"""Phase 1: which of thousands of metrics move with the performance (section 2.2 A, Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONSTANT = 1e-9
"""What varies by less than this share of its size is constant: the rest is rounding."""


def correlations(values: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson's coefficient of each column with the target.

    Args:
        values: shape (samples, metrics).
        target: shape (samples,), without NaN.

    Returns:
        Shape (metrics,): NaN where a metric or the target is constant, or a metric is not there in every sample.

    """
    first = values[:1] if len(values) else values
    deviations = values - first
    deviations -= deviations.mean(axis=0)
    centred = target - target.mean()
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        squares = np.einsum("nm,nm->m", deviations, deviations)
        r = centred @ deviations / np.sqrt(squares * (centred @ centred))
        size = np.maximum(np.abs(values).max(axis=0, initial=0.0), np.finfo(float).tiny)
        constant = ~(squares > len(values) * (CONSTANT * size) ** 2)
    r[constant | ~np.isfinite(r)] = np.nan
    return np.asarray(np.clip(r, -1.0, 1.0))


def p_values(r: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """How probable coefficients as far from 0 are by chance, where normal variables are not correlated.

    t = r sqrt((n - 2) / (1 - r^2)) has Student's distribution with n - 2 degrees of freedom.
    """
    if samples <= 2:
        return np.full(r.shape, np.nan)
    return np.asarray(betainc(0.5 * (samples - 2), 0.5, np.maximum(1.0 - r * r, 0.0)), np.float64)


def best(r: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """The metrics with the highest absolute coefficients, in descending order; of equal ones the first stands first.

    With the number of samples given, the order of p-values is the same. Selection takes O(metrics), sorting
    O(count log count).
    """
    strength = np.where(np.isnan(r), -1.0, np.abs(r))
    # Alike but for rounding is alike: identical metrics keep the order in which they came.
    strength = np.round(strength, 12)
    if count < len(strength):
        limit = np.partition(strength, -count)[-count]
        above, at = np.flatnonzero(strength > limit), np.flatnonzero(strength == limit)
        chosen = np.sort(np.concatenate((above, at[: count - len(above)])))
    else:
        chosen = np.arange(len(strength))
    chosen = chosen[strength[chosen] >= 0.0]
    return chosen[np.argsort(-strength[chosen], kind="stable")]
