"""The statistics of all rows and features of a stream, while rows and features come and go."""

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
    """The state of all rows and features. The first ones are those of the last frame, in its order.

    So a stream with constant names is read and written through views, without look-ups. All matrices have the shape
    (features, rows): reductions over rows, or over the features of every row, are then contiguous.

    Attributes:
        rows: ids, those of the last frame first.
        names: one per row.
        features: names, those of the last frame first.
        first_ts: the time at which each row was first seen, seconds since the Unix epoch.
        last_ts: the time at which each row was last seen.
        feature_ts: the time at which each feature was last seen.
        usual: the baseline, learned with forgetting; the last seconds are not in it.
        waiting: the block of ticks before the open one, which is learned when the open one is complete.
        open: the block of the last ticks.
        evidence: the short mean of each cell, NaN before its first value.
        episodes: spikes above the baseline.

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
        """Return a bank without rows and features."""
        none = np.zeros(0)
        vectors = (none, none.copy(), none.copy())
        blocks = (Moments.empty(0, 0), Moments.empty(0, 0), Block.empty(0, 0))
        return cls((), (), (), *vectors, *blocks, np.zeros((0, 0)), Episodes.empty(0, 0))

    def freeze(self, rows: NDArray[np.bool_]) -> None:
        """Drop the waiting block of some of the first rows: their baselines stay."""
        (columns,) = np.nonzero(rows)
        weight, squares = self.waiting.weight.copy(), self.waiting.squares.copy()
        weight[:, columns] = squares[:, columns] = 0.0
        self.waiting = Moments(weight, self.waiting.mean, squares)

    def adopt(self, rows: NDArray[np.bool_]) -> None:
        """Make the last two blocks the baseline of some of the first rows. The open one must be settled."""
        (columns,) = np.nonzero(rows)
        recent = self.waiting.merged(self.open.moments(), 1.0)
        usual = [part.copy() for part in (self.usual.weight, self.usual.mean, self.usual.squares)]
        for part, block in zip(usual, (recent.weight, recent.mean, recent.squares), strict=True):
            part[:, columns] = block[:, columns]
        self.usual = Moments(*usual)
        self.freeze(rows)

    def turn(self, frozen: NDArray[np.bool_] | None, decay: float, episode_s: float | None = None) -> None:
        """Learn the waiting block, let the open one wait, and open a new one.

        Args:
            frozen: those of the first rows that are not learned; None for none.
            decay: the share of the baseline that is not forgotten.
            episode_s: the length of the block in seconds; None to learn spikes like any other value.

        """
        if frozen is not None:
            self.freeze(frozen)
        apart = None if episode_s is None else self.episodes.take(self.usual, self.waiting, episode_s)
        self.usual = self.usual.merged(self.waiting, decay, apart)
        self.waiting = self.open.moments()
        self.open = Block.empty(*self.open.weight.shape)

    def end_episodes(self, seconds: float) -> None:
        """Close the episodes that are over. `seconds` is the time since the last call."""
        self.episodes.close(seconds, self.waiting, self.usual.mean)

    def matrices(self) -> dict[str, Matrix]:
        """Return every matrix of the state by its name; each has the shape (features, rows)."""
        pairs = [(name, part) for name, parts in PARTS.items() for part in parts]
        found = {f"{name}_{part}": getattr(getattr(self, name), part) for name, part in pairs}
        return found | {"evidence": self.evidence}

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "rows": list(self.rows),
            "names": list(self.names),
            "features": list(self.features),
            **{name: getattr(self, name).copy() for name in VECTORS},
            **{name: matrix.copy() for name, matrix in self.matrices().items()},
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Bank:
        """Read a `snapshot`. Raises `ValueError` that names the part that does not fit."""
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
        """Make a bank of rows, names and features, of the three vectors of times, and of `matrices`."""
        parts = {name: [matrices[f"{name}_{part}"] for part in parts] for name, parts in PARTS.items()}
        blocks = (Moments(*parts["usual"]), Moments(*parts["waiting"]), Block(*parts["open"]))
        rows, row_names, features = (tuple(each) for each in names)
        return cls(rows, row_names, features, *vectors, *blocks, matrices["evidence"], Episodes(*parts["episodes"]))

    def begins_with(self, layout: Layout) -> bool:
        """Return whether the first rows and features are those of `layout` already.

        Forgetting must depend on the frames alone, not on whether equal names are the same object.
        """
        return (
            self.rows[: len(layout.rows)] == tuple(layout.rows)
            and self.names[: len(layout.rows)] == tuple(layout.names)
            and self.features[: len(layout.features)] == tuple(layout.features)
        )

    def aligned(self, layout: Layout, ts: float, keep_s: float, spare: int) -> Bank:
        """Return a copy whose first rows and features are those of `layout`, in its order.

        Args:
            layout: the names of the next frame. New rows and features start empty.
            ts: its time.
            keep_s: for how long absent rows and features are kept.
            spare: the most absent rows, and the most absent features, that are kept: those that were seen last.

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
"""The initial value of a new cell if it is not 0."""

VECTORS = ("first_ts", "last_ts", "feature_ts")


def _order(
    have: Sequence[str], want: Sequence[str], seen: Vector, since: float, spare: int
) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Return the names to keep, in their new order, and the present place of each; -1 for a new one."""
    index = {name: position for position, name in enumerate(have)}
    found = [index.pop(name, -1) for name in want]
    others = [position for position in index.values() if seen[position] >= since]
    if len(others) > spare:
        latest = sorted(others, key=lambda position: (-seen[position], position))[:spare]
        others = sorted(latest)
    positions = found + others
    names = tuple(want) + tuple(have[position] for position in others)
    return names, np.array(positions, dtype=np.intp)


def _moved(vector: Vector, source: NDArray[np.intp], fill: float) -> Vector:
    """Select entries by their present places; new ones get `fill`."""
    if vector.size == 0:
        return np.full(source.shape, fill)
    return np.where(source < 0, fill, vector[source])
