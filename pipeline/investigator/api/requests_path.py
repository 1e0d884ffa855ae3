"""One request: its critical path across threads, and what its time was spent on (S4)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.core.records.requests import REST
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Number, Text, Time, Young
from laggard.pipeline.investigator.requests import (
    LISTED,
    Asked,
    ClusterOfRequest,
    OfService,
    RecordingHost,
    RequestDuration,
    RequestId,
    RequestName,
    RequestRow,
    ServiceName,
    StateColor,
    StateLabel,
    StateName,
    rows,
    stretch,
)
from laggard.pipeline.methods.requests.lanes import (
    colors_of,
    description,
    details_on,
    heading,
    label,
    lanes_of,
    ordered,
    times_on,
)
from laggard.pipeline.methods.requests.queries import Found, find, lately, request_of
from laggard.pipeline.methods.requests.report import listed, notes_of, use_text
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from laggard.pipeline.core.records.requests import Request, Spent
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.requests.queries import RequestsFound

ROUND_S: Final = 1800.0
"""The time before and after a request outside of the queried time to search for others of its cluster, in seconds."""

MOST_OTHERS: Final = 10

MOST_SEARCHED: Final = 5_000
"""The most records of a partition to search for a request of another time: from its begin on, or the newest."""


class Which(OfService, frozen=True, kw_only=True):
    """A request; the time range is that of the others in its cluster."""

    request: Annotated[Text, msgspec.Meta(min_length=1, description="the id of the request, or the beginning of it")]
    at: Annotated[
        Time | None,
        msgspec.Meta(
            description="the start of the request, seconds since the Unix epoch, to find one outside of the time range"
        ),
    ] = None


class Verdict(Answer, frozen=True):
    """The verdict on an outlying request."""

    odd: Annotated[bool, msgspec.Meta(description="whether it is an outlier by its events, not by its times")]
    score: Annotated[Number, msgspec.Meta(description="the score, above 1; null if no request is usual")]
    cluster: ClusterOfRequest
    cause: Annotated[str, msgspec.Meta(description="the probable cause, a sentence for people")]
    young: Young


class Piece(Answer, frozen=True):
    """A piece of the critical path in one lane."""

    lane: Annotated[int, msgspec.Meta(description="the place of its thread in `lanes`")]
    begin_s: Annotated[float, msgspec.Meta(description="the start, in seconds after the request began")]
    end_s: Annotated[float, msgspec.Meta(description="the end, in seconds after the request began")]
    state: StateName
    detail: Annotated[str, msgspec.Meta(description="the system call, or what was waited for; may be empty")]


class Leads(Answer, frozen=True):
    """A change of the path from one lane to another."""

    at_s: Annotated[float, msgspec.Meta(description="the time of the change, in seconds after the request began")]
    source: Annotated[int, msgspec.Meta(description="the place in `lanes` of the thread that the path leaves")]
    target: Annotated[int, msgspec.Meta(description="the place in `lanes` of the thread that the path enters")]


class StateOf(Answer, frozen=True):
    """The times of the request in a state, in seconds."""

    state: StateName
    label: StateLabel
    color: StateColor
    path_s: Annotated[
        Number, msgspec.Meta(description="the time on the critical path, in seconds; null if it is unknown")
    ]
    own_s: Annotated[
        Number,
        msgspec.Meta(
            description="the time of its own thread, which may wait for others, in seconds; null if it is unknown"
        ),
    ]
    usual_s: Annotated[
        Number,
        msgspec.Meta(
            description="the mean time of the own thread of normal requests, in seconds; null if it is unknown"
        ),
    ]
    detail: Annotated[
        str,
        msgspec.Meta(
            description="the system calls or causes with most of the path's time, longest first: `openat 12 ms`; may "
            "be empty"
        ),
    ]


class SpentOn(Answer, frozen=True):
    """A part of the request's time, and what it was spent on."""

    text: Annotated[str, msgspec.Meta(description="the part in words; `all else` for the sum of the other parts")]
    state: Annotated[str, msgspec.Meta(description="the name of the state: `BD`; empty for the sum of the other parts")]
    label: Annotated[str, msgspec.Meta(description="the state in words; empty for the sum of the other parts")]
    call: Annotated[str, msgspec.Meta(description="the system call; empty outside of any")]
    on: Annotated[str, msgspec.Meta(description="the file, socket address or device; empty if it is unknown")]
    by: Annotated[
        str,
        msgspec.Meta(
            description="the thread or process that ended the wait, held the lock or had the CPU; empty if unknown"
        ),
    ]
    pid: Annotated[int, msgspec.Meta(description="the process id of `by`; 0 if it is unknown")]
    result: Annotated[str, msgspec.Meta(description="the error of the system call, `ECONNREFUSED`; empty for success")]
    times: Annotated[int, msgspec.Meta(description="the number of pieces in this part")]
    time_s: Annotated[float, msgspec.Meta(description="the total duration of the pieces, in seconds")]


