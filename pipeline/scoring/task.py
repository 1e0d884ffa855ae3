"""A task: one operator on one partition. Records in, outputs and snapshots out; knows no bus and no clock.

The runner drives it from a bus, a replay from files, `laggard why` from history: the same records give the same answers
everywhere.

Each record is scored before it is learned. A duplicate changes nothing; what is late, cannot be read, or makes the
operator raise becomes a dead letter, and the task goes on. Where a producer's clock was far ahead and was set back, all
that comes is late: after a few such frames their stream begins anew. States are kept by key, see `states`.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from laggard.operators.calibration import QUIET_S
from laggard.operators.contract import LastingScores
from laggard.pipeline.alarms.anomalies import OpenAnomaly
from laggard.pipeline.alarms.courses import JOINED_S, followed, followed_by_operator, opening
from laggard.pipeline.alarms.tolerance import Tolerance
from laggard.pipeline.engine.namesakes import BESIDE, Namesakes
from laggard.pipeline.engine.stage import MAX_KEYS, NOT_SHOWN, SNAPSHOT_RECORDS, RecordTask, error_text
from laggard.pipeline.engine.states import States
from laggard.pipeline.eventtime import SET_BACK_RECORDS
from laggard.pipeline.records import Feedback, Frame, Mark, encode
from laggard.pipeline.records.feedback_output import FeedbackOutput
from laggard.pipeline.records.outputs import RankingOutput, frame_id
from laggard.pipeline.scoring.answers import NOTHING_RANKED, answered
from laggard.pipeline.scoring.observers import Observed
from laggard.pipeline.scoring.outcomes import Outcomes
from laggard.pipeline.scoring.scopes import MOST_SCOPES, Scopes
from laggard.pipeline.scoring.stream import Stream, open_anomalies, score_of, suspicion_of
from laggard.pipeline.scoring.tolerated import Tolerated, ranking_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.operators.contract import Scores
    from laggard.operators.ranking import Ranking
    from laggard.pipeline.bus import Incoming, Partition
    from laggard.pipeline.engine.telemetry import TaskTelemetry
    from laggard.pipeline.records import Received
    from laggard.pipeline.records.outputs import Blame
    from laggard.pipeline.scoring.keyed import Keyed
    from laggard.pipeline.scoring.observers import Observer
    from laggard.pipeline.scoring.wired import Wired

_logger = logging.getLogger(__name__)


class Task(Observed, RecordTask):
    """One operator on one partition.

    Parameters:
        wired: the operator, its scopes and parameters.
        partition: where the records come from.
        snapshot_records: how many records of a key are between two of its snapshots.
        max_keys: how many keys have a state at most.
        live: see `RecordTask`.
        observers: who wants to see frames and scores.
        telemetry: where to count.

    Attributes:
        wired: the operator.
        narrator: says what its scores mean.
        calm_s: an anomaly of a stream's score has ended when that has stayed at 1 or below for so long.

    """

    states: States[Keyed]
    calm_s: ClassVar[float] = JOINED_S

    def __init__(
        self,
        wired: Wired,
        partition: Partition,
        *,
        snapshot_records: int = SNAPSHOT_RECORDS,
        max_keys: int = MAX_KEYS,
        live: bool = True,
        observers: Sequence[Observer] = (),
        telemetry: TaskTelemetry | None = None,
    ) -> None:
        self.wired = wired
        states = States(wired, partition, self._empty, snapshot_records, max_keys)
        super().__init__(wired, partition, states, observers, telemetry, live=live)
        self.narrator = wired.narrator(states)
        self._outcomes = Outcomes(wired, self.narrator, self.outputs)
        self._namesakes = Namesakes()

    def _empty(self) -> Keyed:
        """The state of a key of which nothing was heard."""
        return Scopes({scope: Stream(self.wired.make_for(scope)) for scope in self.wired.scopes}, wired=self.wired)

    # Records.

    def _receive(self, record: Incoming, received: Received) -> None:
        match received:
            case Frame():
                self._frame(record, received)
            case Mark():
                self._mark(record, received)
            case Feedback():
                self._feedback(record, received)
            case _:
                kind = type(received).__name__.lower()
                self._refuse_for_all(
                    record, f"{self._place(record)}: expected a frame, a mark or feedback, got a {kind}"
                )
        self.states.save_silent(self.position)
        self._end_gone()

    def _frame(self, record: Incoming, frame: Frame) -> None:
        if not self._has_key(record, frame.key):
            return
        if self.wired.leads and record.headers and frame.scope not in BESIDE and self._namesakes.found(record):
            self._report_namesakes(frame.key)
        if not self.wired.takes(frame.scope):
            self._observe(frame.key, lambda observer: observer.received(frame))
            return
        keyed = cast("Scopes", self.states.open(frame.key, self.position))
        if (stream := keyed.stream(frame.scope)) is None:
            expected = f"at most {MOST_SCOPES} scopes of {frame.key!r}: {', '.join(map(repr, keyed.streams))}"
            self._refuse(record, f"{self._place(record)}: expected {expected}; got {frame.scope!r}")
            return
        arrival = stream.classify(frame)
        if arrival == "set_back":
            self._report_set_back(frame.key, frame.scope, stream.ts - frame.ts)
            self._outcomes.end(frame.key, frame.scope, stream)
            stream, arrival = keyed.begin_anew(frame.scope, self.wired.make_for(frame.scope)), "new"
        match arrival:
            case "duplicate":
                self._counts.duplicates += 1
            case "late":
                if stream.set_back.count:
                    self.states.note(record.key, record.offset)
                self._refuse_late(record, frame.ts, stream.ts, stream.set_back.count)
            case "new":
                if is_first := not stream.begun:
                    keyed.share(frame.scope)
                self._take(record, stream, frame, keyed.tolerance)
                if is_first:
                    keyed.share()
                self.states.note(record.key, record.offset)
                self._end_silent(frame.ts)

    def _refuse_late(self, record: Incoming, ts: float, expected_ts: float, set_back: int) -> None:
        """Refuse what is late; of those in a row which look as if a clock had been set back it is this one."""
        self._counts.late += 1
        reason = f"late: expected a time of at least {expected_ts!r}, got {ts!r}"
        if set_back:
            reason += (
                f"; {set_back} of {SET_BACK_RECORDS} after which the clock counts as set back, and the stream begins "
                "anew"
            )
        self._refuse(record, f"{self._place(record)}: {reason}")

    def _take(self, record: Incoming, stream: Stream, frame: Frame, tolerance: Tolerance) -> None:
        """Learn the frame before, then score this one, which is new."""
        if frame.ts >= stream.awaited_until:
            self._outcomes.fall_silent(frame.key, frame.scope, stream)
        before = stream.frame
        self._learn(record, stream)
        self._score(record, stream, frame, before, tolerance)

    def _has_key(self, record: Incoming, key: str) -> bool:
        if record.key and key == record.key:
            return True
        self._refuse_for_all(record, f"{self._place(record)}: expected the record's key {record.key!r}, got {key!r}")
        return False

    def _report_namesakes(self, key: str) -> None:
        self._counts.namesakes += 1
        if self._counts is self.telemetry:
            _logger.warning(
                "%s: two agents publish as %r at once, so that one baseline is learned from both; expected a unique "
                "`host` for each machine",
                self.wired.name, key,
            )  # fmt: skip

    def _report_set_back(self, key: str, scope: str, by_s: float) -> None:
        self._counts.clocks_set_back += 1
        if self._counts is self.telemetry:
            _logger.warning(
                "%s: the clock of %r was set back by %.0f s; the baseline of scope %s is learned anew",
                self.wired.name, key, by_s, scope,
            )  # fmt: skip

    def _learn(self, record: Incoming, stream: Stream) -> None:
        """Let the operator learn the newest frame, now that the record of another one has come."""
        frame = stream.frame
        try:
            stream.learn()
        except Exception as error:  # noqa: BLE001 - an operator's error on one frame must not stop the partition
            assert frame is not None
            learned = replace(record, value=b"", ts=frame.ts)
            self._refuse_frame(
                learned, frame, f"the frame before, of {frame.ts!r}, was not learned: {error_text(error)}"
            )

    def _score(
        self, record: Incoming, stream: Stream, frame: Frame, before: Frame | None, tolerance: Tolerance
    ) -> None:
        try:
            scores = stream.score(frame)
            if tolerance.feedback and (said := self.narrator.feedback_on(tolerance, frame)).feedback:
                scores = self.narrator.tolerated(scores, frame, said, stream.anomalies)
            kept = open_anomalies(scores)
            fires, trigger = stream.trigger.after(frame.ts, score_of(scores), QUIET_S)
            suspicion = suspicion_of(scores)
        except Exception as error:  # noqa: BLE001 - see above
            self._refuse_frame(record, frame, f"not scored: {error_text(error)}")
            return
        stream.accept(frame, scores, trigger)
        if isinstance(scores, Tolerated):
            stream.adopt(scores.usual)
        if stream.courses:
            self._follow(record, stream, frame, scores)
        if fires:
            self._open(record, stream, frame, scores, before)
        if kept:
            known = {each.own for each in stream.anomalies.open}
            for own in kept:
                if own not in known and not self._outcomes.goes_on(stream, frame, scores, own):
                    self._open(record, stream, frame, scores, before, own)
        self._notice(record, stream, frame, scores, suspicion)
        if frame.scope in self.wired.hidden:
            return
        for observer in self._observers:  # as `_observe` does, but for every frame: a microsecond counts
            try:
                observer.scored(self.wired.name, frame, scores, stream.anomalies)
            except Exception:
                _logger.exception(NOT_SHOWN, type(observer).__name__, frame.key)

    def _open(  # noqa: PLR0917 - what an anomaly is made of
        self, record: Incoming, stream: Stream, frame: Frame, scores: Scores, before: Frame | None, own: str = ""
    ) -> None:
        """Open an anomaly, and tell of it; `before` is the frame before, `own` the operator's id of what it keeps."""
        began_ts = open_anomalies(scores)[own].onset_ts if own else frame.ts
        opened = OpenAnomaly(frame_id(self.wired.name, frame, own), began_ts, self._is_live(record), own=own)
        try:
            found = ranking_of(scores, own)
            blame = self.narrator.blame(scores, found, frame)
            opened = opened.blaming(blame)
            told = self.narrator.anomaly(opened, frame, scores, found, blame)
            if not own and (more := self.narrator.beside(found, frame, before)):
                told = replace(told, sentence=f"{told.sentence} {more}")
            self.outputs.append(told)
            self._counts.anomalies += 1
            stream.courses = (*stream.courses, opening(told, own))
        except Exception as error:  # noqa: BLE001 - see above; the frame is learned all the same
            self._refuse_frame(record, frame, f"an anomaly that cannot be reported: {error_text(error)}")
        stream.anomalies = stream.anomalies.opening(opened)

    def _notice(self, record: Incoming, stream: Stream, frame: Frame, scores: Scores, suspicion: float) -> None:
        """Tell of what is suspicious, until it is calm, or has become an anomaly."""
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
                told = self.narrator.notice(frame, scores, suspicion, live=self._is_live(record))
            except Exception as error:  # noqa: BLE001 - see above
                self._refuse_frame(record, frame, f"a notice that cannot be reported: {error_text(error)}")
                return
            if not any(each.blames(told.blame) for each in stream.courses):
                self.outputs.append(told)
                stream.anomalies = stream.anomalies._replace(notices=notices.opening(opening(told)))

    def _follow(self, record: Incoming, stream: Stream, frame: Frame, scores: Scores) -> None:
        """Tell what became of the anomalies that were told before this frame."""

        def rank(own: str = "") -> tuple[Ranking, Blame | None] | None:
            try:
                found = ranking_of(scores, own)
                return found, self.narrator.blame(scores, found, frame)
            except Exception as error:  # noqa: BLE001 - see above
                self._refuse_frame(record, frame, f"progress that cannot be reported: {error_text(error)}")
                return None

        of_score = stream.anomalies.of_score
        going_on = "" if of_score is None else of_score.id
        left, told = followed(stream.courses, frame.ts, score_of(scores), going_on, rank, calm_s=self.calm_s)
        if any(course.own for course in left):
            left, more = followed_by_operator(left, frame.ts, open_anomalies(scores), lambda own: partial(rank, own))
            told += more
        stream.courses = left
        for each in told:
            if each.change == "ended" and not each.course.own:
                stream.close(each.course.id)
            said = (
                ""
                if each.ranking is None
                else self.narrator.finding_sentence(scores, each.ranking, frame, each.course.own)
            )
            self.outputs.append(self._outcomes.progress(each, frame.key, frame.scope, frame.ts, said))

    def _refuse_frame(self, record: Incoming, frame: Frame, reason: str) -> None:
        """Refuse the frame of a record, or one that was joined of several and has no bytes yet."""
        received = record if record.value else replace(record, value=encode(frame))
        self._refuse(received, f"{self._place(record)}: {reason}")

    def _rest(self, key: str, keyed: Keyed) -> None:
        """Judge what of a key waits for more, with what there is."""

    def _end_silent(self, ts: float) -> None:
        """Tell so of a key that has been silent until now, the time of the frame of another one."""
        if (found := self.states.silent(ts)) is not None:
            key, keyed = found
            with self._setting_aside(key):
                self._rest(key, keyed)
                for scope, stream in keyed.streams.items():
                    self._outcomes.fall_silent(key, scope, stream)
                self.states.silenced(key, self.position)

    def _end_gone(self) -> None:
        """Tell so of the keys that were given up."""
        for key, keyed in self.states.take_gone():
            with self._setting_aside(key):
                for scope, stream in keyed.streams.items():
                    self._outcomes.end(key, scope, stream)

    def _mark(self, record: Incoming, mark: Mark) -> None:
        if not self._has_key(record, mark.host):
            return
        if not self.wired.answers_marks:
            return
        keyed = self.states.get(mark.host)
        ranking, told = None, ""
        if keyed is not None:
            if mark.sequence in keyed.marks:
                self._counts.duplicates += 1
                return
            try:
                ranking, told = answered(keyed.streams, self.wired, mark)
            except Exception as error:  # noqa: BLE001 - see above
                self._refuse(record, f"{self._place(record)}: not ranked: {error_text(error)}")
                return
            keyed.marks.add(mark.sequence)
            self.states.note(record.key, record.offset)
        if self._is_live(record):
            self._observe(mark.host, lambda observer: observer.marked(self.wired.name, mark))
        ranking = ranking or NOTHING_RANKED
        self.outputs.append(RankingOutput.of(mark.ts, mark.host, mark.note, ranking, told))

    def _feedback(self, record: Incoming, feedback: Feedback) -> None:
        """Take what a person said: what it excuses ends, and is not told again."""
        if not self._has_key(record, feedback.key):
            return
        known = self.states.get(feedback.key)
        before = Tolerance() if known is None else known.tolerance
        tolerance = before.after(feedback, known.ts if known is not None and known.ts > 0.0 else math.inf)
        if tolerance is before:
            self._counts.duplicates += 1
            return
        keyed = self.states.open(feedback.key, self.position)
        keyed.tolerance = tolerance
        for scope, stream in keyed.streams.items():
            self._outcomes.excuse(feedback.key, scope, stream, keyed)
        self.states.note(record.key, record.offset)
        if self.wired.leads:
            self.outputs.append(FeedbackOutput.of(feedback, self.wired.name, live=self._is_live(record)))

    def lost(self) -> None:
        """Tell the observers that this state is given up."""
        keys = self.states.keys()
        self._observe(self.partition.topic, lambda observer: observer.lost(self.wired.name, keys))

    def replay(self, records: Iterable[Incoming]) -> None:
        """Take records that were processed before, see `StageTask`."""
        super().replay(records)
        self._namesakes = Namesakes()  # what was found and withheld is to be found again
