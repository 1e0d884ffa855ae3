"""What is measured of a row, and from which size on it is high: the conditions that S1's machine watches."""

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
"""Readings of many processes are not of quite the same moment: together they may seem to use that much of a CPU more
than there is."""

LARGEST: Final = 1e9
"""Values beyond this count as not there: no machine has so many CPUs."""

QUOTA_USE: Final = 0.02
"""Of those that share a quota, the ones that use less of a CPU than this have not used it up."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Where a frame has what is measured; -1 for what it does not have.

    Attributes:
        user: CPU time in user mode over time.
        system: ... in kernel mode.
        used: both, from who does not tell them apart.
        cpus: how many CPUs there are.
        throttled: the share of periods in which the quota was used up.
        io: the share of time in which some task of the host, or of a process's control group, waited for I/O.
        memory: ... for memory.

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
        """Those of a frame. A row that can be idle is a host: of its CPUs all processes together are told."""
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
    """The measures of one frame, each for all rows; None for what the frame does not have. Computed when asked for.

    Args:
        columns: where they are.
        values: the frame's, shape (rows, features).
        cpus_seen: how many CPUs were in use together at most before, for frames that do not say how many there are.

    Attributes:
        most_single: no u1 is greater; NaN where that is not known.

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
        """How many CPUs were in use together at most, with this frame; not asked for where frames say how many."""
        if self._cpus_seen < 0.0:
            seen = 0.0
            if self._columns.cpus < 0 and self.single is not None:
                seen = float(np.nansum(np.fmax(self.single, 0.0)))
            self._cpus_seen = max(self._cpus_seen_before, seen)
        return self._cpus_seen

    @property
    def cpus(self) -> float:
        """How many CPUs there are; NaN where the frame has a place for that and does not say it."""
        if self._cpus < 0.0:
            if self._columns.cpus < 0:
                self._cpus = max(1.0, math.ceil(self.cpus_seen - SPARE_CPU))
            else:
                said = map(float, self._values[:, self._columns.cpus])
                self._cpus = next((each for each in said if 1.0 <= each <= LARGEST), math.nan)
        return self._cpus

    @property
    def system_wide(self) -> Vector | None:
        """u2 (S1, Eq. 2): the share of all CPUs that a process used."""
        return None if self.single is None else self.single / self.cpus

    @property
    def quota(self) -> Vector | None:
        """The share of periods in which its quota was used up, of processes that use any of it."""
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

    # The same without a look at each row: no reading is greater. NaN where that is not known.

    @property
    def most_system_wide(self) -> float:
        """At least the greatest u2."""
        return self.most_single / self.cpus

    @property
    def most_quota(self) -> float:
        """At least the greatest share of periods."""
        return self._most(self._columns.throttled)

    @property
    def most_io(self) -> float:
        """At least the greatest share of time."""
        return self._most(self._columns.io)

    @property
    def most_memory(self) -> float:
        """At least the greatest share of time."""
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
    """One thing that can be wrong with a row.

    Attributes:
        name: in settings and diagnoses.
        feature: what is told of it, with its base unit.
        own: what is told in its place of frames that have a feature of this name.
        reading: of a frame; for `spikes` what the spikes are made of.
        most: no reading of the frame is greater; NaN where nobody knows.

    """

    name: ConditionName
    feature: str
    reading: Callable[[Readings], Vector | None]
    most: Callable[[Readings], float]
    own: str = ""

    def told(self, layout: Layout) -> str:
        """The name of what is told of rows of a frame like this."""
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
"""By name, in the order in which they are told where a row has several that are as bad."""
