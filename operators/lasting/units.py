"""Units of evaluation: a name with all its rows together, and each row of a name that has several."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout

    Matrix = NDArray[np.floating]
    Vector = NDArray[np.floating]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.intp]

LARGEST: Final = 1e30
"""Larger values count as missing: sums of them would overflow in single precision."""

SPARE_NAMES: Final = 1024
"""The most names that are remembered while they have no row."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """All units of a stream: first the names of the frame, then absent names, then rows.

    An absent name is known to use nothing. So a program that starts for the first time has a baseline.

    Attributes:
        names: names of rows.
        rows: ids of the rows whose name has several in the frame.
        present: the number of names that are in the frame.
        first_ts: when each unit was first seen, seconds since the Unix epoch; -inf from the first frame on.
        joined_ts: when a row last joined each unit; likewise, and once a new name has settled. Until then it is that of
            the first row.
        seen_ts: when each absent unit was last seen.
        frame_rows: ids of all rows of the frame, in its order.
        frame_names: the name of each of these rows.
        places: for each name of the frame, the places of its rows.

    """

    names: tuple[str, ...]
    rows: tuple[str, ...]
    present: int
    first_ts: Vector
    joined_ts: Vector
    seen_ts: Vector
    frame_rows: tuple[str, ...]
    frame_names: tuple[str, ...]
    places: tuple[Sequence[int], ...]

    @classmethod
    def none(cls) -> Units:
        """Return no units, as before the first frame."""
        return cls((), (), 0, np.zeros(0), np.zeros(0), np.zeros(0), (), (), ())

    def __len__(self) -> int:
        return len(self.names) + len(self.rows)

    def match(self, layout: Layout) -> bool:
        """Compare the units with a layout."""
        return self.frame_rows == tuple(layout.rows) and self.frame_names == tuple(layout.names)

    def unsettled(self) -> Flags:
        """Return the new names that run since they were first seen, shape (names,)."""
        first_ts = self.first_ts[: len(self.names)]
        found: Flags = np.isfinite(first_ts) & (self.joined_ts[: len(self.names)] == first_ts)
        return found

    def settled(self, places: Places) -> Units:
        """Return the same with these names settled: their level is their baseline."""
        joined_ts = self.joined_ts.copy()
        joined_ts[places] = -np.inf
        return replace(self, joined_ts=joined_ts)

    def aligned(self, layout: Layout, ts: float, last: float, spare: int) -> tuple[Units, Places]:
        """Return the units of the next frame.

        Args:
            layout: the names of the next frame.
            ts: its time, seconds since the Unix epoch; -inf for the first frame.
            last: the time of the previous frame.
            spare: the most absent names.

        Returns:
            The units, and the previous place of each; -1 for a new one.

        """
        found = _by_name(layout.names)
        before = {name: place for place, name in enumerate(self.names)}
        rows_before = {row: len(self.names) + place for place, row in enumerate(self.rows)}
        seen_ts = self.seen_ts.copy()
        seen_ts[: self.present] = last
        seen_ts[len(self.names) :] = last
        away = [name for name in self.names if name not in found]
        if len(away) > spare:
            latest = sorted(away, key=lambda name: -seen_ts[before[name]])[:spare]
            away = sorted(latest, key=before.__getitem__)
        names = (*found, *away)
        rows = tuple(layout.rows[place] for places in found.values() if len(places) > 1 for place in places)
        source = np.array(
            [*(before.get(name, -1) for name in names), *(rows_before.get(row, -1) for row in rows)], np.intp
        )
        known = frozenset(self.frame_rows)
        named = list(zip(layout.rows, layout.names, strict=True))
        came, stayed = {name for row, name in named if row not in known}, {name for row, name in named if row in known}
        # The rows of a new program may begin one by one: it settles after the first of them.
        unsettled = itertools.compress(self.names, self.unsettled().tolist())
        came.difference_update(stayed.intersection(unsettled))
        joined = [*(name in came for name in names), *(row not in known for row in rows)]
        new = np.flatnonzero(source < 0)
        first_ts = picked(self.first_ts, source, new, ts)
        joined_ts = np.where(joined, ts, picked(self.joined_ts, source, new, ts))
        seen_ts = picked(seen_ts, source, new, ts)
        frame = tuple(layout.rows), tuple(layout.names), tuple(found.values())
        return Units(names, rows, len(found), first_ts, joined_ts, seen_ts, *frame), source

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
        frame_rows, frame_names = tuple(state["frame_rows"]), tuple(state["frame_names"])
        frame = frame_rows, frame_names, tuple(_by_name(frame_names).values())
        return cls(names, rows, int(state["present"]), first_ts, joined_ts, seen_ts, *frame)


_TIMES: Final = ("first_ts", "joined_ts", "seen_ts")


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """The values of the current sub-block, of the rows of one layout. Arrays have the shape (rows, levels).

    Attributes:
        ticks: the number of ticks at which each level was a feature, shape (levels,).
        total: the sums of the values.
        missing: the number of these ticks at which a value was missing; None for none.

    """

    ticks: Vector
    total: Matrix
    missing: Matrix | None = None

    @classmethod
    def none(cls, rows: int, levels: int) -> Pending:
        """Return a sub-block without values."""
        return cls(np.zeros(levels), np.zeros((rows, levels)))

    def snapshot(self) -> dict[str, Any]:
        """Return a copy as plain data."""
        missing = None if self.missing is None else self.missing.copy()
        return {"ticks": self.ticks.copy(), "total": self.total.copy(), "missing": missing}

    @classmethod
    def restored(cls, state: dict[str, Any], rows: int, levels: int) -> Pending:
        """Read a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        none = cls.none(rows, levels)
        missing = None if state["missing"] is None else np.array(state["missing"], np.float64)
        found = cls(np.array(state["ticks"], np.float64), np.array(state["total"], np.float64), missing)
        for name in ("ticks", "total", "missing"):
            part, expected = getattr(found, name), getattr(none, "total" if name == "missing" else name).shape
            if part is not None and part.shape != expected:
                raise ValueError(f"{name}: expected the shape {expected}, got {part.shape}")
        return found


