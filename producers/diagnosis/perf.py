"""Running threads of native code: the kernel samples each of them at intervals of its CPU time.

Measured against the program `perf`, in five turns of 2 s on a busy thread, this used 5 to 7 ms of CPU time. It used
0.14 s once to read the symbols of the kernel. `perf record -F 99 -g -p PID -o - | perf script` used 186 to 279 ms, most
of it to start. The thread did 0.996 of its rounds for the same CPU time (median of 8 pairs, 0.986 to 1.031:
`tests/benchmarks/profilers.py`).
"""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.core.records.diagnosis import Location
from laggard.producers.diagnosis.addresses import AddressSpace, kernel_location
from laggard.producers.diagnosis.contract import ProfilerError, Sample
from laggard.producers.diagnosis.events import ANY, Events, open_event
from laggard.producers.diagnosis.symbols import SymbolFiles, kernel_symbols
from laggard.producers.system.clock import Clock
from laggard.producers.system.foreign import content, names
from laggard.producers.system.kernel import cpu_clock
from laggard.producers.system.proc import ProcError, parse_schedstat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.producers.diagnosis.events import Found

NAME = "perf"
STOPS = False

FREQUENCY_HZ = 99
"""Samples of a thread that keeps a core busy, per second. Not 100, so that work that recurs 100 times per second is not
always sampled at the same point."""

RATE_HZ = 200
"""Samples of all threads together, per second, approximately: the more run, the rarer are the samples of each."""

CORES_RATE_HZ = 2000
"""The most samples of all cores together, per second, including those of other processes: the more cores there are, the
rarer are the samples of each."""

THREADS = 64
"""The most threads that are sampled by themselves: those with the most CPU time since the last choice. Each needs two
descriptors and 68 KiB of kernel memory."""

AIM_SHARE = 0.01
"""The limit of the CPU time for listing the threads, as a share of the time: with thousands of threads it takes a
while."""

FRAMES = 64
"""The most functions of a stack, the innermost ones."""

SHORT_LIVED = 0.5
"""The share of CPU time in threads without samples above which `notes` report it."""


