"""A separate instance of the kernel's tracer below tracefs: create it, set it up, read it, and always remove it.

The tracer of others is not touched: buffers, events and settings are those of the instance. Probes are the exception,
since tracefs has one list for all. Those of laggard are in a group with the name of the instance. Source: ftrace.rst
and uprobetracer.rst of Documentation/trace of Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from laggard.producers.trace.ftrace.formats import FormatError, parse_format, parse_header_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from laggard.producers.trace.boundaries.probes import Probe
    from laggard.producers.trace.ftrace.formats import Format, Header

TRACEFS: Final = Path("/sys/kernel/tracing")

CLOCK: Final = "mono"
"""CLOCK_MONOTONIC: the same on all CPUs, and readable by programs."""

PREFIX: Final = "laggard-"
LEAST_BUFFER_KIB: Final = 64
"""The smallest buffer of a CPU, in KiB. The kernel keeps less than this when it frees the buffers of an instance."""

_GROUP: Final = "laggard_"
_MOUNTED: Final = re.compile(rf"/instances/({PREFIX}\w+)/trace_marker(?://deleted)?")
_ESCAPED: Final = re.compile(r"\\(\d{3})")  # blanks and similar characters, in octal
_GROUP_MAY_WRITE: Final = 0o220
_MS_BIND, _MNT_DETACH = 0x1000, 2  # <linux/mount.h>, <sys/mount.h>
_ATTEMPTS: Final = 5
_BUSY_S: Final = 2.0  # the longest time for which a program may have the instance's marker file open


class TracingError(OSError):
    """The kernel's tracer cannot be used; the text names the operation that failed and what it needs."""

    def __str__(self) -> str:
        """Return the text, without the number of the error."""
        return self.strerror or super().__str__()


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
            self.name, self.group = PREFIX + suffix, _GROUP + suffix
            self.path = root / "instances" / self.name
            with _explained(f"{root}: cannot create a trace instance"):
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
            with _explained(f"{self.path}: cannot be set up"):
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
            with _explained(f"{self._root / 'dynamic_events'}: rejects `{line}`"):
                # Append, since truncation would remove the probes of all programs.
                _append(self._root / "dynamic_events", line)
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
            with _explained(f"{folder}: cannot be enabled"):
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
        with _explained(f"{self.path / 'set_event_notrace_pid'}: cannot be written"):
            _append(self.path / "set_event_notrace_pid", " ".join(map(str, threads)))

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
        with _explained(f"{path}: cannot offer the marker file"):
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.ismount(path):  # Path.is_mount only knows folders
                if path.stat().st_nlink:
                    raise TracingError(errno.EBUSY, f"{path}: another recorder offers its marker file there")
                _unmount(path)
            path.touch()
            _mount(self.path / "trace_marker", path)
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
                _unmount(self._marker)
                self._marker.unlink()
            self._marker = None
        until = time.monotonic() + _BUSY_S
        with contextlib.suppress(FileNotFoundError):  # another recorder was faster
            while not _removed(self.path):
                if time.monotonic() > until:
                    raise TracingError(errno.EBUSY, f"{self.path}: another program still uses it")
                time.sleep(0.01)
        for probe in self._probes:
            with contextlib.suppress(FileNotFoundError):
                _append(self._root / "dynamic_events", f"-:{self.group}/{probe.event}")
        self._probes.clear()


def remove_stale(root: Path = TRACEFS) -> list[str]:
    """Remove the remains of killed recorders: unused instances, and probes and markers without an instance.

    An instance whose marker another program holds open cannot be removed yet. Its events are disabled and its probes
    and markers are removed, so that it costs nothing; a later call removes it.

    Returns:
        The names of removed objects.

    """
    removed = []
    with contextlib.suppress(OSError):
        for path in list((root / "instances").glob(f"{PREFIX}*")):
            with contextlib.suppress(FileNotFoundError):  # another recorder was faster
                if _removed(path):
                    removed.append(path.name)
                elif _abandoned(path):
                    (path / "events/enable").write_text("0")
    with contextlib.suppress(OSError):
        for line in (root / "dynamic_events").read_text().splitlines():
            event = line.split()[0].partition(":")[2]
            group = event.partition("/")[0]
            if not group.startswith(_GROUP) or _in_use(root, PREFIX + group.removeprefix(_GROUP)):
                continue
            with contextlib.suppress(OSError):
                _append(root / "dynamic_events", f"-:{event}")
                removed.append(event)
    with contextlib.suppress(OSError):
        for marker in _stale_markers(root):
            _unmount(marker)
            marker.unlink()
            removed.append(str(marker))
    return removed


def _in_use(root: Path, name: str) -> bool:
    """Return whether a recorder lives that has this instance."""
    path = root / "instances" / name
    return path.exists() and not _abandoned(path)


def _abandoned(path: Path) -> bool:
    """Return whether the recorder of an instance has ended: the kernel then stops it and frees its buffers.

    A new instance has larger buffers, as has a recorder that pauses.
    """
    try:
        stopped = (path / "tracing_on").read_text().strip() == "0"
        return stopped and int((path / "buffer_size_kb").read_text().split()[0]) < LEAST_BUFFER_KIB
    except (OSError, ValueError, IndexError):  # removed meanwhile, or CPUs with different sizes
        return False


def _stale_markers(root: Path) -> list[Path]:
    """Return the mount points of marker files without a recorder. Source: proc_pid_mountinfo(5)."""
    device = root.stat().st_dev
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        _, _, numbers, inside, place, *_ = line.split()
        match = _MOUNTED.fullmatch(inside)
        if not match or numbers != f"{os.major(device)}:{os.minor(device)}":
            continue
        if not _in_use(root, match[1]):
            found.append(Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), place)))
    return found


def _removed(path: Path) -> bool:
    """Remove an instance, and return whether that worked: it is in use otherwise. Raises `FileNotFoundError`."""
    try:
        path.rmdir()
    except OSError as error:
        if error.errno in {errno.EBUSY, errno.ENODEV}:  # the latter while another program removes it, too
            return False
        raise
    return True


def _mount(source: Path, target: Path) -> None:
    _called(_libc().mount(os.fsencode(source), os.fsencode(target), None, _MS_BIND, None))


def _unmount(path: Path) -> None:
    _called(_libc().umount2(os.fsencode(path), _MNT_DETACH))


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
    return libc


def _called(result: int) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _append(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, text.encode() + b"\n")
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except FormatError:
        raise
    except OSError as error:
        if isinstance(error, TracingError):
            raise
        needs = {
            errno.ENOENT: "tracefs is not mounted there, or this kernel does not have it",
            errno.EACCES: "only root may trace",
            errno.EPERM: "tracing is forbidden here (lockdown, or a container without the right)",
            errno.EROFS: "tracefs is mounted read-only",
            errno.ENOMEM: "there is not enough memory for the buffers",
        }.get(error.errno or 0, error.strerror or str(error))
        raise TracingError(error.errno or errno.EIO, f"{what}: {needs}") from error
