"""The pressure of each control group on I/O and memory: pressure stall information of version 2 of control groups.

The host's pressure is a mean over its CPUs, each weighted by its non-idle time: with two busy CPUs, one waiting thread
adds at most one half. The pressure of a group is a mean over the CPUs of its own tasks.

Sources: Documentation/admin-guide/cgroup-v2.rst and Documentation/accounting/psi.rst of Linux.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.producers.host.groups import ROOT, SEEK_RATIO, below, members, unified
from laggard.producers.system.open_files import FileBudget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.producers.system.clock import Clock

    Vector = NDArray[np.float64]
    Indices = NDArray[np.intp]

RESOURCES: Final = ("io", "memory")
"""The resources whose pressure is read."""

MAX_GROUPS: Final = 1024
"""The most groups that are followed."""

SEEK_S: Final = 30.0
"""The longest time between two searches while tasks wait, in seconds: a process may have joined an empty group."""

SOON_S: Final = 0.4
"""The least time between two searches if groups are created all the time, in seconds; see `SEEK_RATIO`, too."""


class Pressed(NamedTuple):
    """The waits of tasks of groups since the previous reading.

    Attributes:
        groups: their paths.
        source: the place of each in the previous reading, -1 for a new one. Shape (groups,).
        ratios: by resource, the share of time in which some task of each group waited; NaN if there is nothing to
            compare, or the group is gone. Shape (groups,).

    """

    groups: tuple[str, ...]
    source: Indices
    ratios: Mapping[str, Vector]


class Pressures:
    """The pressure of all groups that may have processes of their own.

    Groups are not read while the host's total does not change: no task has waited then. The root group is left out,
    since it is the host, except for the root group of a container (cgroup_namespaces(7)).

    Args:
        clock: the clock of the rates and the searches.
        procfs: the mount point of procfs.
        root: the mount point of control groups.

    """

    def __init__(self, clock: Clock, procfs: str = "/proc", root: str = ROOT) -> None:
        self._clock = clock
        self._base = unified(root)
        self._hosts = [f"{procfs}/pressure/{resource}" for resource in RESOURCES]
        self._groups: tuple[str, ...] = ()
        self._places: Indices = np.zeros(0, np.intp)
        self._stalled_us: dict[str, Vector] = {}
        self._host: dict[str, bytes] = {}
        self._files = FileBudget((MAX_GROUPS + 1) * len(RESOURCES) + 1)
        self._host_descriptors = [-1] * (len(RESOURCES) + 1)
        self._descriptors: dict[str, list[int]] = {resource: [] for resource in RESOURCES}
        self._read_ns: int | None = None
        self._sought_ns = self._seek_ns = 0
        self._counted = b""

    def close(self) -> None:
        """Close all files; the next reading opens them again."""
        self._files.release(self._host_descriptors)
        for descriptors in self._descriptors.values():
            self._files.release(descriptors)

    def read(self) -> Pressed:
        """Read the waits of the tasks of each group."""
        if not self._base:
            return Pressed((), self._places, {resource: np.zeros(0) for resource in RESOURCES})
        now = self._clock.monotonic()
        waited = {resource: self._has_waited(place, resource) for place, resource in enumerate(RESOURCES)}
        source = self._places
        if any(waited.values()) and self._is_due(now):
            source = self._seek(now)
        elapsed_us = np.nan if self._read_ns is None or now <= self._read_ns else (now - self._read_ns) / 1e3
        self._read_ns = now
        ratios = {}
        for resource in RESOURCES:
            before = self._stalled_us[resource] if self._stalled_us else np.zeros(0)
            if waited[resource]:
                self._stalled_us[resource] = self._read(resource)
            ratios[resource] = np.minimum((self._stalled_us.get(resource, before) - before) / elapsed_us, 1.0)
        return Pressed(self._groups, source, ratios)

    def _has_waited(self, place: int, resource: str) -> bool:
        """Return whether any task of the host has waited since the last call."""
        try:
            text = self._files.read(self._host_descriptors, place, self._hosts[place])
        except OSError:  # a kernel without it
            return False
        total = _some(text)
        before, self._host[resource] = self._host.get(resource), total
        return total != before

    def _is_due(self, now: int) -> bool:
        """Return whether to search for groups: some were created or removed, or the last search is long ago."""
        if now < self._seek_ns:
            return False
        counted = self._counted
        with suppress(OSError):  # not there before Linux 4.14
            counted = self._files.read(self._host_descriptors, len(RESOURCES), f"{self._base}/cgroup.stat")
        changed = counted != self._counted
        self._counted = counted
        return changed or now - self._sought_ns >= SEEK_S * 1e9 or self._read_ns is None

    def _seek(self, now: int) -> Indices:
        """Search for groups, and return the previous place of each."""
        begun = self._clock.cpu()
        found: list[str] = []
        for group, has_children in below(self._base):
            # Inner groups have no processes of their own, as a rule.
            own = not has_children or members(group)
            if own and (group != self._base or Path(group, "cgroup.type").exists()):
                found.append(group)
            if len(found) >= MAX_GROUPS:
                break
        places = {group: place for place, group in enumerate(self._groups)}
        source = np.array([places.get(group, -1) for group in found], np.intp)
        for resource, descriptors in self._descriptors.items():
            stalled_us = np.full(len(found), np.nan)
            if resource in self._stalled_us:
                stalled_us[source >= 0] = self._stalled_us[resource][source[source >= 0]]
            self._stalled_us[resource] = stalled_us
            rearranged = [descriptors[place] if place >= 0 else -1 for place in source.tolist()]
            for place in set(range(len(descriptors))) - set(source.tolist()):
                self._files.release_one(descriptors, place)
            self._descriptors[resource] = rearranged
        self._groups, self._places = tuple(found), np.arange(len(found))
        took_ns = self._clock.cpu() - begun
        self._sought_ns, self._seek_ns = now, now + max(round(SOON_S * 1e9), round(took_ns / SEEK_RATIO))
        return source

    def _read(self, resource: str) -> Vector:
        """Return the time in which some task of each group has waited so far, in microseconds; NaN if unreadable."""
        descriptors, read = self._descriptors[resource], self._files.read
        stalled_us: list[float] = []
        for place, group in enumerate(self._groups):
            try:
                stalled_us.append(int(_some(read(descriptors, place, f"{group}/{resource}.pressure"))))
            except (OSError, ValueError):  # gone, or its pressure is switched off (cgroup.pressure)
                stalled_us.append(np.nan)
        return np.array(stalled_us, np.float64)


def _some(text: bytes) -> bytes:
    """Return the total of `some`, the last field of the first line: the time some task has waited, in microseconds."""
    return text.partition(b"\n")[0].rpartition(b"=")[2]
