"""Incremental Gaussians: mean and variance of many streams at once, one tick at a time.

A block of ticks is summed as deviations from its first value. Blocks are merged by the formulae of Chan, Golub and
LeVeque (1979), "Updating formulae and a pairwise algorithm for computing sample variances", for whole matrices at once.
No sum of squares is taken around 0. So a small spread around 1e15 keeps its digits, and the spread of a constant is
exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

TINY = float(np.finfo(float).tiny)
"""Added to a divisor, it changes none but 0: 0 divided by a weight of 0 is then 0."""


@dataclass(slots=True)
class Moments:
    """Weight, mean and squared deviations of each cell of a matrix; all arrays have one shape.

    Attributes:
        weight: the number of learned values, less what was forgotten of them. It is read-only, since it may be a
            broadcast view of one line.
        mean: their weighted mean; 0 without values.
        squares: the weighted sum of squared deviations from the mean, at least 0.
        even: whether the weights are equal along the first axis, None if unknown. It only saves time.

    """

    weight: Matrix
    mean: Matrix
    squares: Matrix
    even: bool | None = field(default=None, kw_only=True, compare=False)

    @property
    def counts(self) -> NDArray[np.float64]:
        """The weights, without the first axis if they are equal along it."""
        if self.even is None:
            self.even = bool(self.weight.size and (self.weight == self.weight[0]).all())
        counts: NDArray[np.float64] = self.weight[0] if self.even else self.weight
        return counts

    def head(self, height: int, width: int) -> Moments:
        """Return the first lines and columns, as a view."""
        parts = (part[:height, :width] for part in (self.weight, self.mean, self.squares))
        return Moments(*parts, even=(height > 0 and self.even) or None)

    @classmethod
    def empty(cls, *shape: int) -> Moments:
        """Return moments without values."""
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape))

    def merged(self, other: Moments, decay: float, deviation: Matrix | None = None) -> Moments:
        """Merge later values, after these have faded to the share d.

        W = d w,  w' = W + v,  m' = m + (n - m) v / w',  S' = d S + T + (n - m)^2 W v / w'

        Args:
            other: the later values: v, n and T.
            decay: d, from 0 to 1.
            deviation: n - m if it is known; it is overwritten.

        """
        before, added = self.counts, other.counts
        even = bool(self.even and other.even)
        if not even:
            before, added = self.weight, other.weight
        faded = before * decay
        weight = faded + added
        share = added / (weight + TINY)
        if deviation is None:
            deviation = other.mean - self.mean
        step = share * deviation
        deviation *= step
        deviation *= faded
        squares = self.squares * decay
        squares += other.squares
        squares += deviation
        step += self.mean
        if even:
            weight = np.broadcast_to(weight, step.shape)
        return Moments(weight, step, squares, even=even or None)

    def variance(self) -> Matrix:
        """Return the unbiased variance, S / (w - 1); 0 for fewer than two values."""
        degrees = self.weight - 1.0
        return np.divide(self.squares, degrees, out=np.zeros_like(degrees), where=degrees > 0.0)


@dataclass(slots=True)
class Block:
    """A few ticks of each cell of a matrix, as sums of deviations from the first value; all arrays have one shape.

    With x1 the first value and d = x - x1: mean = x1 + sum(d) / w and S = sum(d^2) - sum(d)^2 / w. Since the first d is
    0, sum(d)^2 <= (w - 1) sum(d^2). So S is at least sum(d^2) / w: it is never negative, at most log10(w) digits
    cancel, and the spread of a constant is exactly 0.

    Attributes:
        weight: the number of learned values.
        first: the first value; 0 without values.
        total: the sum of the deviations from the first value.
        squares: the sum of their squares.
        begun: whether every cell has its first value. It only saves time.
        untouched: whether no cell has a value. It only saves the sums of the first tick, which are 0.
        even: whether all cells have the same weight, see `Moments.even`.
        unweighed: the number of ticks with a value in every cell that are not yet in the weight, see `settle`.

    """

    weight: Matrix
    first: Matrix
    total: Matrix
    squares: Matrix
    begun: bool = field(default=False, kw_only=True)
    untouched: bool = field(default=False, kw_only=True)
    even: bool = field(default=False, kw_only=True)
    unweighed: int = field(default=0, kw_only=True)

    @classmethod
    def empty(cls, *shape: int) -> Block:
        """Return a block without values."""
        return cls(
            np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape), untouched=True, even=0 not in shape
        )

    def head(self, height: int, width: int) -> Block:
        """Return the first lines and columns, as a view. What it learns is learned here once it is settled."""
        parts = (self.weight, self.first, self.total, self.squares)
        head = Block(
            *(part[:height, :width] for part in parts),
            begun=self.begun,
            untouched=self.untouched,
            even=self.even and height > 0,
        )
        self.untouched = False
        self.even &= height == len(self.weight)
        return head

    def settle(self) -> bool:
        """Bring the weight up to date, and return whether it is even."""
        if self.unweighed:
            self.weight += float(self.unweighed)
            self.unweighed = 0
        return self.even

    def learn(self, values: Matrix, present: NDArray[np.bool_] | None) -> None:
        """Learn one value per cell, in place. Missing ones, not `present` (None: all are), need a finite filler."""
        if self.untouched and present is None:
            np.copyto(self.first, values)
            self.unweighed += 1
            self.begun, self.untouched = True, False
            return
        self.untouched = False
        if not self.begun:
            fresh = self.weight == 0.0
            np.copyto(self.first, values, where=fresh if present is None else fresh & present)
            self.begun = present is None
        deviation = values - self.first
        if present is None:
            self.unweighed += 1
        else:
            self.weight += present
            self.even = False
            deviation *= present
        self.total += deviation
        deviation *= deviation
        self.squares += deviation

    def moments(self) -> Moments:
        """Return the moments. They share the weight with the block, which must not be used further."""
        even = self.settle()
        step = self.total / ((self.weight[:1] if even else self.weight) + TINY)
        squares = self.total * step
        np.subtract(self.squares, squares, out=squares)
        np.abs(squares, out=squares)  # digits of denormal numbers do cancel
        step += self.first
        return Moments(self.weight, step, squares, even=even or None)
