"""Units of evaluation: a name with all its rows together, and each row of a name that has several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]
    Places = NDArray[np.intp]

LARGEST: Final = 1e140
"""Larger values count as missing: sums of them would overflow."""

SPARE_NAMES: Final = 1024
"""The most names that are remembered while they have no row."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """All units of a stream: first the names of the frame, then absent names, then rows.

    An absent name uses nothing, and that is known of it. So a program that starts for the first time has a baseline.

    Attributes:
        names: names of rows.
        rows: ids of the rows whose name has several in the frame.
        present: the number of names that are in the frame.
        first_ts: when each unit was first seen, seconds since the Unix epoch; -inf from the first frame on.
        joined_ts: when a row last joined each unit; likewise.
        seen_ts: when each absent unit was last seen.
        frame_rows: ids of all rows of the frame, in its order.
        frame_names: the name of each of these rows.

    """

    names: tuple[str, ...]
    rows: tuple[str, ...]
    present: int
    first_ts: Vector
    joined_ts: Vector
    seen_ts: Vector
    frame_rows: tuple[str, ...]
    frame_names: tuple[str, ...]

    @classmethod
    def none(cls) -> Units:
        """No units: the state before the first frame."""
        return cls((), (), 0, np.zeros(0), np.zeros(0), np.zeros(0), (), ())

    def __len__(self) -> int:
        return len(self.names) + len(self.rows)

    def match(self, layout: Layout) -> bool:
        """Compare the units with a layout."""
        return self.frame_rows == tuple(layout.rows) and self.frame_names == tuple(layout.names)

    def aligned(self, layout: Layout, ts: float, last: float) -> tuple[Units, Places]:
        """Return the units of the next frame.

        Args:
            layout: the names of the next frame.
            ts: its time, seconds since the Unix epoch; -inf for the first frame.
            last: the time of the previous frame.

        Returns:
            The units, and the previous place of each; -1 for a new one.

        """
        found = _by_name(layout)
        before = {name: place for place, name in enumerate(self.names)}
        rows_before = {row: len(self.names) + place for place, row in enumerate(self.rows)}
        seen_ts = self.seen_ts.copy()
        seen_ts[: self.present] = last
        seen_ts[len(self.names) :] = last
        away = [name for name in self.names if name not in found]
        if len(away) > SPARE_NAMES:
            latest = sorted(away, key=lambda name: -seen_ts[before[name]])[:SPARE_NAMES]
            away = sorted(latest, key=before.__getitem__)
        names = (*found, *away)
        rows = tuple(layout.rows[place] for places in found.values() if len(places) > 1 for place in places)
        source = np.array(
            [*(before.get(name, -1) for name in names), *(rows_before.get(row, -1) for row in rows)], np.intp
        )
        known = frozenset(self.frame_rows)
        joined = [any(layout.rows[place] not in known for place in places) for places in found.values()]
        joined += [False] * len(away) + [row not in known for row in rows]
        first_ts = picked(self.first_ts, source, ts)
        joined_ts = np.where(joined, ts, picked(self.joined_ts, source, ts))
        seen_ts = picked(seen_ts, source, ts)
        units = Units(names, rows, len(found), first_ts, joined_ts, seen_ts, tuple(layout.rows), tuple(layout.names))
        return units, source

    def snapshot(self) -> dict[str, Any]:
        """Return a copy as plain data."""
        return {
            "names": list(self.names),
            "rows": list(self.rows),
            "present": self.present,
            "frame_rows": list(self.frame_rows),
            "frame_names": list(self.frame_names),
            **{name: getattr(self, name).copy() for name in _TIMES},
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Units:
        """Read a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        names, rows = tuple(state["names"]), tuple(state["rows"])
        times = [np.array(state[name], np.float64) for name in _TIMES]
        for name, found in zip(_TIMES, times, strict=True):
            if found.shape != (len(names) + len(rows),):
                raise ValueError(f"{name}: expected {len(names) + len(rows)} times, got {found.size}")
        first_ts, joined_ts, seen_ts = times
        frame = tuple(state["frame_rows"]), tuple(state["frame_names"])
        return cls(names, rows, int(state["present"]), first_ts, joined_ts, seen_ts, *frame)


_TIMES: Final = ("first_ts", "joined_ts", "seen_ts")


class Sums:
    """Sums of features over the rows of each unit, for frames of one layout.

    Attributes:
        name_of: for each unit that is a row, the place of its name.
        places: for each name of the frame, the places of its rows.

    """

    def __init__(self, units: Units, layout: Layout, features: Sequence[str]) -> None:
        self.places = tuple(_by_name(layout).values())
        self._size = len(units)
        self._names = len(units.names)
        self._order = np.array([place for places in self.places for place in places], np.intp)
        self._starts = np.cumsum([0, *map(len, self.places)])[:-1].astype(np.intp)
        several = [number for number, places in enumerate(self.places) if len(places) > 1]
        self._own = np.array([place for number in several for place in self.places[number]], np.intp)
        self.name_of = np.array([number for number in several for _ in self.places[number]], np.intp)
        there = list(layout.features)
        self._lines = [number for number, feature in enumerate(features) if feature in there]
        self._columns = [there.index(features[number]) for number in self._lines]
        self._features = len(features)

    def of(self, values: Matrix) -> tuple[Matrix, Matrix]:
        """Return the sums and a mask of the known ones (1 or 0), both of shape (features, units).

        `values` has the shape (rows, features).
        """
        mine = values[:, self._columns].T
        known = np.abs(mine) <= LARGEST
        clean = np.where(known, mine, 0.0)
        sums, there = np.zeros((2, self._features, self._size))
        there[self._lines, len(self.places) : self._names] = 1.0
        if self.places:
            first = slice(len(self.places))
            sums[self._lines, first] = np.add.reduceat(clean[:, self._order], self._starts, axis=1)
            there[self._lines, first] = np.maximum.reduceat(known[:, self._order], self._starts, axis=1)
        sums[self._lines, self._names :] = clean[:, self._own]
        there[self._lines, self._names :] = known[:, self._own]
        return sums, there


def picked(matrix: Matrix, source: Places, fill: float) -> Matrix:
    """Select units along the last axis by their previous places; new ones (-1) get `fill`."""
    if matrix.shape[-1] == 0:
        return np.full((*matrix.shape[:-1], len(source)), fill)
    found: Matrix = matrix[..., source]
    found[..., source < 0] = fill
    return found


def _by_name(layout: Layout) -> dict[str, list[int]]:
    """Group the places of rows by name, in the order of the frame."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(layout.names):
        found.setdefault(name, []).append(place)
    return found
