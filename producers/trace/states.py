"""The states that a request's time is split into (Fournier et al., section III.B), and why a thread was woken.

The state of a blocked thread depends on its waker: Giraldeau, Dagenais: Wait Analysis of Distributed Systems Using
Kernel Tracing, IEEE Transactions on Parallel and Distributed Systems 27(8), 2016.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NAMES: Final = ("UN", "RS", "RU", "BD", "BN", "BP", "BT", "BF", "BI", "BS")
"""The names of the states, in the order of their numbers."""

UN: Final = 0
"""Unknown: events are missing, or nothing of the thread has been seen yet."""
RS: Final = 1
"""Runs in the kernel, for a system call."""
RU: Final = 2
"""Runs in user mode (page faults and other exceptions are included, as they are not traced)."""
BD: Final = 3
"""Waits for a block device."""
BN: Final = 4
"""Waits for the network: the data came from another machine."""
BP: Final = 5
"""Is runnable, but has no CPU."""
BT: Final = 6
"""Waits for another task."""
BF: Final = 7
"""Waits for another task at a futex."""
BI: Final = 8
"""An interrupt uses its CPU; or it waits for an interrupt of another kind."""
BS: Final = 9
"""Waits for a timer."""
RUNNING: Final = 10
"""Has a CPU. System calls and interrupts decide later which of `RU`, `RS` and `BI` that is."""

_SOFTIRQS: Final = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")
_OF_SOFTIRQ: Final = (BI, BS, BN, BN, BD, BD, BI, BI, BS, BI)

_TIMERS: Final = re.compile(r"timer|hpet|rtc", re.IGNORECASE)
_DISKS: Final = re.compile(
    r"virtio\d+-req|nvme|ahci|ata_|\bata\d|scsi|megaraid|mpt\dsas|mmc|blkif|floppy", re.IGNORECASE
)
_NETWORKS: Final = re.compile(
    r"virtio\d+-(in|out)put|\beth|\ben[pso]\w|wlan|mlx|ixgbe|igb|i40e|ice-|bnx|\bena\b|hv_netvsc|vmxnet", re.IGNORECASE
)


def softirq(vector: int) -> tuple[int, str]:
    """Return the state of a thread that a soft interrupt woke, and the name of the vector."""
    if 0 <= vector < len(_SOFTIRQS):
        return _OF_SOFTIRQ[vector], _SOFTIRQS[vector]
    return BI, f"softirq {vector}"


@lru_cache(maxsize=1_024)
def interrupt(name: str) -> int:
    """Return the state of a thread that a hardware interrupt woke, by the interrupt's name (`virtio1-req.0`)."""
    for pattern, state in ((_TIMERS, BS), (_DISKS, BD), (_NETWORKS, BN)):
        if pattern.search(name):
            return state
    return BI


def guessed(syscall: str, *, unknown: int) -> int:
    """Return the state of a blocked thread by its system call alone, if its waker is unknown."""
    if syscall in {"nanosleep", "clock_nanosleep"}:
        return BS
    if syscall.startswith("futex"):
        return BF
    return unknown
