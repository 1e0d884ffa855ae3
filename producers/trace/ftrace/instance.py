"""A separate instance of the kernel's tracer below tracefs: create it, set it up, read it, and always remove it.

The tracer of others is not touched: buffers, events and settings are those of the instance. Probes are the exception,
since tracefs has one list for all. Those of laggard are in a group with the name of the instance. Source: ftrace.rst
and uprobetracer.rst of Documentation/trace of Linux.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from typing import TYPE_CHECKING, Final, Self

from laggard.producers.trace.ftrace.formats import parse_format, parse_header_page
from laggard.producers.trace.ftrace.remains import remove_folder, remove_stale
from laggard.producers.trace.ftrace.tracefs import (
    GROUP,
    PREFIX,
    TRACEFS,
    TracingError,
    append,
    explained,
    mount_file,
    unmount,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from laggard.producers.trace.boundaries.probes import Probe
    from laggard.producers.trace.ftrace.formats import Format, Header

CLOCK: Final = "mono"
"""CLOCK_MONOTONIC: the same on all CPUs, and readable by programs."""

_GROUP_MAY_WRITE: Final = 0o220
_ATTEMPTS: Final = 5
_BUSY_S: Final = 2.0  # the longest time for which a program may have the instance's marker file open


class Instance:
    """An instance, removed when the block that uses it ends.

    One of its files is always open. So `remove_stale` can distinguish it from the instance of a killed recorder, in any
    container.

    Args:
        buffer_kib: the size of each CPU's buffer, in KiB.
        root: the mount point of tracefs.

    Attributes:
        name: the name of its folder.
        cpus: the CPUs that can be traced.
        header: the header of its pages.
        path: its folder.
        group: the group of its probes.

    Raises:
        TracingError: tracefs is missing or not permitted.

    """

    def __init__(self, *, buffer_kib: int, root: Path = TRACEFS) -> None:
        remove_stale(root)
        self._root = root
        self._probes: list[Probe] = []
        self._pipes: dict[int, int] = {}
        self._marker: Path | None = None
        self._freeing = -1
        for attempt in range(_ATTEMPTS):
            suffix = secrets.token_hex(4)
            self.name, self.group = PREFIX + suffix, GROUP + suffix
            self.path = root / "instances" / self.name
            with explained(f"{root}: cannot create a trace instance"):
                self.path.mkdir()
            try:
                self._hold()
                break
            except OSError as error:
                # Another recorder removed it as a stale one before one of its files was open.
                self._let_go()
                if error.errno not in {errno.ENOENT, errno.ENODEV}:
                    raise
                if attempt == _ATTEMPTS - 1:
                    raise TracingError(errno.EBUSY, f"{self.path}: another program removed it") from error
        try:
            with explained(f"{self.path}: cannot be set up"):
                self.write("tracing_on", "0")
                self.write("trace_clock", CLOCK)
                self.write("options/overwrite", "1")
                self.write("options/event-fork", "1")
                self.write("buffer_size_kb", str(buffer_kib))
                self.header: Header = parse_header_page((self.path / "events/header_page").read_text())
        except BaseException:
            self.remove()
            raise

    def _hold(self) -> None:
        """Open its files; from then on it does not count as stale."""
        self.cpus = tuple(sorted(int(path.name[3:]) for path in (self.path / "per_cpu").iterdir()))
        for cpu in self.cpus:
            pipe = self.path / f"per_cpu/cpu{cpu}/trace_pipe_raw"
            self._pipes[cpu] = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        # When this is closed, even by a kill, the kernel stops tracing and frees the buffers.
        self.write("options/disable_on_free", "1")
        self._freeing = os.open(self.path / "free_buffer", os.O_WRONLY)

    def _let_go(self) -> None:
        """Close its files."""
        for pipe in self._pipes.values():
            os.close(pipe)
        self._pipes.clear()
        if self._freeing >= 0:
            os.close(self._freeing)
            self._freeing = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def write(self, file: str, text: str) -> None:
        """Write to one of its files."""
        with open(self.path / file, "w") as target:  # noqa: PTH123 - Path.write_text would be one more call for each
            target.write(text)

    def define(self, probes: Iterable[Probe]) -> None:
        """Define probes at places in programs.

        Raises:
            TracingError: the kernel rejects one.

        """
        for probe in probes:
            line = probe.definition(self.group)
            with explained(f"{self._root / 'dynamic_events'}: rejects `{line}`"):
                # Append, since truncation would remove the probes of all programs.
                append(self._root / "dynamic_events", line)
            self._probes.append(probe)

    def event(self, probe: Probe) -> str:
        """Return the name of a probe's events, as `system/event`."""
        return f"{self.group}/{probe.event}"

    def enable(self, events: Iterable[str]) -> dict[str, Format]:
        """Enable events, given as `system/event`; events that this kernel does not have are left out of the result.

        Returns:
            The formats of the enabled events.

        Raises:
            TracingError: an event cannot be enabled.
            FormatError: the format of an event cannot be parsed.

        """
        formats = {}
        for event in events:
            folder = self.path / "events" / event
            with explained(f"{folder}: cannot be enabled"):
                try:
                    text = (folder / "format").read_text()
                except FileNotFoundError:
                    continue
                formats[event] = parse_format(text, place=str(folder / "format"))
                if (folder / "enable").exists():  # the marker's event has no switch
                    self.write(f"events/{event}/enable", "1")
        return formats

    def exclude(self, threads: Sequence[int]) -> None:
        """Exclude the events of these threads, and of those that they start from now on."""
        with explained(f"{self.path / 'set_event_notrace_pid'}: cannot be written"):
            append(self.path / "set_event_notrace_pid", " ".join(map(str, threads)))

    def switch(self, *, on: bool) -> None:
        """Resume or pause the recording into the buffers."""
        self.write("tracing_on", "1" if on else "0")

    def read(self, cpu: int, into: memoryview) -> int:
        """Take the next pages of a CPU's buffer.

        It uses read(2), which also returns the page that is being filled. A page costs 2.9 to 4.0 us of CPU time with
        this and a write, and 2.0 to 2.4 us with splice(2) to a file (three runs each). The difference is 10 to 20 ns
        for a pair of events, which costs the traced program 540 ns.

        Args:
            cpu: the CPU.
            into: the buffer, of at least one page.

        Returns:
            The number of bytes, in whole pages; 0 if there are no more now. The last page may hold few events yet.

        """
        size, read = self.header.page, 0
        pipe = self._pipes[cpu]
        try:
            while read + size <= len(into):
                got = os.readv(pipe, [into[read : read + size]])
                if got <= 0:
                    break
                read += size
        except BlockingIOError:
            pass
        except OSError as error:
            # A possible CPU that was never present: it has no buffer.
            if error.errno != errno.ENODEV:
                raise
        return read

    def publish_marker(self, path: Path, group: int = 0) -> None:
        """Offer the marker file at a place where programs find it, and that a group may write.

        Only root can enter tracefs, so the file is mounted there. All who may write it can fake requests.

        Raises:
            TracingError: it cannot be mounted, or another recorder's marker is there.

        """
        with explained(f"{path}: cannot offer the marker file"):
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.ismount(path):  # Path.is_mount only knows folders
                if path.stat().st_nlink:
                    raise TracingError(errno.EBUSY, f"{path}: another recorder offers its marker file there")
                unmount(path)
            path.touch()
            mount_file(self.path / "trace_marker", path)
            self._marker = path
            if group:
                os.chown(path, -1, group)
            path.chmod(_GROUP_MAY_WRITE)

    def overruns(self) -> int:
        """Return the number of events that the kernel has dropped so far: they came faster than they were read."""
        total = 0
        for cpu in self.cpus:
            stats = (self.path / f"per_cpu/cpu{cpu}/stats").read_text()
            found = [line.partition(":")[2] for line in stats.splitlines() if line.startswith(("overrun:", "dropped"))]
            total += sum(map(int, found))
        return total

    def remove(self) -> None:
        """Remove the instance and its probes. It waits for programs that still use them, for example to write a marker.

        Raises:
            TracingError: they are in use for too long; the next recorder removes them.

        """
        with contextlib.suppress(OSError):
            self.switch(on=False)
        self._let_go()
        if self._marker is not None:
            with contextlib.suppress(OSError):
                unmount(self._marker)
                self._marker.unlink()
            self._marker = None
        until = time.monotonic() + _BUSY_S
        with contextlib.suppress(FileNotFoundError):  # another recorder was faster
            while not remove_folder(self.path):
                if time.monotonic() > until:
                    raise TracingError(errno.EBUSY, f"{self.path}: another program still uses it")
                time.sleep(0.01)
        for probe in self._probes:
            with contextlib.suppress(FileNotFoundError):
                append(self._root / "dynamic_events", f"-:{self.group}/{probe.event}")
        self._probes.clear()
