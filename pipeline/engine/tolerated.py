"""The scores of a frame without the anomalies that people excused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laggard.operators.contract import LastingScores
from laggard.pipeline.engine.stream import kept_by, score_of, suspicion_of
from laggard.pipeline.explaining.verdict import JUDGED_FEATURES, JUDGED_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.operators.contract import Open
    from laggard.operators.ranking import Ranking
    from laggard.pipeline.engine.stream import Scores
    from laggard.pipeline.records.outputs import Blame, Excuse


class Tolerated(LastingScores):
    """The scores of a frame without the anomalies that people excused. All else is as in `scores`.

    Parameters:
        scores: those of the operator.
        blame: who is to blame by a ranking of them.
        excused: what people said of an anomaly that blames this.

    Attributes:
        usual: the ids of the anomalies that the operator keeps open itself, and that people said to be usual.

    """

    __slots__ = ("_blame", "_excused", "_open", "_others", "_scores", "usual")

    def __init__(
        self,
        scores: Scores,
        blame: Callable[[Ranking], Blame | None],
        excused: Callable[[Blame | None], Excuse],
    ) -> None:
        self._scores, self._blame, self._excused = scores, blame, excused
        self._open: dict[str, Open] = {}
        self.usual: list[str] = []
        for own, each in kept_by(scores).items():
            said = excused(blame(ranking_of(scores, own)))
            if not said:
                self._open[own] = each
            elif said == "usual":
                self.usual.append(own)
        self.sudden, self._others = score_of(scores), None
        if self.sudden > 1.0:
            self._others = self._without(ranking_of(scores, ""))
            self.sudden = min(self.sudden, self._others.score)
        self.suspicion = suspicion_of(scores)
        if self.suspicion > 1.0 and excused(blame(self.suspects(JUDGED_ROWS, JUDGED_FEATURES)[0])):
            self.suspicion = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scores, name)

    @property
    def open(self) -> Mapping[str, Open]:
        """The open anomalies, in the order of their detection."""
        return self._open

    def about(self, anomaly: str, rows: int, features: int) -> Ranking:
        """Return the ranking of one anomaly, or of all rows without one; see `LastingScores`."""
        if anomaly or self._others is None:
            return ranking_of(self._scores, anomaly, rows, features)
        return self._others

    def suspects(self, rows: int, features: int) -> tuple[Ranking, float]:
        """Return the ranking of what is suspicious, see `LastingScores`."""
        if isinstance(self._scores, LastingScores):
            return self._scores.suspects(rows, features)
        return LastingScores.suspects(self, rows, features)

    def _without(self, found: Ranking) -> Ranking:
        """Return a ranking without the rows that are excused, as long as these lead it."""
        while found.rows and found.score > 1.0:
            blame = self._blame(found)
            if not self._excused(blame):
                break
            blamed = found.rows[0].row if blame is None else blame.row
            rows = tuple(each for each in found.rows if each.row != blamed)
            if len(rows) == len(found.rows):  # what it blames is no row of it
                rows = ()
            found = replace(found, rows=rows, score=rows[0].score if rows else 0.0)
        return found


def ranking_of(scores: Scores, own: str, rows: int = JUDGED_ROWS, features: int = JUDGED_FEATURES) -> Ranking:
    """Return the ranking of an anomaly that the operator keeps open itself, or else of the frame.

    By default with enough rows and features to judge it.
    """
    if isinstance(scores, LastingScores):
        return scores.about(own, rows, features)
    return scores.ranking(rows=rows, features=features)
