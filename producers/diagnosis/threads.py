"""The threads of one process: which there are, what CPU time they took, and what those that are blocked wait in.

All of it is read from procfs; nothing is stopped.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from laggard.producers.diagnosis import system_calls
from laggard.producers.diagnosis.parsers import parse_stack, parse_syscall, parse_wchan
from laggard.producers.host.cpu_time import CpuTime
from laggard.producers.system import foreign
from laggard.producers.system.open_files import OUT_OF_DESCRIPTORS
from laggard.producers.system.proc import PF_KTHREAD, parse_name, parse_schedstat, parse_stat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.pipeline.records.diagnosis import Location, ThreadState
    from laggard.producers.diagnosis.parsers import Blocked
    from laggard.producers.system.kernel import Kernel
    from laggard.producers.system.open_files import HeldFiles
    from laggard.producers.system.proc import Stat

FILES = ("schedstat", "stat")
SCHEDSTAT, STAT = range(len(FILES))

_ENDED = (b"Z", b"X", b"x")
_UNINTERRUPTIBLE = b"D"
_FOR_OTHERS = 4  # of many threads, one place in so many is for those that did not run at their last look
_READ_AGAIN = 4  # of looks that find a thread at the same place, its stack is read at one in so many
_READ_MOST = 32  # stacks are read in a round, those of other threads in later ones
_FIND_ROUNDS = 16  # once in so many rounds it is seen which of many threads run


class Look(NamedTuple):
    """What a thread was found at, as `Sample` has it."""

    locations: tuple[Location, ...]
    state: ThreadState
    wait_channel: str = ""
    system_call: str = ""


RUNNING = Look((), "running")
UNKNOWN = Look((), "blocked")

_Called = tuple[tuple[int | None, int, int], "Sequence[Location]", int]
_NOT_READ: _Called = (None, 0, 0), (), 0


class Thread:
    """One thread, as long as it lives.

    Attributes:
        tid: its id on the host.
        new: whether it began while the process was looked at: all of its CPU time is since then.
        name: its own.
        start_ticks: when it began, in clock ticks since boot.
        cpu: CPU time since it began.
        before_s: ... of that, in user mode and in the kernel, what was before its last look, or before anybody looked.
        ran: whether it took CPU time between its last two looks, or at the last one.
        uninterruptible: whether it was in uninterruptible sleep at the last look.
        called: where its stack was read last, who its callers were, and at how many looks that has been told.
        look: what it was found at last.
        seen: at which round that was; 0 for none.
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


