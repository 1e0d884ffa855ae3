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
from laggard.producers.trace.steady import steady

if TYPE_CHECKING:
    from collections.abc import Container

    from numpy.typing import NDArray

    from laggard.producers.trace.events import Texts

LONGEST: Final = 256
"""The longest name, in bytes; longer ones are cut."""

RECORD: Final = np.dtype(
    [
        ("ts", "<i8"),
        ("thread", "<u4"),
        ("process", "<u4"),
        ("number", "<i4"),
        ("cpu", "<i4"),
        ("result", "<i8"),
        ("descriptor", "<i8"),  # the call's first argument
        ("length", "<i8"),  # of the name; below 0 if it was unreadable
        ("name", f"V{LONGEST}"),
    ]
)
"""A name, as the BPF program writes it."""

FAILED: Final = 255
"""A temporary kind before `with_failures`: the current call of `tid` reported the error `a`."""

MOST_TEXTS: Final = 1_000_000
"""If a trace has this many texts, further names are left out."""

BUFFER_BYTES: Final = 4 << 20
"""Enough for 13,000 names between two reads."""

_OPENING: Final = {"open": 0, "creat": 0, "openat": 1, "openat2": 1}
_ADDRESSING: Final = {"connect": 1, "bind": 1}
_ASKING: Final = {"getsockopt": 3}
_NAMING: Final = {
    **dict.fromkeys(("stat", "lstat", "access", "truncate", "rename", "mkdir", "rmdir", "link", "unlink"), 0),
    **dict.fromkeys(("symlink", "readlink", "chmod", "chown", "statfs", "chdir", "utimes"), 0),
    **dict.fromkeys(("newfstatat", "statx", "unlinkat", "renameat", "renameat2", "readlinkat", "faccessat"), 1),
    **dict.fromkeys(("faccessat2", "mkdirat", "fchmodat", "utimensat", "linkat", "inotify_add_watch"), 1),
}
# Places of registers in `struct pt_regs` of x86-64 (arch/x86/include/asm/ptrace.h).
_ARGUMENTS: Final = (14 * 8, 13 * 8, 12 * 8, 7 * 8)
_NUMBER_AT: Final = 15 * 8
_ADDRESS: Final = 0x100  # in the table: an address whose length is the third argument
_ERROR: Final = 0x200  # in the table: an error, if the call requests it
_SOL_SOCKET, _SO_ERROR = 1, 4
_LONGEST_ADDRESS: Final = 128
_NUMBERS: Final = 512


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
            table = self._own(bpf.array(4, _NUMBERS))
            self._dropped = self._own(bpf.array(8, 1))
            for number, value in _table().items():
                bpf.put(table, number, struct.pack("<I", value))
            self._records = bpf.RingBuffer(BUFFER_BYTES)
        except BaseException:
            self._close_all()
            raise
        try:
            program = _program(table, self._dropped, self._records.descriptor, os.getpid())
            self._closing.extend(bpf.attach(program, "sys_exit"))
        except BaseException:
            self.close()
            raise

    def _own(self, descriptor: int) -> int:
        self._closing.append(descriptor)
        return descriptor

    def take(self) -> bytes:
        """Take the new records, of dtype `RECORD`."""
        return self._records.take()

    @property
    def dropped(self) -> int:
        """The number of names that were dropped, since they came faster than they were read."""
        return int.from_bytes(bpf.get(self._dropped, 0, 8), "little")

    def close(self) -> None:
        """Stop recording names."""
        self._close_all()
        self._records.close()

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
    names = ((number, system_calls.name(number, machine="x86_64")) for number in range(_NUMBERS))
    return {number: name for number, name in names if name in wanted}


def _table() -> dict[int, int]:
    """Return, by number of a system call, which register has the address of its name."""
    arguments = {**_OPENING, **_ADDRESSING, **_ASKING, **_NAMING}
    flags = dict.fromkeys(_ADDRESSING, _ADDRESS) | dict.fromkeys(_ASKING, _ERROR)
    return {number: _ARGUMENTS[arguments[name]] | flags.get(name, 0) for number, name in _calls().items()}


_STACK_NUMBER, _STACK_CURRENT, _STACK_INDEX = -8, -16, -20


def _program(table: int, dropped: int, records: int, own: int) -> bpf.Program:
    """Return the program that runs at the end of each system call: it records the name in the call, with the result.

    Preserved registers: 6 the record, 7 the program's registers, 8 the call's result, 9 the table's value.
    """
    program = bpf.Program()
    _choose(program, table, own)
    _reserve(program, records, dropped)
    _describe(program)
    program.jump_if(9, "&", _ADDRESS, "address")
    program.jump_if(9, "&", _ERROR, "error")
    _name(program)
    program.label("error")
    _error(program)
    program.label("address")
    _address(program)
    program.label("discard")
    _hand_over(program, bpf.DISCARD)
    program.jump("end")
    program.label("submit")
    _hand_over(program, bpf.SUBMIT)
    program.label("end")
    program.leave()
    return program


