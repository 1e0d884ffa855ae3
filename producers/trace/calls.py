"""The effects and arguments of system calls, where they show on which file, socket or lock a thread waits."""

from __future__ import annotations

import errno
from enum import IntEnum
from functools import lru_cache
from typing import Final


class Does(IntEnum):
    """The relevant properties of a system call, as bits: flags of `enum` would be three times as slow."""

    TAKES_DESCRIPTOR = 1
    """Its first argument is a descriptor."""
    FUTEX = 2
    FLOCK = 4
    FCNTL = 8
    CLOSE = 16
    DUPLICATE = 32
    OPENS = 64
    """It returns a descriptor: of the path argument, of the socket that it accepts from, or of an object without a
    name."""
    POLLS = 128
    """It waits for any of several descriptors."""
    IO_URING = 256
    CONNECTS = 512
    ACCEPTS = 1024


_DESCRIPTOR: Final = frozenset(
    {
        *("accept", "accept4", "bind", "close", "connect", "copy_file_range", "dup", "dup2", "dup3"),
        *("epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "fadvise64", "fallocate", "fchdir"),
        *("fchmod", "fchown", "fcntl", "fdatasync", "flock", "fstat", "fstatfs", "fsync", "ftruncate"),
        *("getdents", "getdents64", "getpeername", "getsockname", "getsockopt", "ioctl", "listen", "lseek"),
        *("mq_timedreceive", "mq_timedsend", "newfstat", "pread64", "preadv", "preadv2", "pwrite64"),
        *("pwritev", "pwritev2", "read", "readahead", "readv", "recvfrom", "recvmmsg", "recvmsg", "sendfile"),
        *("sendfile64", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "splice"),
        *("sync_file_range", "syncfs", "tee", "vmsplice", "write", "writev"),
    }
)
_POLLS: Final = frozenset({"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"})
_OTHERS: Final = {
    "futex": Does.FUTEX,
    "futex_wait": Does.FUTEX,
    "futex_waitv": Does.FUTEX,
    "flock": Does.FLOCK,
    "fcntl": Does.FCNTL,
    "close": Does.CLOSE,
    "dup": Does.DUPLICATE,
    "dup2": Does.DUPLICATE,
    "dup3": Does.DUPLICATE,
    "open": Does.OPENS,
    "openat": Does.OPENS,
    "openat2": Does.OPENS,
    "creat": Does.OPENS,
    "accept": Does.OPENS | Does.ACCEPTS,
    "accept4": Does.OPENS | Does.ACCEPTS,
    "socket": Does.OPENS,
    "epoll_create1": Does.OPENS,
    "eventfd2": Does.OPENS,
    "timerfd_create": Does.OPENS,
    "memfd_create": Does.OPENS,
    "io_uring_enter": Does.IO_URING,
    "connect": Does.CONNECTS,
}
LOCK_UN: Final = 8
"""Of flock(2)."""
LOCKS: Final = frozenset({6, 7, 37, 38})
"""fcntl(2)'s `F_SETLK`, `F_SETLKW`, `F_OFD_SETLK` and `F_OFD_SETLKW`."""
DUPLICATES: Final = frozenset({0, 1030})
"""fcntl(2)'s `F_DUPFD` and `F_DUPFD_CLOEXEC`."""
CLONE_THREAD: Final = 0x10000
"""Of clone(2): the new thread belongs to the same process."""

_INTERNAL: Final = {512: "EINTR", 513: "EINTR", 514: "EINTR", 516: "EINTR"}
"""The kernel's internal errors for restarting a system call."""


@lru_cache(maxsize=1_024)
def does(name: str) -> int:
    """Return the properties of a system call, by its name without `sys_`."""
    kinds: int = _OTHERS.get(name, 0)
    if name in _DESCRIPTOR:
        kinds |= Does.TAKES_DESCRIPTOR
    if name in _POLLS:
        kinds |= Does.POLLS
    return kinds


@lru_cache(maxsize=8_192)
def failure(result: int) -> str:
    """Return the error of a system call by name; empty for none.

    >>> failure(-111), failure(0), failure(-512)
    ('ECONNREFUSED', '', 'EINTR')
    """
    if not -4096 < result < 0:
        return ""
    return _INTERNAL.get(-result) or errno.errorcode.get(-result, f"error {-result}")
