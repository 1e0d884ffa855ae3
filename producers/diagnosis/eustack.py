"""Whole stacks of native code, running or waiting, by `eu-stack` of elfutils, which stops the process for each sample.

Measured on a program with 11 threads, a sample took 13 to 38 ms (3.5 ms of CPU time). With names (without `-q`) it took
211 ms. The debugger gdb is not used, since it took 1,058 ms. On a machine with 60 programs per core a sample takes up
to `LIMIT_S`: the process waits until the tracer is scheduled. The busy thread did 0.999 of its rounds for the same CPU
time (median of 8 pairs, 0.982 to 1.015: `tests/benchmarks/profilers.py`).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.producers.diagnosis.addresses import AddressSpace
from laggard.producers.diagnosis.children import Child
from laggard.producers.diagnosis.contract import ProfilerError, Sample
from laggard.producers.diagnosis.states import may_signal, thread_states
from laggard.producers.diagnosis.symbols import SymbolFiles
from laggard.producers.system.clock import Clock
from laggard.producers.system.foreign import content

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.records.diagnosis import Location

NAME = "eu-stack"
STOPS = True

STOPPED_SHARE = 0.02
"""The approximate limit of the share of time for which the process is stopped."""

EVERY_S = 0.2
"""The shortest time between two samples, in seconds."""

LIMIT_S = 1
"""The longest time of a sample, in seconds; after that the tracer is killed, and the process continues."""

HUNG_S = 30
"""The longest wait for a sample that cannot be killed, in seconds: it reads memory that a filesystem holds back."""

FRAMES = 64
"""The most functions of a stack, the innermost ones."""

# A killed tracer may leave the process that it had attached to stopped: the signal that stopped it is still delivered.
# (17 of 60 kills did so here; none with the supervisor.)
# So the supervisor, which is neither laggard nor the tracer, kills a tracer that hangs, and continues the process: CONT
# also cancels a stop that is still pending. `timeout` and `kill` are part of the shell or of coreutils.
_SUPERVISOR = 'timeout -s KILL "$1" "$2" -q -n "$3" -p "$4"; code=$?; [ $code -lt 124 ] || kill -CONT "$4"; exit $code'
_ENDED = 124
"""The lowest exit code of a tracer that was killed, rather than one that ended."""

_THREAD = re.compile(rb"^TID (\d+):$")
_FRAME = re.compile(rb"^#\d+ +0x([0-9a-f]+)")


class EuStack:
    """Samples all threads of one process with their whole stacks, each time while it is stopped.

    Only addresses are requested (`-q`): names are looked up when the process runs again. The stacks come from the
    tables for exceptions (`.eh_frame`), which libraries have even without frame pointers.

    The process continues whatever is killed: laggard, `eu-stack`, or both. It is not sampled while one of its threads
    is in uninterruptible sleep: `eu-stack` would wait for that one, with the others stopped. It is not sampled either
    while a thread is stopped, by a signal or by another tracer.

    Args:
        pid: the pid of the process in laggard's pid namespace.
        clock: the clock.
        root: the mount point of procfs.

    """

    def __init__(self, pid: int, *, clock: Clock | None = None, root: str = "/proc") -> None:
        self.name = NAME
        self.cpu_s = 0.0
        self.stopped_s = 0.0
        self.covered_s = 0.0
        self._pid = pid
        self._clock = clock or Clock()
        self._path = f"{root}/{pid}"
        self._files = SymbolFiles()
        self._space = AddressSpace(pid, root=root, clock=self._clock, files=self._files)
        self._started = False
        self._due_ns = 0
        self._hung: Child | None = None
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> Sequence[str]:
        """The gaps in its results, and the reasons."""
        return list(self._notes)

    def start(self) -> None:
        """Start, or start again after a `stop`.

        Raises:
            ProfilerError: it cannot start.

        """
        reason = available(self._pid)
        if reason:
            raise ProfilerError(reason)
        self._started = True

    def take(self) -> Sequence[Sample]:
        """Take a sample if one is due: wait for it, some 20 ms, to measure its duration.

        Raises:
            ProfilerError: eu-stack failed, and the process is still there.

        """
        if not self._started or self._clock.monotonic() < self._due_ns or self._hangs():
            return ()
        states = thread_states(self._path)
        self._due_ns = self._clock.monotonic() + round(EVERY_S * 1e9)
        if b"D" in states.values():
            self._note("eu-stack: skipped samples while a thread was in uninterruptible sleep, which would block them")
            return ()
        if stopped := set(states.values()) & {b"T", b"t"}:
            self._note(f"eu-stack: skipped samples while a thread was stopped (state {min(stopped).decode()})")
            return ()
        return self._sample(states)

    def stop(self) -> Sequence[Sample]:
        """Stop; there are no remaining samples."""
        self._started = False
        self._files.close()
        return ()

    def _hangs(self) -> bool:
        if self._hung is not None and self._hung.ended():
            self._hung.close()
            self._hung = None
        return self._hung is not None

    def _sample(self, states: dict[int, bytes]) -> list[Sample]:
        supervised = ("sh", "-c", _SUPERVISOR, "sh", str(LIMIT_S), _program(), str(FRAMES), str(self._pid))
        begin_ns = self._clock.monotonic()
        try:
            child = Child(supervised)
        except OSError as error:
            raise ProfilerError(f"eu-stack: cannot start: {error.strerror}") from error
        if not child.ends_within(HUNG_S):
            # It is not killed, since that would leave the process stopped: it continues the process when it can.
            self._hung = child
            self._note(f"eu-stack: a sample did not end within {HUNG_S} s; sampling resumes when it does")
            return []
        took_s = (self._clock.monotonic() - begin_ns) / 1e9
        self.cpu_s += child.cpu_s
        self.stopped_s += took_s  # an upper bound: before it attached, and after it detached, the process ran
        self._due_ns = max(self._due_ns, begin_ns + round(took_s / STOPPED_SHARE * 1e9))
        code = child.returncode or 0
        text, message = child.output(), child.error()
        child.close()
        if code < 0 or code >= _ENDED:
            with contextlib.suppress(OSError):  # as the supervisor does, unless it was killed itself
                os.kill(self._pid, signal.SIGCONT)
            self._note(f"eu-stack: a sample was killed after {took_s:.1f} s; the process continues")
            return []
        ts = self._clock.wall() / 1e9
        samples = [
            Sample(ts, tid, stack, "running" if states.get(tid) == b"R" else "blocked")
            for tid, stack in self._stacks(text)
        ]
        if not samples and code and Path(self._path).exists():
            raise ProfilerError(f"eu-stack: cannot sample process {self._pid}: {message or f'exit code {code}'}")
        self.covered_s += (self._due_ns - begin_ns) / 1e9
        return samples

    def _stacks(self, text: bytes) -> Iterator[tuple[int, tuple[Location, ...]]]:
        for tid, addresses in parse_stacks(text):
            stack = []
            for number, address in enumerate(addresses):
                location = self._space.locate(address, caller=number > 0)
                if location is None:
                    break
                stack.append(location)
            if stack:
                yield tid, tuple(stack)

    def _note(self, text: str) -> None:
        self._notes.setdefault(text)


def parse_stacks(text: bytes) -> Iterator[tuple[int, list[int]]]:
    """Parse the output of `eu-stack -q`: each thread's id and the addresses of its stack, the innermost first."""
    tid = 0
    addresses: list[int] = []
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            if tid:
                yield tid, addresses
            tid, addresses = int(thread[1]), []
        elif frame := _FRAME.match(line):
            addresses.append(int(frame[1], 16))
    if tid:
        yield tid, addresses


