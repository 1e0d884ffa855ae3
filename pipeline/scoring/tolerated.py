"""The scores of a frame without the anomalies that people excused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laggard.operators.contract import LastingScores
from laggard.pipeline.explaining.causes import FIRM, causes
from laggard.pipeline.explaining.verdict import VERDICT_FEATURES, VERDICT_ROWS
from laggard.pipeline.scoring.stream import open_anomalies, score_of, suspicion_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.operators.contract import Open, Scores
    from laggard.operators.ranking import Ranking
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.core.records.outputs import Blame, Excuse


class Tolerated(LastingScores):
    """The scores of a frame without the anomalies that people excused. Everything else is as in `scores`.

    A published anomaly is not excused by its present size: it stays open until it ends.

    Parameters:
        scores: the scores of the operator.
        blame: returns the culprit of a ranking of them.
        excused: returns the feedback on anomalies with this culprit.
        anomalies: the open anomalies of the stream.
        host: whether the only row is the host itself, whose causes are excused one by one.

    Attributes:
        usual: the operator's own ids of the anomalies that people marked as usual.

    """

    __slots__ = ("_blame", "_excused", "_going_on", "_open", "_others", "_scores", "usual")

    def __init__(
        self,
        scores: Scores,
        blame: Callable[[Ranking], Blame | None],
        excused: Callable[[Blame | None], Excuse],
        anomalies: Anomalies,
        *,
        host: bool = False,
    ) -> None:
        self._scores, self._blame, self._excused = scores, blame, excused
        self._going_on = anomalies.of_score
        self._open: dict[str, Open] = {}
        self._others: Ranking | None = None
        self.usual: list[str] = []
        known = {each.own for each in anomalies.open}
        for own, each in open_anomalies(scores).items():
            excuse = "" if own in known else excused(blame(ranking_of(scores, own)))
            if not excuse:
                self._open[own] = each
            elif excuse == "usual":
                self.usual.append(own)
        self.sudden = score_of(scores)
        if self.sudden > 1.0:
            found = ranking_of(scores, "")
            self._others = self._without(without_causes(found, lambda each: excused(blame(each))) if host else found)
            self.sudden = min(self.sudden, self._others.score)
        self.suspicion = suspicion_of(scores)
        if self.suspicion > 1.0 and excused(blame(self.suspects(VERDICT_ROWS, VERDICT_FEATURES)[0])):
            self.suspicion = 0.0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
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
        """Return the ranking of the suspicious rows, see `LastingScores`."""
        if isinstance(self._scores, LastingScores):
            return self._scores.suspects(rows, features)
        return LastingScores.suspects(self, rows, features)

    def _without(self, ranking: Ranking) -> Ranking:
        """Return a ranking without the excused rows that lead it."""
        while ranking.rows and ranking.score > 1.0:
            blame = self._blame(ranking)
            if not self._excused(blame) or (
                blame is not None and self._going_on is not None and self._going_on.name == blame.name
            ):
                break
            name = ranking.rows[0].name if blame is None else blame.name
            rows = tuple(each for each in ranking.rows if each.name != name)
            if len(rows) == len(ranking.rows):  # the culprit is no row of the ranking
                rows = ranking.rows[1:]
            ranking = replace(ranking, rows=rows, score=rows[0].score if rows else 0.0)
        return ranking


def ranking_of(scores: Scores, own: str, rows: int = VERDICT_ROWS, features: int = VERDICT_FEATURES) -> Ranking:
    """Return the ranking of an anomaly that the operator keeps open itself, otherwise of the frame.

    By default it has enough rows and features to judge it.
    """
    if isinstance(scores, LastingScores):
        return scores.about(own, rows, features)
    return scores.ranking(rows=rows, features=features)


def without_causes(found: Ranking, excused: Callable[[Ranking], Excuse]) -> Ranking:
    """Return the ranking of a host, which has one row, without the counters of excused causes.

    It is empty unless another cause stands out.
    """
    while found.rows and found.score > 1.0 and (host_causes := causes(found.rows[0])):
        if not excused(found):
            return found
        row, cause = found.rows[0], host_causes[0]
        others = tuple(each for each in row.features if each.feature != cause.feature.feature)
        found = replace(found, rows=(replace(row, features=others),))
        if not any(each.feature.score >= FIRM for each in causes(found.rows[0])):
            break
    else:
        return found
    return replace(found, rows=(), score=0.0)
