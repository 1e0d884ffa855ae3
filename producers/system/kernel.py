"""What a kernel offers below a root of procfs, found out once."""

from __future__ import annotations

import os
import re
from typing import Final

from laggard.producers.system.foreign import content, link

MOUNTS_BYTES: Final = 1 << 20
"""So much of a list of mounts is read: some thousands of them."""


class Kernel:
    """What all processes of a table have in common.

    Args:
        root: where procfs is mounted.

    Attributes:
        tick_s: seconds of a clock tick (`_SC_CLK_TCK`).
        page_bytes: size of a page.
        delays: whether block-I/O delay is accounted for (the sysctl kernel.task_delayacct).
        schedules: whether run time, wait and timeslices of threads are counted (CONFIG_SCHED_INFO).
        clocks: whether the CPU clocks of processes can be asked (clock_getcpuclockid(3)): not where the root shows
            another pid namespace than ours, or a copy.
        counts_descriptors: whether the size of `/proc/PID/fd` is the number of descriptors (Linux 6.2).

    """

    __slots__ = ("clocks", "counts_descriptors", "delays", "page_bytes", "schedules", "tick_s")

    def __init__(self, root: str) -> None:
        self.tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        self.page_bytes = os.sysconf("SC_PAGE_SIZE")
        self.delays = content(f"{root}/sys/kernel/task_delayacct") == b"1"
        # This process has run: zeros mean that nobody counts.
        self.schedules = content(f"{root}/self/schedstat") != b"0 0 0"
        self.clocks = _shows_this_process(root)
        self.counts_descriptors = _release() >= (6, 2) and _is_procfs(root)


def cpu_clock(pid: int) -> int:
    """The clock of the CPU time of a process, all threads together, exact to the nanosecond.

    Of a thread that runs on another core it knows what was at that core's last scheduler tick, 1 to 10 ms ago.
    As clock_getcpuclockid(3) makes it: MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of the kernel.
    """
    return (~pid << 3) | 2


def is_of_another_namespace(root: str) -> bool:
    """Whether a procfs is mounted there that shows another pid namespace than ours, such as a host's in a container."""
    return _is_procfs(root) and not _shows_this_process(root)


def _release() -> tuple[int, ...]:
    """Version of this kernel: major and minor number."""
    return tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])


def _is_procfs(root: str) -> bool:
    """Whether a procfs is mounted there, and no copy of one lies there."""
    mounts = [line.split() for line in content("/proc/self/mounts", MOUNTS_BYTES).splitlines()]
    return any(mount[1:3] == [os.fsencode(root), b"proc"] for mount in mounts)


def own_pid(root: str) -> int | None:
    """Return the pid of this process in the pid namespace that a procfs shows; None where it does not show it."""
    try:
        return int(link(f"{root}/self"))
    except (OSError, ValueError):
        return None


def _shows_this_process(root: str) -> bool:
    return own_pid(root) == os.getpid()
