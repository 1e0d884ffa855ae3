"""Names of functions: by address in the files of processes, which a child process reads, and in the kernel.

Demangling a symbol of 256 bytes once needed 35 s and 10.5 GB, and a file may contain anything that harms its reader. So
only the child reads files of machine code, see `symbolizer`. All sessions of a program share one child, and ask it in
turns. Measured: 0.1 s of CPU time and 29 MB to start. Both processes together use 55 to 85 us of CPU time per name, and
120 to 150 us per rule of call frames (in one process 3 and 61 us). The callers cache the answers.
Source of the kernel's names: Documentation/filesystems/proc.rst of Linux.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from array import array
from collections import OrderedDict
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from laggard.pipeline.core.records.diagnosis import Location
from laggard.producers.diagnosis.dumps import DUMP_BYTES, FRAMES
from laggard.producers.diagnosis.frames import Rule
from laggard.producers.diagnosis.helper import Helper, HelperError, HelperGoneError
from laggard.producers.system.proc import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

KERNEL = "[kernel]"
"""The module of the kernel's functions."""

FILES = 64
"""The most open files, the last used ones."""

LONGEST_NAME = 512
"""In characters; longer names are cut."""

LOSSES: Final = 3
"""After the child has failed at this many files of a process, none of its functions gets a name."""

RENEW_CPU_S: Final = 200.0
"""A child that has used this CPU time, in seconds, is replaced: at 300 s it would be killed, and a file blamed."""

AGAIN_S: Final = 60.0
"""The time until another try after a child could not start, in seconds."""

_MODULE: Final = "laggard.producers.diagnosis.symbolizer"


class Key(NamedTuple):
    """The identity of a file: a new one of the same name, or a changed one, has another key."""

    device: int
    inode: int
    size: int
    changed_ns: int


class Symbolizer:
    """The child that reads files for all sessions of this program: started on demand, and again after it died."""

    def __init__(self) -> None:
        self._order = threading.Lock()
        self._helper: Helper | None = None
        self._owner = 0
        self._not_before = 0.0

    def helper(self) -> Helper:
        """Return a child that can answer; wait until it can.

        Raises:
            HelperError: it cannot start.

        """
        with self._order:
            helper = self._helper
            ours = helper is not None and self._owner == os.getpid()  # in a fork it is the parent's
            if helper is None or not ours or not helper.alive or helper.cpu_s > RENEW_CPU_S:
                if time.monotonic() < self._not_before:
                    raise HelperError("the helper could not start")
                if helper is not None and ours:
                    helper.close()
                helper, self._owner = Helper(_MODULE), os.getpid()
                self._helper = helper
        try:
            helper.wait()
        except HelperError:
            self._not_before = time.monotonic() + AGAIN_S
            raise
        return helper

    def stacks(self, dump: bytes) -> list[tuple[int, tuple[Location, ...]]]:
        """Have a thread dump parsed. Return the native id and stack of each thread, the innermost function first.

        Raises:
            HelperError: the child cannot parse it.

        """
        try:
            descriptor = os.memfd_create("dump", os.MFD_CLOEXEC)
        except OSError as error:
            raise HelperError(f"cannot send to the helper: {error.strerror}") from error
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(dump[:DUMP_BYTES])
            found = self.helper().ask("dump", descriptor=descriptor, most=2 * DUMP_BYTES)
        finally:
            os.close(descriptor)
        return _stacks(found)

    def forget(self, keys: Sequence[Key]) -> None:
        """Have the child close these files, if there is a child."""
        helper = self._helper
        if helper is not None and helper.alive and self._owner == os.getpid():
            with contextlib.suppress(HelperError):
                helper.ask("forget", keys)

    def close(self) -> None:
        """End the child, if there is one."""
        with self._order:
            if self._helper is not None and self._owner == os.getpid():
                self._helper.close()
            self._helper = None


@cache
def symbolizer() -> Symbolizer:
    """Return the child of this program."""
    return Symbolizer()


