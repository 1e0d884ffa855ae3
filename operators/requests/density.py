"""The distance of a request from dense regions: DBSCAN's noise rule on a sliding window of requests."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.requests.outliers import estimated_eps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FIRST: Final = 100
"""The number of points that are learned before any is scored."""

DENSE_SHARE: Final = 0.05
"""The share of the points that makes a dense region while there are few points, ..."""

FEWEST: Final = 5
"""... and the least number of points that does."""

SETTLE_S: Final = 3600.0
"""An outlier counts as a neighbor after this time, in seconds: a fault must not become normal within minutes, and a
change must not be one for ever."""

_ALIKE: Final = 0.1
_ANEW: Final = 1.0  # the share of new points after which eps is estimated again
_BLOCK: Final = 512


class Density:
    """The last requests as points, and the dense regions among them (S4, section III.C).

    A point is a core point if at least m points, itself included, lie within eps. It is noise if it is not a core point
    and none lies within eps (Ester et al. 1996, definitions 2 and 6). So only neighbors are counted, and no clusters
    are grown. The score of a core point is 0, and that of any other point x

        min over core points c of |x - c| / eps

    which is above 1 for noise. The newest `size` points are kept with their numbers of neighbors, which are updated
    when a point comes or goes: O(size) time per point, O(size) memory.

    Before there are m / `DENSE_SHARE` points, this share of them makes a dense region. An outlier is not counted as a
    neighbor of others for `settle_s`.

    Parameters:
        eps: the radius; None to estimate it from the points, see `outliers.estimated_eps`: whenever their number has
            doubled, later when all of them are new.
        minimum_points: m, at least 1.
        size: the number of points that are kept.
        smallest_eps: the least estimate; a tenth of it is a negligible distance.
        settle_s: the time after which an outlier counts as a neighbor, in seconds.

    Attributes:
        eps: the present radius; NaN before the first estimate.
        points: the present number of points.

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
        self._vectors: Floats = np.empty((0, 0))  # one column each, for the fastest products with all of them
        self._squared: Floats = np.zeros(0)
        self._neighbours: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._counts: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._doubted: list[tuple[float, int]] = []

    @property
    def young(self) -> bool:
        """Whether there are fewer points than the rule needs."""
        return self.points < min(self.minimum_points / DENSE_SHARE, self.size / 2)

    def _enough(self) -> int:
        return max(min(self.minimum_points, max(FEWEST, int(self.points * DENSE_SHARE))), 1)

    def score(self, vector: Floats) -> float:
        """Return the distance of a point from dense regions, in units of eps; 0 inside, and while there are few points.

        `vector` has the shape (dimensions,). Earlier points are 0 in further dimensions.
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
        """Return the squared distances from all points: |x|^2 - 2 x y + |y|^2, exact enough for comparison with eps."""
        known = min(len(vector), len(self._vectors))
        squares = vector[:known] @ self._vectors[:known, : self.points]
        squares *= -2.0
        squares += self._squared[: self.points]
        squares += float(vector @ vector)
        return np.asarray(np.maximum(squares, 0.0, out=squares))

    def learn(self, ts: float, vector: Floats, *, outlier: bool) -> None:
        """Learn a point. `outlier`: whether it was one on arrival; `ts` is in seconds."""
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
        """Count the outliers that came long enough ago."""
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
        """Estimate eps again, and count all neighbors within it."""
        few = self._seen < self.size
        self._estimate_at = self._seen + max(self._seen if few else int(self.size * _ANEW), 1)
        if self._given is None:
            points, enough = self._vectors[:, : self.points].T, self._enough()
            estimates = [estimated_eps(points, enough, smallest=self.smallest_eps * _ALIKE)]
            # Outliers are left out of the estimate, unless most points are.
            usual = points[self._counts[: self.points]]
            if enough <= len(usual) and 2 * len(usual) > len(points):
                estimates.append(estimated_eps(usual, enough, smallest=self.smallest_eps * _ALIKE))
            self.eps = max(min(estimates), self.smallest_eps)
            self._neighbours = self._counted()

    def _counted(self) -> NDArray[np.int64]:
        """Return the number of neighbors of each point, itself included."""
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
        """Return a copy of the state as plain data."""
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
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
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
