"""The stage of performance models: joins the records of an application into intervals, and scores and learns them.

An interval is scored by the present models, then learned. The stage publishes each model that is built. It publishes an
anomaly when the application is slow or deviates from its models, with the most likely host and resource. Anomalies and
their progress are joined to incidents like those of hosts. Observers see the predictions of the models. The outputs
depend only on the records of the application in their order.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Unpack

from laggard.operators.calibration import QUIET_S
from laggard.pipeline.alarms.tolerance import changed
from laggard.pipeline.core.bus import Incoming
from laggard.pipeline.core.engine.stage import MAX_KEYS, SNAPSHOT_RECORDS, RecordTask, Stage, error_text
from laggard.pipeline.core.engine.states import States
from laggard.pipeline.core.eventtime import SET_BACK_RECORDS
from laggard.pipeline.core.records import Feedback, Frame, Wish, encode
from laggard.pipeline.core.records.feedback_output import FeedbackOutput
from laggard.pipeline.core.records.models import model_id
from laggard.pipeline.core.topics import ANOMALIES, APPLICATIONS, MODELS
from laggard.pipeline.methods.applications.application import Application
from laggard.pipeline.methods.applications.intervals import COUNTERS, PERFORMANCE
from laggard.pipeline.methods.applications.metrics import MAX_METRICS
from laggard.pipeline.methods.applications.outcomes import Outcomes
from laggard.pipeline.methods.applications.text import ScoredInterval, model_output, prediction_output
from laggard.pipeline.scoring.observers import Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.engine.snapshots import Migration
    from laggard.pipeline.core.engine.stage import TaskOptions
    from laggard.pipeline.core.records import Received
    from laggard.pipeline.core.records.outputs import Parameter
    from laggard.pipeline.methods.applications.application import Operator
    from laggard.pipeline.methods.applications.intervals import Interval

REGRESSION: Final = "regression"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RegressionStage(Stage):
    """The stage that builds performance models; see `Stage`.

    Attributes:
        make: makes a new operator.
        state_version: the version of the form of its state.
        parameters: its parameters, for readers of its outputs.
        migrations: see `Stage`.

    """

    make: Callable[[], Operator]
    state_version: int
    parameters: Mapping[str, Parameter]
    migrations: Mapping[int, Migration] = field(default_factory=dict)
    name = REGRESSION
    topic = APPLICATIONS
    writes = (MODELS, ANOMALIES)
    leads = True

    def task(self, partition: Partition, **options: Unpack[TaskOptions]) -> RegressionTask:
        """Make a task for a partition, without any state."""
        return RegressionTask(self, partition, **options)


class RegressionTask(Observed, RecordTask):
    """Performance models of the applications of one partition.

    Parameters:
        stage: the stage of the task.
        partition: the source of the records.
        options: see `TaskOptions`.

    """

    states: States[Application]

    def __init__(self, stage: RegressionStage, partition: Partition, **options: Unpack[TaskOptions]) -> None:
        def empty() -> Application:
            return Application(stage.make())

        every, most = options.get("snapshot_records", SNAPSHOT_RECORDS), options.get("max_keys", MAX_KEYS)
        super().__init__(
            stage,
            partition,
            States(stage, partition, empty, every, most),
            options.get("observers", ()),
            options.get("telemetry"),
            live=options.get("live", True),
        )
        self._stage = stage
        self._outcomes = Outcomes(stage.name, stage.parameters, self.outputs)
        self._full: set[str] = set()  # the applications with a warning about too many metrics

    # Records.

    def _receive(self, record: Incoming, received: Received) -> None:
        match received:
            case Frame() if received.keyed_by == "application":
                if self._has_key(record, received.key):
                    self._frame(record, received)
            case Wish():
                if self._has_key(record, received.application):
                    self._wish(record, received)
            case Feedback():
                if self._has_key(record, received.key):
                    self._feedback(record, received)
            case Frame():
                expected = "a frame of an application"
                self._refuse(record, f"{self._place(record)}: expected {expected}, got one of a {received.keyed_by}")
            case _:
                kind = type(received).__name__.lower()
                self._refuse(record, f"{self._place(record)}: expected a frame, a wish or feedback, got a {kind}")
        self.states.save_silent(self.position)
        for key, gone in self.states.take_gone():
            with self._setting_aside(key):
                self._outcomes.end(key, gone)

    def _frame(self, record: Incoming, frame: Frame) -> None:
        if frame.scope == PERFORMANCE:
            if len(frame.layout.rows) != 1:
                reason = f"expected one row of performance, got {len(frame.layout.rows)}"
                self._refuse(record, f"{self._place(record)}: {reason}")
                return
            self._measure(record, frame)
        elif frame.scope in COUNTERS:
            self._tick(record, frame)
        else:
            self._observe(frame.key, lambda observer: observer.received(frame))

    def _measure(self, record: Incoming, frame: Frame) -> None:
        one = self.states.open(frame.key, self.position)
        newest = one.intervals.measured_ts
        live = self._is_live(record)
        outcome = one.intervals.measure(frame, live=live)
        match outcome:
            case "duplicate":
                self._counts.duplicates += 1
                return
            case "late":
                reason = f"expected a time after {newest!r} whose counters are still there, got {frame.ts!r}"
                if (count := one.intervals.set_back.count) > 0:
                    reason += f"; {count} of {SET_BACK_RECORDS} after which the clock counts as set back"
                self._refuse_late(record, reason)
            case "set_back":
                self._counts.clocks_set_back += 1
                self._outcomes.end(frame.key, one)
                one.begin_anew(self._stage.make())
                one.intervals.measure(frame, live=live)
            case "new":
                self._close(frame.key, one)
        self._note(record)

    def _tick(self, record: Incoming, frame: Frame) -> None:
        one = self.states.open(frame.key, self.position)
        match one.intervals.tick(frame):
            case "duplicate":
                self._counts.duplicates += 1
                return
            case "late":
                closed = one.intervals.closed_ts
                self._refuse_late(
                    record,
                    f"expected a time after {closed!r}, the end of the newest closed interval, got {frame.ts!r}",
                )
            case _:
                self._close(frame.key, one)
        self._note(record)

    def _note(self, record: Incoming) -> None:
        self.states.note(record.key, record.offset)
        if (found := self.states.silent(record.ts)) is not None:
            key, silent = found
            with self._setting_aside(key):
                self._rest(key, silent)
                self._outcomes.end(key, silent)
                silent.fall_silent()
                self.states.silenced(key, self.position)

    def _wish(self, record: Incoming, wish: Wish) -> None:
        one = self.states.open(wish.application, self.position)
        if wish.sequence in one.seen:
            self._counts.duplicates += 1
            return
        one.seen.add(wish.sequence)
        one.wish(wish)
        self._note(record)

    def _feedback(self, record: Incoming, feedback: Feedback) -> None:
        """Apply the feedback of a person: excused anomalies end, and are not published again."""
        tolerance = changed(self.states.get(feedback.key), feedback)
        if tolerance is None:
            self._counts.duplicates += 1
            return
        one = self.states.open(feedback.key, self.position)
        self._outcomes.excuse(feedback.key, one, tolerance)
        self.outputs.append(FeedbackOutput.of(feedback, self._stage.name, live=self._is_live(record)))
        self._note(record)

    def finish(self) -> None:
        """Close all intervals: the input has ended."""
        for key in self.states.keys():  # noqa: SIM118 - no dictionary
            one = self.states.get(key)
            assert one is not None
            self._rest(key, one)

    # Intervals.

    def _close(self, key: str, one: Application) -> None:
        for interval in one.intervals.closed():
            self._score(key, one, interval)
        if one.intervals.places.left_out and key not in self._full and self._counts is self.telemetry:
            self._full.add(key)
            _logger.warning(
                "%s: %r has more metrics than the %d that are read; the last ones are left out",
                self._stage.name, key, MAX_METRICS,
            )  # fmt: skip

    def _rest(self, key: str, one: Application) -> None:
        """Score and learn the waiting intervals with the counters that are there."""
        for interval in one.intervals.rest():
            self._score(key, one, interval)

    def _score(self, key: str, one: Application, interval: Interval) -> None:
        """Score an interval, then learn it."""
        if interval.ts >= one.awaited_until:
            self._outcomes.end(key, one)
            one.fall_silent()
        one.scored_ts = interval.ts
        one.fulfil(interval.ts)
        sample = interval.ts, interval.metrics, interval.values, interval.performance
        try:
            scored = ScoredInterval(interval.ts, key, one.operator.score(*sample))
            score = scored.score
            if score > 1.0 and not one.anomalies.open and one.tolerance.excused(scored.blame(), interval.ts):
                score = 1.0
            fires, one.trigger = one.trigger.after(interval.ts, score, QUIET_S)
        except Exception as error:  # noqa: BLE001 - an operator's error on one interval must not stop the partition
            self._refuse_interval(interval, f"not scored: {error_text(error)}")
        else:
            self._publish(key, one, interval, scored, fires=fires)
        try:
            models = one.operator.learn(*sample)
        except Exception as error:  # noqa: BLE001 - see above
            self._refuse_interval(interval, f"not learned: {error_text(error)}")
            return
        for model in models:
            identity = model_id(key, model.performance, repr(interval.ts))
            self.outputs.append(
                model_output(model, model_id=identity, ts=interval.ts, application=key, live=interval.live)
            )
        self._observe(key, lambda observer: observer.modelled(key, one.operator.models, models))

    def _publish(self, key: str, one: Application, interval: Interval, scored: ScoredInterval, *, fires: bool) -> None:
        if one.anomalies.open:
            one.anomalies = one.anomalies.after(interval.frame, over=one.trigger.armed)
        if one.courses:
            self._outcomes.follow(key, one, scored)
        if fires:
            self._outcomes.open(key, one, interval, scored)
            self._counts.anomalies += 1
        if not self._observers:
            return
        name = self._stage.name
        self._observe(key, lambda observer: observer.scored(name, interval.frame, scored, one.anomalies))
        for each in scored.judgement.predictions:
            output = prediction_output(each, ts=interval.ts, operator=name, application=key)
            self._observe(key, lambda observer, output=output: observer.predicted(output))  # type: ignore[misc]

    def _refuse_interval(self, interval: Interval, reason: str) -> None:
        frame = interval.frame
        measured = Incoming(self.partition, self.position - 1, frame.key, encode(frame), frame.ts)
        self._refuse(measured, f"{self._place(measured)}: {reason}")
