"""Replays recorded data through the tasks of the runner, without a bus, at full speed; its results are never live.

The runner's joiner joins the anomalies to incidents. Incidents that are open at the end of the data stay open: only a
frame can show the end of a fault. Counters of hosts that serve an application also feed its models. The settings name
these hosts, otherwise the application's own frames.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.engine.stage import DeadLetter, RecordTask, Rekeyed
from laggard.pipeline.core.records import Feedback, Frame, Mark, Request, Wish
from laggard.pipeline.core.records.models import ModelOutput, PredictionOutput
from laggard.pipeline.core.records.outputs import (
    Anomaly,
    Progress,
    ScoreOutput,
    read_output,
    write_output,
)
from laggard.pipeline.core.records.requests import RequestOutput
from laggard.pipeline.core.topics import APPLICATIONS, COUNTERS, REQUESTS, TOPIC_OF
from laggard.pipeline.methods.incidents.joiner import Joiner
from laggard.pipeline.scoring.observers import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.operators.contract import Scores
    from laggard.operators.requests.results import RequestScore
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.core.engine.stage import Output, Stage
    from laggard.pipeline.core.records import KeyedBy, Received
    from laggard.pipeline.core.records.outputs import ReplayOutput
    from laggard.pipeline.core.topics import Topic
    from laggard.pipeline.methods.applications.serving import ServedByFrames


class _Pending(NamedTuple):
    """The worst score of one tick so far, and the one that was already published because of a later mark."""

    ts: float
    keyed_by: KeyedBy
    score: float
    reported: float | None = None


class Replay(Observer):
    """Operators on recorded records. Each topic has one partition, so all records are in one order.

    Parameters:
        stages: the operators, and the stages that re-key the input of some.
        tell: receives the results in order.
        report: receives a line with place and reason for each unusable record.
        scores: whether to publish every score. For each operator and key it is the worst of a tick's frames, once the
            next tick begins. For a service these are the scores of its requests. Predictions of models are published,
            too.
        served: learns the hosts that the frames of applications name.

    Attributes:
        records: the number of records.
        requests: the number of requests.
        outlying: the number of outliers among the requests.
        frames: the number of frames.
        marks: the number of marks.
        anomalies: the number of anomalies.
        models: the number of models that were built.
        incidents: the number of incidents.
        keys: hosts, applications, pools and services of frames and requests.
        first_ts: the earliest time of these, NaN before the first one.
        last_ts: the latest time of these.
        unused: the number of records that no operator reads.

    """

    def __init__(
        self,
        stages: Sequence[Stage],
        tell: Callable[[ReplayOutput], None],
        report: Callable[[str], None],
        *,
        scores: bool = False,
        served: ServedByFrames | None = None,
    ) -> None:
        self.records = self.frames = self.marks = self.requests = self.unused = 0
        self.anomalies = self.models = self.incidents = self.outlying = 0
        self.keys: set[tuple[KeyedBy, str]] = set()
        self.first_ts = self.last_ts = math.nan
        self._tell = tell
        self._report = report
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._complete: list[ScoreOutput | PredictionOutput] = []
        self._served = served
        self._offsets: dict[Topic, int] = defaultdict(int)
        self._joiners: dict[tuple[str, str], Joiner] = defaultdict(Joiner)
        observers = (self,) if scores else ()
        tasks = [each.task(Partition(each.topic.name, 0), live=False, observers=observers) for each in stages]
        self.tasks = tuple(each for each in tasks if isinstance(each, RecordTask))
        for task in self.tasks:
            task.states.load(())  # from here on no state is saved, since a replay has no use for it
            task.states.follow()

    def take(self, place: str, record: Received) -> None:
        """Process the next record, which was read at `place`."""
        topic, key = _topic_and_key(record)
        if isinstance(record, Frame | Request):
            self.frames += isinstance(record, Frame)
            self.requests += isinstance(record, Request)
            self.keys.add((record.keyed_by if isinstance(record, Frame) else "service", key))
            self.first_ts = min(record.ts, self.first_ts) if self.first_ts == self.first_ts else record.ts
            self.last_ts = max(record.ts, self.last_ts) if self.last_ts == self.last_ts else record.ts
        if isinstance(record, Mark):
            self.marks += 1
            self._complete_before(record)
        if self._served is not None and isinstance(record, Frame) and record.keyed_by == "application":
            self._served.learn(record)
        self.records += 1
        self.unused += not self._give(place, topic, key, record)

    def _give(self, place: str, topic: Topic, key: str, record: Received) -> bool:
        """Give a record to all tasks that read its topic, and return whether there are any."""
        wanted = [task for task in self.tasks if task.stage.topic == topic]
        reported = set[str]()  # an unusable record is often so for several operators
        offset = self._offsets[topic]
        self._offsets[topic] += 1
        for task in wanted:
            task.receive(Incoming(task.partition, offset, key, b"", record.ts), record)
            self._take_outputs(place, task, reported)
        return bool(wanted)

    def _take_outputs(self, place: str, task: RecordTask, reported: set[str]) -> None:
        self._report_scores()
        outputs: list[Output] = list(task.outputs)
        task.outputs.clear()
        for output in outputs:
            match output:
                case DeadLetter():
                    # Its place is that on a bus, but people know a record of a file by the place in the file.
                    reason = output.reason.partition(": ")[2]
                    if reason not in reported:
                        reported.add(reason)
                        self._report(f"{place}: {reason}")
                case Rekeyed(frame):
                    self._give(place, TOPIC_OF[frame.keyed_by], frame.key, frame)
                case Anomaly() | Progress():
                    self._tell(output)
                    self.anomalies += isinstance(output, Anomaly)
                    self._join(output)
                case _:
                    self._tell(output)
                    self.models += isinstance(output, ModelOutput)
                    self.outlying += isinstance(output, RequestOutput)

    def _join(self, record: Anomaly | Progress) -> None:
        # In the form that a worker reads: JSON has neither NaN nor infinity.
        read = read_output(write_output(record), record.id)
        assert isinstance(read, Anomaly | Progress)
        for incident in self._joiners[record.keyed_by, record.key].take(read):
            self.incidents += incident.change == "opened"
            self._tell(incident)

    def finish(self) -> None:
        """Publish the results that waited for the next record."""
        for task in self.tasks:
            task.finish()
            self._take_outputs("the end", task, set())
        for operator, key in self._pending:
            self._complete_score(operator, key)
        self._pending.clear()
        self._report_scores()

    def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:  # noqa: ARG002
        """Note the score of a frame. Nothing is published here, since a task continues after any error in here."""
        if frame.keyed_by == "service":
            return  # the scores of its requests are published
        pending = self._pending.get((operator, frame.key))
        if pending is not None and pending.ts != frame.ts:
            self._complete_score(operator, frame.key)
            pending = None
        worst = scores.score if pending is None else max(pending.score, scores.score)
        reported = None if pending is None else pending.reported
        self._pending[operator, frame.key] = _Pending(frame.ts, frame.keyed_by, worst, reported)

    def requested(self, operator: str, request: Request, judged: RequestScore, cluster: str) -> None:  # noqa: ARG002
        """Note the score of a request, see `scored`."""
        self._complete.append(
            ScoreOutput(
                ts=request.ts,
                operator=operator,
                keyed_by="service",
                key=request.service,
                request=request.request,
                score=judged.score,
            )
        )

    def predicted(self, prediction: PredictionOutput) -> None:
        """Note the prediction of a model, see `scored`."""
        self._complete.append(prediction)

    def _complete_before(self, mark: Mark) -> None:
        """End the ticks of a host before a mark: their scores come before the answer to it."""
        for (operator, key), pending in self._pending.items():
            if key == mark.host and pending.ts < mark.ts:
                self._complete_score(operator, key)
                self._pending[operator, key] = pending._replace(reported=pending.score)
        self._report_scores()

    def _complete_score(self, operator: str, key: str) -> None:
        ts, keyed_by, score, reported = self._pending[operator, key]
        if reported is None or score > reported:  # a later frame of the tick, after the mark, may be worse
            self._complete.append(ScoreOutput(ts=ts, operator=operator, keyed_by=keyed_by, key=key, score=score))

    def _report_scores(self) -> None:
        for score in self._complete:
            self._tell(score)
        self._complete.clear()


def _topic_and_key(record: Received) -> tuple[Topic, str]:
    match record:
        case Frame():
            return TOPIC_OF[record.keyed_by], record.key
        case Mark():
            return COUNTERS, record.host
        case Wish():
            return APPLICATIONS, record.application
        case Feedback():
            return TOPIC_OF[record.keyed_by], record.key
        case _:
            return REQUESTS, record.service
