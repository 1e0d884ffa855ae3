"""Control groups: one path in all hierarchies that bound or count something for the lab's hosts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MOUNTED: Final = Path("/sys/fs/cgroup")
BOUNDING: Final = ("cpu", "cpuacct", "memory", "blkio")
"""Hierarchies of version 1, with a controller each."""
UNIFIED: Final = "unified"
"""The hierarchy of version 2: it has no controllers here, but counts pressure and CPU time, and can kill."""
PERIOD_US: Final = 10_000
"""Of the CPU quota: short, so that who used it up waits for milliseconds and not for a tenth of a second."""


class NoGroupsError(OSError):
    """The machine has no control groups that the lab can use."""


def own_paths() -> dict[str, Path]:
    """By hierarchy, the group that this process is in: groups below it stay within what bounds this process.

    Raises:
        NoGroupsError: a hierarchy is not mounted, or may not be written to.

    """
    paths = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(",") if controllers else [UNIFIED]:
            if name in {*BOUNDING, UNIFIED}:
                paths[name] = MOUNTED / name / path.lstrip("/")
    for name in (*BOUNDING, UNIFIED):
        if name not in paths or not (paths[name] / "cgroup.procs").exists():
            raise NoGroupsError(f"{MOUNTED / name}: expected a hierarchy of version {2 if name == UNIFIED else 1}")
        if not paths[name].joinpath("cgroup.procs").stat().st_uid == 0:
            raise NoGroupsError(f"{paths[name]}: expected a group that root owns")
    return paths


@dataclass(frozen=True, slots=True)
class Group:
    """One group.

    Attributes:
        paths: where it is, by hierarchy.

    """

    paths: dict[str, Path]

    @classmethod
    def below(cls, parents: dict[str, Path], name: str) -> Group:
        """Make one."""
        paths = {hierarchy: parent / name for hierarchy, parent in parents.items()}
        for path in paths.values():
            path.mkdir()
        return cls(paths)

    def inner(self, name: str) -> Group:
        """A group within this one. It shares its block I/O group: version 1 throttles each of these for itself."""
        inner = Group.below(
            {hierarchy: self.paths[hierarchy] for hierarchy in self.paths if hierarchy != "blkio"}, name
        )
        inner.paths["blkio"] = self.paths["blkio"]
        return inner

    def limit_cpu(self, cores: float) -> None:
        """Limit its CPU time, in cores."""
        self.write("cpu", "cpu.cfs_period_us", PERIOD_US)
        self.write("cpu", "cpu.cfs_quota_us", round(cores * PERIOD_US))

    def limit_memory(self, limit_bytes: int) -> None:
        """Limit its memory, its part of the page cache included."""
        self.write("memory", "memory.limit_in_bytes", limit_bytes)

    def limit_disk(self, device: str, operations_per_s: int, bytes_per_s: int) -> None:
        """Limit its use of a device (`major:minor`), each for reading and for writing."""
        for direction in ("read", "write"):
            self.write("blkio", f"blkio.throttle.{direction}_iops_device", f"{device} {operations_per_s}")
            self.write("blkio", f"blkio.throttle.{direction}_bps_device", f"{device} {bytes_per_s}")

    def write(self, hierarchy: str, name: str, value: object) -> None:
        """Set one of its files."""
        (self.paths[hierarchy] / name).write_text(f"{value}\n")

    def command(self, command: list[str]) -> list[str]:
        """The command that runs another in this group."""
        enter = "".join(f"echo $$ > {shlex.quote(str(path))}/cgroup.procs && " for path in self.paths.values())
        return ["sh", "-c", f'{enter} exec "$@"', "sh", *command]

    def pids(self) -> Iterator[int]:
        """Its processes, those in inner groups too."""
        for path in self.paths[UNIFIED].rglob("cgroup.procs"):
            yield from map(int, path.read_text().split())
        yield from map(int, (self.paths[UNIFIED] / "cgroup.procs").read_text().split())
