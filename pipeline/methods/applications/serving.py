"""The stage that re-keys to applications: reads the counters of hosts that serve one, and writes them to its topic.

All processes of one name on a host become one row, `HOST/NAME`, since models hold for months while processes come and
go. The row of the host itself is `HOST`. Kernel threads have no row: their work follows that of others, and no one can
change it.
"""

from __future__ import annotations

import fnmatch
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from laggard.pipeline.core.records import Frame, Layout, make_layout
from laggard.pipeline.core.topics import APPLICATIONS, SERVING
from laggard.pipeline.scoring.rekeying import MAX_LAYOUTS, Rekeying

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.scoring.rekeying import Rekeyer

GROUP: Final = "application"
"""The group of the pattern with the name of the application."""

_ADDRESS_SPACE: Final = "memory_virtual_bytes"
"""The feature that is 0 for a kernel thread and for a zombie: they have no address space (proc_pid_stat(5))."""

_SHARED: Final = ("cpus", "cpu_quota_throttled", "cpu_pressure_", "io_pressure_", "memory_pressure_")
"""The beginnings of features that processes share: their greatest value counts, not their sum."""


class Served(Protocol):
    """Returns the applications that a host serves."""

    def __call__(self, host: str) -> Sequence[str]:
        """Return the names of the applications, each once."""


class ServedBySettings:
    r"""The applications that a host serves, by the settings.

    Parameters:
        hosts: by application, hosts or patterns of them (`web-* db-1`), separated by blanks.
        pattern: a regular expression for whole host names, whose group `application` is the application; empty for
            none.

    Example:
        >>> served = ServedBySettings({"shop": "web-* db-1"}, r"(?P<application>[a-z]+)-\d+")
        >>> served("web-1"), served("db-2")
        (('shop', 'web'), ('db',))

    """

    def __init__(self, hosts: Mapping[str, str], pattern: str = "") -> None:
        self._hosts = {
            application: tuple(re.compile(fnmatch.translate(each)) for each in patterns.split())
            for application, patterns in hosts.items()
        }
        self._pattern = re.compile(pattern) if pattern else None

    def __call__(self, host: str) -> Sequence[str]:
        """Return the names of the applications, those of the table first."""
        found = [name for name, hosts in self._hosts.items() if any(each.match(host) for each in hosts)]
        if self._pattern is not None and (match := self._pattern.fullmatch(host)) and match[GROUP]:
            found.append(match[GROUP])
        return tuple(dict.fromkeys(found))


class ServedByFrames:
    """The applications that a host serves, by the frames of the applications."""

    def __init__(self) -> None:
        self._hosts: dict[str, frozenset[str]] = {}

    def learn(self, frame: Frame) -> None:
        """Learn the hosts of an application from its frame; without hosts, all serve it."""
        self._hosts[frame.key] = frozenset(frame.hosts)

    def __call__(self, host: str) -> Sequence[str]:
        """Return the names of the applications, in the order of their first frames."""
        return [name for name, hosts in self._hosts.items() if not hosts or host in hosts]


class Serving(Rekeying):
    """The stage that re-keys to applications; see `Stage`.

    Parameters:
        served: returns the applications that a host serves.

    """

    name = SERVING
    writes = (APPLICATIONS,)

    def __init__(self, served: Served) -> None:
        self.served = served

    def rekeyer(self) -> Rekeyer:
        """Return the rekeyer of one task."""
        rows = Rows()

        def rekeyed(frame: Frame) -> Iterator[Frame]:
            return (rows.rekeyed(frame, application) for application in self.served(frame.key))

        return rekeyed


class _Groups(NamedTuple):
    """The grouping of the rows of a host's frame to those of an application's frame.

    Attributes:
        layout: the layout of the application's frame.
        order: the rows with a place, in an order by name; None for the scope `host`, whose rows are not grouped.
        starts: the place in that order at which each name begins.
        shared: the columns of which the greatest value counts.

    """

    layout: Layout
    order: NDArray[np.intp] | None
    starts: NDArray[np.intp]
    shared: NDArray[np.intp]


class Rows:
    """Re-keys frames, and remembers how while names do not change."""

    def __init__(self) -> None:
        self._groups: OrderedDict[tuple[str, str], tuple[Layout, NDArray[np.bool_], _Groups]] = OrderedDict()

    def rekeyed(self, frame: Frame, application: str) -> Frame:
        """Return the frame of a host as a frame of an application.

        Args:
            frame: a frame of the scope `process` or `host`.
            application: the application that the host serves.

        Returns:
            All processes of one name as one row, without those of kernel threads alone. Its values are sums, NaN only
            if all are NaN. Of values that processes share, such as the quota of their group, it has the greatest.

        Raises:
            RecordError: names are too long with the name of the host.

        """
        known, left_out = self._groups.get((frame.key, frame.scope)), _left_out(frame)
        if (
            known is None
            or (known[0] is not frame.layout and known[0].packed != frame.layout.packed)
            or not np.array_equal(known[1], left_out)
        ):
            known = frame.layout, left_out, _grouped(frame, left_out)
            self._groups[frame.key, frame.scope] = known
            if len(self._groups) > MAX_LAYOUTS:
                self._groups.popitem(last=False)
        groups = known[2]
        values = frame.values
        if groups.order is not None and not len(groups.order):
            values = values[:0]
        elif groups.order is not None:
            ordered = values[groups.order]
            there = np.add.reduceat(np.isfinite(ordered), groups.starts, axis=0, dtype=np.intp)
            with np.errstate(over="ignore"):
                sums = np.add.reduceat(np.where(np.isfinite(ordered), ordered, 0.0), groups.starts, axis=0)
            sums[there == 0] = np.nan
            sums[:, groups.shared] = np.fmax.reduceat(ordered[:, groups.shared], groups.starts, axis=0)
            values = sums
        return Frame(
            "application", application, frame.scope, frame.ts, frame.sequence, groups.layout, values, (frame.key,)
        )


def _left_out(frame: Frame) -> NDArray[np.bool_]:
    """Return which rows are kernel threads or zombies, shape (rows,)."""
    if frame.scope == "host" or _ADDRESS_SPACE not in frame.layout.features:
        return np.zeros(len(frame.layout.rows), np.bool_)
    return np.asarray(frame.values[:, frame.layout.features.index(_ADDRESS_SPACE)] == 0.0)


def _grouped(frame: Frame, left_out: NDArray[np.bool_]) -> _Groups:
    layout, host = frame.layout, frame.key
    shared = np.array([at for at, name in enumerate(layout.features) if name.startswith(_SHARED)], np.intp)
    if frame.scope == "host":
        rows = [host if len(layout.rows) == 1 else f"{host}/{row}" for row in layout.rows]
        return _Groups(make_layout(rows, rows, layout.features), None, np.zeros(0, np.intp), shared)
    kept = np.flatnonzero(~left_out)
    mine = [layout.names[at] for at in kept.tolist()]
    names = dict.fromkeys(mine)
    places = {name: place for place, name in enumerate(names)}
    group = np.array([places[name] for name in mine], np.intp)
    order = np.argsort(group, kind="stable")
    rows = [f"{host}/{name}" for name in names]
    starts = np.searchsorted(group[order], np.arange(len(names)))
    return _Groups(make_layout(rows, names, layout.features), kept[order], starts, shared)
