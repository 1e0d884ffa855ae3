"""The scores of one frame: its lasting anomalies, and their ranking."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.contract import Open
from laggard.operators.lasting.evidence import RECORDED, recorded
from laggard.operators.lasting.state import NOTICED, SCALES, YOUNG_S, State, places_of
from laggard.operators.ranking import FeatureScore, Ranking, RowScore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.lasting.quantities import Quantities
    from laggard.operators.lasting.state import Anomaly

    Matrix = NDArray[np.floating]
    Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The scores of one frame.

    Attributes:
        ts: the time of the frame, seconds since the Unix epoch.
        layout: its rows and features.
        state: the state after it.
        quantities: the evaluated quantities.

    """

    ts: float
    layout: Layout
    state: State
    quantities: Quantities

    @property
    def score(self) -> float:
        """The score of the frame, above 1 while an anomaly lasts."""
        return self.state.score

    @property
    def suspicion(self) -> float:
        """The share of the level of notices that the worst unit without an anomaly reaches."""
        return self._nearest()[0] / NOTICED

    def suspect(self, features: int | None = None) -> tuple[RowScore, float] | None:
        """Return the row of this unit and the estimated time of its onset; None if nothing is suspicious."""
        share, nearest = self._nearest()
        if nearest is None:
            return None
        row = self._row(nearest, features, places_of(self.state))
        scale = share / nearest.score
        scored = tuple(replace(each, score=scale * each.score) for each in row.features)
        return replace(row, score=share, features=scored), nearest.onset_ts

    def _nearest(self) -> tuple[float, Anomaly | None]:
        found: tuple[float, Anomaly | None] = (0.0, None)
        names = {each.name for each in self.state.anomalies}
        for share, nearest in zip(self.state.near, self.state.nearest, strict=True):
            if nearest is not None and nearest.name not in names and share > found[0]:
                found = (share, nearest)
        return found

    @property
    def age_s(self) -> float:
        """The age of the model in seconds."""
        return self.ts - self.state.begin_ts

    @property
    def open(self) -> Mapping[str, Open]:
        """The open anomalies by their ids, in the order of their detection."""
        found = {each.id: Open(each.onset_ts, each.score, self._rows(each)) for each in self.state.anomalies}
        for each in self.state.accepted:
            found[each.id] = Open(each.onset_ts, each.score, self._rows(each), accepted=True)
        return found

    @property
    def frozen(self) -> Flags | None:
        """The rows of the frame that have an open anomaly, their own or their name's, shape (rows,); None if none."""
        return self._rows_of(self.state.anomalies)

    @property
    def accepted(self) -> Flags | None:
        """The rows of the frame whose anomaly became the new baseline at this tick; likewise."""
        return self._rows_of(self.state.accepted)

    def _rows_of(self, anomalies: Sequence[Anomaly]) -> Flags | None:
        if not anomalies:
            return None
        units = {(each.unit, each.is_row) for each in anomalies}
        pairs = zip(self.layout.rows, self.layout.names, strict=True)
        return np.array([(row, True) in units or (name, False) in units for row, name in pairs], bool)

    def ranking(self, rows: int | None = None, features: int | None = None) -> Ranking:
        """Rank the anomalies that last, worst first, each with the features of its unit, most unusual first."""
        lasting = sorted((each for each in self.state.anomalies if each.score > 1.0), key=lambda each: -each.score)
        places = places_of(self.state)
        found = tuple(self._row(each, features, places) for each in lasting[:rows])
        return Ranking(self.ts, self.score, found, self.age_s, self.age_s < 2.0 * YOUNG_S)

    def row(self, anomaly: str, features: int | None = None) -> RowScore:
        """Return the row of an anomaly, with its worst features. Raises `KeyError` if no anomaly has this id."""
        for each in (*self.state.anomalies, *self.state.accepted):
            if each.id == anomaly:
                return self._row(each, features, places_of(self.state))
        raise KeyError(anomaly)

    def leading(self) -> Mapping[str, RowScore]:
        """Return the worst anomaly of each row of the frame, by the id of the row."""
        found: dict[str, RowScore] = {}
        there, places = frozenset(self.layout.rows), places_of(self.state)
        for anomaly in self.state.anomalies:
            row = self._row(anomaly, None, places)
            if row.score > 1.0 and row.row in there and (row.row not in found or row.score > found[row.row].score):
                found[row.row] = row
        return found

    def _rows(self, anomaly: Anomaly) -> int:
        return 1 if anomaly.is_row else max(self.layout.names.count(anomaly.name), 1)

    def _row(self, anomaly: Anomaly, most: int | None, places: Mapping[tuple[str, bool], int]) -> RowScore:
        place, evidence = places[anomaly.unit, anomaly.is_row], self.state.evidence[anomaly.scale]
        newest = self.state.evidence[0].ring[-1, : len(self.quantities.levels), place]
        leading = self.quantities.level(anomaly.quantity)
        record = recorded(evidence.highest[:, place], evidence.second[:, place])
        found = []
        for level, value in enumerate(newest.tolist()):
            if not math.isfinite(value):
                continue
            mean, deviation = float(evidence.mean[level, place]), 1.25 * float(evidence.deviation[level, place])
            spread = deviation + RECORDED * float(record[level]) + 3.0 * float(self.quantities.resolution[level, 0])
            share = min(max((value - mean) / spread, 0.0) / SCALES[0].limit, 1.0)
            score = anomaly.score if level == leading else share * anomaly.score
            found.append(FeatureScore(self.quantities.levels[level], value, mean, deviation, score))
        found.sort(key=lambda each: (each.feature != self.quantities.levels[leading], -each.score))
        age_s = self.ts - max(float(self.state.units.first_ts[place]), self.state.begin_ts)
        row = anomaly.row
        if row not in self.layout.rows and anomaly.name in self.layout.names:
            row = self.layout.rows[self.layout.names.index(anomaly.name)]
        return RowScore(row, anomaly.name, anomaly.score, tuple(found[:most]), age_s)
