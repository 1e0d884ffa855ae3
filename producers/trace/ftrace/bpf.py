"""Small BPF programs, assembled here and loaded directly by bpf(2): no compiler, no library.

All objects belong to descriptors: the kernel removes them when the process ends, for any reason. Source:
Documentation/bpf/standardization/instruction-set.rst and include/uapi/linux/bpf.h of Linux.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
from typing import Final

_NUMBERS: Final = {"x86_64": 321, "aarch64": 280}  # of bpf(2)
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _PROG_LOAD, _RAW_TRACEPOINT_OPEN = 0, 1, 2, 5, 17
_ARRAY, _RINGBUF, _RAW_TRACEPOINT = 2, 27, 17
_LOG_BYTES: Final = 1 << 16
_BUSY, _DISCARD, _HEADER = 1 << 31, 1 << 30, 8  # of a record in a ring buffer

CONTEXT: Final = 1
"""The register that holds the context when a program begins, and the first argument of its helpers."""

FRAME: Final = 10
"""The register that points to the end of the stack's 512 bytes."""

LOOKUP, NOW, CPU, CURRENT = 1, 5, 8, 14
READ_USER, READ_KERNEL, READ_USER_TEXT, RESERVE, SUBMIT, DISCARD = 112, 113, 114, 131, 132, 133
"""Helpers of the kernel, by number."""

_SIZES: Final = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
_OPERATIONS: Final = {"+": 0x00, "&": 0x50, ">>": 0x70, "=": 0xB0}
_CONDITIONS: Final = {"==": 0x10, ">": 0x20, "&": 0x40, "!=": 0x50, "signed <": 0xC0}


class BpfError(OSError):
    """The kernel has rejected a program or a map."""


