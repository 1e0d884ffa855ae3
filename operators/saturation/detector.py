"""Resources, each with its mean use, its trend, and the time since which it has been saturated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final

from laggard.operators.contract import LastingScores, Open, check_shape
from laggard.operators.ranking import FeatureScore, Phase, Ranking, RowScore
from laggard.operators.saturation.conditions import CONDITIONS, LIMITS, Columns, Rows, places
from laggard.operators.saturation.results import FORECAST, SAMPLES, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.saturation.results import Name, Reading

    Matrix = NDArray[np.float64]

LONGEST_S: Final = 60.0
"""The longest time that a reading covers, in seconds: before that, the use is unknown."""

HIGH: Final = 0.8
"""The share of the limit from which on a wait is high. Its onset is the time at which it became high."""

RELEASED: Final = 0.75
"""The share of the limit below which a wait is calm."""

LEFT: Final = 1.2
"""A full resource is calm once this many times as much is left as at the limit."""

SAMPLE_S: Final = 60.0
"""The shortest time between two samples of a resource that fills up, in seconds."""

APART_S: Final = 900.0
"""The longest time between two samples, in seconds. After a longer gap the trend begins again."""

MAX_RESOURCES: Final = 64


class Saturation:
    """Reports resources that are saturated for minutes, or will be full soon. No baseline is learned.

    A frame is that of a host, or one of limits: those of its control groups and processes, each a row.

    The reading r of a resource is the share of time for which tasks wait for it (and it is busy), or the share of it
    that is in use. Its mean is

        m <- m + (1 - exp(-dt / tau)) (r - m),   tau = duration / 2,

    which begins at 0 for waits, and at r for uses. A resource is saturated once m reaches its limit: after about half
    of `duration_s` if tasks wait all the time, later if they wait less. It stays saturated until, for `duration_s`, m
    has been below `RELEASED` of the limit or, if the resource fills up, `LEFT` times as much has been left as at the
    limit.

    A forecast opens if a resource that fills up would be full within `forecast_s` at its present rate. If it is less
    than half full, the horizon is 2 r `forecast_s`, since programs often grow for a while if there is room. It ends
    beyond twice that time, or once the resource is saturated. The rate is the least of three: the median of the last
    ten steps of a minute, that of the last five, and the rise of the minimum. The minimum rises from the lowest of the
    first samples to the lowest of the others. So neither a single step nor a use that comes and goes is a trend.

    Such facts are not part of a budget for false alarms.

    References: B. Gregg, "The USE Method", 2012; Documentation/accounting/psi.rst of Linux.

    Parameters:
        duration_s: about how long a resource has to be in full use, in seconds.
        limits: the limits by condition, instead of those in `LIMITS`. One above 1 is never reached.
        forecast_s: the horizon of forecasts, in seconds; 0 for none.

    Example:
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> layout = SimpleNamespace(rows=("host",), names=("host",), features=("pressure_cpu_some_ratio",))
        >>> host = Saturation()
        >>> for tick in range(60):
        ...     host.learn(5.0 * tick, layout, np.array([[0.9 if tick >= 30 else 0.1]]))
        >>> {id: round(each.onset_ts, 1) for id, each in host.score(300.0, layout, np.array([[0.9]])).open.items()}
        {'cpu': 139.3}

    """

    state_version: ClassVar[int] = 1

    def __init__(
        self, *, duration_s: float = 120.0, limits: Mapping[Name, float] | None = None, forecast_s: float = 3600.0
    ) -> None:
        if not (math.isfinite(duration_s) and duration_s > 0.0):
            raise ValueError(f"duration_s: expected a time above 0, got {duration_s!r}")
        if unknown := sorted(set(limits or {}) - CONDITIONS.keys()):
            raise ValueError(f"limits: expected some of {', '.join(CONDITIONS)}, got {', '.join(unknown)}")
        self.duration_s = duration_s
        self.limits: Mapping[Name, float] = {**LIMITS, **(limits or {})}
        self.forecast_s = forecast_s
        self._first_ts = self._ts = math.nan
        self._resources: dict[str, Resource] = {}
        # Derived from the last frame; never part of a snapshot.
        self._columns: Columns | Rows | None = None
        self._scored: tuple[float, Matrix, Scores] | None = None

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Return the resources that are saturated. `values` has the shape (rows, features). The state does not change.

        Raises:
            ValueError: the shape of `values` does not fit the names.

        """
        if self._scored is not None and self._scored[0] == ts and self._scored[1] is values:
            return self._scored[2]
        check_shape(layout, values)
        if self._columns is None or self._columns.layout is not layout:
            self._columns = places(layout)
        readings = self._columns.read(values)
        passed_s = min(max(ts - self._ts, 0.0), LONGEST_S) if math.isfinite(self._ts) else 0.0
        readings = [each for each in readings if math.isfinite(each.value) or not each.condition.fills][:MAX_RESOURCES]
        after = {each.id: self._after(self._resources.get(each.id), each, ts, passed_s) for each in readings}
        age_s = max(ts - self._first_ts, 0.0) if math.isfinite(self._first_ts) else 0.0
        scores = Scores(ts, readings, after, self.limits, age_s)
        self._scored = ts, values, scores
        return scores

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a frame. Raises `ValueError` if the shape of `values` does not fit the names."""
        self._resources = dict(self.score(ts, layout, values).resources)
        self._scored = None
        if math.isnan(self._first_ts):
            self._first_ts = ts
        self._ts = ts

    def _after(self, before: Resource | None, reading: Reading, ts: float, passed_s: float) -> Resource:
        """Return the state of a resource after a reading."""
        fills, limit = reading.condition.fills, self.limits[reading.condition.name]
        # A wait that could not be read is unknown: it must not keep an anomaly open for ever.
        value = reading.value if math.isfinite(reading.value) else 0.0
        is_first = before is None
        if before is None:
            before = Resource(value if fills else 0.0)  # a full resource is saturated at once
        constant_s = 0.5 * self.duration_s
        mean = before.mean - math.expm1(-passed_s / constant_s) * (value - before.mean)
        high = limit if fills else HIGH * limit
        high_ts = before.high_ts
        if mean < high:
            high_ts = math.nan
        elif math.isnan(high_ts):  # the time in which the mean rises from 0 to that level
            high_ts = ts - (0.0 if fills or value <= high else constant_s * math.log(value / (value - high)))
        open_ts, calm_ts = before.open_ts, before.calm_ts
        # A limit that is reached for a moment is not a fault: it must be reached again at the next frame.
        if mean >= limit and not before.is_open and not (reading.is_limit and (is_first or value < limit)):
            open_ts = high_ts
        if not before.is_open or mean >= released_at(limit, fills=fills):
            calm_ts = math.nan
        elif math.isnan(calm_ts):
            calm_ts = ts
        elif ts - calm_ts >= self.duration_s:
            open_ts = calm_ts = math.nan
        after = before._replace(mean=mean, high_ts=high_ts, open_ts=open_ts, calm_ts=calm_ts)
        if not fills or (before.samples and 0.0 <= ts - before.samples[-1][0] < SAMPLE_S):
            return after
        return self._sampled(after, ts, value)

    def _sampled(self, resource: Resource, ts: float, value: float) -> Resource:
        """Add a sample of a resource that fills up, and update its forecast."""
        samples = resource.samples
        if samples and not 0.0 < ts - samples[-1][0] <= APART_S:
            samples = ()  # a gap, or a clock that was set back
        resource = resource._replace(samples=(*samples, (ts, value))[-SAMPLES:])
        horizon_s = self.forecast_s * min(2.0 * value, 1.0) * (2.0 if resource.is_forecast else 1.0)
        soon = self.forecast_s > 0.0 and not resource.is_open and resource.full_s <= horizon_s
        if soon and resource.is_forecast:
            return resource
        return resource._replace(forecast_ts=ts if soon else math.nan)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        resources = {
            id_: each._asdict() | {"samples": [list(sample) for sample in each.samples]}
            for id_, each in self._resources.items()
        }
        return {"first_ts": self._first_ts, "ts": self._ts, "resources": resources}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        resources = {}
        for id_, each in state["resources"].items():
            plain = {name: value for name, value in each.items() if name != "samples"}
            if set(plain) != set(Resource._fields) - {"samples"}:
                raise ValueError(f"resources: {id_}: expected {', '.join(Resource._fields)}, got {', '.join(each)}")
            samples = tuple((float(ts), float(value)) for ts, value in each["samples"])
            resources[str(id_)] = Resource(**{name: float(value) for name, value in plain.items()}, samples=samples)
        self._first_ts, self._ts = float(state["first_ts"]), float(state["ts"])
        self._resources, self._scored = resources, None


class Scores(LastingScores):
    """The resources of a host at one frame.

    Attributes:
        ts: the time of the frame, seconds since the Unix epoch.
        readings: the readings, by the id of the resource.
        resources: the state of each resource after it.
        limits: by condition, the mean reading from which on a resource is saturated.
        age_s: the time since the first frame, in seconds.

    """

    __slots__ = ("_open", "age_s", "limits", "readings", "resources", "ts")

    def __init__(
        self,
        ts: float,
        readings: list[Reading],
        resources: Mapping[str, Resource],
        limits: Mapping[Name, float],
        age_s: float,
    ) -> None:
        self.ts = ts
        self.readings = {each.id: each for each in readings}
        self.resources = resources
        self.limits = limits
        self.age_s = age_s
        self.sudden = self.suspicion = 0.0
        self._open: dict[str, Open] = {}
        for id_, each in resources.items():
            if each.is_open:
                self._open[id_] = Open(each.open_ts, self._score(id_))
            if each.is_forecast:
                self._open[FORECAST + id_] = Open(each.forecast_ts, self._imminence(id_))

    @property
    def score(self) -> float:
        """The severity of the worst resource: above 1 if saturated, otherwise its share of the limit."""
        return max((self._score(each) for each in self.readings), default=0.0)

    @property
    def open(self) -> Mapping[str, Open]:
        """The resources that are saturated, and the forecasts."""
        return self._open

    def about(self, anomaly: str, rows: int, features: int) -> Ranking:
        """Return the ranking of one resource; its row has the name of the anomaly."""
        if not anomaly:
            return self.ranking(rows, features)
        opened, id_ = self._open[anomaly], anomaly.removeprefix(FORECAST)
        feature = self._feature(id_, opened.score)
        phase = Phase(high=True, begin_ts=opened.onset_ts, end_ts=self.ts, mean=self.resources[id_].mean)
        of_row = self.readings[id_].row
        row = RowScore(of_row, anomaly, opened.score, (feature,), self.age_s, "threshold", phases=(phase,))
        return Ranking(self.ts, opened.score, (row,), self.age_s, young=False)

    def ranking(self, rows: int | None = None, features: int | None = None) -> Ranking:
        """Return the host with its resources, or the limits, the most saturated first."""
        found: dict[str, list[FeatureScore]] = {}
        for id_, reading in self.readings.items():
            found.setdefault(reading.row, []).append(self._feature(id_, self._score(id_)))
        ranked = []
        for row, of_row in found.items():
            of_row.sort(key=lambda one: -one.score)
            ranked.append(RowScore(row, row, of_row[0].score, tuple(of_row[:features]), self.age_s, "threshold"))
        ranked.sort(key=lambda each: -each.score)
        return Ranking(self.ts, self.score, tuple(ranked[:rows]), self.age_s, young=False)

    def _score(self, id_: str) -> float:
        resource, condition = self.resources[id_], self.readings[id_].condition
        limit = self.limits[condition.name]
        if not resource.is_open or not math.isnan(resource.calm_ts):
            return min(max(resource.mean / limit, 0.0), 1.0)
        released = released_at(limit, fills=condition.fills)
        return 1.0 + max(resource.mean - released, 1e-3) / max(1.0 - released, 1e-3)

    def _imminence(self, id_: str) -> float:
        """Return the severity of a forecast: from 1, if there is much time left, to 2."""
        return 1.0 + 1.0 / (1.0 + self.resources[id_].full_s / 600.0)

    def _feature(self, id_: str, score: float) -> FeatureScore:
        reading = self.readings[id_]
        limit = self.limits[reading.condition.name]
        return FeatureScore(reading.feature, reading.value, limit, math.nan, score, self.resources[id_].mean)


def released_at(limit: float, *, fills: bool) -> float:
    """Return the mean below which a resource is no longer saturated."""
    return 1.0 - LEFT * (1.0 - limit) if fills else RELEASED * limit
