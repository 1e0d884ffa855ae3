"""What has a limit of its own, and how near it is: the memory and the tasks of control groups, files of processes.

Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux, getrlimit(2) (`RLIMIT_NOFILE`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.pipeline.records import Layout, make_layout
from laggard.producers.groups import all_members, below
from laggard.producers.kernel import content
from laggard.producers.process import GAUGES, RATES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.producers.clock import Clock
    from laggard.producers.processes import ProcessTable

    Values = NDArray[np.float64]

FEATURES: Final = ("used_ratio", "unused_bytes")

TOLD: Final = 0.25
"""The share of a limit from which on it is told how near it is."""

NEAR: Final = 0.125
"""A group that used less of its limit than this at the last look is not read before the next one."""

MAX_ROWS: Final = 64
"""So many are told: those that are nearest to their limits."""

LOOK_S: Final = 60.0
"""The time between two looks for limits, in seconds."""

MAX_GROUPS: Final = 512
"""So many groups with a limit are followed."""

MAX_NAME: Final = 200
"""Characters of the path of a group; one with a longer path is left out."""

UNLIMITED: Final = 1 << 60
"""So large a limit is none, in version 1 of control groups."""

FEW: Final = 128
"""The limits of processes with fewer descriptors are not looked at."""

_MOST_BYTES: Final = 4096
_DESCRIPTORS, _RSS = (len(RATES) + GAUGES.index(name) for name in ("descriptors", "memory_rss_bytes"))


class _Controller(NamedTuple):
    """What limits groups: its kind, where its groups are, and its files of the limit and of what is in use."""

    kind: str
    base: str
    limit: str
    used: str


class _Group(NamedTuple):
    """A control group with a limit."""

    controller: _Controller
    path: str
    name: str
    limit: int


class _Row(NamedTuple):
    """What has a limit: its kind and name, the row of the process that holds most of it, and how near it is."""

    id: str
    holder: str
    used: float
    unused_bytes: float


class Limits:
    """A row for each limit of which a quarter is in use.

    - `memory {group}`: the memory of a control group and those below it, as a share of its limit. What the page cache
      has not used lately is left out: the kernel takes that first. `unused_bytes` is what is left.
    - `pids {group}`: its tasks, as a share of its limit.
    - `descriptors {process}`: the open files of a process, as a share of its soft limit.

    The name of a row is the row of the process that holds most of it, in the frame of processes of the same tick; its
    own id where none is known.

    Args:
        table: the processes.
        clock: what tells when to look for limits again.

    """

    def __init__(self, table: ProcessTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._controllers = _controllers(table.groups)
        self._groups: tuple[_Group, ...] = ()
        self._opened: dict[str, int] = {}  # the limits of open files, by the id of the row
        self._looked_ns: int | None = None
        self._layout: Layout | None = None

    def read(self, layout: Layout, values: Values) -> tuple[Layout, Values] | None:
        """Read how near each limit is; None where there is nothing to tell, and there was nothing before.

        Args:
            layout: of the processes at this tick.
            values: theirs, shape (processes, features).

        """
        now_ns = self._clock.monotonic()
        if self._looked_ns is None or now_ns - self._looked_ns >= LOOK_S * 1e9:
            self._looked_ns, self._opened = now_ns, {}
            self._groups = self._seek()
        places = {process.pid: place for place, process in enumerate(self._table.processes)}
        rows = self._descriptors(layout, values)
        rows += [row for group in self._groups if (row := self._of_group(group, layout, values, places)) is not None]
        rows = sorted(sorted(rows, key=lambda each: -each.used)[:MAX_ROWS], key=lambda each: each.id)
        if not rows and (self._layout is None or not self._layout.rows):
            return None
        ids, holders = tuple(each.id for each in rows), tuple(each.holder for each in rows)
        if self._layout is None or (self._layout.rows, self._layout.names) != (ids, holders):
            self._layout = make_layout(ids, holders, FEATURES)
        told = np.array([each[2:] for each in rows], np.float64).reshape(len(rows), len(FEATURES))
        told.setflags(write=False)
        return self._layout, told

    def _seek(self) -> tuple[_Group, ...]:
        found: list[_Group] = []
        for controller in self._controllers:
            for path, _ in below(controller.base):
                if len(found) >= MAX_GROUPS:
                    break
                limit, name = _number(f"{path}/{controller.limit}"), path.removeprefix(controller.base) or "/"
                if not 0 < limit < UNLIMITED or len(name) > MAX_NAME or not name.isprintable():
                    continue
                if _number(f"{path}/{controller.used}") >= NEAR * limit:
                    found.append(_Group(controller, path, name, limit))
        return tuple(found)

    def _descriptors(self, layout: Layout, values: Values) -> list[_Row]:
        rows = []
        processes = list(self._table.processes)
        for place in np.flatnonzero(values[:, _DESCRIPTORS] >= FEW).tolist():
            row = layout.rows[place]
            if row not in self._opened:
                self._opened[row] = open_files(_head(f"{processes[place].path}/limits"))
            limit = self._opened[row]
            if limit and (used := float(values[place, _DESCRIPTORS]) / limit) >= TOLD:
                rows.append(_Row(f"descriptors {row}", row, used, np.nan))
        return rows

    def _of_group(self, group: _Group, layout: Layout, values: Values, places: dict[int, int]) -> _Row | None:
        used, holds_memory = _number(f"{group.path}/{group.controller.used}"), group.controller.kind == "memory"
        if used < TOLD * group.limit:
            return None
        if holds_memory:
            used = max(used - inactive_bytes(_head(f"{group.path}/memory.stat")), 0)
        if (ratio := used / group.limit) < TOLD:
            return None
        held = [places[pid] for pid in all_members(group.path) if pid in places]
        if holds_memory:
            held.sort(key=lambda place: -np.nan_to_num(values[place, _RSS]))
        else:  # tasks are many, not large: those of the most frequent name
            counts = Counter(layout.names[place] for place in held)
            held.sort(key=lambda place: -counts[layout.names[place]])
        unused = float(max(group.limit - used, 0)) if holds_memory else np.nan
        id_ = f"{group.controller.kind} {group.name}"
        return _Row(id_, layout.rows[held[0]] if held else id_, ratio, unused)


def _controllers(root: str) -> tuple[_Controller, ...]:
    """What limits groups here, in version 2 of control groups or in version 1."""
    found = []
    together = content(f"{root}/cgroup.controllers").decode("ascii", "replace").split()
    for kind, before in (("memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")), ("pids", ())):
        names = f"{kind}.max", f"{kind}.current"
        if kind in together:
            found.append(_Controller(kind, root, *names))
        elif Path(root, kind).is_dir():
            found.append(_Controller(kind, f"{root}/{kind}", *(before or names)))
    return tuple(found)


def open_files(limits: bytes) -> int:
    """Parse `/proc/PID/limits`: how many files the process may open; 0 where there is no limit, or none is told."""
    for line in limits.splitlines():
        if line.startswith(b"Max open files"):
            soft = line.removeprefix(b"Max open files").split()[:1]
            return int(soft[0]) if soft and soft[0].isdigit() else 0
    return 0


def inactive_bytes(stat: bytes) -> int:
    """Parse `memory.stat`: the page cache that has not been used lately, which is given back first; 0 if not told."""
    found = 0
    for line in stat.splitlines():
        name, _, number = line.partition(b" ")
        if name in {b"inactive_file", b"total_inactive_file"} and number.isdigit():
            found = int(number)  # in version 1 that of all groups below comes last
    return found


def _number(path: str) -> int:
    """Read a number; 0 where there is none: `max` is no limit."""
    text = content(path)
    return int(text) if text.isdigit() else 0


def _head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""