class Threads:
    """Looks at the threads of one process, round by round.

    A thread that was not scheduled since its last look, by `schedstat`, is still where it was: of it nothing else is
    read. CPU time is exact in sum, as in `CpuTime`; what a thread did between its last look and its end is lost.

    Args:
        path: of the process, below a root of procfs; best through a held directory, which never becomes another
            process's.
        kernel: what it offers there.
        files: those that are held open.
        limit: at how many threads one round looks; see `Limits.threads`.
        locate: what an address of the process is.
        callers: of the function that a blocked thread is in, the innermost first, as far as they can be told.
        bits: of its program, for the numbers of system calls.

    Attributes:
        count: how many threads there were at the last round.
        denied: which files may not be read: of `syscall`, `stack`.

    """

    def __init__(
        self,
        path: str,
        kernel: Kernel,
        files: HeldFiles,
        *,
        limit: int,
        locate: Callable[[int], Location],
        callers: Callable[[Blocked], Sequence[Location]],
        bits: int = 64,
    ) -> None:
        self.count = 0
        self.denied: set[str] = set()
        self._path = f"{path}/task"
        self._kernel = kernel
        self._files = files
        self._limit = limit
        self._locate = locate
        self._callers = callers
        self._bits = bits
        self._round = 0
        self._to_read = 0
        self._threads: dict[int, Thread] = {}

    def look(self) -> tuple[list[Thread], list[Thread]]:
        """Make one round: the threads that were looked at, and those that have ended since the last one.

        Raises:
            OSError: the process is gone.
            ProcError: a text does not have its form.

        """
        self._round += 1
        self._to_read = _READ_MOST
        ended = self._list()
        if len(self._threads) > self._limit and self._round % _FIND_ROUNDS == 1:
            self._find_busy()
        looked = []
        for thread in self._chosen():
            try:
                if self._read(thread):
                    looked.append(thread)
                    continue
            except (FileNotFoundError, ProcessLookupError):
                pass
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                self._shed()
                continue
            ended.append(self._remove(thread.tid))
        return looked, [thread for thread in ended if thread.seen]

    def mark(self, tids: set[int]) -> None:
        """Know of these that they ran: somebody else saw them do it."""
        for tid in tids & self._threads.keys():
            self._threads[tid].ran = True

    def last_look(self, tid: int) -> Look:
        """What a thread was found at last; at nothing, where it was not looked at."""
        thread = self._threads.get(tid)
        return thread.look if thread else UNKNOWN

    def close(self) -> None:
        """Close all files."""
        for thread in self._threads.values():
            self._files.release(thread.descriptors)

    def _list(self) -> list[Thread]:
        """See which threads there are; those that have ended."""
        tids = set(map(int, foreign.names(self._path)))
        self.count = len(tids)
        ended = [self._remove(tid) for tid in self._threads.keys() - tids]
        for tid in tids - self._threads.keys():
            self._threads[tid] = Thread(tid, new=self._round > 1)
        return ended

    def _find_busy(self) -> None:
        """See which of many threads run at this moment: with turns alone it would take long to come to them."""
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
        """Those to look at in this round: where there are too many, those that ran first, each group in turns."""
        threads = list(self._threads.values())
        if len(threads) <= self._limit:
            return threads
        busy = [thread for thread in threads if thread.ran]
        others = [thread for thread in threads if not thread.ran]
        places = self._limit // _FOR_OTHERS
        chosen = heapq.nsmallest(self._limit - places, busy, key=lambda thread: thread.seen)
        return chosen + heapq.nsmallest(max(1, places), others, key=lambda thread: thread.seen)

    def _read(self, thread: Thread) -> bool:
        """Look at one thread. Returns whether it lives."""
        run_text = self._text(thread, SCHEDSTAT) if self._kernel.schedules else b""
        is_known = thread.look.state == "blocked" and not (thread.unread and self._to_read)
        if run_text and run_text == thread.run_text and is_known:
            thread.before_s = thread.cpu.user_s, thread.cpu.system_s
            thread.ran, thread.seen = False, self._round
            return True
        place = f"{self._path}/{thread.tid}"
        stat = parse_stat(self._text(thread, STAT), file=f"{place}/stat")
        if stat.state in _ENDED or (thread.seen and stat.start_ticks != thread.start_ticks):
            return False  # if its id is in use again, that one is met at the next round
        run_ns = parse_schedstat(run_text, f"{place}/schedstat").run_ns if run_text else None
        cpu = thread.cpu
        thread.before_s = cpu.user_s, cpu.system_s
        cpu.update(stat.user_ticks, stat.system_ticks, run_ns, self._kernel.tick_s)
        if not thread.seen and not thread.new:
            thread.before_s = cpu.user_s, cpu.system_s
        thread.name = parse_name(stat.comm, kernel_thread=False)
        thread.start_ticks = stat.start_ticks
        thread.uninterruptible = stat.state == _UNINTERRUPTIBLE
        thread.look = self._found_at(place, stat, thread)
        thread.ran = cpu.user_s + cpu.system_s > sum(thread.before_s) or thread.look.state == "running"
        thread.run_text, thread.seen = run_text, self._round
        return True

    def _text(self, thread: Thread, which: int) -> bytes:
        return self._files.read(thread.descriptors, which, f"{self._path}/{thread.tid}/{FILES[which]}")

    def _shed(self) -> None:
        """Where the program or the machine is out of descriptors, hold none for good."""
        self._files.limit = 0
        for thread in self._threads.values():
            self._files.release(thread.descriptors)

    def _found_at(self, place: str, stat: Stat, thread: Thread) -> Look:
        if stat.state == b"R":
            return RUNNING
        if stat.flags & PF_KTHREAD:
            stack = self._kernel_stack(place)
            return Look(stack, "blocked", self._wait_channel(place, stack))
        try:
            text = self._permitted(place, "syscall")
            # Only what is stuck in the kernel is worth its stack there.
            kernel = self._kernel_stack(place) if stat.state == _UNINTERRUPTIBLE else ()
            blocked = parse_syscall(text, f"{place}/syscall")
            callers = self._called(thread, blocked) if blocked is not None and blocked.address else ()
            again = self._permitted(place, "syscall")
            if again != text:  # it went on in between: the stack in the kernel may be that of another call
                before, blocked, kernel = blocked, parse_syscall(again, f"{place}/syscall"), ()
                if before is None or blocked is None or before.place != blocked.place:
                    callers, thread.called = (), _NOT_READ
        except PermissionError:
            return Look((), "blocked", self._wait_channel(place, ()))
        if blocked is None:
            return RUNNING
        called = "" if blocked.number is None else system_calls.name(blocked.number, bits=self._bits)
        locations = (*kernel, self._locate(blocked.address), *callers) if blocked.address else kernel
        return Look(locations, "blocked", self._wait_channel(place, kernel), called)

    def _called(self, thread: Thread, blocked: Blocked) -> Sequence[Location]:
        """Who called the function that it is blocked in: read now, or told as at a look before at the same place."""
        place, callers, told = thread.called
        if place != blocked.place or told >= _READ_AGAIN:
            thread.unread = not self._to_read
            if thread.unread:
                return ()
            callers, told = self._callers(blocked), 0
            self._to_read -= 1
        thread.called = blocked.place, callers, told + 1
        return callers

    def _kernel_stack(self, place: str) -> tuple[Location, ...]:
        try:
            return parse_stack(self._permitted(place, "stack"), f"{place}/stack")
        except PermissionError:
            return ()

    def _wait_channel(self, place: str, stack: tuple[Location, ...]) -> str:
        return stack[0].function if stack else parse_wchan(foreign.head(f"{place}/wchan"))

    def _permitted(self, place: str, name: str) -> bytes:
        """Read a file of a thread. Raises PermissionError for one that may not be; such are not tried again."""
        if name in self.denied:
            raise PermissionError(name)
        try:
            return foreign.head(f"{place}/{name}")
        except PermissionError:
            self.denied.add(name)
            raise
