"""The stream of one operator, key and scope: its operator, its newest frame, and its anomalies.

Deterministic, like the operator: the same frames in the same order give the same scores and the same state, with or
without a snapshot in between. It has no clock, no bus and no randomness.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from laggard.operators.contract import Adopts, FrameOperator, LastingScores
from laggard.pipeline.alarms.anomalies import Anomalies, restored
from laggard.pipeline.alarms.courses import restored as restored_course
from laggard.pipeline.alarms.trigger import Trigger
from laggard.pipeline.core.eventtime import SET_BACK_RECORDS, SET_BACK_S, SILENT_S, SILENT_TICKS, Sequences, SetBack
from laggard.pipeline.core.records import Decoder, Frame, RecordError, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from laggard.operators.contract import Layout, Matrix, Open, Scores
    from laggard.pipeline.alarms.courses import Course
    from laggard.pipeline.core.eventtime import Arrival

NONE_OPEN: Final[Mapping[str, Open]] = {}


def open_anomalies(scores: object) -> Mapping[str, Open]:
    """Return the anomalies that the operator keeps open itself, by its own ids."""
    return scores.open if isinstance(scores, LastingScores) else NONE_OPEN


def score_of(scores: Scores) -> float:
    """Return the score of the stream, without the anomalies that the operator keeps open itself."""
    return scores.sudden if isinstance(scores, LastingScores) else scores.score


def suspicion_of(scores: Scores) -> float:
    """Return how suspicious the rows without an open anomaly are; 0 if the operator has no budget of notices."""
    return scores.suspicion if isinstance(scores, LastingScores) else 0.0


class Operator(FrameOperator, Protocol):
    """A frame operator whose scores can be ranked.

    A method that raises must not change the state: the frame becomes a dead letter, and the stream skips it.
    """

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Score a frame. The state does not change."""


class Stream:
    """The state of one operator for one key and scope.

    The newest frame is scored at once, but learned only when the next one comes. Until then its scores can be computed
    again, also after a restart, as a mark needs them.

    Attributes:
        operator: the operator, which has learned all frames before the newest.
        ts: the time of the newest frame, -inf before the first.
        interval_s: the time between the newest two frames, 0 before there are two.
        frame: the newest frame; None without any, or if the operator rejected it.
        trigger: the trigger of the next anomaly.
        anomalies: the open anomalies, and the number of all.
        courses: the courses of open anomalies, in the order of their opening.
        set_back: counts late frames that suggest that the clock of the producer was set back.

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

    def classify(self, frame: Frame) -> Arrival:
        """Judge whether a frame is new, a duplicate, late, or shows that the clock of its producer was set back.

        A duplicate has a known sequence number and is no newer than the newest frame: a producer may lose count and
        restart. A late frame is older than the newest.
        """
        if frame.ts > self.ts:
            return "new"
        # An agent that was restarted after its clock was corrected has lower numbers, which follow its clock.
        corrected = self.ts - frame.ts > SET_BACK_S
        if self._sequences.remembers(frame.sequence) if corrected else frame.sequence in self._sequences:
            return "duplicate"
        return self.set_back.late(frame.ts, self.ts) if frame.ts < self.ts else "new"

    @property
    def begun(self) -> bool:
        """Whether there has been a frame."""
        return self.ts > -math.inf

    @property
    def awaited_until(self) -> float:
        """The time until which the next frame is awaited for open anomalies; infinite without any."""
        waits = self.courses or self.anomalies.notices.open
        return self.ts + max(SILENT_S, SILENT_TICKS * self.interval_s) if waits else math.inf

    def fall_silent(self) -> None:
        """Drop its anomalies, whose end was not observed. One that is still there when frames come again is new."""
        self.courses, self.trigger = (), Trigger()
        self.anomalies = self.anomalies.given_up()

    def learn(self) -> None:
        """Learn the newest frame. An exception of the operator is raised, and the frame is skipped."""
        frame, self.frame, self._scores = self.frame, None, None
        if frame is not None:
            self.operator.learn(frame.ts, frame.layout, frame.values)

    def score(self, frame: Frame) -> Scores:
        """Score a frame, after `learn`. The state does not change."""
        return self.operator.score(frame.ts, frame.layout, frame.values)

    def accept(self, frame: Frame, scores: Scores, trigger: Trigger) -> None:
        """Make this the newest frame, after `learn`. The caller adds what it opens to `anomalies`."""
        if frame.sequence in self._sequences:
            self._sequences.restart()
        self._sequences.add(frame.sequence)
        self.interval_s = frame.ts - self.ts if math.isfinite(self.ts) else 0.0
        self.ts = frame.ts
        self.frame, self._scores, self.trigger = frame, scores, trigger
        if self.anomalies.open:
            self.anomalies = self.anomalies.after(frame, over=trigger.armed, kept=open_anomalies(scores))
        self.set_back.restart()

    def adopt(self, anomalies: Iterable[str]) -> None:
        """Let the operator accept these anomalies, given by its own ids, as the new baseline."""
        for each in anomalies:
            if isinstance(self.operator, Adopts):
                self.operator.adopt(each)
                self._scores = None

    def close(self, anomaly: str) -> None:
        """End an anomaly that was excused, or has been calm: the next one may open at once."""
        closed = next((each for each in self.anomalies.open if each.id == anomaly), None)
        self.anomalies = self.anomalies.without(anomaly)
        if closed is not None and not closed.own:
            self.trigger = Trigger()

    def scores(self) -> Scores | None:
        """Return the scores of the newest frame; None without one."""
        if self._scores is None and self.frame is not None:
            self._scores = self.score(self.frame)
        return self._scores

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
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
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
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


def late(ts: float, expected_ts: float, set_back: int) -> str:
    """Return why a time is late; `set_back` counts the late ones in a row that suggest a clock that was set back."""
    reason = f"expected a time of at least {expected_ts!r}, got {ts!r}"
    if not set_back:
        return reason
    return (
        f"{reason}; {set_back} of {SET_BACK_RECORDS} after which the clock counts as set back, and the stream begins "
        "anew"
    )
