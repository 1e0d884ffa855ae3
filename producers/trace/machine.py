"""The state of one machine, as its trace shows it: threads, CPUs, descriptors and locks, updated by each event."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from laggard.producers.diagnosis import system_calls
from laggard.producers.trace import calls
from laggard.producers.trace.events import Kind
from laggard.producers.trace.holders import CHANGING, LOCKING, Holders
from laggard.producers.trace.interrupts import Interrupts
from laggard.producers.trace.states import BP, RUNNING, UN, guessed
from laggard.producers.trace.threads import BEGINNING, FOREVER, KTHREADD, NO_CALL, Process, Processor, Thread
from laggard.producers.trace.waking import why

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.producers.trace.events import Row, Texts

BLOCKED: Final = 11
"""The state of a thread that left its CPU and has not been woken yet: its waker decides the final state."""


class Machine:
    """The state of one machine at a point of its trace.

    Attributes:
        name: the name of the machine; may be empty.
        threads: the live threads, by thread id.
        processors: its CPUs, by number.
        out_of_step: how often a thread ran on a CPU without a switch to it, since an unknown time.

    """

    def __init__(self, name: str, texts: Texts, packets: dict[int, tuple[Thread, int]]) -> None:
        self.name = name
        self.threads: dict[int, Thread] = {}
        self.processors: dict[int, Processor] = {}
        self.out_of_step = 0
        self._texts = texts
        self._interrupts = Interrupts(self, texts, packets)
        self._processes: dict[int, Process] = {}
        self._holders = Holders()
        self._kinds: dict[int, int] = {}
        self._names: dict[int, int] = {}
        self._dead: deque[Thread] = deque()

    def handlers(self) -> dict[int, Callable[[Row], None]]:
        """Return the handlers of events, by their kind."""
        return {
            Kind.SWITCH: self.switch,
            Kind.WAKE: self.wake,
            Kind.FORK: self.fork,
            Kind.EXEC: self.exec,
            Kind.EXIT: self.exit,
            Kind.NAMED: self.named,
            Kind.SYSCALL_ENTER: self.syscall_enter,
            Kind.SYSCALL_EXIT: self.syscall_exit,
            Kind.OPENED: self.opened,
            Kind.CLOSED: self.closed,
            Kind.PATH: self.path,
        } | self._interrupts.handlers()

    # Scheduling.

    def switch(self, row: Row) -> None:
        """Switch a CPU from one thread to another."""
        ts, cpu, _, tid, to, preempted, _, text = row
        processor = self.processors.get(cpu) or self.add_processor(cpu)
        if tid > 0:
            leaves = self.threads.get(tid) or self._thread(tid, ts)
            if processor.current is not leaves or leaves.state != RUNNING:
                self._runs(leaves, processor, ts)
            leaves.segments.append((ts, RUNNING, processor, None, ts, ""))
            leaves.since = ts
            leaves.state = BP if preempted else BLOCKED
            if leaves.ended != FOREVER:
                self._gone(leaves)
        elif processor.current is not None:
            self._idles(processor, ts)
        if to <= 0:
            processor.switch(ts, None)
            return
        comes = self.threads.get(to) or self._thread(to, ts)
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
            self._name(comes, text)

    def wake(self, row: Row) -> None:
        """Make a waiting thread runnable."""
        ts, cpu, flags, tid, whom, _, _, text = row
        woken = self.threads.get(whom) or self._thread(whom, ts)
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
            state, waker, at, what = why(ts, processor, flags, running, woken, syscall=self._called(woken))
            woken.segments.append((ts, state, processor, waker, at, what))
            woken.since = ts
        woken.state = BP
        if text >= 0 and woken.text < 0:
            self._name(woken, text)

    def _called(self, thread: Thread) -> str:
        return self._texts[thread.call] if thread.entered >= 0 else ""

    # Threads.

    def fork(self, row: Row) -> None:
        """Add a new thread, and end an older one with its id."""
        ts, _, _, tid, whom, pid, _, text = row
        parent = self.threads.get(tid)
        before = self.threads.get(whom)
        if before is not None:
            self._gone(before)
        process = self._forked(parent, whom, pid)
        thread = self._made(whom, process, ts)
        thread.state = BP
        thread.born = ts
        thread.parent = parent
        thread.kernel = tid == KTHREADD or (parent is not None and parent.kernel)
        if text >= 0:
            self._name(thread, text)

    def _forked(self, parent: Thread | None, tid: int, pid: int) -> Process:
        if parent is None:
            return self._process(pid or tid)
        if pid == 0:
            name = self._called(parent)
            same = name == "clone3" or (name == "clone" and bool(parent.argument & calls.CLONE_THREAD))
            pid = parent.process.pid if same else tid
        if pid == parent.process.pid:
            return parent.process
        process = self._processes[pid] = Process(pid, dict(parent.process.files))
        process.name = parent.process.name
        return process

    def exec(self, row: Row) -> None:
        """Make the thread a process of its own, also if its fork did not show that."""
        _, _, _, tid, _, _, _, _ = row
        thread = self.threads.get(tid)
        if thread is not None and thread.process.pid != tid:
            files = dict(thread.process.files)
            thread.process = self._processes[tid] = Process(tid, files)

    def exit(self, row: Row) -> None:
        """Note the end of a thread: it still runs until the next switch."""
        ts, _, _, tid, _, _, _, _ = row
        thread = self.threads.get(tid)
        if thread is not None:
            thread.ended = ts

    def named(self, row: Row) -> None:
        """Learn the process and the name of a thread from another source."""
        ts, _, _, _, whom, pid, _, text = row
        if whom <= 0:
            return
        thread = self.threads.get(whom) or self._thread(whom, ts)
        if pid > 0 and pid != thread.process.pid:
            thread.process = self._process(pid)
        if text >= 0:
            self._name(thread, text)

    def _gone(self, thread: Thread) -> None:
        if self.threads.get(thread.tid) is thread:
            del self.threads[thread.tid]
        if thread.ended == FOREVER:
            thread.ended = thread.since
        thread.state = UN
        self._dead.append(thread)
        if thread.tid == thread.process.pid:
            self._processes.pop(thread.tid, None)
        self._holders.forget(thread)

    def _process(self, pid: int) -> Process:
        process = self._processes.get(pid)
        if process is None:
            process = self._processes[pid] = Process(pid)
        return process

    def _thread(self, tid: int, ts: int) -> Thread:
        """Add a thread that lived before the trace began."""
        return self._made(tid, self._process(tid), ts)

    def _made(self, tid: int, process: Process, ts: int) -> Thread:
        thread = self.threads[tid] = Thread(self.name, tid, process, ts)
        return thread

    def _name(self, thread: Thread, text: int) -> None:
        thread.rename(text, self._texts[text])

    def add_processor(self, cpu: int) -> Processor:
        """Add a CPU that was not seen before."""
        processor = self.processors[cpu] = Processor(cpu)
        return processor

    # Contradictions: events are missing.

    def running(self, tid: int, ts: int, cpu: int) -> Thread:
        """Return the thread of an event, as the one that runs on its CPU."""
        thread = self.threads.get(tid) or self._thread(tid, ts)
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

    # System calls.

    def syscall_enter(self, row: Row) -> None:
        """Begin a system call."""
        ts, cpu, _, tid, number, b, c, text = row
        thread = self.threads.get(tid)
        if thread is None or thread.state != RUNNING:
            thread = self.running(tid, ts, cpu)
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
        thread = self.threads.get(tid)
        if thread is None or thread.state != RUNNING:
            thread = self.running(tid, ts, cpu)
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
        if thread.opened:
            if result >= 0:
                thread.process.files[result] = thread.opened
            thread.opened = ""

    def _numbered(self, number: int) -> int:
        place = self._names.get(number)
        if place is None:
            place = self._names[number] = self._texts.place(system_calls.name(number, machine="x86_64"))
        return place

    # Descriptors.

    def opened(self, row: Row) -> None:
        """Learn the path or address of a descriptor."""
        ts, _, _, tid, descriptor, _, _, text = row
        thread = self.threads.get(tid) or self._thread(tid, ts)
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
        thread = self.threads.get(tid)
        if thread is not None:
            thread.process.files.pop(descriptor, None)

    def path(self, row: Row) -> None:
        """Learn the path or address that a thread's current system call uses."""
        _, _, _, tid, _, _, _, text = row
        thread = self.threads.get(tid)
        if thread is not None and thread.entered >= 0:
            thread.on = self._texts[text]

    # Memory.

    def forget(self, before: int) -> int:
        """Drop rows that ended by a time, and return how many are left."""
        dead = self._dead
        while dead and dead[0].ended <= before:
            gone = dead.popleft()
            gone.segments.clear()
            gone.calls.clear()
            gone.parent = None
        left = sum(thread.forget(before) for thread in self.threads.values())
        left += sum(thread.forget(before) for thread in dead)
        return left + sum(processor.forget(before) for processor in self.processors.values())
