"""Traced requests (S4): where the time of each went, and how they travel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.records.frame import UNNUMBERED
from laggard.pipeline.records.limits import MAX_SPENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REST: Final = "..."
"""The state of the entry in `Request.spent` that all which found no place there are summed into."""


class Spent(NamedTuple):
    """What some of a request's time was spent on, summed over all that is alike.

    Attributes:
        state: in which state: `BD`, or `REST`.
        syscall: inside of which system call; empty outside of any.
        on: path of a file, address of a socket (`127.0.0.1:3306`) or name of a device; empty where that is not known.
            Parts that differ each time, such as a client's port, are left out or are `*`: the same trouble has the same
            text.
        by: name of the thread or process that ended the wait, holds the lock or had the CPU; empty where nobody did or
            that is not known.
        pid: that process; of several, the one with most of the time; 0 where that is not known.
        result: the error that the system call returned, `ECONNREFUSED`; empty for success.
        times: how often.
        time_s: for how long in sum, in seconds.

    """

    state: str
    syscall: str
    on: str
    by: str
    pid: int
    result: str
    times: int
    time_s: float


class Segment(NamedTuple):
    """A piece of a request's critical path.

    Attributes:
        thread: whose, its place in `Request.threads`.
        begin_s: when, in seconds after the request's begin.
        end_s: likewise.
        state: in which state it was.
        detail: the system call or what was waited for, in short; may be empty.

    """

    thread: int
    begin_s: float
    end_s: float
    state: str
    detail: str


@dataclass(frozen=True, slots=True)
class Request:
    """One traced request: how often and for how long it was in each state, and its system calls in order.

    Attributes:
        service: what served it. The record's key.
        ts: when it began, seconds since the Unix epoch.
        request: its id, unique in the service.
        duration_s: how long it took.
        counts: how often each state was entered: `RS` in a system call, `RU` in user mode, blocked for `BD` a disk,
            `BN` the network, `BP` the CPU, `BT` another task, `BF` a futex, `BI` an interrupt, `BS` a timer; `UN` is
            not known.
        times_s: how long it was in each, as seen from its own thread; they sum to the duration.
        syscalls: the system calls of all threads that worked for it, in the order of time.
        sequence: numbers the records of a host, ever growing; `UNNUMBERED` where it does not.
        host: which one recorded it; may be empty.
        name: what was asked for, `GET /cart`, without what differs each time; may be empty.
        critical_s: like `times_s`, with each wait replaced by what was waited for, as far as that is known.
        spent: on what, longest first; at most `MAX_SPENT`, see `bounded`.
        threads: those of the path, `php-fpm[812]`, its own first; on other hosts `db-1/mysqld[99]`.
        path: the critical path in the order of time, at most `MAX_PATH` pieces.
        notes: what limits the trust in it, in words.

    """

    service: str
    ts: float
    request: str
    duration_s: float
    counts: Mapping[str, float] = field(default_factory=dict)
    times_s: Mapping[str, float] = field(default_factory=dict)
    syscalls: tuple[str, ...] = ()
    sequence: int = UNNUMBERED
    host: str = ""
    name: str = ""
    critical_s: Mapping[str, float] = field(default_factory=dict)
    spent: tuple[Spent, ...] = ()
    threads: tuple[str, ...] = ()
    path: tuple[Segment, ...] = ()
    notes: tuple[str, ...] = ()


def bounded(spent: Iterable[Spent]) -> tuple[Spent, ...]:
    """Those that took longest, at most `MAX_SPENT`; of more, the last one has the sums of all that are left out."""
    ranked = sorted(spent, key=lambda each: (-each.time_s, -each.times, each))
    if len(ranked) <= MAX_SPENT:
        return tuple(ranked)
    rest = ranked[MAX_SPENT - 1 :]
    summed = Spent(REST, "", "", "", 0, "", sum(each.times for each in rest), sum(each.time_s for each in rest))
    return (*ranked[: MAX_SPENT - 1], summed)
