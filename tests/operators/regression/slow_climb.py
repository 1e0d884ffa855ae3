"""Algorithm 2 for linear models in the plainest way: the oracle for the fast one, and what it is measured against."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.regression.climb import COLLINEAR, folds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def cross_validated(values: NDArray[np.float64], target: NDArray[np.float64]) -> float:
    """R^2 of what least squares on the other folds predicts for each."""
    predicted = np.empty(len(target))
    fold = folds_of(len(target))
    for number in np.unique(fold):
        train, test = fold != number, fold == number
        if not train.any():
            return -np.inf
        centre, mean = values[train].mean(axis=0), target[train].mean()
        design = values[train] - centre
        # Where a metric tells nothing that those before it do not, its coefficient is not determined: it gets none.
        used: list[int] = []
        for column in range(values.shape[1]):
            x = design[:, column]
            left = x - design[:, used] @ np.linalg.lstsq(design[:, used], x, rcond=None)[0] if used else x
            if left @ left > COLLINEAR * max(x @ x, 1e-20 * (values[:, column] @ values[:, column])):
                used.append(column)
        predicted[test] = mean
        if used:
            b = np.linalg.lstsq(design[:, used], target[train] - mean, rcond=None)[0]
            predicted[test] += (values[test][:, used] - centre[used]) @ b
    variance = float(((target - target.mean()) ** 2).sum())
    return 1.0 - float(((target - predicted) ** 2).sum()) / variance if variance > 0.0 else -np.inf


def slow_climb(
    values: NDArray[np.float64],
    target: NDArray[np.float64],
    columns: Sequence[int],
    *,
    minimum_gain: float,
    most: int,
) -> tuple[list[int], float]:
    """The columns in the order of choice, and R^2 with them; of equally good ones the first is taken."""
    left, chosen, old = list(columns), list[int](), 0.0
    while left and len(chosen) < most:
        best, at = -np.inf, -1
        for column in left:
            new = cross_validated(values[:, [*chosen, column]], target)
            if new > best + 1e-12:
                best, at = new, column
        if not best - old > minimum_gain:
            break
        old = best
        chosen.append(at)
        left.remove(at)
    return chosen, old
