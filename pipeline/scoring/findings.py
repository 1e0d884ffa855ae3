"""Findings in the scores of frames: the records of anomalies and notices as they open and continue."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from laggard.operators.contract import LastingScores
from laggard.pipeline.alarms.anomalies import OpenAnomaly
from laggard.pipeline.alarms.courses import followed, followed_by_operator, opening
from laggard.pipeline.core.engine.stage import error_text
from laggard.pipeline.core.records.outputs import frame_id
from laggard.pipeline.scoring.stream import open_anomalies, score_of
from laggard.pipeline.scoring.tolerated import ranking_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.operators.contract import Scores
    from laggard.operators.ranking import Ranking
    from laggard.pipeline.core.bus import Incoming
    from laggard.pipeline.core.engine.stage import Output
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.core.records.outputs import Blame
    from laggard.pipeline.scoring.narrator import Narrator
    from laggard.pipeline.scoring.outcomes import Outcomes
    from laggard.pipeline.scoring.stream import Stream
    from laggard.pipeline.scoring.wired import Wired


class Findings:
    """Publishes the anomalies and notices of streams.

    Parameters:
        wired: the operator.
        narrator: describes its scores.
        outcomes: publishes how anomalies and notices end.
        outputs: the outputs of the task, to which the records are added.
        calm_s: the time for which a score must stay at 1 or below until its anomaly ends, in seconds.
        is_live: returns whether a record is about the present.
        refuse: rejects the frame of a record, for a reason.

    """

    def __init__(
        self,
        wired: Wired,
        narrator: Narrator,
        outcomes: Outcomes,
        outputs: list[Output],
        *,
        calm_s: float,
        is_live: Callable[[Incoming], bool],
        refuse: Callable[[Incoming, Frame, str], None],
    ) -> None:
        self._name = wired.name
        self._narrator = narrator
        self._outcomes = outcomes
        self._outputs = outputs
        self._calm_s = calm_s
        self._is_live = is_live
        self._refuse = refuse

    def open(  # noqa: PLR0917 - the parts of an anomaly
        self, record: Incoming, stream: Stream, frame: Frame, scores: Scores, before: Frame | None, own: str = ""
    ) -> bool:
        """Open an anomaly, and publish it.

        Args:
            record: the record of the frame.
            stream: its stream, which has accepted it.
            frame: the frame.
            scores: its scores.
            before: the frame before.
            own: the operator's id of an anomaly that it keeps open; empty for one by the score of the stream.

        Returns:
            Whether it could be published.

        """
        began_ts = open_anomalies(scores)[own].onset_ts if own else frame.ts
        opened = OpenAnomaly(frame_id(self._name, frame, own), began_ts, self._is_live(record), own=own)
        published = False
        try:
            found = ranking_of(scores, own)
            blame = self._narrator.blame(scores, found, frame)
            opened = opened.blaming(blame)
            anomaly = self._narrator.anomaly(opened, frame, scores, found, blame)
            if not own and (more := self._narrator.beside(found, frame, before)):
                anomaly = replace(anomaly, sentence=f"{anomaly.sentence} {more}")
            self._outputs.append(anomaly)
            published = True
            stream.courses = (*stream.courses, opening(anomaly, own))
        except Exception as error:  # noqa: BLE001 - an operator's error must not stop the partition
            self._refuse(record, frame, f"an anomaly that cannot be reported: {error_text(error)}")
        stream.anomalies = stream.anomalies.opening(opened)
        return published

    def notice(self, record: Incoming, stream: Stream, frame: Frame, scores: Scores, suspicion: float) -> None:
        """Publish a notice of a suspicious frame, and its end when the stream is calm or has an anomaly."""
        fires, notices = stream.anomalies.notices.after(frame.ts, suspicion)
        if notices is stream.anomalies.notices:
            return
        stream.anomalies = stream.anomalies._replace(notices=notices)
        if (open_ := notices.open) is not None:
            became = next((each.id for each in stream.courses if each.blames(open_.blame)), "")
            if became or notices.trigger.armed:
                self._outcomes.end_notice(frame.key, frame.scope, stream, frame.ts, became)
        elif fires and score_of(scores) <= 1.0 and isinstance(scores, LastingScores):
            try:
                notice = self._narrator.notice(frame, scores, suspicion, live=self._is_live(record))
            except Exception as error:  # noqa: BLE001 - see above
                self._refuse(record, frame, f"a notice that cannot be reported: {error_text(error)}")
                return
            if not any(each.blames(notice.blame) for each in stream.courses):
                self._outputs.append(notice)
                stream.anomalies = stream.anomalies._replace(notices=notices.opening(opening(notice)))

    def follow(self, record: Incoming, stream: Stream, frame: Frame, scores: Scores) -> None:
        """Publish the progress of the anomalies that opened before this frame."""

        def rank(own: str = "") -> tuple[Ranking, Blame | None] | None:
            try:
                found = ranking_of(scores, own)
                return found, self._narrator.blame(scores, found, frame)
            except Exception as error:  # noqa: BLE001 - see above
                self._refuse(record, frame, f"progress that cannot be reported: {error_text(error)}")
                return None

        of_score = stream.anomalies.of_score
        going_on = "" if of_score is None else of_score.id
        left, updates = followed(stream.courses, frame.ts, score_of(scores), going_on, rank, calm_s=self._calm_s)
        if any(course.own for course in left):
            left, more = followed_by_operator(left, frame.ts, open_anomalies(scores), lambda own: partial(rank, own))
            updates += more
        stream.courses = left
        for each in updates:
            if each.change == "ended" and not each.course.own:
                stream.close(each.course.id)
            sentence = (
                ""
                if each.ranking is None
                else self._narrator.finding_sentence(scores, each.ranking, frame, each.course.own)
            )
            self._outputs.append(self._outcomes.progress(each, frame.key, frame.scope, frame.ts, sentence))
