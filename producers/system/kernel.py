"""The features of a kernel below a root of procfs, detected once."""

from __future__ import annotations

import os
import re
from typing import Final

from laggard.producers.system.foreign import content, link

MOUNTS_BYTES: Final = 1 << 20
"""The limit of a list of mounts, in bytes: some thousands of them."""


class Kernel:
    """The features that are common to all processes of a table.

    Args:
        root: the mount point of procfs.

    Attributes:
        tick_s: the length of a clock tick in seconds (`_SC_CLK_TCK`).
        page_bytes: the size of a page.
        delays: whether block-I/O delay is accounted for (the sysctl kernel.task_delayacct).
        schedules: whether run time, wait and timeslices of threads are counted (CONFIG_SCHED_INFO).
        clocks: whether the CPU clocks of processes can be read (clock_getcpuclockid(3)): not if the root shows another
            pid namespace than laggard's, or a copy.
        counts_descriptors: whether the size of `/proc/PID/fd` is the number of descriptors (Linux 6.2).

    """

    __slots__ = ("clocks", "counts_descriptors", "delays", "page_bytes", "schedules", "tick_s")

    def __init__(self, root: str) -> None:
        self.tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        self.page_bytes = os.sysconf("SC_PAGE_SIZE")
        self.delays = content(f"{root}/sys/kernel/task_delayacct") == b"1"
        # This process has run, so zeros mean that the kernel does not count.
        self.schedules = content(f"{root}/self/schedstat") != b"0 0 0"
        self.clocks = _shows_this_process(root)
        self.counts_descriptors = _release() >= (6, 2) and _is_procfs(root)


def cpu_clock(pid: int) -> int:
    """Return the clock of the CPU time of a process, all threads together, exact to the nanosecond.

    For a thread that runs on another core, it is as of the last scheduler tick of that core, 1 to 10 ms ago. The id is
    computed as by clock_getcpuclockid(3): MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of the kernel.
    """
    return (~pid << 3) | 2


def is_of_another_namespace(root: str) -> bool:
    """Return whether this is a mounted procfs of another pid namespace, such as a host's in a container."""
    return _is_procfs(root) and not _shows_this_process(root)


def _release() -> tuple[int, ...]:
    """Return the version of this kernel: major and minor number."""
    return tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])


def _is_procfs(root: str) -> bool:
    """Return whether a procfs is mounted there, and not a copy of one."""
    mounts = [line.split() for line in content("/proc/self/mounts", MOUNTS_BYTES).splitlines()]
    return any(mount[1:3] == [os.fsencode(root), b"proc"] for mount in mounts)


def own_pid(root: str) -> int | None:
    """Return the pid of this process in the pid namespace of a procfs; None if that does not show it."""
    try:
        return int(link(f"{root}/self"))
    except (OSError, ValueError):
        return None


def _shows_this_process(root: str) -> bool:
    return own_pid(root) == os.getpid()
