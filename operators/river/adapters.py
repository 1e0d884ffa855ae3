"""Adapters of river's detectors to frames: one detector for whole rows, or one for each counter.

Their input is the rise of each counter above its baseline, from 0 (at the baseline or below) to 1.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from laggard.operators.river.plain import generators

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.river.blueprint import Blueprint

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]


class Scorer(Protocol):
    """Detectors of one stream with their state. `rises` has the shape (rows, features), NaN for missing values."""

    def rows(self, layout: Layout, rises: Matrix) -> Vector:
        """Return the raw score of each row; NaN if unknown."""

    def features(self, layout: Layout, row: int, rises: Vector) -> Vector:
        """Return the contribution of each feature of a row to its score; NaN for a missing value."""

    def learn(self, ts: float, layout: Layout, rises: Matrix) -> None:
        """Learn a frame."""

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`."""


class RowScorer:
    """A single detector for all rows of the stream, which scores the features of a row together.

    One detector per row would take 2 MB each (HalfSpaceTrees), and half an hour of warm-up. Rows are comparable since
    each is measured against its own baseline. The detector learns which rises occur together, which occur every minute
    in some row, and which never.

    The features of a detector are fixed at its start, so a new feature restarts it.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self._detector = blueprint.new()
        self._known: tuple[str, ...] = ()

    def rows(self, layout: Layout, rises: Matrix) -> Vector:
        """See `Scorer`."""
        if not self._known:
            return np.full(len(rises), np.nan)
        score, detector = self._blueprint.score, self._detector
        return np.array([score(detector, x) for x in self._inputs(layout, rises)], dtype=np.float64)

    def features(self, layout: Layout, row: int, rises: Vector) -> Vector:  # noqa: ARG002 - its rises say all
        """Return how much lower the score were with this feature at its baseline; at least 0."""
        found = np.full(len(rises), np.nan)
        if not self._known:
            return found
        (x,) = self._inputs(layout, rises[None, :])
        full_score = self._blueprint.score(self._detector, x)
        for at, feature in enumerate(layout.features):
            if not np.isnan(rises[at]):
                # A feature at its baseline contributes nothing.
                without = self._blueprint.score(self._detector, {**x, feature: 0.0}) if x.get(feature) else full_score
                found[at] = max(full_score - without, 0.0)
        return found

    def learn(self, ts: float, layout: Layout, rises: Matrix) -> None:  # noqa: ARG002 - it has no rows to forget
        """See `Scorer`."""
        if not layout.features:
            return
        if not set(layout.features) <= set(self._known):
            self._known = tuple(sorted(layout.features))
            self._detector = self._blueprint.new()
        for x in self._inputs(layout, rises):
            self._blueprint.learn(self._detector, x)

    def _inputs(self, layout: Layout, rises: Matrix) -> list[dict[str, float]]:
        """Yield each row in river's form: all features of the detector; missing ones are at their baselines."""
        index = {feature: at for at, feature in enumerate(layout.features)}
        usual = np.zeros((len(rises), 1))
        at = [index.get(feature, -1) for feature in self._known]
        values = np.hstack((np.nan_to_num(rises), usual))[:, at].tolist()
        return [dict(zip(self._known, row, strict=True)) for row in values]

    def snapshot(self) -> dict[str, Any]:
        """See `Scorer`."""
        return {"known": list(self._known), "detector": self._blueprint.parts.table(self._detector)}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Scorer`."""
        self._known = tuple(state["known"])
        self._detector = self._blueprint.parts.object_of(state["detector"])


class CounterScorer:
    """One detector per counter: for each feature of each row. The score of a row is the root mean square over features.

    A mean would hide one feature among 24 normal ones. The maximum would be equal in many rows, if scores end at 1.

    A detector that predicts gets the value of the tick before.

    Parameters:
        blueprint: makes the detectors.
        keep_s: for how long absent rows are remembered, in seconds.
        spare: the most absent rows that are remembered: those seen last.

    """

    def __init__(self, blueprint: Blueprint, keep_s: float, spare: int) -> None:
        self._blueprint = blueprint
        # New detectors are copies of this one. They share its random number generators, 2.5 kB each.
        self._first = blueprint.new()
        self._keep_s = keep_s
        self._spare = spare
        self._rows: dict[str, dict[str, list[Any]]] = {}  # the detector and the last value, by row and feature
        self._seen: dict[str, float] = {}  # the time of its last frame by row; the oldest first

    def rows(self, layout: Layout, rises: Matrix) -> Vector:
        """See `Scorer`."""
        found = np.full(len(rises), np.nan)
        for at, row in enumerate(layout.rows):
            if row in self._rows:
                scores = self.features(layout, at, rises[at])
                scores = scores[~np.isnan(scores)]
                found[at] = math.sqrt(float(scores @ scores) / len(scores)) if len(scores) else math.nan
        return found

    def features(self, layout: Layout, row: int, rises: Vector) -> Vector:
        """See `Scorer`."""
        found = np.full(len(rises), np.nan)
        detectors = self._rows.get(layout.rows[row], {})
        for at, (feature, rise) in enumerate(zip(layout.features, rises.tolist(), strict=True)):
            known = detectors.get(feature)
            if known is not None and not math.isnan(rise):
                found[at] = self._blueprint.score(known[0], {"before": known[1]}, rise)
        return found

    def learn(self, ts: float, layout: Layout, rises: Matrix) -> None:
        """See `Scorer`."""
        for row in layout.rows:
            self._seen.pop(row, None)
        gone = list(self._seen)
        for row in gone[: max(len(gone) - self._spare, 0)] + [
            row for row in gone if self._seen[row] < ts - self._keep_s
        ]:
            self._rows.pop(row, None)
            self._seen.pop(row, None)
        self._seen.update(dict.fromkeys(layout.rows, ts))
        features = set(layout.features)
        shared = generators(self._first)
        for row, values in zip(layout.rows, rises.tolist(), strict=True):
            detectors = self._rows.setdefault(row, {})
            for feature in detectors.keys() - features:
                del detectors[feature]
            for feature, rise in zip(layout.features, values, strict=True):
                if not math.isnan(rise):
                    known = detectors.get(feature)
                    if known is None:
                        new = copy.deepcopy(self._first, {id(each): each for each in shared})
                        known = detectors[feature] = [new, rise]
                    self._blueprint.learn(known[0], {"before": known[1]}, rise)
                    known[1] = rise

    def snapshot(self) -> dict[str, Any]:
        """See `Scorer`."""
        return {
            "detectors": self._blueprint.parts.table([self._first, self._rows]),
            "seen": list(self._seen),
            "seen_ts": np.array(list(self._seen.values()), dtype=np.float64),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See `Scorer`."""
        self._first, self._rows = self._blueprint.parts.object_of(state["detectors"])
        self._seen = dict(zip(state["seen"], np.asarray(state["seen_ts"]).tolist(), strict=True))
