"""The control groups of a machine with a CPU quota, and the share of their periods in which they were throttled.

Sources: Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst of Linux.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.producers.host.groups import ROOT, below
from laggard.producers.system.foreign import content
from laggard.producers.system.open_files import FileBudget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.producers.system.clock import Clock

    Vector = NDArray[np.float64]
    Indices = NDArray[np.intp]

SEEK_S: Final = 30.0
"""The time between two searches for groups with a quota, in seconds."""

MAX_QUOTAS: Final = 512
"""The most groups with a quota that are followed."""


_NONE: Final[Vector] = np.zeros(0)


class Throttling(NamedTuple):
    """The throttling of groups since the previous reading.

    Attributes:
        groups: their paths.
        source: the place of each in the previous reading, -1 for a new one. Shape (groups,).
        ratios: the share of the quota's periods in which it was used up; 0 for an idle group, NaN without two readings
            to compare. Shape (groups,).

    """

    groups: tuple[str, ...]
    source: Indices
    ratios: Vector


class Quotas:
    """The groups with a CPU quota, in version 2 of control groups or in version 1.

    Args:
        clock: the clock of the searches for groups.
        root: the mount point of control groups.

    """

    def __init__(self, clock: Clock, root: str = ROOT) -> None:
        self._clock = clock
        self._base, self._limit = _hierarchy(root)
        self._groups: tuple[str, ...] = ()
        self._places: Indices = np.zeros(0, np.intp)
        self._counted: list[tuple[int, int] | None] = []  # periods, and those in which the quota was used up
        self._files = FileBudget(MAX_QUOTAS)
        self._descriptors: list[int] = []
        self._sought_ns: int | None = None

    def close(self) -> None:
        """Close all files; the next reading opens them again."""
        self._files.release(self._descriptors)

    def read(self) -> Throttling:
        """Read the throttling of each group."""
        before, source = self._counted, self._places
        now = self._clock.monotonic()
        if self._base and (self._sought_ns is None or now - self._sought_ns >= SEEK_S * 1e9):
            self._sought_ns = now
            groups = self._seek()
            places = {group: place for place, group in enumerate(self._groups)}
            source = np.array([places.get(group, -1) for group in groups], np.intp)
            before = [self._counted[place] if place >= 0 else None for place in source]
            self._files.release(self._descriptors)
            self._groups, self._descriptors = groups, [-1] * len(groups)
            self._places = np.arange(len(groups))
        elif not self._groups:
            return Throttling((), source, _NONE)
        self._counted = [self._count(place) for place in range(len(self._groups))]
        ratios = np.full(len(self._groups), np.nan)
        for place, (then, now_counted) in enumerate(zip(before, self._counted, strict=True)):
            if then is not None and now_counted is not None:
                periods, throttled = now_counted[0] - then[0], now_counted[1] - then[1]
                ratios[place] = min(throttled / periods, 1.0) if periods > 0 else 0.0
        return Throttling(self._groups, source, ratios)

    def _count(self, place: int) -> tuple[int, int] | None:
        try:
            return parse_cpu_stat(self._files.read(self._descriptors, place, f"{self._groups[place]}/cpu.stat"))
        except OSError:  # the group is gone: the next search drops it
            return None

    def _seek(self) -> tuple[str, ...]:
        found: list[str] = []
        for group, _ in below(self._base):
            if len(found) >= MAX_QUOTAS:
                break
            if has_quota(content(f"{group}/{self._limit}")):
                found.append(group)
        return tuple(found)


def parse_cpu_stat(text: bytes) -> tuple[int, int] | None:
    """Parse `cpu.stat`: the number of periods of the quota, and of those in which it was used up; None without one."""
    words = text.split()
    values = dict(zip(words[0::2], words[1::2], strict=False))
    try:
        return int(values[b"nr_periods"]), int(values[b"nr_throttled"])
    except (KeyError, ValueError):
        return None


def has_quota(limit: bytes) -> bool:
    """Return whether `cpu.max` (version 2) or `cpu.cfs_quota_us` (version 1) has a quota."""
    return limit[:1].isdigit()


def _hierarchy(root: str) -> tuple[str, str]:
    """Return the path of the groups of the CPU controller, and the name of their quota file; empty without one."""
    if b"cpu" in content(f"{root}/cgroup.controllers").split():
        return root, "cpu.max"
    for name in ("cpu", "cpu,cpuacct"):
        if Path(root, name, "cpu.stat").exists():
            return f"{root}/{name}", "cpu.cfs_quota_us"
    return "", ""
