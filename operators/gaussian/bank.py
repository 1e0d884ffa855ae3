"""Where each row and feature of a stream keeps its statistics, while rows and features come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from laggard.operators.gaussian.episodes import NONE, Episodes
from laggard.operators.gaussian.moments import Block, Moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]


@dataclass(slots=True)
class Bank:
    """The state of all rows and features, its first rows and features in the order of the frame last seen.

    A stream whose names stay the same is then read and written through views, without any look-up. All matrices have
    the shape (features, rows): what is asked of each feature, or of all features of each row, then runs along memory.

    Attributes:
        rows: ids, those of the last frame first.
        names: one per row.
        features: those of the last frame first.
        first_ts: when each row was first seen, seconds since the Unix epoch.
        last_ts: when each row was last seen.
        feature_ts: when each feature was last seen.
        usual: what is usual: learned with forgetting, and not from the last seconds.
        waiting: the block of ticks before the open one: complete, to be learned when the open one is.
        open: the block of ticks that is being filled.
        evidence: the short mean of each cell, NaN before its first value.
        episodes: what was beyond its usual.

    """

    rows: tuple[str, ...]
    names: tuple[str, ...]
    features: tuple[str, ...]
    first_ts: Vector
    last_ts: Vector
    feature_ts: Vector
    usual: Moments
    waiting: Moments
    open: Block
    evidence: Matrix
    episodes: Episodes

    @classmethod
    def empty(cls) -> Bank:
        """No rows, no features."""
        none = np.zeros(0)
        vectors = (none, none.copy(), none.copy())
        blocks = (Moments.empty(0, 0), Moments.empty(0, 0), Block.empty(0, 0))
        return cls((), (), (), *vectors, *blocks, np.zeros((0, 0)), Episodes.empty(0, 0))

    def freeze(self, rows: NDArray[np.bool_]) -> None:
        """Drop the block that waits for some of the first rows, which keep their baselines."""
        (columns,) = np.nonzero(rows)
        weight, squares = self.waiting.weight.copy(), self.waiting.squares.copy()
        weight[:, columns] = squares[:, columns] = 0.0
        self.waiting = Moments(weight, self.waiting.mean, squares)

    def adopt(self, rows: NDArray[np.bool_]) -> None:
        """Make the last blocks the baseline of some of the first rows; the open one is settled."""
        (columns,) = np.nonzero(rows)
        recent = self.waiting.merged(self.open.moments(), 1.0)
        usual = [part.copy() for part in (self.usual.weight, self.usual.mean, self.usual.squares)]
        for part, block in zip(usual, (recent.weight, recent.mean, recent.squares), strict=True):
            part[:, columns] = block[:, columns]
        self.usual = Moments(*usual)
        self.freeze(rows)

    def turn(self, frozen: NDArray[np.bool_] | None, decay: float, episode_s: float | None = None) -> None:
        """Learn the block that waits but for the `frozen` of the first rows, let the open one wait, and open a new one.

        What is usual is forgotten but for the share `decay`. `episode_s` is about how long the block is, None where
        what is far off is learned as it is.
        """
        if frozen is not None:
            self.freeze(frozen)
        apart = None if episode_s is None else self.episodes.take(self.usual, self.waiting, episode_s)
        self.usual = self.usual.merged(self.waiting, decay, apart)
        self.waiting = self.open.moments()
        self.open = Block.empty(*self.open.weight.shape)

    def end_episodes(self, seconds: float) -> None:
        """Take those that are over as such; so many seconds after this was last done."""
        self.episodes.close(seconds, self.waiting, self.usual.mean)

    def matrices(self) -> dict[str, Matrix]:
        """Every matrix of the state by its name; each has the shape (features, rows)."""
        pairs = [(name, part) for name, parts in PARTS.items() for part in parts]
        found = {f"{name}_{part}": getattr(getattr(self, name), part) for name, part in pairs}
        return found | {"evidence": self.evidence}

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "rows": list(self.rows),
            "names": list(self.names),
            "features": list(self.features),
            **{name: getattr(self, name).copy() for name in VECTORS},
            **{name: matrix.copy() for name, matrix in self.matrices().items()},
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Bank:
        """One from a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
        names = (state["rows"], state["names"], state["features"])
        shape = (len(names[2]), len(names[0]))
        lengths = {"first_ts": shape[1:], "last_ts": shape[1:], "feature_ts": shape[:1]}
        matrices = dict.fromkeys(cls.empty().matrices(), shape)
        arrays: dict[str, NDArray[Any]] = {}
        for name, expected in (lengths | matrices).items():
            arrays[name] = np.array(state[name], dtype=np.float32 if name in HEIGHTS else np.float64)
            if arrays[name].shape != expected:
                raise ValueError(f"{name}: expected the shape {expected}, got {arrays[name].shape}")
        if len(names[1]) != len(names[0]):
            raise ValueError(f"names: expected one per row, {len(names[0])}, got {len(names[1])}")
        vectors = tuple(arrays.pop(name) for name in VECTORS)
        return cls.of(names, (vectors[0], vectors[1], vectors[2]), arrays)

    @classmethod
    def of(
        cls,
        names: tuple[Sequence[str], Sequence[str], Sequence[str]],
        vectors: tuple[Vector, Vector, Vector],
        matrices: dict[str, NDArray[Any]],
    ) -> Bank:
        """Put one together from rows, names, features; from the three vectors of times; and from `matrices`."""
        parts = {name: [matrices[f"{name}_{part}"] for part in parts] for name, parts in PARTS.items()}
        blocks = (Moments(*parts["usual"]), Moments(*parts["waiting"]), Block(*parts["open"]))
        rows, row_names, features = (tuple(each) for each in names)
        return cls(rows, row_names, features, *vectors, *blocks, matrices["evidence"], Episodes(*parts["episodes"]))

    def begins_with(self, layout: Layout) -> bool:
        """Whether the first rows and features are those of `layout` already.

        What is forgotten must follow from the frames alone, and not from whether equal names are the same object.
        """
        return (
            self.rows[: len(layout.rows)] == tuple(layout.rows)
            and self.names[: len(layout.rows)] == tuple(layout.names)
            and self.features[: len(layout.features)] == tuple(layout.features)
        )

    def aligned(self, layout: Layout, ts: float, keep_s: float, spare: int) -> Bank:
        """A copy whose first rows and features are those of `layout`, in its order.

        At most `spare` rows and as many features that are not in it are kept, while they were seen in the `keep_s`
        before `ts`; those seen last first. New ones start empty.
        """
        rows, row_from = _order(self.rows, layout.rows, self.last_ts, ts - keep_s, spare)
        features, feature_from = _order(self.features, layout.features, self.feature_ts, ts - keep_s, spare)
        row_new, feature_new = row_from < 0, feature_from < 0
        named = list(layout.names) + [self.names[index] for index in row_from[len(layout.rows) :]]
        picked = np.ix_(feature_from, row_from)

        def moved(matrix: Matrix, fill: float) -> Matrix:
            if matrix.size == 0:
                return np.full((len(features), len(rows)), fill, matrix.dtype)
            result = np.ascontiguousarray(matrix[picked])
            result[feature_new] = fill
            result[:, row_new] = fill
            return result

        return Bank.of(
            (rows, named, features),
            (
                _moved(self.first_ts, row_from, ts),
                _moved(self.last_ts, row_from, ts),
                _moved(self.feature_ts, feature_from, ts),
            ),
            {name: moved(matrix, NEW.get(name, 0.0)) for name, matrix in self.matrices().items()},
        )


