"""Where the time of a request went: as its own thread saw it, and along its critical path.

The critical path is the chain of what had to happen one after the other. Backward from the request's end, each wait
that a task ended is replaced by what that task did meanwhile, whose own waits are replaced likewise (bounded to the
time of the wait): the active path of F. Giraldeau and M. Dagenais, Wait Analysis of Distributed Systems Using Kernel
Tracing, IEEE Transactions on Parallel and Distributed Systems 27(8), 2016, section 4.

What they leave open is decided so that nothing is counted twice and all is counted: a wait whose end nobody explains
stays what it is; a thread that was forked during the wait is preceded by the one that forked it; what is not known of a
waker is `UN`. The pieces of either are without gaps and overlaps, so that their sum is the request's time exactly.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.producers.trace.calls import Does, does
from laggard.producers.trace.machine import BLOCKED
from laggard.producers.trace.states import BF, BI, BS, RS, RU, RUNNING, UN
from laggard.producers.trace.threads import FOREVER, NO_CALL

if TYPE_CHECKING:
    from laggard.producers.trace.events import Texts
    from laggard.producers.trace.threads import Call, Processor, Segment, Thread

MAX_DEPTH: Final = 256
"""Waits that are being explained at once. Real chains are short; damaged traces are not followed for ever."""

_ETIMEDOUT: Final = -110
_SAME_FUTEX_BYTES: Final = 64
_RETRY_NS: Final = 1_000_000


class Span(NamedTuple):
    """A piece of a thread's time, as far as scheduling tells."""

    thread: Thread
    begin: int
    end: int
    state: int
    cpu: Processor | None
    waker: Thread | None
    at: int
    what: str


class Piece(NamedTuple):
    """A piece of a thread's time in one state.

    Attributes:
        thread: whose.
        begin: in nanoseconds of the trace's clock.
        end: likewise.
        state: a state's number.
        call: the system call that the thread was in, if any; what is still in it ends at `FOREVER`.
        cpu: which it had, or waited for.
        waker: who ended the wait.
        what: the device, interrupt or timer that did.

    """

    thread: Thread
    begin: int
    end: int
    state: int
    call: Call | None
    cpu: Processor | None
    waker: Thread | None
    what: str


