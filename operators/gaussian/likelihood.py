"""How unlike its usual self each feature of each row is: as S0 has it, and so that a feature's unit does not decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.gaussian.moments import Moments

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

Likelihood = Literal["scale_free", "paper"]

PSEUDO = 2.0
"""How many values of its own the spread of all rows counts for in the spread of one row; more than 1."""

TRUSTED = 30.0
"""No more degrees of freedom than this, however much was seen: counters have heavier tails than a Gaussian, and a score
means the same whether the model is an hour or a week old."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What is usual, in the form that a tick is judged with; made once for each block that is learned.

    Attributes:
        weight, mean, squares: of the usual values, shape (rows, features).
        center: what a value is compared with: the row's own mean, or that of all rows before it has one.
        inverse: one over four times the squared spread that is expected around it and the degrees of freedom.
        power: half of the degrees of freedom and one, times the weight of the feature.
        constant: where all values so far were the same, or there were none.
        still: whether there is such a cell.
        varying: how many features of each row are not constant.
        silent: the features that had one and the same value in all rows.
        seen: whether there are usual values at all.

    """

    weight: Matrix
    mean: Matrix
    squares: Matrix
    center: Matrix
    inverse: Matrix
    power: Matrix
    constant: NDArray[np.bool_]
    still: bool
    varying: NDArray[np.intp]
    silent: NDArray[np.intp]
    seen: bool

    @classmethod
    def of(cls, usual: Moments, weights: Vector) -> Reference:
        """Prepare the usual values; `weights` of the features are as `Gaussian` has them, shape (features,).

        A value is predicted from w earlier ones with squared deviations S, under a prior that is worth k = `PSEUDO` of
        them and expects t^2, the variance of the feature over all rows and ticks. The prediction is a Student's t with
        w - 1 + k degrees of freedom, around the mean, with the scale

            s'^2 = (S + k t^2) / (w - 1 + k) * (1 + 1 / (w + k))

        so a constant has a spread too, and a new row is compared with all others. Of the degrees of freedom at most
        n = min(w - 1 + k, `TRUSTED`) are used.
        """
        weight, mean, squares = usual.weight, usual.mean, usual.squares
        counts = np.maximum(weight.sum(axis=0), 1.0)
        # Deviations from some row's mean keep equal constants exactly equal.
        known = bool(weight.all())
        anchor = mean[weight.argmax(axis=0), np.arange(weight.shape[1])] if weight.size else np.zeros(weight.shape[1])
        offset = mean - anchor
        shift = (weight * offset).sum(axis=0) / counts
        middle = anchor + shift
        offset -= shift
        offset *= offset
        offset *= weight
        offset += squares
        spread = PSEUDO / counts * offset.sum(axis=0)
        silent = np.flatnonzero(spread <= 0.0)
        spread[silent] = 1.0
        degrees = weight + (PSEUDO - 1.0)
        trusted = np.minimum(degrees, TRUSTED)
        scale = squares + spread
        scale *= trusted / degrees
        scale *= 1.0 + 1.0 / (weight + PSEUDO)
        inverse = np.divide(1.0, scale, out=scale)
        inverse[:, silent] = 0.0
        # A rise is counted twice below, see `scale_free`.
        inverse *= 0.25
        constant = squares <= 0.0
        still = bool(constant.any())
        varying = weight.shape[1] - np.count_nonzero(constant, axis=1)
        center = mean if known else np.where(weight > 0.0, mean, middle)
        power = 0.5 * (trusted + 1.0) * weights
        return cls(weight, mean, squares, center, inverse, power, constant, still, varying, silent, bool(weight.any()))


def paper(values: Matrix, reference: Reference) -> tuple[Matrix, NDArray[np.intp]]:
    """Minus the Gaussian log-likelihood of each value, and how many features of each row are judged (S0, section 3).

    As in S0 the window includes the moment asked about; unlike there it ends with it. So with w values before, of
    mean m and squared deviations S, and d = x - m:

        m' = m + d / (w + 1),  s'^2 = (S + d^2 w / (w + 1)) / w
        -log N(x; m', s'^2) = log(2 pi s'^2) / 2 + (x - m')^2 / (2 s'^2)

    NaN where the feature is constant or not there: those are left out.
    """
    weight = reference.weight
    deviation = values - reference.mean
    rest = deviation * (weight / (weight + 1.0))
    variance = (reference.squares + deviation * rest) / np.maximum(weight, 1.0)
    judged = (variance > 0.0) & (weight >= 1.0)
    variance[~judged] = 1.0
    surprise = 0.5 * np.log(2.0 * np.pi * variance) + 0.5 * rest * rest / variance
    surprise[~judged] = np.nan
    return surprise, np.count_nonzero(judged, axis=1)


def scale_free(values: Matrix, reference: Reference, whole: bool) -> tuple[Matrix, NDArray[np.intp]]:
    """Minus the log-likelihood of each value under the Student's t of `Reference.of`, and how many features are judged.

    With r = max(x - m, 0), since only what moves towards more use or more waiting counts:

        (n + 1) / 2 ln(1 + r^2 / (n s'^2))

    times the weight of the feature. The term of the scale is left out, so it is 0 for what is usual, near
    r^2 / (2 s'^2) for what is not far from it, and has no unit. Where no row has ever shown a spread the value itself
    is the only measure: as if it had been the one value before, r^2 = n s'^2.

    NaN where a value is not there; `whole` says that all are. What is constant is judged, and so counted, once it has
    moved.
    """
    surprise = values - reference.center
    counted = reference.varying
    if reference.still:
        moved = surprise != 0.0
        moved &= reference.constant
        if moved.any():
            counted = counted + np.count_nonzero(moved, axis=1)
    if not whole:
        there = ~np.isnan(surprise)
        counted = np.count_nonzero(there & ~(reference.constant & (surprise == 0.0)), axis=1)
    # 2 r = d + |d|: a maximum with 0 takes twice as long.
    surprise += np.abs(surprise)
    first = surprise[:, reference.silent] > 0.0 if reference.silent.size else None
    surprise *= surprise
    surprise *= reference.inverse
    if first is not None:
        surprise[:, reference.silent] += first
    surprise += 1.0
    np.log(surprise, out=surprise)
    surprise *= reference.power
    return surprise, counted
