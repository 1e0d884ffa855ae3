"""The timelines of a machine's threads and CPUs: one pass over its events.

The timeline of a thread is a row of segments without gaps, each of which ends where the next one begins. Its system
calls are a separate row. Interrupts and the running threads belong to a CPU. All times are nanoseconds of the trace's
clock.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.states import UN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.producers.trace.listening import Accepted, Queue
    from laggard.producers.trace.serving import Serving

BEGINNING: Final = -(1 << 62)
FOREVER: Final = 1 << 62

Segment = tuple[int, int, "Processor | None", "Thread | None", int, str]
"""End; state, or `RUNNING`; the CPU on which it ran or waited to run; its waker. Then the time of the cause (before the
end only if a packet traveled); the device, interrupt or timer that woke it."""

Call = tuple[int, int, int, int, str, "Thread | None", int]
"""End; start; place of the name in the trace's texts; result; its file or socket; the holder of the requested lock at
the start; first argument."""

Run = tuple[int, "Thread | None"]
"""The time until which a thread had a CPU; None for the idle thread and an unknown one."""

Interrupt = tuple[int, int, str]
"""End, start and name."""

NO_CALL: Final = -1

_KERNEL_NAMES: Final = (
    *("kworker", "ksoftirqd", "migration/", "rcu_", "rcuog", "rcuop", "jbd2/", "kswapd", "kcompactd", "kthreadd"),
    *("khugepaged", "irq/", "cpuhp/", "idle_inject/", "kdevtmpfs", "oom_reaper", "writeback"),
)
"""The beginnings of the names of kernel threads."""

KTHREADD: Final = 2
"""The thread that starts all kernel threads."""


class Process:
    """The shared state of the threads of a process."""

    __slots__ = ("event_loop", "files", "name", "pid", "serves")

    def __init__(self, pid: int, files: dict[int, str] | None = None) -> None:
        self.pid = pid
        self.files: dict[int, str] = {} if files is None else files
        """The path or address of each descriptor."""
        self.name = ""
        self.event_loop = False
        """Whether one of its threads had several open requests that overlap."""
        self.serves = False
        """Whether a request has begun on one of its threads."""


class Thread:
    """A thread of a machine, from its first event or its fork to its end."""

    __slots__ = (
        *(
            "accepted",
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
        *("known", "machine", "name", "on", "open", "opened", "parent", "process", "queue", "second", "segments"),
        *("since", "state", "text", "tid", "woken"),
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
        """The time of its fork, if that was recorded."""
        self.ended = FOREVER

        self.segments: list[Segment] = []
        self.first = ts
        """The start of the oldest segment in memory."""
        self.state = UN
        self.since = ts
        self.cpu: Processor | None = None
        self.woken = False
        """Whether it was woken while it still ran, in its current system call."""

        self.calls: list[Call] = []
        self.known = ts
        """The time since which its events are complete."""
        self.entered = NO_CALL
        """The time at which it entered its current system call."""
        self.call = -1
        self.kinds = 0
        self.argument = 0
        self.second = 0
        self.on = ""
        self.opened = ""
        self.holder: Thread | None = None
        self.accepted: Accepted | None = None
        """The connection that it has accepted, until a request begins."""
        self.queue: Queue | None = None
        """The listen queue from which it accepts connections."""
        self.open: list[Serving] = []
        """The requests that it serves, the outermost first."""

    def __repr__(self) -> str:
        return f"Thread({self.name}[{self.tid}])"

    def rename(self, text: int, name: str) -> None:
        """Give it a name, which is at this place of the trace's texts."""
        self.text = text
        self.name = name
        if self.tid == self.process.pid or not self.process.name:
            self.process.name = name
        if name.startswith(_KERNEL_NAMES):
            self.kernel = True

    def close(self, ts: int, state: int, cpu: Processor | None, waker: Thread | None = None, what: str = "") -> None:
        """End the current segment with this state."""
        self.segments.append((ts, state, cpu, waker, ts, what))
        self.since = ts

    def forget(self, before: int) -> int:
        """Drop segments and calls that ended by a time, and return how many are left."""
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
    """A CPU: its current and earlier threads, and its current interrupts."""

    __slots__ = (
        *("completed", "current", "interrupts", "left", "nested", "number", "received", "runs", "seen", "since"),
        "timer",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.current: Thread | None = None
        self.seen = False
        """Whether `current` is known, even if it is the idle thread."""
        self.since = BEGINNING
        """The time since which it has been running `current`."""
        self.runs: list[Run] = []
        self.interrupts: list[Interrupt] = []
        """The interrupts that used the time of a thread."""
        self.nested: list[tuple[bool, int, str, int, bool]] = []
        """Its current interrupts, the innermost last: whether hard; number; name; start; whether the running thread
        itself processes it, in a system call."""
        self.left = BEGINNING
        """The end of its last interrupt, if no system call has begun since."""
        self.timer = False
        self.completed: str | None = None
        """The device whose request has completed in this interrupt or system call."""
        self.received: tuple[Thread, int] | None = None
        """The sender of the packet that is being received, and the time of sending."""

    def enter(self, ts: int, *, hard: bool, number: int, name: str) -> None:
        """Begin an interrupt.

        A soft interrupt outside of any other has two possible causes. It follows the end of a hard one at once, or the
        running thread processes it itself, at the end of its work in a system call. An example is a thread that sends
        to an address of this machine.
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
        """End the innermost interrupt of its kind, and the inner ones whose end was missed."""
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
        """Switch to another thread."""
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
        """Yield the threads that had the CPU in a period, and for how long each."""
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
        """Drop rows that ended by a time, and return how many are left."""
        for rows in (self.runs, self.interrupts):
            if rows and rows[0][0] <= before:
                del rows[: bisect_left(rows, (before + 1,))]
        return len(self.runs) + len(self.interrupts)


AFTER_INTERRUPT_NS: Final = 2_000
"""A soft interrupt that begins within this time after a hard one, in nanoseconds, was raised by it."""
