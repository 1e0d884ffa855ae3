"""The names in system calls: paths and addresses, as programs pass them.

The tracer only reports the address of a name in a program's memory. A small BPF program reads the name there when the
call returns. By then the kernel has read it, too, so the memory is present.
"""

from __future__ import annotations

import contextlib
import os
import platform
import struct
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.diagnosis import system_calls
from laggard.producers.trace.events import EVENT, NO_TEXT, Kind
from laggard.producers.trace.ftrace import bpf
from laggard.producers.trace.ftrace.known import socket_text
from laggard.producers.trace.ftrace.merging import merged
from laggard.producers.trace.ftrace.name_program import ADDRESS, ARGUMENTS, ERROR, NUMBERS, RECORD, program_of
from laggard.producers.trace.steady import steady

if TYPE_CHECKING:
    from collections.abc import Container

    from numpy.typing import NDArray

    from laggard.producers.trace.events import Texts

FAILED: Final = 255
"""A temporary kind before `with_failures`: the current call of `tid` reported the error `a`."""

MOST_TEXTS: Final = 1_000_000
"""If a trace has this many texts, further names are left out."""

BUFFER_BYTES: Final = 4 << 20
"""Enough for 13,000 names between two reads."""

ADDRESSES_BYTES: Final = 2 << 20
"""Enough for 6,700 addresses, which have a buffer of their own: programs that open many files do not push them out."""

_OPENING: Final = {"open": 0, "creat": 0, "openat": 1, "openat2": 1}
_ADDRESSING: Final = {"connect": 1, "bind": 1}
_ASKING: Final = {"getsockopt": 3}
_NAMING: Final = {
    **dict.fromkeys(("stat", "lstat", "access", "truncate", "rename", "mkdir", "rmdir", "link", "unlink"), 0),
    **dict.fromkeys(("symlink", "readlink", "chmod", "chown", "statfs", "chdir", "utimes"), 0),
    **dict.fromkeys(("newfstatat", "statx", "unlinkat", "renameat", "renameat2", "readlinkat", "faccessat"), 1),
    **dict.fromkeys(("faccessat2", "mkdirat", "fchmodat", "utimensat", "linkat", "inotify_add_watch"), 1),
}


class Names:
    """Records the names of all processes except the calling one, until it is closed.

    Create it before the tracer is on. Then it runs first when a call returns, and a name comes before the call's end.

    Raises:
        BpfError: this kernel, or this user's rights, do not allow it.

    """

    def __init__(self) -> None:
        if platform.machine() != "x86_64":
            raise bpf.BpfError(0, f"supported only on x86_64, not on {platform.machine()}")
        self._closing: list[int] = []
        try:
            table = self._own(bpf.array(4, NUMBERS))
            self._dropped = self._own(bpf.array(8, 1))
            for number, value in _table().items():
                bpf.put(table, number, struct.pack("<I", value))
            self._records = bpf.RingBuffer(BUFFER_BYTES)
            try:
                self._addresses = bpf.RingBuffer(ADDRESSES_BYTES)
            except BaseException:
                self._records.close()
                raise
        except BaseException:
            self._close_all()
            raise
        try:
            buffers = self._records.descriptor, self._addresses.descriptor
            program = program_of(table, self._dropped, buffers, os.getpid())
            self._closing.extend(bpf.attach(program, "sys_exit"))
        except BaseException:
            self.close()
            raise

    def _own(self, descriptor: int) -> int:
        self._closing.append(descriptor)
        return descriptor

    def take(self) -> bytes:
        """Take the new records, of dtype `RECORD`."""
        return self._records.take() + self._addresses.take()

    @property
    def dropped(self) -> int:
        """The number of names that were dropped, since they came faster than they were read."""
        return int.from_bytes(bpf.get(self._dropped, 0, 8), "little")

    def close(self) -> None:
        """Stop recording names."""
        self._close_all()
        self._records.close()
        self._addresses.close()

    def _close_all(self) -> None:
        while self._closing:
            with contextlib.suppress(OSError):
                os.close(self._closing.pop())


