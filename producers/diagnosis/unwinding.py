"""Finds the callers of the function in which a thread is blocked: its stack is unwound without stopping anything.

The kernel shows the stack pointer of a blocked thread, its next instruction, and of its registers only the arguments of
its system call. That is enough for code without frame pointers: each frame is found from the one that it called. A
function with a frame pointer has it in a register that is unknown until a callee has saved it. The first such frame is
found by its size, from its first instructions. For x86-64 only.

Measured on a Python process, 13 functions deep: 43 us per stack, and 23 us for reading it in another thread. A round of
17 threads that had all moved cost 1.21 ms of CPU time without stacks, and 2.12 ms with every stack. It cost 1.45 ms as
in `Threads`, with one in four of those at the same place (medians of 35 turns).
"""

from __future__ import annotations

import itertools
import os
import re
import struct
from typing import TYPE_CHECKING, Final, Self

from laggard.producers.diagnosis.addresses import CACHED
from laggard.producers.system import foreign

if TYPE_CHECKING:
    from laggard.pipeline.core.records.diagnosis import Location
    from laggard.producers.diagnosis.addresses import AddressSpace
    from laggard.producers.diagnosis.frames import Rule
    from laggard.producers.diagnosis.parsers import Blocked

FRAMES: Final = 64
"""The most functions of a stack, the innermost ones."""

PAGES: Final = 64
"""The most pages of a stack that are read: a larger stack is cut there."""

# Registers, by their numbers in call frame information (System V ABI for x86-64, figure 3.36).
_STACK, _FRAME = 7, 6
_ARGUMENTS: Final = (5, 4, 1, 10, 8, 9)  # of system calls: rdi, rsi, rdx, r10, r8, r9

_BEGINNING_BYTES: Final = 64
_MOVES: Final = re.compile(
    rb"\x48\x83\xec(.)|\x48\x81\xec(.{4})"  # sub rsp, of one byte or four
    rb"|\x48\x83\xe4|\x48\x29[\xc4\xcc\xd4\xdc\xf4\xfc]|\x4c\x8d.\x24",  # and; sub of a register; lea r10 or r11
    re.DOTALL,
)
_CALL: Final = b"\xe8"
_PAGE: Final = 4096
_WORD: Final = struct.Struct("=Q")


class Unwinder:
    """The stacks of the blocked threads of one process.

    Args:
        path: the path of the process below a root of procfs.
        space: its address space.

    """

    def __init__(self, path: str, space: AddressSpace) -> None:
        self._path = path
        self._space = space
        self._behind_calls: dict[int, bool] = {}  # by address; code of files does not change

    def callers(self, blocked: Blocked) -> tuple[Location, ...]:
        """Return the known callers of the function in which a thread is blocked, the innermost first.

        Raises:
            OSError: the memory of the process may not be read.

        """
        found = (self._space.locate(address, caller=True) for address in self.returns(blocked))
        return tuple(location for location in found if location is not None)

    def returns(self, blocked: Blocked) -> list[int]:
        """Return the addresses to which the functions on its stack return, likewise."""
        found: list[int] = []
        stack, address = blocked.stack, blocked.address
        frame: int | None = None
        registers = dict(zip(_ARGUMENTS, blocked.arguments, strict=False))
        with _Memory(f"{self._path}/mem") as memory:
            while len(found) < FRAMES - 1:
                # A call may be the last instruction of a function.
                rule = self._space.rule(address - bool(found))
                above = None if rule is None else self._above(memory, rule, stack, frame, address)
                if rule is None or above is None or above < stack:
                    break
                returns = registers.get(-1 if rule.returns_in is None else rule.returns_in)
                if rule.returns is not None:
                    returns = memory.word(above + rule.returns)
                if returns is None or not self._follows_call(memory, returns):
                    break
                if rule.register == _FRAME and frame is None and self._is_of_another(memory, returns, rule.begin):
                    break
                if rule.lost:
                    frame = None
                elif rule.frame is not None:
                    frame = memory.word(above + rule.frame)
                found.append(returns)
                stack, address = above, returns
                registers.clear()  # they were the callee's
        return found

    def _above(self, memory: _Memory, rule: Rule, stack: int, frame: int | None, address: int) -> int | None:
        """Return the CFA; None if it is unknown."""
        if rule.register == _STACK:
            return stack + rule.offset
        if rule.register != _FRAME:
            return None
        if frame is not None:
            return frame + rule.offset
        size = frame_size(memory.read(rule.begin, min(_BEGINNING_BYTES, address - rule.begin)), rule.kept)
        return None if size is None else stack + size

    def _follows_call(self, memory: _Memory, address: int) -> bool:
        """Return whether the instruction before this address may be a call: call rel32, or FF /2 with its operands."""
        found = self._behind_calls.get(address)
        if found is None:
            if len(self._behind_calls) >= CACHED:
                self._behind_calls.clear()
            mapped = self._space.mapping(address - 1) is not None
            before = memory.read(address - 7, 7) if mapped else b""
            found = self._behind_calls[address] = before[2:3] == _CALL or any(
                code == 0xFF and operand >> 3 & 7 == 2 for code, operand in itertools.pairwise(before)
            )
        return found

    def _is_of_another(self, memory: _Memory, address: int, begin: int) -> bool:
        """Return whether the call before this address is to another function than the one that begins at `begin`."""
        before = memory.read(address - 5, 5)
        if before[:1] != _CALL:
            return False
        target = address + int.from_bytes(before[1:], "little", signed=True)
        called = self._space.rule(target)
        return target != begin and called is not None and called.begin == target


def frame_size(code: bytes, kept: int) -> int | None:
    """Return the distance from the stack pointer in the body of a function with a frame pointer to its CFA, in bytes.

    It consists of the saved registers, and of `sub rsp, N` at the beginning if the function needs more. None if it
    moves the stack pointer in another way, or more than once.

    Args:
        code: its first instructions, up to the one in question.
        kept: the distance from the CFA down to the saved registers, in bytes.

    """
    moves = list(_MOVES.finditer(code))
    if not moves:
        return kept
    by = moves[0][1] or moves[0][2]
    return kept + int.from_bytes(by, "little") if by and len(moves) == 1 else None


class _Memory:
    """The memory of a process, page by page."""

    def __init__(self, path: str) -> None:
        self._descriptor = foreign.reading(path)
        self._pages: dict[int, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def word(self, address: int) -> int | None:
        """Return a word; None if nothing is mapped there."""
        text = self.read(address, _WORD.size)
        return int(_WORD.unpack(text)[0]) if len(text) == _WORD.size else None

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes; fewer if no more are mapped, or `PAGES` have been read."""
        page, begin = divmod(address, _PAGE)
        text = self._page(page)[begin : begin + size]
        return text + self._page(page + 1)[: size - len(text)] if begin + size > _PAGE else text

    def _page(self, number: int) -> bytes:
        if number not in self._pages:
            if len(self._pages) >= PAGES:
                return b""
            try:
                self._pages[number] = os.pread(self._descriptor, _PAGE, number * _PAGE)
            except (OSError, OverflowError):  # nothing is mapped there
                self._pages[number] = b""
        return self._pages[number]