class Timelines:
    """Reads threads' timelines.

    Args:
        texts: of the trace.

    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    def local(self, thread: Thread, begin: int, end: int) -> list[Piece]:
        """What a thread did between two points of time: pieces in their order, without gaps."""
        pieces: list[Piece] = []
        segments = thread.segments
        at = begin
        if at < thread.first:
            at = min(thread.first, end)
            pieces.append(Piece(thread, begin, at, UN, None, None, None, ""))
        place = bisect_right(segments, (at, FOREVER))
        while at < end:
            if place < len(segments):
                until, state, cpu, waker, woken, what = segments[place]
                place += 1
            else:
                until, state, cpu, waker, woken, what = _still(thread, end)
            if until > at:
                self._split(pieces, Span(thread, at, min(until, end), state, cpu, waker, woken, what))
                at = min(until, end)
        _check(pieces, begin, end)
        return pieces

    def critical(self, thread: Thread, begin: int, end: int) -> list[Piece]:
        """The critical path between two points of time of a thread: pieces in their order, without gaps."""
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
                # Before its birth it was its parent's work that had to be done.
                thread = parent
                continue
            span = self._before(thread, cursor, lower)
            waker = span.waker
            if waker is not None and self._explains(span, cursor, waiting):
                if span.at < cursor:
                    spans.append(span._replace(begin=span.at, end=cursor))
                waiting.append((thread, lower))
                thread, lower, cursor = waker, span.begin, span.at
                continue
            spans.append(span)
            cursor = span.begin
        pieces: list[Piece] = []
        for span in reversed(spans):
            self._split(pieces, span)
        _check(pieces, begin, end)
        return pieces

    def _before(self, thread: Thread, cursor: int, lower: int) -> Span:
        """What a thread did just before a point of time, back to when it began or to a bound."""
        segments = thread.segments
        if cursor <= thread.first:
            return Span(thread, lower, cursor, UN, None, None, 0, "")
        place = bisect_left(segments, (cursor,))
        if place < len(segments):
            segment = segments[place]
            begin = segments[place - 1][0] if place else thread.first
        else:
            segment = _still(thread, cursor)
            begin = thread.since
        until, state, cpu, waker, at, what = segment
        begin = max(begin, lower)
        if until > cursor:
            # It went on: nothing that ended later can be why.
            waker = None
        elif state == BS:
            state, waker, at = self._retried(thread, until) or (state, waker, at)
        return Span(thread, begin, cursor, state, cpu, waker, at, what)

    def _explains(self, span: Span, cursor: int, waiting: list[tuple[Thread, int]]) -> bool:
        """Whether what the waker did can stand for the wait."""
        waker, at = span.waker, span.at
        if waker is None or not span.begin < at <= cursor or len(waiting) >= MAX_DEPTH:
            return False
        if waker is span.thread or any(each is waker for each, _ in waiting):
            return False
        # It must have been at work when it woke: a wait of its own that ends later is no cause of this one's end.
        place = bisect_left(waker.segments, (at + 1,))
        if place and waker.segments[place - 1][0] == at:
            return True
        state = waker.segments[place][1] if place < len(waker.segments) else waker.state
        return state in {RUNNING, UN}

    def _split(self, pieces: list[Piece], span: Span) -> None:
        """Adds a span, as one piece for each system call and each interrupt in it."""
        thread, begin, end, state, cpu, waker, _, what = span
        calls = thread.calls
        place = bisect_right(calls, (begin, FOREVER))
        if state != RUNNING:
            if state == BS and waker is None:
                state, waker, _ = self._retried(thread, end) or (BS, None, end)
            call = calls[place] if place < len(calls) else _open_call(thread)
            if call is not None and call[1] >= end:
                call = None
            pieces.append(Piece(thread, begin, end, UN if state == BLOCKED else state, call, cpu, waker, what))
            return
        user = RS if thread.kernel else RU
        at = begin
        while at < end:
            call = calls[place] if place < len(calls) else _open_call(thread)
            if call is None or call[1] >= end:
                until, now, call = end, user, None
            elif call[1] > at:
                until, now, call = call[1], user, None
            else:
                until, now = min(call[0], end), RS
                place += 1
            _interrupted(pieces, Piece(thread, at, until, now, call, cpu, None, ""))
            at = until

    def _retried(self, thread: Thread, until: int) -> tuple[int, Thread, int] | None:
        """Who ended a wait at a futex that timed out and was taken up again at once: it is one wait in parts.

        As where a thread waits for an interpreter's lock, some milliseconds at a time.
        """
        calls = thread.calls
        place = bisect_left(calls, (until,))
        if place == len(calls) or calls[place][3] != _ETIMEDOUT or not does(self._texts[calls[place][2]]) & Does.FUTEX:
            return None
        before = calls[place]
        while before[3] == _ETIMEDOUT:
            place += 1
            call = calls[place] if place < len(calls) else None
            if (
                call is None
                or call[2] != before[2]
                or call[1] - before[0] > _RETRY_NS
                or abs(call[6] - before[6]) >= _SAME_FUTEX_BYTES
            ):
                return None
            before = call
        for number in range(bisect_right(thread.segments, (before[1], FOREVER)), len(thread.segments)):
            ended, _, _, waker, _, _ = thread.segments[number]
            if ended > before[0]:
                break
            if waker is not None:
                return BF, waker, until
        return None


def _interrupted(pieces: list[Piece], piece: Piece) -> None:
    """Adds a piece in which a thread ran, without what interrupts took of it."""
    thread, at, end, _, _, cpu, _, _ = piece
    interrupts = cpu.interrupts if cpu is not None else []
    for number in range(bisect_right(interrupts, (at, FOREVER)), len(interrupts)):
        over, since, name = interrupts[number]
        if since >= end:
            break
        if since > at:
            pieces.append(piece._replace(begin=at, end=since))
            at = since
        over = min(over, end)
        pieces.append(Piece(thread, at, over, BI, None, cpu, None, name))
        at = over
    if at < end:
        pieces.append(piece if at == piece.begin else piece._replace(begin=at))


def _still(thread: Thread, until: int) -> Segment:
    """What a thread is at, as far as it has come."""
    return (until, thread.state, thread.cpu if thread.state == RUNNING else None, None, until, "")


def _open_call(thread: Thread) -> Call | None:
    """The system call that a thread has not come back from."""
    if thread.entered == NO_CALL:
        return None
    return (FOREVER, thread.entered, thread.call, 0, thread.on, thread.holder, thread.argument)


def _check(pieces: list[Piece], begin: int, end: int) -> None:
    """The promise that all else rests on.

    Raises:
        AssertionError: the pieces leave a gap, overlap or do not reach from begin to end.

    """
    at = begin
    for piece in pieces:
        if piece.begin != at or piece.end <= at:
            raise AssertionError(f"expected a piece from {at} on, got {piece}")
        at = piece.end
    if at != end:
        raise AssertionError(f"expected pieces up to {end}, got up to {at}")
