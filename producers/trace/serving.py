"""The requests that are being served: their starts and ends, their nesting, and those that a thread mixes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.events import Kind
from laggard.producers.trace.threads import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.producers.trace.events import Row, Texts
    from laggard.producers.trace.listening import Accepted
    from laggard.producers.trace.machine import Machine
    from laggard.producers.trace.threads import Thread

EVENT_LOOP: Final = "event loop"
STILL_OPEN: Final = "still open"
LOST_EVENTS: Final = "lost events"
TOO_LONG: Final = "too long"
THREAD_ENDED: Final = "its thread ended"
NO_TIME: Final = "no time passed"


@dataclass(slots=True, eq=False)
class Serving:
    """A request that has begun.

    Attributes:
        machine: its machine.
        thread: the thread on which it began.
        id: its number among those that are open on the thread.
        begin: its start in nanoseconds of the trace's clock: since when it could have been served.
        since: the time since which its thread serves it.
        boundary: the time at which the server reported its start.
        accepted: its connection; None for a further request of a connection, and for an unknown one.
        text: the service and the name, with a tab between.
        depth: the number of open requests with the same id inside of it.
        mixed: whether another one overlaps it on its thread, neither inside of the other.
        given_up: whether it has been discarded, and only its end is awaited.

    """

    machine: Machine
    thread: Thread
    id: int
    begin: int
    since: int
    boundary: int
    accepted: Accepted | None
    text: str
    depth: int = 0
    mixed: bool = False
    given_up: bool = False


@dataclass(slots=True)
class Board:
    """All requests that are being served, on all machines.

    Attributes:
        ended: called with an ended request and the time of its end in nanoseconds; not for those inside of another one.
        open: the open requests, the oldest first.
        discarded: the number of discarded requests, by reason.
        strays: the number of ends without a start, for example of requests that began before the trace.

    """

    ended: Callable[[Serving, int], None]
    open: dict[Serving, None] = field(default_factory=dict)
    discarded: Counter[str] = field(default_factory=Counter)
    strays: int = 0

    def handlers(self, machine: Machine, texts: Texts) -> dict[int, Callable[[Row], None]]:
        """Return the handlers of a machine's events, by their kind."""

        def begin(row: Row) -> None:
            ts, cpu, _, tid, number, _, _, text = row
            if tid > 0:
                self._begin(machine, machine.running(tid, ts, cpu), ts, number, texts[text])

        def end(row: Row) -> None:
            ts, cpu, _, tid, number, _, _, _ = row
            if tid > 0:
                self._end(machine.running(tid, ts, cpu), ts, number)

        def gone(row: Row) -> None:
            thread = machine.threads.get(row[3])
            machine.tasks.exit(row)
            if thread is not None and thread.open:
                self._abandon(thread)

        return {Kind.BEGIN: begin, Kind.END: end, Kind.EXIT: gone}

    def _begin(self, machine: Machine, thread: Thread, ts: int, number: int, text: str) -> None:
        for one in thread.open:
            if one.id == number and not one.given_up:
                one.depth += 1
                return
        thread.open = [one for one in thread.open if one.id != number]
        accepted = None if thread.open else machine.listening.begun(thread, ts)
        begin, since = (ts, ts) if accepted is None else (accepted.queued, accepted.since)
        one = Serving(machine, thread, number, begin, since, ts, accepted, text)
        thread.open.append(one)
        self.open[one] = None

    def _end(self, thread: Thread, ts: int, number: int) -> None:
        one = next((one for one in thread.open if one.id == number), None)
        if one is None:
            self.strays += 1
            return
        if one.depth:
            one.depth -= 1
            return
        if one.given_up:
            thread.open.remove(one)
            return
        served = [each for each in thread.open if not each.given_up]
        place = served.index(one)
        others = served[place + 1 :]
        if others:
            # They began later and are still open: neither is inside of the other.
            thread.process.event_loop = True
        if others or (thread.process.event_loop and len(served) > 1):
            for each in served:
                each.mixed = True
        thread.open.remove(one)
        del self.open[one]
        if one.mixed:
            self.discarded[EVENT_LOOP] += 1
        elif ts <= one.boundary:
            self.discarded[NO_TIME] += 1
        elif place == 0:
            self.ended(one, ts)

    def _abandon(self, thread: Thread) -> None:
        for one in list(thread.open):
            if not one.given_up:
                self.discard(one, THREAD_ENDED)

    def discard(self, one: Serving, reason: str) -> None:
        """Discard a request; its end, when it comes, is then expected."""
        del self.open[one]
        one.given_up = True
        self.discarded[reason] += 1

    def oldest(self) -> int:
        """Return the time since which data is needed for the open requests; `FOREVER` without one."""
        return min((one.since for one in self.open), default=FOREVER)

    def discard_oldest(self, reason: str) -> None:
        """Discard the request of `oldest`."""
        self.discard(min(self.open, key=attrgetter("since")), reason)
