"""States, system calls and results in plain words: tables without code.

The states are those of a request's critical path (Fournier et al. 2019, section III.B; Giraldeau and Dagenais 2016).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class StateWords(NamedTuple):
    """The words for a state.

    Attributes:
        label: its label on a lane, a series or a column: `waits for a CPU`.
        does: a clause about a request in this state.
        title: a short title of requests that are in it for too long.
        color: its color in all drawings; black text on it is readable.

    """

    label: str
    does: str
    title: str
    color: str


STATES: Final[Mapping[str, StateWords]] = {
    "RU": StateWords("user mode", "computes in user mode", "user mode", "#5cb877"),
    "RS": StateWords("kernel", "runs in the kernel", "kernel", "#6aa5e0"),
    "BP": StateWords("waits for a CPU", "is off the CPU although it could run", "CPU taken", "#f0a23b"),
    "BD": StateWords("waits for a disk", "waits for a disk", "disk", "#e0705c"),
    "BN": StateWords("waits for the network", "waits for the network", "network", "#e492bd"),
    "BT": StateWords("waits for a task", "waits for another process or thread", "other task", "#ecd24e"),
    "BF": StateWords("waits for a futex", "waits for another thread", "futex", "#b893de"),
    "BS": StateWords("waits for a timer", "sleeps until a timer expires", "sleep", "#57bfc4"),
    "BI": StateWords("waits for an interrupt", "waits for an interrupt of a device", "interrupt", "#a9adb3"),
    "UN": StateWords("unknown", "is in an unknown state", "unknown", "#d5d7da"),
}
"""The words by the name of the state, running states first."""

SPANS: Final[Mapping[str, StateWords]] = {
    "self": StateWords("own code", "is in its own code", "own code", "#5cb877"),
    "client": StateWords("waits for an answer", "waits for the answer of another service", "answer", "#ecd24e"),
    "producer": StateWords("hands over messages", "hands messages over", "messages", "#57bfc4"),
    "server": StateWords("in another service", "waits for another service", "another service", "#b893de"),
}
"""The same for requests from OpenTelemetry spans, which have no kernel states: see `producers.trace.spans`."""

SYSCALLS: Final[Mapping[str, str]] = {
    "accept": "takes connections",
    "accept4": "takes connections",
    "access": "looks for files",
    "brk": "takes memory",
    "clone": "starts threads or processes",
    "clone3": "starts threads or processes",
    "connect": "opens connections",
    "epoll_wait": "waits for any of several",
    "execve": "starts programs",
    "fcntl": "locks files",
    "fdatasync": "writes to disk at once",
    "flock": "locks files",
    "fsync": "writes to disk at once",
    "futex": "waits for threads, or wakes them",
    "getdents64": "lists folders",
    "lstat": "looks for files",
    "madvise": "gives memory back",
    "mmap": "takes memory, or maps files",
    "mprotect": "protects memory",
    "munmap": "gives memory back",
    "newfstatat": "looks for files",
    "open": "opens files",
    "openat": "opens files",
    "poll": "waits for any of several",
    "recvfrom": "receives",
    "recvmsg": "receives",
    "rename": "renames files",
    "sched_yield": "gives the CPU up",
    "select": "waits for any of several",
    "sendmsg": "sends",
    "sendto": "sends",
    "stat": "looks for files",
    "unlink": "deletes files",
    "wait4": "waits for children",
}
"""The purposes of system calls with unclear names: `fcntl` also sets flags, but rarely many times."""

RESULTS: Final[Mapping[str, tuple[str, str]]] = {
    "EACCES": ("that is not allowed", "not allowed"),
    "EADDRNOTAVAIL": ("for which no address or port is left", "no port left"),
    "EAGAIN": ("that is turned away, as a full queue does", "turned away"),
    "EBUSY": ("that finds it busy", "busy"),
    "ECONNABORTED": ("that is broken off", "broken off"),
    "ECONNREFUSED": ("that is refused", "refused"),
    "ECONNRESET": ("that the other side resets", "reset"),
    "EDQUOT": ("for which the quota leaves no room", "quota"),
    "EHOSTUNREACH": ("that finds no way to the host", "unreachable"),
    "EIO": ("that fails with an I/O error", "I/O error"),
    "EMFILE": ("for which the process has no descriptor left", "no descriptors"),
    "ENETUNREACH": ("that finds no way to the network", "unreachable"),
    "ENFILE": ("for which the machine has no descriptor left", "no descriptors"),
    "ENOENT": ("that finds nothing there", "not there"),
    "ENOMEM": ("for which there is no memory", "no memory"),
    "ENOSPC": ("for which the disk has no room", "disk full"),
    "EPERM": ("that is not permitted", "not permitted"),
    "EPIPE": ("that has no reader any more", "broken pipe"),
    "ETIMEDOUT": ("that times out", "timed out"),
}
"""The words for an errno: a clause that follows the call, and a few words for a title."""
