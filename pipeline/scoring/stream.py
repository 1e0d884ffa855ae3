"""One operator on the frames of one key and scope: what it has seen, what it scored, when it last alerted.

Deterministic, like the operator: the same frames in the same order give the same answers and the same state, whether
or not the stream was written down and read back in between. It knows no clock, no bus and no randomness.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from laggard.operators.contract import Adopts, FrameOperator, LastingScores
from laggard.pipeline.alarms.anomalies import Anomalies, restored
from laggard.pipeline.alarms.courses import restored as restored_course
from laggard.pipeline.alarms.trigger import Trigger
from laggard.pipeline.eventtime import SET_BACK_S, SILENT_S, SILENT_TICKS, Sequences, SetBack
from laggard.pipeline.records import Decoder, Frame, RecordError, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from laggard.operators.contract import Layout, Matrix, Open, Scores
    from laggard.pipeline.alarms.courses import Course
    from laggard.pipeline.eventtime import Judged

NOTHING_KEPT: Final[Mapping[str, Open]] = {}


def kept_by(scores: object) -> Mapping[str, Open]:
    """Return the anomalies that the operator keeps open itself, by its own ids."""
    return scores.open if isinstance(scores, LastingScores) else NOTHING_KEPT


def score_of(scores: Scores) -> float:
    """Return the score of the stream, without the anomalies that the operator keeps open itself."""
    return scores.sudden if isinstance(scores, LastingScores) else scores.score


def suspicion_of(scores: Scores) -> float:
    """Return how suspicious the rows without an open anomaly are; 0 if the operator has no budget of notices."""
    return scores.suspicion if isinstance(scores, LastingScores) else 0.0


class Operator(FrameOperator, Protocol):
    """A frame operator whose scores can be ranked.

    What raises must leave the state as it was: the frame becomes a dead letter, and the stream goes on without it.
    """

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """How unusual this frame is."""


class Stream:
    """One operator's view of one key and scope.

    The newest frame is scored at once but learned only when the next one comes: until then the state can answer again
    what it answered to that frame, also after it was written down and read back, which is what a mark asks for.

    Attributes:
        operator: has learned all frames before the newest.
        ts: the newest frame's time, -inf before the first.
        interval_s: the time between the newest two frames, 0 before there are two.
        frame: the newest frame; None where there is none, or where the operator refused it.
        trigger: when the next anomaly may be told.
        anomalies: the one that is open, and how many there were.
        courses: of the anomalies that were told and have not ended, in the order of their opening.
        set_back: counts the late frames that look as if the producer's clock had been set back.

    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.ts = -math.inf
        self.interval_s = 0.0
        self.frame: Frame | None = None
        self.trigger = Trigger()
        self.anomalies = Anomalies()
        self.courses: tuple[Course, ...] = ()
        self.set_back = SetBack(ordered=True)
        self._scores: Scores | None = None
        self._sequences = Sequences()

    def judge(self, frame: Frame) -> Judged:
        """Judge whether a frame can be taken.

        A duplicate has a known sequence number and is no newer than the newest frame: a producer may lose count and
        restart. A late frame is older than the newest.
        """
        if frame.ts > self.ts:
            return "new"
        # An agent that was restarted since its clock was corrected has lower numbers: they follow its clock.
        corrected = self.ts - frame.ts > SET_BACK_S
        if self._sequences.remembers(frame.sequence) if corrected else frame.sequence in self._sequences:
            return "duplicate"
        return self.set_back.late(frame.ts, self.ts) if frame.ts < self.ts else "new"

    @property
    def begun(self) -> bool:
        """Whether there was a frame."""
        return self.ts > -math.inf

    @property
    def awaited_until(self) -> float:
        """Until when it is waited for the next frame, to see how its anomalies go on; infinite where it has none."""
        waits = self.courses or self.anomalies.notices.open
        return self.ts + max(SILENT_S, SILENT_TICKS * self.interval_s) if waits else math.inf

    def fall_silent(self) -> None:
        """Give up its anomalies, whose end nobody saw: what still is so when its frames come again is another one."""
        self.courses, self.trigger = (), Trigger()
        self.anomalies = self.anomalies.given_up()

    def learn(self) -> None:
        """Take the newest frame into the state. What the operator raises is raised, and the frame is left out."""
        frame, self.frame, self._scores = self.frame, None, None
        if frame is not None:
            self.operator.learn(frame.ts, frame.layout, frame.values)

    def score(self, frame: Frame) -> Scores:
        """How unusual a frame is, after `learn`. Changes nothing."""
        return self.operator.score(frame.ts, frame.layout, frame.values)

    def accept(self, frame: Frame, scores: Scores, trigger: Trigger) -> None:
        """Make this the newest frame, after `learn`. What it opens is told to `anomalies` by whoever knows it."""
        if frame.sequence in self._sequences:
            self._sequences.restart()
        self._sequences.add(frame.sequence)
        self.interval_s = frame.ts - self.ts if math.isfinite(self.ts) else 0.0
        self.ts = frame.ts
        self.frame, self._scores, self.trigger = frame, scores, trigger
        if self.anomalies.open:
            self.anomalies = self.anomalies.after(frame, over=trigger.armed, kept=kept_by(scores))
        self.set_back.restart()

    def adopt(self, anomalies: Iterable[str]) -> None:
        """Let what the operator keeps open be normal."""
        for each in anomalies:
            if isinstance(self.operator, Adopts):
                self.operator.adopt(each)
                self._scores = None

    def close(self, anomaly: str) -> None:
        """Take an anomaly for ended, which people excused or which has been calm: the next one may be told at once."""
        closed = next((each for each in self.anomalies.open if each.id == anomaly), None)
        self.anomalies = self.anomalies.without(anomaly)
        if closed is not None and not closed.own:
            self.trigger = Trigger()

    def scores(self) -> Scores | None:
        """The newest frame's scores; None where there is no frame."""
        if self._scores is None and self.frame is not None:
            self._scores = self.score(self.frame)
        return self._scores

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        behind = self.set_back
        return {
            "operator": self.operator.snapshot(),
            "ts": self.ts,
            "interval_s": self.interval_s,
            "frame": None if self.frame is None else encode(self.frame),
            "armed": self.trigger.armed,
            "calm_since": self.trigger.calm_since,
            "sequences": self._sequences.snapshot(),
            **self.anomalies.snapshot(),
            **({"courses": [course.snapshot() for course in self.courses]} if self.courses else {}),
            **({"set_back": behind.count, "set_back_ts": behind.ts} if behind.count else {}),
        }

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` or `KeyError` naming what does not fit."""
        self.operator.restore(state["operator"])
        self.ts, self.interval_s = float(state["ts"]), float(state["interval_s"])
        self.trigger = Trigger(bool(state["armed"]), state["calm_since"])
        self.anomalies = restored(state)
        self.courses = tuple(map(restored_course, state.get("courses", ())))
        self._sequences = Sequences(state["sequences"])
        behind = int(state.get("set_back", 0)), float(state.get("set_back_ts", -math.inf))
        self.set_back = SetBack(*behind, ordered=True)
        self._scores = self.frame = None
        if state["frame"] is not None:
            frame = decoder.decode(state["frame"], place)
            if not isinstance(frame, Frame):
                raise RecordError(place, "frame", "a frame", type(frame).__name__)
            self.frame = frame
