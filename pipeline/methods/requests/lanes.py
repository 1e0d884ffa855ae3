"""A request's critical path for drawing: a lane for each thread, pieces on it, and links between lanes.

S4, figure 2: horizontal edges are states of a thread, vertical ones lead from the waking to the woken thread.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.units import counted, readable
from laggard.pipeline.history.report import moment
from laggard.pipeline.methods.requests.words import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from laggard.pipeline.core.records.requests import Request, Segment

DETAILS: Final = 3
"""The most details of a state that are shown: system calls, or things that it waits for."""


TOTAL: Final = "TT"
"""The sum of all states, not a state itself."""

_OTHERS: Final = ("#5cb877", "#f0a23b", "#6aa5e0", "#b893de", "#ecd24e", "#e0705c")
_ORDER: Final = {state: number for number, state in enumerate(STATES)}


class Link(NamedTuple):
    """A change of the path from one lane to another, in seconds after the request's begin."""

    at_s: float
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """A path for drawing.

    Attributes:
        names: the names of the lanes, from the top: the request's own thread, then the others in the order of the path.
        pieces: the pieces of the path in the order of time; `thread` is the lane.
        links: the changes of lanes in the order of time.
        duration_s: the duration of the whole path.

    """

    names: tuple[str, ...]
    pieces: tuple[Segment, ...]
    links: tuple[Link, ...]
    duration_s: float


def label(state: str) -> str:
    """Return a state in words. Requests from spans have other states, whose names are words."""
    return STATES[state].label if state in STATES else printable(state)


def ordered(states: Iterable[str]) -> list[str]:
    """Return each state once: those of the method first, then others by name."""
    return sorted(set(states) - {TOTAL}, key=lambda each: (_ORDER.get(each, len(_ORDER)), each))


def colors_of(states: Iterable[str]) -> dict[str, str]:
    """Return the color of each state: the states of the method have their own, others get repeating ones in order."""
    found = ordered(states)
    others = [state for state in found if state not in STATES]
    rest = {state: _OTHERS[number % len(_OTHERS)] for number, state in enumerate(others)}
    return {state: STATES[state].color if state in STATES else rest[state] for state in found}


def lanes_of(request: Request) -> Lanes:
    """Return the lanes of a request with a path."""
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
    # The recorder may have rounded the ends of the path.
    return Lanes(names, pieces, links, max(request.duration_s, *(piece.end_s for piece in path), 0.0))


def heading(request: Request) -> str:
    """Return a request in one line: name, id, service, time, host and duration."""
    identity = f"{request.name} ({request.request})" if request.name else request.request
    on = f" on {request.host}" if request.host else ""
    fraction = f"{request.ts % 1:.3f}"[1:]
    took = readable("duration_s", request.duration_s)
    return printable(f"{identity} of {request.service} at {moment(request.ts)}{fraction}{on}: {took}")


def description(lanes: Lanes) -> str:
    """Return the drawing as text, for people who cannot see it."""
    by_state = times_on(lanes)
    durations = [
        f"{label(state)} {readable('duration_s', time_s)}"
        for state, time_s in sorted(by_state.items(), key=lambda each: -each[1])
    ]
    way = [lanes.names[0], *(lanes.names[link.target] for link in lanes.links)]
    shown = way if len(way) <= 12 else [*way[:11], "..."]
    of = f"{counted(len(lanes.pieces), 'piece')} on {counted(len(lanes.names), 'thread')}"
    return f"The critical path: {of}, {' then '.join(shown)}. In sum: {', '.join(durations)}."


def times_on(lanes: Lanes) -> dict[str, float]:
    """Return the seconds of a path in each state."""
    found: dict[str, float] = defaultdict(float)
    for piece in lanes.pieces:
        found[piece.state] += piece.end_s - piece.begin_s
    return dict(found)


def details_on(lanes: Lanes) -> Mapping[str, str]:
    """Return the longest details of a path by state: `openat 12 ms, read 8 ms`."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for piece in lanes.pieces:
        if piece.detail:
            found[piece.state][piece.detail] += piece.end_s - piece.begin_s
    return {state: _longest(times) for state, times in found.items()}


def _longest(times: Mapping[str, float]) -> str:
    ranked = sorted(times.items(), key=lambda each: -each[1])
    more = ", ..." if len(ranked) > DETAILS else ""
    return ", ".join(f"{printable(what)} {readable('duration_s', time_s)}" for what, time_s in ranked[:DETAILS]) + more