class Sums:
    """Sums over the rows of each unit, for frames with the same rows.

    Attributes:
        name_of: for each unit that is a row, the place of its name.
        places: for each name of the frame, the places of its rows.

    """

    def __init__(self, units: Units) -> None:
        self.places = units.places
        self._size = len(units)
        self._names = len(units.names)
        self._order = np.array([place for places in self.places for place in places], np.intp)
        self._starts = np.cumsum([0, *map(len, self.places)])[:-1].astype(np.intp)
        several = [number for number, places in enumerate(self.places) if len(places) > 1]
        self._own = np.array([place for number in several for place in self.places[number]], np.intp)
        self.name_of = np.array([number for number in several for _ in self.places[number]], np.intp)

    def of(self, pending: Pending) -> tuple[Matrix, Matrix]:
        """Return the sums of values and the number of ticks of each unit, both of shape (levels, units)."""
        sums = np.zeros((len(pending.ticks), self._size))
        ticks = np.repeat(pending.ticks[:, None], self._size, axis=1)
        total, missing = pending.total, pending.missing
        if missing is not None:
            # A row counts as if its missing values were like its others.
            there = pending.ticks - missing
            total = total * (pending.ticks / np.maximum(there, 1.0))
            known = there > 0.0
            if self.places:
                some = np.maximum.reduceat(known[self._order], self._starts, axis=0)
                ticks[:, : len(self.places)] *= some.T
            ticks[:, self._names :] *= known[self._own].T
        if self.places:
            sums[:, : len(self.places)] = np.add.reduceat(total[self._order], self._starts, axis=0).T
        sums[:, self._names :] = total[self._own].T
        return sums, ticks


class Columns:
    """The places of the levels among the features of a layout."""

    def __init__(self, layout: Layout, levels: Sequence[str]) -> None:
        there = {feature: column for column, feature in enumerate(layout.features)}
        self._lines = [number for number, level in enumerate(levels) if level in there]
        self._columns = np.array([there[levels[number]] for number in self._lines], np.intp)
        self._whole = len(self._lines) == len(levels)
        self._ticks = np.zeros(len(levels))
        self._ticks[self._lines] = 1.0

    def added(self, pending: Pending, values: Matrix, *, into: bool) -> Pending:
        """Add one tick, in place if `into`. `values` has the shape (rows, features)."""
        mine = values.take(self._columns, axis=1)
        if not self._whole:
            every = np.zeros((len(values), len(self._ticks)))
            every[:, self._lines] = mine
            mine = every
        missing = pending.missing
        # The fastest check that none is missing or too large.
        if not np.vdot(mine, mine) <= LARGEST**2:
            unknown = ~(np.abs(mine) <= LARGEST)
            mine = np.where(unknown, 0.0, mine)
            missing = unknown + (0.0 if missing is None else missing)
        if into:
            np.add(pending.total, mine, out=pending.total)
            np.add(pending.ticks, self._ticks, out=pending.ticks)
            return pending if missing is pending.missing else replace(pending, missing=missing)
        return Pending(pending.ticks + self._ticks, pending.total + mine, missing)


def picked(matrix: Matrix, source: Places, new: Places, fill: float) -> Matrix:
    """Select units along the last axis by their previous places; the `new` ones, whose place is -1, get `fill`."""
    if matrix.shape[-1] == 0:
        return np.full((*matrix.shape[:-1], len(source)), fill, matrix.dtype)
    found: Matrix = matrix.take(source, axis=-1)
    if new.size:
        found[..., new] = fill
    return found


def _by_name(names: Sequence[str]) -> dict[str, list[int]]:
    """Group the places of rows by name, in the order of the frame."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(name, []).append(place)
    return found