def _choose(program: bpf.Program, table: int, own: int) -> None:
    """End unless the call has a name, and another process than laggard makes it."""
    program.load(7, bpf.CONTEXT, 0)
    program.load(8, bpf.CONTEXT, 8)
    _read(program, (bpf.FRAME, _STACK_NUMBER), (7, _NUMBER_AT))
    program.load(1, bpf.FRAME, _STACK_NUMBER)
    program.jump_if(1, ">", _NUMBERS - 1, "end")
    program.store(bpf.FRAME, _STACK_INDEX, 1, 4)
    _look_up(program, table)
    program.jump_if(0, "==", 0, "end")
    program.load(9, 0, 0, 4)
    program.jump_if(9, "==", 0, "end")
    program.call(bpf.CURRENT)
    program.store(bpf.FRAME, _STACK_CURRENT, 0)
    program.put(0, ">>", 32)
    program.jump_if(0, "==", own, "end")


def _reserve(program: bpf.Program, records: int, dropped: int) -> None:
    """Reserve a record; without room, the name is counted as dropped."""
    program.map(1, records)
    program.put(2, "=", RECORD.itemsize)
    program.put(3, "=", 0)
    program.call(bpf.RESERVE)
    program.jump_if(0, "!=", 0, "reserved")
    program.put(1, "=", 0)
    program.store(bpf.FRAME, _STACK_INDEX, 1, 4)
    _look_up(program, dropped)
    program.jump_if(0, "==", 0, "end")
    program.put(1, "=", 1)
    program.count(0, 1)
    program.jump("end")
    program.label("reserved")
    program.combine(6, "=", 0)


def _describe(program: bpf.Program) -> None:
    """Write the record except for the name; the name's address is temporarily at the place of its length."""
    program.call(bpf.NOW)
    program.store(6, _at("ts"), 0)
    # The process is in the high half and the thread in the low one, as in the record.
    program.load(1, bpf.FRAME, _STACK_CURRENT)
    program.store(6, _at("thread"), 1)
    program.load(1, bpf.FRAME, _STACK_NUMBER)
    program.store(6, _at("number"), 1, 4)
    program.call(bpf.CPU)
    program.store(6, _at("cpu"), 0, 4)
    program.store(6, _at("result"), 8)
    _read(program, (6, _at("descriptor")), (7, _ARGUMENTS[0]))
    # From the register in the table.
    program.combine(1, "=", 9)
    program.put(1, "&", 0xFF)
    program.combine(1, "+", 7)
    _read(program, (6, _at("length")), (1, 0))


def _name(program: bpf.Program) -> None:
    """Copy a text; an empty one stands for the descriptor, and is not a name."""
    program.load(3, 6, _at("length"))
    program.combine(1, "=", 6)
    program.put(1, "+", _at("name"))
    program.put(2, "=", LONGEST)
    program.call(bpf.READ_USER_TEXT)
    program.store(6, _at("length"), 0)
    program.jump_if(0, "==", 1, "discard")
    program.jump("submit")


def _address(program: bpf.Program) -> None:
    """Copy an address, with the length in the third argument."""
    _read(program, (bpf.FRAME, _STACK_NUMBER), (7, _ARGUMENTS[2]))
    program.load(2, bpf.FRAME, _STACK_NUMBER)
    program.jump_if(2, "==", 0, "discard")
    program.combine(8, "=", 2)
    program.put(2, "=", _LONGEST_ADDRESS)
    program.jump_if(8, ">", _LONGEST_ADDRESS, "read")
    program.combine(2, "=", 8)
    program.label("read")
    program.combine(8, "=", 2)
    program.load(3, 6, _at("length"))
    program.combine(1, "=", 6)
    program.put(1, "+", _at("name"))
    program.call(bpf.READ_USER)
    program.store(6, _at("length"), 8)
    program.jump_if(0, "==", 0, "submit")


def _error(program: bpf.Program) -> None:
    """Copy the error of a socket, if the call requests it and there is one."""
    for argument, value in ((1, _SOL_SOCKET), (2, _SO_ERROR)):
        _read(program, (bpf.FRAME, _STACK_NUMBER), (7, _ARGUMENTS[argument]))
        program.load(1, bpf.FRAME, _STACK_NUMBER, 4)
        program.jump_if(1, "!=", value, "discard")
    program.load(3, 6, _at("length"))
    program.combine(1, "=", 6)
    program.put(1, "+", _at("name"))
    program.put(2, "=", 4)
    program.call(bpf.READ_USER)
    program.jump_if(0, "!=", 0, "discard")
    program.load(1, 6, _at("name"), 4)
    program.jump_if(1, "==", 0, "discard")
    program.put(1, "=", 4)
    program.store(6, _at("length"), 1)
    program.jump("submit")


def _at(field: str) -> int:
    """Return the offset of a field in the record."""
    fields = RECORD.fields
    assert fields is not None
    return fields[field][1]


def _read(program: bpf.Program, to: tuple[int, int], source: tuple[int, int]) -> None:
    """Read 8 bytes of the kernel's memory; both places are a register and an offset."""
    program.combine(3, "=", source[0])
    program.put(3, "+", source[1])
    program.combine(1, "=", to[0])
    program.put(1, "+", to[1])
    program.put(2, "=", 8)
    program.call(bpf.READ_KERNEL)


def _look_up(program: bpf.Program, array: int) -> None:
    program.map(1, array)
    program.combine(2, "=", bpf.FRAME)
    program.put(2, "+", _STACK_INDEX)
    program.call(bpf.LOOKUP)


def _hand_over(program: bpf.Program, helper: int) -> None:
    program.combine(1, "=", 6)
    program.put(2, "=", 1)  # BPF_RB_NO_WAKEUP: no reader waits
    program.call(helper)
