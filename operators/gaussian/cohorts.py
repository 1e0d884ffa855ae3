"""Earlier instances of a name at the same age: the baseline of a new one that has no past of its own.

In S0 (section 5, case study 3) every process of a machine was anomalous just after booting. Here a start is compared
with earlier starts. So a restart, a deployment or a boot is not an anomaly by itself, but a start unlike the others is.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laggard.operators.gaussian.moments import Moments
from laggard.operators.gaussian.namesakes import NAMESAKES, OWN_VALUES, Namesakes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.gaussian.bank import Bank
    from laggard.operators.ranking import Basis

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

STAGES_S = (4.0, 16.0, 64.0, 256.0, 1024.0)
"""The ages at which the stages of a row's life end, each four times as long as the one before. Then it is grown."""

INSTANCES = 20.0
"""The effective number of instances in the record of a name."""

MAX_NAMES = 128
"""The most names, and names with their command, that are remembered: those seen last."""

NEW_GAP_S = 600.0
"""A row that is first seen after a longer gap may be old: nothing is learned about its start."""

LONGEST_COMMAND = 80
ANY = ""


class Young(NamedTuple):
    """The rows that are not grown, in the order of the frame.

    Attributes:
        rows: their ids.
        keys: the keys under which each is recorded, the most specific first.
        born: the time at which each was first seen, seconds since the Unix epoch; shape (rows,).
        stage: the index of the stage of each at the last tick; shape (rows,).
        peak: the highest value of each feature in that stage, NaN for none; shape (features, rows).

    """

    rows: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    born: Vector
    stage: NDArray[np.intp]
    peak: Matrix

    def picked(self, these: Sequence[int] | NDArray[np.intp]) -> Young:
        """Return some of them."""
        return Young(
            tuple(self.rows[number] for number in these),
            tuple(self.keys[number] for number in these),
            self.born[these],
            self.stage[these],
            self.peak[:, these],
        )


@dataclass(frozen=True, slots=True)
class Followed:
    """The young rows of a frame, as they are once it is learned.

    Attributes:
        features: the features of the frame.
        young: the rows that are in it.
        columns: the place of each of them in the frame.
        ended: the rows that are no longer in it.

    """

    features: tuple[str, ...]
    young: Young
    columns: NDArray[np.intp]
    ended: Young


class Prior(NamedTuple):
    """The assumed past of rows without one.

    Attributes:
        columns: the places of these rows in the frame.
        moments: the moments of each; shape (features, rows).
        bases: what these are the moments of.

    """

    columns: NDArray[np.intp]
    moments: Moments
    bases: tuple[Basis, ...]


