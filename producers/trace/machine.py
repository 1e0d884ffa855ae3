"""One machine as its trace tells it: what each kind of event means for its threads, CPUs, descriptors and locks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from laggard.producers.diagnosis import system_calls
from laggard.producers.trace import calls
from laggard.producers.trace.events import Kind
from laggard.producers.trace.holders import CHANGING, LOCKING, Holders
from laggard.producers.trace.states import BP, RUNNING, UN, guessed, softirq
from laggard.producers.trace.threads import BEGINNING, FOREVER, NO_CALL, Process, Processor, Thread
from laggard.producers.trace.waking import why

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.producers.trace.events import Texts

Row = tuple[int, int, int, int, int, int, int, int]
"""An event but for its kind and host: time, CPU, flags, thread, `a`, `b`, `c`, text."""

BLOCKED: Final = 11
"""Of a thread that left its CPU and has not been woken yet: by what it will be woken is what its state was."""

MAX_PACKETS: Final = 65_536
"""On their way between machines at once."""

_KERNEL: Final = (
    *("kworker", "ksoftirqd", "migration/", "rcu_", "rcuog", "rcuop", "jbd2/", "kswapd", "kcompactd", "kthreadd"),
    *("khugepaged", "irq/", "cpuhp/", "idle_inject/", "kdevtmpfs", "oom_reaper", "writeback"),
)
"""How names of kernel threads begin."""

_KTHREADD: Final = 2


class Machine:
    """What is known of one machine at a point of its trace.

    Attributes:
        name: of the machine; may be empty.
        threads: those that live, by thread id.
        processors: its CPUs, by number.
        out_of_step: how often a CPU's thread was not the one that its last switch had named.

    """

    def __init__(self, name: str, texts: Texts, packets: dict[int, tuple[Thread, int]]) -> None:
        self.name = name
        self.threads: dict[int, Thread] = {}
        self.processors: dict[int, Processor] = {}
        self.out_of_step = 0
        self._texts = texts
        self._packets = packets
        self._processes: dict[int, Process] = {}
        self._holders = Holders()
        self._kinds: dict[int, int] = {}
        self._names: dict[int, int] = {}
        self._dead: deque[Thread] = deque()

    def handlers(self) -> dict[int, Callable[[Row], None]]:
        """What is to be called for an event, by its kind."""
        return {
            Kind.SWITCH: self.switch,
            Kind.WAKE: self.wake,
            Kind.FORK: self.fork,
            Kind.EXEC: self.exec,
            Kind.EXIT: self.exit,
            Kind.NAMED: self.named,
            Kind.SYSCALL_ENTER: self.syscall_enter,
            Kind.SYSCALL_EXIT: self.syscall_exit,
            Kind.IRQ_ENTER: self.irq_enter,
            Kind.IRQ_EXIT: self.irq_exit,
            Kind.SOFTIRQ_ENTER: self.softirq_enter,
            Kind.SOFTIRQ_EXIT: self.softirq_exit,
            Kind.TIMER_ENTER: self.timer_enter,
            Kind.TIMER_EXIT: self.timer_exit,
            Kind.BLOCK_COMPLETE: self.block_complete,
            Kind.NET_SEND: self.net_send,
            Kind.NET_RECEIVE: self.net_receive,
            Kind.OPENED: self.opened,
            Kind.CLOSED: self.closed,
            Kind.PATH: self.path,
        }

    # Scheduling.

    def switch(self, row: Row) -> None:
        """A thread leaves a CPU, another one comes."""
        ts, cpu, _, tid, to, preempted, _, text = row
        processor = self.processors.get(cpu) or self._processor(cpu)
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
            # Nobody woke it since it slept. If somebody had before, then it never slept, but had to wait for a CPU.
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
        """A thread that waited may run."""
        ts, cpu, flags, tid, whom, _, _, text = row
        woken = self.threads.get(whom) or self._thread(whom, ts)
        state = woken.state
        if state in {RUNNING, BP}:
            # Of one that seems to wait for a CPU, it tells that its coming has been missed.
            woken.woken = True
            return
        if state == UN:
            if woken.since != ts:
                woken.close(ts, UN, None)
        else:
            processor = self.processors.get(cpu) or self._processor(cpu)
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
        """A new thread, whatever had its id before."""
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
        thread.kernel = tid == _KTHREADD or (parent is not None and parent.kernel)
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
        """It is a process of its own from now on, also where that could not be told when it was forked."""
        _, _, _, tid, _, _, _, _ = row
        thread = self.threads.get(tid)
        if thread is not None and thread.process.pid != tid:
            files = dict(thread.process.files)
            thread.process = self._processes[tid] = Process(tid, files)

    def exit(self, row: Row) -> None:
        """It still runs, until it is switched from."""
        ts, _, _, tid, _, _, _, _ = row
        thread = self.threads.get(tid)
        if thread is not None:
            thread.ended = ts

    def named(self, row: Row) -> None:
        """Known from elsewhere."""
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
        """One that lived before the trace began."""
        return self._made(tid, self._process(tid), ts)

    def _made(self, tid: int, process: Process, ts: int) -> Thread:
        thread = self.threads[tid] = Thread(self.name, tid, process, ts)
        return thread

    def _name(self, thread: Thread, text: int) -> None:
        thread.text = text
        thread.name = self._texts[text]
        if thread.tid == thread.process.pid or not thread.process.name:
            thread.process.name = thread.name
        if thread.name.startswith(_KERNEL):
            thread.kernel = True

    def _processor(self, cpu: int) -> Processor:
        processor = self.processors[cpu] = Processor(cpu)
        return processor

    # What does not fit: events are missing.

    def running(self, tid: int, ts: int, cpu: int) -> Thread:
        """The thread that an event names, as the one that runs on its CPU."""
        thread = self.threads.get(tid) or self._thread(tid, ts)
        if thread.state != RUNNING:
            self._runs(thread, self.processors.get(cpu) or self._processor(cpu), ts)
        return thread

    def _runs(self, thread: Thread, processor: Processor, ts: int) -> None:
        """It runs there, though no switch has told so.

        Not all kernels tell of each switch from the idle thread, or from threads that they hide. A thread that may run
        has an idle CPU at once, or after the interrupt that tells the CPU so; it has another thread's at the end of an
        interrupt. What is not known then is when, and is `UN`.
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
        """Another thread has its CPU by then: that it left has been missed."""
        if thread.cpu is processor and thread.state == RUNNING:
            if ts > thread.since:
                thread.close(ts, RUNNING, processor)
            thread.state = UN
            thread.entered = NO_CALL

    def _idles(self, processor: Processor, ts: int) -> None:
        """Whoever had it has left it, at a time that was missed."""
        if processor.current is not None and processor.current.cpu is processor:
            self._lost_sight(processor.current, ts)

    def _lost_sight(self, thread: Thread, ts: int) -> None:
        """What it did since it was last seen is not known."""
        if thread.since != ts:
            thread.close(ts, UN, None)
        thread.state = UN
        thread.entered = NO_CALL

    def lost(self, begin: int, ts: int, cpu: int) -> None:
        """Events of a CPU, or of all (-1), are missing: only threads that ran on other CPUs all the time are known."""
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
        """A thread asks the kernel."""
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
        """The kernel answers."""
        ts, cpu, _, tid, number, result, _, text = row
        thread = self.threads.get(tid)
        if thread is None or thread.state != RUNNING:
            thread = self.running(tid, ts, cpu)
        entered = thread.entered
        thread.woken = False
        if entered < 0:
            # It was entered before the trace began, or while events were lost.
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

    # Interrupts, devices and packets.

    def irq_enter(self, row: Row) -> None:
        """A hardware interrupt begins."""
        ts, cpu, _, tid, number, _, _, text = row
        processor = self.processors.get(cpu) or self._processor(cpu)
        if tid > 0 and (processor.current is None or processor.current.tid != tid):
            self.running(tid, ts, cpu)
        processor.enter(ts, hard=True, number=number, name=self._texts[text] or f"irq {number}")

    def irq_exit(self, row: Row) -> None:
        """It ends."""
        ts, cpu, _, _, _, _, _, _ = row
        (self.processors.get(cpu) or self._processor(cpu)).leave(ts, hard=True)

    def softirq_enter(self, row: Row) -> None:
        """A soft interrupt begins."""
        ts, cpu, _, _, vector, _, _, _ = row
        processor = self.processors.get(cpu) or self._processor(cpu)
        processor.enter(ts, hard=False, number=vector, name=softirq(vector)[1])

    def softirq_exit(self, row: Row) -> None:
        """It ends."""
        ts, cpu, _, _, _, _, _, _ = row
        (self.processors.get(cpu) or self._processor(cpu)).leave(ts, hard=False)

    def timer_enter(self, row: Row) -> None:
        """A timer expires."""
        _, cpu, _, _, _, _, _, _ = row
        (self.processors.get(cpu) or self._processor(cpu)).timer = True

    def timer_exit(self, row: Row) -> None:
        """What it was set for is done."""
        _, cpu, _, _, _, _, _, _ = row
        (self.processors.get(cpu) or self._processor(cpu)).timer = False

    def block_complete(self, row: Row) -> None:
        """A device has done what it was asked for."""
        _, cpu, _, _, device, _, _, text = row
        processor = self.processors.get(cpu) or self._processor(cpu)
        processor.completed = self._texts[text] or f"{device >> 20}:{device & 0xFFFFF}"

    def net_send(self, row: Row) -> None:
        """A packet leaves."""
        ts, cpu, _, tid, packet, _, _, _ = row
        processor = self.processors.get(cpu) or self._processor(cpu)
        sender = self.threads.get(tid) if tid > 0 else processor.current
        # What an interrupt sends is not the work of the thread that it interrupts.
        if sender is not None and all(inline for *_, inline in processor.nested):
            self._packets[packet] = (sender, ts)
            if len(self._packets) > MAX_PACKETS:
                del self._packets[next(iter(self._packets))]

    def net_receive(self, row: Row) -> None:
        """A packet arrives."""
        ts, cpu, _, _, packet, _, _, _ = row
        processor = self.processors.get(cpu) or self._processor(cpu)
        sent = self._packets.pop(packet, None)
        if sent is not None and sent[1] <= ts and sent[0].machine != self.name:
            processor.received = sent

    # Descriptors.

    def opened(self, row: Row) -> None:
        """A descriptor is known."""
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
        """A descriptor means nothing any more."""
        _, _, _, tid, descriptor, _, _, _ = row
        thread = self.threads.get(tid)
        if thread is not None:
            thread.process.files.pop(descriptor, None)

    def path(self, row: Row) -> None:
        """The system call that a thread is in takes this path or address."""
        _, _, _, tid, _, _, _, text = row
        thread = self.threads.get(tid)
        if thread is not None and thread.entered >= 0:
            thread.on = self._texts[text]

    # What is kept.

    def forget(self, before: int) -> int:
        """Drops what ended by then; returns how many pieces are left."""
        dead = self._dead
        while dead and dead[0].ended <= before:
            gone = dead.popleft()
            gone.segments.clear()
            gone.calls.clear()
            gone.parent = None
        left = sum(thread.forget(before) for thread in self.threads.values())
        left += sum(thread.forget(before) for thread in dead)
        return left + sum(processor.forget(before) for processor in self.processors.values())
