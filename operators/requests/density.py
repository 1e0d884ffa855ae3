"""Where requests are dense, and how far from there one is: DBSCAN's noise rule against a sliding reference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.requests.outliers import estimated_eps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FIRST: Final = 100
"""So many points are taken in before any is judged."""

DENSE_SHARE: Final = 0.05
"""While there are few points, so large a share of them is enough for a dense region, ..."""

FEWEST: Final = 5
"""... but never fewer than so many points."""

SETTLE_S: Final = 3600.0
"""What was out of line counts as a neighbour after so long: a trouble that lasts must not become usual within minutes,
and what has become usual must not stay one for ever."""

_ALIKE: Final = 0.1
_ANEW: Final = 1.0  # of the reference: so many new points after which eps is estimated again
_BLOCK: Final = 512


class Density:
    """The last requests as points, and which of them lie in dense regions (section III.C).

    A point is a core point if at least m points, itself included, lie within eps; noise is what is no core point and
    has none within eps (Ester et al. 1996, definitions 2 and 6). Which cluster a point is in does not matter for that,
    so neighbours are counted and no clusters are grown. The score of a point x that is no core point is

        min over core points c of |x - c| / eps

    and 0 for a core point: noise is what scores above 1. The newest `size` points are kept with their number of
    neighbours, which is brought up to date when a point comes and when one goes: O(size) time a point, O(size) memory.

    Until there are m / `DENSE_SHARE` points, a share of them counts as dense. A point that was out of line itself when
    it came is no neighbour to others before `SETTLE_S`, unless it is told otherwise (`settle_s`).

    Parameters:
        eps: the radius; None to estimate it from the points themselves, see `outliers.estimated_eps`: anew whenever
            their number has doubled, then when all of them are new.
        minimum_points: m, 1 or more.
        size: how many points are kept.
        smallest_eps: an estimate is at least so large; and what is ten times as close is alike for all purposes.
        settle_s: after how long what was out of line counts, in seconds.

    Attributes:
        eps: the radius in use; NaN until it was estimated.
        points: how many are kept now.

    """

    def __init__(
        self,
        *,
        eps: float | None,
        minimum_points: int = 100,
        size: int = 10_000,
        smallest_eps: float = 0.0,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._given = eps
        self.minimum_points, self.size = minimum_points, size
        self.smallest_eps, self.settle_s = smallest_eps, settle_s
        self.eps = math.nan if eps is None else eps
        self.points = 0
        self._next = 0
        self._seen = 0
        self._estimate_at = FIRST
        self._vectors: Floats = np.empty((0, 0))  # a column each: products with all of them are fastest so
        self._squared: Floats = np.zeros(0)
        self._neighbours: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._counts: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._doubted: list[tuple[float, int]] = []

    @property
    def young(self) -> bool:
        """Whether there are fewer points than the rule asks for."""
        return self.points < min(self.minimum_points / DENSE_SHARE, self.size / 2)

    def _enough(self) -> int:
        return max(min(self.minimum_points, max(FEWEST, int(self.points * DENSE_SHARE))), 1)

    def score(self, vector: Floats) -> float:
        """How far from a dense region the point is, in units of eps; 0 inside, and while there are few points.

        `vector` has the shape (dimensions,); it may have more of them than those before, which are 0 there.
        """
        if self.points < FIRST or math.isnan(self.eps):
            return 0.0
        squares = self._squares(vector)
        near = squares <= self.eps * self.eps
        enough = self._enough()
        if int(np.count_nonzero(near & self._counts[: self.points])) + 1 >= enough:
            return 0.0
        core = self._neighbours[: self.points] >= enough
        return math.sqrt(float(squares[core].min())) / self.eps if core.any() else math.inf

    def _squares(self, vector: Floats) -> Floats:
        """The squared distances from all points: |x|^2 - 2 x y + |y|^2, which loses nothing that matters beside eps."""
        known = min(len(vector), len(self._vectors))
        squares = vector[:known] @ self._vectors[:known, : self.points]
        squares *= -2.0
        squares += self._squared[: self.points]
        squares += float(vector @ vector)
        return np.asarray(np.maximum(squares, 0.0, out=squares))

    def learn(self, ts: float, vector: Floats, *, outlier: bool) -> None:
        """Take a point in. `outlier` is whether it was out of line when it came; `ts` in seconds."""
        self._make_room(len(vector))
        self._settle(ts)
        if self.points == self.size:
            self._drop(self._next)
        at = self._next
        self._next = (at + 1) % self.size
        self.points = max(self.points, at + 1)
        self._seen += 1
        self._vectors[: len(vector), at] = vector
        self._vectors[len(vector) :, at] = 0.0
        self._squared[at] = float(vector @ vector)
        self._counts[at] = False
        self._neighbours[at] = 0
        if outlier:
            self._doubted.append((ts, at))
        if not math.isnan(self.eps):
            near = self._squares(self._vectors[:, at]) <= self.eps * self.eps
            near[at] = False
            self._neighbours[at] = 1 + int(np.count_nonzero(near & self._counts[: self.points]))
            if not outlier:
                self._neighbours[: self.points][near] += 1
        self._counts[at] = not outlier
        if self._seen >= self._estimate_at:
            self._estimate()

    def _settle(self, ts: float) -> None:
        """Let those count that were out of line long ago."""
        while self._doubted and ts - self._doubted[0][0] >= self.settle_s:
            _, at = self._doubted.pop(0)
            self._counts[at] = True
            if not math.isnan(self.eps):
                near = self._squares(self._vectors[:, at]) <= self.eps * self.eps
                near[at] = False
                self._neighbours[: self.points][near] += 1

    def _drop(self, at: int) -> None:
        if self._counts[at]:
            if not math.isnan(self.eps):
                self._neighbours[: self.points][self._squares(self._vectors[:, at]) <= self.eps * self.eps] -= 1
            self._counts[at] = False
        elif self._doubted and self._doubted[0][1] == at:
            self._doubted.pop(0)

    def _make_room(self, dimensions: int) -> None:
        known, room = self._vectors.shape
        if room < self.size and self._next >= room:
            more = min(max(2 * room, 256), self.size) - room
            self._vectors = np.pad(self._vectors, ((0, 0), (0, more)))
            self._squared = np.pad(self._squared, (0, more))
            self._neighbours = np.pad(self._neighbours, (0, more))
            self._counts = np.pad(self._counts, (0, more))
        if known < dimensions:
            self._vectors = np.pad(self._vectors, ((0, dimensions - known), (0, 0)))

    def _estimate(self) -> None:
        """Estimate eps anew, and count all neighbours by it."""
        few = self._seen < self.size
        self._estimate_at = self._seen + max(self._seen if few else int(self.size * _ANEW), 1)
        if self._given is None:
            points, enough = self._vectors[:, : self.points].T, self._enough()
            estimates = [estimated_eps(points, enough, smallest=self.smallest_eps * _ALIKE)]
            # What was out of line says little of what is usual, unless it is most of all.
            usual = points[self._counts[: self.points]]
            if enough <= len(usual) and 2 * len(usual) > len(points):
                estimates.append(estimated_eps(usual, enough, smallest=self.smallest_eps * _ALIKE))
            self.eps = max(min(estimates), self.smallest_eps)
            self._neighbours = self._counted()

    def _counted(self) -> NDArray[np.int64]:
        """The number of neighbours of all points, itself included."""
        found = np.zeros(len(self._neighbours), dtype=np.int64)
        vectors, squared = self._vectors[:, : self.points], self._squared[: self.points]
        counts = self._counts[: self.points]
        for begin in range(0, self.points, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            squares = vectors[:, block].T @ vectors
            squares *= -2.0
            squares += squared[block, None]
            squares += squared
            near = squares <= self.eps * self.eps
            near[np.arange(len(near)), np.arange(begin, begin + len(near))] = False
            found[begin : begin + len(near)] = 1 + np.count_nonzero(near & counts, axis=1)
        return found

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "eps": self.eps,
            "next": self._next,
            "seen": self._seen,
            "estimate_at": self._estimate_at,
            "points": self.points,
            "dimensions": len(self._vectors),
            "vectors": self._vectors[:, : self.points].flatten(),
            "squared": self._squared[: self.points].copy(),
            "neighbours": self._neighbours[: self.points].copy(),
            "counts": self._counts[: self.points].astype(np.int64),
            "doubted_ts": [ts for ts, _ in self._doubted],
            "doubted": [at for _, at in self._doubted],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
        points, dimensions = int(state["points"]), int(state["dimensions"])
        vectors = np.array(state["vectors"], dtype=np.float64)
        if points > self.size or vectors.size != points * dimensions:
            expected = f"{points} points of {dimensions} dimensions, at most {self.size}"
            raise ValueError(f"density: vectors: expected {expected}, got {vectors.size} numbers")
        self.eps = float(state["eps"])
        self.points, self._next = points, int(state["next"])
        self._seen, self._estimate_at = int(state["seen"]), int(state["estimate_at"])
        self._vectors = vectors.reshape(dimensions, points)
        self._squared = np.array(state["squared"], dtype=np.float64)
        self._neighbours = np.array(state["neighbours"], dtype=np.int64)
        self._counts = np.array(state["counts"], dtype=np.int64).astype(np.bool_)
        self._doubted = [(float(ts), int(at)) for ts, at in zip(state["doubted_ts"], state["doubted"], strict=True)]