class Cohorts:
    """The highest values of earlier instances in each stage of their lives, by name and by name with command.

    The largest short mean of a feature within a stage is one value. It is recorded at the end of the stage, so that a
    bad start does not become its own baseline.

    Memory: 120 bytes per feature for each of at most `MAX_NAMES` keys, and 8 bytes per feature of a young row.

    Attributes:
        features: the features of the values.
        young: the rows that are not grown.

    """

    def __init__(self) -> None:
        self.features: tuple[str, ...] = ()
        self.young = _none(0)
        self._known: dict[str, Matrix] = {}
        self._seen: dict[str, float] = {}

    def follow(self, layout: Layout, ts: float, fresh: Sequence[int], gap_s: float) -> Followed:
        """Find the young rows in a frame. The state does not change.

        Args:
            layout: the names of the frame.
            ts: its time.
            fresh: the places of rows that were never seen before.
            gap_s: the time since the last frame, NaN for the first one.

        """
        features = tuple(layout.features)
        before = self.young._replace(peak=_remapped(self.young.peak, self.features, features, axis=0))
        index = {row: number for number, row in enumerate(before.rows)}
        new = set(fresh) if 0.0 <= gap_s <= NEW_GAP_S else ()
        columns = [column for column, row in enumerate(layout.rows) if row in index or column in new]
        rows = tuple(layout.rows[column] for column in columns)
        source = np.array([index.get(row, -1) for row in rows], np.intp)
        there = set(rows)
        ended = np.array([number for row, number in index.items() if row not in there], np.intp)
        old = source >= 0
        born, stage = np.full(len(rows), ts), np.zeros(len(rows), np.intp)
        born[old], stage[old] = before.born[source[old]], before.stage[source[old]]
        peaks = np.full((len(features), len(rows)), np.nan)
        peaks[:, old] = before.peak[:, source[old]]
        commands = layout.commands
        keys = tuple(
            before.keys[index[row]]
            if row in index
            else _keys(layout.names[column], commands[column] if commands else "")
            for row, column in zip(rows, columns, strict=True)
        )
        return Followed(
            features,
            Young(rows, keys, born, stage, peaks),
            np.array(columns, np.intp),
            before.picked(ended),
        )

    def learn(self, followed: Followed, ts: float, evidence: Matrix) -> Followed:
        """Learn a frame. `evidence` has the shape (features, rows).

        Returns:
            The rows that are still young; the argument itself if no row has left its stage or ended.

        """
        if not (followed.young.rows or followed.ended.rows) and self.features == followed.features:
            return followed
        if self.features != followed.features:
            self._known = {
                key: _remapped(each, self.features, followed.features, 2) for key, each in self._known.items()
            }
            self.features = followed.features
        for number in range(len(followed.ended.rows)):
            self._take(followed.ended, number, ts)
        young, columns = followed.young, followed.columns
        stage = _stage(young.born, ts)
        older = np.flatnonzero(stage != young.stage)
        for number in older.tolist():
            self._take(young, number, ts)
            young.peak[:, number] = np.nan
        self._forget()
        young.stage[:] = stage
        np.fmax(young.peak, evidence[:, columns], out=young.peak)
        if not (older.size or followed.ended.rows):
            self.young = young
            return followed
        grown = stage >= len(STAGES_S)
        if grown.any():
            still_young = np.flatnonzero(~grown)
            young = young.picked(still_young)
            columns = columns[still_young]
        self.young = young
        return Followed(followed.features, young, columns, _none(len(followed.features)))

    def _take(self, young: Young, number: int, ts: float) -> None:
        """Record the stage that a row has left, by its end or by its age."""
        peak = young.peak[:, number]
        there = ~np.isnan(peak)
        if not there.any():
            return
        stage = young.stage[number]
        for key in (*young.keys[number], ANY):
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = np.zeros((len(STAGES_S), 3, len(peak)))
            weight, mean, squares = known[stage]
            decay = np.where(there & (weight >= INSTANCES), (INSTANCES - 1.0) / INSTANCES, 1.0)
            weight *= decay
            squares *= decay
            weight += there
            deviation = np.where(there, peak - mean, 0.0)
            step = deviation / np.maximum(weight, 1.0)
            mean += step
            squares += deviation * (deviation - step)
            self._seen[key] = ts

    def _forget(self) -> None:
        if len(self._known) > MAX_NAMES:
            oldest = sorted(self._seen, key=lambda key: (key == ANY, self._seen[key], key))
            for key in oldest[: len(self._known) - MAX_NAMES]:
                del self._known[key], self._seen[key]

    def prior(self, followed: Followed, bank: Bank, ts: float) -> Prior | None:
        """Return the assumed past of the rows with fewer than `OWN_VALUES` of their own; None if there are none."""
        rows, features = len(followed.columns), len(followed.features)
        own = bank.usual.weight[:features, followed.columns].max(axis=0, initial=0.0)
        unsure = [number for number in range(rows) if own[number] < OWN_VALUES]
        if not unsure:
            return None
        namesakes = Namesakes(bank, features)
        found, bases = np.zeros((3, features, len(unsure))), []
        stages = _stage(followed.young.born, ts)
        cached: dict[tuple[tuple[str, ...], int, str], tuple[Matrix, Basis]] = {}
        for place, number in enumerate(unsure):
            column, keys, stage = int(followed.columns[number]), followed.young.keys[number], int(stages[number])
            key = (keys, stage, bank.names[column])
            if key not in cached:
                cached[key] = self._past(keys, stage, bank.names[column], namesakes, followed.features)
            past, basis = cached[key]
            found[:, :, place] = past
            bases.append(basis)
        fading = 1.0 - own[unsure] / OWN_VALUES
        found[0] *= fading
        found[2] *= fading
        return Prior(followed.columns[unsure], Moments(found[0], found[1], found[2]), tuple(bases))

    def _past(
        self,
        keys: Sequence[str],
        stage: int,
        name: str,
        namesakes: Namesakes,
        features: tuple[str, ...],
    ) -> tuple[Matrix, Basis]:
        """Return weight, mean and squared deviations, shape (3, features), and what they are those of."""
        known = next((each for key in keys if (each := self._at(key, stage)) is not None), None)
        past = np.zeros((3, len(features)))
        instances = 0.0
        if known is not None:
            past = _remapped(known, self.features, features, axis=1)
            instances = float(past[0].max(initial=0.0))
        grown = namesakes.of(name, NAMESAKES * max(1.0 - instances / 5.0, 0.0))
        if grown is not None:
            merged = Moments(*past).merged(grown, 1.0)
            past = np.stack([merged.weight, merged.mean, merged.squares])
        if known is not None or grown is not None:
            return past, "name"
        starts = self._at(ANY, stage)
        if starts is None:
            return past, "all"
        return _remapped(starts, self.features, features, axis=1), "starts"

    def _at(self, key: str, stage: int) -> Matrix | None:
        known = self._known.get(key)
        if known is None or stage >= len(STAGES_S) or not known[stage, 0].any():
            return None
        at: Matrix = known[stage]
        return at

    @staticmethod
    def span(followed: Followed, ts: float) -> tuple[float, float]:
        """Return the begin and the end of the time for which all young rows are in their stages at `ts`."""
        born = followed.young.born
        stage = _stage(born, ts)
        began = born + np.array((-math.inf, *STAGES_S))[stage]
        ends = born + np.array((*STAGES_S, math.inf))[stage]
        return float(began.max(initial=-math.inf)), float(ends.min(initial=math.inf))

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        keys = sorted(self._known)
        shape = (len(keys), len(STAGES_S), 3, len(self.features))
        return {
            "features": list(self.features),
            "keys": keys,
            "seen": np.array([self._seen[key] for key in keys]),
            "known": np.array([self._known[key] for key in keys]).reshape(shape),
            "rows": list(self.young.rows),
            "row_keys": [list(each) for each in self.young.keys],
            "born": self.young.born.copy(),
            "stage": self.young.stage.astype(np.float64),
            "peak": self.young.peak.copy(),
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Cohorts:
        """Read a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        features, keys, rows = tuple(state["features"]), list(state["keys"]), tuple(state["rows"])
        expected = {
            "seen": (len(keys),),
            "known": (len(keys), len(STAGES_S), 3, len(features)),
            "born": (len(rows),),
            "stage": (len(rows),),
            "peak": (len(features), len(rows)),
        }
        arrays = {name: np.array(state[name], np.float64) for name in expected}
        for name, shape in expected.items():
            if arrays[name].shape != shape:
                raise ValueError(f"cohorts: {name}: expected the shape {shape}, got {arrays[name].shape}")
        if len(state["row_keys"]) != len(rows):
            raise ValueError(f"cohorts: row_keys: expected one per row, {len(rows)}, got {len(state['row_keys'])}")
        found = cls()
        found.features = features
        found.young = Young(
            rows,
            tuple(tuple(each) for each in state["row_keys"]),
            arrays["born"],
            arrays["stage"].astype(np.intp),
            arrays["peak"],
        )
        found._known = dict(zip(keys, arrays["known"].copy(), strict=True))
        found._seen = dict(zip(keys, arrays["seen"].tolist(), strict=True))
        return found


def _stage(born: Vector, ts: float) -> NDArray[np.intp]:
    return np.searchsorted(STAGES_S, ts - born, side="right")


def _keys(name: str, command: str) -> tuple[str, ...]:
    """Return the keys of a row: its name with its command, without numbers, which vary by instance; and its name."""
    program = re.sub(r"\d+", "#", command[:LONGEST_COMMAND])
    return (f"{name}\n{program}", name) if program and program != name else (name,)


def _none(features: int) -> Young:
    return Young((), (), np.zeros(0), np.zeros(0, np.intp), np.zeros((features, 0)))


def _remapped(array: Matrix, before: Sequence[str], after: Sequence[str], axis: int) -> Matrix:
    """Return the array with other features along an axis; new ones are 0, or NaN along the first axis."""
    if tuple(before) == tuple(after):
        return array
    index = {feature: number for number, feature in enumerate(before)}
    shape = list(array.shape)
    shape[axis] = len(after)
    result = np.full(shape, np.nan if axis == 0 else 0.0)
    both = [(number, index[feature]) for number, feature in enumerate(after) if feature in index]
    if both:
        to, source = map(list, zip(*both, strict=True))
        np.moveaxis(result, axis, 0)[to] = np.moveaxis(array, axis, 0)[source]
    return result
