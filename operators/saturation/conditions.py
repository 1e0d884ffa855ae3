"""The resources of a host, of its groups and of its processes, and the distance of each from its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.saturation.results import Condition, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.saturation.results import Name

    Matrix = NDArray[np.float64]
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
        Condition("group_memory", "used_ratio", True, "memory", "memory"),
        Condition("group_pids", "used_ratio", True, "threads", ""),
        Condition("process_descriptors", "used_ratio", True, "descriptors", ""),
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
    "group_memory": 0.95,
    "group_pids": 0.9,
    "process_descriptors": 0.9,
}
"""The mean reading from which on a resource is saturated."""

BY_LIMIT: Final[Mapping[str, Name]] = {
    "memory": "group_memory",
    "pids": "group_pids",
    "descriptors": "process_descriptors",
}
"""The conditions of limits, by the first word of the id of a row."""

LARGEST: Final = 1e18
"""Larger values, and those below 0, count as missing: no host has that much of anything."""

_BEGIN, _END = "filesystem_", "_used_ratio"
_OF_LIMITS: Final = ("used_ratio", "unused_bytes")


class Columns:
    """The places of the readings among the features of a host's layout.

    A processor or a disk is saturated if tasks wait for it and it is busy. Waiting is not enough: tasks may wait for
    one of many processors, or for a slow disk. The reading is the smaller one of both shares of the time.

    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        at = {feature: column for column, feature in enumerate(layout.features)}
        found: list[tuple[str, Condition, str, Callable[[Vector], float], int]] = []

        busy: Mapping[Name, Sequence[int]] = {
            "cpu": [at[each] for each in ("cpu_busy_ratio",) if each in at],
            "disk": [at[each] for each in at if each.startswith("disk_") and each.endswith("_busy_ratio")],
        }
        for name, condition in CONDITIONS.items():
            if name == "memory" and "memory_used_bytes" in at and "memory_available_bytes" in at:
                used, available = at["memory_used_bytes"], at["memory_available_bytes"]
                found.append((name, condition, condition.feature, _part(used, available), available))
            elif name not in {"memory", "filesystem"} and condition.feature in at:
                read = _share(at[condition.feature], busy.get(name, ()))
                found.append((name, condition, condition.feature, read, -1))
        for feature, column in at.items():
            if feature.startswith(_BEGIN) and feature.endswith(_END):
                mount = feature.removeprefix(_BEGIN).removesuffix(_END)
                unused = at.get(f"{_BEGIN}{mount}_unused_bytes", -1)
                found.append((f"filesystem {mount}", CONDITIONS["filesystem"], feature, _share(column), unused))
        self._found = found

    def read(self, values: Matrix) -> list[Reading]:
        """Return the readings. `values` has the shape (rows, features); the first row is the host's."""
        if not len(values):
            return []
        row = known(values[0])
        return [
            Reading(id_, condition, feature, read(row), float(row[unused]) if unused >= 0 else np.nan)
            for id_, condition, feature, read, unused in self._found
        ]


class Rows:
    """The places of the readings in a layout whose rows are limits, such as `memory /user.slice`."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._features = [layout.features.index(each) for each in _OF_LIMITS]

    def read(self, values: Matrix) -> list[Reading]:
        """Return the readings. `values` has the shape (rows, features)."""
        found, figures = [], known(values[:, self._features])
        for id_, called, of_row in zip(self.layout.rows, self.layout.names, figures, strict=True):
            name = BY_LIMIT.get(id_.partition(" ")[0])
            if name is not None:
                used, unused = of_row.tolist()
                holder = "" if called == id_ else called  # the name is the id if no holder is known
                found.append(Reading(id_, CONDITIONS[name], _OF_LIMITS[0], min(used, 1.0), unused, id_, holder))
        return found


def places(layout: Layout) -> Columns | Rows:
    """Return the places of the readings in the frames of this layout."""
    return Rows(layout) if set(_OF_LIMITS) <= set(layout.features) else Columns(layout)


def known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with NaN for impossible ones."""
    return np.where((values >= 0.0) & (values <= LARGEST), values, np.nan)


def _share(column: int, busy: Sequence[int] = ()) -> Callable[[Vector], float]:
    """Read a share, but at most that of the busiest of these, if known. A share of time may be a little above 1."""

    def read(row: Vector) -> float:
        most = max((float(row[each]) for each in busy if row[each] == row[each]), default=1.0)
        return min(float(row[column]), most, 1.0)

    return read


def _part(used: int, available: int) -> Callable[[Vector], float]:
    def read(row: Vector) -> float:
        total = float(row[used] + row[available])
        return float(row[used]) / total if total > 0.0 else np.nan

    return read
