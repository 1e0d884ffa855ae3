"""The readings of rows, and the conditions that S1's machine watches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

ConditionName = Literal["cpu", "single_cpu", "spikes", "quota", "io_pressure", "memory_pressure"]

SPARE_CPU: Final = 0.1
"""Processes are not read at the same moment: together they may seem to use this much of a CPU more than there is."""

LARGEST: Final = 1e9
"""Larger values count as missing: no machine has that many CPUs."""

QUOTA_USE: Final = 0.02
"""A process that uses less of a CPU than this has not used up the quota that it shares."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a frame with features that readings need; -1 for a missing one.

    Attributes:
        user: CPU time in user mode per time.
        system: CPU time in kernel mode per time.
        used: both together, if the frame does not separate them.
        cpus: the number of CPUs.
        throttled: the share of periods in which the quota was used up.
        io: the share of time in which some task of the host, or of a process's control group, waited for I/O.
        memory: the same for memory.

    """

    user: int
    system: int
    used: int
    cpus: int
    throttled: int
    io: int
    memory: int

    @classmethod
    def of(cls, layout: Layout) -> Columns:
        """Find the columns of a frame. A row that can be idle is a host: its CPU use is that of all processes."""
        at = {feature: column for column, feature in enumerate(layout.features)}
        host = not at.keys().isdisjoint(("cpu_idle_ratio", "cpu_busy_ratio"))
        user, system, used, throttled = (
            -1 if host else at.get(feature, -1)
            for feature in ("cpu_user_ratio", "cpu_system_ratio", "cpu_ratio", "cpu_quota_throttled_ratio")
        )
        return cls(
            user,
            system,
            used if user < 0 and system < 0 else -1,
            at.get("cpus", -1),
            throttled,
            at.get("pressure_io_some_ratio", at.get("io_pressure_ratio", -1)),
            at.get("pressure_memory_some_ratio", at.get("memory_pressure_ratio", -1)),
        )


class Readings:
    """The readings of one frame, each for all rows; None if the frame does not have the features. Computed on access.

    Args:
        columns: the columns of the frame.
        values: its values, shape (rows, features).
        cpus_seen: the most CPUs that were in use at once before, for frames without the number of CPUs.

    Attributes:
        most_single: an upper bound of u1; NaN if unknown.

    """

    __slots__ = ("_columns", "_cpus", "_cpus_seen", "_cpus_seen_before", "_single", "_values", "most_single")

    def __init__(self, columns: Columns, values: Matrix, cpus_seen: float) -> None:
        self._columns = columns
        self._values = values
        self._cpus_seen_before = cpus_seen
        self._cpus = self._cpus_seen = -1.0
        self._single: Vector | None = None
        self.most_single = self._most(columns.user) + self._most(columns.system) + self._most(columns.used)

    @property
    def single(self) -> Vector | None:
        """u1 (S1, Eq. 1): the share of one CPU that a process used, in user and kernel mode together."""
        if self._single is None:
            columns = self._columns
            parts = [self._read(column) for column in (columns.user, columns.system, columns.used) if column >= 0]
            if parts:
                self._single = sum(parts[1:], parts[0])
        return self._single

    @property
    def cpus_seen(self) -> float:
        """The most CPUs that were in use at once, for frames without the number of CPUs."""
        if self._cpus_seen < 0.0:
            seen = 0.0
            if self._columns.cpus < 0 and self.single is not None:
                seen = float(np.nansum(np.fmax(self.single, 0.0)))
            self._cpus_seen = max(self._cpus_seen_before, seen)
        return self._cpus_seen

    @property
    def cpus(self) -> float:
        """The number of CPUs; NaN if the frame has the feature, but no valid value."""
        if self._cpus < 0.0:
            if self._columns.cpus < 0:
                self._cpus = max(1.0, math.ceil(self.cpus_seen - SPARE_CPU))
            else:
                counts = map(float, self._values[:, self._columns.cpus])
                self._cpus = next((each for each in counts if 1.0 <= each <= LARGEST), math.nan)
        return self._cpus

    @property
    def system_wide(self) -> Vector | None:
        """u2 (S1, Eq. 2): the share of all CPUs that a process used."""
        return None if self.single is None else self.single / self.cpus

    @property
    def quota(self) -> Vector | None:
        """The share of periods in which the quota was used up; 0 for processes that use little of it."""
        throttled = self._column(self._columns.throttled)
        if throttled is None or self.single is None:
            return throttled
        return np.where(self.single >= QUOTA_USE, throttled, np.minimum(throttled, 0.0))

    @property
    def io(self) -> Vector | None:
        """The share of time in which some task of a host, or of a process's control group, waited for I/O."""
        return self._column(self._columns.io)

    @property
    def memory(self) -> Vector | None:
        """The share of time in which some task of a host, or of a process's control group, waited for memory."""
        return self._column(self._columns.memory)

    # Upper bounds of the same, without evaluating each row. NaN if unknown.

    @property
    def most_system_wide(self) -> float:
        """An upper bound of u2."""
        return self.most_single / self.cpus

    @property
    def most_quota(self) -> float:
        """An upper bound of `quota`."""
        return self._most(self._columns.throttled)

    @property
    def most_io(self) -> float:
        """An upper bound of `io`."""
        return self._most(self._columns.io)

    @property
    def most_memory(self) -> float:
        """An upper bound of `memory`."""
        return self._most(self._columns.memory)

    def _most(self, column: int) -> float:
        return float(np.fmax.reduce(self._values[:, column])) if column >= 0 and len(self._values) else 0.0

    def _column(self, column: int) -> Vector | None:
        return None if column < 0 else self._read(column)

    def _read(self, column: int) -> Vector:
        values = self._values[:, column]
        return np.where(np.abs(values) <= LARGEST, values, np.nan)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a row.

    Attributes:
        name: its name in settings and diagnoses.
        feature: its name in rankings, with the base unit.
        own: its name in rankings of frames that have a feature of this name.
        reading: computes the readings of a frame; for `spikes` those that a spike consists of.
        most: computes an upper bound of the readings of a frame; NaN if unknown.

    """

    name: ConditionName
    feature: str
    reading: Callable[[Readings], Vector | None]
    most: Callable[[Readings], float]
    own: str = ""

    def name_in(self, layout: Layout) -> str:
        """Return the name of the condition in rankings of frames with this layout."""
        return self.own if self.own in layout.features else self.feature


CONDITIONS: Final[Mapping[ConditionName, Condition]] = {
    each.name: each
    for each in (
        Condition(
            "cpu", "cpu_system_wide_ratio", lambda found: found.system_wide, lambda found: found.most_system_wide
        ),
        Condition("single_cpu", "cpu_single_ratio", lambda found: found.single, lambda found: found.most_single),
        Condition("spikes", "cpu_spikes_per_s", lambda found: found.system_wide, lambda found: found.most_system_wide),
        Condition("quota", "cpu_quota_throttled_ratio", lambda found: found.quota, lambda found: found.most_quota),
        Condition(
            "io_pressure",
            "pressure_io_some_ratio",
            lambda found: found.io,
            lambda found: found.most_io,
            "io_pressure_ratio",
        ),
        Condition(
            "memory_pressure",
            "pressure_memory_some_ratio",
            lambda found: found.memory,
            lambda found: found.most_memory,
            "memory_pressure_ratio",
        ),
    )
}
"""All conditions by name, in the order of rankings if a row has several that are equally bad."""
