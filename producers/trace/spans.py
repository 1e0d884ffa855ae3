"""Requests from OpenTelemetry spans, without a trace of the kernel.

Each span of kind SERVER or CONSUMER that came to a service from elsewhere is a request, and so is the root of a trace.
Its time is divided among states by the kinds of the spans that it waited for. They are coarser than the kernel's:

| state | meaning | possible states of the kernel |
|---|---|---|
| `self` | in the service's own code, outside of any call | RU, RS, BP, BF, BD, BT |
| `client` | waiting for the answer of another service, a database, a cache | BN |
| `producer` | handing over a message | BN, RS |
| `server` | in another service's own code; in `critical_s` only | RU, RS, ... of that service |

The path through a request is found backward from its end. It follows the span that ended last, then the last of those
that had ended when that one began, and so on inside each of them. Parallel spans are not on the path, so the times sum
to the duration. The same method: Jaeger's user interface, and Zhang et al., *CRISP: Critical path analysis of
large-scale microservice architectures* (USENIX ATC 2022).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.records import Request, Segment, Spent
from laggard.pipeline.core.records.limits import MAX_KEY, MAX_NAME, MAX_SEGMENTS, MAX_SYSCALLS, MAX_TS
from laggard.pipeline.core.records.requests import bounded
from laggard.producers.trace.otlp import spans_in
from laggard.producers.trace.otlp_span import Span, SpanKind
from laggard.producers.trace.problems import Problems
from laggard.producers.trace.span_names import ENTRIES, asked, operation, target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

SELF: Final = "self"
CLIENT: Final = "client"
PRODUCER: Final = "producer"
SERVER: Final = "server"

MAX_SPANS: Final = 200_000
"""The most spans that wait for the rest of their traces. Beyond, the longest idle trace is analyzed."""

PATIENCE_S: Final = 60.0
"""A trace without a new span for this time, in seconds by the ends of spans, is complete."""

MAX_DONE: Final = 200_000
"""The most traces that are remembered as done, to recognize late spans."""

_LONGEST_ID: Final = 64
_LATEST_NS: Final = int(MAX_TS * 1e9)
_CALLS: Final = {SpanKind.CLIENT: CLIENT, SpanKind.PRODUCER: PRODUCER}


class Piece(NamedTuple):
    """A part of a request's time, and the span that used it."""

    begin_ns: int
    end_ns: int
    span: Span


class Spans:
    """The requests of a file of spans, in the order in which their traces are complete.

    Parameters:
        path: a file of OTLP.
        patience_s: the time without new spans after which a trace is complete, in seconds.
        most: the most waiting spans.

    Attributes:
        warnings: the problems of its parts, in words; complete after it was read to its end.

    """

    def __init__(self, path: str | Path, *, patience_s: float = PATIENCE_S, most: int = MAX_SPANS) -> None:
        self._path = Path(path)
        self._patience_ns = round(patience_s * 1e9)
        self._most = most
        self._told = Problems()

    @property
    def warnings(self) -> Sequence[str]:
        """The problems of its parts."""
        return self._told.warnings

    def __iter__(self) -> Iterator[Request]:
        """Yield all requests; once.

        Raises:
            TraceError: the file is unreadable or not OTLP.

        """
        waiting: OrderedDict[str, tuple[int, list[Span]]] = OrderedDict()
        done: set[str] = set()
        order: deque[str] = deque()
        size = newest = 0
        for span in spans_in(self._path, self._told):
            if not 0 < span.begin_ns <= span.end_ns <= _LATEST_NS or not span.trace:
                self._told.count("a span has impossible times: skipped", self._path)
                continue
            if span.trace in done:
                self._told.count("a span arrived after its trace was complete: skipped", self._path)
                continue
            newest = max(newest, span.end_ns)
            last, spans = waiting.get(span.trace, (0, []))
            spans.append(span)
            waiting[span.trace] = max(last, span.end_ns), spans
            waiting.move_to_end(span.trace)
            size += 1
            while waiting:
                trace, (last, spans) = next(iter(waiting.items()))
                if size > self._most:
                    self._told.count(f"more than {self._most:,} spans wait: a trace is closed early", self._path)
                elif last >= newest - self._patience_ns:
                    break
                del waiting[trace]
                size -= len(spans)
                done.add(trace)
                order.append(trace)
                if len(order) > MAX_DONE:
                    done.discard(order.popleft())
                yield from self._requests(spans)
        for _, spans in waiting.values():
            yield from self._requests(spans)

    def _requests(self, spans: Sequence[Span]) -> Iterator[Request]:
        known: dict[str, Span] = {}
        for span in spans:
            if span.span in known:
                self._told.count("two spans have the same id: the second is skipped", self._path)
            else:
                known[span.span] = span
        cut = in_circles(known)
        if cut:
            self._told.count("spans are parents of each other: the cycle is cut", self._path, len(cut))
        entries, orphans = [], set()
        for span in known.values():
            parent = None if span.span in cut else known.get(span.parent)
            if parent is not None:
                parent.children.append(span)
            elif span.parent:
                orphans.add(span.span)
            if is_entry(span, parent):
                entries.append(span)
        if not entries:
            self._told.count("a trace has no root and no request to a service: skipped", self._path)
        for span in sorted(entries, key=lambda each: each.begin_ns):
            if span.end_ns == span.begin_ns:
                self._told.count("a request has no duration: skipped", self._path)
            else:
                yield request_of(span, orphan=span.span in orphans)


