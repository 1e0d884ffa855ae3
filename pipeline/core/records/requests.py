"""Traced requests (S4): where the time of each went, and their published form."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import gt
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self

from laggard.pipeline.core.records import checks
from laggard.pipeline.core.records.declared import (
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
from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.fields import Fields
from laggard.pipeline.core.records.frame import UNNUMBERED
from laggard.pipeline.core.records.ids import derived_id
from laggard.pipeline.core.records.limits import (
    MAX_KEY,
    MAX_NAME,
    MAX_PID,
    MAX_SEGMENTS,
    MAX_SEQUENCE,
    MAX_SPENT,
    MAX_THREADS,
)
from laggard.pipeline.core.records.members import ID, LIVE, YOUNG

REST: Final = "..."
"""The state of the entry in `Request.spent` that sums all entries beyond `MAX_SPENT`."""


class Spent(NamedTuple):
    """A part of a request's time: the sum of similar pieces.

    Attributes:
        state: the state: `BD`, or `REST`.
        syscall: the system call; empty outside of any.
        on: path of a file, address of a socket (`127.0.0.1:3306`) or name of a device; empty if unknown. Parts that
            vary, such as a client's port, are omitted or are `*`: the same fault has the same text.
        by: name of the thread or process that ended the wait, holds the lock or had the CPU. For a wait in a listen
            queue, it is a request that kept a worker busy. Empty if there is none or it is unknown.
        pid: that process; of several, the one with most of the time; 0 if unknown.
        result: the error that the system call returned, `ECONNREFUSED`; empty for success.
        times: the number of pieces.
        time_s: their total duration, in seconds.

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
    """A segment of a request's critical path.

    Attributes:
        thread: its thread, as a place in `Request.threads`.
        begin_s: its begin, in seconds after that of the request.
        end_s: its end, likewise.
        state: the state of the thread.
        detail: the system call or the cause of the wait, in short; may be empty.

    """

    thread: int
    begin_s: float
    end_s: float
    state: str
    detail: str


@dataclass(frozen=True, slots=True)
class Request:
    """One traced request: the counts and times of its states, and its system calls in order.

    Attributes:
        service: the service that answered it. The record's key.
        ts: its begin, seconds since the Unix epoch.
        request: its id, unique in the service.
        duration_s: its duration, in seconds.
        counts: how often it entered each state. `RS` is in a system call, `RU` in user mode, and `UN` unknown. It is
            blocked for `BD` a disk, `BN` the network, `BP` the CPU, `BT` another task, `BF` a futex, `BI` an interrupt
            or `BS` a timer.
        times_s: the time in each state, as seen from its own thread; they sum to the duration.
        syscalls: the system calls of all threads that worked for it, in the order of time.
        sequence: the ever growing number of the record on its host; `UNNUMBERED` if there are no numbers.
        host: the host that recorded it; may be empty.
        name: the requested action, `GET /cart`, without varying parts; may be empty.
        critical_s: like `times_s`, with each wait replaced by its cause, if known.
        spent: the parts of its time, longest first; at most `MAX_SPENT`, see `bounded`.
        threads: those of the path, `php-fpm[812]`, its own first; on other hosts `db-1/mysqld[99]`.
        path: the critical path in the order of time, at most `MAX_SEGMENTS` segments.
        notes: sentences on the limits of its reliability.
        missing_ratio: the share of the minute before its end in which the tracer missed events: other requests at these
            times have no record.

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
    missing_ratio: float = 0.0


def bounded(spent: Iterable[Spent]) -> tuple[Spent, ...]:
    """Return the longest ones, at most `MAX_SPENT`; if there are more, the last one has the sums of the others."""
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
    """Return the id of an operator's record of a request; `request` is unique in the service.

    The same arguments give the same id, so that readers recognize duplicates.
    """
    return derived_id("request", operator, service, request)


@dataclass(frozen=True, slots=True)
class RequestOutput(Declared):
    """An outlying request: where its time went, and the cause."""

    kind: ClassVar[str] = "request"

    ts: Annotated[float, time("The start of the request, seconds since the Unix epoch.")]
    id: Annotated[str, ID]
    operator: Annotated[str, text("The operator that detected it: `requests`.")]
    service: Annotated[str, key("The service. The record's key.")]
    request: Annotated[str, text("Its id, unique in the service.", MAX_NAME, minLength=1)]
    name: Annotated[str, text("The name of the request, `GET /cart`; may be empty.", MAX_NAME)]
    host: Annotated[str, text("The host that recorded it; may be empty.", MAX_KEY)]
    duration_s: Annotated[float, amount("Its duration in seconds.")]
    score: Annotated[
        float,
        number(
            "The distance from the nearest request in a dense region, as a multiple of the distance within which "
            "requests are neighbors; null without such a region.",
            exclusiveMinimum=1,
        ),
    ]
    odd: Annotated[
        bool,
        flag("Whether it is an outlier by its events instead of its times. It may have been fast."),
    ]
    cluster: Annotated[str, text("The name of its cluster of similar requests; empty without one.")]
    cause: Annotated[str, text("A sentence for people: its wording may change at any time.")]
    times_s: Annotated[Mapping[str, float], amounts("The time in each state, in seconds; the sum is `duration_s`.")]
    usual_s: Annotated[Mapping[str, float], amounts("The mean of these times over normal requests; empty without any.")]
    critical_s: Annotated[
        Mapping[str, float],
        amounts("Like `times_s`, with each wait replaced by its cause, if it is known."),
    ]
    threads: Annotated[
        tuple[str, ...],
        texts(
            "The threads of the path, its own first: `php-fpm[812]`; on other hosts `db-1/mysqld[99]`.",
            MAX_THREADS,
            MAX_NAME,
        ),
    ]
    path: Annotated[tuple[Segment, ...], PATH]
    young: Annotated[bool, YOUNG]
    live: Annotated[bool, LIVE]
    cluster_cause: Annotated[
        str,
        text(
            "A sentence for people on all requests of its cluster; empty without one. `cause` is about this request.",
            added=True,
        ),
    ] = ""
    missing_ratio: Annotated[
        float,
        amount(
            "The share of the minute before its end in which the tracer missed events: other requests at these times "
            "have no record.",
            added=True,
        ),
    ] = 0.0

    @classmethod
    def made(cls, found: Fields, **read: Any) -> Self:
        """Return the record with these attributes. The score is infinite if there is no dense region."""
        score = math.inf if math.isnan(read["score"]) else read["score"]
        path = checked_path(read["path"], len(read["threads"]), found.place)
        return cls(**read | {"score": score, "path": path})


def checked_spent(found: Any, place: str) -> tuple[Spent, ...]:
    """Return the parts of a request's time, from lists of their fields.

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
    """Return the critical path over a number of threads, from lists of the fields of its segments.

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


def _entries(value: Any, field: str, names: tuple[str, ...], most: int, place: str) -> Sequence[Any]:
    entries = checks.items(value, field, place, most)
    for at, each in enumerate(entries):
        if not isinstance(each, list | tuple) or len(each) != len(names):
            raise RecordError(place, f"{field}[{at}]", f"a list of {', '.join(names)}", shown(each))
    return entries
