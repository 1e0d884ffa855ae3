"""The system calls of one machine's threads, and the descriptors that they use, as its trace shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.producers.diagnosis import system_calls
from laggard.producers.trace import calls
from laggard.producers.trace.events import Kind
from laggard.producers.trace.holders import CHANGING, LOCKING
from laggard.producers.trace.listening import QUEUING
from laggard.producers.trace.states import RUNNING
from laggard.producers.trace.threads import BEGINNING, NO_CALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.producers.trace.events import Row, Texts
    from laggard.producers.trace.holders import Holders
    from laggard.producers.trace.listening import Listening
    from laggard.producers.trace.machine import Machine
    from laggard.producers.trace.tasks import Tasks


class SystemCalls:
    """The handlers of events of system calls and descriptors.

    Args:
        machine: the machine that they belong to.
        texts: the texts of its events.
        tasks: its threads.
        holders: the holders of file locks.
        listening: the listen queues.

    """

    def __init__(self, machine: Machine, texts: Texts, tasks: Tasks, holders: Holders, listening: Listening) -> None:
        self._machine = machine
        self._threads = machine.threads
        self._texts = texts
        self._tasks = tasks
        self._holders = holders
        self._listening = listening
        self._kinds: dict[int, int] = {}  # of each name's place, what such calls do
        self._names: dict[int, int] = {}  # of each number, the place of its name

    def handlers(self) -> dict[int, Callable[[Row], None]]:
        """Return the handlers of events, by their kind."""
        return {
            Kind.SYSCALL_ENTER: self.syscall_enter,
            Kind.SYSCALL_EXIT: self.syscall_exit,
            Kind.OPENED: self.opened,
            Kind.CLOSED: self.closed,
            Kind.PATH: self.path,
        }

    def syscall_enter(self, row: Row) -> None:
        """Begin a system call."""
        ts, cpu, _, tid, number, b, c, text = row
        thread = self._threads.get(tid)
        if thread is None or thread.state != RUNNING:
            thread = self._machine.running(tid, ts, cpu)
        if text < 0:
            text = self._numbered(number)
        kinds = self._kinds.get(text, -1)
        if kinds < 0:
            kinds = self._kinds[text] = calls.does(self._texts[text])
        if thread.cpu is not None:
            thread.cpu.left = BEGINNING
        thread.entered = ts
        thread.call = text
        thread.kinds = kinds
        thread.argument = b
        thread.second = c
        thread.woken = False
        thread.holder = None
        if kinds & 1:
            thread.on = thread.process.files.get(b, "")
            if kinds & LOCKING and thread.on:
                thread.holder = self._holders.of(thread.on)
        else:
            thread.on = ""

    def syscall_exit(self, row: Row) -> None:
        """End a system call."""
        ts, cpu, _, tid, number, result, _, text = row
        thread = self._threads.get(tid)
        if thread is None or thread.state != RUNNING:
            thread = self._machine.running(tid, ts, cpu)
        entered = thread.entered
        thread.woken = False
        if entered < 0:
            # It began before the trace, or while events were lost.
            if text < 0 and number < 0:
                return
            thread.call = text if text >= 0 else self._numbered(number)
            thread.kinds = 0
            thread.argument = 0
            thread.on = ""
            entered = thread.calls[-1][0] if thread.calls and thread.calls[-1][0] > thread.known else thread.known
        thread.calls.append((ts, entered, thread.call, result, thread.on, thread.holder, thread.argument))
        thread.entered = NO_CALL
        if thread.kinds & CHANGING:
            self._holders.changed(thread, result)
        if thread.kinds & QUEUING:
            self._listening.returned(thread, thread.calls[-1])
        if thread.opened:
            if result >= 0:
                thread.process.files[result] = thread.opened
            thread.opened = ""

    def _numbered(self, number: int) -> int:
        place = self._names.get(number)
        if place is None:
            place = self._names[number] = self._texts.place(system_calls.name(number, machine="x86_64"))
        return place

    def opened(self, row: Row) -> None:
        """Learn the path or address of a descriptor."""
        ts, _, _, tid, descriptor, _, _, text = row
        thread = self._threads.get(tid) or self._tasks.add(tid, ts)
        name = self._texts[text]
        if descriptor < 0:
            thread.opened = name
            return
        thread.process.files[descriptor] = name
        if thread.entered >= 0 and thread.kinds & 1 and thread.argument == descriptor and not thread.on:
            thread.on = name

    def closed(self, row: Row) -> None:
        """Forget a descriptor."""
        _, _, _, tid, descriptor, _, _, _ = row
        thread = self._threads.get(tid)
        if thread is not None:
            thread.process.files.pop(descriptor, None)

    def path(self, row: Row) -> None:
        """Learn the path or address that a thread's current system call uses."""
        _, _, _, tid, _, _, _, text = row
        thread = self._threads.get(tid)
        if thread is not None and thread.entered >= 0:
            thread.on = self._texts[text]
