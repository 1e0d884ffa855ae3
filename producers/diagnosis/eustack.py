"""Whole stacks of native code, running or waiting, by `eu-stack` of elfutils: it stops the process for each look.

Measured on a program with 11 threads: a look took 13 to 38 ms (3.5 ms of CPU time), with names asked for (without `-q`)
211 ms, gdb 1,058 ms: it is not used. On a machine with 60 programs for each core a look takes up to `LIMIT_S`, for
the process waits until the tracer gets its turn. The busy thread did 0.999 of its rounds for the same CPU time (median
of 8 pairs, 0.982 to 1.015: `tests/benchmarks/profilers.py`).
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

    from laggard.pipeline.records.diagnosis import Location

NAME = "eu-stack"
STOPS = True

STOPPED_SHARE = 0.02
"""The process is stopped for no more than about this share of the time."""

EVERY_S = 0.2
"""The shortest time between two looks."""

LIMIT_S = 1
"""A look that takes longer is ended, and the process let go."""

HUNG_S = 30
"""A look that cannot be ended is waited for no longer: one that reads memory which a file system keeps back."""

FRAMES = 64
"""So many functions of a stack are told, the innermost ones."""

# A tracer that is killed may leave what it has attached to stopped: the signal that stopped it is delivered after all.
# (17 of 60 kills did so here; with what follows none.)
# So somebody stays behind who is neither laggard nor the tracer, ends one that hangs, and lets the process go: CONT
# also takes back a stop that is still on its way. `timeout` and `kill` are the shell's own or of coreutils.
_SUPERVISOR = 'timeout -s KILL "$1" "$2" -q -n "$3" -p "$4"; code=$?; [ $code -lt 124 ] || kill -CONT "$4"; exit $code'
_ENDED = 124
"""The least exit code that says that the tracer was ended, rather than that it ended."""

_THREAD = re.compile(rb"^TID (\d+):$")
_FRAME = re.compile(rb"^#\d+ +0x([0-9a-f]+)")


class EuStack:
    """Samples all threads of one process with their whole stacks, each time while it stands still.

    It is asked for addresses alone (`-q`): names are looked up when the process runs again. It follows the tables for
    exceptions (`.eh_frame`), which libraries have where frame pointers are missing.

    The process is let go whatever is killed: laggard, `eu-stack`, or both. It is not looked at while one of its threads
    sleeps uninterruptibly, for then `eu-stack` would wait for that one, with the others stopped; nor while a thread is
    stopped, by a signal or by another tracer.

    Args:
        pid: of the process, in our own pid namespace.
        clock: what tells the time.
        root: where procfs is mounted.

    """

    def __init__(self, pid: int, *, clock: Clock | None = None, root: str = "/proc") -> None:
        self.name = NAME
        self.cpu_s = 0.0
        self.stopped_s = 0.0
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
        """What it could not tell, and why."""
        return list(self._notes)

    def start(self) -> None:
        """Begin, or begin again after a `stop`.

        Raises:
            ProfilerError: it cannot.

        """
        reason = available(self._pid)
        if reason:
            raise ProfilerError(reason)
        self._started = True

    def take(self) -> Sequence[Sample]:
        """What a look finds, if one is due: it is waited for, some 20 ms, so that it is known how long it took.

        Raises:
            ProfilerError: eu-stack failed, and the process is still there.

        """
        if not self._started or self._clock.monotonic() < self._due_ns or self._hangs():
            return ()
        states = thread_states(self._path)
        self._due_ns = self._clock.monotonic() + round(EVERY_S * 1e9)
        if b"D" in states.values():
            self._note("eu-stack: not asked while a thread slept uninterruptibly: it would have waited for that one")
            return ()
        if stopped := set(states.values()) & {b"T", b"t"}:
            self._note(f"eu-stack: not asked while a thread was stopped (state {min(stopped).decode()})")
            return ()
        return self._look(states)

    def stop(self) -> Sequence[Sample]:
        """End; there is nothing left to give."""
        self._started = False
        self._files.close()
        return ()

    def _hangs(self) -> bool:
        if self._hung is not None and self._hung.ended():
            self._hung.close()
            self._hung = None
        return self._hung is not None

    def _look(self, states: dict[int, bytes]) -> list[Sample]:
        supervised = ("sh", "-c", _SUPERVISOR, "sh", str(LIMIT_S), _program(), str(FRAMES), str(self._pid))
        begin_ns = self._clock.monotonic()
        try:
            child = Child(supervised)
        except OSError as error:
            raise ProfilerError(f"eu-stack: it cannot be started: {error.strerror}") from error
        if not child.ends_within(HUNG_S):
            # It is not ended by us, for that would leave the process stopped: it lets it go when it can.
            self._hung = child
            self._note(f"eu-stack: a look could not be ended for {HUNG_S} s; there is no other one until it has")
            return []
        took_s = (self._clock.monotonic() - begin_ns) / 1e9
        self.cpu_s += child.cpu_s
        self.stopped_s += took_s  # at most: until it had attached, and after it let go, the process ran
        self._due_ns = max(self._due_ns, begin_ns + round(took_s / STOPPED_SHARE * 1e9))
        code = child.returncode or 0
        text, said = child.output(), child.error()
        child.close()
        if code < 0 or code >= _ENDED:
            with contextlib.suppress(OSError):  # as the supervisor does, if it was not ended itself
                os.kill(self._pid, signal.SIGCONT)
            self._note(f"eu-stack: a look was ended, after {took_s:.1f} s; the process was let go")
            return []
        ts = self._clock.wall() / 1e9
        samples = [
            Sample(ts, tid, stack, "running" if states.get(tid) == b"R" else "blocked")
            for tid, stack in self._stacks(text)
        ]
        if not samples and code and Path(self._path).exists():
            raise ProfilerError(f"eu-stack: process {self._pid} cannot be looked at: {said or f'exit code {code}'}")
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
    """Parse what `eu-stack -q` writes: each thread's id and the addresses of its stack, the innermost first."""
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
    """Why it cannot be used on this process, in words; empty where it can."""
    if not _program():
        return "eu-stack: it is not installed; on Debian and Fedora the package elfutils has it"
    status = content(f"/proc/{pid}/status")
    if not status:
        return f"eu-stack: there is no process {pid} any more"
    if reason := _held(status):
        return f"eu-stack: process {pid} {reason}"
    if not content(f"/proc/{pid}/maps"):
        return (
            f"eu-stack: process {pid} may not be looked at, or is a kernel thread or a zombie; run laggard as root, as"
            " the process's user, or with CAP_SYS_PTRACE"
        )
    if not may_signal(pid):
        return (
            f"eu-stack: process {pid} is another user's, and could not be let go if eu-stack was killed: that takes"
            " CAP_KILL"
        )
    return ""


def attach(pid: int) -> EuStack:
    """A profiler of this process, not yet started."""
    return EuStack(pid)


def _program() -> str:
    return shutil.which("eu-stack") or ""


def _held(status: bytes) -> str:
    """Why a process of this `/proc/PID/status` does not run by itself, in words; empty where it does."""
    tracer = re.search(rb"^TracerPid:\s*(\d+)$", status, re.MULTILINE)
    if tracer and int(tracer[1]):
        return f"is traced already, by process {tracer[1].decode()}"
    if re.search(rb"^State:\s*[Tt]", status, re.MULTILINE):
        return "is stopped, and would be let go"
    return ""