def read_spans(path: str | Path) -> Spans:
    """Return the requests in a file of OTLP spans; read it once, then see its `warnings`."""
    return Spans(path)


def in_circles(known: Mapping[str, Span]) -> set[str]:
    """Return one span of each circle of spans that are parts of each other."""
    cut: set[str] = set()
    done: set[str] = set()
    for span in known.values():
        chain: dict[str, Span] = {}
        at: Span | None = span
        while at is not None and at.span not in done and at.span not in chain:
            chain[at.span] = at
            at = known.get(at.parent)
        if at is not None and at.span in chain:
            members = list(chain.values())
            circle = members[members.index(at) :]
            # Preferably where a request came to a service.
            cut.add(next((each for each in circle if each.kind in ENTRIES), at).span)
        done.update(chain)
    return cut


def is_entry(span: Span, parent: Span | None) -> bool:
    """Return whether a request to a service begins with a span."""
    if span.kind not in ENTRIES:
        return not span.parent
    return parent is None or parent.service != span.service or parent.kind in _CALLS


def request_of(entry: Span, *, orphan: bool = False) -> Request:
    """Return the request that begins with a span, whose `children` are known."""
    local = pieces_of(entry, lambda parent, child: child.service == entry.service and _is_own(parent, child))
    critical = pieces_of(entry, lambda *_: True)
    notes = []
    if orphan:
        notes.append("its caller was not recorded")
    threads, path = _path(critical, entry)
    return Request(
        service=entry.service[:MAX_KEY],
        ts=entry.begin_ns / 1e9,
        request=f"{entry.trace[:_LONGEST_ID]}-{entry.span[:_LONGEST_ID]}",
        duration_s=(entry.end_ns - entry.begin_ns) / 1e9,
        counts=_counts(local, entry),
        times_s=_times(local, entry),
        syscalls=tuple(_operations(entry)),
        host=entry.host[:MAX_KEY],
        name=asked(entry)[:MAX_NAME],
        critical_s=_times(critical, entry),
        spent=_spent(local, entry),
        threads=threads,
        path=path,
        notes=tuple(notes),
    )


def _is_own(parent: Span, child: Span) -> bool:
    """Return whether a service's span in another one adds detail: within a call only the call below it does."""
    return child.kind not in ENTRIES and (parent.kind not in _CALLS or child.kind in _CALLS)


def pieces_of(entry: Span, followed: Callable[[Span, Span], bool]) -> list[Piece]:
    """Return a span's time without gaps, in the order of time, each piece with the span that was waited for.

    Args:
        entry: the outermost span.
        followed: returns whether to follow a span inside another one.

    """
    pieces = []
    stack = [(entry, entry.begin_ns, entry.end_ns, 0)]
    while stack:
        span, begin, cursor, ahead = stack.pop()
        within = []
        for child in span.children:
            if followed(span, child):
                moved = ahead + _skew(span, child)
                within.append((min(child.end_ns + moved, cursor), max(child.begin_ns + moved, begin), moved, child))
        within.sort(key=lambda each: (-each[0], each[1], each[3].span))
        for end, start, moved, child in within:
            if start < end <= cursor:
                if end < cursor:
                    pieces.append(Piece(end, cursor, span))
                stack.append((child, start, end, moved))
                cursor = start
        if begin < cursor:
            pieces.append(Piece(begin, cursor, span))
    return sorted(pieces, key=lambda piece: piece.begin_ns)


