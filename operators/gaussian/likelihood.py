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

CLIP = 30.0
"""Deviations count for at most this many standard deviations, so that one feature does not decide alone."""

PSEUDO = 1.0
"""How many values of its own the spread of all rows counts for in the spread of one row."""

MATERIAL = 0.1
"""A rise by this share of what all rows together usually have of a feature counts in full."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What is usual, in the form that a tick is judged with; made once for each block that is learned.

    Attributes:
        weight, mean, squares: of the usual values, shape (rows, features).
        center: what a value is compared with: the row's own mean, or that of all rows before it has one.
        precision: one over the spread that is expected around it.
        material: of each feature, one over the rise that counts in full.

    """

    weight: Matrix
    mean: Matrix
    squares: Matrix
    center: Matrix
    precision: Matrix
    material: Vector

    @classmethod
    def of(cls, usual: Moments) -> Reference:
        """Prepare the usual values.

        The spread of a cell is s'^2 = (S + k t^2) / (w - 1 + k) * (1 + 1 / (w + k)): the posterior of a Gaussian whose
        prior is worth k = `PSEUDO` values with t^2, the variance of the feature over all rows and ticks, as the
        expected square; the last factor is that of a prediction from w values. So a constant has a spread too, and a
        new row is compared with all others.
        """
        weight, mean, squares = usual.weight, usual.mean, usual.squares
        counts = weight.sum(axis=0)
        safe = np.maximum(counts, 1.0)
        middle = (weight * mean).sum(axis=0) / safe
        offset = mean - middle
        spread = (squares + weight * offset * offset).sum(axis=0) / safe
        degrees = np.maximum(weight - 1.0, 0.0) + PSEUDO
        variance = (squares + PSEUDO * spread) / degrees * (1.0 + 1.0 / (weight + PSEUDO))
        precision = np.divide(1.0, np.sqrt(variance), out=np.zeros_like(variance), where=variance > 0.0)
        center = np.where(weight > 0.0, mean, middle)
        total = MATERIAL * np.abs(np.where(weight > 0.0, mean, 0.0).sum(axis=0))
        material = 1.0 / np.maximum(total, 1e-150)
        return cls(weight, mean, squares, center, precision, material)


def paper(values: Matrix, reference: Reference) -> tuple[Matrix, NDArray[np.bool_]]:
    """Minus the Gaussian log-likelihood of each value, and which cells are not constant (S0, section 3).

    As in S0 the window includes the moment asked about; unlike there it ends with it. So with w values before, of
    mean m and squared deviations S, and d = x - m:

        m' = m + d / (w + 1),  s'^2 = (S + d^2 w / (w + 1)) / w
        -log N(x; m', s'^2) = log(2 pi s'^2) / 2 + (x - m')^2 / (2 s'^2)

    NaN and 0 where the feature is constant or not there.
    """
    weight = reference.weight
    deviation = values - reference.mean
    share = weight / (weight + 1.0)
    rest = deviation * share
    variance = (reference.squares + deviation * rest) / np.maximum(weight, 1.0)
    varies = (variance > 0.0) & (weight >= 1.0)
    variance = np.where(varies, variance, 1.0)
    surprise = 0.5 * np.log(2.0 * np.pi * variance) + 0.5 * rest * rest / variance
    return np.where(varies, surprise, np.nan), varies


def scale_free(values: Matrix, reference: Reference) -> tuple[Matrix, NDArray[np.bool_]]:
    """How far each value has risen above its usual, what part of that rise is this row's, and whether it matters.

    With z = (x - m) / s', counted from 0 to `CLIP`, the rise r = max(x - m, 0), and T the sum over rows of what is usual:

        score = z * sqrt(r / sum of r over rows) * sqrt(min(1, r / (MATERIAL T)))

    All three factors have no unit. Only what moves towards more use or more waiting counts.
    """
    rise = values - reference.center
    np.maximum(rise, 0.0, out=rise)
    there = rise == rise  # noqa: PLR0124 - false for NaN alone
    if not there.all():
        rise[~there] = 0.0
    varies = there & ((reference.squares > 0.0) | (values != reference.center))
    z = rise * reference.precision
    np.minimum(z, CLIP, out=z)
    everyone = rise.sum(axis=0)
    part = rise / np.where(everyone > 0.0, everyone, 1.0)
    matter = rise * reference.material
    np.minimum(matter, 1.0, out=matter)
    part *= matter
    np.sqrt(part, out=part)
    z *= part
    return np.where(varies, z, np.nan), varies
