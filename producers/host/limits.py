"""Use of individual limits: memory and tasks of control groups, open files of processes.

Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux, getrlimit(2) (`RLIMIT_NOFILE`).
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.records import Layout, make_layout
from laggard.producers.host.groups import SEEK_RATIO, below, some_members
from laggard.producers.host.process import GAUGES, RATES
from laggard.producers.system.foreign import content, head
from laggard.producers.system.kernel import own_pid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.producers.host.processes import ProcessTable
    from laggard.producers.system.clock import Clock

    Values = NDArray[np.float64]

FEATURES: Final = ("used_ratio", "unused_bytes")

LEAST_REPORTED: Final = 0.25
"""The least share of a limit in use that is reported."""

NEAR: Final = 0.125
"""A group that used less of its limit in the last search is skipped until the next one."""

AGAIN: Final = 0.8
"""From this share on the limit is read again at each tick: it may have been raised."""

MAX_ROWS: Final = 64
"""The most rows in a frame: those nearest to their limits."""

MAX_OF_KIND: Final = 24
"""The most rows of one kind, so that many processes near their limits do not displace a group."""

MAX_OF_NAME: Final = 8
"""The most `descriptors` rows of one process name."""

SEARCH_S: Final = 60.0
"""The least time between two searches for limits, and for the top consumer of each, in seconds.

