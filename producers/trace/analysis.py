"""The requests of a trace, from its events."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.records import Request
from laggard.pipeline.core.records.limits import MAX_KEY, MAX_NAME, MAX_SYSCALLS
from laggard.producers.trace import paths, serving
from laggard.producers.trace.calls import Does, does
from laggard.producers.trace.critical_path import Timelines
from laggard.producers.trace.events import NO_TEXT, Kind
from laggard.producers.trace.gaps import Gaps
from laggard.producers.trace.listening import Served
from laggard.producers.trace.machine import Machine
from laggard.producers.trace.request_names import RequestNames
from laggard.producers.trace.serving import Board, Serving
from laggard.producers.trace.spent import spent
from laggard.producers.trace.states import BI, BT, NAMES, UN
from laggard.producers.trace.steady import asked_for
from laggard.producers.trace.threads import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from laggard.producers.trace.critical_path import Piece
    from laggard.producers.trace.events import Events, Row, Texts
    from laggard.producers.trace.threads import Thread

SLICE: Final = 32_768
"""The number of events after which data that is not needed is dropped."""

MAX_PIECES: Final = 2_000_000
"""The most pieces of timelines in memory for open requests, at some 150 bytes each."""

LONGEST_S: Final = 120.0
"""The longest duration of a request, in seconds; longer ones are discarded."""

UNKNOWN_SHARE: Final = 0.01
"""A request with a larger share of unknown time gets a note."""

LATELY_NS: Final = 60_000_000_000
"""The time for which a request reports the share of missing events."""


@dataclass(slots=True)
class Report:
    """The result of a trace.

    Attributes:
        events: the number of events.
        requests: the number of published requests.
        discarded: the number of discarded requests, by reason.
        backward: the number of events that were older than the one before.
        backward_ns: the largest difference to the one before, in nanoseconds.
        out_of_step: how often a thread ran without a switch to it.
        lost: the number of periods with missing events.
        strays: the number of ends without a start.

    """

    events: int = 0
    requests: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    backward: int = 0
    backward_ns: int = 0
    out_of_step: int = 0
    lost: int = 0
    strays: int = 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems in words; none for a complete trace."""
        lines = [f"requests discarded, since {_REASONS[reason]}: {count:,}" for reason, count in self.discarded.items()]
        if self.lost:
            lines.append(f"gaps with missing events: {self.lost:,}")
        if self.backward:
            lines.append(
                f"events older than the one before, by up to {self.backward_ns / 1e3:,.1f} us, moved to its time:"
                f" {self.backward:,}"
            )
        if self.out_of_step:
            lines.append(
                "runs of a thread without a recorded switch to it, so that its earlier state is unknown:"
                f" {self.out_of_step:,}"
            )
        if self.strays:
            lines.append(f"ends of requests without a begin, such as requests from before the trace: {self.strays:,}")
        return tuple(lines)


_REASONS: Final = {
    serving.EVENT_LOOP: "several overlap on one thread (an event loop), which the method does not support",
    serving.STILL_OPEN: "they were still open at the end of the trace",
    serving.LOST_EVENTS: "events are missing during them",
    serving.TOO_LONG: "they exceed the limit of duration or memory",
    serving.THREAD_ENDED: "their thread ended first",
    serving.NO_TIME: "their duration is zero",
}


