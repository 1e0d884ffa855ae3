"""The rules that find the caller of a function: call frame information (`.eh_frame`) of files of machine code.

Compilers write it for exceptions, and so into nearly every file, even without frame pointers and symbols. The table of
the functions of a file is read at once, the program of a function on demand.
Sources: "DWARF Debugging Information Format", version 4, section 6.4; "Exception Frames" of the Linux Standard Base.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TABLE_BYTES: Final = 16 << 20
"""The limit of a table, in bytes: 2 million functions. Larger ones are not read."""

ENTRY_BYTES: Final = 16 << 10
"""The limit of an entry, in bytes. Larger ones are not read."""

_LONGEST_NUMBER: Final = 70  # bits of LEB128: 64, in steps of 7
_REGISTERS: Final = 128  # more than any machine has in such information

_ENCODED: Final = 0x3B  # DW_EH_PE_datarel | DW_EH_PE_sdata4: the sorted table of all linkers
_WIDTHS: Final = {0x00: 8, 0x02: 2, 0x03: 4, 0x04: 8, 0x0A: 2, 0x0B: 4, 0x0C: 8}  # in bytes, by the form of a pointer
# Operands by code (DW_CFA_...): numbers without and with a sign (LEB128), blocks, or numbers of this many bytes. The
# codes 0x40, 0x80 and 0xC0 contain one more operand.
_OPERANDS: Final = {
    code: kinds
    for kinds, codes in {
        "": (0x40, 0xC0, 0x00, 0x0A, 0x0B),
        "1": (0x02,),
        "2": (0x03,),
        "4": (0x04,),
        "u": (0x80, 0x06, 0x07, 0x08, 0x0D, 0x0E, 0x2E),
        "s": (0x13,),
        "b": (0x0F,),
        "uu": (0x05, 0x09, 0x0C, 0x14),
        "us": (0x11, 0x12, 0x15),
        "ub": (0x10, 0x16),
    }.items()
    for code in codes
}
_RETURN, _FRAME = 16, 6  # registers of x86-64 (System V ABI, figure 3.36): the return address, rbp


class FramesError(ValueError):
    """The call frame information of a function is damaged, or has an unknown form."""


class Rule(NamedTuple):
    """The rule that undoes the frame of a function at one of its instructions.

    Attributes:
        begin: the offset of the function in the file.
        register: the number of the register from which the canonical frame address (CFA) is counted.
        offset: the distance of the CFA from it, in bytes.
        returns: the place of the return address, from the CFA, in bytes; None if it is not on the stack.
        returns_in: the number of the register with the return address; None if it is in none. A function has no caller
            if it is in neither place.
        frame: the place of the caller's frame pointer, likewise; None if it is still in its register.
        lost: whether the caller's frame pointer is in neither place.
        kept: the distance from the CFA down to the saved registers, in bytes.

    """

    begin: int
    register: int
    offset: int
    returns: int | None
    returns_in: int | None
    frame: int | None
    lost: bool
    kept: int


class Frames:
    """The functions of one file.

    Args:
        descriptor: the descriptor of the file; its owner closes it.
        table: offset in the file, address and size of its table of functions (PT_GNU_EH_FRAME).
        loaded: offset, address and size of each loaded segment.

    Raises:
        FramesError: the table does not have the form that linkers write.
        OSError: it is unreadable.

    """

    def __init__(self, descriptor: int, table: tuple[int, int, int], loaded: Sequence[tuple[int, int, int]]) -> None:
        self._descriptor = descriptor
        self._loaded = loaded
        offset, self._address, size = table
        if size > TABLE_BYTES:
            raise FramesError(f"a table of {size} bytes")
        text = os.pread(descriptor, size, offset)
        try:
            version, pointer, counted, encoded = struct.unpack_from("4B", text)
            if (version, counted & 0x0F, encoded) != (1, 3, _ENCODED):
                raise FramesError(f"a table of version {version}, of the encodings {counted:#x} and {encoded:#x}")
            at = 4 + _WIDTHS[pointer & 0x0F]
            (count,) = struct.unpack_from("=I", text, at)
            pairs = np.frombuffer(text, "<i4", 2 * count, at + 4).astype(np.int64) + self._address
        except (struct.error, KeyError, ValueError) as error:
            raise FramesError(f"a damaged table: {error}") from None
        self._begins, self._entries = pairs[::2], pairs[1::2]

    def rule(self, offset: int) -> Rule | None:
        """Return the rule that undoes the frame at this offset of the file; None if it is in no function.

        Raises:
            FramesError: the rule is unknown.
            OSError: it is unreadable.

        """
        bias = next((place - begin for place, begin, size in self._loaded if place <= offset < place + size), None)
        if bias is None:
            return None
        address = offset - bias
        at = int(np.searchsorted(self._begins, address, "right")) - 1
        if at < 0:
            return None
        begin = int(self._begins[at])
        try:
            text, place = self._entry(int(self._entries[at]))
            common = _Common.parse(self._entry(place - struct.unpack_from("=I", text)[0])[0])
            reader = _Reader(text, 4 + common.width)
            (size,) = struct.unpack_from({2: "=H", 4: "=I", 8: "=Q"}[common.width], text, reader.at)
            reader.at += common.width
            if address >= begin + size:
                return None
            if common.augmented:
                reader.at += reader.unsigned()
            found = _run(common, reader, begin, address)
            return found._replace(begin=begin + bias)
        except FramesError:
            raise
        except (struct.error, IndexError, KeyError, ValueError) as error:
            raise FramesError(f"a damaged entry at {address:#x}: {error}") from None

    def _entry(self, address: int) -> tuple[bytes, int]:
        """Return the content of an entry after its length, and the address of that."""
        (length,) = struct.unpack("=I", self._read(address, 4))
        if not 4 <= length <= ENTRY_BYTES:
            raise FramesError(f"an entry of {length} bytes")
        return self._read(address + 4, length), address + 4

    def _read(self, address: int, size: int) -> bytes:
        for offset, begin, length in self._loaded:
            if begin <= address < begin + length:
                return os.pread(self._descriptor, size, address - begin + offset)
        raise FramesError(f"an entry at {address:#x}, which is not in the file")


class _Reader:
    """Reads numbers and instructions in sequence."""

    def __init__(self, text: bytes, at: int) -> None:
        self.text = text
        self.at = at

    def number(self, width: int) -> int:
        found = int.from_bytes(self.text[self.at : self.at + width], "little")
        self.at += width
        return found

    def unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self.text[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return found
            if shift >= _LONGEST_NUMBER:
                raise FramesError("a number of more than 64 bits")

    def signed(self) -> int:
        begin = self.at
        found, bits = self.unsigned(), 7 * (self.at - begin)
        return found - (1 << bits) if found >> (bits - 1) else found

    def instruction(self) -> tuple[int, ...]:
        """Return the code and the operands of the next instruction."""
        byte = self.number(1)
        code, operands = (byte & 0xC0, [byte & 0x3F]) if byte & 0xC0 else (byte, [])
        if code not in _OPERANDS:
            raise FramesError(f"the instruction {code:#x}")
        for kind in _OPERANDS[code]:
            match kind:
                case "u":
                    operands.append(self.unsigned())
                case "s":
                    operands.append(self.signed())
                case "b":  # a block
                    self.at += self.unsigned()
                case _:
                    operands.append(self.number(int(kind)))
        return code, *operands


class _Common(NamedTuple):
    """The common information of functions (CIE)."""

    code: int
    data: int
    width: int  # of pointers
    augmented: bool
    reader: _Reader  # of the first instructions

    @classmethod
    def parse(cls, text: bytes) -> _Common:
        reader = _Reader(text, 4)
        version = reader.number(1)
        end = text.index(b"\0", reader.at)
        augmentation = text[reader.at : end].decode("latin-1")
        reader.at = end + 1
        code, data = reader.unsigned(), reader.signed()
        returns = reader.number(1) if version == 1 else reader.unsigned()
        augmented, width = augmentation.startswith("z"), 8
        if returns != _RETURN or (augmentation and not augmented):
            raise FramesError(f"the augmentation {augmentation!r}, the return address in register {returns}")
        if augmented:
            length = reader.unsigned()
            begin = reader.at + length
            for letter in augmentation[1:]:
                if letter == "R":
                    width = _WIDTHS[reader.number(1) & 0x0F]
                elif letter == "P":
                    reader.at += _WIDTHS[reader.number(1) & 0x0F]
                elif letter == "L":
                    reader.at += 1
                else:  # such as the one of signal frames
                    raise FramesError(f"the augmentation {augmentation!r}")
            reader.at = begin
        return cls(code, data, width, augmented, reader)


class _Register(NamedTuple):
    """The place of a register's value in another register."""

    number: int


