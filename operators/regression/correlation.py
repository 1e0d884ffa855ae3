"""Phase 1: the metrics that are correlated with the performance (S2, section 2.2 A, Algorithm 1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import betainc

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONSTANT: Final = 1e-9
"""A column that varies by less than this share of its mean is constant: the rest is rounding."""

SQUARES: Final = (1e-280, 1e280)
"""Sums of squares outside this range are computed in another unit."""


def lengths(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Euclidean length of each column, even if its squares would underflow or overflow.

    Args:
        columns: shape (samples, columns).

    """
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("nc,nc->c", columns, columns)
    found = np.sqrt(squares)
    odd = np.flatnonzero(~((squares > SQUARES[0]) & (squares < SQUARES[1])))
    if len(odd):
        largest = np.abs(columns[:, odd]).max(axis=0, initial=0.0)
        unit = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
        scaled = columns[:, odd] / unit
        found[odd] = unit * np.sqrt(np.einsum("nc,nc->c", scaled, scaled))
    return np.asarray(found)


def correlations(values: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Pearson's correlation coefficient of each column with the target.

    Args:
        values: shape (samples, metrics).
        target: shape (samples,), without NaN.

    Returns:
        The coefficients, shape (metrics,): NaN if a metric or the target is constant, or a metric is not finite in
        every sample.

    """
    samples, metrics = values.shape
    if not samples:
        return np.full(metrics, np.nan)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        deviations, length = _deviations(values)
        centred, of_target = _deviations(target[:, None])
        # Not by BLAS, whose rounding may depend on the place of a column: equal metrics must have equal coefficients.
        r = np.einsum("n,nm->m", centred[:, 0] / of_target, deviations) / length
    r[~np.isfinite(r)] = np.nan
    return np.asarray(np.clip(r, -1.0, 1.0))


def _deviations(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the deviations of each column from its mean, and their Euclidean length, NaN for a constant column."""
    # From the first value: the rounding of a mean near 1e9 may exceed the deviations.
    deviations = values - values[0]
    means = deviations.mean(axis=0)
    deviations -= means
    length = lengths(deviations)
    length[~(length > math.sqrt(len(values)) * CONSTANT * np.abs(values[0] + means))] = np.nan
    return deviations, length


def p_values(r: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """Return the two-sided p-values of correlation coefficients of uncorrelated normal variables.

    t = r sqrt((n - 2) / (1 - r^2)) has Student's distribution with n - 2 degrees of freedom.
    """
    if samples <= 2:
        return np.full(r.shape, np.nan)
    return np.asarray(betainc(0.5 * (samples - 2), 0.5, np.maximum(1.0 - r * r, 0.0)), np.float64)


def best(r: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Return the metrics with the highest absolute coefficients, in descending order; ties in the given order.

    For a given number of samples the order of p-values is the same. Selection takes O(metrics), sorting
    O(count log count).
    """
    strength = np.where(np.isnan(r), -1.0, np.abs(r))
    # Coefficients that differ by rounding are equal: identical metrics keep their order.
    strength = np.round(strength, 12)
    if count < len(strength):
        limit = np.partition(strength, -count)[-count]
        above, at = np.flatnonzero(strength > limit), np.flatnonzero(strength == limit)
        chosen = np.sort(np.concatenate((above, at[: count - len(above)])))
    else:
        chosen = np.arange(len(strength))
    chosen = chosen[strength[chosen] >= 0.0]
    return chosen[np.argsort(-strength[chosen], kind="stable")]
