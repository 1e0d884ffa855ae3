"""The resources of a host, and how near each of them is to its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.saturation.results import Condition, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.saturation.results import Name

    Vector = NDArray[np.float64]

CONDITIONS: Final[Mapping[Name, Condition]] = {
    each.name: each
    for each in (
        Condition("cpu", "pressure_cpu_some_ratio", False, "cpu", "cpu"),
        Condition("heat", "cpu_throttled_ratio", False, "cpu", "cpu"),
        Condition("memory_pressure", "pressure_memory_some_ratio", False, "memory", "memory"),
        Condition("memory", "memory_used_ratio", True, "memory", "memory"),
        Condition("disk", "pressure_io_some_ratio", False, "disk", "disk"),
        Condition("filesystem", "used_ratio", True, "written", ""),
        Condition("descriptors", "descriptors_used_ratio", True, "descriptors", ""),
        Condition("pids", "pids_used_ratio", True, "threads", ""),
    )
}

LIMITS: Final[Mapping[Name, float]] = {
    "cpu": 0.6,
    "heat": 0.2,
    "memory_pressure": 0.2,
    "memory": 0.95,
    "disk": 0.6,
    "filesystem": 0.95,
    "descriptors": 0.9,
    "pids": 0.9,
}
"""From which reading on a resource is saturated."""

LARGEST: Final = 1e18
"""Values beyond this, or below 0, count as not there: no host has so much of anything."""

_BEGIN, _END = "filesystem_", "_used_ratio"


class Columns:
    """Where a frame of a host has what is measured.

    A processor or a disk is saturated if tasks wait for it and it is busy: tasks may wait for one of many processors,
    or for a disk that is slow rather than busy. Both have to be the case for so much of the time.

    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        at = {feature: column for column, feature in enumerate(layout.features)}
        found: list[tuple[str, Condition, str, Callable[[Vector], float], int]] = []

        def add(name: Name, read: Callable[[Vector], float], unused: int = -1) -> None:
            found.append((name, CONDITIONS[name], CONDITIONS[name].feature, read, unused))

        busy = [at[each] for each in layout.features if each.startswith("disk_") and each.endswith("_busy_ratio")]
        if (cpu := at.get("pressure_cpu_some_ratio")) is not None:
            add("cpu", _least(cpu, [at[each] for each in ("cpu_busy_ratio",) if each in at]))
        if (heat := at.get("cpu_throttled_ratio")) is not None:
            add("heat", _column(heat))
        if (memory := at.get("pressure_memory_some_ratio")) is not None:
            add("memory_pressure", _column(memory))
        if "memory_used_bytes" in at and "memory_available_bytes" in at:
            used, available = at["memory_used_bytes"], at["memory_available_bytes"]
            add("memory", _share(used, available), available)
        if (io := at.get("pressure_io_some_ratio")) is not None:
            add("disk", _least(io, busy))
        for name in ("descriptors", "pids"):
            if (column := at.get(CONDITIONS[name].feature)) is not None:
                add(name, _column(column))
        for feature, column in at.items():
            if feature.startswith(_BEGIN) and feature.endswith(_END):
                mount = feature.removeprefix(_BEGIN).removesuffix(_END)
                unused = at.get(f"{_BEGIN}{mount}_unused_bytes", -1)
                found.append((f"filesystem {mount}", CONDITIONS["filesystem"], feature, _column(column), unused))
        self._found = found

    def read(self, row: Vector) -> list[Reading]:
        """Return what is measured. `row` has the shape (features,)."""
        row = known(row)
        return [
            Reading(id_, condition, feature, read(row), float(row[unused]) if unused >= 0 else np.nan)
            for id_, condition, feature, read, unused in self._found
        ]


def known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values without those that cannot be, which become NaN."""
    return np.where((values >= 0.0) & (values <= LARGEST), values, np.nan)


def _column(column: int) -> Callable[[Vector], float]:
    # A share of time may come out a little above 1.
    return lambda row: min(float(row[column]), 1.0)


def _least(wait: int, busy: Sequence[int]) -> Callable[[Vector], float]:
    """The share of time for which tasks wait, but no more than the busiest of these is busy, where that is known."""

    def read(row: Vector) -> float:
        most = max((float(row[each]) for each in busy if row[each] == row[each]), default=np.inf)
        return min(float(row[wait]), most, 1.0)

    return read


def _share(used: int, available: int) -> Callable[[Vector], float]:
    def read(row: Vector) -> float:
        total = float(row[used] + row[available])
        return float(row[used]) / total if total > 0.0 else np.nan

    return read
