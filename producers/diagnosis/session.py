"""The diagnosis of one process. Its driver requests rounds, and a new phase when the state machine of S1 changes."""

from __future__ import annotations

import contextlib
import math
import os
from typing import TYPE_CHECKING

from laggard.pipeline.core.records.diagnosis import Diagnosis
from laggard.producers.diagnosis.account import Account
from laggard.producers.diagnosis.aside import Aside
from laggard.producers.diagnosis.bounds import Limits
from laggard.producers.diagnosis.functions import Functions
from laggard.producers.diagnosis.open_process import EndedError, OpenProcess, why_ended
from laggard.producers.diagnosis.profiling import Profiling, chosen
from laggard.producers.diagnosis.program import bits_of
from laggard.producers.diagnosis.threads import Threads
from laggard.producers.diagnosis.use import PhaseRecord, beyond, phases
from laggard.producers.system import foreign
from laggard.producers.system.clock import Clock, Timeline
from laggard.producers.system.kernel import Kernel
from laggard.producers.system.open_files import out_of_descriptors
from laggard.producers.system.proc import ProcError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.records.diagnosis import Progress
    from laggard.producers.diagnosis.bounds import Budget
    from laggard.producers.diagnosis.contract import Sample
    from laggard.producers.diagnosis.target import Target
    from laggard.producers.diagnosis.threads import Thread

_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2  # its multiples modulo 1 are spread evenly
_LONGEST_NOTE = 500
_BLIND_S = 3.0  # a profiler whose results cover this time without samples of the busiest thread is replaced
_BLIND_CPU_S = 0.5  # ... if that thread has used more CPU time than this

PROC = "proc"
"""The method that is always used: blocked threads by procfs."""


