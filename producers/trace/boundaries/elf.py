"""The offsets of functions and probes in a file of machine code, as the kernel needs them.

Source of the forms: elf(5), and the page "UserSpaceProbeImplementation" of SystemTap for the notes of probes.
"""

from __future__ import annotations

import difflib
import os
import struct
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from laggard.producers.diagnosis.elf import headers, loaded_segments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

_SYMTAB, _NOTE, _DYNSYM = 2, 7, 11
_FUNCTIONS: Final = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_OBJECTS: Final = (1,)  # STT_OBJECT
_STAPSDT: Final = (b"stapsdt\0", 3)  # owner and type of the notes of probes
_LARGEST: Final = 256 << 20  # the largest section that is read, in bytes
_SIMILAR: Final = 3


class ProgramError(ValueError):
    """A file is not a program that can be probed, or has no such function or probe."""


class Usdt(NamedTuple):
    """A probe that the authors of a program have added (user-space statically defined tracing).

    Attributes:
        provider: its provider, for example `php`.
        name: its name, for example `request__startup`.
        offset: its offset in the file.
        semaphore: the offset in the file of the counter that enables it; 0 without.
        arguments: the locations of its arguments, in the syntax of the assembler: `8@%rdx`.

    """

    provider: str
    name: str
    offset: int
    semaphore: int
    arguments: tuple[str, ...]


class Program:
    """An ELF file: a program or a library.

    Args:
        path: the file.

    Raises:
        ProgramError: the file is missing, unreadable or not ELF.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise ProgramError(f"{path}: cannot be read: {error.strerror}") from None
        try:
            form, self._order, segments, self._sections = headers(self._descriptor)
            self._symbol = form.symbol
            self._pointer = "Q" if form.header_at == 32 else "I"
            self._segments = loaded_segments(segments)
        except (struct.error, ValueError, OSError) as error:
            os.close(self._descriptor)
            raise ProgramError(f"{path}: expected a program or a library (ELF): {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def function(self, name: str) -> int:
        """Return the offset of a function in the file.

        Raises:
            ProgramError: there is no such function; the message names similar ones.

        """
        names: set[str] = set()
        for symbols, texts in self._symbols():
            for symbol, address in symbols:
                text = texts[symbol : texts.find(b"\0", symbol)].decode(errors="replace")
                if text == name:
                    return self._offset(address)
                names.add(text)
        if not names:
            raise ProgramError(f"{self._path}: has no symbol table: it was stripped")
        similar = difflib.get_close_matches(name, names, _SIMILAR)
        hint = f"; similar names: {', '.join(similar)}" if similar else ""
        raise ProgramError(f"{self._path}: has no function {name}{hint}")

    def variable(self, name: str, probe: int) -> int | None:
        """Return the place of a global variable as seen from code at an offset; None without one, or with 32 bits.

        The kernel adds it to the address at which the file would begin if it were loaded as a whole with this code.
        """
        loaded = next((each for each in self._segments if each[0] <= probe < each[0] + each[2]), None)
        if loaded is None or self._pointer != "Q":
            return None
        for symbols, texts in self._symbols(_OBJECTS):
            for symbol, address in symbols:
                if texts.startswith(name.encode() + b"\0", symbol):
                    return address - (loaded[1] - loaded[0])
        return None

    def probes(self) -> list[Usdt]:
        """Return all probes that its authors have added."""
        return [probe for section in self._sections if section[1] == _NOTE for probe in self._notes(section)]

    def _offset(self, address: int) -> int:
        for offset, begin, size in self._segments:
            if begin <= address < begin + size:
                return address - begin + offset
        raise ProgramError(f"{self._path}: address {address:#x} is in no loaded segment")

    def _content(self, section: tuple[int, ...]) -> bytes:
        if section[5] > _LARGEST:
            raise ProgramError(f"{self._path}: a section of {section[5]} bytes, more than {_LARGEST}")
        return os.pread(self._descriptor, section[5], section[4])

    def _symbols(self, kinds: tuple[int, ...] = _FUNCTIONS) -> Iterator[tuple[list[tuple[int, int]], bytes]]:
        """Yield for each table the place of the name and the address of each symbol of some kinds, and the names."""
        layout = struct.Struct(
            self._order + "".join({"u1": "B", "u2": "H", "u4": "I", "u8": "Q"}[kind] for _, kind in self._symbol)
        )
        fields = [field for field, _ in self._symbol]
        places = [fields.index(field) for field in ("name", "value", "info", "section")]
        for section in self._sections:
            if section[1] in (_SYMTAB, _DYNSYM) and section[6] < len(self._sections):
                raw = self._content(section)
                entries = layout.iter_unpack(raw[: len(raw) // layout.size * layout.size])
                chosen = ([entry[place] for place in places] for entry in entries)
                symbols = [
                    (name, address) for name, address, info, at in chosen if info & 15 in kinds and at and address
                ]
                yield symbols, self._content(self._sections[section[6]])

    def _notes(self, section: tuple[int, ...]) -> Iterator[Usdt]:
        raw, at = self._content(section), 0
        while at + 12 <= len(raw):
            owner_size, size, kind = struct.unpack_from(self._order + "III", raw, at)
            owner = raw[at + 12 : at + 12 + owner_size]
            begin = at + 12 + -(-owner_size // 4) * 4
            at = begin + -(-size // 4) * 4
            if (owner, kind) == _STAPSDT and len(raw) >= begin + size:
                yield self._usdt(raw[begin : begin + size])

    def _usdt(self, note: bytes) -> Usdt:
        layout = struct.Struct(self._order + self._pointer * 3)
        if len(note) < layout.size:
            raise ProgramError(f"{self._path}: a probe's note has {len(note)} bytes, expected {layout.size} and texts")
        address, _, semaphore = layout.unpack_from(note)
        provider, name, arguments, *_ = (*note[layout.size :].split(b"\0"), b"", b"", b"")
        return Usdt(
            provider.decode(errors="replace"),
            name.decode(errors="replace"),
            self._offset(address),
            self._offset(semaphore) if semaphore else 0,
            tuple(arguments.decode(errors="replace").split()),
        )
