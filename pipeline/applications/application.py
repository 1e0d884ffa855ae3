"""The state of one application: its operator, the intervals that it is asked of, its anomalies, and people's wishes."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from laggard.pipeline.alarms.anomalies import Anomalies
from laggard.pipeline.alarms.anomalies import restored as restored_anomalies
from laggard.pipeline.alarms.courses import restored as restored_course
from laggard.pipeline.alarms.tolerance import Tolerance
from laggard.pipeline.alarms.tolerance import restored as restored_tolerance
from laggard.pipeline.alarms.trigger import Trigger
from laggard.pipeline.applications.intervals import Intervals
from laggard.pipeline.eventtime import SILENT_S, SILENT_TICKS, Sequences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from laggard.operators.regression.models import Judgement, Model
    from laggard.pipeline.alarms.courses import Course
    from laggard.pipeline.applications.metrics import Metrics
    from laggard.pipeline.records import Decoder, Wish

MAX_WISHES: Final = 1_000
"""So many wait for the interval from which on they hold; then the oldest holds at once."""

_STREAM: Final = "application"
"""Where a state has that of the operator: in the place of a scope's, so that migrations find it."""


class Operator(Protocol):
    """What builds the models of one application. What raises must leave the state as it was."""

    @property
    def models(self) -> Mapping[str, Model]:
        """The present ones, by performance metric."""

    @property
    def newest(self) -> Mapping[str, float]:
        """The newest values of the metrics in them."""

    @property
    def pinned(self) -> Sequence[str]:
        """The metrics that must be in the models."""

    @property
    def banned(self) -> Sequence[str]:
        """The metrics that must not."""

    def score(
        self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]
    ) -> Judgement:
        """What the models say of an interval that ends at `ts`. Changes nothing."""

    def learn(
        self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]
    ) -> Sequence[Model]:
        """Take it into the state; gives the models that were built."""

    def what_if(self, performance: str, metric: str, value: float) -> float:
        """What the model of a performance metric says where a metric of it has another value, others their newest."""

    def pin(self, metric: str) -> None:
        """Have this metric in the models."""

    def ban(self, metric: str) -> None:
        """Have it in none."""

    def free(self, metric: str) -> None:
        """Neither."""

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""


@dataclass(slots=True, eq=False)
class Application:
    """The state of one application.

    Attributes:
        operator: has learned all intervals that are closed.
        intervals: joins its records.
        trigger: when the next anomaly may be told.
        anomalies: the one that is open, and how many there were.
        courses: of the anomalies that were told and have not ended, in the order of their opening.
        judged_ts: the end of the newest interval that was judged, -inf before there is one.
        wishes: those that hold from the next interval on that does not end before them, by their times: so that it
            makes no difference how quickly counters came.
        seen: the sequence numbers of its wishes.
        tolerance: what people said of its anomalies.
        records: how many records have changed it.
        heard: see `KeyState`.

    """

    operator: Operator
    intervals: Intervals = field(default_factory=Intervals)
    trigger: Trigger = field(default_factory=Trigger)
    anomalies: Anomalies = field(default_factory=Anomalies)
    courses: tuple[Course, ...] = ()
    judged_ts: float = -math.inf
    wishes: list[tuple[float, str, str]] = field(default_factory=list)
    seen: Sequences = field(default_factory=Sequences)
    tolerance: Tolerance = field(default_factory=Tolerance)
    records: int = 0
    heard: int = -1

    @property
    def ts(self) -> float:
        """The newest time that was heard, seconds since the Unix epoch; 0 before there is one."""
        return max(self.intervals.ts, 0.0)

    @property
    def awaited_until(self) -> float:
        """Until when it is waited for the next interval; infinite where no anomaly has to end."""
        if not self.courses:
            return math.inf
        return self.judged_ts + max(SILENT_S, SILENT_TICKS * self.intervals.length_s)

    def close(self, anomaly: str) -> None:
        """Take an anomaly, given by its id, for ended: the next one may be told at once."""
        if self.anomalies.of_score is not None and self.anomalies.of_score.id == anomaly:
            self.anomalies, self.trigger = self.anomalies.without(anomaly), Trigger()

    def fall_silent(self) -> None:
        """Give up its anomalies, whose end nobody saw: what still is so when it comes again is another one."""
        self.courses, self.trigger = (), Trigger()
        self.anomalies = self.anomalies.given_up()

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "records": self.records,
            "heard": self.heard,
            "wishes": [list(each) for each in self.wishes],
            "seen": self.seen.snapshot(),
            **self.tolerance.snapshot(),
            "intervals": self.intervals.snapshot(),
            "streams": {
                _STREAM: {
                    "operator": self.operator.snapshot(),
                    "ts": self.judged_ts,
                    "armed": self.trigger.armed,
                    "calm_since": self.trigger.calm_since,
                    **self.anomalies.snapshot(),
                    "courses": [course.snapshot() for course in self.courses],
                }
            },
        }

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` or `KeyError` naming what does not fit."""
        self.records, self.heard = int(state["records"]), int(state["heard"])
        self.wishes = [(float(ts), metric, wish) for ts, metric, wish in state["wishes"]]
        self.seen, self.tolerance = Sequences(state["seen"]), restored_tolerance(state)
        self.intervals.restore(state["intervals"], decoder, place)
        stream = state["streams"][_STREAM]
        self.operator.restore(stream["operator"])
        self.judged_ts = float(stream["ts"])
        self.trigger = Trigger(bool(stream["armed"]), stream["calm_since"])
        self.anomalies = restored_anomalies(stream)
        self.courses = tuple(map(restored_course, stream["courses"]))

    def wish(self, wish: Wish) -> None:
        """Note a wish."""
        insort(self.wishes, (wish.ts, wish.metric, wish.wish), key=lambda each: each[0])
        if len(self.wishes) > MAX_WISHES:
            self.fulfil(self.wishes[0][0])

    def fulfil(self, ts: float) -> None:
        """Let the wishes hold that were made until then."""
        while self.wishes and self.wishes[0][0] <= ts:
            _, metric, wish = self.wishes.pop(0)
            {"pin": self.operator.pin, "ban": self.operator.ban, "free": self.operator.free}[wish](metric)

    def begin_anew(self, operator: Operator) -> None:
        """Forget what was learned, but not what was wished."""
        for metric in self.operator.pinned:
            operator.pin(metric)
        for metric in self.operator.banned:
            operator.ban(metric)
        self.operator, self.intervals = operator, Intervals()
        self.fall_silent()