class Session:
    """Samples one process until it is closed, a limit is reached or the process has ended; never raises for these.

    It begins in a phase of high use. One thread drives all sessions of a program: its CPU time is their cost.

        session = Session(find(pid), id=..., host=..., reason="asked", budget=Budget(), limits=Limits(samples=100))
        try:
            while not session.ended:
                stop.wait(session.delay_s())
                session.sample()
            diagnosis = session.diagnosis("closed")
        finally:
            session.close()

    Args:
        target: the process.
        id: the id of the event, as in `Diagnosis`.
        host: the host of the process.
        reason: as in `Diagnosis`.
        value: likewise.
        threshold: likewise.
        budget: the budget, shared with the other sessions.
        limits: the limits of this session.
        methods: the names of those to use in addition to `proc`, in the order of preference; no names for `proc` alone;
            None for those that suit the process.
        clock: the clock.
        root: the mount point of procfs.

    Raises:
        ValueError: a method does not exist.

    Attributes:
        target: the process.
        ended: why it no longer samples, in words; empty while it does.

    """

    def __init__(
        self,
        target: Target,
        *,
        id: str,  # noqa: A002 - the name in the record
        host: str,
        reason: str,
        value: float = math.nan,
        threshold: float = math.nan,
        budget: Budget,
        limits: Limits | None = None,
        methods: Sequence[str] | None = None,
        clock: Clock | None = None,
        root: str = "/proc",
    ) -> None:
        self.target = target
        self.ended = ""
        self._said = (id, host, reason, value, threshold)
        self._budget = budget
        self._limits = limits or Limits()
        self._clock = clock or Clock()
        self._timeline = Timeline(self._clock)
        self._root = root
        self._aside = Aside()
        self._methods = chosen(methods)
        self._asked = methods is not None
        # The due time of the next round, without the pay-back of the last one; the time of the last one.
        self._begun_ns = self._due_ns = self._clock.monotonic()
        self._seen_s = 0.0  # the time that the profiler's results covered when they were last searched for that thread
        self._samples = 0
        self._short = False  # of descriptors
        self._notes: dict[str, str] = {}  # by subject, each noted once
        self._phases = [PhaseRecord(self._timeline.now(), high=True)]
        self._phase = self._phases[0]
        self._process: OpenProcess | None = None
        self._threads: Threads | None = None
        self._functions = Functions(self._aside, self._clock, root)
        self._see(target.pid)
        self._closed = False
        self._account = Account(budget, self._clock, self._others_s)
        with self._account.counted():
            self._open()

    def delay_s(self) -> float:
        """Return the seconds until the next round is due: 0 if it is, infinite when ended or closed.

        They grow with the cost of rounds, see `Budget`.
        """
        if self.ended or self._closed:
            return math.inf
        return max(0, max(self._due_ns, self._account.paid_ns) - self._clock.monotonic()) / 1e9

    def sample(self) -> None:
        """Make one round: list the threads, their use, and what each of them executes. Nothing when ended or closed.

        The driver of several sessions begins with the one that has been due for the longest.
        """
        if self.ended or self._closed:
            return
        # At unequal distances: otherwise periodic work of the process might always be sampled at the same point.
        stretch = 0.75 + 0.5 * (self._samples * _GOLDEN_RATIO % 1.0)
        self._due_ns = self._clock.monotonic() + round(self._limits.interval_s * stretch * 1e9)
        with self._account.counted():
            self._round()

    def phase(self, *, high: bool) -> None:
        """Close the phase now and begin the next, unless ended or closed.

        The boundary is the time of a round: earlier use belongs to the old phase, later use to the new one. By a clock
        that was read before the round, a short phase would have used more CPU time than it had.
        """
        if high == self._phase.high:
            return
        self.sample()
        if self.ended or self._closed:
            return
        ts = self._phase.end_ts
        if len(self._phases) < self._limits.phases:
            self._phases.append(PhaseRecord(ts, high=high))
            self._phase = self._phases[-1]
        else:
            self._phase = next(phase for phase in reversed(self._phases) if phase.high == high)
            self._notes["phases"] = f"only {self._limits.phases} phases are recorded; later ones are in the last two"

    def diagnosis(self, progress: Progress) -> Diagnosis:
        """Return the diagnosis so far, within the limit on bytes. It remains available when closed."""
        with self._account.counted():
            found = phases(self._phases, self._limits.size_bytes)
        target = self.target
        id_, host, reason, value, threshold = self._said
        notes = [*self._notes.values(), *self._functions.notes, *self._profiling.notes]
        notes += beyond(found, os.cpu_count() or 1)
        if self.ended:
            notes.insert(0, f"sampling stopped: {self.ended}")
        return Diagnosis(
            id=id_,
            progress=progress,
            host=host,
            ts=self._timeline.now(),
            row=target.row,
            name=target.name,
            pid=target.pid,
            command=target.command,
            reason=reason,
            value=value,
            threshold=threshold,
            methods=(PROC, *self._profiling.used),
            notes=tuple(dict.fromkeys(note[:_LONGEST_NOTE] for note in notes)),
            phases=found,
            sampler_cpu_s=self._account.cpu_s,
            stopped_s=self._profiling.stopped_s,
            complete=not self.ended,
        )

    def close(self) -> None:
        """Stop and close everything, unless ended. A second call has no effect."""
        if self._closed:
            return
        self._closed = True
        if not self.ended:
            with self._account.counted():
                self._release()

    def _open(self) -> None:
        """Open the process and detect its kind."""
        pid = self.target.pid
        try:
            self._process = process = OpenProcess(self.target, self._root)
        except (OSError, ProcError, EndedError) as error:
            self._end(why_ended(error))
            return
        self._notes |= process.properties()
        bits = 64
        if not process.of_kernel:
            with contextlib.suppress(OSError):  # TimeoutError, too
                bits = self._aside.ask(lambda: bits_of(process.path))
        kernel = Kernel(self._root)
        if not kernel.clocks:
            self._notes["root"] = (
                f"running threads are not profiled: {self._root} belongs to another pid namespace than laggard; run"
                " laggard in the host's pid namespace"
            )
            self._methods = ()
            self._see(pid)
        if process.stat.state == b"Z" and process.stat.threads > 1:
            with contextlib.suppress(OSError, ValueError, StopIteration):  # the threads may end meanwhile, too
                # Only its living threads still show its memory and files.
                self._see(next(tid for tid in sorted(map(int, foreign.names(f"{process.path}/task"))) if tid != pid))
        self._threads = Threads(
            process.path,
            kernel,
            self._budget.files,
            limit=self._limits.threads,
            locate=self._functions.locate,
            callers=self._functions.callers,
            bits=bits,
        )

    def _see(self, pid: int) -> None:
        """Use the memory of this process or thread, and let profilers sample it."""
        self._functions.see(pid)
        self._profiling = Profiling(pid, self._methods, self._aside, told=self._asked)

    def _round(self) -> None:
        process, threads = self._process, self._threads
        if process is None or threads is None:
            return
        try:
            sampled = self._sample(process, threads)
        except OSError as error:
            if not out_of_descriptors(error):
                self._end(why_ended(error))
                return
            # A profiler has some open for each thread.
            self._short = True
            self._profiling.pause()
            self._take(self._profiling.take())
            self._notes["descriptors"] = "some samples were skipped: too many open files; raise the limit (`ulimit -n`)"
        except (ProcError, EndedError) as error:
            self._end(why_ended(error))
            return
        else:
            may_stop = any(thread.ran for thread in sampled) and not any(thread.uninterruptible for thread in sampled)
            self._profile(may_stop=may_stop)
        elapsed_s = (self._clock.monotonic() - self._begun_ns) / 1e9
        if self._samples >= self._limits.samples:
            self._end(f"it reached the limit of {self._limits.samples} samples")
        elif elapsed_s >= self._limits.duration_s:
            self._end(f"it reached the limit of {self._limits.duration_s:g} s")

    def _sample(self, process: OpenProcess, threads: Threads) -> list[Thread]:
        """Sample the threads, and return the sampled ones."""
        begin_ts = self._timeline.now()
        process.check()
        sampled, ended = threads.sample()
        self._samples += 1
        self._phase.add((begin_ts + self._timeline.now()) / 2.0, sampled, ended)
        if "syscall" in threads.denied and "denied" not in self._notes:
            self._notes["denied"] = (
                f"cannot read what its blocked threads wait for: it belongs to user {process.user()}, and laggard runs"
                f" as user {os.geteuid()} without CAP_SYS_PTRACE"
            )
        self._notes |= _gaps(process.stat.state, threads, self._limits.threads)
        return sampled

    def _profile(self, *, may_stop: bool) -> None:
        """Let a profiler run, within half of the share; each time it uses little more than a burst."""
        profiling = self._profiling
        self._account.alone = not profiling.possible
        if not profiling.on:
            if self._samples > 1 and not self._short and self._account.may_begin:  # not in the first round
                profiling.start(may_stop=may_stop)
            return
        self._take(profiling.take())
        if self._account.must_pause(answered=profiling.answered):
            profiling.pause()
            return
        covered_s = profiling.covered_s
        if covered_s < self._seen_s:  # it is another one
            self._seen_s = 0.0
        if covered_s - self._seen_s >= _BLIND_S:
            self._seen_s = covered_s
            hottest = self._phase.hottest()
            if hottest is not None and hottest.cpu_s > _BLIND_CPU_S and not hottest.found:
                profiling.replace(may_stop=may_stop, why=f"since it has no samples of the busiest thread {hottest.tid}")

    def _take(self, samples: Sequence[Sample]) -> None:
        threads = self._threads
        if threads is None or not samples:
            return
        threads.mark({sample.tid for sample in samples if sample.state == "running"})
        for sample in samples:
            phase = next((phase for phase in reversed(self._phases) if phase.begin_ts <= sample.ts), self._phases[0])
            phase.add_sample(sample, threads.last_sample(sample.tid))

    def _end(self, why: str) -> None:
        self.ended = why
        self._release()

    def _release(self) -> None:
        """Stop the profiler and add its samples, close all files, and return the share of the budget."""
        self._account.close()
        self._profiling.pause()
        self._take(self._profiling.take())
        if self._threads is not None:
            self._threads.close()
            self._threads = None
        if self._process is not None:
            self._process.close()
            self._process = None
        self._functions.close()
        self._aside.close()

    def _others_s(self) -> tuple[float, float]:
        """Return the CPU time of other threads and processes for it, in seconds, and the part of that for profilers."""
        return self._aside.cpu_s + self._profiling.children_s, self._profiling.cpu_s


def _gaps(state: bytes, threads: Threads, most: int) -> dict[str, str]:
    """Return a note for each present gap in the results, by subject.

    Args:
        state: the state of the process.
        threads: its threads.
        most: the most threads that a round samples.

    Returns:
        The notes.

    """
    notes: dict[str, str] = {}
    if "stack" in threads.denied:
        notes["stack"] = "cannot read kernel stacks: that needs CAP_SYS_ADMIN"
    if threads.count > most:
        notes["threads"] = (
            f"it has {threads.count} threads: each round sampled at most {most}, first those that used CPU time"
        )
    if state in (b"T", b"t"):
        notes["stopped"] = "it was stopped by a signal or a debugger, not by laggard"
    elif state == b"Z":
        notes["leader"] = "its first thread ended before the others"
    return notes