class Analysis:
    """Follows a trace, and returns its requests with the use of their time.

    A request is returned one batch after the one in which it ended, or by `finish`. A CPU reports a gap only when it
    continues, so a gap in the time of the request is known by then.

    Args:
        host: the host of the trace, if its events do not name one.
        clock_offset_s: the offset from the trace's clock to seconds since the Unix epoch.
        longest_s: the longest duration of a request; longer ones are discarded.
        kept: the most pieces of timelines in memory; beyond, the oldest open request is discarded.

    """

    def __init__(
        self, *, host: str = "", clock_offset_s: float = 0.0, longest_s: float = LONGEST_S, kept: int = MAX_PIECES
    ) -> None:
        self.report = Report()
        self._host = host
        self._offset_ns = round(clock_offset_s * 1e9)
        self._longest_ns = round(longest_s * 1e9)
        self._kept = kept
        self._texts: Texts | None = None
        self._timelines: Timelines | None = None
        self._machines: dict[int, Machine] = {}
        self._handlers: dict[int, dict[int, Callable[[Row], None]]] = {}
        self._packets: dict[int, tuple[Thread, int]] = {}
        self._board = Board(self._ended)
        self._names = RequestNames()
        self._gaps: list[tuple[int, int]] = []
        self._missing = Gaps()
        self._first = FOREVER
        self._held: list[tuple[int, int, Request]] = []
        self._now = -FOREVER

    def feed(self, batch: Events) -> list[Request]:
        """Analyze events, and return the requests that had ended by the batch before, in the order of their ends."""
        events = batch.events
        if self._texts is None:
            self._texts = batch.texts
            self._timelines = Timelines(batch.texts)
        elif self._texts is not batch.texts:
            raise ValueError("expected the texts of the batches before: a trace has one table of them")
        if not len(events):
            return []
        self.report.events += len(events)
        gaps = events[events["kind"] == Kind.LOST]
        found = list(zip(gaps["a"].tolist(), gaps["b"].tolist(), strict=True))
        self._gaps += found
        for begin, end in found:
            self._missing.add(begin, end)
        self._first = min(self._first, int(events["ts"][0]))
        self.report.lost += len(gaps)
        requests = self._complete_requests()
        times = self._in_order(events["ts"])
        for at in range(0, len(events), SLICE):
            self._take(events[at : at + SLICE], times[at : at + SLICE])
            self._tidy()
        return requests

    def finish(self) -> list[Request]:
        """Return the remaining requests; open ones are counted as discarded."""
        requests = self._complete_requests()
        for one in list(self._board.open):
            self._board.discard(one, serving.STILL_OPEN)
        self._account()
        return requests

    def _in_order(self, times: NDArray[np.int64]) -> list[int]:
        highest = np.maximum(np.maximum.accumulate(times), self._now)
        behind = highest - times
        if behind.any():
            self.report.backward += int(np.count_nonzero(behind))
            self.report.backward_ns = max(self.report.backward_ns, int(behind.max()))
        self._now = int(highest[-1])
        result: list[int] = highest.tolist()
        return result

    def _take(self, events: NDArray[np.void], times: list[int]) -> None:
        columns = [events[name].tolist() for name in ("cpu", "flags", "tid", "a", "b", "c", "text")]
        rows = zip(times, *columns, strict=True)
        hosts = events["host"]
        if (hosts == hosts[0]).all():
            get = self._handlers_of(int(hosts[0])).get
            for kind, row in zip(events["kind"].tolist(), rows, strict=True):
                handle = get(kind)
                if handle is not None:
                    handle(row)
            return
        for kind, host, row in zip(events["kind"].tolist(), hosts.tolist(), rows, strict=True):
            handle = self._handlers_of(host).get(kind)
            if handle is not None:
                handle(row)

    def _handlers_of(self, host: int) -> dict[int, Callable[[Row], None]]:
        handlers = self._handlers.get(host)
        if handlers is None:
            assert self._texts is not None
            name = self._host if host == NO_TEXT else self._texts[host]
            machine = self._machines[host] = Machine(name, self._texts, self._packets)

            def lost(row: Row) -> None:
                self._lost(machine, row)

            handlers = {**machine.handlers(), **self._board.handlers(machine, self._texts), Kind.LOST: lost}
            self._handlers[host] = handlers
        return handlers

    def _lost(self, machine: Machine, row: Row) -> None:
        ts, cpu, _, _, begin, end, _, _ = row
        for one in list(self._board.open):
            if one.machine is machine and one.begin <= end:
                self._board.discard(one, serving.LOST_EVENTS)
        machine.lost(begin, ts, cpu)

    def _ended(self, one: Serving, end: int) -> None:
        """Make the record of an ended request."""
        assert self._texts is not None
        assert self._timelines is not None
        local, critical = self._timelines.both(one.thread, one.since, end)
        queued = self._queued(one, local, critical)
        machine = one.machine
        service, name = self._named(one)
        threads, path = paths.condensed(critical, self._texts, here=machine.name)
        ts = one.begin + self._offset_ns
        times = _sums(local)
        syscalls = _system_calls(one.thread, one.boundary, critical, self._texts)
        request = Request(
            service=service[:MAX_KEY] or one.thread.process.name or "?",
            ts=ts / 1e9,
            request=f"{one.thread.tid}-{ts}",
            duration_s=(end - one.begin) / 1e9,
            counts=_entered(local),
            times_s=_in_seconds(times),
            syscalls=tuple(syscalls[:MAX_SYSCALLS]),
            host=machine.name,
            name=name,
            critical_s=_in_seconds(times if critical is local else _sums(critical)),
            spent=spent(local, self._texts, queued),
            threads=threads,
            path=path,
            notes=tuple(self._notes(one, end, times, syscalls)),
        )
        self._held.append((one.begin, end, request))
        if one.thread.queue is not None:
            one.thread.queue.served(Served(one.since, end, name, one.thread.process.pid))

    def _named(self, one: Serving) -> tuple[str, str]:
        """Return the service and the name of a request."""
        service, _, name = one.text.partition("\t")
        return service, self._names.name(service, asked_for(name)[:MAX_NAME])

    def _queued(self, one: Serving, local: list[Piece], critical: list[Piece]) -> dict[str, tuple[int, int]] | None:
        """Add the wait in the listen queue to the pieces of a request, and return what kept the threads busy meanwhile.

        Returns:
            The result of `Queue.busy`; None if it did not wait there.

        """
        accepted = one.accepted
        if accepted is None or one.begin >= one.since:
            return None
        piece: Piece = (one.thread, one.begin, one.since, BT, accepted.call, None, None, "")
        local.insert(0, piece)
        if critical is not local:
            critical.insert(0, piece)
        others = (
            Served(each.since, one.since, self._named(each)[1], each.thread.process.pid)
            for each in self._board.open
            if each.thread.queue is accepted.queue
        )
        return accepted.queue.busy(one.begin, one.since, others)

    def _notes(self, one: Serving, end: int, times: dict[str, int], syscalls: list[str]) -> Iterable[str]:
        unknown = times.get(NAMES[UN], 0) / (end - one.begin)
        if unknown > UNKNOWN_SHARE:
            yield f"{unknown:.0%} of its time is unknown: events are missing"
        names = set(syscalls)
        if any(does(name) & Does.IO_URING for name in names):
            yield "io_uring: the kernel's asynchronous work is not traced"
        if one.thread.process.event_loop and any(does(name) & Does.POLLS for name in names):
            yield "event loop: its thread serves other requests at the same time"
        if len(syscalls) > MAX_SYSCALLS:
            yield f"only the first {MAX_SYSCALLS:,} of {len(syscalls):,} system calls are listed"

    def _complete_requests(self) -> list[Request]:
        """Return the delayed requests, except those that overlap a gap."""
        requests = []
        self._missing.forget(min((end for _, end, _ in self._held), default=self._now) - LATELY_NS)
        for begin, end, request in self._held:
            if any(begin <= until and since <= end for since, until in self._gaps):
                self._board.discarded[serving.LOST_EVENTS] += 1
            else:
                missing_ratio = self._missing_ratio(end)
                requests.append(replace(request, missing_ratio=missing_ratio) if missing_ratio else request)
        oldest = min(self._board.oldest(), self._now)
        self._gaps = [gap for gap in self._gaps if gap[1] >= oldest]
        self._held.clear()
        self.report.requests += len(requests)
        self._account()
        return requests

    def _missing_ratio(self, end: int) -> float:
        """Return the share of the minute before a time in which events are missing."""
        begin = max(self._first, end - LATELY_NS)
        return self._missing.missing(begin, end) / max(end - begin, 1)

    def _tidy(self) -> None:
        """Drop data that no open request needs, and discard a request that needs too much."""
        while True:
            oldest = self._board.oldest()
            if oldest < self._now - self._longest_ns:
                self._board.discard_oldest(serving.TOO_LONG)
                continue
            before = min([oldest, *(machine.listening.oldest(self._now) for machine in self._machines.values())])
            remaining = sum(machine.forget(before) for machine in self._machines.values())
            if remaining <= self._kept or oldest == FOREVER:
                return
            self._board.discard_oldest(serving.TOO_LONG)

    def _account(self) -> None:
        self.report.discarded = self._board.discarded
        self.report.strays = self._board.strays
        self.report.out_of_step = sum(machine.out_of_step for machine in self._machines.values())


