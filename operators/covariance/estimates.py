"""Robust estimates from few members: their median, their spread, and a deviation as a standard normal one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FEWEST: Final = 3
"""The fewest members that can be compared."""


def median(x: Floats) -> Floats:
    """Return the median along the last axis without NaN; NaN if all are."""
    if not np.isnan(x).any():
        return np.asarray(np.median(x, axis=-1))
    # Like `nanmedian`, which warns if all are NaN, and loops.
    count = np.isfinite(x).sum(axis=-1)
    ordered = np.sort(x, axis=-1)  # NaN comes last
    low = np.take_along_axis(ordered, np.maximum((count - 1) // 2, 0)[..., None], axis=-1)[..., 0]
    high = np.take_along_axis(ordered, np.minimum(count // 2, x.shape[-1] - 1)[..., None], axis=-1)[..., 0]
    return np.where(count > 0, (low + high) / 2.0, np.nan)


def deviation_of(differences: Floats, count: NDArray[np.intp] | int) -> Floats:
    """Return the standard deviation of `count` differences from a median, along the last axis.

    It is estimated by the median absolute difference: consistent for normal ones, with a correction for few.
    """
    return np.asarray(1.4826 * median(np.abs(differences)) * (1.0 + 1.2 / np.maximum(count, 1)))


def normal(t: Floats, degrees: Floats) -> Floats:
    """Return the standard normal quantile with the probability of `t` under Student's t, since siblings are few.

    Reference: Wallace (1959), "Bounds on normal approximations to Student's and the chi-square distributions", Annals
    of Mathematical Statistics 30.
    """
    with np.errstate(over="ignore"):
        size = np.sqrt(degrees * np.log1p(np.minimum(t * t, 1e300) / degrees))
    return np.asarray(np.sign(t) * size * (8.0 * degrees + 1.0) / (8.0 * degrees + 3.0))
