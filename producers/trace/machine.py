"""The state of one machine, as its trace shows it: threads, CPUs, descriptors and locks, updated by each event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.producers.trace.events import Kind
from laggard.producers.trace.holders import Holders
from laggard.producers.trace.interrupts import Interrupts
from laggard.producers.trace.listening import Listening
from laggard.producers.trace.states import BP, RUNNING, UN, guessed
from laggard.producers.trace.syscalls import SystemCalls
from laggard.producers.trace.tasks import Tasks
from laggard.producers.trace.threads import FOREVER, NO_CALL, Processor
from laggard.producers.trace.waking import why

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.producers.trace.events import Row, Texts
    from laggard.producers.trace.threads import Thread

BLOCKED: Final = 11
"""The state of a thread that left its CPU and has not been woken yet: its waker decides the final state."""


class Machine:
    """The state of one machine at a point of its trace.

    Attributes:
        name: the name of the machine; may be empty.
        threads: the live threads, by thread id.
        processors: its CPUs, by number.
        tasks: adds, names and ends its threads and processes.
        listening: its listen queues.
        out_of_step: how often a thread ran on a CPU without a switch to it, since an unknown time.

    """

    def __init__(self, name: str, texts: Texts, packets: dict[int, tuple[Thread, int]]) -> None:
        self.name = name
        self.threads: dict[int, Thread] = {}
        self.processors: dict[int, Processor] = {}
        self.out_of_step = 0
        self._texts = texts
        self._holders = Holders()
        self.tasks = Tasks(name, self.threads, texts, self._holders)
        self.listening = Listening(texts)
        self._calls = SystemCalls(self, texts, self.tasks, self._holders, self.listening)
        self._interrupts = Interrupts(self, texts, packets)

    def handlers(self) -> dict[int, Callable[[Row], None]]:
        """Return the handlers of events, by their kind."""
        own = {Kind.SWITCH: self.switch, Kind.WAKE: self.wake}
        return own | self.tasks.handlers() | self._calls.handlers() | self._interrupts.handlers()

    # Scheduling.

    def switch(self, row: Row) -> None:
        """Switch a CPU from one thread to another."""
        ts, cpu, _, tid, to, preempted, _, text = row
        processor = self.processors.get(cpu) or self.add_processor(cpu)
        if tid > 0:
            leaves = self.threads.get(tid) or self.tasks.add(tid, ts)
            if processor.current is not leaves or leaves.state != RUNNING:
                self._runs(leaves, processor, ts)
            leaves.segments.append((ts, RUNNING, processor, None, ts, ""))
            leaves.since = ts
            leaves.state = BP if preempted else BLOCKED
            if leaves.ended != FOREVER:
                self.tasks.end(leaves)
        elif processor.current is not None:
            self._idles(processor, ts)
        if to <= 0:
            processor.switch(ts, None)
            return
        comes = self.threads.get(to) or self.tasks.add(to, ts)
        state = comes.state
        if state == BP:
            comes.segments.append((ts, BP, processor, None, ts, ""))
        elif state == BLOCKED:
            # No wakeup was seen since it slept. If it was woken before, it never slept, but had to wait for a CPU.
            unwoken = BP if comes.woken else guessed(self._texts[comes.call] if comes.entered >= 0 else "", unknown=UN)
            comes.segments.append((ts, unwoken, processor, None, ts, ""))
        elif state == RUNNING:
            self._lost_sight(comes, ts)
        elif comes.since != ts:
            comes.segments.append((ts, UN, processor, None, ts, ""))
        comes.state = RUNNING
        comes.since = ts
        comes.cpu = processor
        comes.woken = False
        processor.switch(ts, comes)
        if text != comes.text and text >= 0:
            comes.rename(text, self._texts[text])

    def wake(self, row: Row) -> None:
        """Make a waiting thread runnable."""
        ts, cpu, flags, tid, target, _, _, text = row
        woken = self.threads.get(target) or self.tasks.add(target, ts)
        state = woken.state
        if state in {RUNNING, BP}:
            # If it seems to wait for a CPU, its switch to a CPU was missed.
            woken.woken = True
            return
        if state == UN:
            if woken.since != ts:
                woken.close(ts, UN, None)
        else:
            processor = self.processors.get(cpu) or self.add_processor(cpu)
            running = self.threads.get(tid) if tid > 0 else processor.current if tid < 0 else None
            called = self._texts[woken.call] if woken.entered >= 0 else ""
            state, waker, at, what = why(ts, processor, flags, running, woken, syscall=called)
            woken.segments.append((ts, state, processor, waker, at, what))
            woken.since = ts
        woken.state = BP
        if text >= 0 and woken.text < 0:
            woken.rename(text, self._texts[text])

    def add_processor(self, cpu: int) -> Processor:
        """Add a CPU that was not seen before."""
        processor = self.processors[cpu] = Processor(cpu)
        return processor

    # Contradictions: events are missing.

    def running(self, tid: int, ts: int, cpu: int) -> Thread:
        """Return the thread of an event, as the one that runs on its CPU."""
        thread = self.threads.get(tid) or self.tasks.add(tid, ts)
        if thread.state != RUNNING:
            self._runs(thread, self.processors.get(cpu) or self.add_processor(cpu), ts)
        return thread

    def _runs(self, thread: Thread, processor: Processor, ts: int) -> None:
        """Let a thread run on a CPU without a switch event.

        Some kernels do not report each switch from the idle thread, or from threads that they hide. A runnable thread
        gets an idle CPU at once, or after the interrupt that notifies the CPU. It gets the CPU of another thread at the
        end of an interrupt. If the time of the switch is unknown, the time before is `UN`.
        """
        since = thread.since
        if processor.seen and (thread.state == BP or (thread.state == BLOCKED and thread.woken)):
            idle = processor.current is None
            began = max(since, processor.since)
            came = processor.left if processor.left >= began else began if idle else ts
            waited = came if idle or came < ts else began
            thread.woken = thread.woken and thread.state == BP
            if waited > since:
                thread.close(waited, BP, processor)
        else:
            came, waited = ts, since
        if came > waited:
            self.out_of_step += processor.seen
            thread.close(came, UN, None)
        if processor.current is not None and processor.current is not thread:
            self._left(processor.current, processor, came)
        thread.state = RUNNING
        thread.since = came
        thread.cpu = processor
        processor.switch(came, thread)

    def _left(self, thread: Thread, processor: Processor, ts: int) -> None:
        """End the run of a thread whose CPU has another one by then: its switch was missed."""
        if thread.cpu is processor and thread.state == RUNNING:
            if ts > thread.since:
                thread.close(ts, RUNNING, processor)
            thread.state = UN
            thread.entered = NO_CALL

    def _idles(self, processor: Processor, ts: int) -> None:
        """Mark the thread of a CPU as unknown: it has left the CPU at a time that was missed."""
        if processor.current is not None and processor.current.cpu is processor:
            self._lost_sight(processor.current, ts)

    def _lost_sight(self, thread: Thread, ts: int) -> None:
        """Make the state of a thread unknown since it was last seen."""
        if thread.since != ts:
            thread.close(ts, UN, None)
        thread.state = UN
        thread.entered = NO_CALL

    def lost(self, begin: int, ts: int, cpu: int) -> None:
        """Forget what missing events may have changed; `cpu` -1 is for all CPUs.

        Only threads that ran on other CPUs all the time stay known.
        """
        for thread in self.threads.values():
            elsewhere = cpu >= 0 and thread.cpu is not None and thread.cpu.number != cpu
            if elsewhere and thread.state == RUNNING and thread.since <= begin:
                continue
            self._lost_sight(thread, ts)
            thread.known = ts
        for processor in self.processors.values():
            if cpu in {-1, processor.number}:
                processor.switch(ts, None)
                processor.seen = False
        self._holders.forget()
        self.listening.forget()

    # Memory.

    def forget(self, before: int) -> int:
        """Drop rows that ended by a time, and return how many are left."""
        left = self.tasks.forget(before)
        return left + sum(processor.forget(before) for processor in self.processors.values())
