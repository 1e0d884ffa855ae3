"""The child process that reads what programs control: symbols, call frames, maps of compiled code, thread dumps.

`python -I -m laggard.producers.diagnosis.symbolizer PID` receives descriptors of files that `symbols` opened for it,
and has no access to anything else.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from array import array
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from laggard.producers.diagnosis import confinement
from laggard.producers.diagnosis.dumps import DUMP_BYTES, parse_dump
from laggard.producers.diagnosis.elf import SymbolsError, SymbolTable, demangled
from laggard.producers.diagnosis.frames import FramesError
from laggard.producers.system.proc import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEMORY_BYTES: Final = 96 << 20
"""The most memory beyond the 29 MB at the start, in bytes; a symbol table of the largest size needs 90 MB. If this is
not enough, all files are forgotten."""

CPU_S: Final = 300
"""The most CPU time of a child, in seconds; after that another one starts."""

FILES: Final = 64
"""The most files, the last used ones; each has one descriptor."""

SYMBOLS: Final = 1_000_000
"""The most functions of these files in sum, 24 bytes each."""

CODE_MAP_BYTES: Final = 16 << 20
"""The part of a map of compiled code that is read, at its end, in bytes."""

CODE_ENTRIES: Final = 1 << 18
"""The most functions of such a map, the newest ones."""

LONGEST_CODE_NAME: Final = 512
"""In bytes; longer names are cut."""


class CodeNames:
    """Names of code that was compiled at run time, from a map of it.

    Its lines are `BEGIN SIZE NAME`, the first two in hexadecimal digits.
    Later lines override earlier ones (tools/perf/Documentation/jit-interface.txt of Linux).

    Args:
        descriptor: the descriptor of the map.

    """

    def __init__(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        text = _content(descriptor, max(0, size - CODE_MAP_BYTES), CODE_MAP_BYTES)
        rows = text.splitlines()[-CODE_ENTRIES:]
        begins, ends, names = array("Q"), array("Q"), []
        for row in rows:
            words = row.split(None, 2)
            try:
                begin, length = int(words[0], 16), int(words[1], 16)
                name = words[2][:LONGEST_CODE_NAME]
                ends.append(begin + length)
                begins.append(begin)
            except (ValueError, IndexError, OverflowError):
                del ends[len(begins) :]
                continue
            names.append(name)
        numbers: NDArray[np.uint64] = np.frombuffer(begins, np.uint64) if begins else np.empty(0, np.uint64)
        order = np.argsort(numbers, kind="stable")
        # Of several lines with one address the last one applies.
        order = order[np.append(np.diff(numbers[order]) > 0, True)] if len(order) else order
        self._begins = numbers[order]
        self._ends = (np.frombuffer(ends, np.uint64) if ends else np.empty(0, np.uint64))[order]
        self._order, self._names = order, names

    def __len__(self) -> int:
        return len(self._begins)

    def name(self, address: int) -> str:
        """Return the name of the code at this address; empty if unknown."""
        at = int(np.searchsorted(self._begins, np.uint64(address), "right")) - 1
        if at < 0 or address >= int(self._ends[at]):
            return ""
        return printable(self._names[int(self._order[at])].decode("utf-8", "replace"))

    def close(self) -> None:
        """Do nothing: no file is open."""


File: TypeAlias = SymbolTable | CodeNames | None


class Symbolizer:
    """Answers questions about files. The caller has assigned a key to each file."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[Any, ...], File] = OrderedDict()

    def answer(self, question: list[Any], descriptor: int) -> object:
        """Answer a question; None for an unknown file: then the caller has to send the file with the question."""
        try:
            return self._answer(question, descriptor)
        except MemoryError:
            self._forget(list(self._files))
            return ""

    def _answer(self, question: list[Any], descriptor: int) -> object:
        match question:
            case ["dump"]:
                text = _content(descriptor, 0, DUMP_BYTES).decode("utf-8", "replace")
                return [[nid, [list(frame) for frame in stack]] for nid, stack in parse_dump(text)]
            case ["forget", keys]:
                self._forget([key for key in self._files if list(key[1:]) in keys])
                return ""
            case ["code" | "name" | "rule" as kind, key, address]:
                known = ("code" if kind == "code" else "file", *key)
                if known not in self._files:
                    if descriptor < 0:
                        return None
                    self._keep(known, descriptor)
                self._files.move_to_end(known)
                return _result(kind, self._files[known], address)
        raise ValueError(f"a question of the kind {question[:1]!r}")

    def _keep(self, key: tuple[Any, ...], descriptor: int) -> None:
        file: File = None
        self._files[key] = None  # even if it cannot be read
        with contextlib.suppress(OSError, SymbolsError):
            file = CodeNames(descriptor) if key[0] == "code" else SymbolTable(os.dup(descriptor))
        self._files[key] = file
        while len(self._files) > FILES or (len(self._files) > 1 and self._symbols() > SYMBOLS):
            self._forget([next(iter(self._files))])

    def _symbols(self) -> int:
        return sum(len(file) for file in self._files.values() if file is not None)

    def _forget(self, keys: list[tuple[Any, ...]]) -> None:
        for key in keys:
            file = self._files.pop(key)
            if file is not None:
                file.close()


def _result(kind: str, file: File, address: int) -> object:
    if file is None:
        return ""
    try:
        if kind == "rule":
            frames = file.frames if isinstance(file, SymbolTable) else None
            found = None if frames is None else frames.rule(address)
            return "" if found is None else list(found)
        return file.name(address)
    except (OSError, OverflowError, FramesError):  # an I/O error of the disk; a name outside of any file
        return ""


def _content(descriptor: int, at: int, most: int) -> bytes:
    parts = []
    while most > 0 and (part := os.pread(descriptor, min(most, 1 << 20), at)):
        parts.append(part)
        at += len(part)
        most -= len(part)
    return b"".join(parts)


def main() -> None:
    """Confine this process, and answer questions."""
    parent = int(sys.argv[1])
    confinement.take_name("laggard-reader")
    # Load now what is otherwise loaded on first use: after the confinement there is nothing to load from.
    demangled(b"_Z3abcv")
    symbolizer = Symbolizer()
    with open("/proc/self/exe", "rb") as own:  # noqa: PTH123 - our own program
        (begin,) = struct.unpack_from("<Q", own.read(32), 24)
        for kind in ("name", "rule"):
            symbolizer.answer([kind, [0], begin], own.fileno())
    symbolizer.answer(["forget", [[0]]], -1)
    with confinement.reporting():
        confinement.limit(MEMORY_BYTES, CPU_S, 2 * FILES)
        confinement.leave()
        confinement.drop_to_stranger()
        confinement.end_with(parent)
    confinement.serve(symbolizer.answer)


if __name__ == "__main__":
    main()
