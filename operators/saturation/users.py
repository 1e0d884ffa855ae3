"""The users of a host's resources, now and before: the programs of its processes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, get_args

import numpy as np

from laggard.operators.contract import check_shape
from laggard.operators.ranking import Ranking
from laggard.operators.saturation.conditions import known
from laggard.operators.saturation.results import Use, User

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]
    Indices = NDArray[np.intp]

USES: Final[tuple[Use, ...]] = get_args(Use)

FEATURES: Final[Mapping[Use, tuple[str, ...]]] = {
    "cpu": ("cpu_user_ratio", "cpu_system_ratio"),
    "memory": ("memory_rss_bytes",),
    "disk": ("io_read_bytes_per_s", "io_write_bytes_per_s"),
    "written": ("io_write_bytes_per_s",),
    "descriptors": ("descriptors",),
    "threads": ("threads",),
}
"""The features of a process whose sum is its use."""

NOW_S: Final = 15.0
BEFORE_S: Final = 900.0
"""The time constants of the means of a program's use now, and before, in seconds."""

MAX_NAMES: Final = 4096
"""The most programs. Beyond, those that have been gone for longest are forgotten."""


class Users:
    """The total use of the processes of each program: a mean over `NOW_S`, and one over `BEFORE_S`.

    Both are exponentially weighted. A program that begins later used nothing before. One without processes uses
    nothing, and is forgotten after `BEFORE_S`. Missing values (NaN) count as 0.

    Memory: 2 len(USES) + 1 numbers for each name.

    Example:
        >>> from types import SimpleNamespace
        >>> features = ("cpu_user_ratio", "cpu_system_ratio")
        >>> web = SimpleNamespace(rows=("web[1]",), names=("web",), features=features)
        >>> both = SimpleNamespace(rows=("web[1]", "hog[2]"), names=("web", "hog"), features=features)
        >>> users = Users()
        >>> users.learn(0.0, web, np.array([[0.1, 0.1]]))
        >>> for tick in range(1, 21):
        ...     users.learn(5.0 * tick, both, np.array([[0.1, 0.1], [0.9, 0.1]]))
        >>> for each in users.score(105.0, both, np.array([[0.1, 0.1], [0.9, 0.1]])).using("cpu"):
        ...     each.name, round(each.now, 2), round(each.before, 2)
        ('hog', 1.0, 0.11)
        ('web', 0.2, 0.2)

    """

    state_version: ClassVar[int] = 1

    def __init__(self) -> None:
        self._state = _State(math.nan, (), np.zeros((2, 0, len(USES))), np.zeros(0))
        # Derived from the last frame; never part of a snapshot.
        self._columns: _Columns | None = None
        self._scored: tuple[float, Matrix, UsersScores] | None = None

    def score(self, ts: float, layout: Layout, values: Matrix) -> UsersScores:
        """Return the use of each program. `values` has the shape (rows, features). The state does not change.

        Raises:
            ValueError: the shape of `values` does not fit the names.

        """
        if self._scored is not None and self._scored[0] == ts and self._scored[1] is values:
            return self._scored[2]
        check_shape(layout, values)
        if self._columns is None or self._columns.layout is not layout or self._columns.before is not self._state.names:
            self._columns = _Columns(layout, self._state.names)
        scores = UsersScores(ts, layout, self._columns, values, self._state)
        self._scored = ts, values, scores
        return scores

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a frame. Raises `ValueError` if the shape of `values` does not fit the names."""
        self._state = self.score(ts, layout, values).state
        self._scored = None

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        state = self._state
        return {
            "ts": state.ts,
            "names": list(state.names),
            "means": state.means.copy(),
            "seen_ts": state.seen_ts.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names what does not fit."""
        names, seen_ts = tuple(map(str, state["names"])), np.array(state["seen_ts"], float)
        means = np.array(state["means"], float)
        if means.shape != (expected := (2, len(names), len(USES))):
            raise ValueError(f"means: expected the shape {expected}, got {means.shape}")
        if seen_ts.shape != (len(names),):
            raise ValueError(f"seen_ts: expected one per name, got the shape {seen_ts.shape}")
        self._state = _State(float(state["ts"]), names, means, seen_ts)
        self._columns = self._scored = None