def available(pid: int) -> str:
    """Return why it cannot be used on this process, in words; empty if it can."""
    if not _program():
        return "eu-stack: not installed; install the package elfutils (Debian, Fedora)"
    status = content(f"/proc/{pid}/status")
    if not status:
        return f"eu-stack: process {pid} has ended"
    if reason := _stopped_by(status):
        return f"eu-stack: process {pid} {reason}"
    if not content(f"/proc/{pid}/maps"):
        return (
            f"eu-stack: cannot read process {pid}: no permission, or it is a kernel thread or a zombie; run laggard as"
            " root, as the process's user, or with CAP_SYS_PTRACE"
        )
    if not may_signal(pid):
        return f"eu-stack: process {pid} belongs to another user: continuing it after a kill of eu-stack needs CAP_KILL"
    return ""


def attach(pid: int) -> EuStack:
    """Return a profiler of this process, not yet started."""
    return EuStack(pid)


def _program() -> str:
    return shutil.which("eu-stack") or ""


def _stopped_by(status: bytes) -> str:
    """Return why a process with this `/proc/PID/status` does not run by itself, in words; empty if it does."""
    tracer = re.search(rb"^TracerPid:\s*(\d+)$", status, re.MULTILINE)
    if tracer and int(tracer[1]):
        return f"is already traced by process {tracer[1].decode()}"
    if re.search(rb"^State:\s*[Tt]", status, re.MULTILINE):
        return "is stopped, and sampling would continue it"
    return ""
