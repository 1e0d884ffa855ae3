"""Failing tries of a request, and the sleeps between them: one fault, whose time is mostly in the sleeps.

One failed call and one sleep are no tries: a program that looks for a file and sleeps elsewhere has both. Several
failures of the same call on the same thing, with about as many sleeps, show a loop that waits for a success.
"""

from __future__ import annotations

from typing import Final

LOCKS: Final = frozenset({"flock", "fcntl", "fcntl64"})
ACCEPTS: Final = frozenset({"accept", "accept4"})
"""A wait of a request in these is one in the listen queue: all workers are busy."""

SLEEPS: Final = frozenset({"nanosleep", "clock_nanosleep", "pause"})
POLLS: Final = frozenset({"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"})
ASKS: Final = frozenset({"getsockopt"})
"""Failures in these repeat an earlier one: they query the result of a connect."""

TURNED_AWAY: Final = frozenset({"EAGAIN", "EACCES", "EWOULDBLOCK"})
"""The results of a nonblocking request for a lock that another process holds."""

EXPECTED: Final = frozenset({"EAGAIN", "EALREADY", "EINPROGRESS", "EINTR", "EWOULDBLOCK"})
"""Normal results of nonblocking calls."""

PENDING: Final = "EINPROGRESS"
"""The result of a nonblocking connect(2): a failure only if it is repeated, since the result comes later."""

SEVERAL: Final = 3.0
"""The least number of failures beyond the usual that are tries."""


def is_failure(syscall: str, result: str) -> bool:
    """Return whether a system call failed in earnest: not because it would block, was interrupted or timed out.

    Example:
        >>> is_failure("connect", "ECONNREFUSED"), is_failure("recvfrom", "EAGAIN"), is_failure("flock", "EAGAIN")
        (True, False, True)

    """
    if not result or result.startswith("ERESTART") or syscall in POLLS | SLEEPS | ASKS or syscall.startswith("futex"):
        return False
    if syscall in LOCKS:
        return result in TURNED_AWAY or result not in EXPECTED
    return result not in (EXPECTED - {"EAGAIN"} if syscall == "connect" else EXPECTED)


def is_sleep(state: str, syscall: str) -> bool:
    """Return whether a thread slept because it asked to, in a call that waits for nothing else."""
    return state == "BS" and syscall in SLEEPS | {""}


def are_tries(on: str, more: float, sleeps_more: float) -> bool:
    """Return whether failures are tries with sleeps in between.

    Parameters:
        on: the object of the failed call. Unknown ones, and different files under one pattern, are not the same thing.
        more: the number of failures beyond the usual, of one call with one result.
        sleeps_more: the number of sleeps beyond the usual.

    Example:
        >>> are_tries("127.0.0.1:3306", 57.0, 56.0), are_tries("/srv/.maintenance", 1.0, 1.0)
        (True, False)

    """
    same = bool(on) and "*" not in on.rpartition("/")[2]
    return same and more >= SEVERAL and 0.5 * more <= sleeps_more <= 2.0 * more