class _State(NamedTuple):
    """The state after a frame; immutable.

    Attributes:
        ts: the time of the frame, NaN before the first.
        names: the names of the programs.
        means: the use of each now, and before, shape (2, names, uses).
        seen_ts: the last time at which each had a process, shape (names,).

    """

    ts: float
    names: tuple[str, ...]
    means: NDArray[np.float64]
    seen_ts: Vector


class _Columns:
    """The features of a frame that are uses, and the programs of its rows.

    Attributes:
        layout: the layout of the frame.
        before: the names that were known before it.
        names: those and the frame's.
        places: the place of each row's name, shape (rows,).

    """

    def __init__(self, layout: Layout, before: tuple[str, ...]) -> None:
        self.layout = layout
        self.before = before
        at = {name: place for place, name in enumerate(before)}
        self.places: Indices = np.array([at.setdefault(name, len(at)) for name in layout.names], np.intp)
        self.names = before if len(at) == len(before) else tuple(at)
        columns = {feature: column for column, feature in enumerate(layout.features)}
        self._columns = [[columns[each] for each in FEATURES[use] if each in columns] for use in USES]

    def used(self, values: Matrix) -> Matrix:
        """Return the use of each row, shape (rows, uses)."""
        used = np.empty((len(values), len(USES)))
        for place, columns in enumerate(self._columns):
            used[:, place] = np.nansum(known(values[:, columns]), axis=1)
        return used


class UsersScores:
    """The use of each program at one frame. None is anomalous by itself.

    Attributes:
        state: the state after the frame.

    """

    score: ClassVar[float] = 0.0

    def __init__(self, ts: float, layout: Layout, columns: _Columns, values: Matrix, before: _State) -> None:
        self._ts = ts
        self._layout = layout
        self._columns = columns
        self._used = columns.used(values)
        self.state = self._after(before)

    def _after(self, before: _State) -> _State:
        names = self._columns.names
        used = np.zeros((len(names), len(USES)))
        np.add.at(used, self._columns.places, self._used)
        means, seen_ts = np.zeros((2, len(names), len(USES))), np.full(len(names), self._ts)
        first = math.isnan(before.ts)
        if first:
            means[:] = used
        else:
            means[:, : len(before.names)] = before.means
            passed_s = max(self._ts - before.ts, 0.0)
            for which, constant_s in enumerate((NOW_S, BEFORE_S)):
                means[which] -= math.expm1(-passed_s / constant_s) * (used - means[which])
        seen_ts[: len(before.names)] = before.seen_ts
        seen_ts[self._columns.places] = self._ts
        keep = np.flatnonzero(self._ts - seen_ts <= BEFORE_S)
        if len(keep) > MAX_NAMES:
            keep = np.sort(keep[np.argsort(-seen_ts[keep], kind="stable")[:MAX_NAMES]])
        if len(keep) < len(names):
            names, means, seen_ts = tuple(names[place] for place in keep.tolist()), means[:, keep], seen_ts[keep]
        return _State(self._ts, names, means, seen_ts)

    def ranking(self, rows: int | None = None, features: int | None = None) -> Ranking:  # noqa: ARG002 - as others
        """Return a ranking without rows: none is unusual."""
        return Ranking(self._ts, 0.0, (), 0.0, young=False)

    def total(self, use: Use) -> float:
        """Return the total use of all programs now, in base units."""
        return float(self.state.means[0, :, USES.index(use)].sum())

    def used_by(self, name: str, use: Use) -> float:
        """Return the use of the program with this name now, in base units; NaN if unknown."""
        if name not in self.state.names:
            return math.nan
        return float(self.state.means[0, self.state.names.index(name), USES.index(use)])

    def using(self, use: Use, most: int = 3) -> Sequence[User]:
        """Return the top consumers now, the greatest first."""
        column = USES.index(use)
        now, before = self.state.means[:, :, column]
        rows, names = self._layout.rows, np.asarray(self._layout.names, object)
        found = []
        for place in np.argsort(-now, kind="stable")[:most].tolist():
            name = self.state.names[place]
            own = np.flatnonzero(names == name)
            if now[place] > 0.0 and len(own):
                row = rows[int(own[np.argmax(self._used[own, column])])]
                found.append(User(name, row, len(own), float(now[place]), float(before[place])))
        return found
