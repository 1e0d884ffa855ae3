"""The baselines of a frame in the form that scores it: those of others for young rows, those before steady rises."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from laggard.operators.gaussian.likelihood import Reference, Weights, floor_of
from laggard.operators.gaussian.moments import Moments

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from laggard.operators.features import Directions
    from laggard.operators.gaussian.bank import Bank
    from laggard.operators.gaussian.cohorts import Cohorts, Followed
    from laggard.operators.gaussian.likelihood import Pool
    from laggard.operators.gaussian.rises import Rises
    from laggard.operators.ranking import Basis


class Past(NamedTuple):
    """The inputs of the baselines of a frame.

    Attributes:
        bank: the learned state, with the rows and features of the frame first.
        followed: its young rows; None if they are ignored.
        pool: the statistics of all rows together.
        cohorts: the earlier starts of each name; None to ignore them.
        rises: the cells that may be rising.

    """

    bank: Bank
    followed: Followed | None
    pool: Pool
    cohorts: Cohorts | None
    rises: Rises


class References:
    """Makes the baselines of frames, and remembers those of the aligned one while they are valid.

    Parameters:
        weights, resolution, directions, episodes: see `Gaussian`.

    Attributes:
        bases: what the rows without a past are compared with, by their places.

    """

    def __init__(
        self,
        weights: Mapping[str, float],
        resolution: Mapping[str, float],
        directions: Directions,
        *,
        episodes: bool,
    ) -> None:
        self.weights = weights
        self.resolution = resolution
        self.directions = directions
        self.episodes = episodes
        self.bases: dict[int, Basis] = {}
        self._reference: Reference | None = None
        self._span = (-math.inf, math.inf)  # the times between which the reference is valid, since rows age
        self._weights: Weights | None = None
        self._floor: NDArray[np.float64] | None = None  # valid until episodes are ended

    def forget(self) -> None:
        """Forget the baselines, the weights and the least variances, since the names have changed."""
        self._weights = self._floor = self._reference = None

    def forget_floor(self) -> None:
        """Forget the least variances, since episodes have ended."""
        self._floor = None

    def renew(self) -> None:
        """Forget the baselines, since they have changed."""
        self._reference = None

    def known(self, ts: float) -> Reference | None:
        """Return the baselines of the aligned frame if they are known and valid at this time."""
        return self._reference if self._span[0] <= ts < self._span[1] else None

    def of_frame(self, ts: float, shape: tuple[int, int], past: Past) -> Reference:
        """Return new baselines of the aligned frame, whose shape is (features, rows)."""
        reference, self._span, self.bases = self.of(ts, shape, past, self._floor)
        self._floor = reference.floor
        self._reference = reference
        return reference

    def of(
        self, ts: float, shape: tuple[int, int], past: Past, floor: NDArray[np.float64] | None = None
    ) -> tuple[Reference, tuple[float, float], dict[int, Basis]]:
        """Return the baselines of the first features and rows; those of others for a row without a past.

        Also the times between which they are valid, and what the rows without a past are compared with. `floor` is
        given if it is known already.
        """
        features, rows = shape
        bank, followed = past.bank, past.followed
        usual = bank.usual.head(features, rows)
        span, bases, prior = (-math.inf, math.inf), {}, None
        if followed is not None and past.cohorts is not None and followed.columns.size:
            span = past.cohorts.span(followed, ts)
            prior = past.cohorts.prior(followed, bank, ts)
        if prior is not None:
            columns = prior.columns
            weight, mean, squares = usual.weight.copy(), usual.mean.copy(), usual.squares.copy()
            merged = prior.moments.merged(Moments(weight[:, columns], mean[:, columns], squares[:, columns]), 1.0)
            weight[:, columns], mean[:, columns], squares[:, columns] = merged.weight, merged.mean, merged.squares
            usual = Moments(weight, mean, squares)
            bases = dict(zip(columns.tolist(), prior.bases, strict=True))
        usual = past.rises.before(usual, bank.rows[:rows], bank.features[:features])
        if self._weights is None or len(self._weights.each) != features:
            self._weights = Weights.of(bank.features[:features], self.weights, self.resolution, self.directions)
        if floor is None:
            recurring = bank.episodes.second[:features, :rows] if self.episodes else None
            floor = floor_of(self._weights, recurring, rows)
        return Reference.of(usual, self._weights, past.pool, floor), span, bases
