"""The isolation forest of S4, section IV.A, which the paper compares with DBSCAN's noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.ensemble import IsolationForest

if TYPE_CHECKING:
    from numpy.typing import NDArray


def isolated(points: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    """Return the points that an isolation forest isolates first.

    Args:
        points: shape (points, features).
        share: the share of outliers, above 0, at most a half.

    Returns:
        Whether each point is an outlier, shape (points,).

    References: Liu, Ting, Zhou (2008), "Isolation forest", ICDM.

    """
    forest = IsolationForest(n_estimators=100, contamination=share, random_state=0)
    return np.asarray(forest.fit_predict(points) < 0)
