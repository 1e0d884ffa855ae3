"""The anomalies of applications: the records of their opening, their progress and their end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from laggard.pipeline.alarms.anomalies import OpenAnomaly
from laggard.pipeline.alarms.courses import OVER_S, followed, opening
from laggard.pipeline.alarms.progress import ANOMALY_FEATURES, ANOMALY_ROWS, progress
from laggard.pipeline.alarms.tolerance import end_excused
from laggard.pipeline.core.records.outputs import Anomaly, frame_id
from laggard.pipeline.methods.applications.intervals import PERFORMANCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.ranking import Ranking
    from laggard.pipeline.alarms.courses import Update
    from laggard.pipeline.alarms.tolerance import Tolerance
    from laggard.pipeline.core.engine.stage import Output
    from laggard.pipeline.core.records.outputs import Blame, Parameter
    from laggard.pipeline.methods.applications.application import Application
    from laggard.pipeline.methods.applications.intervals import Interval
    from laggard.pipeline.methods.applications.text import ScoredInterval


class Outcomes:
    """Publishes the anomalies of applications.

    Parameters:
        name: the name of the operator.
        parameters: its parameters.
        outputs: the outputs of the task, to which the records are added.

    """

    def __init__(self, name: str, parameters: Mapping[str, Parameter], outputs: list[Output]) -> None:
        self._name = name
        self._parameters = parameters
        self._outputs = outputs

    def open(self, key: str, one: Application, interval: Interval, judged: ScoredInterval) -> None:
        """Open and publish an anomaly."""
        identity = frame_id(self._name, interval.frame)
        blame = judged.blame()
        ranking = judged.ranking(ANOMALY_ROWS, ANOMALY_FEATURES)
        anomaly = Anomaly(
            id=identity,
            operator=self._name,
            parameters=self._parameters,
            keyed_by="application",
            key=key,
            ts=interval.ts,
            score=judged.score,
            ranking=ranking,
            sentence=judged.sentence(),
            model_age_s=ranking.age_s,
            young=ranking.young,
            live=interval.live,
            scope=PERFORMANCE,
            blame=blame,
        )
        self._outputs.append(anomaly)
        one.courses = (*one.courses, opening(anomaly))
        one.anomalies = one.anomalies.opening(OpenAnomaly(identity, interval.ts, interval.live).blaming(blame))

    def follow(self, key: str, one: Application, judged: ScoredInterval) -> None:
        """Publish the progress of the anomalies that opened before this interval."""

        def rank() -> tuple[Ranking, Blame | None]:
            return judged.ranking(ANOMALY_ROWS, ANOMALY_FEATURES), judged.blame()

        open_now = one.anomalies.of_score
        going_on = "" if open_now is None else open_now.id
        one.courses, updates = followed(one.courses, judged.ts, judged.score, going_on, rank, calm_s=OVER_S)
        for each in updates:
            if each.change == "ended":
                one.close(each.course.id)
            self._progress(each, key, judged.ts, "" if each.ranking is None else judged.sentence())

    def end(self, key: str, one: Application) -> None:
        """Publish the end of all anomalies of an application, which cannot be observed any longer."""
        since_ts = one.scored_ts
        for course in one.courses:
            self._progress(course.ended(), key, since_ts, silent_since_ts=since_ts)

    def excuse(self, key: str, one: Application, tolerance: Tolerance) -> None:
        """Publish the end of the anomalies that a person excused."""
        one.courses, ended = end_excused(one.courses, tolerance, one.scored_ts)
        ids = {update.course.id for update in ended}
        one.tolerance = tolerance.grown([each for each in one.anomalies.open if each.id in ids])
        for update in ended:
            self._progress(update, key, one.scored_ts)
        for identity in ids:
            one.close(identity)

    def _progress(
        self, update: Update, key: str, ts: float, sentence: str = "", *, silent_since_ts: float = math.nan
    ) -> None:
        self._outputs.append(
            progress(
                update,
                self._name,
                self._parameters,
                key=key,
                scope=PERFORMANCE,
                ts=ts,
                sentence=sentence,
                silent_since_ts=silent_since_ts,
            )
        )