An empty frame is sent as often: a reader that missed the first one closes its anomaly then.
"""

MAX_GROUPS: Final = 512
"""The most groups with a limit that are followed, by controller."""

MAX_LOOKED: Final = 2000
"""The most groups and processes that one tick reads to find top consumers."""

SHARE: Final = 0.25
"""The least share of the use for a program to count as the top consumer."""

MAX_NAME: Final = 200
"""The longest path of a group in characters; longer ones are skipped."""

UNLIMITED: Final = 1 << 60
"""Version 1 of control groups reports a larger number if there is no limit."""

FEW: Final = 128
"""Processes with fewer descriptors are skipped."""

SMALLEST: Final = {"memory": 8 << 20, "pids": 16, "descriptors": 256}
"""By kind, the least limit that is reported: services with lower ones run near them on purpose."""

_MOST_BYTES: Final = 4096
_DESCRIPTORS, _RSS, _THREADS = (
    len(RATES) + GAUGES.index(name) for name in ("descriptors", "memory_rss_bytes", "threads")
)
_USE_OF: Final = {"memory": _RSS, "pids": _THREADS}
_GONE: Final = {errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ESRCH}
_CACHE: Final = {
    b"total_": (b"total_inactive_file", b"total_active_file"),
    b"": (b"inactive_file", b"active_file", b"slab_reclaimable"),
}


class _Controller(NamedTuple):
    """A controller: its kind, the path of its groups, and the names of their files of the limit and of the use."""

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

    @property
    def id(self) -> str:
        return f"{self.controller.kind} {self.name}"


class _Row(NamedTuple):
    """A limit: its kind and name, the used share, the unused bytes, the used amount, and its group, if any.

    `holder` is the row of its top consumer, otherwise its own id.
    """

    id: str
    holder: str
    used: float
    unused_bytes: float
    amount: float = np.nan
    group: _Group | None = None

    @property
    def kind(self) -> str:
        return self.id.partition(" ")[0]


class _Known(NamedTuple):
    """A top consumer, and the time of the monotonic clock at which it was found."""

    what: str
    at_ns: int


class _Limit(NamedTuple):
    """The limit of the open files of a process, and the search after which it was read."""

    files: int
    looked_ns: int


class Limits:
    """A row for each limit that is at least a quarter used.

    - `memory {group}`: the memory of a control group and those below it, as a share of its limit. The page cache is
      left out, see `cache_bytes`. `unused_bytes` is the remainder.
    - `pids {group}`: its tasks, as a share of its limit.
    - `descriptors {process}`: the open files of a process, as a share of its soft limit. This process is left out,
      since it holds many on purpose.

    The name of a row is the row of its top consumer in the frame of processes of the same tick, otherwise its own id.
    The top consumer is the process that holds most, within the program whose processes together hold most. A program
    with less than `SHARE` of the use is none.

    A limit that cannot be read for a moment, for example when the machine is out of descriptors, has its last values.

    Args:
        table: the processes.
        clock: the clock of the searches for limits.

    """

    def __init__(self, table: ProcessTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._own_pid = own_pid(table.root) or os.getpid()
        self._controllers = _controllers(table.groups)
        self._groups: dict[str, _Group] = {}  # by the id of the row
        self._opened: dict[str, _Limit] = {}  # the limits of open files, by the row of the process
        self._holders: dict[str, _Known] = {}
        self._last: dict[str, _Row] = {}  # the rows of the previous tick
        self._looked_ns = self._look_ns = 0
        self._told_ns: int | None = None
        self._layout: Layout | None = None

    def read(self, layout: Layout, values: Values) -> tuple[Layout, Values] | None:
        """Read the use of each limit; None if none is near and the last frame, an empty one, is newer than `SEARCH_S`.

        Args:
            layout: the layout of the processes at this tick.
            values: their values, shape (processes, features).

        """
        now_ns = self._clock.monotonic()
        if self._told_ns is None or now_ns >= self._look_ns:
            self._search(now_ns, layout)
        found = self._descriptors(layout, values)
        found += [row for group in tuple(self._groups.values()) if (row := self._of_group(group)) is not None]
        self._last = {each.id: each for each in found}
        rows = self._with_holders(_nearest(found), layout, values, now_ns)
        if not rows and self._is_known_as_calm(now_ns):
            return None
        self._told_ns = now_ns
        ids, holders = tuple(each.id for each in rows), tuple(each.holder for each in rows)
        if self._layout is None or (self._layout.rows, self._layout.names) != (ids, holders):
            self._layout = make_layout(ids, holders, FEATURES)
        usage = np.array([(each.used, each.unused_bytes) for each in rows], np.float64).reshape(
            len(rows), len(FEATURES)
        )
        usage.setflags(write=False)
        return self._layout, usage

    def _is_known_as_calm(self, now_ns: int) -> bool:
        """Return whether the last frame was empty and is newer than `SEARCH_S`."""
        if self._told_ns is None or self._layout is None or self._layout.rows:
            return False
        return now_ns - self._told_ns < SEARCH_S * 1e9

    def _search(self, now_ns: int, layout: Layout) -> None:
        """Search for groups with a limit, and forget ended processes and groups."""
        begun = self._clock.cpu()
        self._groups = self._seek()
        here = set(layout.rows)
        self._opened = {row: each for row, each in self._opened.items() if row in here}
        self._holders = {id_: each for id_, each in self._holders.items() if id_ in self._groups}
        took_ns = self._clock.cpu() - begun
        self._looked_ns, self._look_ns = now_ns, now_ns + max(round(SEARCH_S * 1e9), round(took_ns / SEEK_RATIO))

    def _seek(self) -> dict[str, _Group]:
        found: dict[str, _Group] = {}
        for base in dict.fromkeys(each.base for each in self._controllers):
            left = {each: MAX_GROUPS for each in self._controllers if each.base == base}
            for path, _ in below(base):
                name = path.removeprefix(base) or "/"
                if len(name) > MAX_NAME or not name.isprintable():
                    continue
                for controller in [each for each, more in left.items() if more]:
                    if (group := self._limited(controller, path, name)) is not None:
                        found[group.id] = group
                        left[controller] -= 1
                if not any(left.values()):
                    break
        return found

    def _limited(self, controller: _Controller, path: str, name: str) -> _Group | None:
        """Return a group if it uses `NEAR` of its limit; an unreadable one as it was known."""
        # A name such as `x[1]` would make its id look like that of a process. A slash at the end is the same path.
        group = _Group(controller, path, f"{name}/" if name.endswith("]") else name, 0)
        limit = _number(f"{path}/{controller.limit}")
        if limit == 0:
            return None
        used = _number(f"{path}/{controller.used}")
        if limit is None or used is None:
            return self._groups.get(group.id)
        is_one = SMALLEST[controller.kind] <= limit < UNLIMITED
        return group._replace(limit=limit) if is_one and used >= NEAR * limit else None

    def _descriptors(self, layout: Layout, values: Values) -> list[_Row]:
        rows = []
        processes = list(self._table.processes)
        for place in np.flatnonzero(~(values[:, _DESCRIPTORS] < FEW)).tolist():
            row, opened = layout.rows[place], float(values[place, _DESCRIPTORS])
            if processes[place].pid == self._own_pid:
                continue
            id_ = f"descriptors {row}"
            if np.isnan(opened):
                if id_ in self._last:
                    rows.append(self._last[id_])
                continue
            limit = self._opened.get(row)
            if limit is None or limit.looked_ns != self._looked_ns or opened >= AGAIN * limit.files > 0:
                head = _head(f"{processes[place].path}/limits")
                files = open_files(head) if head is not None else 0 if limit is None else limit.files
                limit = self._opened[row] = _Limit(files, self._looked_ns)
            if limit.files >= SMALLEST["descriptors"] and (used := opened / limit.files) >= LEAST_REPORTED:
                rows.append(_Row(id_, row, used, np.nan, opened))
        by_name, counts = dict(zip(layout.rows, layout.names, strict=True)), Counter[str]()
        reported = []
        for each in sorted(rows, key=lambda each: -each.used):
            name = by_name[each.holder]
            counts[name] += 1
            if counts[name] <= MAX_OF_NAME:
                reported.append(each)
        return reported

    def _of_group(self, group: _Group) -> _Row | None:
        used, holds_memory = _number(f"{group.path}/{group.controller.used}"), group.controller.kind == "memory"
        if used is None:
            return self._last.get(group.id)
        if used >= AGAIN * group.limit:
            limit = _number(f"{group.path}/{group.controller.limit}")
            if limit is not None and not SMALLEST[group.controller.kind] <= limit < UNLIMITED:
                return None
            group = self._groups[group.id] = group._replace(limit=group.limit if limit is None else limit)
        if used < LEAST_REPORTED * group.limit:
            return None
        if holds_memory:
            stat = _head(f"{group.path}/memory.stat")
            if stat is None:
                return self._last.get(group.id)
            used = max(used - cache_bytes(stat), 0)
        if (ratio := used / group.limit) < LEAST_REPORTED:
            return None
        unused = float(max(group.limit - used, 0)) if holds_memory else np.nan
        return _Row(group.id, group.id, ratio, unused, used, group)

    def _with_holders(self, rows: list[_Row], layout: Layout, values: Values, now_ns: int) -> list[_Row]:
        """Return the rows by id with their top consumers; of many groups the farthest follow at later ticks."""
        places = {row: place for place, row in enumerate(layout.rows)}
        pids = {process.pid: place for place, process in enumerate(self._table.processes)}
        left, resolved = MAX_LOOKED, []
        for row in rows:
            holder, known = row.holder, self._holders.get(row.id)
            if row.group is not None:
                is_known = known is not None and (known.what in places or known.what == row.id)
                if known is not None and is_known and now_ns - known.at_ns < SEARCH_S * 1e9:
                    holder = known.what
                elif left > 0:
                    members, read = some_members(row.group.path, left)
                    left -= read
                    users = [pids[pid] for pid in members if pid in pids]
                    holder = _holder(row, users, layout, values) or row.id
                    self._holders[row.id] = _Known(holder, now_ns)
                elif known is not None and is_known:
                    holder = known.what
            resolved.append(row._replace(holder=holder))
        return sorted(resolved, key=lambda each: each.id)


def _nearest(rows: list[_Row]) -> list[_Row]:
    """Return the rows of the frame, the nearest to its limit first."""
    counts, nearest = Counter[str](), []
    for each in sorted(rows, key=lambda each: -each.used):
        counts[each.kind] += 1
        if counts[each.kind] <= MAX_OF_KIND:
            nearest.append(each)
    return nearest[:MAX_ROWS]


def _holder(row: _Row, users: list[int], layout: Layout, values: Values) -> str:
    """Return the row of the top consumer; empty if no program holds `SHARE` of the use."""
    of_each = np.nan_to_num(values[users, _USE_OF[row.kind]])
    amounts: dict[str, float] = {}
    for place, amount in zip(users, of_each.tolist(), strict=True):
        amounts[layout.names[place]] = amounts.get(layout.names[place], 0.0) + amount
    name = max(amounts, key=lambda each: amounts[each], default="")
    if not amounts or amounts[name] <= 0.0 or amounts[name] < SHARE * row.amount:
        return ""
    own = [
        (amount, place) for amount, place in zip(of_each.tolist(), users, strict=True) if layout.names[place] == name
    ]
    return layout.rows[max(own, key=lambda each: each[0])[1]]


def _controllers(root: str) -> tuple[_Controller, ...]:
    """Return the controllers of memory and tasks, in version 2 of control groups or in version 1."""
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
    """Parse `/proc/PID/limits`: the soft limit of open files; 0 if there is none or it is missing."""
    for line in limits.splitlines():
        if line.startswith(b"Max open files"):
            soft = line.removeprefix(b"Max open files").split()[:1]
            return int(soft[0]) if soft and soft[0].isdigit() else 0
    return 0


def cache_bytes(stat: bytes) -> int:
    """Parse `memory.stat`: the page cache, and in version 2 kernel objects such as inodes; 0 if missing.

    The kernel reclaims both before a group runs out of memory, recently used pages too if need be. The group of a
    database that reads its files is full of cache without a fault. Memory of tmpfs is not counted: it cannot be
    reclaimed.
    """
    fields = {
        name: int(number)
        for line in stat.splitlines()
        for name, _, number in [line.partition(b" ")]
        if number.isdigit()
    }
    # Version 1 also reports the group alone: its lines with `total_` include all groups below.
    is_first = any(name.startswith(b"total_") for name in fields)
    return sum(fields.get(name, 0) for name in _CACHE[b"total_" if is_first else b""])


def _number(path: str) -> int | None:
    """Read a number; 0 without one (`max` means no limit) or if the group is gone; None if it is unreadable."""
    text = _head(path)
    if text is None:
        return None
    return int(text) if (text := text.strip()).isdigit() else 0


def _head(path: str) -> bytes | None:
    """Read the beginning of a file; empty if it is gone; None if it is unreadable."""
    try:
        return head(path, _MOST_BYTES)
    except OSError as error:
        return b"" if error.errno in _GONE else None
