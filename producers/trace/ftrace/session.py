"""A tracing session: instance, events and probes, the state from before, and the pages of the buffers."""

from __future__ import annotations

import errno
import os
import platform
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from laggard.producers.trace.ftrace.bpf import BpfError
from laggard.producers.trace.ftrace.decoding import EVENTS, MARKER, VECTORS
from laggard.producers.trace.ftrace.instance import Instance
from laggard.producers.trace.ftrace.known import Known, read_known
from laggard.producers.trace.ftrace.names import Names
from laggard.producers.trace.ftrace.tracefs import TRACEFS, TracingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from laggard.producers.trace.boundaries.probes import Probe

BUFFER_BYTES: Final = 64 << 20
"""The buffers of all CPUs together: at 43 bytes an event, 1.5 million events, for seconds of delay in reading."""

LEAST_BUFFER_BYTES: Final = 1 << 20
"""The smallest buffer of a CPU."""

_FIRST_PID_NAMESPACE: Final = 0xEFFFFFFC  # PROC_PID_INIT_INO of include/linux/proc_ns.h
_TAKEN_PAGES: Final = 1024  # at once


class Pages(NamedTuple):
    """Pages as they were read, shape (n, bytes of a page), and the CPU of each."""

    pages: NDArray[np.uint8]
    cpus: NDArray[np.int16]


class Session:
    """A recording, from `start` to `stop`.

    The calling process is excluded.

    Args:
        probes: boundaries in programs.
        marker: the place where the marker file is offered to programs.
        marker_group: the id of the group that may write it, in addition to root.
        buffer_bytes: the size of the buffers of all CPUs together; each has at least `LEAST_BUFFER_BYTES`.
        minimal: whether to record only events for local states: no interrupts, timers, block devices and names.
        root: the mount point of tracefs.

    Attributes:
        instance: the instance of the tracer.
        begin_ns: its start on the trace's clock.
        known: the threads and descriptors at its start.
        formats: the formats of the enabled events.
        notes: the limitations on this machine, in words.

    Raises:
        TracingError: the tracer cannot be used.

    """

    def __init__(
        self,
        *,
        probes: Sequence[Probe] = (),
        marker: Path | None = None,
        marker_group: int = 0,
        buffer_bytes: int = BUFFER_BYTES,
        minimal: bool = False,
        root: Path = TRACEFS,
    ) -> None:
        if not sees_all_threads():
            raise TracingError(
                errno.EPERM,
                "the tracer reports thread ids of the host, not of this container: run laggard in the host's pid "
                "namespace (containers: --pid=host)",
            )
        self._undo = ExitStack()
        self.probes = tuple(probes)
        self._marker = marker
        self._marker_group = marker_group
        buffer_kib = max(buffer_bytes // (os.cpu_count() or 1), LEAST_BUFFER_BYTES) >> 10
        self.instance = self._undo.enter_context(Instance(buffer_kib=buffer_kib, root=root))
        self.begin_ns = 0
        self.known = Known([], [])
        self.notes: list[str] = []
        self.names: Names | None = None
        try:
            # Before the tracer's events are on; see `Names`.
            try:
                self.names = None if minimal else Names()
            except BpfError as error:
                self.notes.append(
                    f"paths and addresses are known only for descriptors from before the start: {error.strerror}"
                )
            if self.names is not None:
                self._undo.callback(self.names.close)
            self.instance.exclude([int(name) for name in os.listdir("/proc/self/task")])  # noqa: PTH208
            self.instance.define(self.probes)
            self._boundaries = {self.instance.event(probe): probe for probe in self.probes}
            self.formats = self.instance.enable([*self._events(minimal=minimal), MARKER, *self._boundaries])
        except BaseException:
            self._undo.close()
            raise
        size = self.instance.header.page
        self._taken = np.empty((_TAKEN_PAGES, size), np.uint8)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the instance."""
        self._undo.close()

    def _events(self, *, minimal: bool) -> list[str]:
        if minimal:
            return [name for name in EVENTS if not name.startswith(("irq/", "timer/", "block/"))]
        names = [f"{VECTORS}{path.name}" for path in (self.instance.path / "events" / VECTORS).glob("*")]
        return [*EVENTS, *sorted(name for name in names if name.endswith(("_entry", "_exit")))]

    def start(self) -> None:
        """Start recording, and read the state from before."""
        self.begin_ns = time.monotonic_ns()
        self.instance.switch(on=True)
        # After the first event, so that a descriptor that is opened meanwhile is in at least one of both.
        self.known = read_known(without=os.getpid())
        if self._marker is not None:
            # Last, since programs that open the file wait while an instance is set up.
            self.instance.publish_marker(self._marker, self._marker_group)

    def take(self) -> Iterator[Pages]:
        """Yield the content of the buffers, in portions; each portion's arrays are reused for the next."""
        for cpu in self.instance.cpus:
            while True:
                size = self.instance.read(cpu, self._taken.data.cast("B")) // self.instance.header.page
                if size:
                    yield Pages(self._taken[:size], np.full(size, cpu, np.int16))
                if size < _TAKEN_PAGES:
                    break

    def take_names(self) -> bytes:
        """Take the new names for `name_rows`; call it after the pages that they explain were taken."""
        return self.names.take() if self.names else b""

    def stop(self) -> None:
        """Stop recording. The content of the buffers can still be taken."""
        self.instance.switch(on=False)

    def described(self) -> dict[str, Any]:
        """Return all data that is needed to read the pages, as plain data."""
        formats = {name: (self.instance.path / "events" / name / "format").read_text() for name in self.formats}
        return {
            "begin_ns": self.begin_ns,
            "wall_offset_ns": wall_offset_ns(),
            "host": platform.node(),
            "machine": machine(),
            "kernel": platform.release(),
            "cpus": list(self.instance.cpus),
            "header_page": (self.instance.path / "events/header_page").read_text(),
            "formats": formats,
            "probes": {name: probe.to_json() for name, probe in self._boundaries.items()},
            "devices": {str(number): name for number, name in devices().items()},
            "threads": self.known.threads,
            "descriptors": self.known.descriptors,
        }

    @property
    def boundaries(self) -> dict[str, Probe]:
        """The probes, by the names of their events."""
        return self._boundaries


def sees_all_threads(root: str = "/proc") -> bool:
    """Return whether laggard's pid namespace is the machine's first one, whose ids the tracer reports."""
    return os.stat(f"{root}/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE  # noqa: PTH116 - follows the link to it


def machine() -> str:
    """Return the name of this machine in the tables of system calls."""
    return platform.machine()


def wall_offset_ns() -> int:
    """Return the offset from the trace's clock to nanoseconds since the Unix epoch: the best of five tries."""
    tries = []
    for _ in range(5):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        tries.append((after - before, wall - (before + after) // 2))
    return min(tries)[1]


def devices(root: str = "/proc") -> dict[int, str]:
    """Return the names of block devices, by `major << 20 | minor`."""
    found = {}
    for line in Path(root, "diskstats").read_text().splitlines():
        major, minor, name = line.split()[:3]
        found[int(major) << 20 | int(minor)] = name
    return found
