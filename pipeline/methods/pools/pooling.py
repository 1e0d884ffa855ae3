"""The stage that re-keys to pools: reads the counters of hosts, and writes those of a pool's members to its topic.

A member is a process, `HOST/NAME[...]`, or a whole host, `HOST`: the levels of the top-down analysis are hosts, then
processes. Each frame has the members of one host, and names the host, so that `ticks.py` can join them.
"""

from __future__ import annotations

import fnmatch
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.records import Frame, Layout, make_layout
from laggard.pipeline.core.topics import POOLING, POOLS
from laggard.pipeline.scoring.rekeying import MAX_LAYOUTS, Rekeying

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from laggard.pipeline.scoring.rekeying import Rekeyer

LEVEL: Final = "/"
"""The separator of the parts of a path, in patterns and in the ids and names of members; `WITHIN` replaces it inside a
part."""

WITHIN: Final = ":"


class _Pattern(NamedTuple):
    """The hosts and processes that a pattern selects; no process if hosts are the members."""

    host: re.Pattern[str]
    process: re.Pattern[str] | None


class Members:
    """The pools with members on a host, by the settings.

    Parameters:
        patterns: by pool, patterns `HOST/PROCESS` for processes by name, or `HOST` for hosts, separated by blanks;
            `*`, `?` and `[...]` as in file names.

    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._pools = {pool: tuple(map(_read, text.split())) for pool, text in patterns.items()}

    def of(self, host: str, scope: str) -> Iterator[tuple[str, tuple[re.Pattern[str], ...]]]:
        """Return the pools that may have members in such frames of a host, with patterns for the names of processes."""
        for pool, patterns in self._pools.items():
            found = [each for each in patterns if each.host.match(host) and (each.process is None) == (scope == "host")]
            if found:
                yield pool, tuple(each.process for each in found if each.process is not None)


def _read(pattern: str) -> _Pattern:
    host, _, process = pattern.partition(LEVEL)
    return _Pattern(_compiled(host), _compiled(process) if process else None)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


class Pooling(Rekeying):
    """The stage that re-keys to pools; see `Stage`.

    Parameters:
        members: returns the pools of a host.

    """

    name = POOLING
    writes = (POOLS,)

    def __init__(self, members: Members) -> None:
        self.members = members

    def rekeyer(self) -> Rekeyer:
        """Return the rekeyer of one task."""
        return Rows(self.members).rekeyed


class _Chosen(NamedTuple):
    """The members in a host's frame: their layout, and the numbers of their rows."""

    layout: Layout
    rows: NDArray[np.intp]


class Rows:
    """Re-keys frames, and remembers how while names do not change.

    Parameters:
        members: returns the pools of a host.

    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._chosen: OrderedDict[tuple[str, str], tuple[Layout, dict[str, _Chosen]]] = OrderedDict()

    def rekeyed(self, frame: Frame) -> Iterator[Frame]:
        """Return the frame of a host as frames of the pools that may have members on it.

        Raises:
            RecordError: names are too long with the name of the host.

        """
        known = self._chosen.get((frame.key, frame.scope))
        if known is None or (known[0] is not frame.layout and known[0].packed != frame.layout.packed):
            known = frame.layout, self._choose(frame)
            self._chosen[frame.key, frame.scope] = known
            if len(self._chosen) > MAX_LAYOUTS:
                self._chosen.popitem(last=False)
        for pool, (layout, rows) in known[1].items():
            values = frame.values[rows]
            yield Frame("pool", pool, "member", frame.ts, frame.sequence, layout, values, (frame.key,))

    def _choose(self, frame: Frame) -> dict[str, _Chosen]:
        layout, host = frame.layout, _part(frame.key)
        found: dict[str, _Chosen] = {}
        for pool, patterns in self._members.of(frame.key, frame.scope):
            if frame.scope == "host":
                if layout.rows:
                    found[pool] = _Chosen(make_layout([host], [host], layout.features), np.zeros(1, np.intp))
                continue
            # An empty frame for a host without members: it ends the anomalies of those that it had.
            chosen = [at for at, name in enumerate(layout.names) if any(each.match(name) for each in patterns)]
            members = make_layout(
                [f"{host}{LEVEL}{_part(layout.rows[at])}" for at in chosen],
                [f"{host}{LEVEL}{_part(layout.names[at])}" for at in chosen],
                layout.features,
                [layout.commands[at] for at in chosen] if layout.commands else (),
            )
            found[pool] = _Chosen(members, np.array(chosen, np.intp))
        return found


def _part(name: str) -> str:
    return name.replace(LEVEL, WITHIN)