MOMENTS = ("weight", "mean", "squares")
PARTS = {
    "usual": MOMENTS,
    "waiting": MOMENTS,
    "open": ("weight", "first", "total", "squares"),
    "episodes": ("running", "highest", "second", "limited_s"),
}
HEIGHTS = {f"episodes_{part}" for part in PARTS["episodes"]}
NEW = {"evidence": np.nan, **{f"episodes_{part}": float(NONE) for part in ("running", "highest", "second")}}
"""What a new cell begins with where that is not 0."""

VECTORS = ("first_ts", "last_ts", "feature_ts")


def _order(
    have: Sequence[str], want: Sequence[str], seen: Vector, since: float, spare: int
) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """What to keep and in which order, and where each stands now (-1: it is new)."""
    index = {name: position for position, name in enumerate(have)}
    found = [index.pop(name, -1) for name in want]
    others = [position for position in index.values() if seen[position] >= since]
    if len(others) > spare:
        latest = sorted(others, key=lambda position: (-seen[position], position))[:spare]
        others = sorted(latest)
    positions = found + others
    kept = tuple(want) + tuple(have[position] for position in others)
    return kept, np.array(positions, dtype=np.intp)


def _moved(vector: Vector, source: NDArray[np.intp], fill: float) -> Vector:
    """Pick entries; what is new gets `fill`."""
    if vector.size == 0:
        return np.full(source.shape, fill)
    return np.where(source < 0, fill, vector[source])
