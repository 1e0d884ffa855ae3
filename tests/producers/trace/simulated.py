"""Traces of requests whose waits are known to the nanosecond, because they were made from them.

A request is a row of steps. A wait for another thread is a row of steps of that thread, which is exactly as long
as the wait. So the local and the critical time in each state follow from the steps alone (`local`, `critical`), without
any event; and the events follow from the steps too (`Stage.play`).
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from laggard.producers.trace.events import EVENT, NO_TEXT, Events, Flags, Kind, Texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Device = Literal["disk", "timer", "network", "other"]
STATE_OF: Final[dict[Device, str]] = {"disk": "BD", "timer": "BS", "network": "BN", "other": "BI"}
CALL_OF: Final[dict[Device, str]] = {
    "disk": "pread64",
    "timer": "clock_nanosleep",
    "network": "recvfrom",
    "other": "ioctl",
}


@dataclass(frozen=True)
class Run:
    """In user mode."""

    ns: int


@dataclass(frozen=True)
class Kernel:
    """In a system call that does not wait."""

    ns: int
    call: str = "getpid"
    result: int = 0


@dataclass(frozen=True)
class Interrupted:
    """An interrupt takes the CPU, and a soft one that it raised."""

    hard: int
    soft: int = 0

    @property
    def ns(self) -> int:
        return self.hard + self.soft


@dataclass(frozen=True)
class Inline:
    """A system call that runs a soft interrupt itself: it sends to this machine, where no thread waits for it."""

    ns: int


@dataclass(frozen=True)
class Preempted:
    """Another thread has the CPU."""

    ns: int


@dataclass(frozen=True)
class Woken:
    """Wakes up before it sleeps: somebody woke it between its decision to sleep and the switch."""

    ns: int


@dataclass(frozen=True)
class Wait:
    """For a device, in a system call; then for the CPU."""

    device: Device
    blocked: int
    latency: int

    @property
    def ns(self) -> int:
        return self.blocked + self.latency


@dataclass(frozen=True)
class WaitFor:
    """For another thread, which does some steps meanwhile and wakes it; then for the CPU.

    Attributes:
        steps: of the waker, of 1 ns or more in all.
        wakes: how long it is in the system call that wakes, up to there.
        latency: until the woken one has a CPU.
        how: by which call: at a futex, through a pipe, or by loopback TCP, whose receiving side runs in the sender.
        lead: for how long the waker has had a CPU when the wait begins.
        over: what it waits for when the wait begins, since `lead` nanoseconds before; how much of it is in the wait.
        born: whether it is forked during the wait: the first half of the steps is then done by its parent.

    """

    steps: tuple[Step, ...]
    wakes: int
    latency: int
    how: Literal["pipe", "futex", "loopback"] = "pipe"
    lead: int = 10
    over: Wait | None = None
    born: bool = False

    def __post_init__(self) -> None:
        _ = self.blocked  # from the innermost on: chains of these are longer than recursion goes

    @cached_property
    def blocked(self) -> int:
        return (self.over.ns if self.over else 0) + length(self.steps) + self.wakes

    @property
    def ns(self) -> int:
        return self.blocked + self.latency


Step = Run | Kernel | Interrupted | Inline | Preempted | Woken | Wait | WaitFor


def length(steps: Sequence[Step]) -> int:
    return sum(step.ns for step in steps)


def local(steps: Sequence[Step]) -> Counter[str]:
    """Nanoseconds in each state, as the thread itself saw it."""
    sums: Counter[str] = Counter()
    for step in steps:
        match step:
            case Run():
                sums["RU"] += step.ns
            case Kernel() | Inline():
                sums["RS"] += step.ns
            case Interrupted():
                sums["BI"] += step.ns
            case Preempted() | Woken():
                sums["BP"] += step.ns
            case Wait():
                sums[STATE_OF[step.device]] += step.blocked
                sums["BP"] += step.latency
            case WaitFor():
                sums["BF" if step.how == "futex" else "BT"] += step.blocked
                sums["BP"] += step.latency
    return +sums


def critical(steps: Sequence[Step]) -> Counter[str]:
    """Likewise, with waits for threads replaced by what these did."""
    sums: Counter[str] = Counter()
    for step in steps:
        if isinstance(step, WaitFor):
            sums += critical(step.steps)
            if step.over:
                sums += local([step.over])
            sums["RS"] += step.wakes
            sums["BP"] += step.latency
        else:
            sums += local([step])
    return +sums


def _called(step: Woken | Wait | WaitFor) -> str:
    if isinstance(step, Wait):
        return CALL_OF[step.device]
    return "futex" if isinstance(step, WaitFor) and step.how == "futex" else "recvfrom"


@dataclass
class Actor:
    """A thread, on a CPU of its own."""

    tid: int
    cpu: int
    name: str
    busy: list[tuple[int, int]] = field(default_factory=list)

    def free(self, begin: int, end: int) -> bool:
        return all(until < begin or end < since for since, until in self.busy)


class Stage:
    """Makes the events of what threads do.

    Args:
        known: whether each event tells in what context it happened.
        first: nanoseconds of the clock that are before everything.
        host: of which it is.
        texts: of the trace, where it is of several hosts.

    """

    def __init__(
        self, *, known: bool = True, first: int = 1_000_000, host: str = "", texts: Texts | None = None
    ) -> None:
        self.texts = texts or Texts()
        self.host = host
        self.events: list[tuple[int, ...]] = []
        self.known = known
        self.actors: list[Actor] = []
        self.first = first
        self._noise = Actor(9_000, 0, "busy")
        self.emit(first, 0, Kind.SWITCH, 0, self._noise.tid, text="busy")

    def emit(self, ts: int, cpu: int, kind: Kind, tid: int, *numbers: int, flags: int = 0, text: str = "") -> None:
        """An event; the numbers are `a`, `b` and `c`."""
        a, b, c = (*numbers, 0, 0, 0)[:3]
        place = self.texts.place(text) if text else NO_TEXT
        host = self.texts.place(self.host) if self.host else NO_TEXT
        self.events.append((ts, cpu, kind, flags | Flags.KNOWN if self.known else 0, tid, a, b, c, place, host))

    def actor(self, name: str = "") -> Actor:
        number = len(self.actors) + 1
        actor = Actor(100 + number, number, name or f"helper-{number}")
        self.actors.append(actor)
        return actor

    def comes(self, actor: Actor, ts: int) -> None:
        self.emit(ts, actor.cpu, Kind.SWITCH, 0, actor.tid, text=actor.name)

    def leaves(self, actor: Actor, ts: int, *, bits: int = 1) -> None:
        self.emit(ts, actor.cpu, Kind.SWITCH, actor.tid, 0, 0, bits, text="idle")

    def request(
        self, actor: Actor, begin: int, steps: Sequence[Step], text: str = "shop\tGET /", number: int = 0
    ) -> int:
        """A request on a thread that runs only then; returns when it ends."""
        end = begin + length(steps)
        actor.busy.append((begin - 10, end + 10))
        self.comes(actor, begin - 5)
        self.emit(begin, actor.cpu, Kind.BEGIN, actor.tid, number, text=text)
        self.play(actor, begin, steps)
        self.emit(end, actor.cpu, Kind.END, actor.tid, number)
        self.leaves(actor, end + 5)
        return end

    def play(self, actor: Actor, ts: int, steps: Sequence[Step]) -> int:
        for step in steps:
            self._step(actor, ts, step)
            ts += step.ns
        return ts

    @contextmanager
    def _call(self, actor: Actor, begin: int, end: int, name: str, *, result: int = 0) -> Iterator[None]:
        """Around what happens in a system call."""
        self.emit(begin, actor.cpu, Kind.SYSCALL_ENTER, actor.tid, -1, 3, text=name)
        yield
        self.emit(end, actor.cpu, Kind.SYSCALL_EXIT, actor.tid, -1, result, text=name)

    def _step(self, actor: Actor, ts: int, step: Step) -> None:
        cpu, tid, end = actor.cpu, actor.tid, ts + step.ns
        match step:
            case Kernel():
                with self._call(actor, ts, end, step.call, result=step.result):
                    pass
            case Interrupted():
                over = ts + step.hard
                self.emit(ts, cpu, Kind.IRQ_ENTER, tid, 236, text="local_timer", flags=Flags.HARD)
                self.emit(over, cpu, Kind.IRQ_EXIT, tid, 236, text="local_timer", flags=Flags.HARD)
                if step.soft:
                    self.emit(over, cpu, Kind.SOFTIRQ_ENTER, tid, 9, flags=Flags.SOFT)
                    self.emit(end, cpu, Kind.SOFTIRQ_EXIT, tid, 9, flags=Flags.SOFT)
            case Inline():
                with self._call(actor, ts, end, "sendto", result=1):
                    self.emit(ts, cpu, Kind.SOFTIRQ_ENTER, tid, 3, flags=Flags.SOFT)
                    self.emit(end, cpu, Kind.SOFTIRQ_EXIT, tid, 3, flags=Flags.SOFT)
            case Preempted():
                hog = 10_000 + cpu
                self.emit(ts, cpu, Kind.SWITCH, tid, hog, 1, text="hog")
                self.emit(end, cpu, Kind.SWITCH, hog, tid, 1, text=actor.name)
            case Woken() | Wait() | WaitFor():
                with self._call(actor, ts, end, _called(step), result=1):
                    self._waits(actor, ts, step)
                    self.comes(actor, end)
            case Run():
                pass

    def _waits(self, actor: Actor, ts: int, step: Woken | Wait | WaitFor) -> None:
        if isinstance(step, Woken):
            # The wake-up comes while it still runs; nothing wakes it after it left the CPU.
            self.emit(ts, 0, Kind.WAKE, self._noise.tid, actor.tid, text=actor.name)
        self.leaves(actor, ts, bits=2 if isinstance(step, Wait) and step.device == "disk" else 1)
        if isinstance(step, Wait):
            self._device(step.device, ts + step.blocked, actor.tid)
        elif isinstance(step, WaitFor):
            self._waker(actor, ts, step)

    def _device(self, device: Device, ts: int, tid: int) -> None:
        """An interrupt on a CPU where somebody else runs, who has nothing to do with it."""
        name = {"disk": "virtio0-req.0", "timer": "local_timer", "network": "eth0", "other": "acpi"}[device]
        busy = self._noise.tid
        self.emit(ts, 0, Kind.IRQ_ENTER, busy, 1, text=name, flags=Flags.HARD)
        if device == "timer":
            self.emit(ts, 0, Kind.TIMER_ENTER, busy, flags=Flags.HARD)
        if device == "network":
            self.emit(ts, 0, Kind.IRQ_EXIT, busy, 1, flags=Flags.HARD)
            self.emit(ts, 0, Kind.SOFTIRQ_ENTER, busy, 3, flags=Flags.SOFT)
            self.emit(ts, 0, Kind.WAKE, busy, tid, flags=Flags.SOFT)
            self.emit(ts, 0, Kind.SOFTIRQ_EXIT, busy, 3, flags=Flags.SOFT)
            return
        if device == "disk":
            self.emit(ts, 0, Kind.BLOCK_COMPLETE, busy, 254 << 20, 8, 4096, text="vda", flags=Flags.HARD)
        self.emit(ts, 0, Kind.WAKE, busy, tid, flags=Flags.HARD)
        if device == "timer":
            self.emit(ts, 0, Kind.TIMER_EXIT, busy, flags=Flags.HARD)
        self.emit(ts, 0, Kind.IRQ_EXIT, busy, 1, flags=Flags.HARD)

    def _waker(self, woken: Actor, ts: int, step: WaitFor) -> None:
        wake, since = ts + step.blocked, ts - step.lead
        waker = self._engaged(since, wake)
        over = step.over
        if over:
            with self._call(waker, since, ts + over.ns, CALL_OF[over.device], result=1):
                self.comes(waker, since - 1)
                self.leaves(waker, since)
                self._device(over.device, ts + over.blocked, waker.tid)
                self.comes(waker, ts + over.ns)
            ts += over.ns
        else:
            self.comes(waker, since)
        if not step.born:
            self._wakes(waker, self.play(waker, ts, step.steps), wake, woken, how=step.how)
            self.leaves(waker, wake + 3)
            return
        half = len(step.steps) // 2
        born = self.play(waker, ts, step.steps[:half])
        child = Actor(20_000 + len(self.events), self._engaged(born, wake).cpu, "child")
        self.emit(born, waker.cpu, Kind.FORK, waker.tid, child.tid, waker.tid, text="child")
        self.leaves(waker, born + 1)
        self.comes(child, born)
        self._wakes(child, self.play(child, born, step.steps[half:]), wake, woken, how=step.how)
        self.emit(wake + 2, child.cpu, Kind.EXIT, child.tid)
        self.leaves(child, wake + 3, bits=16)

    def _engaged(self, begin: int, end: int) -> Actor:
        """A thread that has nothing to do then, and a CPU."""
        begin, end = begin - 10, end + 10
        helpers = (actor for actor in self.actors if actor.name.startswith("helper"))
        actor = next((one for one in helpers if one.free(begin, end)), None) or self.actor()
        actor.busy.append((begin, end))
        return actor

    def _wakes(self, waker: Actor, ts: int, wake: int, woken: Actor, *, how: str) -> None:
        name = {"pipe": "write", "futex": "futex", "loopback": "sendto"}[how]
        soft = Flags.SOFT if how == "loopback" else Flags(0)
        with self._call(waker, ts, wake + 1, name, result=1):
            if soft:
                self.emit(wake, waker.cpu, Kind.SOFTIRQ_ENTER, waker.tid, 3, flags=soft)
            self.emit(wake, waker.cpu, Kind.WAKE, waker.tid, woken.tid, flags=soft, text=woken.name)
            if soft:
                self.emit(wake, waker.cpu, Kind.SOFTIRQ_EXIT, waker.tid, 3, flags=soft)

    def batches(self, size: int = 1 << 30) -> Iterator[Events]:
        rows = sorted(self.events, key=lambda event: event[0])
        for at in range(0, len(rows), size):
            yield Events(np.array(rows[at : at + size], EVENT), self.texts)
