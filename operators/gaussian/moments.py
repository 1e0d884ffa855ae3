"""Incremental Gaussians: mean and variance of many streams at once, one tick at a time.

The weighted updates of West (1979, "Updating mean and variance estimates: an improved method", CACM 22(9)) and the
merge of Chan, Golub and LeVeque (1979, "Updating formulae and a pairwise algorithm for computing sample variances"),
each on whole matrices. Deviations are always taken from a running mean, never as a difference of large sums, so that a
small spread around 1e15 keeps its digits and a constant has exactly no spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


@dataclass(slots=True)
class Moments:
    """Weight, mean and squared deviations of each cell of a matrix; all arrays have one shape.

    Attributes:
        weight: how many values were learned, forgotten ones counted in part.
        mean: their weighted mean; 0 where nothing was learned.
        squares: the weighted sum of squared deviations from the mean, never negative.

    """

    weight: Matrix
    mean: Matrix
    squares: Matrix

    @classmethod
    def empty(cls, rows: int, features: int) -> Moments:
        """Nothing learned yet."""
        return cls(np.zeros((rows, features)), np.zeros((rows, features)), np.zeros((rows, features)))

    def clear(self) -> None:
        """Forget everything, in place."""
        self.weight.fill(0.0)
        self.mean.fill(0.0)
        self.squares.fill(0.0)

    def head(self, rows: int, features: int) -> Moments:
        """The first rows and features, as a view: what is learned through it is learned here."""
        return Moments(self.weight[:rows, :features], self.mean[:rows, :features], self.squares[:rows, :features])

    def learn(self, values: Matrix, present: NDArray[np.bool_] | None) -> None:
        """Take in one value per cell, in place; what is not `present` (None: all are) must be a finite filler.

        w' = w + 1,  m' = m + (x - m) / w',  S' = S + (x - m) (x - m')
        """
        deviation = values - self.mean
        if present is None:
            self.weight += 1.0
            step = deviation / self.weight
        else:
            self.weight += present
            deviation *= present
            step = deviation / np.maximum(self.weight, 1.0)
        self.mean += step
        np.subtract(deviation, step, out=step)
        step *= deviation
        self.squares += step

    def merged(self, other: Moments, decay: float) -> Moments:
        """This and what `other` has learned since, after forgetting all but `decay` (0 to 1) of this.

        W = d w,  w' = W + v,  m' = m + (n - m) v / w',  S' = d S + T + (n - m)^2 W v / w'
        """
        kept = self.weight * decay
        weight = kept + other.weight
        share = other.weight / (weight + np.finfo(float).tiny)
        deviation = other.mean - self.mean
        kept *= share
        kept *= deviation
        kept *= deviation
        squares = self.squares * decay
        squares += other.squares
        squares += kept
        deviation *= share
        deviation += self.mean
        return Moments(weight, deviation, squares)

    def variance(self) -> Matrix:
        """The unbiased variance, S / (w - 1); 0 where fewer than two values are in it."""
        degrees = self.weight - 1.0
        return np.divide(self.squares, degrees, out=np.zeros_like(degrees), where=degrees > 0.0)
