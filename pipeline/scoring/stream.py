"""One operator on the frames of one key and scope: what it has seen, what it scored, when it last alerted.

Deterministic, like the operator: the same frames in the same order give the same answers and the same state, whether
or not the stream was written down and read back in between. It knows no clock, no bus and no randomness.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from laggard.operators.contract import Adopts, FrameOperator, LastingScores
from laggard.pipeline.alarms.anomalies import Anomalies, restored
from laggard.pipeline.alarms.courses import SILENT_S
from laggard.pipeline.alarms.courses import restored as restored_course
from laggard.pipeline.alarms.trigger import Trigger
from laggard.pipeline.records import UNNUMBERED, Decoder, Frame, RecordError, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from laggard.operators.contract import Layout, Matrix, Open, Scores
    from laggard.pipeline.alarms.courses import Course

SET_BACK_S: Final = 3600.0
SET_BACK_FRAMES: Final = 12
"""A producer whose frames are older than the newest by more than so long, so many times in a row, has a clock that was
wrong then and was set back since. Only a replay of what was sent long ago looks the same."""

SILENT_TICKS: Final = 3.0
"""A stream has fallen silent after `SILENT_S` and so many of its ticks."""

REMEMBERED_SEQUENCES: Final = 256
"""So far back a record that comes again is told from one that comes late: more than an agent sends at once of one
scope, which is what may come again."""


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


class Sequences:
    """The last sequence numbers of a producer: tells records that were here already."""

    def __init__(self, seen: Iterable[int] = ()) -> None:
        self._seen = deque(seen, REMEMBERED_SEQUENCES)
        self._highest = max(self._seen, default=UNNUMBERED)

    def __contains__(self, sequence: int) -> bool:
        """Whether the number was here. Of those too long ago to remember, all are taken to have been."""
        if sequence > self._highest or sequence == UNNUMBERED:
            return False
        return sequence in self._seen or (len(self._seen) == REMEMBERED_SEQUENCES and sequence < min(self._seen))

    def remembers(self, sequence: int) -> bool:
        """Whether the number is among those that are remembered."""
        return sequence != UNNUMBERED and sequence in self._seen

    def add(self, sequence: int) -> None:
        """Remember a number."""
        if sequence != UNNUMBERED:
            self._seen.append(sequence)
            self._highest = max(self._highest, sequence)

    def restart(self) -> None:
        """Forget all: the producer has begun to count anew."""
        self._seen.clear()
        self._highest = UNNUMBERED

    def snapshot(self) -> list[int]:
        """The numbers that are remembered, in the order of their coming."""
        return list(self._seen)


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
        set_back: how many frames in a row came that look as if the producer's clock had been set back.

    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.ts = -math.inf
        self.interval_s = 0.0
        self.frame: Frame | None = None
        self.trigger = Trigger()
        self.anomalies = Anomalies()
        self.courses: tuple[Course, ...] = ()
        self.set_back = 0
        self._set_back_ts = -math.inf  # of the last of those
        self._scores: Scores | None = None
        self._sequences = Sequences()

    def judge(self, frame: Frame) -> Literal["new", "duplicate", "late"]:
        """Whether a frame can be taken.

        A duplicate has a sequence number that was here, and is no newer than the newest frame: a producer that lost
        count and began anew is taken at its word. Late is what is older than the newest frame.
        """
        if frame.ts > self.ts:
            return "new"
        if self.is_far_behind(frame):
            # By an agent that was started anew since its clock was mended: the numbers go by the clock.
            return "duplicate" if self._sequences.remembers(frame.sequence) else "late"
        if frame.sequence in self._sequences:
            return "duplicate"
        return "late" if frame.ts < self.ts else "new"

    def is_far_behind(self, frame: Frame) -> bool:
        """Whether a frame is older than the newest by so much that it may be the newest that is wrong."""
        return self.ts - frame.ts > SET_BACK_S

    def note_set_back(self, frame: Frame) -> bool:
        """Note a late frame that is far behind; gives whether it is one of so many that the newest has to be wrong."""
        self.set_back = self.set_back + 1 if frame.ts > self._set_back_ts else 1
        self._set_back_ts = frame.ts
        return self.set_back >= SET_BACK_FRAMES

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
        self.set_back, self._set_back_ts = 0, -math.inf

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
        set_back = {"set_back": self.set_back, "set_back_ts": self._set_back_ts} if self.set_back else {}
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
            **set_back,
        }

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` or `KeyError` naming what does not fit."""
        self.operator.restore(state["operator"])
        self.ts, self.interval_s = float(state["ts"]), float(state["interval_s"])
        self.trigger = Trigger(bool(state["armed"]), state["calm_since"])
        self.anomalies = restored(state)
        self.courses = tuple(map(restored_course, state.get("courses", ())))
        self._sequences = Sequences(state["sequences"])
        self.set_back, self._set_back_ts = int(state.get("set_back", 0)), float(state.get("set_back_ts", -math.inf))
        self._scores = self.frame = None
        if state["frame"] is not None:
            frame = decoder.decode(state["frame"], place)
            if not isinstance(frame, Frame):
                raise RecordError(place, "frame", "a frame", type(frame).__name__)
            self.frame = frame
