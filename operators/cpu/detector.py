"""S1's operator: prolonged high use of a resource by a row, as one event with its phases."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from laggard.operators.contract import check_shape
from laggard.operators.cpu.measures import CONDITIONS, Columns, Readings
from laggard.operators.cpu.scores import Scores
from laggard.operators.cpu.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.cpu.events import Event
    from laggard.operators.cpu.measures import ConditionName
    from laggard.operators.cpu.smoothing import Kind

    Matrix = NDArray[np.float64]

DEFAULT_CONDITIONS: Final[tuple[ConditionName, ...]] = ("cpu", "quota", "io_pressure", "memory_pressure")

THRESHOLDS: Final[Mapping[ConditionName, float]] = {
    "cpu": 0.85,
    "single_cpu": 0.85,
    "spikes": 0.1,
    "quota": 0.5,
    "io_pressure": 0.85,
    "memory_pressure": 0.6,
}
"""The least high reading of each condition. For use it is the published share, for spikes six a minute, and for a quota
half of its periods, which are ten a second. For memory it is the share from which on systemd-oomd(8) kills."""


_NO_EVENTS: Final[Mapping[ConditionName, Mapping[str, Event]]] = {}


class Cpu:
    """Finds rows with prolonged high use of a resource, by S1's state machine: one event per fault.

    Each condition of each row has a reading and a `Machine` of its own:

    - `cpu`: the share of all CPUs that a process uses, in user and kernel mode together (S1, Eq. 2: u2).
    - `single_cpu`: the share of one CPU (Eq. 1: u1). A program with one thread cannot use more; but a busy core is
      normal on a machine that computes.
    - `spikes`: the rate at which `cpu` was high for too short a time to be prolonged, with forgetting by `SPIKES_S`. S1
      leaves these out of its scope.
    - `quota`: the share of periods in which the CPU quota of a process's cgroup was used up, if it uses any of it.
    - `io_pressure`, `memory_pressure`: the share of time in which some task of a host, or of a process's control group,
      waited for I/O, or memory (pressure stall information).

    The score of a row is 0 in the state Normal, and the elapsed share of `duration_s` in the state High. From then on
    until Normal it is 1 plus the mean reading of its phases of high use. Dips do not end an event, they separate its
    phases. The score of the frame is that of its worst row. So above 1 is an event. Since an event is a fact, not a
    deviation, no false-alarm budget applies.

    Frames of processes need the number of CPUs as the feature `cpus` of any row, since an operator does not see the
    frames of the host. Without it, the number is the most CPUs that were ever in use at once. Features are those of
    laggard's agent; `cpu_ratio` stands for user and kernel mode together.

    The state is empty except for rows in an event; see `Events` for their memory, and `Smoothing` for that of an
    average. The operator has nothing to learn, so it is never young.

    Reference: "S1", "Identifying Conditions of Interest"; Documentation/accounting/psi.rst and
    Documentation/scheduler/sched-bwc.rst of Linux.

    Parameters:
        threshold: the least share of all CPUs that is high; for `single_cpu`, the least share of one.
        duration_s: for how long use must be high, or low again, in seconds.
        conditions: the watched conditions.
        thresholds: the least reading that is high for other conditions, instead of `THRESHOLDS`.
        smoothing: `none` for single readings, `mean` for their mean over `window_s`, `trimmed` for that without
            outliers.
        window_s: the window of the mean in seconds.

    Example:
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> features = ("cpu_user_ratio", "cpu_system_ratio", "cpus")
        >>> layout = SimpleNamespace(rows=("java[7]",), names=("java",), features=features, commands=())
        >>> cpu = Cpu()
        >>> for tick in range(180):
        ...     use = 3.8 if 50 < tick <= 170 and tick not in (110, 111, 150, 151) else 0.1
        ...     cpu.learn(1e9 + tick, layout, np.array([[use, 0.0, 4.0]]))
        ...     if tick == 160:
        ...         java = cpu.score(1e9 + 161, layout, np.array([[3.8, 0.0, 4.0]])).ranking().rows[0]
        >>> java.features[0].feature, [phase.end_ts - phase.begin_ts for phase in java.phases]
        ('cpu_system_wide_ratio', [59.0, 2.0, 38.0, 2.0, 10.0])

    """

    state_version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        threshold: float = 0.85,
        duration_s: float = 5.0,
        conditions: Collection[ConditionName] = DEFAULT_CONDITIONS,
        thresholds: Mapping[ConditionName, float] | None = None,
        smoothing: Kind = "none",
        window_s: float = 5.0,
    ) -> None:
        if unknown := set(conditions) - CONDITIONS.keys():
            raise ValueError(f"conditions: expected some of {', '.join(CONDITIONS)}, got {', '.join(sorted(unknown))}")
        if not conditions:
            raise ValueError("conditions: expected at least one")
        self.conditions = tuple(name for name in CONDITIONS if name in conditions)
        given = {**THRESHOLDS, **(thresholds or {}), "cpu": threshold, "single_cpu": threshold}
        self.thresholds = {name: given[name] for name in self.conditions}
        self.duration_s = duration_s
        self.smoothing: Kind = smoothing
        self.window_s = window_s
        self._first_ts = self._ts = self._interval_s = math.nan
        self._cpus_seen = 0.0
        self._watched = [Watched(name, given, duration_s, smoothing, window_s) for name in self.conditions]
        self._limits = [(CONDITIONS[each.name].most, each.least) for each in self._watched]
        # Derived from the last frame; never part of a snapshot.
        self._calm = all(each.calm for each in self._watched)  # a frame without a high reading changes nothing
        self._columns: tuple[Layout, Columns] | None = None
        self._scored: _Scored | None = None

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Score a frame. `values` has the shape (rows, features). The state does not change."""
        return self._score(ts, layout, values).scores

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a frame. Raises `ValueError` if the shape of `values` does not fit the names."""
        scored = self._score(ts, layout, values)
        self._scored = None
        if scored.watched is not self._watched:
            self._watched = scored.watched
            self._calm = all(each.calm for each in self._watched)
        self._cpus_seen = scored.readings.cpus_seen
        if math.isnan(self._first_ts):
            self._first_ts = ts
        self._interval_s, self._ts = ts - self._ts, ts

    def _score(self, ts: float, layout: Layout, values: Matrix) -> _Scored:
        cached = self._scored
        if cached is not None and cached.ts == ts and cached.layout is layout and cached.values is values:
            return cached
        check_shape(layout, values)
        if self._columns is None or self._columns[0] is not layout:
            self._columns = layout, Columns.of(layout)
        readings = Readings(self._columns[1], values, self._cpus_seen)
        watched, events = self._watched, _NO_EVENTS
        if not (self._calm and self._low(readings)):
            self._pass_time()
            watched = [each.after(ts, layout, readings) for each in watched]
            events = {each.name: dict(each.events.open) for each in watched if each.events.open}
        age_s = max(ts - self._first_ts, 0.0) if math.isfinite(self._first_ts) else 0.0
        scores = Scores(ts, layout, events, readings, self.thresholds, self.duration_s, age_s)
        self._scored = _Scored(ts, layout, values, watched, readings, scores)
        return self._scored

    def _low(self, readings: Readings) -> bool:
        """Return whether no reading of a frame is high."""
        return all(most(readings) < least for most, least in self._limits)

    def _pass_time(self) -> None:
        """Pass the time of the last frame to the conditions that skipped it."""
        if math.isfinite(self._ts):
            for each in self._watched:
                each.skip(self._ts, self._interval_s)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        self._pass_time()
        return {
            "first_ts": self._first_ts,
            "ts": self._ts,
            "interval_s": self._interval_s,
            "cpus_seen": self._cpus_seen,
            "conditions": {each.name: each.snapshot() for each in self._watched},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`; a condition that it does not have begins empty.

        Raises `ValueError` that names the part that does not fit.
        """
        watched = [each.anew() for each in self._watched]
        for each in watched:
            if each.name in state["conditions"]:
                try:
                    each.restore(state["conditions"][each.name])
                except ValueError as error:
                    raise ValueError(f"{each.name}: {error}") from None
        self._first_ts, self._ts, self._interval_s = (float(state[name]) for name in ("first_ts", "ts", "interval_s"))
        self._cpus_seen = float(state["cpus_seen"])
        self._watched, self._scored = watched, None
        self._calm = all(each.calm for each in watched)


class _Scored(NamedTuple):
    """The last scored frame and the state after it, so that learning it does not evaluate it again."""

    ts: float
    layout: Layout
    values: Matrix
    watched: list[Watched]
    readings: Readings
    scores: Scores