class Perf:
    """Samples running threads of one process by perf_event_open(2).

    Nothing stops or waits: the kernel interrupts a thread after some CPU time, and records its call chain. Callers are
    found by frame pointers, but most distributions build libraries without them. The innermost function is always
    right; its callers are right only in code that was built with `-fno-omit-frame-pointer`.

    If the whole machine may be sampled (CAP_PERFMON), the cores are sampled, and samples of other processes are
    dropped. This finds threads however many or short-lived, at no measurable cost. Measured, 8 threads that wake each
    other for 20 us of work did 1.00 of their work per second of CPU time (median of 10 pairs). Otherwise each thread is
    sampled by itself, which makes its switches more expensive (the same 8 threads: 0.85). New threads are then found at
    a later `take`. Shorter-lived ones are missed, and `notes` report that if it matters.

    Args:
        pid: the pid of the process, or of one of its threads, in laggard's pid namespace.
        clock: the clock.
        root: the mount point of procfs.
        cores: whether cores may be sampled.

    Attributes:
        space: the address space of the process.

    """

    def __init__(self, pid: int, *, clock: Clock | None = None, root: str = "/proc", cores: bool = True) -> None:
        self.name = NAME
        self.cpu_s = 0.0
        self.stopped_s = 0.0
        self.covered_s = 0.0
        self._pid = pid
        self._clock = clock or Clock()
        self._path = f"{root}/{pid}"
        self._files = SymbolFiles()
        self.space = AddressSpace(pid, root=root, clock=self._clock, files=self._files)
        self._may_ask_cores = cores
        self._cores: list[Events] = []
        self._threads: dict[int, Events] = {}
        self._used_ns: dict[int, int] = {}
        self._kernel = True
        self._period_ns = round(1e9 / FREQUENCY_HZ)
        self._taken_ns = self._aim_ns = 0
        self._sampled_ns = self._process_ns = self._process_begin_ns = self._lost = 0
        self._refused = ""
        self._seen_kernel = False

    @property
    def notes(self) -> Sequence[str]:
        """The gaps in its results, and the reasons."""
        notes = [*self.space.notes, *self._files.notes]
        if not self._kernel:
            notes.append(f"perf: kernel functions are missing: {_paranoia()}")
        elif self._seen_kernel and not len(kernel_symbols()):
            notes.append("perf: kernel functions have no names: that needs CAP_SYSLOG")
        if self._refused:
            notes.append(f"perf: only {len(self._threads)} threads could be sampled: {self._refused}")
        if self._lost:
            notes.append(f"perf: {self._lost} samples were lost: they were read too late")
        used = self._process_ns - self._process_begin_ns
        if used > 1e9 and self._sampled_ns < (1 - SHORT_LIVED) * used:
            share = 1 - self._sampled_ns / used
            notes.append(f"perf: {share:.0%} of the CPU time was in threads too short-lived or too many to be sampled")
        return notes

    def start(self) -> None:
        """Start, or start again after a `stop`.

        Raises:
            ProfilerError: it cannot start.

        """
        self._kernel, reason = _permitted(self._pid)
        if reason:
            raise ProfilerError(reason)
        self._refused = ""
        self._sampled_ns = self._lost = 0
        self._taken_ns = self._clock.monotonic()
        self._process_begin_ns = self._process_ns = self._process_used_ns()
        if not (self._may_ask_cores and self._kernel and self._ask_cores()):
            self._aim()

    def take(self) -> Sequence[Sample]:
        """Return all samples since the last call."""
        if not self._taken_ns:
            return ()
        samples = self._samples()
        now = self._clock.monotonic()
        self._adapt(len(samples), now - self._taken_ns)
        self.covered_s += (now - self._taken_ns) / 1e9
        self._taken_ns = now
        self._process_ns = max(self._process_ns, self._process_used_ns())
        if not self._cores and now >= self._aim_ns:
            self._aim()
        return samples

    def stop(self) -> Sequence[Sample]:
        """Stop, and return the remaining samples."""
        samples = self._samples()
        for events in (*self._cores, *self._threads.values()):
            events.close()
        self._cores.clear()
        self._threads.clear()
        self._used_ns.clear()
        self._files.close()
        self._taken_ns = 0
        return samples

    def _samples(self) -> list[Sample]:
        # The present difference between wall-clock and monotonic time also applies to samples of a moment ago.
        offset_ns = self._clock.wall() - self._clock.monotonic()
        samples = []
        for events in (*self._cores, *self._threads.values()):
            found = events.take()
            self._lost += events.lost
            self._sampled_ns += (len(found) + events.lost) * self._period_ns
            events.lost = 0
            samples += [self._sample(one, offset_ns) for one in found]
        samples.sort(key=lambda sample: sample.ts)
        return samples

    def _sample(self, found: Found, offset_ns: int) -> Sample:
        locations = [kernel_location(address) for address in found.kernel[:FRAMES]]
        self._seen_kernel = self._seen_kernel or bool(locations)
        for number, address in enumerate(found.user[: FRAMES - len(locations)]):
            location = self.space.locate(address, caller=number > 0)
            if location is None:
                if number:  # no frame pointer after all
                    break
                location = Location(offset=address)
            locations.append(location)
        return Sample((found.monotonic_ns + offset_ns) / 1e9, found.tid, tuple(locations), "running")

    def _adapt(self, samples: int, elapsed_ns: int) -> None:
        """Sample more rarely if many threads run, so that all together give about as many samples as one or two."""
        cores = samples * self._period_ns / elapsed_ns if elapsed_ns else 0.0
        period_ns = round(max(1 / FREQUENCY_HZ, cores / RATE_HZ, len(self._cores) / CORES_RATE_HZ) * 1e9)
        if abs(period_ns - self._period_ns) > 0.25 * self._period_ns:
            self._period_ns = period_ns
            for events in (*self._cores, *self._threads.values()):
                events.set_period(period_ns)

    def _ask_cores(self) -> bool:
        """Sample all cores of the machine. Return whether that is possible."""
        process = _process_of(self._path)
        if process == ANY:
            return False
        cpus = _online_cores()
        self._period_ns = max(self._period_ns, round(len(cpus) / CORES_RATE_HZ * 1e9))
        for cpu in cpus:
            try:
                self._cores.append(Events(ANY, cpu=cpu, process=process, period_ns=self._period_ns, kernel=True))
            except OSError as error:
                if error.errno == errno.ENODEV:  # switched off meanwhile
                    continue
                for events in self._cores:
                    events.close()
                self._cores.clear()
                return False
        return bool(self._cores)

    def _aim(self) -> None:
        """Sample the present threads; if there are too many, those with the most CPU time since the last choice."""
        begin_ns = self._clock.cpu()
        tids = self._tids()
        if len(tids) > THREADS:
            tids = self._busiest(tids)
        for tid in [tid for tid in self._threads if tid not in tids]:
            self._threads.pop(tid).close()
        self._refused = ""
        for tid in tids:
            if tid not in self._threads:
                try:
                    self._threads[tid] = Events(tid, period_ns=self._period_ns, kernel=self._kernel)
                except ProcessLookupError:
                    continue  # it ended
                except OSError as error:  # out of descriptors, or of memory that may be locked
                    self._refused = _out_of(error)
                    break
        self._aim_ns = self._clock.monotonic() + round((self._clock.cpu() - begin_ns) / AIM_SHARE)

    def _tids(self) -> set[int]:
        try:
            return {int(tid) for tid in names(f"{self._path}/task")}
        except OSError:
            return set()

    def _busiest(self, tids: set[int]) -> set[int]:
        used = {}
        for tid in tids:
            try:
                used[tid] = parse_schedstat(content(f"{self._path}/task/{tid}/schedstat")).run_ns
            except ProcError:
                continue  # it ended
        since = {tid: ns - self._used_ns.get(tid, 0) for tid, ns in used.items()}
        self._used_ns = used
        return set(sorted(since, key=lambda tid: since[tid], reverse=True)[:THREADS])

    def _process_used_ns(self) -> int:
        try:
            return time.clock_gettime_ns(cpu_clock(self._pid))
        except OSError:
            return 0