def _skew(parent: Span, child: Span) -> int:
    """Return the offset for the times of a span from another host, and of all below it.

    A server's span lies within its client's. Otherwise the hosts' clocks differ, and it is moved to the middle, as
    Jaeger does.
    """
    if parent.host == child.host or parent.kind is not SpanKind.CLIENT or child.kind is not SpanKind.SERVER:
        return 0
    if parent.begin_ns <= child.begin_ns and child.end_ns <= parent.end_ns:
        return 0
    spare = (parent.end_ns - parent.begin_ns) - (child.end_ns - child.begin_ns)
    return parent.begin_ns + spare // 2 - child.begin_ns if spare >= 0 else 0


def state_of(span: Span, entry: Span) -> str:
    """Return the state of a request while it waits only for this span."""
    return _CALLS.get(span.kind) or (SELF if span.service == entry.service else SERVER)


def _times(pieces: Iterable[Piece], entry: Span) -> dict[str, float]:
    sums: dict[str, int] = {}
    for begin, end, span in pieces:
        state = state_of(span, entry)
        sums[state] = sums.get(state, 0) + end - begin
    return {state: ns / 1e9 for state, ns in sorted(sums.items())}


def _counts(pieces: Iterable[Piece], entry: Span) -> dict[str, float]:
    """Return how often each state was entered; each call counts separately."""
    counts: dict[str, float] = {}
    before: tuple[str, Span | None] = "", None
    for piece in pieces:
        state = state_of(piece.span, entry)
        now = state, piece.span if state in (CLIENT, PRODUCER) else None
        if now != before:
            counts[state] = counts.get(state, 0.0) + 1.0
        before = now
    return counts


def _operations(entry: Span) -> list[str]:
    """Return the operations of the service in the request, in the order of their start, including parallel ones."""
    found = []
    stack = [entry]
    while stack:
        span = stack.pop()
        for child in span.children:
            if child.service == entry.service and _is_own(span, child):
                found.append(child)
                stack.append(child)
    found.sort(key=lambda span: (span.begin_ns, span.span))
    return [operation(span) for span in found[:MAX_SYSCALLS]]


def _spent(pieces: Iterable[Piece], entry: Span) -> tuple[Spent, ...]:
    sums: dict[tuple[str, str, str, str, str], int] = {}
    which: dict[tuple[str, str, str, str, str], set[str]] = {}
    for begin, end, span in pieces:
        state = state_of(span, entry)
        inner = "" if span is entry else operation(span)
        key = state, inner, target(span) if state != SELF else "", _peer(span), span.error if span is not entry else ""
        sums[key] = sums.get(key, 0) + end - begin
        which.setdefault(key, set()).add(span.span)
    return bounded(
        Spent(state, inner, on, by, 0, result, len(which[state, inner, on, by, result]), ns / 1e9)
        for (state, inner, on, by, result), ns in sums.items()
    )


def _peer(span: Span) -> str:
    """Return the service that answers a call, if known."""
    if span.kind not in _CALLS:
        return ""
    for child in span.children:
        if child.kind in ENTRIES:
            return child.service[:MAX_NAME]
    return span.attributes.get("peer.service", "")[:MAX_NAME]


def _path(pieces: Sequence[Piece], entry: Span) -> tuple[tuple[str, ...], tuple[Segment, ...]]:
    """Return the services on the path, and its pieces; of too many, consecutive short ones are merged."""
    lengths = sorted((end - begin for begin, end, _ in pieces), reverse=True)
    shortest = 0 if len(pieces) <= MAX_SEGMENTS else lengths[MAX_SEGMENTS // 2 - 1] + 1
    joined: list[list[Piece]] = []
    for piece in pieces:
        short = piece.end_ns - piece.begin_ns < shortest
        if short and joined and joined[-1][0].end_ns - joined[-1][0].begin_ns < shortest:
            joined[-1].append(piece)
        else:
            joined.append([piece])
    places: dict[str, int] = {_called(entry, entry): 0}
    segments = []
    for row in joined:
        longest = max(row, key=lambda piece: piece.end_ns - piece.begin_ns).span
        segments.append(
            Segment(
                places.setdefault(_called(longest, entry), len(places)),
                (row[0].begin_ns - entry.begin_ns) / 1e9,
                (row[-1].end_ns - entry.begin_ns) / 1e9,
                state_of(longest, entry),
                "" if longest is entry else operation(longest),
            )
        )
    return tuple(places), tuple(segments)


def _called(span: Span, entry: Span) -> str:
    elsewhere = span.host and span.host != entry.host
    return (f"{span.host}/{span.service}" if elsewhere else span.service)[:MAX_NAME]