def name_rows(raw: bytes | memoryview, texts: Texts) -> NDArray[np.void]:
    """Return names as events in the order of time: `PATH`, and `OPENED` if a descriptor leads there from now on.

    The error of a non-blocking connection, which a program reads by getsockopt(2), becomes `FAILED`: `with_failures`
    adds it to the call.

    Args:
        raw: the result of `Names.take`.
        texts: the table to which texts are added.

    """
    records = np.frombuffer(raw, RECORD)
    records = records[records["length"] > 0]
    records = records[np.argsort(records["ts"], kind="stable")]
    failed = _failed(records)
    records = records[~np.isin(records["number"], _numbers(_ASKING))]
    rows = np.zeros(len(records), EVENT)
    for target, source in (("ts", "ts"), ("cpu", "cpu"), ("tid", "thread")):
        rows[target] = records[source]
    rows["kind"], rows["host"] = Kind.PATH, NO_TEXT
    addressing = np.isin(records["number"], _numbers(_ADDRESSING))
    rows["kind"][addressing], rows["a"][addressing] = Kind.OPENED, records["descriptor"][addressing]
    rows["text"] = [
        _place(name, length, address, texts)
        for name, length, address in zip(
            records["name"].tolist(), records["length"].tolist(), addressing.tolist(), strict=True
        )
    ]
    opening = np.isin(records["number"], _numbers(_OPENING)) & (records["result"] >= 0)
    opened = rows[opening]
    opened["kind"], opened["a"] = Kind.OPENED, records["result"][opening]
    events = merged([rows, opened])
    return merged([events[events["text"] != NO_TEXT], failed])


def with_failures(rows: NDArray[np.void]) -> NDArray[np.void]:
    """Set the errors of `FAILED` rows as the results of their calls, and drop these rows.

    Args:
        rows: all events, in the order of time; changed in place.

    """
    failures = np.flatnonzero(rows["kind"] == FAILED)
    if not len(failures):
        return rows
    calls = np.flatnonzero(np.isin(rows["kind"], (Kind.SYSCALL_ENTER, Kind.SYSCALL_EXIT)))
    calls = calls[np.argsort(rows["tid"][calls], kind="stable")]
    # The next event of a call of the same thread is the end of this one. Otherwise that is missing.
    after = np.searchsorted(_place_of(rows, calls), _place_of(rows, failures))
    there = after < len(calls)
    failures, ends = failures[there], calls[after[there]]
    own = (rows["tid"][ends] == rows["tid"][failures]) & (rows["kind"][ends] == Kind.SYSCALL_EXIT)
    rows["b"][ends[own]] = rows["a"][failures[own]]
    found: NDArray[np.void] = rows[rows["kind"] != FAILED]
    return found


def _place_of(rows: NDArray[np.void], places: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return numbers that order events by thread, then by time."""
    return (rows["tid"][places].astype(np.int64) << 32) + places


def _failed(records: NDArray[np.void]) -> NDArray[np.void]:
    records = records[np.isin(records["number"], _numbers(_ASKING))]
    rows = np.zeros(len(records), EVENT)
    rows["ts"], rows["cpu"], rows["tid"], rows["kind"] = records["ts"], records["cpu"], records["thread"], FAILED
    rows["a"] = [-int.from_bytes(name[:4], "little") for name in records["name"].tolist()]
    rows["text"] = rows["host"] = NO_TEXT
    return rows


def _place(name: bytes, length: int, address: bool, texts: Texts) -> int:
    text = _text(name[:length], address)
    return texts.place(text) if text and len(texts.texts) < MOST_TEXTS else NO_TEXT


@lru_cache(maxsize=1 << 16)
def _text(name: bytes, address: bool) -> str:
    """Return a name without the parts that differ each time: there are few of them, however long a trace is."""
    return steady(socket_text(name) if address else name.rstrip(b"\0").decode(errors="replace"))


def _numbers(names: Container[str]) -> list[int]:
    return [number for number, name in _calls().items() if name in names]


@cache
def _calls() -> dict[int, str]:
    wanted = {*_OPENING, *_ADDRESSING, *_ASKING, *_NAMING}
    names = ((number, system_calls.name(number, machine="x86_64")) for number in range(NUMBERS))
    return {number: name for number, name in names if name in wanted}


def _table() -> dict[int, int]:
    """Return, by number of a system call, which register has the address of its name."""
    arguments = {**_OPENING, **_ADDRESSING, **_ASKING, **_NAMING}
    flags = dict.fromkeys(_ADDRESSING, ADDRESS) | dict.fromkeys(_ASKING, ERROR)
    return {number: ARGUMENTS[arguments[name]] | flags.get(name, 0) for number, name in _calls().items()}
