"""Python processes: their functions and lines, by py-spy, which reads the interpreter's memory from outside.

Measured on a program with five threads: 2.0 % of a core over 38 s. Runs of 2 s used 3.5 %, since each start of py-spy
uses 12 ms of CPU time. The busy thread did 0.993 of its rounds for the same CPU time (median of 8 pairs, 0.959 to
1.173: `tests/benchmarks/profilers.py`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laggard.pipeline.core.records.diagnosis import Location
from laggard.producers.diagnosis.addresses import mapped_files
from laggard.producers.diagnosis.children import Child
from laggard.producers.diagnosis.contract import ProfilerError, Sample, Unsuited
from laggard.producers.system.clock import Clock
from laggard.producers.system.proc import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAME = "py-spy"
STOPS = False

FREQUENCY_HZ = 25
"""Samples of all running threads, per second."""

CHUNKS_S = (1, 2, 5, 10)
"""The durations of the runs of py-spy, in seconds. A run returns its results at its end: the first ones are short, so
that results come soon, and the last duration is repeated."""

LATE_S = 30.0
"""A run that is overdue by this time, in seconds, is killed: its reads may hang."""

LONGEST_NAME = 512
"""Of functions and files, in characters; longer names are cut."""

FRAMES = 64
"""The most functions of a stack, the innermost ones."""

_PYTHON = re.compile(r"libpython\d.*|python[\d.]*|pypy[\d.-]*", re.DOTALL)
_THREAD = re.compile(r'Thread (\d+)(?: "|$)')
_SHIMS = ("thread (", "process ")  # added by py-spy outside of the first function


class PySpy:
    """Samples the Python functions of one process, by runs of py-spy one after the other.

    With `--nonblocking` nothing is stopped. Reads may be wrong while the interpreter changes its memory; py-spy drops
    nearly all of those. It samples only threads that run. So before each run, a dump of all threads shows where the
    others wait.

    py-spy does not report the time of a sample: those of a run are spread evenly over it, in their order.

    Args:
        pid: the pid of the process.
        clock: the clock.

    """

    def __init__(self, pid: int, *, clock: Clock | None = None) -> None:
        self.name = NAME
        self.stopped_s = 0.0
        self.cpu_s = 0.0
        self.covered_s = 0.0
        self.notes: list[str] = []
        self._pid = pid
        self._clock = clock or Clock()
        self._program = _program()
        self._child: Child | None = None
        self._recording = False
        self._duration_s = 0.0  # of the last recording
        self._begin_ns = self._late_ns = 0
        self._runs = 0

    def start(self) -> None:
        """Start, or start again after a `stop`.

        Raises:
            ProfilerError: it cannot start.

        """
        reason = available(self._pid)
        if reason:
            raise ProfilerError(reason)
        self._runs = 0
        self._dump()

    def take(self) -> Sequence[Sample]:
        """Return all samples since the last call: those of the runs that have ended.

        Raises:
            ProfilerError: py-spy failed, and the process is still there; or it hangs.

        """
        if self._child is None:
            return ()
        if not self._child.ended():
            if self._clock.monotonic() > self._late_ns:
                self._child.close()
                self._child = None
                raise ProfilerError(f"py-spy: did not finish within {LATE_S:g} s on process {self._pid}")
            return ()
        samples = self._result()
        if self._recording:
            self.covered_s += self._duration_s
            self._dump()
        else:
            self._record()
        return samples

    def stop(self) -> Sequence[Sample]:
        """Stop, and return the remaining samples."""
        if self._child is None:
            return ()
        self._child.interrupt()
        try:
            return self._result()
        except ProfilerError:
            return ()

    def _dump(self) -> None:
        self._recording = False
        self._late_ns = self._clock.monotonic() + round(LATE_S * 1e9)
        self._run("dump", "--json")

    def _record(self) -> None:
        self._recording = True
        self._duration_s = duration_s = CHUNKS_S[min(self._runs, len(CHUNKS_S) - 1)]
        self._runs += 1
        self._late_ns = self._clock.monotonic() + round((duration_s + LATE_S) * 1e9)
        options = ("--rate", str(FREQUENCY_HZ), "--duration", str(duration_s))
        self._run("record", "--threads", *options, "--format", "speedscope", output_option="--output")

    def _run(self, command: str, *arguments: str, output_option: str = "") -> None:
        self._begin_ns = self._clock.wall()
        command_line = (
            self._program,
            command,
            "--nonblocking",
            "--full-filenames",
            "--pid",
            str(self._pid),
            *arguments,
        )
        try:
            self._child = Child(command_line, output_option=output_option)
        except OSError as error:
            self._child = None
            raise ProfilerError(f"py-spy: cannot start {self._program}: {error.strerror}") from error

    def _result(self) -> list[Sample]:
        """Return the samples of the run that has ended, and close it."""
        assert self._child is not None
        child, self._child = self._child, None
        try:
            self.cpu_s += child.cpu_s
            if child.returncode:
                if not Path(f"/proc/{self._pid}").exists():
                    return []
                reason = child.error() or f"exit code {child.returncode}"
                raise ProfilerError(f"py-spy: cannot read process {self._pid}: {reason}{_permission(reason)}")
            text = child.output()
        finally:
            child.close()
        begin, end = self._begin_ns / 1e9, self._clock.wall() / 1e9
        if not text:  # it was interrupted before it had results
            return []
        try:
            if self._recording:
                return list(parse_record(text, begin, end))
            return list(parse_dump(text, (begin + end) / 2))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ProfilerError(f"py-spy: expected output of version 0.4, got {text[:80]!r}: {error!r}") from error


def parse_dump(text: bytes, ts: float) -> Iterator[Sample]:
    """Parse `py-spy dump --json`: the places of the threads that do not run.

    Args:
        text: its output.
        ts: its time, seconds since the Unix epoch.

    """
    for thread in json.loads(text):
        if thread["os_thread_id"] is not None and not thread["active"]:
            frames = [_location(frame["name"], frame["filename"], frame["line"]) for frame in thread["frames"]]
            yield Sample(ts, thread["os_thread_id"], tuple(frames[:FRAMES]), "blocked")


def parse_record(text: bytes, begin_ts: float, end_ts: float) -> Iterator[Sample]:
    """Parse `py-spy record --threads --format speedscope`: the functions that threads ran.

    Args:
        text: its output.
        begin_ts: its begin, seconds since the Unix epoch.
        end_ts: its end, likewise.

    """
    document = json.loads(text)
    frames: list[dict[str, Any]] = document["shared"]["frames"]
    locations = [_location(frame["name"], frame["file"], frame["line"]) for frame in frames]
    is_shim = [frame["name"].startswith(_SHIMS) and not frame["file"] for frame in frames]
    for profile in document["profiles"]:
        named = _THREAD.match(profile["name"])
        if named is None:
            raise ValueError(f"{profile['name']!r}: expected 'Thread' and its id")
        stacks = profile["samples"]
        step_s = (end_ts - begin_ts) / max(1, len(stacks))
        for number, stack in enumerate(stacks):
            innermost = tuple(locations[at] for at in reversed(stack) if not is_shim[at])
            yield Sample(begin_ts + (number + 0.5) * step_s, int(named[1]), innermost[:FRAMES], "running")


def available(pid: int) -> str:
    """Return why py-spy cannot be used on this process, in words; empty if it can."""
    files = mapped_files(f"/proc/{pid}")
    if not files:
        return f"py-spy: cannot read the memory of process {pid}: {_gone_or_forbidden(pid)}"
    if not any(_PYTHON.fullmatch(file.rpartition("/")[2]) for file in files):
        return Unsuited(f"py-spy: process {pid} is not a Python process")
    if not _program():
        # Into the environment that runs laggard: the `pip` of the path may belong to another one.
        command = shlex.join(["pip", "--python", sys.executable, "install", "py-spy"])
        return f"py-spy: not installed; run `{command}`"
    return ""


def attach(pid: int) -> PySpy:
    """Return a profiler of this process, not yet started."""
    return PySpy(pid)


def _program() -> str:
    """Return the path of py-spy: next to the Python that runs laggard, or on the path; empty if there is none."""
    beside = Path(sys.executable).with_name("py-spy")
    # Without access to its directory, it counts as missing.
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy") or ""


def _location(name: str, file: str, line: int) -> Location:
    return Location(printable(name[:LONGEST_NAME]), printable(file[:LONGEST_NAME]), -1, max(0, line))


def _gone_or_forbidden(pid: int) -> str:
    if not Path(f"/proc/{pid}").exists():
        return "it has ended"
    return "it is a kernel thread or a zombie, or belongs to another user, which needs CAP_SYS_PTRACE"


def _permission(reason: str) -> str:
    if "ermi" in reason:  # "Permission denied", "Operation not permitted"
        return "; run laggard as root, as the process's user, or with CAP_SYS_PTRACE"
    return ""
