"""A task: one operator on one partition. Records in, outputs and snapshots out; knows no bus and no clock.

The runner drives it from a bus, a replay from files, `laggard why` from history: the same records give the same answers
everywhere.

Each record is scored before it is learned. A duplicate changes nothing. A record that is late or unreadable, or that
makes the operator raise, becomes a dead letter, and the task continues. If a producer's clock was far ahead and was set
back, all of its records are late. After a few such frames their stream begins anew. States are kept by key, see
`states`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from laggard.operators.calibration import QUIET_S
from laggard.pipeline.alarms.courses import JOINED_S
from laggard.pipeline.alarms.tolerance import changed
from laggard.pipeline.core.engine.namesakes import BESIDE, Namesakes
from laggard.pipeline.core.engine.stage import MAX_KEYS, NOT_SHOWN, SNAPSHOT_RECORDS, RecordTask, error_text
from laggard.pipeline.core.engine.states import States
from laggard.pipeline.core.records import Feedback, Frame, Mark, encode
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.outputs import RankingOutput
from laggard.pipeline.scoring.answers import NOTHING_RANKED, answered
from laggard.pipeline.scoring.findings import Findings
from laggard.pipeline.scoring.observers import Observed
from laggard.pipeline.scoring.outcomes import Outcomes
from laggard.pipeline.scoring.scopes import MOST_SCOPES, Scopes
from laggard.pipeline.scoring.stream import Stream, late, open_anomalies, score_of, suspicion_of
from laggard.pipeline.scoring.tolerated import Tolerated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.alarms.tolerance import Tolerance
    from laggard.pipeline.core.bus import Incoming, Partition
    from laggard.pipeline.core.engine.telemetry import TaskTelemetry
    from laggard.pipeline.core.records import Received
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
        self._findings = Findings(
            wired, self.narrator, self._outcomes, self.outputs,
            calm_s=self.calm_s, is_live=self._is_live, refuse=self._refuse_frame,
        )  # fmt: skip
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
        if self.wired.leads and record.headers and frame.scope not in BESIDE:
            self._notice_namesakes(record, frame.key)
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
                self._refuse_late(record, late(frame.ts, stream.ts, stream.set_back.count))
            case "new":
                if is_first := not stream.begun:
                    keyed.share(frame.scope)
                self._take(record, stream, frame, keyed.tolerance)
                if is_first:
                    keyed.share()
                self.states.note(record.key, record.offset)
                self._end_silent(frame.ts)

    def _take(self, record: Incoming, stream: Stream, frame: Frame, tolerance: Tolerance) -> None:
        """Learn the frame before, then score this one, which is new."""
        if frame.ts >= stream.awaited_until:
            self._outcomes.fall_silent(frame.key, frame.scope, stream)
        before = stream.frame
        self._learn(record, stream)
        self._score(record, stream, frame, before, tolerance)

    def _notice_namesakes(self, record: Incoming, key: str) -> None:
        # Those that are found in a replay are to be found again.
        if self._counts is self.telemetry and self._namesakes.found(record):
            self._counts.namesakes += 1
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
            if tolerance.feedback and (applicable := self.narrator.feedback_on(tolerance, frame)).feedback:
                scores = self.narrator.tolerated(scores, frame, applicable, stream.anomalies)
            ongoing = open_anomalies(scores)
            fires, trigger = stream.trigger.after(frame.ts, score_of(scores), QUIET_S)
            suspicion = suspicion_of(scores)
        except Exception as error:  # noqa: BLE001 - see above
            self._refuse_frame(record, frame, f"not scored: {error_text(error)}")
            return
        stream.accept(frame, scores, trigger)
        if isinstance(scores, Tolerated):
            stream.adopt(scores.usual)
        found = self._findings
        if stream.courses:
            found.follow(record, stream, frame, scores)
        if fires:
            self._counts.anomalies += found.open(record, stream, frame, scores, before)
        if ongoing:
            known = {each.own for each in stream.anomalies.open}
            for own in ongoing:
                if own not in known and not self._outcomes.goes_on(stream, frame, scores, own):
                    self._counts.anomalies += found.open(record, stream, frame, scores, before, own)
        found.notice(record, stream, frame, scores, suspicion)
        if frame.scope in self.wired.hidden:
            return
        for observer in self._observers:  # as `_observe` does, but for every frame: a microsecond counts
            try:
                observer.scored(self.wired.name, frame, scores, stream.anomalies)
            except Exception:
                _logger.exception(NOT_SHOWN, type(observer).__name__, frame.key)

    def _refuse_frame(self, record: Incoming, frame: Frame, reason: str) -> None:
        """Refuse the frame of a record, or one that was joined of several and has no bytes yet."""
        received = record if record.value else replace(record, value=encode(frame))
        self._refuse(received, f"{self._place(record)}: {reason}")

    def _rest(self, key: str, keyed: Keyed) -> None:
        """Score the waiting frame of a key without what it waits for."""

    def _end_silent(self, ts: float) -> None:
        """End the anomalies of a key that is silent at the time of another key's frame."""
        if (found := self.states.silent(ts)) is not None:
            key, keyed = found
            with self._setting_aside(key):
                self._rest(key, keyed)
                for scope, stream in keyed.streams.items():
                    self._outcomes.fall_silent(key, scope, stream)
                self.states.silenced(key, self.position)

    def _end_gone(self) -> None:
        """End the anomalies of the dropped keys."""
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
        ranking, text = None, ""
        if keyed is not None:
            if mark.sequence in keyed.marks:
                self._counts.duplicates += 1
                return
            try:
                ranking, text = answered(keyed.streams, self.wired, mark)
            except Exception as error:  # noqa: BLE001 - see above
                self._refuse(record, f"{self._place(record)}: not ranked: {error_text(error)}")
                return
            keyed.marks.add(mark.sequence)
            self.states.note(record.key, record.offset)
        if self._is_live(record):
            self._observe(mark.host, lambda observer: observer.marked(self.wired.name, mark))
        ranking = ranking or NOTHING_RANKED
        self.outputs.append(RankingOutput.of(mark.ts, mark.host, mark.note, ranking, text))

    def _feedback(self, record: Incoming, feedback: Feedback) -> None:
        """Apply a person's feedback: the excused anomalies end, and are not reported again."""
        if not self._has_key(record, feedback.key):
            return
        tolerance = changed(self.states.get(feedback.key), feedback)
        if tolerance is None:
            self._counts.duplicates += 1
            return
        keyed = self.states.open(feedback.key, self.position)
        keyed.tolerance = tolerance
        for scope, stream in keyed.streams.items():
            self._outcomes.excuse(feedback.key, scope, stream, keyed)
        self.states.note(record.key, record.offset)
        if self.wired.leads:
            self.outputs.append(FeedbackOutput.of(feedback, self.wired.name, live=self._is_live(record)))
