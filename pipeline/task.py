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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from laggard.operators.calibration import QUIET_S
from laggard.operators.ranking import Ranking
from laggard.pipeline.anomalies import OpenAnomaly
from laggard.pipeline.bus import Incoming, Partition
from laggard.pipeline.namesakes import Namesakes
from laggard.pipeline.records import Decoder, Frame, Mark, RecordError, encode
from laggard.pipeline.records.outputs import Anomaly, RankingOutput, anomaly_id
from laggard.pipeline.short_lived import just_begun, listed, matter
from laggard.pipeline.states import States
from laggard.pipeline.stream import SET_BACK_FRAMES
from laggard.pipeline.telemetry import TaskTelemetry
from laggard.pipeline.telling import sentence, story
from laggard.pipeline.verdict import JUDGED_FEATURES, JUDGED_ROWS, judge, narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from laggard.pipeline.observers import Observer
    from laggard.pipeline.records import Received
    from laggard.pipeline.stream import Scores, Stream
    from laggard.pipeline.wiring import Wired

SNAPSHOT_RECORDS: Final = 200
MAX_KEYS: Final = 1024
"""Keys of one task: a host of 300 processes takes about 1 MB."""

MARK_WINDOW_S: Final = 120.0
"""A mark is answered from the newest frame when that is at most so far from it, or two of its ticks (S0, section 3)."""

REPLAY_HEADER: Final = "laggard-replay"
"""A record with this header was recorded earlier: what comes of it is not live. Its value does not matter."""

MARK_ROWS, MARK_FEATURES = 20, 10
ANOMALY_ROWS, ANOMALY_FEATURES = 5, 5
LONGEST_REASON: Final = 1000

NOTHING_RANKED: Final = Ranking(ts=math.nan, score=math.nan, rows=(), age_s=0.0, young=True)
"""The answer to a mark when no frame is near it."""

