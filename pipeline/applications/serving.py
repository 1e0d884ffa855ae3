"""The stage that re-keys: reads hosts' counters, and writes those of hosts that serve an application to its topic.

All processes of one name on a host become one row, `HOST/NAME`, since an application's models are about what goes on
for months, and processes come and go; the host's own row is called `HOST`.
"""

from __future__ import annotations

import fnmatch
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from laggard.pipeline.records import Frame, Layout, make_layout
from laggard.pipeline.scoring.rekeying import MAX_LAYOUTS, Rekeying
from laggard.pipeline.topics import APPLICATIONS, SERVING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.scoring.rekeying import Rekeyer

GROUP: Final = "application"
"""The group of the pattern that gives an application's name."""

_SHARED: Final = ("cpus", "cpu_quota_throttled", "cpu_pressure_", "io_pressure_", "memory_pressure_")
"""How features begin that processes have in common: of several the greatest counts, and not the sum."""


class Served(Protocol):
    """Says which applications a host serves."""

    def __call__(self, host: str) -> Sequence[str]:
        """Their names, each once."""


class ServedBySettings:
    r"""Which applications a host serves, as the settings say.

    Parameters:
        hosts: by application, hosts or patterns of them (`web-* db-1`), separated by blanks.
        pattern: a regular expression for a whole host's name, whose group `application` names one; empty for none.

    Example:
        >>> served = ServedBySettings({"shop": "web-* db-1"}, r"(?P<application>[a-z]+)-\d+")
        >>> served("web-1"), served("db-2")
        (('shop', 'web'), ('db',))

    """

    def __init__(self, hosts: Mapping[str, str], pattern: str = "") -> None:
        self._hosts = {
            application: tuple(re.compile(fnmatch.translate(each)) for each in said.split())
            for application, said in hosts.items()
        }
        self._pattern = re.compile(pattern) if pattern else None

    def __call__(self, host: str) -> Sequence[str]:
        """Their names, those of the table first."""
        found = [name for name, hosts in self._hosts.items() if any(each.match(host) for each in hosts)]
        if self._pattern is not None and (match := self._pattern.fullmatch(host)) and match[GROUP]:
            found.append(match[GROUP])
        return tuple(dict.fromkeys(found))


class ServedByFrames:
    """Which applications a host serves, as the applications' own frames say."""

    def __init__(self) -> None:
        self._hosts: dict[str, frozenset[str]] = {}

    def heard(self, frame: Frame) -> None:
        """Take what a frame of an application says; one without hosts is served by all."""
        self._hosts[frame.key] = frozenset(frame.hosts)

    def __call__(self, host: str) -> Sequence[str]:
        """Their names, in the order in which they were heard of."""
        return [name for name, hosts in self._hosts.items() if not hosts or host in hosts]


class Serving(Rekeying):
    """What re-keys to applications, as a stage; see `Stage`.

    Parameters:
        served: says which applications a host serves.

    """

    name = SERVING
    writes = (APPLICATIONS,)

    def __init__(self, served: Served) -> None:
        self.served = served

    def rekeyer(self) -> Rekeyer:
        """What makes the frames of one task."""
        rows = Rows()

        def rekeyed(frame: Frame) -> Iterator[Frame]:
            return (rows.rekeyed(frame, application) for application in self.served(frame.key))

        return rekeyed


class _Groups(NamedTuple):
    """How the rows of a host's frame become those of an application's.

    Attributes:
        layout: of the application's frame.
        order: the rows so that those of one name stand together; None where each has a name of its own.
        starts: where in that order each name begins.
        shared: columns of which the greatest counts.

    """

    layout: Layout
    order: NDArray[np.intp] | None
    starts: NDArray[np.intp]
    shared: NDArray[np.intp]


class Rows:
    """Re-keys frames, and remembers how for as long as names do not change."""

    def __init__(self) -> None:
        self._groups: OrderedDict[tuple[str, str], tuple[Layout, _Groups]] = OrderedDict()

    def rekeyed(self, frame: Frame, application: str) -> Frame:
        """The frame of a host as one of an application.

        Args:
            frame: of the scope `process` or `host`.
            application: served by it.

        Returns:
            All processes of one name as one row, the values summed, NaN only where all are NaN; of what processes have
            in common, such as the quota of their control group, the greatest.

        Raises:
            RecordError: names are too long for a frame that has the host's name in each.

        """
        known = self._groups.get((frame.key, frame.scope))
        if known is None or (known[0] is not frame.layout and known[0].packed != frame.layout.packed):
            known = frame.layout, _grouped(frame)
            self._groups[frame.key, frame.scope] = known
            if len(self._groups) > MAX_LAYOUTS:
                self._groups.popitem(last=False)
        groups = known[1]
        values = frame.values
        if groups.order is not None and len(values):
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


def _grouped(frame: Frame) -> _Groups:
    layout, host = frame.layout, frame.key
    shared = np.array([at for at, name in enumerate(layout.features) if name.startswith(_SHARED)], np.intp)
    if frame.scope == "host":
        rows = [host if len(layout.rows) == 1 else f"{host}/{row}" for row in layout.rows]
        return _Groups(make_layout(rows, rows, layout.features), None, np.zeros(0, np.intp), shared)
    names = dict.fromkeys(layout.names)
    places = {name: place for place, name in enumerate(names)}
    group = np.array([places[name] for name in layout.names], np.intp)
    order = np.argsort(group, kind="stable")
    rows = [f"{host}/{name}" for name in names]
    starts = np.searchsorted(group[order], np.arange(len(names)))
    return _Groups(make_layout(rows, names, layout.features), order, starts, shared)
