"""Traced requests (S4): where the time of each went, and how they travel."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import gt
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self

from laggard.pipeline.records import checks
from laggard.pipeline.records.declared import (
    Declared,
    Form,
    amount,
    amounts,
    flag,
    key,
    number,
    text,
    texts,
    time,
)
from laggard.pipeline.records.errors import RecordError, shown
from laggard.pipeline.records.fields import Fields
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
from laggard.pipeline.records.members import ID, LIVE, YOUNG

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


PATH: Final = Form(
    {
        "type": "array",
        "description": "Its critical path in the order of time: the thread's place in `threads`, begin and end in "
        "seconds after `ts`, the state, and the system call or what was waited for.",
        "items": {
            "type": "array",
            "prefixItems": [
                {"type": "integer", "minimum": 0},
                {"type": "number", "minimum": 0},
                {"type": "number", "minimum": 0},
                {"type": "string", "minLength": 1},
                {"type": "string"},
            ],
            "minItems": len(Segment._fields),
            "maxItems": len(Segment._fields),
        },
    },
    lambda found, name: found.raw(name),
    lambda path: list(map(list, path)),
)


def request_id(operator: str, service: str, request: str) -> str:
    """The id of what an operator says of a request; `request` tells it from all others of the service.

    The same arguments give the same id, so that a reader can always tell what it has seen before.
    """
    return derived_id("request", operator, service, request)


@dataclass(frozen=True, slots=True)
class RequestOutput(Declared):
    """An outlying request: where its time went, and what it waited for or did."""

    kind: ClassVar[str] = "request"

    ts: Annotated[float, time("When the request began, seconds since the Unix epoch.")]
    id: Annotated[str, ID]
    operator: Annotated[str, text("The operator that found it: `requests`.")]
    service: Annotated[str, key("What served it. The record's key.")]
    request: Annotated[str, text("Its id, unique in the service.", MAX_NAME, minLength=1)]
    name: Annotated[str, text("What was asked for: `GET /cart`; may be empty.", MAX_NAME)]
    host: Annotated[str, text("Which one recorded it; may be empty.", MAX_KEY)]
    duration_s: Annotated[float, amount("How long it took, in seconds.")]
    score: Annotated[
        float,
        number(
            "How far it is from the nearest request in a dense region, in units of the distance within which requests "
            "are neighbours; null where there is no such region.",
            exclusiveMinimum=1,
        ),
    ]
    odd: Annotated[
        bool,
        flag("Whether it is an outlier by what it did, not by where its time went. It may have been fast."),
    ]
    cluster: Annotated[str, text("The name of those that are alike; empty while there is none.")]
    cause: Annotated[str, text("For people: its wording may change at any time.")]
    times_s: Annotated[
        Mapping[str, float], amounts("How long it was in each state, in seconds; they sum to `duration_s`.")
    ]
    usual_s: Annotated[
        Mapping[str, float], amounts("The mean of that over normal requests; empty while none is known.")
    ]
    critical_s: Annotated[
        Mapping[str, float],
        amounts("Like `times_s`, with each wait replaced by what was waited for, as far as that is known."),
    ]
    threads: Annotated[
        tuple[str, ...],
        texts(
            "Those of the path, its own first: `php-fpm[812]`; on other hosts `db-1/mysqld[99]`.",
            MAX_THREADS,
            MAX_NAME,
        ),
    ]
    path: Annotated[tuple[Segment, ...], PATH]
    young: Annotated[bool, YOUNG]
    live: Annotated[bool, LIVE]

    @classmethod
    def made(cls, found: Fields, **read: Any) -> Self:
        """Return what was read, by its attributes. No region is infinitely far away."""
        score = math.inf if math.isnan(read["score"]) else read["score"]
        path = checked_path(read["path"], len(read["threads"]), found.place)
        return cls(**read | {"score": score, "path": path})


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
    for name, column in (("syscall", syscall), ("on", on), ("by", by), ("result", result)):
        checks.texts(column, f"spent.{name}", place, MAX_NAME)
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
    for at, each in enumerate(entries):
        if not isinstance(each, list | tuple) or len(each) != len(names):
            raise RecordError(place, f"{field}[{at}]", f"a list of {', '.join(names)}", shown(each))
    return entries
