"""Outcomes of anomalies and notices: the records of how those of a stream go on and end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from laggard.pipeline.alarms.anomalies import OpenAnomaly
from laggard.pipeline.alarms.courses import Update
from laggard.pipeline.alarms.progress import notice_ended, progress
from laggard.pipeline.alarms.tolerance import end_excused
from laggard.pipeline.scoring.stream import open_anomalies
from laggard.pipeline.scoring.tolerated import ranking_of

if TYPE_CHECKING:
    from laggard.operators.contract import Scores
    from laggard.pipeline.core.engine.stage import Output
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.core.records.outputs import Progress
    from laggard.pipeline.scoring.keyed import Keyed
    from laggard.pipeline.scoring.narrator import Narrator
    from laggard.pipeline.scoring.stream import Stream
    from laggard.pipeline.scoring.wired import Wired


class Outcomes:
    """Publishes what becomes of the anomalies and notices of streams.

    Parameters:
        wired: the operator.
        narrator: says what its scores mean.
        outputs: the outputs of the task, to which the records are added.

    """

    def __init__(self, wired: Wired, narrator: Narrator, outputs: list[Output]) -> None:
        self._wired = wired
        self._narrator = narrator
        self._outputs = outputs

    def progress(
        self, told: Update, key: str, scope: str, ts: float, said: str = "", *, silent_since_ts: float = math.nan
    ) -> Progress:
        """Return the record of an anomaly at a time, with a sentence on its ranking if there is one."""
        return progress(
            told,
            self._wired.name,
            self._wired.parameters,
            key=key,
            scope=scope,
            ts=ts,
            sentence=said,
            silent_since_ts=silent_since_ts,
        )

    def end(self, key: str, scope: str, stream: Stream) -> None:
        """Publish that all anomalies of a dropped stream count as ended: their course is not observed any more."""
        for course in stream.courses:
            self._outputs.append(self.progress(course.ended(), key, scope, stream.ts, silent_since_ts=stream.ts))
        if stream.anomalies.notices.open is not None:
            self.end_notice(key, scope, stream, stream.ts)

    def fall_silent(self, key: str, scope: str, stream: Stream) -> None:
        """End what is open of a stream that was silent for too long. It goes on when its frames come again."""
        self.end(key, scope, stream)
        stream.fall_silent()

    def end_notice(self, key: str, scope: str, stream: Stream, ts: float, became: str = "") -> None:
        """Publish that the open notice of a stream has ended; `became` is the id of the anomaly that it has become."""
        notices = stream.anomalies.notices
        assert notices.open is not None
        name, parameters = self._wired.name, self._wired.parameters
        notice = notice_ended(notices.open, name, parameters, key=key, scope=scope, ts=ts, became=became)
        self._outputs.append(notice)
        stream.anomalies = stream.anomalies._replace(notices=notices.ended())

    def excuse(self, key: str, scope: str, stream: Stream, keyed: Keyed) -> None:
        """End what is excused of a stream."""
        tolerance = keyed.tolerance
        stream.courses, ended = end_excused(stream.courses, tolerance, stream.ts)
        ids = {update.course.id for update in ended}
        # They may be larger by now than was told.
        keyed.tolerance = tolerance.grown([each for each in stream.anomalies.open if each.id in ids])
        for update in ended:
            self._outputs.append(self.progress(update, key, scope, stream.ts))
            stream.close(update.course.id)
        notice = stream.anomalies.notices.open
        if notice is not None and tolerance.excused(notice.blame, stream.ts):
            self.end_notice(key, scope, stream, stream.ts)

    def goes_on(self, stream: Stream, frame: Frame, scores: Scores, own: str) -> bool:
        """Let what the stream's score found go on as what the operator keeps open, if both blame the same program."""
        if all(each.own for each in stream.courses):
            return False
        try:
            found = ranking_of(scores, own)
            blame = self._narrator.blame(scores, found, frame)
            sudden = next((each for each in stream.courses if not each.own and each.blames(blame)), None)
            if sudden is None or blame is None:
                return False
            ongoing = open_anomalies(scores)[own]
            course = sudden.of_operator(own, min(sudden.opened_ts, ongoing.onset_ts)).after(frame.ts, ongoing.score)
            course = course.extended(frame.ts, found, blame, worse=False)
            sentence = self._narrator.finding_sentence(scores, found, frame, own)
        except Exception:  # noqa: BLE001 - it cannot be told: whoever opens it says so
            return False
        self._outputs.append(
            self.progress(Update(course, "extended", found), frame.key, frame.scope, frame.ts, sentence)
        )
        stream.courses = tuple(course if each is sudden else each for each in stream.courses)
        opened = OpenAnomaly(course.id, course.began_ts, course.live, own=own).blaming(blame)
        stream.anomalies = stream.anomalies.going_on(opened)
        return True
