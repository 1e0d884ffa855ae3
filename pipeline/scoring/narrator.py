"""The narration of a frame: its culprit, its sentences and its records."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from laggard.pipeline.alarms.anomalies import blamed
from laggard.pipeline.alarms.progress import ANOMALY_FEATURES, ANOMALY_ROWS
from laggard.pipeline.core.records.outputs import Anomaly, Notice, frame_id
from laggard.pipeline.explaining.short_lived import just_begun, listed, matter
from laggard.pipeline.explaining.text import lasting_sentence, sentence, suspicion_sentence
from laggard.pipeline.explaining.verdict import VERDICT_FEATURES, VERDICT_ROWS, narrowed, verdict_of
from laggard.pipeline.scoring.scopes import HOST
from laggard.pipeline.scoring.stream import open_anomalies, score_of
from laggard.pipeline.scoring.tolerated import Tolerated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.contract import LastingScores, Scores
    from laggard.operators.ranking import Ranking
    from laggard.pipeline.alarms.anomalies import Anomalies, OpenAnomaly
    from laggard.pipeline.alarms.tolerance import Tolerance
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.core.records.outputs import Blame, Excuse
    from laggard.pipeline.scoring.wired import Wired


class Narrator:
    """Describes the scores of frames: here of processes, hosts, and rows of any other scope.

    Parameters:
        wired: the operator.

    """

    def __init__(self, wired: Wired) -> None:
        self._wired = wired

    def blame(self, scores: Scores, found: Ranking, frame: Frame) -> Blame | None:  # noqa: ARG002 - others need all
        """Return the culprit, by the scores of a frame and their ranking; None for none."""
        return blamed(found, frame.scope)

    def finding_sentence(self, scores: Scores, found: Ranking, frame: Frame, own: str) -> str:
        """Return the sentence on an anomaly; `own` is the operator's own id of it, if it has one."""
        if (ongoing := open_anomalies(scores).get(own)) is None:
            return self.sentence(scores, found, frame)
        return lasting_sentence(found, commands_of(frame), frame.scope, frame.ts - ongoing.onset_ts, rows=ongoing.rows)

    def sentence(self, scores: Scores, found: Ranking, frame: Frame) -> str:  # noqa: ARG002 - as above
        """Return the sentence on an anomaly of the score of a frame."""
        return sentence(found, commands_of(frame), frame.scope)

    def beside(self, found: Ranking, frame: Frame, before: Frame | None) -> str:
        """Return a further sentence for an anomaly that opens: on processes that are not in the frame `before`."""
        if before is None or not matter(verdict_of(found), None) or not (begun := just_begun(before, frame)):
            return ""
        return f"Processes that have just begun: {listed(begun)}."

    def anomaly(
        self, opened: OpenAnomaly, frame: Frame, scores: Scores, found: Ranking, blame: Blame | None
    ) -> Anomaly:
        """Return the record of an anomaly that opens."""
        ranking = narrowed(found, ANOMALY_ROWS, ANOMALY_FEATURES)
        ongoing = open_anomalies(scores).get(opened.own)
        return Anomaly(
            id=opened.id,
            operator=self._wired.name,
            parameters=self._wired.parameters,
            keyed_by=frame.keyed_by,
            key=frame.key,
            ts=frame.ts,
            score=score_of(scores) if ongoing is None else ongoing.score,
            ranking=ranking,
            sentence=self.finding_sentence(scores, found, frame, opened.own),
            model_age_s=ranking.age_s,
            young=ranking.young,
            live=opened.live,
            scope=frame.scope,
            blame=blame,
            onset_ts=math.nan if ongoing is None else ongoing.onset_ts,
        )

    def notice(self, frame: Frame, scores: LastingScores, suspicion: float, *, live: bool) -> Notice:
        """Return the record of a notice that opens."""
        found, onset_ts = scores.suspects(VERDICT_ROWS, VERDICT_FEATURES)
        ranking = narrowed(found, ANOMALY_ROWS, ANOMALY_FEATURES)
        return Notice(
            id=frame_id(self._wired.name, frame, "notice"),
            operator=self._wired.name,
            parameters=self._wired.parameters,
            keyed_by=frame.keyed_by,
            key=frame.key,
            ts=frame.ts,
            score=suspicion,
            ranking=ranking,
            sentence=suspicion_sentence(found, commands_of(frame), frame.scope, frame.ts - onset_ts),
            model_age_s=ranking.age_s,
            young=ranking.young,
            live=live,
            scope=frame.scope,
            blame=blamed(found, frame.scope),
            onset_ts=onset_ts,
            change="opened",
            opened_ts=frame.ts,
            until_ts=frame.ts,
        )

    def feedback_on(self, tolerance: Tolerance, frame: Frame) -> Tolerance:
        """Return the feedback that can apply to a frame: that on its key and its rows."""
        return tolerance.at(frame.ts, (frame.key, *frame.layout.names))

    def tolerated(self, scores: Scores, frame: Frame, tolerance: Tolerance, anomalies: Anomalies) -> Tolerated:
        """Return the scores without the anomalies that people excused."""

        def blame(ranking: Ranking) -> Blame | None:
            return self.blame(scores, ranking, frame)

        def excused(each: Blame | None) -> Excuse:
            return tolerance.excused(each, frame.ts)

        return Tolerated(scores, blame, excused, anomalies, host=frame.scope == HOST)


def commands_of(frame: Frame) -> Mapping[str, str]:
    """Return the command lines of a frame by the ids of their rows."""
    return dict(zip(frame.layout.rows, frame.layout.commands, strict=False))
