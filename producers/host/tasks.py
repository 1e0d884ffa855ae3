"""Threads of a process, and the counters that the kernel has for single threads only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from laggard.producers.system.foreign import names
from laggard.producers.system.open_files import BUFFER, out_of_descriptors
from laggard.producers.system.proc import Schedstat, parse_schedstat, parse_switches

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.producers.host.thread import Thread
    from laggard.producers.system.open_files import FileBudget

    Watch = Callable[[str, str], Thread]

FILES = ("stat", "schedstat", "io", "status")
STAT, SCHEDSTAT, IO, STATUS = range(len(FILES))


class Task:
    """A thread, with the counters that the kernel has for single threads only.

    Attributes:
        thread: all its counters, if it is watched.

    """

    __slots__ = ("_files", "descriptors", "path", "schedstat", "schedstat_text", "switches", "thread")

    def __init__(self, path: str, files: FileBudget) -> None:
        self.path = path
        self.descriptors = [-1] * len(FILES)
        self.schedstat_text = b""
        self.schedstat = Schedstat(0, 0, 0)
        self.switches = (0, 0)
        self.thread: Thread | None = None
        self._files = files

    def text(self, which: int) -> bytes:
        """Read one of its files."""
        descriptor = self.descriptors[which]
        if descriptor >= 0:
            text = os.pread(descriptor, BUFFER, 0)
            if len(text) < BUFFER:
                return text
        return self._files.read(self.descriptors, which, self._place(which))

    def _place(self, which: int) -> str:
        """Return the path of one of its files."""
        return f"{self.path}/{FILES[which]}"

    def release(self) -> None:
        """Close its files."""
        self._files.release(self.descriptors)
        self.unwatch()

    def unwatch(self) -> None:
        """Stop watching it."""
        if self.thread is not None:
            self.thread.release()
            self.thread = None


class Threads:
    """All threads of a process except its first.

    Each is read whenever its process ran. A thread that was absent at the last reading began since, with counters of
    zero. Its values between its last reading and its end are lost.

    Attributes:
        wait_ns: the time that they waited for a CPU; this and the others include ended ones.
        timeslices: the number of their timeslices.
        switches: the numbers of their voluntary and involuntary switches.
        watch: makes a watched thread of its number and its path; None to watch none.

    """

    __slots__ = ("_files", "_path", "_pid", "_tasks", "switches", "timeslices", "wait_ns", "watch")

    def __init__(self, pid: int, path: str, files: FileBudget) -> None:
        self._pid = str(pid)
        self._path = f"{path}/task"
        self._files = files
        self._tasks: dict[str, Task] = {}
        self.wait_ns = self.timeslices = 0
        self.switches = (0, 0)
        self.watch: Watch | None = None

    @property
    def watched(self) -> list[Thread]:
        """The watched ones."""
        return [task.thread for task in self._tasks.values() if task.thread is not None]

    def __len__(self) -> int:
        return len(self._tasks)

    def update(self, count: int) -> None:
        """Add the counters since the last reading; `count` is the present number of threads.

        Raises ProcError for a malformed text.
        """
        for tid, task in list(self._tasks.items()):
            self._update(tid, task)
        if len(self._tasks) != count:  # the loop above dropped ended ones: one in their place is missing now
            for tid in names(self._path):
                if tid not in self._tasks and tid != self._pid:
                    self._tasks[tid] = task = Task(f"{self._path}/{tid}", self._files)
                    self._update(tid, task)

    def unwatch(self) -> None:
        """Stop watching them."""
        self.watch = None
        for task in self._tasks.values():
            task.unwatch()

    def release(self) -> None:
        """Close their files, and forget them and their counters: the next update adds up all counters again."""
        for task in self._tasks.values():
            task.release()
        self._tasks.clear()
        self.wait_ns = self.timeslices = 0
        self.switches = (0, 0)

    def _update(self, tid: str, task: Task) -> None:
        try:
            text = task.text(SCHEDSTAT)
            if text == task.schedstat_text and (self.watch is None or task.thread is not None):
                return
            schedstat = parse_schedstat(text, task.path)
            switches = parse_switches(task.text(STATUS), task.path)
            if self.watch is not None:
                if task.thread is None:
                    task.thread = self.watch(tid, task.path)
                task.thread.read(schedstat, switches)
        except OSError as error:
            if out_of_descriptors(error):
                raise
            task.release()  # it ended
            del self._tasks[tid]
            return
        self.wait_ns += schedstat.wait_ns - task.schedstat.wait_ns
        self.timeslices += schedstat.timeslices - task.schedstat.timeslices
        voluntary, involuntary = self.switches
        self.switches = voluntary + switches[0] - task.switches[0], involuntary + switches[1] - task.switches[1]
        task.schedstat_text, task.schedstat, task.switches = text, schedstat, switches
