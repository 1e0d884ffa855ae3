"""Incremental Gaussians: mean and variance of many streams at once, one tick at a time.

A block of ticks is summed up as deviations from its first value, and blocks are merged as Chan, Golub and LeVeque have
it (1979, "Updating formulae and a pairwise algorithm for computing sample variances"), each on whole matrices. A mean
of squares is never taken from 0, so that a small spread around 1e15 keeps its digits and a constant has exactly no
spread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

TINY = float(np.finfo(float).tiny)
"""Changes no weight but 0: what is 0 there stays 0 when it is divided by the weight."""


@dataclass(slots=True)
class Moments:
    """Weight, mean and squared deviations of each cell of a matrix; all arrays have one shape.

    Attributes:
        weight: how many values were learned, forgotten ones counted in part. Only to be read: it may be one line that
            stands for all.
        mean: their weighted mean; 0 where nothing was learned.
        squares: the weighted sum of squared deviations from the mean, never negative.
        even: whether the weights along the first axis are the same, None while nobody has looked. Saves passes; nothing
            depends on it.

    """

    weight: Matrix
    mean: Matrix
    squares: Matrix
    even: bool | None = field(default=None, kw_only=True, compare=False)

    @property
    def counts(self) -> NDArray[np.float64]:
        """The weights, without the first axis where they are the same along it."""
        if self.even is None:
            self.even = bool(self.weight.size and (self.weight == self.weight[0]).all())
        counts: NDArray[np.float64] = self.weight[0] if self.even else self.weight
        return counts

    def head(self, height: int, width: int) -> Moments:
        """The first lines and columns, as a view."""
        parts = (part[:height, :width] for part in (self.weight, self.mean, self.squares))
        return Moments(*parts, even=(height > 0 and self.even) or None)

    @classmethod
    def empty(cls, *shape: int) -> Moments:
        """Nothing learned yet."""
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape))

    def merged(self, other: Moments, decay: float, deviation: Matrix | None = None) -> Moments:
        """This and what `other` has learned since, after forgetting all but `decay` (0 to 1) of this.

        `deviation`, which is used up, is the other mean n less this one, m, where that is known already.

        W = d w,  w' = W + v,  m' = m + (n - m) v / w',  S' = d S + T + (n - m)^2 W v / w'
        """
        before, added = self.counts, other.counts
        even = bool(self.even and other.even)
        if not even:
            before, added = self.weight, other.weight
        kept = before * decay
        weight = kept + added
        share = added / (weight + TINY)
        if deviation is None:
            deviation = other.mean - self.mean
        step = share * deviation
        deviation *= step
        deviation *= kept
        squares = self.squares * decay
        squares += other.squares
        squares += deviation
        step += self.mean
        if even:
            weight = np.broadcast_to(weight, step.shape)
        return Moments(weight, step, squares, even=even or None)

    def variance(self) -> Matrix:
        """The unbiased variance, S / (w - 1); 0 where fewer than two values are in it."""
        degrees = self.weight - 1.0
        return np.divide(self.squares, degrees, out=np.zeros_like(degrees), where=degrees > 0.0)


@dataclass(slots=True)
class Block:
    """A few ticks of each cell of a matrix, as sums of deviations from the first of them; all arrays have one shape.

    With x1 the first value and d = x - x1: mean = x1 + sum(d) / w and S = sum(d^2) - sum(d)^2 / w. Since the first d is
    0, sum(d)^2 <= (w - 1) sum(d^2): S is at least a w-th of the sum that it is taken from, so it is never negative, at
    most log10(w) digits cancel, and a constant has exactly no spread.

    Attributes:
        weight: how many values were learned.
        first: the first of them; 0 where nothing was learned.
        total: the sum of their deviations from the first.
        squares: the sum of the squares of those.
        begun: whether every cell is known to have its first value. Saves a look; nothing depends on it.
        untouched: whether nothing is known to have been learned. Saves the sums of the first tick, which are 0.
        even: whether all cells are known to have the same weight, as `Moments.even`.
        unweighed: how many ticks with a value in every cell are not in the weight yet, see `settle`.

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
        """Nothing learned yet."""
        return cls(
            np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape), untouched=True, even=0 not in shape
        )

    def head(self, height: int, width: int) -> Block:
        """The first lines and columns, as a view: what is learned through it is learned here, once it is settled."""
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
        """Bring the weight up to date; gives whether it is even."""
        if self.unweighed:
            self.weight += float(self.unweighed)
            self.unweighed = 0
        return self.even

    def learn(self, values: Matrix, present: NDArray[np.bool_] | None) -> None:
        """Take in one value per cell, in place; what is not `present` (None: all are) must be a finite filler."""
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
        """What was learned. It shares its weight with the block, which is done with."""
        even = self.settle()
        step = self.total / ((self.weight[:1] if even else self.weight) + TINY)
        squares = self.total * step
        np.subtract(self.squares, squares, out=squares)
        np.abs(squares, out=squares)  # of denormal numbers the digits do cancel
        step += self.first
        return Moments(self.weight, step, squares, even=even or None)