class RequestPath(Asked, frozen=True):
    """A request, and where its time went."""

    service: ServiceName
    request: RequestId
    name: RequestName
    host: RecordingHost
    ts: Annotated[float, msgspec.Meta(description="the start of the request, seconds since the Unix epoch")]
    duration_s: RequestDuration
    heading: Annotated[
        str, msgspec.Meta(description="the request in one line: name, id, service, time, host and duration")
    ]
    verdict: Annotated[Verdict | None, msgspec.Meta(description="the result on an outlier; null for a normal request")]
    description: Annotated[
        str, msgspec.Meta(description="the path as text, for people who cannot see it; empty without a path")
    ]
    lanes: Annotated[
        list[str],
        msgspec.Meta(
            description="the threads of the path: its own, then others in the order of the path; empty without a path"
        ),
    ]
    pieces: Annotated[
        list[Piece], msgspec.Meta(description="the pieces of the path in the order of time; empty without a path")
    ]
    leads: Annotated[
        list[Leads], msgspec.Meta(description="the changes of lanes in the order of time; empty without a path")
    ]
    path_duration_s: Annotated[
        float, msgspec.Meta(description="the duration of the path, in seconds; without a path that of the request")
    ]
    states: Annotated[list[StateOf], msgspec.Meta(description="the known states in a fixed order, then others by name")]
    spent: Annotated[
        list[SpentOn],
        msgspec.Meta(description="the parts of its time, longest first; the last one may be the sum of the others"),
    ]
    notes: Annotated[list[str], msgspec.Meta(description="sentences on the limits of the reliability of this record")]
    others: Annotated[
        list[RequestRow],
        msgspec.Meta(
            description="other requests of its cluster, nearest in time first, at most 10; empty without a cluster"
        ),
    ]


def path(reading: Reading, question: Which) -> RequestPath:
    """Return where the time of a request went."""
    begin, end = stretch(question, reading.clock())
    recorded = reading.requests.stored.between(begin, end, question.service)
    found = _known(reading, question, recorded, begin, end) or _searched(reading, question)
    request, output = found
    if (request.service, request.request) not in recorded.took:
        begin, end = max(request.ts - ROUND_S, 0.0), request.ts + ROUND_S
        recorded = reading.requests.stored.between(begin, end, request.service)
    lanes = lanes_of(request) if request.path else None
    others: list[RequestRow] = []
    if output is not None and output.cluster:
        keys = [
            key
            for key in recorded.within(begin, end, request.service)
            if key[1] != request.request and key in recorded.outputs and recorded.outputs[key].cluster == output.cluster
        ]
        others = rows(recorded, sorted(keys, key=lambda key: abs(recorded.took[key].ts - request.ts))[:MOST_OTHERS])
    return RequestPath(
        begin,
        end,
        request.service,
        request.request,
        request.name,
        request.host,
        request.ts,
        request.duration_s,
        heading(request),
        None if output is None else Verdict(output.odd, output.score, output.cluster, output.cause, output.young),
        "" if lanes is None else description(lanes),
        [] if lanes is None else list(lanes.names),
        [] if lanes is None else [Piece(*each) for each in lanes.pieces],
        [] if lanes is None else [Leads(*each) for each in lanes.links],
        request.duration_s if lanes is None else lanes.duration_s,
        _states(found),
        [_spent(each) for each in request.spent],
        notes_of(request),
        others,
    )


def _known(reading: Reading, question: Which, recorded: RequestsFound, begin: float, end: float) -> Found | None:
    """Return the queried request if it is in the queried time range."""
    key = question.service, question.request
    if key not in recorded.took:
        return None
    output = recorded.outputs.get(key)
    requests = reading.requests.stored.requests(question.service, [question.request], begin, end)
    if requests:
        return Found(requests[0], output)
    return None if output is None else Found(request_of(output), output)


def _searched(reading: Reading, question: Which) -> Found:
    """Search for the queried request at other times. Raises `RequestError` (404) for none, or for several."""
    found = find(reading.bus, reading.topics, question.request, question.service, at=question.at, most=MOST_SEARCHED)
    if len(found) == 1:
        return found[0]
    prefix = question.request[:100]
    if found:
        error = f"{len(found):,} requests of {question.service[:100]!a} have an id that begins with {prefix!a}"
        raise RequestError(404, error, "more of the id")
    newest = [each for each in lately(reading.bus, reading.topics) if each.service == question.service][:LISTED]
    expected = f"one such as {', '.join(listed(newest))}" if newest else "a service that requests are recorded of"
    raise RequestError(404, f"no request of {question.service[:100]!a} with the id {prefix!a} is recorded", expected)


def _states(found: Found) -> list[StateOf]:
    request, output = found
    on_path, details = _path_times(request)
    usual_s = output.usual_s if output is not None else {}
    states = ordered((*on_path, *request.times_s, *usual_s))
    colors = colors_of(states)
    return [
        StateOf(
            state,
            label(state),
            colors[state],
            on_path.get(state, 0.0 if on_path else math.nan),
            request.times_s.get(state, 0.0 if request.times_s else math.nan),
            usual_s.get(state, 0.0 if usual_s else math.nan),
            details.get(state, ""),
        )
        for state in states
    ]


def _path_times(request: Request) -> tuple[dict[str, float], dict[str, str]]:
    """Return the path's time by state, and the calls in it; without a path, the recorded times."""
    if not request.path:
        return dict(request.critical_s), {}
    lanes = lanes_of(request)
    return times_on(lanes), dict(details_on(lanes))


def _spent(each: Spent) -> SpentOn:
    rest = each.state == REST
    text = "all else" if rest else use_text(each)
    return SpentOn(
        text,
        "" if rest else each.state,
        "" if rest else label(each.state),
        each.syscall,
        each.on,
        each.by,
        each.pid,
        each.result,
        each.times,
        each.time_s,
    )


ENDPOINTS: Final = (
    Endpoint("/requests/path", "One request: its critical path across threads.", RequestPath, path, Which),
)
