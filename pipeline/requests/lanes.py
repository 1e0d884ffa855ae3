"""A request's critical path as it is drawn: a lane for each thread, pieces on it, and where the path changes lanes.

S4, figure 2: horizontal edges are states of a thread, vertical ones lead from who wakes to who is woken.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.units import counted, readable
from laggard.pipeline.history.report import moment
from laggard.pipeline.requests.words import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from laggard.pipeline.records.requests import Request, Segment

DETAILS: Final = 3
"""So many system calls, or things waited for, are told of a state."""


TOTAL: Final = "TT"
"""Not a state: the sum of all."""

_OTHERS: Final = ("#5cb877", "#f0a23b", "#6aa5e0", "#b893de", "#ecd24e", "#e0705c")
_ORDER: Final = {state: number for number, state in enumerate(STATES)}


class Link(NamedTuple):
    """Where the path leaves one lane and goes on in another, in seconds after the request's begin."""

    at_s: float
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """A path as it is drawn.

    Attributes:
        names: of the lanes, from the top: the request's own thread, then the others as they appear on the path.
        pieces: of the path, in the order of time, `thread` being the lane.
        links: in the order of time.
        duration_s: of the whole.

    """

    names: tuple[str, ...]
    pieces: tuple[Segment, ...]
    links: tuple[Link, ...]
    duration_s: float


def label(state: str) -> str:
    """What a state is, in words. Requests that come from spans have other states, whose names are words themselves."""
    return STATES[state].label if state in STATES else printable(state)


def ordered(states: Iterable[str]) -> list[str]:
    """Each once: those of the method first, then others by name."""
    return sorted(set(states) - {TOTAL}, key=lambda each: (_ORDER.get(each, len(_ORDER)), each))


def colors_of(states: Iterable[str]) -> dict[str, str]:
    """The colour of each state: those of the method have theirs, others get some in their order, again and again."""
    found = ordered(states)
    others = [state for state in found if state not in STATES]
    rest = {state: _OTHERS[number % len(_OTHERS)] for number, state in enumerate(others)}
    return {state: STATES[state].color if state in STATES else rest[state] for state in found}


def lanes_of(request: Request) -> Lanes:
    """The lanes of a request whose path is known."""
    path = sorted(request.path, key=lambda piece: (piece.begin_s, piece.end_s))
    threads = list(dict.fromkeys([0, *(piece.thread for piece in path)]))
    places = {thread: lane for lane, thread in enumerate(threads)}
    pieces = tuple(piece._replace(thread=places[piece.thread]) for piece in path)
    links = tuple(
        Link(after.begin_s, before.thread, after.thread)
        for before, after in pairwise(pieces)
        if before.thread != after.thread
    )
    names = tuple(printable(request.threads[thread]) for thread in threads)
    # Who recorded it may have rounded the ends of the path.
    return Lanes(names, pieces, links, max(request.duration_s, *(piece.end_s for piece in path), 0.0))


def heading(request: Request) -> str:
    """What a request is, in a line."""
    asked = f"{request.name} ({request.request})" if request.name else request.request
    on = f" on {request.host}" if request.host else ""
    fraction = f"{request.ts % 1:.3f}"[1:]
    took = readable("duration_s", request.duration_s)
    return printable(f"{asked} of {request.service} at {moment(request.ts)}{fraction}{on}: {took}")


def description(lanes: Lanes) -> str:
    """What is to be seen, for whoever cannot see it."""
    by_state = times_on(lanes)
    told = [
        f"{label(state)} {readable('duration_s', time_s)}"
        for state, time_s in sorted(by_state.items(), key=lambda each: -each[1])
    ]
    way = [lanes.names[0], *(lanes.names[link.target] for link in lanes.links)]
    shown = way if len(way) <= 12 else [*way[:11], "..."]
    of = f"{counted(len(lanes.pieces), 'piece')} on {counted(len(lanes.names), 'thread')}"
    return f"The critical path: {of}, {' then '.join(shown)}. In sum: {', '.join(told)}."


def times_on(lanes: Lanes) -> dict[str, float]:
    """For how long a path is in each state, in seconds."""
    found: dict[str, float] = defaultdict(float)
    for piece in lanes.pieces:
        found[piece.state] += piece.end_s - piece.begin_s
    return dict(found)


def details_on(lanes: Lanes) -> Mapping[str, str]:
    """By state, where a path spends most of the time in it: `openat 12 ms, read 8 ms`."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for piece in lanes.pieces:
        if piece.detail:
            found[piece.state][piece.detail] += piece.end_s - piece.begin_s
    return {state: _longest(times) for state, times in found.items()}


def _longest(times: Mapping[str, float]) -> str:
    ranked = sorted(times.items(), key=lambda each: -each[1])
    more = ", ..." if len(ranked) > DETAILS else ""
    return ", ".join(f"{printable(what)} {readable('duration_s', time_s)}" for what, time_s in ranked[:DETAILS]) + more