class Program:
    """A program, instruction by instruction. Registers are numbers: 0 results, 1 to 5 arguments, 6 to 9 preserved."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int]] = []  # opcode, registers, offset, immediate
        self._labels: dict[str, int] = {}
        self._jumps: dict[int, str] = {}

    def load(self, to: int, source: int, offset: int, size: int = 8) -> None:
        """Set `to` to the memory at `source` + offset."""
        self._add(0x61 | _SIZES[size], to, source, offset)

    def store(self, to: int, offset: int, source: int, size: int = 8) -> None:
        """Set the memory at `to` + offset to `source`."""
        self._add(0x63 | _SIZES[size], to, source, offset)

    def put(self, to: int, operation: str, value: int) -> None:
        """Set `to` to `to` (operation) a number."""
        self._add(0x07 | _OPERATIONS[operation], to, 0, 0, value)

    def combine(self, to: int, operation: str, source: int) -> None:
        """Set `to` to `to` (operation) `source`."""
        self._add(0x0F | _OPERATIONS[operation], to, source)

    def map(self, to: int, descriptor: int) -> None:
        """Set `to` to a map."""
        self._add(0x18, to, 1, 0, descriptor)
        self._add(0, 0, 0)

    def count(self, at: int, by: int) -> None:
        """Add to 8 bytes of memory at a register, atomically across CPUs."""
        self._add(0xDB, at, by)

    def call(self, helper: int) -> None:
        """Call a helper of the kernel."""
        self._add(0x85, 0, 0, 0, helper)

    def jump_if(self, register: int, condition: str, value: int, label: str) -> None:
        """Jump forward to a label, if the comparison holds."""
        self._jumps[len(self._code)] = label
        self._add(0x05 | _CONDITIONS[condition], register, 0, 0, value)

    def jump(self, label: str) -> None:
        """Jump forward to a label."""
        self._jumps[len(self._code)] = label
        self._add(0x05, 0, 0)

    def label(self, name: str) -> None:
        """Define a label here."""
        self._labels[name] = len(self._code)

    def leave(self) -> None:
        """End with result 0."""
        self.put(0, "=", 0)
        self._add(0x95, 0, 0)

    def assembled(self) -> bytes:
        """Return the instructions, 8 bytes each."""
        code = list(self._code)
        for at, label in self._jumps.items():
            opcode, registers, _, value = code[at]
            code[at] = (opcode, registers, self._labels[label] - at - 1, value)
        return b"".join(struct.pack("<BBhi", *one) for one in code)

    def _add(self, opcode: int, to: int, source: int, offset: int = 0, value: int = 0) -> None:
        self._code.append((opcode, to | source << 4, offset, value))


def array(value_bytes: int, entries: int) -> int:
    """Create an array of values, all 0, and return its descriptor."""
    return _bpf(_MAP_CREATE, struct.pack("<5I", _ARRAY, 4, value_bytes, entries, 0), "a map")


def put(array: int, index: int, value: bytes) -> None:
    """Set a value of an array."""
    key = ctypes.c_uint32(index)
    buffer = ctypes.create_string_buffer(value, len(value))
    _bpf(
        _MAP_UPDATE,
        struct.pack("<IIQQQ", array, 0, ctypes.addressof(key), ctypes.addressof(buffer), 0),
        "a map's value",
    )


def get(array: int, index: int, size: int) -> bytes:
    """Return a value of an array."""
    key = ctypes.c_uint32(index)
    buffer = ctypes.create_string_buffer(size)
    _bpf(
        _MAP_LOOKUP,
        struct.pack("<IIQQQ", array, 0, ctypes.addressof(key), ctypes.addressof(buffer), 0),
        "a map's value",
    )
    return buffer.raw


def attach(program: Program, tracepoint: str) -> tuple[int, int]:
    """Load a program and run it at a raw tracepoint, until both descriptors are closed.

    Returns:
        The descriptors of the program and of its attachment.

    Raises:
        BpfError: the program cannot be loaded (with the reason of the kernel's verifier), or not be attached.

    """
    code = program.assembled()
    log = ctypes.create_string_buffer(_LOG_BYTES)
    instructions = ctypes.create_string_buffer(code, len(code))
    # The helpers that read a program's memory require such a license; this program is laggard's own.
    licence = ctypes.create_string_buffer(b"Dual MIT/GPL")
    loading = struct.pack(
        "<IIQQIIQII16s",
        _RAW_TRACEPOINT,
        len(code) // 8,
        ctypes.addressof(instructions),
        ctypes.addressof(licence),
        1,
        _LOG_BYTES,
        ctypes.addressof(log),
        0,
        0,
        b"laggard",
    )
    try:
        loaded = _bpf(_PROG_LOAD, loading, "a program")
    except BpfError as error:
        log_lines = log.value.decode(errors="replace").strip().splitlines()
        if log_lines:
            raise BpfError(error.errno, f"{error.strerror}: {log_lines[-2:]}") from None
        raise
    name = ctypes.create_string_buffer(tracepoint.encode())
    try:
        attached = _bpf(
            _RAW_TRACEPOINT_OPEN, struct.pack("<QI4x", ctypes.addressof(name), loaded), f"a program at {tracepoint}"
        )
    except BpfError:
        os.close(loaded)
        raise
    return loaded, attached


class RingBuffer:
    """The records of programs, in the order in which they were begun.

    Args:
        size: the size in bytes, a power of two and whole pages.

    Attributes:
        descriptor: the descriptor for programs.

    """

    def __init__(self, size: int) -> None:
        self.descriptor = _bpf(_MAP_CREATE, struct.pack("<5I", _RINGBUF, 0, 0, size, 0), "a ring buffer")
        self._size = size
        page = mmap.PAGESIZE
        self._consumed = mmap.mmap(self.descriptor, page)
        # The data are mapped twice in a row, so that the end does not cut a record.
        self._produced = mmap.mmap(self.descriptor, page + 2 * size, prot=mmap.PROT_READ, offset=page)

    def take(self) -> bytes:
        """Take all complete records, concatenated; all must have the same length."""
        at: int = struct.unpack_from("<Q", self._consumed)[0]
        end: int = struct.unpack_from("<Q", self._produced)[0]
        records = []
        while at < end:
            begin = mmap.PAGESIZE + at % self._size
            head: int = struct.unpack_from("<I", self._produced, begin)[0]
            if head & _BUSY:
                break
            length = head & ~_DISCARD
            if not head & _DISCARD:
                records.append(self._produced[begin + _HEADER : begin + _HEADER + length])
            at += _HEADER + -(-length // 8) * 8
        struct.pack_into("<Q", self._consumed, 0, at)
        return b"".join(records)

    def close(self) -> None:
        """Free the buffer."""
        self._consumed.close()
        self._produced.close()
        os.close(self.descriptor)


def _bpf(command: int, attributes: bytes, what: str) -> int:
    number = _NUMBERS.get(platform.machine())
    if number is None:
        raise BpfError(0, f"{what}: BPF programs are not supported on {platform.machine()}")
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(number, command, buffer, len(attributes))
    if result < 0:
        code = ctypes.get_errno()
        raise BpfError(code, f"bpf(2) rejects {what}: {os.strerror(code)}")
    return result