_UNDEFINED: Final = "undefined"
_LOST: Final = "lost"

_Place = int | _Register | Literal["undefined", "lost"]
"""The place of a register's value: from the CFA, in bytes, or in another register."""


class _Row(NamedTuple):
    """The rules from one instruction on.

    Attributes:
        register: the register from which the CFA is counted; negative if unknown, or if that needs an expression.
        offset: the distance of the CFA from it.
        saved: the place of the caller's value by register; other registers still have it.

    """

    register: int
    offset: int
    saved: Mapping[int, _Place]

    def saving(self, register: int, place: _Place | None) -> _Row:
        """Return the row with another place of one register. With None, the register still has the caller's value."""
        if register >= _REGISTERS:
            raise FramesError(f"register number {register}")
        others = {each: where for each, where in self.saved.items() if each != register}
        return self._replace(saved=others if place is None else {**others, register: place})


def _run(common: _Common, reader: _Reader, begin: int, address: int) -> Rule:
    """Run the program of a function up to an instruction."""
    first = row = _Row(-1, 0, {})
    remembered: list[_Row] = []
    at = begin
    for part in (common.reader, reader):
        while part.at < len(part.text) and at <= address:
            code, *given = part.instruction()
            match code:
                case 0x40 | 0x02 | 0x03 | 0x04:  # advance_loc: the next instructions apply from there on
                    at += given[0] * common.code
                case 0x0A:  # remember_state
                    remembered.append(row)
                case 0x0B:  # restore_state
                    row = remembered.pop()
                case _:
                    row = _saved(_counted(row, code, given, common.data), first, code, given, common.data)
        if part is common.reader:
            first = row
    returns, frame = row.saved.get(_RETURN, _LOST), row.saved.get(_FRAME)
    if row.register < 0 or returns == _LOST:
        raise FramesError("a frame that only an expression can locate")
    return Rule(
        begin,
        row.register,
        row.offset,
        returns if isinstance(returns, int) else None,
        returns.number if isinstance(returns, _Register) else None,
        frame if isinstance(frame, int) else None,
        frame is not None and not isinstance(frame, int),
        -min((place for place in row.saved.values() if isinstance(place, int)), default=0),
    )


