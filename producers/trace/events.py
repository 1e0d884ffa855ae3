"""Kernel events in the common form of all recorders: batches of columns in the order of time, with one table of texts.

Names and numbers of a recorder's own events end here: `sched_waking` of ftrace and `sched_ttwu` of an old LTTng are
both `Kind.WAKE`.
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
        ("tid", "<i4"),  # the running thread; 0 is the CPU's idle thread, -1 is unknown
        ("a", "<i8"),
        ("b", "<i8"),
        ("c", "<i8"),
        ("text", "<i4"),  # its place in `Texts`, or `NO_TEXT`
        ("host", "<i4"),  # the place of the host's name, if a trace has several
    ]
)
"""One event; the meaning of `a`, `b`, `c` and `text` depends on its kind."""

Row = tuple[int, int, int, int, int, int, int, int]
"""An event without its kind and host: time, CPU, flags, thread, `a`, `b`, `c`, text."""


class Kind(IntEnum):
    """The kinds of events, and the meaning of their columns. Columns that are not named are 0, or `NO_TEXT`."""

    SWITCH = 1
    """`tid` left the CPU: a = the next thread, c = the bits of its state as the kernel reports them, text = name of the
    next thread. If `tid` could have run on (preempted), b = 1, otherwise 0."""
    WAKE = 2
    """`tid` (or the interrupt above it, see `flags`) woke a thread: a = that thread."""
    FORK = 3
    """a = the new thread, b = its process, 0 if unknown; text = its name."""
    EXEC = 4
    """text = the file."""
    EXIT = 5
    """`tid` ends."""
    NAMED = 6
    """A thread from another source or from before the trace: a = thread, b = its process; text = its name."""
    SYSCALL_ENTER = 7
    """a = number on x86-64, or -1; b, c = the first two arguments; text = the system call's name without `sys_`."""
    SYSCALL_EXIT = 8
    """a = number or -1, b = result; text = name, if known."""
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
    """The same columns as `BLOCK_ISSUE`."""
    NET_SEND = 17
    """A packet leaves: a = an id that also marks it in `NET_RECEIVE` of other hosts."""
    NET_RECEIVE = 18
    OPENED = 19
    """A descriptor of the process of thread `tid` is known: a = descriptor; text = path, or socket `127.0.0.1:3306`
    (the remote address; the local one if it listens or was accepted). Between the entry and exit of a system call, a =
    -1 stands for the descriptor that the call returns."""
    CLOSED = 20
    """a = descriptor."""
    BEGIN = 21
    """A request begins on `tid`: a = id (unique among the open ones of a thread, 0 if there can be only one); text =
    service and name, with a tab between: `shop\\tGET /cart`. The service may be empty."""
    END = 22
    """A request ends: a = the same id."""
    LOST = 23
    """Events are missing, of `cpu` or (-1) of all: from a to b (nanoseconds); c = their number, 0 if unknown. Its `ts`
    is b, or a if that CPU has no more events: then b is later than all."""
    PATH = 24
    """A path or address is an argument of the current system call of `tid`: text."""


class Flags(IntFlag):
    """The context of an event, if the recorder reports it; otherwise entries and exits of interrupts show it."""

    HARD = 1
    SOFT = 2
    KNOWN = 4
    """Set if the recorder reports the context: without it, missing bits mean nothing."""


@dataclass(slots=True)
class Texts:
    """The texts of a trace, each once. It grows while a trace is read; places never change."""

    texts: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def place(self, text: str) -> int:
        """Return the place of a text, which is added if it is new."""
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self.texts)
            self.texts.append(text)
        return place

    def __getitem__(self, place: int) -> str:
        """Return the text at a place; empty for `NO_TEXT`."""
        return "" if place < 0 else self.texts[place]


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """A batch of events in the order of time, not older than those of the batch before.

    Attributes:
        events: the events, of dtype `EVENT`, shape (n,).
        texts: the texts, one object for all batches of a trace.

    """

    events: NDArray[np.void]
    texts: Texts
