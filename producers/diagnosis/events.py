"""Samples of running threads by the kernel itself: perf_event_open(2), without the program `perf`.

`perf record -p` does the same, but each start of it costs CPU time, see `perf`; and it has to be installed, in a
version that fits. Source: perf_event_open(2) and include/uapi/linux/perf_event.h of Linux, with a stable binary
interface.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
import threading
from typing import NamedTuple

ANY = -1
"""Any thread, core or process."""

PAGES = 16
"""The pages of a buffer for samples, a power of two: 64 KiB are 200 to 600 samples."""

_NUMBERS = {  # of the system call
    "x86_64": 298,
    "aarch64": 241,
    "riscv64": 241,
    "loongarch64": 241,
    "ppc64le": 319,
    "s390x": 331,
}

# struct perf_event_attr, up to sample_max_stack: PERF_ATTR_SIZE_VER5 of Linux 4.1.
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQQQQIiQIHH")
_TYPE_SOFTWARE, _CPU_CLOCK = 1, 0
_SAMPLE = 0x2 | 0x4 | 0x20  # PERF_SAMPLE_TID, _TIME, _CALLCHAIN
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR, _EXCLUDE_IDLE, _USE_CLOCKID = (1 << bit for bit in (0, 5, 6, 7, 25))
_CLOCK_MONOTONIC = 1
_CLOSE_ON_EXEC = 1 << 3
_ENABLE, _PERIOD = 0x2400, 0x40082404  # PERF_EVENT_IOC_...
if platform.machine() == "ppc64le":  # where ioctls encode their direction differently
    _ENABLE, _PERIOD = 0x20002400, 0x80082404

# struct perf_event_mmap_page
_HEAD = struct.Struct("=Q")
_HEAD_AT, _TAIL_AT = 1024, 1032

_HEADER = struct.Struct("=IHH")  # struct perf_event_header: type, misc, size
_FOUND = struct.Struct("=IIQQ")  # pid, tid, time, length of the call chain
_LOST = struct.Struct("=QQ")  # id, how many
_RECORD_LOST, _RECORD_SAMPLE = 2, 9
_NO_ID = 0xFFFFFFFF  # of a thread that is ending
_CONTEXT_MAX = (1 << 64) - 4095
CONTEXT_KERNEL = (1 << 64) - 128
CONTEXT_USER = (1 << 64) - 512


class Found(NamedTuple):
    """A sample of a thread.

    Attributes:
        monotonic_ns: its time by CLOCK_MONOTONIC.
        tid: the id of the thread in laggard's pid namespace.
        kernel: addresses in the kernel, the innermost first; none if it ran in user mode.
        user: addresses of the process, likewise: those after the first are return addresses.

    """

    monotonic_ns: int
    tid: int
    kernel: tuple[int, ...]
    user: tuple[int, ...]


class Events:
    """Samples of a thread, or of the threads on a core, at intervals of CPU time; none while it does not run.

    The kernel writes into a shared buffer. Samples that do not fit before laggard reads it are lost, and counted.

    Args:
        tid: the id of the thread, on any core; or `ANY` for the threads on a core.
        cpu: the core; or `ANY`.
        process: of the samples on a core, only those of this process are returned.
        period_ns: the time between two samples, by the CPU clock of the thread or the core.
        kernel: whether to sample the kernel, too.

    Raises:
        OSError: as perf_event_open(2) and mmap(2) raise it.

    Attributes:
        lost: the number of samples that did not fit; on a core, including those of other processes.

    """

    __slots__ = ("_buffer", "_descriptor", "_order", "_process", "_size", "_tail", "lost")

    def __init__(self, tid: int, *, cpu: int = ANY, process: int = ANY, period_ns: int, kernel: bool) -> None:
        self.lost = 0
        self._process = process
        self._tail = 0
        self._size = PAGES * mmap.PAGESIZE
        self._order = threading.Lock()
        self._descriptor = open_event(tid, cpu=cpu, period_ns=period_ns, kernel=kernel)
        try:
            self._buffer = mmap.mmap(self._descriptor, mmap.PAGESIZE + self._size)
        except OSError:
            os.close(self._descriptor)
            raise
        fcntl.ioctl(self._descriptor, _ENABLE, 0)

    def set_period(self, period_ns: int) -> None:
        """Set the time between two samples."""
        fcntl.ioctl(self._descriptor, _PERIOD, struct.pack("=Q", period_ns))

    def take(self) -> list[Found]:
        """Return all samples since the last call."""
        (head,) = _HEAD.unpack_from(self._buffer, _HEAD_AT)
        if head == self._tail:
            return []
        self._fence()  # the kernel wrote the records before the head, so they have to be read after it
        begin, end = self._tail % self._size, head % self._size
        start = mmap.PAGESIZE
        if begin < end:
            text = self._buffer[start + begin : start + end]
        else:
            text = self._buffer[start + begin : start + self._size] + self._buffer[start : start + end]
        self._fence()  # ... and before it may overwrite them
        self._tail = head
        _HEAD.pack_into(self._buffer, _TAIL_AT, head)
        found, lost = parse_records(text, self._process)
        self.lost += lost
        return found

    def close(self) -> None:
        """Stop. The thread is not affected."""
        if self._descriptor >= 0:
            self._buffer.close()
            os.close(self._descriptor)
            self._descriptor = -1

    def _fence(self) -> None:
        """Prevent processors from reordering reads here: releasing a lock and acquiring it again forbids that."""
        for _ in range(2):
            with self._order:
                pass


def open_event(tid: int, *, cpu: int = ANY, period_ns: int, kernel: bool) -> int:
    """Return a descriptor of an event of the CPU clock of this thread, or of a core, not yet enabled.

    Raises `OSError` as perf_event_open(2) does; also ENOSYS on an unknown processor.
    """
    number = _NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"perf_event_open is not supported on {platform.machine()}")
    flags = _DISABLED | _EXCLUDE_HYPERVISOR | _EXCLUDE_IDLE | _USE_CLOCKID | (0 if kernel else _EXCLUDE_KERNEL)
    attributes = _ATTRIBUTES.pack(
        *(_TYPE_SOFTWARE, _ATTRIBUTES.size, _CPU_CLOCK, period_ns, _SAMPLE, 0, flags),
        *(0, 0, 0, 0, 0, 0, 0, _CLOCK_MONOTONIC, 0, 0, 0, 0),
    )
    library = ctypes.CDLL(None, use_errno=True)
    whose = ctypes.c_long(tid), ctypes.c_long(cpu)
    no_group, close_on_exec = ctypes.c_long(-1), ctypes.c_ulong(_CLOSE_ON_EXEC)
    library.syscall.restype = ctypes.c_long
    found = library.syscall(ctypes.c_long(number), attributes, *whose, no_group, close_on_exec)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(found)


def parse_records(text: bytes, process: int = ANY) -> tuple[list[Found], int]:
    """Parse the records of the kernel: samples of this process, and the number of lost ones.

    Other records are skipped, and so are threads that no longer have an id.
    """
    found, lost, at = [], 0, 0
    while at + _HEADER.size <= len(text):
        kind, _, size = _HEADER.unpack_from(text, at)
        if kind == _RECORD_SAMPLE:
            pid, tid, monotonic_ns, length = _FOUND.unpack_from(text, at + _HEADER.size)
            if process in (ANY, pid) and tid != _NO_ID:
                chain = struct.unpack_from(f"={length}Q", text, at + _HEADER.size + _FOUND.size)
                found.append(Found(monotonic_ns, tid, *_split(chain)))
        elif kind == _RECORD_LOST:
            lost += _LOST.unpack_from(text, at + _HEADER.size)[1]
        at += max(size, _HEADER.size)
    return found, lost


def _split(chain: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the addresses of a call chain in the kernel and in user space; marks in it show which ones follow."""
    kernel: list[int] = []
    user: list[int] = []
    into: list[int] = []
    for address in chain:
        if address < _CONTEXT_MAX:
            into.append(address)
        else:
            into = {CONTEXT_KERNEL: kernel, CONTEXT_USER: user}.get(address, [])
    return tuple(kernel), tuple(user)