def _counted(row: _Row, code: int, given: Sequence[int], data: int) -> _Row:
    """Return the row after an instruction that sets how the CFA is counted; the same row after others."""
    match code:
        case 0x0C:  # def_cfa
            row = row._replace(register=given[0], offset=given[1])
        case 0x12:  # def_cfa_sf
            row = row._replace(register=given[0], offset=given[1] * data)
        case 0x0D:  # def_cfa_register
            row = row._replace(register=given[0])
        case 0x0E:  # def_cfa_offset
            row = row._replace(offset=given[0])
        case 0x13:  # def_cfa_offset_sf
            row = row._replace(offset=given[0] * data)
        case 0x0F:  # def_cfa_expression
            row = row._replace(register=-1)
    return row


def _saved(row: _Row, first: _Row, code: int, given: Sequence[int], data: int) -> _Row:
    """Return the row after an instruction that sets the place of a register; the same row after others."""
    match code:
        case 0x80 | 0x05 | 0x11:  # offset
            row = row.saving(given[0], given[1] * data)
        case 0xC0 | 0x06:  # restore
            row = row.saving(given[0], first.saved.get(given[0]))
        case 0x07:  # undefined
            row = row.saving(given[0], _UNDEFINED)
        case 0x08:  # same_value
            row = row.saving(given[0], None)
        case 0x09:  # register
            row = row.saving(given[0], _Register(given[1]))
        case 0x10 | 0x14 | 0x15 | 0x16:  # expression, val_offset, val_expression
            row = row.saving(given[0], _LOST)
    return row
