"""The BPF program that reads the names in system calls: at the end of each, it records the name with the result."""

from __future__ import annotations

from typing import Final

import numpy as np

from laggard.producers.trace.ftrace import bpf

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

# Places of registers in `struct pt_regs` of x86-64 (arch/x86/include/asm/ptrace.h).
ARGUMENTS: Final = (14 * 8, 13 * 8, 12 * 8, 7 * 8)
_NUMBER_AT: Final = 15 * 8
ADDRESS: Final = 0x100  # in the table: an address whose length is the third argument
ERROR: Final = 0x200  # in the table: an error, if the call requests it
_SOL_SOCKET, _SO_ERROR = 1, 4
_LONGEST_ADDRESS: Final = 128
NUMBERS: Final = 512
"""The numbers of system calls in the table."""

_STACK_NUMBER, _STACK_CURRENT, _STACK_INDEX = -8, -16, -20


def program_of(table: int, dropped: int, records: tuple[int, int], own: int) -> bpf.Program:
    """Return the program that runs at the end of each system call: it records the name in the call, with the result.

    Preserved registers: 6 the record, 7 the program's registers, 8 the call's result, 9 the table's value.
    """
    program = bpf.Program()
    _choose(program, table, own)
    _reserve(program, records, dropped)
    _describe(program)
    program.jump_if(9, "&", ADDRESS, "address")
    program.jump_if(9, "&", ERROR, "error")
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
    program.jump_if(1, ">", NUMBERS - 1, "end")
    program.store(bpf.FRAME, _STACK_INDEX, 1, 4)
    _look_up(program, table)
    program.jump_if(0, "==", 0, "end")
    program.load(9, 0, 0, 4)
    program.jump_if(9, "==", 0, "end")
    program.call(bpf.CURRENT)
    program.store(bpf.FRAME, _STACK_CURRENT, 0)
    program.put(0, ">>", 32)
    program.jump_if(0, "==", own, "end")


def _reserve(program: bpf.Program, records: tuple[int, int], dropped: int) -> None:
    """Reserve a record in one of the buffers, for names and for addresses; without room, it is counted as dropped."""
    names, addresses = records
    program.jump_if(9, "&", ADDRESS | ERROR, "of a socket")
    _reserve_in(program, names)
    program.jump_if(0, "!=", 0, "reserved")
    program.jump("dropped")
    program.label("of a socket")
    _reserve_in(program, addresses)
    program.jump_if(0, "!=", 0, "reserved")
    program.label("dropped")
    program.put(1, "=", 0)
    program.store(bpf.FRAME, _STACK_INDEX, 1, 4)
    _look_up(program, dropped)
    program.jump_if(0, "==", 0, "end")
    program.put(1, "=", 1)
    program.count(0, 1)
    program.jump("end")
    program.label("reserved")
    program.combine(6, "=", 0)


def _reserve_in(program: bpf.Program, records: int) -> None:
    program.map(1, records)
    program.put(2, "=", RECORD.itemsize)
    program.put(3, "=", 0)
    program.call(bpf.RESERVE)


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
    _read(program, (6, _at("descriptor")), (7, ARGUMENTS[0]))
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
    _read(program, (bpf.FRAME, _STACK_NUMBER), (7, ARGUMENTS[2]))
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
        _read(program, (bpf.FRAME, _STACK_NUMBER), (7, ARGUMENTS[argument]))
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