class SymbolFiles:
    """The files of one process with functions to look up, the last used ones: open here, and read by the child.

    A file at which the child failed is not read again. The answers of the child are validated.

    Args:
        limit: the most open files.

    """

    def __init__(self, limit: int = FILES) -> None:
        self._limit = limit
        self._files: OrderedDict[Key, int] = OrderedDict()
        self._lost: dict[Key, str] = {}
        self._refused = ""

    @property
    def notes(self) -> list[str]:
        """The failures to find names, and their reasons."""
        notes = []
        if self._lost:
            causes = ", ".join(dict.fromkeys(self._lost.values()))
            rest = "; no more are read" if len(self._lost) >= LOSSES else ""
            notes.append(f"functions of {len(self._lost)} files have no names: reading them failed ({causes}){rest}")
        if self._refused:
            notes.append(f"functions have no names: the symbol reader did not start: {self._refused}")
        return notes

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, key: object) -> bool:
        return key in self._files

    def add(self, descriptor: int) -> Key:
        """Add an open file. Its descriptor belongs to this object from then on.

        Raises:
            OSError: its status is unreadable.

        """
        try:
            status = os.fstat(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        key = Key(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if key in self._files:
            os.close(descriptor)
        else:
            self._files[key] = descriptor
        self._files.move_to_end(key)
        while len(self._files) > self._limit:
            os.close(self._files.popitem(last=False)[1])
        return key

    def remove(self, key: Key) -> None:
        """Close a file that is no longer needed."""
        descriptor = self._files.pop(key, -1)
        if descriptor >= 0:
            os.close(descriptor)

    def name(self, key: Key, offset: int) -> str:
        """Return the function at this offset of a file, in bytes; empty if it has no symbol there or is unreadable."""
        return _text(self._ask("name", key, offset))

    def code(self, key: Key, address: int) -> str:
        """Return the function at this address of the process, by a map of compiled code; empty likewise."""
        return _text(self._ask("code", key, address))

    def rule(self, key: Key, offset: int) -> Rule | None:
        """Return the rule that undoes the frame of the function at this offset; None if unknown."""
        return _rule(self._ask("rule", key, offset))

    def close(self) -> None:
        """Close all files, and have the child forget them."""
        keys = list(self._files)
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
        if keys:
            symbolizer().forget(keys)

    def _ask(self, kind: str, key: Key, address: int) -> object:
        if key in self._lost or len(self._lost) >= LOSSES or key not in self._files or not 0 <= address < 1 << 64:
            return ""
        self._files.move_to_end(key)
        for last in (False, True):
            try:
                helper = symbolizer().helper()
            except HelperError as error:
                self._refused = str(error)
                return ""
            try:
                found = helper.ask(kind, key, address)
                return helper.ask(kind, key, address, descriptor=self._files[key]) if found is None else found
            except HelperGoneError:
                if last:
                    return ""
            except HelperError as error:
                self._lost[key] = str(error)
                return ""
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _text(value: object) -> str:
    return printable(value[:LONGEST_NAME]) if isinstance(value, str) else ""


def _number(value: object, most: int = 1 << 63) -> bool:
    return isinstance(value, int) and -most <= value < most


def _rule(value: object) -> Rule | None:
    if not isinstance(value, list) or len(value) != len(Rule._fields):
        return None
    rule = Rule(*value)
    numbers = rule.begin, rule.register, rule.offset, rule.kept
    others = rule.returns, rule.returns_in, rule.frame
    if all(map(_number, numbers)) and all(each is None or _number(each) for each in others):
        return rule._replace(lost=bool(rule.lost))
    return None


def _stacks(answer: object) -> list[tuple[int, tuple[Location, ...]]]:
    stacks = []
    for thread in answer if isinstance(answer, list) else ():
        match thread:
            case [int(nid), list(frames)]:
                locations = [
                    Location(_text(function), _text(file), -1, line)
                    for function, file, line in (frame for frame in frames[:FRAMES] if _is_frame(frame))
                ]
                stacks.append((nid, tuple(locations)))
    return stacks


def _is_frame(frame: object) -> bool:
    match frame:
        case [str(), str(), int(line)]:
            return 0 <= line < 1 << 31
    return False


class KernelSymbols:
    """The functions of the kernel, by address, from `/proc/kallsyms`.

    Read once, in 0.14 s for 122,079 of them; those of modules that are loaded later are missing. The kernel shows
    addresses only with CAP_SYSLOG, and not if `kernel.kptr_restrict` is 2. Otherwise all are 0, and reading stops at
    the first one.

    Args:
        path: the path of the file.

    """

    def __init__(self, path: str = "/proc/kallsyms") -> None:
        addresses, places, names = array("Q"), array("I"), bytearray()
        with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - read line by line
            for line in file:
                address, kind, name, *_ = line.split(None, 3)
                if kind in b"tTwW":
                    if not int(address, 16):
                        break
                    addresses.append(int(address, 16))
                    places.append(len(names))
                    names += name + b"\n"
        numbers = np.frombuffer(addresses, np.uint64)
        order = np.argsort(numbers, kind="stable")
        self._addresses = numbers[order]
        self._places = np.frombuffer(places, np.uint32)[order]
        self._names = bytes(names)

    def __len__(self) -> int:
        return len(self._addresses)

    def name(self, address: int) -> str:
        """Return the function at this address; empty if unknown."""
        at = int(np.searchsorted(self._addresses, np.uint64(address), "right")) - 1
        if at < 0:
            return ""
        begin = int(self._places[at])
        return printable(self._names[begin : self._names.index(b"\n", begin)].decode("utf-8", "replace"))


@cache
def kernel_symbols() -> KernelSymbols:
    """Return the functions of the kernel of this machine."""
    return KernelSymbols()
