"""Names of functions in files of machine code (ELF), and the rules that find their callers.

Others control these files, so only a child process reads them, see `symbolizer`. NumPy reads a whole table at once: the
43,677 functions of a Java runtime in 13 ms, where pyelftools needs 1.4 s. Names stay in the file.
Source: elf(5).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laggard.producers.diagnosis.frames import Frames
from laggard.producers.system.proc import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TABLE_BYTES = 16 << 20
"""The limit of a symbol table, in bytes: 700,000 symbols of 24 bytes. Larger ones are not read."""

HEADERS_BYTES = 4 << 20
"""The limit of the headers of segments, and of those of sections, in bytes."""

LONGEST_NAME = 512
"""In bytes; longer names are cut, and not demangled. Names of C++ templates may have thousands of characters."""

_PT_LOAD, _PT_GNU_EH_FRAME, _SHT_SYMTAB, _SHT_DYNSYM = 1, 0x6474E550, 2, 11
_MACHINE_AT, _X86_64 = 18, 62  # e_machine
_FUNCTIONS = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_LOCAL = 0  # STB_LOCAL


class SymbolsError(ValueError):
    """A file is not ELF, or its tables are not at the places in its headers."""


class _Form(NamedTuple):
    """The places of the used fields in the two classes of ELF, as formats of `struct` and field names of NumPy."""

    header: str  # e_phoff, e_shoff behind 32 (28) bytes; e_phentsize, e_phnum, e_shentsize, e_shnum
    header_at: int
    segment: str  # p_type, p_offset, p_vaddr, p_filesz, in this order below
    segment_order: tuple[int, int, int, int]
    section: str  # sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link
    symbol: list[tuple[str, str]]


_ELF64 = _Form(
    "QQIHHHHH",
    32,
    "IIQQQQ",
    (0, 2, 3, 5),
    "IIQQQQI",
    [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")],
)
_ELF32 = _Form(
    "IIIHHHHH",
    28,
    "IIIIII",
    (0, 1, 2, 4),
    "IIIIIII",
    [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2")],
)


class SymbolTable:
    """The functions of one ELF file, by their offset in the file.

    Names stay in the file and are read on demand.

    Args:
        descriptor: the descriptor of the file, open for reading. The table owns it, and closes it if this raises.

    Raises:
        SymbolsError: the file is not ELF, or damaged.
        OSError: it is unreadable.

    """

    __slots__ = ("_begins", "_descriptor", "_ends", "_frames", "_frames_read", "_names")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._frames: Frames | None = None
        self._frames_read = False
        try:
            self._begins, self._ends, self._names = _functions(descriptor)
        except (struct.error, ValueError, OverflowError) as error:
            self.close()
            raise SymbolsError(f"expected ELF with headers and tables inside of the file: {error}") from None
        except OSError:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._begins)

    def name(self, offset: int) -> str:
        """Return the function at this offset of the file, in bytes; empty if there is none."""
        at = int(np.searchsorted(self._begins, offset, "right")) - 1
        if at < 0 or offset >= self._ends[at]:
            return ""
        text = os.pread(self._descriptor, LONGEST_NAME, int(self._names[at]))
        return demangled(text.partition(b"\0")[0])

    @property
    def frames(self) -> Frames | None:
        """The rules that find the callers of its functions, read on demand; None without."""
        if not self._frames_read:
            self._frames, self._frames_read = _frames(self._descriptor), True
        return self._frames

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def headers(descriptor: int) -> tuple[_Form, str, list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return the class and byte order of an ELF file; type, offset, address and size of its segments; its sections."""
    ident = os.pread(descriptor, 16, 0)
    if len(ident) < 16 or ident[:4] != b"\x7fELF" or ident[4] not in (1, 2) or ident[5] not in (1, 2):
        raise ValueError(f"begins with {ident!r}")
    form, order = (_ELF64 if ident[4] == 2 else _ELF32), "<>"[ident[5] - 1]

    def entries(layout: str, at: int, size: int, count: int) -> list[tuple[int, ...]]:
        if size * count > HEADERS_BYTES:
            raise ValueError(f"{size * count} bytes of headers, more than {HEADERS_BYTES}")
        text = os.pread(descriptor, size * count, at)
        return [struct.unpack_from(order + layout, text, size * number) for number in range(count)]

    header = struct.unpack_from(order + form.header, os.pread(descriptor, 64, 0), form.header_at)
    segments_at, sections_at, _, _, segment_size, segments, section_size, sections = header
    places = [
        tuple(entry[place] for place in form.segment_order)
        for entry in entries(form.segment, segments_at, segment_size, segments)
    ]
    return form, order, places, entries(form.section, sections_at, section_size, sections)


