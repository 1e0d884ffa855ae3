"""Points on the plane of their largest variance: instantly, while `isomap` takes seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def principal(points: Floats, *, dimensions: int = 2) -> Floats:
    """Project points to few dimensions by principal component analysis.

    Parameters:
        points: shape (points, features).
        dimensions: the number of dimensions.

    Returns:
        The projections, shape (points, dimensions), in the unit of the points, with their mean at 0. The coordinate of
        the largest magnitude is positive in each dimension. Dimensions beyond the number of features are 0.

    Raises:
        ValueError: a value is not finite.

    Example:
        >>> principal(np.array([[0.0, 0.0], [3.0, 4.0], [9.0, 12.0]]))[:, 0].round(2)
        array([-6.67, -1.67,  8.33])

    References: Hotelling (1933), "Analysis of a complex of statistical variables into principal components", Journal of
    Educational Psychology 24.

    """
    if not np.isfinite(points).all():
        raise ValueError("expected finite points")
    places = np.zeros((len(points), dimensions))
    found = min(dimensions, points.shape[1])
    if len(points) and found:
        centred = points - points.mean(axis=0)
        _, axes = np.linalg.eigh(centred.T @ centred)
        seen = centred @ axes[:, : -found - 1 : -1]
        places[:, :found] = seen * np.where(np.abs(seen).argmax(axis=0) == seen.argmax(axis=0), 1.0, -1.0)
    return places
