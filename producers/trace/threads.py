"""What each thread of a machine did when: one pass over its events.

A thread's timeline is a row of segments without gaps, each of which ends where the next one begins, and its system
calls beside it; interrupts and who had it are a CPU's. All times are nanoseconds of the trace's clock.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.states import UN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.producers.trace.serving import Serving

BEGINNING: Final = -(1 << 62)
FOREVER: Final = 1 << 62

Segment = tuple[int, int, "Processor | None", "Thread | None", int, str]
"""End; state, or `RUNNING`; on which CPU it ran or waited to run; who woke it; when (before the end only where a packet
travelled); the device, interrupt or timer that did."""

Call = tuple[int, int, int, int, str, "Thread | None", int]
"""End; begin; place of the name in the trace's texts; what it returned; on which file or socket; who held the lock that
it asks for when it began; its first argument."""

Run = tuple[int, "Thread | None"]
"""Until when a thread had a CPU; None for the idle thread and one not known."""

Interrupt = tuple[int, int, str]
"""End, begin and name."""

NO_CALL: Final = -1


class Process:
    """What threads of one process share."""

    __slots__ = ("event_loop", "files", "name", "pid")

    def __init__(self, pid: int, files: dict[int, str] | None = None) -> None:
        self.pid = pid
        self.files: dict[int, str] = {} if files is None else files
        """Path or address by descriptor."""
        self.name = ""
        self.event_loop = False
        """Whether one of its threads had several requests open that overlap."""


class Thread:
    """One thread of one machine, from its first event or its fork to its end."""

    __slots__ = (
        *(
            "argument",
            "born",
            "call",
            "calls",
            "cpu",
            "ended",
            "entered",
            "first",
            "fresh",
            "holder",
            "kernel",
            "kinds",
        ),
        *("known", "machine", "name", "on", "open", "opened", "parent", "process", "second", "segments", "since"),
        *("state", "text", "tid", "woken"),
    )

    def __init__(self, machine: str, tid: int, process: Process, ts: int) -> None:
        self.machine = machine
        self.tid = tid
        self.process = process
        self.text = -1
        self.name = ""
        self.kernel = False
        """Whether it has no user mode."""
        self.parent: Thread | None = None
        self.born = BEGINNING
        """When it was forked, where that was seen."""
        self.ended = FOREVER

        self.segments: list[Segment] = []
        self.first = ts
        """Where its first segment that is kept begins."""
        self.state = UN
        self.since = ts
        self.cpu: Processor | None = None
        self.woken = False
        """Whether somebody woke it while it still ran, in the system call that it is in."""

        self.calls: list[Call] = []
        self.known = ts
        """Since when its events are complete."""
        self.entered = NO_CALL
        """When it entered the system call that it is in."""
        self.call = -1
        self.kinds = 0
        self.argument = 0
        self.second = 0
        self.on = ""
        self.opened = ""
        self.holder: Thread | None = None
        self.open: list[Serving] = []
        """Requests that it serves, the outermost first."""

    def __repr__(self) -> str:
        return f"Thread({self.name}[{self.tid}])"

    def close(self, ts: int, state: int, cpu: Processor | None, waker: Thread | None = None, what: str = "") -> None:
        """What it did until now was this."""
        self.segments.append((ts, state, cpu, waker, ts, what))
        self.since = ts

    def forget(self, before: int) -> int:
        """Drops what ended by then; returns how many segments and calls are left."""
        segments, calls = self.segments, self.calls
        if segments and segments[0][0] <= before:
            gone = bisect_left(segments, (before + 1,))
            self.first = segments[gone - 1][0]
            del segments[:gone]
        if calls and calls[0][0] <= before:
            del calls[: bisect_left(calls, (before + 1,))]
        if self.parent is not None and self.born <= before:
            self.parent = None
        return len(segments) + len(calls)


class Processor:
    """One CPU: who has it, who had it, and in which interrupts it is."""

    __slots__ = (
        *("completed", "current", "interrupts", "left", "nested", "number", "received", "runs", "seen", "since"),
        "timer",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.current: Thread | None = None
        self.seen = False
        """Whether `current` is known, be it the idle thread."""
        self.since = BEGINNING
        """Since when it has it."""
        self.runs: list[Run] = []
        self.interrupts: list[Interrupt] = []
        """Those that took a thread's time."""
        self.nested: list[tuple[bool, int, str, int, bool]] = []
        """In which it is, the innermost last: whether hard; number; name; since when; whether the running thread itself
        processes it, in a system call."""
        self.left = BEGINNING
        """When it left its last interrupt, if no system call has begun since."""
        self.timer = False
        self.completed: str | None = None
        """The device whose request has completed in this interrupt or system call."""
        self.received: tuple[Thread, int] | None = None
        """Who sent the packet that is being received, and when."""

    def enter(self, ts: int, *, hard: bool, number: int, name: str) -> None:
        """An interrupt begins.

        A soft one that no other surrounds either follows the end of a hard one at once, or is processed by the running
        thread itself, at the end of what it does in a system call: as when it sends to an address of this machine.
        """
        current = self.current
        inline = (
            not hard
            and not self.nested
            and current is not None
            and current.entered != NO_CALL
            and ts - self.left > AFTER_INTERRUPT_NS
        )
        self.nested.append((hard, number, name, ts, inline))

    def leave(self, ts: int, *, hard: bool) -> None:
        """The innermost of its kind ends; others whose end was missed do so too."""
        nested = self.nested
        while nested:
            was_hard, _, name, since, inline = nested.pop()
            if was_hard == hard:
                if not inline:
                    self.left = ts
                    if self.current is not None and all(each[4] for each in nested):
                        self.interrupts.append((ts, since, name))
                break
        self.timer = False
        self.completed = None
        self.received = None

    def switch(self, ts: int, to: Thread | None) -> None:
        """Another thread has it from now on."""
        if self.seen:
            self.runs.append((ts, self.current))
        self.current = to
        self.since = ts
        self.seen = True
        if self.nested:
            self.nested.clear()
        self.timer = False
        self.completed = None
        self.received = None

    def had(self, begin: int, end: int) -> Iterator[tuple[Thread | None, int]]:
        """Who had it in a time, and for how long each."""
        runs = self.runs
        at = begin
        for place in range(bisect_left(runs, (begin + 1,)), len(runs)):
            until, thread = runs[place]
            if until >= end:
                yield thread, end - at
                return
            yield thread, until - at
            at = until
        if at < end:
            yield self.current if self.seen else None, end - at

    def forget(self, before: int) -> int:
        """Drops what ended by then; returns how much is left."""
        for rows in (self.runs, self.interrupts):
            if rows and rows[0][0] <= before:
                del rows[: bisect_left(rows, (before + 1,))]
        return len(self.runs) + len(self.interrupts)


AFTER_INTERRUPT_NS: Final = 2_000
"""A soft interrupt that begins within this time after a hard one was raised by it."""