def available(pid: int) -> str:
    """Return why the kernel does not permit sampling this process, in words; empty if it does."""
    return _permitted(pid)[1]


def attach(pid: int) -> Perf:
    """Return a profiler of this process, not yet started."""
    return Perf(pid)


def _permitted(pid: int) -> tuple[bool, str]:
    """Return whether the kernel's part of stacks may be sampled, and why nothing may; the latter is empty if it may."""
    error = OSError()
    for kernel in (True, False):
        try:
            os.close(open_event(pid, period_ns=10**9, kernel=kernel))
        except OSError as refused:
            error = refused
        else:
            return kernel, ""
    return False, _reason(pid, error)


def _process_of(path: str) -> int:
    """Return the process of a thread; `ANY` if it is unknown, since the thread has ended."""
    found = re.search(rb"^Tgid:\s*(\d+)$", content(f"{path}/status"), re.MULTILINE)
    return int(found[1]) if found else ANY


def _online_cores() -> list[int]:
    """Return the numbers of the online cores, from a list of ranges such as `0-3,8`."""
    cpus: list[int] = []
    for part in content("/sys/devices/system/cpu/online").decode().split(","):
        first, _, last = part.partition("-")
        if first:
            cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def _reason(pid: int, error: OSError) -> str:
    if error.errno == errno.ESRCH:
        return f"perf: process {pid} has ended"
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            f"perf: no permission to sample process {pid}: {_paranoia()}; run laggard as root or with CAP_PERFMON, in a"
            " container with a seccomp profile that allows perf_event_open, or use another method"
        )
    if error.errno in (errno.ENOSYS, errno.ENOENT, errno.EOPNOTSUPP):
        return f"perf: this kernel, or laggard's sandbox, does not support perf_event_open ({error.strerror})"
    return f"perf: perf_event_open fails for process {pid}: {error.strerror}"


def _paranoia() -> str:
    path = Path("/proc/sys/kernel/perf_event_paranoid")
    level = content(str(path)).decode() or "unknown"
    return f"kernel.perf_event_paranoid is {level} and laggard does not have CAP_PERFMON"


def _out_of(error: OSError) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many open files; raise the limit (`ulimit -n`)"
    if error.errno in (errno.EPERM, errno.ENOMEM):
        return "their buffers exceed kernel.perf_event_mlock_kb and `ulimit -l`"
    return error.strerror or str(error)