def loaded_segments(segments: list[tuple[int, ...]]) -> list[tuple[int, int, int]]:
    """Return offset, address and size of the loaded segments."""
    return [(offset, address, size) for kind, offset, address, size in segments if kind == _PT_LOAD]


def _frames(descriptor: int) -> Frames | None:
    """Return the call frame information of a file for x86-64; None without."""
    with contextlib.suppress(OSError, ValueError, struct.error):
        (machine,) = struct.unpack("<H", os.pread(descriptor, 2, _MACHINE_AT))
        form, order, segments, _ = headers(descriptor)
        if form is _ELF64 and order == "<" and machine == _X86_64:
            for kind, *table in segments:
                if kind == _PT_GNU_EH_FRAME:
                    return Frames(descriptor, (table[0], table[1], table[2]), loaded_segments(segments))
    return None


def _functions(descriptor: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """Return begin, end (exclusive) and place of the name of each function, as offsets in the file, by begin."""
    form, order, segments, found = headers(descriptor)
    loaded = loaded_segments(segments)
    # The full table if present, otherwise that of exported functions; a table that was cut out has the type NOBITS.
    for wanted in (_SHT_SYMTAB, _SHT_DYNSYM):
        for section in found:
            if section[1] == wanted and section[6] < len(found):
                table = _table(descriptor, section, np.dtype([(field, order + kind) for field, kind in form.symbol]))
                return _sorted(table, loaded, found[section[6]][4])
    nothing = np.empty(0, np.uint64)
    return nothing, nothing, np.empty(0, np.int64)


def _table(descriptor: int, section: tuple[int, ...], symbol: np.dtype[Any]) -> NDArray[Any]:
    """Return the symbols of a section for functions that the file defines."""
    offset, size = section[4], section[5]
    if size > TABLE_BYTES:
        raise ValueError(f"a symbol table of {size} bytes, more than {TABLE_BYTES}")
    text = os.pread(descriptor, size, offset)
    table: NDArray[Any] = np.frombuffer(text, symbol, len(text) // symbol.itemsize)
    functions: NDArray[np.bool] = np.isin(table["info"] & 0xF, _FUNCTIONS) & (table["section"] != 0)
    return table[functions]


def _sorted(
    table: NDArray[Any], loaded: list[tuple[int, int, int]], names_at: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    begins = table["value"].astype(np.uint64)
    limits = np.zeros(len(table), np.uint64)
    for offset, address, size in loaded:
        inside = (table["value"] >= address) & (table["value"] < address + size)
        begins[inside] = table["value"][inside].astype(np.uint64) - np.uint64(address) + np.uint64(offset)
        limits[inside] = offset + size
    # A function with several names gets the first exported one.
    order = np.lexsort((table["info"] >> 4 == _LOCAL, begins))
    order = order[limits[order] > 0]
    order = order[np.append(True, np.diff(begins[order]) > 0)] if len(order) else order
    begins, limits, table = begins[order], limits[order], table[order]
    # Functions written in assembler may have no size: they extend to the next one.
    following = np.minimum(np.append(begins[1:], np.iinfo(np.uint64).max), limits)
    sizes = table["size"].astype(np.uint64)
    ends = np.where(sizes > 0, begins + sizes, following)
    return begins, ends, names_at + table["name"].astype(np.int64)


def demangled(name: bytes) -> str:
    """Return a symbol as written in the source. C++ and Rust (`_Z...`) encode types and namespaces; others stay as is.

    Uses `__cxa_demangle` of the C++ ABI, if there is a C++ library.
    """
    demangle = _demangler() if name.startswith(b"_Z") and len(name) < LONGEST_NAME else None
    return printable(((demangle(name) if demangle else None) or name).decode("utf-8", "replace"))


@cache
def _demangler() -> Callable[[bytes], bytes | None] | None:
    try:
        demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
        free, length = ctypes.CDLL(None).free, ctypes.CDLL(None).strnlen
    except (OSError, AttributeError):
        return None
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    demangle.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p]
    length.argtypes, length.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_size_t

    def call(name: bytes) -> bytes | None:
        status = ctypes.c_int()
        place = demangle(name, None, None, ctypes.byref(status))
        if not place:
            return None
        try:
            return ctypes.string_at(place, length(place, LONGEST_NAME))
        finally:
            free(place)

    return call
