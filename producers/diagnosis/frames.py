"""Where the caller of a function is found: call frame information (`.eh_frame`) of files of machine code.

Compilers write it for exceptions, and so into nearly every file, also where there are neither frame pointers nor
symbols. Of each file the table of its functions is read, and of a function its program when it is asked about.
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
"""A table that is larger than this is not read: 2 million functions."""

ENTRY_BYTES: Final = 16 << 10
"""An entry that is larger than this is not read."""

_LONGEST_NUMBER: Final = 70  # bits of LEB128: of 64, in steps of 7
_REGISTERS: Final = 128  # more than any machine has in such information

_ENCODED: Final = 0x3B  # DW_EH_PE_datarel | DW_EH_PE_sdata4: of the sorted table, by all linkers
_WIDTHS: Final = {0x00: 8, 0x02: 2, 0x03: 4, 0x04: 8, 0x0A: 2, 0x0B: 4, 0x0C: 8}  # in bytes, by the form of a pointer
# By code (DW_CFA_...): numbers without and with a sign (LEB128), blocks, or numbers of so many bytes. Of 0x40, 0x80
# and 0xC0 one more is in the code itself.
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
    """What a file says of a function is damaged, or in a form that is not known here."""


class Rule(NamedTuple):
    """How the frame of a function is undone at one of its instructions.

    Attributes:
        begin: of the function: its offset in the file.
        register: by number, the one from which the canonical frame address (CFA) is counted.
        offset: of the CFA from it, in bytes.
        returns: where the return address is, from the CFA, in bytes; None where it is not on the stack.
        returns_in: by number, the register that it is in; None where it is in none. Nobody called the function where it
            is in neither place.
        frame: where the caller's frame pointer is, likewise; None where it is still in its register.
        lost: whether the caller's frame pointer is in neither place.
        kept: so far below the CFA registers are kept, in bytes.

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
        descriptor: of the file; its owner closes it.
        table: where its table of functions (PT_GNU_EH_FRAME) is: offset in the file, address and size.
        loaded: for each segment that is loaded, offset, address and size.

    Raises:
        FramesError: the table has another form than linkers write.
        OSError: it cannot be read.

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
        """How the frame at this offset of the file is undone; None where it is in no function.

        Raises:
            FramesError: that is not known.
            OSError: it cannot be read.

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
        """What follows the length of an entry, and the address of that."""
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
    """Reads numbers and instructions one behind the other."""

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
        """The next one's code and operands."""
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
    """What functions have in common (CIE)."""

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
                else:  # such as that of a signal's frame
                    raise FramesError(f"the augmentation {augmentation!r}")
            reader.at = begin
        return cls(code, data, width, augmented, reader)


class _Register(NamedTuple):
    """Where a register's value is: in another one."""

    number: int


_UNDEFINED: Final = "undefined"
_LOST: Final = "lost"

_Place = int | _Register | Literal["undefined", "lost"]
"""Of a register's value: from the CFA, in bytes; or in another register."""


class _Row(NamedTuple):
    """What holds from one instruction on.

    Attributes:
        register: that the CFA is counted from; negative where that is not told, or takes an expression.
        offset: of the CFA from it.
        saved: by register, where the caller's value is; registers that are not here still have it.

    """

    register: int
    offset: int
    saved: Mapping[int, _Place]

    def saving(self, register: int, place: _Place | None) -> _Row:
        """The same, but for where one register is; None for where it always was."""
        if register >= _REGISTERS:
            raise FramesError(f"a register of the number {register}")
        others = {each: where for each, where in self.saved.items() if each != register}
        return self._replace(saved=others if place is None else {**others, register: place})


def _run(common: _Common, reader: _Reader, begin: int, address: int) -> Rule:
    """Run a function's program up to an instruction."""
    first = row = _Row(-1, 0, {})
    kept: list[_Row] = []
    at = begin
    for part in (common.reader, reader):
        while part.at < len(part.text) and at <= address:
            code, *given = part.instruction()
            match code:
                case 0x40 | 0x02 | 0x03 | 0x04:  # advance_loc: what comes next holds from there on
                    at += given[0] * common.code
                case 0x0A:  # remember_state
                    kept.append(row)
                case 0x0B:  # restore_state
                    row = kept.pop()
                case _:
                    row = _saved(_counted(row, code, given, common.data), first, code, given, common.data)
        if part is common.reader:
            first = row
    returns, frame = row.saved.get(_RETURN, _LOST), row.saved.get(_FRAME)
    if row.register < 0 or returns == _LOST:
        raise FramesError("a frame that takes an expression to be found")
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
    """What holds behind an instruction that says from where the CFA is counted; the same behind others."""
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
    """What holds behind an instruction that says where a register is; the same behind others."""
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
