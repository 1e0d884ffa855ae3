"""Traced requests (S4): where the time of each went, and how they travel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from operator import gt
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from laggard.pipeline.records import checks
from laggard.pipeline.records.errors import RecordError, shown
from laggard.pipeline.records.frame import UNNUMBERED
from laggard.pipeline.records.ids import derived_id
from laggard.pipeline.records.limits import (
    MAX_KEY,
    MAX_NAME,
    MAX_PID,
    MAX_SEGMENTS,
    MAX_SEQUENCE,
    MAX_SPENT,
    MAX_THREADS,
)
from laggard.pipeline.records.strict_json import json_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from laggard.pipeline.records.fields import Fields

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


def request_id(operator: str, service: str, request: str) -> str:
    """The id of what an operator says of a request; `request` tells it from all others of the service.

    The same arguments give the same id, so that a reader can always tell what it has seen before.
    """
    return derived_id("request", operator, service, request)


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """A request that is out of line (S4, section III.C).

    Attributes:
        id: see `request_id`.
        ts: when the request began, seconds since the Unix epoch.
        operator: which one found it.
        service: what served it.
        request: its id, unique in the service.
        name: what was asked for, `GET /cart`; may be empty.
        host: which one recorded it; may be empty.
        duration_s: how long it took.
        score: above 1; infinite where no request is usual.
        odd: whether it is out of line by what it did, and not by where its time went: it may be fast.
        cluster: the name of those that are alike; empty while there is none.
        cause: what it was waiting for or doing, in plain words.
        times_s: how long it was in each state, see `Request`.
        usual_s: the mean of that over normal requests; empty while none is known.
        critical_s: see `Request`.
        threads: likewise.
        path: likewise.
        young: whether too few requests were seen for this to be relied on.
        live: whether it is about now; false for a replay of recorded data.

    """

    kind: ClassVar[str] = "request"

    id: str
    ts: float
    operator: str
    service: str
    request: str
    name: str
    host: str
    duration_s: float
    score: float
    odd: bool
    cluster: str
    cause: str
    times_s: Mapping[str, float]
    usual_s: Mapping[str, float]
    critical_s: Mapping[str, float]
    threads: tuple[str, ...]
    path: tuple[Segment, ...]
    young: bool
    live: bool

    def to_json(self) -> dict[str, Any]:
        """The object that is written."""
        return {
            "kind": self.kind,
            "ts": json_number(self.ts),
            "id": self.id,
            "operator": self.operator,
            "service": self.service,
            "request": self.request,
            "name": self.name,
            "host": self.host,
            "duration_s": json_number(self.duration_s),
            "score": json_number(self.score),
            "odd": bool(self.odd),
            "cluster": self.cluster,
            "cause": self.cause,
            "times_s": dict(self.times_s),
            "usual_s": dict(self.usual_s),
            "critical_s": dict(self.critical_s),
            "threads": list(self.threads),
            "path": [list(each) for each in self.path],
            "young": bool(self.young),
            "live": bool(self.live),
        }


def read_request(fields: Fields) -> RequestOutput:
    """What is said of a request in these fields. Raises `RecordError`."""
    threads = fields.texts("threads", MAX_THREADS, MAX_NAME)
    score = fields.number("score")
    return RequestOutput(
        id=fields.text("id"),
        ts=fields.ts("ts"),
        operator=fields.text("operator"),
        service=fields.key("service"),
        request=fields.text("request", MAX_NAME),
        name=fields.text("name", MAX_NAME),
        host=fields.text("host", MAX_KEY),
        duration_s=fields.amount("duration_s"),
        score=math.inf if math.isnan(score) else score,
        odd=fields.boolean("odd"),
        cluster=fields.text("cluster"),
        cause=fields.text("cause"),
        times_s=fields.amounts("times_s"),
        usual_s=fields.amounts("usual_s"),
        critical_s=fields.amounts("critical_s"),
        threads=threads,
        path=checked_path(fields.raw("path"), len(threads), fields.place),
        young=fields.boolean("young"),
        live=fields.boolean("live"),
    )


def checked_spent(found: Any, place: str) -> tuple[Spent, ...]:
    """What was spent, of lists of its fields.

    Raises:
        RecordError: it is something else, or beyond a limit.

    """
    entries = _entries(found, "spent", Spent._fields, MAX_SPENT, place)
    if not entries:
        return ()
    state, syscall, on, by, pid, result, times, time_s = zip(*entries, strict=True)
    checks.texts(state, "spent.state", place, MAX_NAME, shortest=1)
    for name, texts in (("syscall", syscall), ("on", on), ("by", by), ("result", result)):
        checks.texts(texts, f"spent.{name}", place, MAX_NAME)
    checks.wholes(pid, "spent.pid", place, MAX_PID)
    checks.wholes(times, "spent.times", place, MAX_SEQUENCE)
    spent_s = checks.all_amounts(time_s, "spent.time_s", place)
    return tuple(map(Spent, state, syscall, on, by, pid, result, times, spent_s))


def checked_path(found: Any, threads: int, place: str) -> tuple[Segment, ...]:
    """A path over so many threads, of lists of the fields of its segments.

    Raises:
        RecordError: it is something else, or beyond a limit.

    """
    entries = _entries(found, "path", Segment._fields, MAX_SEGMENTS, place)
    if not entries:
        return ()
    thread, begin_s, end_s, state, detail = zip(*entries, strict=True)
    checks.wholes(thread, "path.thread", place, MAX_THREADS)
    if max(thread) >= threads:
        raise RecordError(place, "path.thread", f"places in 'threads', which has {threads:,}", shown(max(thread)))
    begin = checks.all_amounts(begin_s, "path.begin_s", place)
    end = checks.all_amounts(end_s, "path.end_s", place)
    if any(map(gt, begin, end)):
        number = next(number for number, each in enumerate(map(gt, begin, end)) if each)
        raise RecordError(
            place, f"path.end_s[{number}]", f"at least its begin_s, {begin[number]!r}", shown(end[number])
        )
    checks.texts(state, "path.state", place, MAX_NAME, shortest=1)
    checks.texts(detail, "path.detail", place, MAX_NAME)
    return tuple(map(Segment, thread, begin, end, state, detail))


def _entries(found: Any, field: str, names: tuple[str, ...], most: int, place: str) -> Sequence[Any]:
    entries = checks.items(found, field, place, most)
    for number, each in enumerate(entries):
        if not isinstance(each, list | tuple) or len(each) != len(names):
            raise RecordError(place, f"{field}[{number}]", f"a list of {', '.join(names)}", shown(each))
    return entries
