"""Kernel events as all recorders give them: batches of columns in the order of time, with one table of texts.

A recorder's own event names and numbers end where its events become these: `sched_waking` of ftrace and `sched_ttwu` of
an old LTTng are both `Kind.WAKE`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_TEXT: Final = -1

EVENT: Final = np.dtype(
    [
        ("ts", "<i8"),  # nanoseconds of the trace's clock
        ("cpu", "<i2"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("tid", "<i4"),  # who ran on the CPU; 0 is its idle thread, -1 is unknown
        ("a", "<i8"),
        ("b", "<i8"),
        ("c", "<i8"),
        ("text", "<i4"),  # its place in `Texts`, or `NO_TEXT`
        ("host", "<i4"),  # likewise: of which host, where a trace is of several
    ]
)
"""One event; what `a`, `b`, `c` and `text` are depends on its kind."""


class Kind(IntEnum):
    """What happened, and what the columns say of it. What is not named is 0, or `NO_TEXT`."""

    SWITCH = 1
    """`tid` left the CPU: a = who comes, b = 1 if `tid` could have run on (preempted), else 0, c = its state's bits as
    the kernel tells them, text = name of who comes."""
    WAKE = 2
    """`tid` (or the interrupt above it, see `flags`) woke a thread: a = which."""
    FORK = 3
    """a = the new thread, b = its process (as `PROCESS`), 0 where the trace does not tell; text = its name."""
    EXEC = 4
    """text = the file."""
    EXIT = 5
    """`tid` ends."""
    NAMED = 6
    """Known of a thread, from elsewhere or before the trace: a = thread, b = its process; text = its name."""
    SYSCALL_ENTER = 7
    """a = number on x86-64, or -1; b, c = the first two arguments; text = the system call's name without `sys_`."""
    SYSCALL_EXIT = 8
    """a = number or -1, b = what it returned; text = name, where it is told."""
    IRQ_ENTER = 9
    """A hardware interrupt, or a vector of the local APIC: a = its number, text = its name."""
    IRQ_EXIT = 10
    SOFTIRQ_ENTER = 11
    """a = its vector: 1 timer, 2 sends, 3 receives, 4 block, ..."""
    SOFTIRQ_EXIT = 12
    TIMER_ENTER = 13
    """A high-resolution timer expires."""
    TIMER_EXIT = 14
    BLOCK_ISSUE = 15
    """A request to a device: a = device (major << 20 | minor), b = sector, c = bytes; text = the device's name."""
    BLOCK_COMPLETE = 16
    """Likewise."""
    NET_SEND = 17
    """A packet leaves: a = an id by which other hosts' `NET_RECEIVE` is known."""
    NET_RECEIVE = 18
    OPENED = 19
    """A descriptor of the process of thread `tid` is known: a = descriptor; text = path, or socket `127.0.0.1:3306`
    (where it leads; for one that listens or was accepted, where it is). Where it comes between a system call's entry
    and exit and a = -1, the descriptor is what the call returns."""
    CLOSED = 20
    """a = descriptor."""
    BEGIN = 21
    """A request begins on `tid`: a = id (of those that are open on a thread at once, 0 where there can be one only);
    text = service and what is asked for, with a tab between: `shop\\tGET /cart`. The service may be empty."""
    END = 22
    """It ends: a = the same id."""
    LOST = 23
    """Events are missing, of `cpu` or (-1) of all: from a to b (nanoseconds); c = how many, 0 where not known. Its `ts`
    is b, or a where nothing more of that CPU is known: then b is later than all."""
    PATH = 24
    """A path or address is an argument of the system call that `tid` is in: text."""


class Flags(IntFlag):
    """In what context an event happened, where the recorder tells; else interrupts' entries and exits tell."""

    HARD = 1
    SOFT = 2
    KNOWN = 4
    """Set where the recorder tells: without it, absent bits say nothing."""


@dataclass(slots=True)
class Texts:
    """The texts of a trace, each once. It grows while a trace is read; places never change."""

    texts: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def place(self, text: str) -> int:
        """Where it is, entered if it is new."""
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self.texts)
            self.texts.append(text)
        return place

    def __getitem__(self, place: int) -> str:
        """The text at a place; empty for `NO_TEXT`."""
        return "" if place < 0 else self.texts[place]


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """A batch of events in the order of time, not older than those of the batch before.

    Attributes:
        events: of dtype `EVENT`, shape (n,).
        texts: one object for all batches of a trace.

    """

    events: NDArray[np.void]
    texts: Texts
