"""The reasons for waits of threads, by the kernel's function that they are blocked in: a table and its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DISK: Final = "for the disk"
MEMORY: Final = "for free memory"

_FOR: Final[Mapping[str, tuple[str, ...]]] = {
    DISK: (
        *("io_schedule", "folio_wait_", "wait_on_page_bit", "__wait_on_buffer", "bit_wait_io", "blk_", "blkdev_"),
        *("submit_bio_wait", "rq_qos_wait", "jbd2_", "wait_transaction_", "balance_dirty_pages", "ext4_", "xfs_"),
        *("btrfs_", "f2fs_", "iomap_", "do_get_write_access"),
    ),
    "for a file server": ("rpc_", "nfs_", "cifs_", "wait_for_response", "request_wait_answer", "fuse_", "ceph_"),
    MEMORY: (
        *("reclaim_throttle", "throttle_direct_reclaim", "shrink_", "congestion_wait", "mem_cgroup_"),
        *("__mem_cgroup_handle_over_high", "try_charge", "swap_"),
    ),
    "for a lock of the kernel": ("rwsem_", "__mutex_lock", "mutex_lock", "__down", "percpu_rwsem_wait"),
    "for a lock on a file": ("flock_lock_", "fcntl_setlk", "posix_lock_", "locks_lock_"),
    "for another thread, or a lock": ("futex_",),
    "for a child process": ("do_wait", "kernel_wait4"),
    "for the other end of a pipe": ("pipe_", "anon_pipe_", "fifo_open", "wait_for_partner"),
    "for the network, or another process": (
        *("sk_", "inet_csk_accept", "__skb_wait_for_more_packets", "unix_", "tcp_", "wait_for_connect", "inet_wait_"),
    ),
    "for events": ("ep_poll", "poll_schedule_timeout", "do_poll", "do_sys_poll", "do_select", "io_cqring_wait"),
    "for a moment in time": ("hrtimer_nanosleep", "do_nanosleep", "common_nsleep", "schedule_timeout"),
    "for a signal": ("do_sigtimedwait", "sigsuspend", "do_pause", "sys_pause", "__x64_sys_pause"),
    "for a terminal": ("wait_woken", "n_tty_"),
    "because it was stopped": ("do_signal_stop", "ptrace_stop"),
}
"""Prefixes of functions in kernels 4.19 to 6.18, in the order of search: real delays before idle waits."""


def waits_for(wait_channel: str) -> str:
    """Return the reason for a thread's wait: `for the disk`; empty if unknown."""
    return (
        next((reason for reason, names in _FOR.items() if wait_channel.startswith(names)), "") if wait_channel else ""
    )


def suffers(wait_channel: str) -> bool:
    """Return whether a thread waits for a scarce resource: the disk, a file server, memory or a lock of the kernel."""
    return waits_for(wait_channel) in _SUFFERED


_SUFFERED: Final = frozenset({DISK, MEMORY, "for a file server", "for a lock of the kernel"})
