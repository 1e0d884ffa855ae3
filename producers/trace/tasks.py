"""The threads and processes of one machine, from their beginning to their end, as its trace shows them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from laggard.producers.trace import calls
from laggard.producers.trace.events import Kind
from laggard.producers.trace.states import BP, UN
from laggard.producers.trace.threads import FOREVER, KTHREADD, Process, Thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.producers.trace.events import Row, Texts
    from laggard.producers.trace.holders import Holders


class Tasks:
    """The handlers of events that begin, name and end threads and processes.

    Args:
        machine: the name of the machine.
        threads: its live threads by thread id, which are updated.
        texts: the texts of its events.
        holders: the holders of file locks.

    """

    def __init__(self, machine: str, threads: dict[int, Thread], texts: Texts, holders: Holders) -> None:
        self._machine = machine
        self._threads = threads
        self._texts = texts
        self._holders = holders
        self._processes: dict[int, Process] = {}
        self._dead: deque[Thread] = deque()

    def handlers(self) -> dict[int, Callable[[Row], None]]:
        """Return the handlers of events, by their kind."""
        return {Kind.FORK: self.fork, Kind.EXEC: self.exec, Kind.EXIT: self.exit, Kind.NAMED: self.named}

    def fork(self, row: Row) -> None:
        """Add a new thread, and end an older one with its id."""
        ts, _, _, tid, child, pid, _, text = row
        parent = self._threads.get(tid)
        before = self._threads.get(child)
        if before is not None:
            self.end(before)
        process = self._forked(parent, child, pid)
        thread = self._threads[child] = Thread(self._machine, child, process, ts)
        thread.state = BP
        thread.born = ts
        thread.parent = parent
        thread.kernel = tid == KTHREADD or (parent is not None and parent.kernel)
        if text >= 0:
            thread.rename(text, self._texts[text])

    def exec(self, row: Row) -> None:
        """Make the thread a process of its own, also if its fork did not show that."""
        _, _, _, tid, _, _, _, _ = row
        thread = self._threads.get(tid)
        if thread is not None and thread.process.pid != tid:
            files = dict(thread.process.files)
            thread.process = self._processes[tid] = Process(tid, files)

    def exit(self, row: Row) -> None:
        """Note the end of a thread: it still runs until the next switch."""
        ts, _, _, tid, _, _, _, _ = row
        thread = self._threads.get(tid)
        if thread is not None:
            thread.ended = ts

    def named(self, row: Row) -> None:
        """Learn the process and the name of a thread from another source."""
        ts, _, _, _, tid, pid, _, text = row
        if tid <= 0:
            return
        thread = self._threads.get(tid) or self.add(tid, ts)
        if pid > 0 and pid != thread.process.pid:
            thread.process = self._process(pid)
        if text >= 0:
            thread.rename(text, self._texts[text])

    def add(self, tid: int, ts: int) -> Thread:
        """Add a thread that lived before the trace began."""
        thread = self._threads[tid] = Thread(self._machine, tid, self._process(tid), ts)
        return thread

    def end(self, thread: Thread) -> None:
        """Remove a thread that has ended."""
        if self._threads.get(thread.tid) is thread:
            del self._threads[thread.tid]
        if thread.ended == FOREVER:
            thread.ended = thread.since
        thread.state = UN
        self._dead.append(thread)
        if thread.tid == thread.process.pid:
            self._processes.pop(thread.tid, None)
        self._holders.forget(thread)

    def forget(self, before: int) -> int:
        """Drop rows that ended by a time, of live and ended threads, and return how many are left."""
        dead = self._dead
        while dead and dead[0].ended <= before:
            gone = dead.popleft()
            gone.segments.clear()
            gone.calls.clear()
            gone.parent = None
        left = sum(thread.forget(before) for thread in self._threads.values())
        return left + sum(thread.forget(before) for thread in dead)

    def _forked(self, parent: Thread | None, tid: int, pid: int) -> Process:
        if parent is None:
            return self._process(pid or tid)
        if pid == 0:
            name = self._texts[parent.call] if parent.entered >= 0 else ""
            same = name == "clone3" or (name == "clone" and bool(parent.argument & calls.CLONE_THREAD))
            pid = parent.process.pid if same else tid
        if pid == parent.process.pid:
            return parent.process
        process = self._processes[pid] = Process(pid, dict(parent.process.files))
        process.name = parent.process.name
        return process

    def _process(self, pid: int) -> Process:
        process = self._processes.get(pid)
        if process is None:
            process = self._processes[pid] = Process(pid)
        return process
