"""The time of a request, as its own thread saw it, and along its critical path.

The critical path is the chain of work that had to happen one after the other. It is found backward from the request's
end. Each wait that a task ended is replaced by the work of that task meanwhile, bounded to the time of the wait. Its
own waits are replaced in the same way. This is the active path of the reference, section 4.

Cases that it leaves open are decided so that all time is counted exactly once. A wait with an unexplained end stays
what it is. A thread that was forked during the wait is preceded by its parent. The unknown time of a waker is `UN`. The
pieces of both have no gaps and overlaps, so that their sum is exactly the request's time.

Reference: Giraldeau, Dagenais (2016), "Wait analysis of distributed systems using kernel tracing", IEEE Transactions on
Parallel and Distributed Systems 27(8).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.calls import Does, does
from laggard.producers.trace.machine import BLOCKED
from laggard.producers.trace.states import BF, BI, BS, RS, RU, RUNNING, UN
from laggard.producers.trace.threads import FOREVER, NO_CALL

if TYPE_CHECKING:
    from laggard.producers.trace.events import Texts
    from laggard.producers.trace.threads import Call, Processor, Segment, Thread

MAX_DEPTH: Final = 256
"""The most waits that are explained at once. Real chains are short; the limit bounds damaged traces."""

_ETIMEDOUT: Final = -110
_SAME_FUTEX_BYTES: Final = 64
_RETRY_NS: Final = 1_000_000


Span = tuple["Thread", int, int, int, "Processor | None", "Thread | None", int, str]
"""A piece of a thread's time by scheduling alone: thread; start; end; state, or `RUNNING`; the CPU that it had or
waited for. Then, for the wakeup: the waker; the time of its cause; its device, interrupt or timer."""

Piece = tuple["Thread", int, int, int, "Call | None", "Processor | None", "Thread | None", str]
"""A piece of a thread's time in one state: thread; start; end; number of the state; its system call, if any, except in
interrupts. Then the CPU that it had or waited for; the waker; the device, interrupt or timer of the wakeup, or the
interrupt that used the CPU. An open call ends at `FOREVER`."""


class Timelines:
    """Reads the timelines of threads.

    Args:
        texts: the texts of the trace.

    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._row: tuple[Thread | None, int, int, Thread | None, int] = (None, 0, 0, None, 0)
        """The newest row of waits that timed out: thread, start, end, waker, and the number of waits."""

    def local(self, thread: Thread, begin: int, end: int) -> list[Piece]:
        """Return the pieces of a thread's time between two points, in their order and without gaps."""
        return self._local(thread, begin, end, {})

    def critical(self, thread: Thread, begin: int, end: int) -> list[Piece]:
        """Return the critical path between two points of a thread's time: pieces in their order, without gaps."""
        return self.both(thread, begin, end)[1]

    def both(self, thread: Thread, begin: int, end: int) -> tuple[list[Piece], list[Piece]]:
        """Return `local` and `critical`, faster than one by one: much of a path is often its own thread's."""
        places: dict[int, int] = {}
        local = self._local(thread, begin, end, places)
        places[end] = len(local)
        if all(piece[6] is None for piece in local):
            return local, local
        pieces: list[Piece] = []
        for span in self._walk(thread, begin, end):
            place = places.get(span[1]) if span[0] is thread else None
            until = places.get(span[2])
            if place is None or until is None:
                self._split(pieces, span)
            else:
                pieces += local[place:until]
        _check(pieces, begin, end)
        return local, pieces

    def _local(self, thread: Thread, begin: int, end: int, places: dict[int, int]) -> list[Piece]:
        """Return the pieces of `local`, and note the place of the first piece of each span by the span's start."""
        pieces: list[Piece] = []
        segments = thread.segments
        at = begin
        if at < thread.first:
            at = min(thread.first, end)
            pieces.append((thread, begin, at, UN, None, None, None, ""))
        place = bisect_right(segments, (at, FOREVER))
        while at < end:
            if place < len(segments):
                until, state, cpu, waker, woken, what = segments[place]
                place += 1
            else:
                until, state, cpu, waker, woken, what = _still(thread, end)
            if until > at:
                until = min(until, end)
                places[at] = len(pieces)
                self._split(pieces, (thread, at, until, state, cpu, waker, woken, what))
                at = until
        _check(pieces, begin, end)
        return pieces

    def _walk(self, thread: Thread, begin: int, end: int) -> list[Span]:
        """Return the spans of the critical path in their order; they are found backward."""
        spans: list[Span] = []
        waiting: list[tuple[Thread, int]] = []
        lower, cursor = begin, end
        while True:
            while cursor <= lower and waiting:
                thread, lower = waiting.pop()
            if cursor <= lower:
                break
            parent = thread.parent if cursor <= thread.born else None
            if parent is not None and all(each is not parent for each, _ in waiting):
                # Before its birth, the work was its parent's.
                thread = parent
                continue
            span = self._before(thread, cursor, lower)
            _, since, _, _, cpu, waker, at, what = span
            if waker is not None and self._explains(span, waiting):
                if at < cursor:
                    spans.append((thread, at, cursor, span[3], cpu, waker, at, what))
                waiting.append((thread, lower))
                thread, lower, cursor = waker, since, at
                continue
            spans.append(span)
            cursor = since
        spans.reverse()
        return spans

    def _before(self, thread: Thread, cursor: int, lower: int) -> Span:
        """Return the span of a thread just before a point of time, back to its start or to a bound."""
        segments = thread.segments
        if cursor <= thread.first:
            return (thread, lower, cursor, UN, None, None, 0, "")
        place = bisect_left(segments, (cursor,))
        if place < len(segments):
            segment = segments[place]
            begin = segments[place - 1][0] if place else thread.first
        else:
            segment = _still(thread, cursor)
            begin = thread.since
        until, state, cpu, waker, at, what = segment
        if until > cursor:
            # It continued: a later event cannot be the cause.
            waker = None
        elif state == BS:
            state, waker, at = self._retried(thread, until) or (state, waker, at)
        return (thread, max(begin, lower), cursor, state, cpu, waker, at, what)

    def _explains(self, span: Span, waiting: list[tuple[Thread, int]]) -> bool:
        """Return whether the work of the waker can replace the wait."""
        thread, begin, end, _, _, waker, at, _ = span
        if waker is None or waker is thread or not begin < at <= end or len(waiting) >= MAX_DEPTH:
            return False
        if any(each is waker for each, _ in waiting):
            return False
        # The waker must have been at work at the wakeup: its own wait that ends later did not end this one.
        place = bisect_left(waker.segments, (at + 1,))
        if place and waker.segments[place - 1][0] == at:
            return True
        state = waker.segments[place][1] if place < len(waker.segments) else waker.state
        return state in {RUNNING, UN}

    def _split(self, pieces: list[Piece], span: Span) -> None:
        """Add a span, as one piece for each system call and each interrupt in it."""
        thread, begin, end, state, cpu, waker, _, what = span
        calls = thread.calls
        place = bisect_right(calls, (begin, FOREVER))
        if state != RUNNING:
            if state == BS and waker is None:
                state, waker, _ = self._retried(thread, end) or (BS, None, end)
            call = calls[place] if place < len(calls) else _open_call(thread)
            if call is not None and call[1] >= end:
                call = None
            pieces.append((thread, begin, end, UN if state == BLOCKED else state, call, cpu, waker, what))
            return
        user = RS if thread.kernel else RU
        rows: list[Piece] = []
        at = begin
        while at < end:
            call = calls[place] if place < len(calls) else _open_call(thread)
            if call is None or call[1] >= end:
                rows.append((thread, at, end, user, None, cpu, None, ""))
                break
            since, until = call[1], min(call[0], end)
            if since > at:
                rows.append((thread, at, since, user, None, cpu, None, ""))
                at = since
            if until > at:
                rows.append((thread, at, until, RS, call, cpu, None, ""))
                at = until
            place += 1
        interrupts = cpu.interrupts if cpu is not None else []
        number = bisect_right(interrupts, (begin, FOREVER))
        if number < len(interrupts) and interrupts[number][1] < end:
            for row in rows:
                _interrupted(pieces, row)
        else:
            pieces += rows

    def _retried(self, thread: Thread, until: int) -> tuple[int, Thread | None, int] | None:
        """Return the state, waker and time of a futex wait that timed out and was repeated at once: one wait in parts.

        An example is a thread that waits for an interpreter's lock, some milliseconds at a time. If all parts timed
        out, the waker is unknown.
        """
        calls = thread.calls
        place = bisect_left(calls, (until,))
        if place == len(calls) or calls[place][3] != _ETIMEDOUT or not does(self._texts[calls[place][2]]) & Does.FUTEX:
            return None
        of, begin, end, waker, parts = self._row
        if of is not thread or not begin <= calls[place][1] <= end:
            waker, parts = self._handed_over(thread, place)
        return (BF, waker, until) if waker is not None or parts > 1 else None

    def _handed_over(self, thread: Thread, place: int) -> tuple[Thread | None, int]:
        """Return the waker of the last of consecutive waits from a system call on, and how many of them timed out."""
        first = before = thread.calls[place]
        of, begin, end, known, timed_out = self._row
        waker, parts = None, 1
        for number in range(place + 1, len(thread.calls)):
            call = thread.calls[number]
            if of is thread and begin <= call[1] <= end:  # known from there on
                waker, parts, before = known, max(timed_out, 2), (end, *before[1:])
                break
            alike = call[2] == first[2] and abs(call[6] - first[6]) < _SAME_FUTEX_BYTES
            if not alike or call[1] - before[0] > _RETRY_NS:
                break
            before = call
            # In between it may wake others at the same futex, which costs no time.
            if call[3] == _ETIMEDOUT:
                parts += 1
                continue
            waker = _woken_in(thread, call)
            if waker is not None:
                break
        else:
            return None, parts  # More may come.
        self._row = (thread, first[1], before[0], waker, parts)
        return waker, parts


