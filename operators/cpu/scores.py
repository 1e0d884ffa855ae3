"""The scores of a frame: the rows in an event, and how close the others are to one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.cpu.machine import State
from laggard.operators.cpu.measures import CONDITIONS
from laggard.operators.ranking import FeatureScore, Ranking, RowScore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.cpu.events import Event
    from laggard.operators.cpu.measures import ConditionName, Readings

    Vector = NDArray[np.float64]

ALMOST: Final = 0.99
"""The highest score in the state High."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The events at one frame; immutable.

    Attributes:
        ts: the time of the frame, seconds since the Unix epoch.
        layout: its rows and features.
        events: the events by condition and row id, including those in the state High; only conditions with any.
        readings: the readings of the frame, without smoothing.
        thresholds: the least reading that is high, by condition.
        duration_s: for how long use must be high, in seconds.
        age_s: for how long the operator has been running, in seconds.

    """

    ts: float
    layout: Layout
    events: Mapping[ConditionName, Mapping[str, Event]]
    readings: Readings
    thresholds: Mapping[ConditionName, float]
    duration_s: float
    age_s: float

    @property
    def score(self) -> float:
        """The score of the worst row: above 1 is an event, 0 is Normal."""
        return max((self._score(event) for found in self.events.values() for event in found.values()), default=0.0)

    def ranking(self, rows: int | None = None, features: int | None = None) -> Ranking:
        """Rank the rows, worst first: those in an event, those in the state High, then the others by their readings.

        The features of a row are its conditions: those of its events first, worst first.
        """
        by_row: dict[str, dict[ConditionName, Event]] = {}
        for condition, found in self.events.items():
            for row, event in found.items():
                by_row.setdefault(row, {})[condition] = event
        measured: dict[ConditionName, Vector] = {
            condition: reading
            for condition in self.thresholds
            if condition != "spikes" and (reading := CONDITIONS[condition].reading(self.readings)) is not None
        }
        near = [reading / self.thresholds[condition] for condition, reading in measured.items()]
        nearest = np.fmax.reduce(near, axis=0) if near else np.full(len(self.layout.rows), np.nan)
        places = {self.layout.rows[place]: place for place in np.argsort(-nearest, kind="stable").tolist()}
        order = sorted(by_row, key=lambda row: -max(map(self._score, by_row[row].values())))
        order += [row for row, place in places.items() if row not in by_row and math.isfinite(nearest[place])]
        ranked = [self._row(row, places.get(row), by_row.get(row, {}), measured, features) for row in order[:rows]]
        return Ranking(self.ts, self.score, tuple(ranked), self.age_s, young=False)

    def _score(self, event: Event) -> float:
        if event.state == State.HIGH:
            return min(event.lasted_s / self.duration_s, ALMOST)
        return 1.0 + event.mean

    def _row(
        self,
        row: str,
        place: int | None,
        events: Mapping[ConditionName, Event],
        measured: Mapping[ConditionName, Vector],
        features: int | None,
    ) -> RowScore:
        # Equal ones stay in the order of conditions.
        order = sorted(events, key=lambda condition: -self._score(events[condition]))
        ranked = [
            FeatureScore(
                feature=CONDITIONS[condition].name_in(self.layout),
                value=events[condition].value,
                mean=self.thresholds[condition],
                standard_deviation=math.nan,
                score=self._score(events[condition]),
                recent=events[condition].mean,
            )
            for condition in order
        ]
        if place is not None:
            normal = {
                condition: float(reading[place])
                for condition, reading in measured.items()
                if condition not in events and math.isfinite(reading[place])
            }
            ranked += [
                FeatureScore(
                    feature=CONDITIONS[condition].name_in(self.layout),
                    value=normal[condition],
                    mean=self.thresholds[condition],
                    standard_deviation=math.nan,
                    score=0.0,
                )
                for condition in sorted(normal, key=lambda each: -normal[each] / self.thresholds[each])
            ]
        worst = events[order[0]] if order else None
        name = worst.name if worst is not None else self.layout.names[place or 0]
        return RowScore(
            row=row,
            name=name,
            score=ranked[0].score,
            features=tuple(ranked[:features]),
            age_s=self.age_s if worst is None else max(self.ts - worst.begin_ts, 0.0),
            basis="threshold",
            gone_s=0.0 if worst is None else max(self.ts - worst.seen_ts, 0.0),
            phases=() if worst is None else tuple(each.phase() for each in worst.phases),
        )
