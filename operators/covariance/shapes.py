"""The distance of the covariance of each member of a pool from that of all (section IV.C)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.covariance.distance import tangent, whiten
from laggard.operators.covariance.estimates import deviation_of, normal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def unlike(covariances: Floats, counts: NDArray[np.int64], noise: Floats) -> Floats:
    """Return the distances of covariances from that of all, made standard normal like levels (one-sided).

    With C_i the covariance of n_i samples of p metrics, whitened by that of all, and t the coordinates of the tangent
    space, see `tangent`:

        d_i = |t_i - median t|,    t_i = tangent((n_i C_i + p I) / (n_i + p), I)

    The statistic is ln d_i, less its median, divided by its spread.

    Args:
        covariances: those of the members, shape (n, metrics, metrics).
        counts: the number of samples of each, shape (n,).
        noise: the negligible variance of each metric, shape (metrics,).

    """
    whitened = whiten(covariances, noise=np.diag(noise))
    # A covariance of few samples is uncertain: that of the pool counts as one sample per metric.
    weights = counts[:, None, None].astype(np.float64)
    metrics = whitened.shape[1]
    shrunk = (weights * whitened + metrics * np.eye(metrics)) / (weights + metrics)
    moved = tangent(shrunk, np.eye(metrics))
    distances = np.sqrt(((moved - np.median(moved, axis=0)) ** 2).sum(axis=1))
    found = np.log(np.maximum(distances, 1e-9))
    found -= np.median(found)
    z = found / np.maximum(deviation_of(found, len(found)), 0.1)
    return np.maximum(normal(z, np.array(len(found) - 1.0)), 0.0)