def _woken_in(thread: Thread, call: Call) -> Thread | None:
    """Return the waker of a wait in a system call, if it waited."""
    for number in range(bisect_right(thread.segments, (call[1], FOREVER)), len(thread.segments)):
        ended, _, _, waker, _, _ = thread.segments[number]
        if ended > call[0]:
            break
        if waker is not None:
            return waker
    return None


def _interrupted(pieces: list[Piece], piece: Piece) -> None:
    """Add a piece in which a thread ran, without the time of interrupts."""
    thread, at, end, state, call, cpu, _, _ = piece
    interrupts = cpu.interrupts if cpu is not None else []
    for number in range(bisect_right(interrupts, (at, FOREVER)), len(interrupts)):
        over, since, name = interrupts[number]
        if since >= end:
            break
        if since > at:
            pieces.append((thread, at, since, state, call, cpu, None, ""))
            at = since
        over = min(over, end)
        if over > at:  # where events are missing, one may lie inside of the one before
            pieces.append((thread, at, over, BI, None, cpu, None, name))
            at = over
    if at < end:
        pieces.append((thread, at, end, state, call, cpu, None, ""))


def _still(thread: Thread, until: int) -> Segment:
    """Return the present segment of a thread."""
    return (until, thread.state, thread.cpu if thread.state == RUNNING else None, None, until, "")


def _open_call(thread: Thread) -> Call | None:
    """Return the system call that a thread has not returned from."""
    if thread.entered == NO_CALL:
        return None
    return (FOREVER, thread.entered, thread.call, 0, thread.on, thread.holder, thread.argument)


def _check(pieces: list[Piece], begin: int, end: int) -> None:
    """Check that pieces cover a time exactly, which all other code relies on.

    Raises:
        AssertionError: the pieces leave a gap, overlap or do not reach from start to end.

    """
    at = begin
    for piece in pieces:
        if piece[1] != at or piece[2] <= at:
            raise AssertionError(f"expected a piece from {at} on, got {piece}")
        at = piece[2]
    if at != end:
        raise AssertionError(f"expected pieces up to {end}, got up to {at}")