NOT_SHOWN: Final = "%s cannot show what came of %r"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be used, as it was received, and why."""

    operator: str
    record: Incoming
    reason: str


Output = Anomaly | RankingOutput | DeadLetter


class Task:
    """One operator on one partition.

    Parameters:
        wired: the operator, its scopes and parameters.
        partition: where the records come from.
        snapshot_records: how many records of a key are between two of its snapshots.
        max_keys: how many keys have a state at most.
        live: whether outputs are about the present. It is an argument, not a comparison with a clock, so that the same
            input gives the same outputs; records with the replay header are never live.
        observers: who wants to see frames and scores.
        telemetry: where to count.

    Attributes:
        position: the first offset that was not processed.
        outputs: what came out, until somebody takes it.
        states: of all keys.

    """

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
        self.partition = partition
        self.position = 0
        self.outputs: list[Output] = []
        self.states = States(wired, partition, snapshot_records, max_keys)
        self.telemetry = telemetry or TaskTelemetry(wired.name, partition.topic, partition.number)
        self._counts = self.telemetry
        self._live = live
        self._observers = observers
        self._decoder = Decoder()
        self._namesakes = Namesakes()

    # Records.

    def process(self, record: Incoming) -> bool:
        """Take the next record: whatever it is, the task can go on after it.

        Returns:
            Whether its time is when it was made: a mark's is the moment that it asks about.

        """
        self.position = record.offset + 1
        self._counts.records += 1
        self._counts.record_bytes += len(record.value)
        try:
            received = self._decoder.decode(record.value, self._place(record))
        except RecordError as error:
            self._refuse(record, str(error))
            return not _recorded_earlier(record)
        self.receive(record, received)
        return isinstance(received, Frame) and not _recorded_earlier(record)

    def receive(self, record: Incoming, received: Received) -> None:
        """Take a record that is decoded already."""
        self.position = record.offset + 1
        match received:
            case Frame():
                self._frame(record, received)
            case Mark():
                self._mark(record, received)
            case _:
                self._refuse(record, f"{self._place(record)}: expected a frame or a mark, got a request")
        self.states.look_after_silent(self.position)

    def _frame(self, record: Incoming, frame: Frame) -> None:
        if not record.key or frame.key != record.key:
            self._refuse(record, f"{self._place(record)}: expected the record's key {record.key!r}, got {frame.key!r}")
            return
        if record.headers and self._namesakes.found(record):
            self._tell_namesakes(frame.key)
        if frame.scope not in self.wired.scopes:
            self._observe(frame.key, lambda observer: observer.received(frame))
            return
        keyed = self.states.open(frame.key, self.position)
        stream = keyed.streams[frame.scope]
        judged = stream.judge(frame)
        if judged == "late" and stream.is_far_behind(frame) and stream.note_set_back(frame):
            self._tell_set_back(stream, frame)
            stream, judged = self.states.begin_anew(frame.key, frame.scope), "new"
        match judged:
            case "duplicate":
                self._counts.duplicates += 1
            case "late":
                self._counts.late += 1
                reason = f"late: expected a time of at least {stream.ts!r}, got {frame.ts!r}"
                if stream.set_back:
                    self.states.heard(record.key, record.offset)
                    reason += (
                        f"; {stream.set_back} of {SET_BACK_FRAMES} after which the clock counts as set back, and the "
                        "stream begins anew"
                    )
                self._refuse(record, f"{self._place(record)}: {reason}")
            case "new":
                before = stream.frame
                self._learn(stream)
                self._score(record, stream, frame, before)
                self.states.heard(record.key, record.offset)

    def _tell_namesakes(self, key: str) -> None:
        self._counts.namesakes += 1
        if self._counts is self.telemetry:
            _logger.warning(
                "%s: two agents publish as %r at once, and what is usual is learned of both together; expected a "
                "`host` of its own for each machine",
                self.wired.name, key,
            )  # fmt: skip

    def _tell_set_back(self, stream: Stream, frame: Frame) -> None:
        self._counts.clocks_set_back += 1
        if self._counts is self.telemetry:
            _logger.warning(
                "%s: the clock of %r was set back by %.0f s; what is usual of scope %s is learned anew",
                self.wired.name, frame.key, stream.ts - frame.ts, frame.scope,
            )  # fmt: skip

    def _learn(self, stream: Stream) -> None:
        """Let the operator learn the newest frame, now that there is another one."""
        frame, offset = stream.frame, stream.offset
        try:
            stream.learn()
        except Exception as error:  # noqa: BLE001 - an operator's error on one frame must not stop the partition
            assert frame is not None
            learned = Incoming(self.partition, offset, frame.key, encode(frame), frame.ts)
            self._refuse(learned, f"{self._place(learned)}: not learned: {_told(error)}")

    def _score(self, record: Incoming, stream: Stream, frame: Frame, before: Frame | None) -> None:
        try:
            scores = stream.score(frame)
            fires, trigger = stream.trigger.after(frame.ts, scores.score, QUIET_S)
        except Exception as error:  # noqa: BLE001 - see above
            self._refuse(record, f"{self._place(record)}: not scored: {_told(error)}")
            return
        stream.accept(frame, record.offset, scores, trigger)
        if fires:
            self._open(record, stream, frame, scores, before)
        for observer in self._observers:  # as `_observe` does, but for every frame: a microsecond counts
            try:
                observer.scored(self.wired.name, frame, scores, stream.anomalies)
            except Exception:
                _logger.exception(NOT_SHOWN, type(observer).__name__, frame.key)

    def _open(self, record: Incoming, stream: Stream, frame: Frame, scores: Scores, before: Frame | None) -> None:
        """Open an anomaly, and tell of it; `before` is the frame before."""
        anomaly = anomaly_id(self.wired.name, frame.key, f"{self._place(record)}")
        opened = OpenAnomaly(anomaly, frame.ts, self._is_live(record))
        try:
            found = scores.ranking(rows=JUDGED_ROWS, features=JUDGED_FEATURES)
            opened = opened.blaming(found, frame.scope)
            told = self._anomaly(opened, frame, scores, found)
            if before is not None and matter(judge(found), None) and (begun := just_begun(before, frame)):
                told = replace(told, sentence=f"{told.sentence} Processes that have just begun: {listed(begun)}.")
            self.outputs.append(told)
            self._counts.anomalies += 1
        except Exception as error:  # noqa: BLE001 - see above; the frame is learned all the same
            self._refuse(record, f"{self._place(record)}: an anomaly that cannot be told: {_told(error)}")
        stream.anomalies = stream.anomalies.opening(opened)

    def _anomaly(self, opened: OpenAnomaly, frame: Frame, scores: Scores, found: Ranking) -> Anomaly:
        ranking = narrowed(found, ANOMALY_ROWS, ANOMALY_FEATURES)
        commands = dict(zip(frame.layout.rows, frame.layout.commands, strict=False))
        return Anomaly(
            id=opened.id,
            operator=self.wired.name,
            parameters=self.wired.parameters,
            keyed_by=frame.keyed_by,
            key=frame.key,
            ts=frame.ts,
            score=scores.score,
            ranking=ranking,
            sentence=sentence(found, commands, frame.scope),
            model_age_s=ranking.age_s,
            young=ranking.young,
            live=opened.live,
        )

    def _is_live(self, record: Incoming) -> bool:
        return self._live and not _recorded_earlier(record)

    def _mark(self, record: Incoming, mark: Mark) -> None:
        if not record.key or mark.host != record.key:
            self._refuse(record, f"{self._place(record)}: expected the record's key {record.key!r}, got {mark.host!r}")
            return
        if not self.wired.answers_marks:
            return
        keyed = self.states.get(mark.host)
        ranking, told = None, ""
        if keyed is not None:
            if mark.sequence in keyed.marks:
                self._counts.duplicates += 1
                return
            blamed = self.wired.scopes[0]
            try:
                found = _answer(keyed.streams[blamed], mark)
                if found is not None:
                    told = _story(found, keyed.streams, blamed)
                    ranking = narrowed(found, MARK_ROWS, MARK_FEATURES)
            except Exception as error:  # noqa: BLE001 - see above
                self._refuse(record, f"{self._place(record)}: not ranked: {_told(error)}")
                return
            keyed.marks.add(mark.sequence)
            self.states.heard(record.key, record.offset)
        if self._is_live(record):
            self._observe(mark.host, lambda observer: observer.marked(self.wired.name, mark))
        ranking = ranking or NOTHING_RANKED
        self.outputs.append(RankingOutput(ts=mark.ts, host=mark.host, mark=mark.note, ranking=ranking, sentence=told))

    def damaged_record(self, offset: int, reason: str) -> None:
        """Pass over a record that the bus could not read."""
        self.position = offset + 1
        self._counts.records += 1
        self._refuse(Incoming(self.partition, offset, "", b"", 0.0), reason)

    def _refuse(self, record: Incoming, reason: str) -> None:
        self._counts.dead_letters += 1
        self.outputs.append(DeadLetter(self.wired.name, record, reason[:LONGEST_REASON]))

    def _observe(self, key: str, tell: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                tell(observer)
            except Exception:
                # It only looks on: what it misses changes no result.
                _logger.exception(NOT_SHOWN, type(observer).__name__, key)

    def _place(self, record: Incoming) -> str:
        return f"{self.partition.topic}[{self.partition.number}]@{record.offset}"

    def lost(self) -> None:
        """Tell the observers that this state is given up."""
        keys = self.states.keys()
        self._observe(self.partition.topic, lambda observer: observer.lost(self.wired.name, keys))

    def refresh(self) -> None:
        """Bring the telemetry of the states up to date."""
        self.telemetry.keys = len(self.states)
        self.telemetry.state_bytes = self.states.state_bytes
        self.telemetry.keys_evicted += self.states.evicted
        self.states.evicted = 0

    def replay(self, records: Iterable[Incoming]) -> None:
        """Take records that were processed before: nothing is counted or shown, and what comes of them is withheld."""
        observers, self._observers = self._observers, ()
        self._counts = TaskTelemetry(self.wired.name, self.partition.topic, self.partition.number)
        try:
            for record in records:
                self.process(record)
                self.outputs.clear()
        finally:
            self._counts, self._observers = self.telemetry, observers
            self._namesakes = Namesakes()  # what was found and withheld is to be found again


def _answer(stream: Stream, mark: Mark) -> Ranking | None:
    """What was unusual at the mark: the ranking of the newest frame, None when that is too far from the mark."""
    scores = stream.scores()
    if scores is None or abs(mark.ts - stream.ts) > max(MARK_WINDOW_S, 2.0 * stream.interval_s):
        return None
    return scores.ranking(rows=JUDGED_ROWS, features=JUDGED_FEATURES)


def _story(ranking: Ranking, streams: Mapping[str, Stream], scope: str) -> str:
    """What a ranking of the frame of a scope says, with what the host has to do with it."""
    frame, about_host = streams[scope].frame, streams.get("host")
    scores = None if about_host is None else about_host.scores()
    host = None if scores is None else scores.ranking(rows=1, features=JUDGED_FEATURES)
    commands = {} if frame is None else dict(zip(frame.layout.rows, frame.layout.commands, strict=False))
    return " ".join(story(judge(ranking, host), ranking, commands, scope))


def _recorded_earlier(record: Incoming) -> bool:
    return bool(record.headers) and any(name == REPLAY_HEADER for name, _ in record.headers)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
