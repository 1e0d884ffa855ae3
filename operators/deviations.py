"""Rows that deviate from their baseline, suddenly or for long: the Gaussian and lasting evidence as one operator."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from laggard.operators.contract import LastingScores
from laggard.operators.gaussian.versions import MIGRATIONS as OF_GAUSSIAN
from laggard.operators.lasting.state import SCALES
from laggard.operators.ranking import Ranking

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.operators.contract import Layout, Open
    from laggard.operators.gaussian import Gaussian
    from laggard.operators.gaussian import Scores as Sudden
    from laggard.operators.gaussian.detector import Matrix
    from laggard.operators.lasting import Lasting
    from laggard.operators.lasting.scores import Scores as Lasts
    from laggard.operators.lasting.series import Series, SeriesScores
    from laggard.operators.ranking import RowScore

LASTING: Final = 2.0 / 3.0
"""The share of the budget that is for anomalies that last."""


class Deviations:
    """Detector of rows that deviate from their baseline: for seconds (`Gaussian`), and for minutes (`Lasting`).

    An anomaly that lasts belongs to one row, or to one name. Several may be open at once. Neither part learns its rows
    until it ends. So the baseline stays that from before the onset, and a ranking names the culprit an hour later.

    References: S0, sections 3 and 4, and those of `Lasting`.

    Parameters:
        gaussian: judges the last seconds.
        lasting: judges the last minutes; None for the published method alone.
        false_alarms_per_day: the budget of both together, which may change at any time: `lasting` has `LASTING` of it
            if it judges any feature of the frame.

    """

    state_version: ClassVar[int] = 4

    def __init__(
        self, gaussian: Gaussian, lasting: Lasting | Series | None = None, *, false_alarms_per_day: float = 1.0
    ) -> None:
        self.gaussian = gaussian
        self.lasting = lasting
        self.false_alarms_per_day = false_alarms_per_day
        # Derived from the state and the last frame; never part of a snapshot.
        self._scored: tuple[Sudden, Scores] | None = None

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Score a frame. `values` has the shape (rows, features). The state does not change."""
        self._divide(layout)
        sudden = self.gaussian.score(ts, layout, values)
        if self._scored is None or self._scored[0] is not sudden:
            lasting = None if self.lasting is None else self.lasting.score(ts, layout, values)
            self._scored = sudden, Scores(sudden, lasting)
        return self._scored[1]

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a frame. Raises `ValueError` if the shape of `values` does not fit the names."""
        scores = self.score(ts, layout, values)
        self._scored = None
        if self.lasting is not None:
            self.lasting.learn(ts, layout, values)
        self.gaussian.learn(ts, layout, values, frozen=scores.frozen, accepted=scores.accepted)

    def adopt(self, anomaly: str) -> None:
        """Treat an open anomaly as normal from now on, see `Lasting.adopt`."""
        if self.lasting is not None:
            self.lasting.adopt(anomaly)
            self._scored = None

    def _divide(self, layout: Layout) -> None:
        """Divide the budget between both parts."""
        budget, share = self.false_alarms_per_day, 0.0
        if self.lasting is not None and self.lasting.judges(layout):
            share = LASTING
            self.lasting.false_alarms_per_day = share * budget
        self.gaussian.false_alarms_per_day = (1.0 - share) * budget

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        lasting = None if self.lasting is None else self.lasting.snapshot()
        return {"gaussian": self.gaussian.snapshot(), "lasting": lasting}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self.gaussian.restore(state["gaussian"])
        # Older states have no lasting part: it begins empty.
        if self.lasting is not None and state["lasting"] is not None:
            self.lasting.restore(state["lasting"])
        self._scored = None


class Scores(LastingScores):
    """The scores of one frame.

    Attributes:
        of_gaussian: those of the last seconds.
        of_lasting: those of the last minutes; None without.
        frozen: the rows with an open anomaly, shape (rows,); None if there are none.
        accepted: the rows whose anomaly became the new baseline at this tick, likewise.
        sudden: the score of all other rows, of the last seconds: above 1 is anomalous.
        suspicion: how suspicious these rows are: above 1 is a notice.

    """

    __slots__ = ("_suspicion", "accepted", "frozen", "of_gaussian", "of_lasting")

    def __init__(self, of_gaussian: Sudden, of_lasting: Lasts | SeriesScores | None) -> None:
        self.of_gaussian = of_gaussian
        self.of_lasting = of_lasting
        self.frozen = None if of_lasting is None else of_lasting.frozen
        self.accepted = None if of_lasting is None else of_lasting.accepted
        self.sudden = of_gaussian.level.score(of_gaussian.worst_without(self.frozen, self.accepted))
        self._suspicion = self.sudden / of_gaussian.level.notice
        lasts = 0.0 if of_lasting is None else of_lasting.suspicion
        self.suspicion = max(self._suspicion, lasts)

    @property
    def score(self) -> float:
        """The score of the frame: above 1 is anomalous."""
        lasting = self.of_lasting
        return max(self.of_gaussian.score, 0.0 if lasting is None else lasting.score)

    @property
    def open(self) -> Mapping[str, Open]:
        """The open anomalies that last, by their ids, in the order of their detection."""
        return {} if self.of_lasting is None else self.of_lasting.open

    def ranking(self, rows: int | None = None, features: int | None = None) -> Ranking:
        """Rank the rows, worst first, and the features of each; its score is that of the first row.

        A row with an open anomaly has at least the score of that, and is led by its feature.
        """
        found = self.of_gaussian.ranking(rows, features)
        if self.of_lasting is None:
            return found
        if self.frozen is None:
            return replace(found, score=found.rows[0].score if found.rows else self.score)
        leading = dict(self.of_lasting.leading())
        ranked = [_led(row, leading.pop(row.row, None), features) for row in found.rows]
        ranked += [replace(row, features=row.features[:features]) for row in leading.values()]
        ranked.sort(key=lambda row: -row.score)
        return replace(found, score=ranked[0].score if ranked else self.score, rows=tuple(ranked[:rows]))

    def about(self, anomaly: str, rows: int, features: int) -> Ranking:
        """Rank what an anomaly is about: its row first, then the rows that wait.

        If `anomaly` is empty, rank all rows without an open anomaly. Raises `KeyError` if no anomaly of this id is
        open.
        """
        if not anomaly:
            return self._others(rows, features)
        if self.of_lasting is None:
            raise KeyError(anomaly)
        first = self.of_lasting.row(anomaly, features)
        others = (row for row in self.of_gaussian.ranking(rows, features).rows if row.waits and row.row != first.row)
        given = self.of_gaussian
        return Ranking(given.ts, first.score, (first, *others)[:rows], given.age_s, given.young)

    def suspects(self, rows: int, features: int) -> tuple[Ranking, float]:
        """Rank the rows without an open anomaly, the one that `suspicion` is about first; see `LastingScores`."""
        found = self._others(rows, features)
        suspect = None
        if self.suspicion > self._suspicion and self.of_lasting is not None:
            suspect = self.of_lasting.suspect(features)
        if suspect is None:
            return found, math.nan
        first, onset_ts = suspect
        others = (row for row in found.rows if row.row != first.row)
        return replace(found, score=first.score, rows=(first, *others)[:rows]), onset_ts

    def _others(self, rows: int, features: int) -> Ranking:
        found = self.of_gaussian.ranking(rows, features)
        masks = [rows for rows in (self.frozen, self.accepted) if rows is not None]
        if not masks:
            return found
        ids = self.of_gaussian.layout.rows
        known = {ids[place] for rows in masks for place in np.flatnonzero(rows).tolist()}
        others = [row for row in found.rows if row.row not in known]
        share = self.sudden / others[0].score if others and others[0].score > 0.0 else 1.0
        return replace(found, score=self.sudden, rows=tuple(replace(row, score=row.score * share) for row in others))


def _led(row: RowScore, by: RowScore | None, features: int | None) -> RowScore:
    """Return a row of the Gaussian's ranking, led by the worst feature of its open anomaly."""
    if by is None or not by.features:
        return row
    leading = by.features[0]
    if row.features:
        leading = replace(leading, score=max(leading.score, row.features[0].score))
    others = (each for each in row.features if each.feature != leading.feature)
    return replace(row, score=max(row.score, by.score), features=(leading, *others)[:features])


def _wrapped(state: dict[str, Any]) -> dict[str, Any]:
    """Migrate version 2, which had the state of the Gaussian alone."""
    return {"gaussian": state, "lasting": None}


def _noticing(state: dict[str, Any]) -> dict[str, Any]:
    """Migrate version 3, without notices. None open before the next fit, or before a unit is near its limit again."""
    of_gaussian, lasting = state["gaussian"], state["lasting"]
    calibration = {**of_gaussian["calibration"], "notice": of_gaussian["calibration"]["limit"]}
    nothing = {"nearest": [None] * len(SCALES)}
    if lasting is not None and "groups" in lasting:
        lasting = {**lasting, "groups": [{**each, **nothing} for each in lasting["groups"]]}
    elif lasting is not None:
        lasting = {**lasting, **nothing}
    return {"gaussian": {**of_gaussian, "calibration": calibration}, "lasting": lasting}


MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {**OF_GAUSSIAN, 2: _wrapped, 3: _noticing}
"""Migrations by the version of a state: each makes that of the next version."""