def _sums(pieces: Iterable[Piece]) -> dict[str, int]:
    """Return the nanoseconds in each state with any."""
    sums = [0] * len(NAMES)
    for piece in pieces:
        sums[piece[3]] += piece[2] - piece[1]
    return {name: ns for name, ns in zip(NAMES, sums, strict=True) if ns}


def _in_seconds(sums: dict[str, int]) -> dict[str, float]:
    return {name: ns / 1e9 for name, ns in sums.items()}


def _entered(pieces: Iterable[Piece]) -> dict[str, float]:
    """Return how often each state was entered: a state that continues after an interrupt is not entered again."""
    counts = [0] * len(NAMES)
    before = -1
    for piece in pieces:
        state = piece[3]
        if state != before:
            counts[state] += 1
        if state != BI:
            before = state
    return {name: float(count) for name, count in zip(NAMES, counts, strict=True) if count}


def _system_calls(thread: Thread, begin: int, critical: Iterable[Piece], texts: Texts) -> list[str]:
    """Return those of a request's thread, and those that began on the critical path, in the order of time.

    An open system call of the thread is left out: it reported the end of the request.
    """
    calls = thread.calls
    selected = [(call[1], call[2]) for call in calls[bisect_left(calls, (begin,)) :] if call[1] >= begin]
    others = [
        (piece[1], piece[4][2])
        for piece in critical
        if piece[0] is not thread and piece[4] is not None and piece[4][1] == piece[1]
    ]
    if others:
        selected = sorted(selected + others)
    return [texts[name] for _, name in selected]
