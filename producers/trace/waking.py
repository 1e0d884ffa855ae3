"""The state of a thread that waited, by its waker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.producers.trace.calls import Does
from laggard.producers.trace.events import Flags
from laggard.producers.trace.states import BD, BF, BI, BN, BS, BT, UN, guessed, interrupt, softirq

if TYPE_CHECKING:
    from laggard.producers.trace.threads import Processor, Thread

Why = tuple[int, "Thread | None", int, str]
"""The state; the thread that woke it and when, if that thread's work was the cause; the device or interrupt."""

# Plain numbers are faster.
_KNOWN: Final = int(Flags.KNOWN)
_HARD: Final = int(Flags.HARD)
_SOFT: Final = int(Flags.SOFT)


def why(ts: int, processor: Processor, flags: int, running: Thread | None, woken: Thread, *, syscall: str) -> Why:
    """Return the state of a wait that ends now, and its cause.

    A wakeup by an interrupt is not the work of the interrupted thread, except for soft ones that this thread processes
    itself.

    Args:
        ts: the time, in nanoseconds of the trace's clock.
        processor: the CPU of the wakeup.
        flags: the flags of the event.
        running: the thread that runs there; None for the idle thread and an unknown one.
        woken: the thread.
        syscall: its system call; may be empty.

    """
    nested = processor.nested
    if flags & _KNOWN:
        hard, soft = bool(flags & _HARD), bool(flags & _SOFT)
    else:
        hard = bool(nested) and nested[-1][0]
        soft = bool(nested) and not hard
    waker = None if running is woken or hard or soft else running
    if (hard or soft) and processor.timer:
        return BS, None, ts, ""
    if processor.completed is not None:
        return BD, waker, ts, processor.completed
    if hard or soft:
        return _interrupted(ts, processor, woken, syscall, hard=hard)
    if waker is None:
        return guessed(syscall, unknown=BI if processor.seen and processor.current is None else UN), None, ts, ""
    if waker.kernel and waker.name.startswith("irq/"):
        return interrupt(waker.name), waker, ts, waker.name
    return BF if woken.entered >= 0 and woken.kinds & Does.FUTEX else BT, waker, ts, ""


def _interrupted(ts: int, processor: Processor, woken: Thread, syscall: str, *, hard: bool) -> Why:
    """Return the same for a thread that is woken in an interrupt."""
    inner = next((each for each in reversed(processor.nested) if each[0] == hard), None)
    if inner is None:
        return guessed(syscall, unknown=BI), None, ts, ""
    if hard:
        return interrupt(inner[2]), None, ts, inner[2]
    state, what = softirq(inner[1])
    if state == BN:
        if inner[4] and processor.current is not woken:
            return BT, processor.current, ts, ""
        if processor.received is not None:
            sender, at = processor.received
            return BN, sender, at, what
    return state, None, ts, what
