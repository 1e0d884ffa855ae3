"""The threads of one process: which there are, their CPU time, and what the blocked ones wait for.

All of it is read from procfs, without stopping the process.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from laggard.producers.diagnosis import system_calls
from laggard.producers.diagnosis.parsers import parse_stack, parse_syscall, parse_wchan
from laggard.producers.host.cpu_time import CpuTime
from laggard.producers.system import foreign
from laggard.producers.system.open_files import out_of_descriptors
from laggard.producers.system.proc import PF_KTHREAD, parse_name, parse_schedstat, parse_stat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.pipeline.core.records.diagnosis import Location, ThreadState
    from laggard.producers.diagnosis.parsers import Blocked
    from laggard.producers.system.kernel import Kernel
    from laggard.producers.system.open_files import FileBudget
    from laggard.producers.system.proc import Stat

FILES = ("schedstat", "stat")
SCHEDSTAT, STAT = range(len(FILES))

_ENDED = (b"Z", b"X", b"x")
_UNINTERRUPTIBLE = b"D"
_FOR_OTHERS = 4  # with many threads, one place in this many is for those that did not run at their last sample
_READ_AGAIN = 4  # the stack of a thread that stays at the same place is read at one in this many samples
_READ_MOST = 32  # the most stacks that are read in a round; those of other threads are read in later ones
_FIND_ROUNDS = 16  # the number of rounds between two searches for the running ones of many threads


class ThreadSample(NamedTuple):
    """The state and the place of a thread at one time, as in `Sample`."""

    locations: tuple[Location, ...]
    state: ThreadState
    wait_channel: str = ""
    system_call: str = ""


RUNNING = ThreadSample((), "running")
UNKNOWN = ThreadSample((), "blocked")

_Called = tuple[tuple[int | None, int, int], "Sequence[Location]", int]
_NOT_READ: _Called = (None, 0, 0), (), 0


class Thread:
    """One thread during its life.

    Attributes:
        tid: its id on the host.
        new: whether it began after the first round, so that all of its CPU time counts.
        name: its name.
        start_ticks: its start time, in clock ticks since boot.
        cpu: its CPU time since its start.
        before_s: the part of that in user mode and in the kernel before its last sample, or before sampling began.
        ran: whether it used CPU time between its last two samples, or ran at the last one.
        uninterruptible: whether it was in uninterruptible sleep at the last sample.
        called: the place at which its stack was read last, its callers there, and the number of samples with them.
        look: its last sample.
        seen: the round of that; 0 for none.
        unread: whether its stack is still to be read.

    """

    __slots__ = (
        "before_s",
        "called",
        "cpu",
        "descriptors",
        "look",
        "name",
        "new",
        "ran",
        "run_text",
        "seen",
        "start_ticks",
        "tid",
        "uninterruptible",
        "unread",
    )

    def __init__(self, tid: int, *, new: bool) -> None:
        self.tid = tid
        self.new = new
        self.name = ""
        self.start_ticks = 0
        self.cpu = CpuTime()
        self.before_s = (0.0, 0.0)
        self.ran = self.uninterruptible = self.unread = False
        self.called = _NOT_READ
        self.look = UNKNOWN
        self.run_text = b""
        self.seen = 0
        self.descriptors = [-1] * len(FILES)


class _Places:
    """Finds where threads are blocked.

    Args:
        locate: returns the location of an address of the process.
        callers: returns the known callers of the function in which a thread is blocked, the innermost first.
        bits: the word size of the program, for the numbers of system calls.

    Attributes:
        denied: the files that may not be read: of `syscall`, `stack`.
        to_read: the number of stacks that may still be read in this round.

    """

    def __init__(
        self, locate: Callable[[int], Location], callers: Callable[[Blocked], Sequence[Location]], bits: int
    ) -> None:
        self.denied: set[str] = set()
        self.to_read = 0
        self._locate = locate
        self._callers = callers
        self._bits = bits

    def sample(self, place: str, stat: Stat, thread: Thread) -> ThreadSample:
        """Sample one thread.

        Args:
            place: its folder.
            stat: its present `stat`.
            thread: the thread.

        Returns:
            The sample.

        Raises:
            OSError: it has ended.
            ProcError: a text is malformed.

        """
        if stat.state == b"R":
            return RUNNING
        if stat.flags & PF_KTHREAD:
            stack = self._kernel_stack(place)
            return ThreadSample(stack, "blocked", self._wait_channel(place, stack))
        try:
            text = self._permitted(place, "syscall")
            # The kernel stack matters only for a thread that is stuck in the kernel.
            kernel = self._kernel_stack(place) if stat.state == _UNINTERRUPTIBLE else ()
            blocked = parse_syscall(text, f"{place}/syscall")
            callers = self._called(thread, blocked) if blocked is not None and blocked.address else ()
            again = self._permitted(place, "syscall")
            if again != text:  # it continued in between: the stack in the kernel may be that of another call
                before, blocked, kernel = blocked, parse_syscall(again, f"{place}/syscall"), ()
                if before is None or blocked is None or before.place != blocked.place:
                    callers, thread.called = (), _NOT_READ
        except PermissionError:
            return ThreadSample((), "blocked", self._wait_channel(place, ()))
        if blocked is None:
            return RUNNING
        called = "" if blocked.number is None else system_calls.name(blocked.number, bits=self._bits)
        locations = (*kernel, self._locate(blocked.address), *callers) if blocked.address else kernel
        return ThreadSample(locations, "blocked", self._wait_channel(place, kernel), called)

    def _called(self, thread: Thread, blocked: Blocked) -> Sequence[Location]:
        """Return the callers of the function in which it is blocked: read now, or at an earlier sample of the place."""
        place, callers, uses = thread.called
        if place != blocked.place or uses >= _READ_AGAIN:
            thread.unread = not self.to_read
            if thread.unread:
                return ()
            callers, uses = self._callers(blocked), 0
            self.to_read -= 1
        thread.called = blocked.place, callers, uses + 1
        return callers

    def _kernel_stack(self, place: str) -> tuple[Location, ...]:
        try:
            return parse_stack(self._permitted(place, "stack"), f"{place}/stack")
        except PermissionError:
            return ()

    def _wait_channel(self, place: str, stack: tuple[Location, ...]) -> str:
        return stack[0].function if stack else parse_wchan(foreign.head(f"{place}/wchan"))

    def _permitted(self, place: str, name: str) -> bytes:
        """Read a file of a thread. Raises `PermissionError` if that is not permitted, and does not try again."""
        if name in self.denied:
            raise PermissionError(name)
        try:
            return foreign.head(f"{place}/{name}")
        except PermissionError:
            self.denied.add(name)
            raise


class Threads:
    """Samples the threads of one process, round by round.

    A blocked thread that was not scheduled since its last sample, by `schedstat`, has not moved: nothing else of it is
    read, except for a stack that is still unread. CPU time is exact in sum, as in `CpuTime`. That of a thread between
    its last sample and its end is lost.

    Args:
        path: the path of the process below a root of procfs; best through an open directory, which never becomes that
            of another process.
        kernel: the features of the kernel there.
        files: the budget of open files.
        limit: the most threads that one round samples; see `Limits.threads`.
        locate: returns the location of an address of the process.
        callers: returns the known callers of the function in which a thread is blocked, the innermost first.
        bits: the word size of its program, for the numbers of system calls.

    Attributes:
        count: the number of threads at the last round.
        denied: the files that may not be read: of `syscall`, `stack`.

    """

    def __init__(
        self,
        path: str,
        kernel: Kernel,
        files: FileBudget,
        *,
        limit: int,
        locate: Callable[[int], Location],
        callers: Callable[[Blocked], Sequence[Location]],
        bits: int = 64,
    ) -> None:
        self.count = 0
        self._places = _Places(locate, callers, bits)
        self.denied = self._places.denied
        self._path = f"{path}/task"
        self._kernel = kernel
        self._files = files
        self._limit = limit
        self._round = 0
        self._threads: dict[int, Thread] = {}

    def sample(self) -> tuple[list[Thread], list[Thread]]:
        """Make one round: return the sampled threads, and those sampled before that have ended since the last one.

        Raises:
            OSError: the process is gone.
            ProcError: a text is malformed.

        """
        self._round += 1
        self._places.to_read = _READ_MOST
        ended = self._list()
        if len(self._threads) > self._limit and self._round % _FIND_ROUNDS == 1:
            self._find_busy()
        sampled = []
        for thread in self._chosen():
            try:
                if self._read(thread):
                    sampled.append(thread)
                    continue
            except (FileNotFoundError, ProcessLookupError):
                pass
            except OSError as error:
                if not out_of_descriptors(error):
                    raise
                self._shed()
                continue
            ended.append(self._remove(thread.tid))
        return sampled, [thread for thread in ended if thread.seen]

    def mark(self, tids: set[int]) -> None:
        """Mark these threads as having run, as a profiler has found."""
        for tid in tids & self._threads.keys():
            self._threads[tid].ran = True

    def last_sample(self, tid: int) -> ThreadSample:
        """Return the last sample of a thread; `UNKNOWN` without one."""
        thread = self._threads.get(tid)
        return thread.look if thread else UNKNOWN

    def close(self) -> None:
        """Close all files."""
        for thread in self._threads.values():
            self._files.release(thread.descriptors)

    def _list(self) -> list[Thread]:
        """Update the list of threads, and return the ended ones."""
        tids = set(map(int, foreign.names(self._path)))
        self.count = len(tids)
        ended = [self._remove(tid) for tid in self._threads.keys() - tids]
        for tid in tids - self._threads.keys():
            self._threads[tid] = Thread(tid, new=self._round > 1)
        return ended

    def _find_busy(self) -> None:
        """Find the ones of many threads that run at this moment: by turns alone it would take long to reach them."""
        for thread in self._threads.values():
            try:
                text = foreign.head(f"{self._path}/{thread.tid}/stat")
            except OSError:
                continue  # it ended
            thread.ran |= text[text.rfind(b")") + 2 :].startswith(b"R")

    def _remove(self, tid: int) -> Thread:
        thread = self._threads.pop(tid)
        self._files.release(thread.descriptors)
        return thread

    def _chosen(self) -> list[Thread]:
        """Return the threads to sample in this round: if there are too many, mostly those that ran, in turns."""
        threads = list(self._threads.values())
        if len(threads) <= self._limit:
            return threads
        busy = [thread for thread in threads if thread.ran]
        others = [thread for thread in threads if not thread.ran]
        places = self._limit // _FOR_OTHERS
        chosen = heapq.nsmallest(self._limit - places, busy, key=lambda thread: thread.seen)
        return chosen + heapq.nsmallest(max(1, places), others, key=lambda thread: thread.seen)

    def _read(self, thread: Thread) -> bool:
        """Sample one thread, and return whether it lives."""
        run_text = self._text(thread, SCHEDSTAT) if self._kernel.schedules else b""
        is_known = thread.look.state == "blocked" and not (thread.unread and self._places.to_read)
        if run_text and run_text == thread.run_text and is_known:
            thread.before_s = thread.cpu.user_s, thread.cpu.system_s
            thread.ran, thread.seen = False, self._round
            return True
        place = f"{self._path}/{thread.tid}"
        stat = parse_stat(self._text(thread, STAT), file=f"{place}/stat")
        if stat.state in _ENDED or (thread.seen and stat.start_ticks != thread.start_ticks):
            return False  # if its id is in use again, the new thread is found at the next round
        run_ns = parse_schedstat(run_text, f"{place}/schedstat").run_ns if run_text else None
        cpu = thread.cpu
        thread.before_s = cpu.user_s, cpu.system_s
        cpu.update(stat.user_ticks, stat.system_ticks, run_ns, self._kernel.tick_s)
        if not thread.seen and not thread.new:
            thread.before_s = cpu.user_s, cpu.system_s
        thread.name = parse_name(stat.comm, kernel_thread=False)
        thread.start_ticks = stat.start_ticks
        thread.uninterruptible = stat.state == _UNINTERRUPTIBLE
        thread.look = self._places.sample(place, stat, thread)
        thread.ran = cpu.user_s + cpu.system_s > sum(thread.before_s) or thread.look.state == "running"
        thread.run_text, thread.seen = run_text, self._round
        return True

    def _text(self, thread: Thread, which: int) -> bytes:
        return self._files.read(thread.descriptors, which, f"{self._path}/{thread.tid}/{FILES[which]}")

    def _shed(self) -> None:
        """Close all files and keep none open from now on: the program or the machine is out of descriptors."""
        self._files.limit = 0
        for thread in self._threads.values():
            self._files.release(thread.descriptors)
