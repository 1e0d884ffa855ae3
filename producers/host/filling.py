"""The used capacity of a host: its filesystems, its table of open files, and its process ids."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from laggard.producers.system.foreign import head

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.producers.system.clock import Clock

MAX_FILESYSTEMS: Final = 16
"""The most filesystems with features of their own: the first ones by mount point."""

MAX_NAME: Final = 100
"""The most characters of a mount point; a filesystem with a longer one has no features."""

LOCAL: Final = frozenset(
    {"bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "reiserfs", "vfat", "xfs", "zfs"}
)
"""Types of filesystems whose use the kernel knows itself. A remote one, or one that a user's program serves, may block
a query forever."""

MOUNTS_S: Final = 60.0
"""The time between two readings of mounts and limits, in seconds."""

_MOST_BYTES: Final = 1 << 20
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


class Filling:
    """Features of used capacity.

    - `filesystem_{mount}_used_ratio`: the used share of the bytes or of the inodes that ordinary users may use,
      whichever is more. `filesystem_{mount}_unused_bytes`: the bytes that remain for them.
    - `descriptors_used_ratio`: open files in all processes, as a share of the kernel's limit.
    - `pids_used_ratio`: tasks, as a share of the kernel's limit.

    Unreadable features are left out.

    Args:
        clock: the clock of the readings of mounts.
        root: the mount point of procfs.
        usage: returns the use of a filesystem.

    References: proc_sys_fs(5), proc_sys_kernel(5), statvfs(3).

    """

    def __init__(
        self, clock: Clock, root: str = "/proc", usage: Callable[[str], os.statvfs_result] = os.statvfs
    ) -> None:
        self._clock = clock
        self._root = root
        self._usage = usage
        self._mounts: tuple[str, ...] = ()
        self._most_tasks = 0
        self._looked_ns: int | None = None

    def read(self) -> dict[str, float]:
        """Read all features."""
        now_ns = self._clock.monotonic()
        if self._looked_ns is None or now_ns - self._looked_ns >= MOUNTS_S * 1e9:
            self._mounts, self._looked_ns = local_mounts(self._text("self/mounts")), now_ns
            limits = [self._text(f"sys/kernel/{each}").strip() for each in ("pid_max", "threads-max")]
            self._most_tasks = min((int(each) for each in limits if each.isdecimal()), default=0)
        found: dict[str, float] = {}
        for mount in self._mounts:
            try:
                usage = self._usage(mount)
            except OSError:  # unmounted since
                continue
            if usage.f_blocks:
                found[f"filesystem_{mount}_used_ratio"] = max(
                    _used(usage.f_blocks, usage.f_bfree, usage.f_bavail),
                    _used(usage.f_files, usage.f_ffree, usage.f_favail),
                )
                found[f"filesystem_{mount}_unused_bytes"] = float(usage.f_bavail * usage.f_frsize)
        opened = self._text("sys/fs/file-nr").split()
        if len(opened) == 3 and all(map(str.isdecimal, opened)) and int(opened[2]):
            found["descriptors_used_ratio"] = (int(opened[0]) - int(opened[1])) / int(opened[2])
        tasks = "".join(self._text("loadavg").split()[3:4]).partition("/")[2]
        if tasks.isdecimal() and self._most_tasks:
            found["pids_used_ratio"] = int(tasks) / self._most_tasks
        return found

    def _text(self, name: str) -> str:
        try:
            return os.fsdecode(head(f"{self._root}/{name}", _MOST_BYTES))
        except OSError:
            return ""


def local_mounts(mounts: str) -> tuple[str, ...]:
    """Return the mount points of writable local filesystems, one for each filesystem.

    Args:
        mounts: the text of `/proc/self/mounts`, see fstab(5).

    """
    found: dict[str, str] = {}
    for line in mounts.splitlines():
        source, point, kind, options, *_ = [*line.split(" "), "", "", "", ""]
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), point)
        if (kind not in LOCAL and (point, kind) != ("/", "overlay")) or "ro" in options.split(","):
            continue
        if len(point) <= MAX_NAME and point.isprintable() and len(point) < len(found.get(source, point + "/")):
            found[source] = point
    return tuple(sorted(found.values())[:MAX_FILESYSTEMS])


def _used(all_: int, free: int, available: int) -> float:
    """Return the used share of the capacity for users other than root, as df(1) does."""
    used = all_ - free
    return used / (used + available) if used + available > 0 else 0.0
