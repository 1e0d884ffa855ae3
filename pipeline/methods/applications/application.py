"""The state of one application: its operator, its intervals, its anomalies, and the wishes of people."""

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
from laggard.pipeline.core.eventtime import SILENT_S, SILENT_TICKS, Sequences
from laggard.pipeline.methods.applications.intervals import Intervals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from laggard.operators.regression.models import Model, SampleScores
    from laggard.pipeline.alarms.courses import Course
    from laggard.pipeline.core.records import Decoder, Wish
    from laggard.pipeline.methods.applications.metrics import Metrics

MAX_WISHES: Final = 1_000
"""The most wishes that wait for the interval from which they hold; with more, the oldest holds at once."""

_STREAM: Final = "application"
"""The key of the operator's state in a snapshot: in the place of a scope, so that migrations find it."""


class Operator(Protocol):
    """The operator that builds the models of one application. A method that raises must not change the state."""

    @property
    def models(self) -> Mapping[str, Model]:
        """The present models by performance metric."""

    @property
    def newest(self) -> Mapping[str, float]:
        """The newest values of the metrics in the models."""

    @property
    def pinned(self) -> Sequence[str]:
        """The metrics that must be in the models."""

    @property
    def banned(self) -> Sequence[str]:
        """The metrics that must not be in the models."""

    def score(
        self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]
    ) -> SampleScores:
        """Score an interval that ends at `ts` by the models. The state does not change."""

    def learn(
        self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]
    ) -> Sequence[Model]:
        """Learn an interval, and return the models that were built."""

    def what_if(self, performance: str, metric: str, value: float) -> float:
        """Return the prediction of a performance metric with another value of one metric, others at their newest."""

    def pin(self, metric: str) -> None:
        """Require a metric in the models."""

    def ban(self, metric: str) -> None:
        """Exclude a metric from the models."""

    def free(self, metric: str) -> None:
        """Neither require nor exclude a metric."""

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""


@dataclass(slots=True, eq=False)
class Application:
    """The state of one application.

    Attributes:
        operator: the operator, which has learned all closed intervals.
        intervals: joins its records.
        trigger: the trigger of the next anomaly.
        anomalies: the open anomaly, and the number of all.
        courses: the courses of open anomalies, in the order of their opening.
        scored_ts: the end of the newest interval that was passed to the operator, -inf before the first.
        wishes: the waiting wishes by time. Each holds from the first interval that does not end before it, so the delay
            of counters makes no difference.
        seen: the sequence numbers of its wishes.
        tolerance: the feedback on its anomalies.
        records: the number of records that have changed it.
        last_number: see `KeyState`.

    """

    operator: Operator
    intervals: Intervals = field(default_factory=Intervals)
    trigger: Trigger = field(default_factory=Trigger)
    anomalies: Anomalies = field(default_factory=Anomalies)
    courses: tuple[Course, ...] = ()
    scored_ts: float = -math.inf
    wishes: list[tuple[float, str, str]] = field(default_factory=list)
    seen: Sequences = field(default_factory=Sequences)
    tolerance: Tolerance = field(default_factory=Tolerance)
    records: int = 0
    last_number: int = -1

    @property
    def ts(self) -> float:
        """The time of the newest frame, seconds since the Unix epoch; 0 before the first."""
        return max(self.intervals.ts, 0.0)

    @property
    def awaited_until(self) -> float:
        """The time until which the next interval is awaited; infinite without open anomalies."""
        if not self.courses:
            return math.inf
        return self.scored_ts + max(SILENT_S, SILENT_TICKS * self.intervals.length_s)

    def close(self, anomaly: str) -> None:
        """End an anomaly, given by its id: the next one may open at once."""
        if self.anomalies.of_score is not None and self.anomalies.of_score.id == anomaly:
            self.anomalies, self.trigger = self.anomalies.without(anomaly), Trigger()

    def fall_silent(self) -> None:
        """Drop its anomalies, whose end was not observed. If one is still there with the next interval, it is new."""
        self.courses, self.trigger = (), Trigger()
        self.anomalies = self.anomalies.given_up()

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "records": self.records,
            "heard": self.last_number,
            "wishes": [list(each) for each in self.wishes],
            "seen": self.seen.snapshot(),
            **self.tolerance.snapshot(),
            "intervals": self.intervals.snapshot(),
            "streams": {
                _STREAM: {
                    "operator": self.operator.snapshot(),
                    "ts": self.scored_ts,
                    "armed": self.trigger.armed,
                    "calm_since": self.trigger.calm_since,
                    **self.anomalies.snapshot(),
                    "courses": [course.snapshot() for course in self.courses],
                }
            },
        }

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        self.records, self.last_number = int(state["records"]), int(state["heard"])
        self.wishes = [(float(ts), metric, wish) for ts, metric, wish in state["wishes"]]
        self.seen, self.tolerance = Sequences(state["seen"]), restored_tolerance(state)
        self.intervals.restore(state["intervals"], decoder, place)
        stream = state["streams"][_STREAM]
        self.operator.restore(stream["operator"])
        self.scored_ts = float(stream["ts"])
        self.trigger = Trigger(bool(stream["armed"]), stream["calm_since"])
        self.anomalies = restored_anomalies(stream)
        self.courses = tuple(map(restored_course, stream["courses"]))

    def wish(self, wish: Wish) -> None:
        """Note a wish."""
        insort(self.wishes, (wish.ts, wish.metric, wish.wish), key=lambda each: each[0])
        if len(self.wishes) > MAX_WISHES:
            self.fulfil(self.wishes[0][0])

    def fulfil(self, ts: float) -> None:
        """Apply the wishes that were made up to this time."""
        while self.wishes and self.wishes[0][0] <= ts:
            _, metric, wish = self.wishes.pop(0)
            {"pin": self.operator.pin, "ban": self.operator.ban, "free": self.operator.free}[wish](metric)

    def begin_anew(self, operator: Operator) -> None:
        """Forget what was learned, but keep the wishes."""
        for metric in self.operator.pinned:
            operator.pin(metric)
        for metric in self.operator.banned:
            operator.ban(metric)
        self.operator, self.intervals = operator, Intervals()
        self.fall_silent()
