"""Phase 2: the few metrics that predict the performance best together (S2, section 2.2 B, Algorithm 2).

Hill climbing: the candidate that raises the cross-validated R^2 most is added, until none raises it by more than the
minimum gain. For linear models all candidates are tried at once in every fold. On the training samples of a fold the
chosen metrics are projected out of all columns, and the same projection is applied to its test samples. Then a model
with one more metric differs from the present one by one coefficient,

    b = <x, y> / <x, x>,  and its errors on the test samples are y - b x

(Frisch and Waugh, 1933). So a step costs O(folds * samples * candidates).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.regression.correlation import lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDS: Final = 10
COLLINEAR: Final = 1e-10
"""A candidate with less than this share of its variance left adds nothing to the chosen ones."""


@dataclass(frozen=True, slots=True)
class Step:
    """A metric that was added.

    Attributes:
        column: its column.
        r2: the cross-validated R^2 of the model with it.

    """

    column: int
    r2: float


def folds_of(samples: int, folds: int = FOLDS) -> NDArray[np.intp]:
    """Assign samples to folds in turn, so that every fold covers the whole time. Shape (samples,)."""
    return np.arange(samples) % max(min(folds, samples), 1)


class LinearClimb:
    """Linear models with an increasing number of metrics, each cross-validated.

    R^2 is that of the predictions of all folds together, 1 - sum of squared errors / variance. With 10 samples and 10
    folds, each fold has a single sample, which has no R^2 of its own.

    Parameters:
        values: shape (samples, candidates), without NaN.
        target: shape (samples,), without NaN.
        folds: the fold that each sample is tested in, shape (samples,), from 0 on.

    """

    def __init__(
        self, values: NDArray[np.float64], target: NDArray[np.float64], folds: NDArray[np.intp] | None = None
    ) -> None:
        samples, candidates = values.shape
        fold = folds_of(samples) if folds is None else folds
        count = int(fold.max(initial=0)) + 1
        # Normalized, so that rounding does not depend on units. The target is the last column.
        columns = np.column_stack((values, target))
        columns = columns - columns.mean(axis=0)
        scale = lengths(columns)
        columns /= np.where(scale > 0.0, scale, 1.0)
        self._test = fold[None, :] == np.arange(count)[:, None]
        train = ~self._test
        self._columns = np.repeat(columns[None], count, axis=0)  # (folds, samples, candidates + 1)
        sizes = np.maximum(train.sum(axis=1), 1)
        means = np.einsum("kn,knc->kc", train, self._columns) / sizes[:, None]
        self._columns -= means[:, None, :]
        self._train = train.astype(np.float64)
        self._size = self._variances()
        self._free = np.ones(candidates, np.bool_)
        self._of_target = 1.0 if scale[-1] > 0.0 else 0.0

    def _variances(self) -> NDArray[np.float64]:
        """Return the variance of each column in each fold's training samples, shape (folds, candidates + 1)."""
        return np.asarray(np.einsum("kn,knc,knc->kc", self._train, self._columns, self._columns))

    def gains(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Evaluate each candidate.

        Returns:
            The R^2 with it, shape (candidates,), -inf if it adds nothing or is in the model. Second, the sign of its
            partial correlation with the target over all folds, which is that of its coefficient.

        """
        variance = self._variances()[:, :-1]
        independent = variance > COLLINEAR * self._size[:, :-1]
        target = self._columns[:, :, -1]
        products = np.einsum("kn,kn,knc->kc", self._train, target, self._columns[:, :, :-1])
        b = np.divide(products, variance, out=np.zeros_like(products), where=independent)
        errors = np.where(self._test[:, :, None], target[:, :, None] - b[:, None, :] * self._columns[:, :, :-1], 0.0)
        r2 = (
            1.0 - np.einsum("knc,knc->c", errors, errors) / self._of_target
            if self._of_target
            else np.full(b.shape[1], -np.inf)
        )
        r2[~self._free | ~independent.any(axis=0)] = -np.inf
        return r2, np.sign(products.sum(axis=0))

    def add(self, column: int) -> None:
        """Add a candidate to the model."""
        x = self._columns[:, :, column].copy()
        size = np.einsum("kn,kn,kn->k", self._train, x, x)
        independent = size > COLLINEAR * self._size[:, column]
        products = np.einsum("kn,kn,knc->kc", self._train, x, self._columns)
        g = np.divide(products, size[:, None], out=np.zeros_like(products), where=independent[:, None])
        self._columns -= x[:, :, None] * g[:, None, :]
        self._free[column] = False

    def errors(self) -> NDArray[np.float64]:
        """Return the errors of the predictions of each sample without its fold, as shares of the target's deviation."""
        return np.asarray(np.einsum("kn,kn->n", self._test, self._columns[:, :, -1]))
