"""What is mapped where in a process, and so what an address of it is."""

from __future__ import annotations

import contextlib
import os
import re
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from laggard.pipeline.records.diagnosis import Location
from laggard.producers.diagnosis.frames import FramesError
from laggard.producers.diagnosis.symbols import SymbolFiles, kernel_symbols
from laggard.producers.foreign import content
from laggard.producers.proc import ProcError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.producers.clock import Clock
    from laggard.producers.diagnosis.frames import Rule
    from laggard.producers.diagnosis.symbols import SymbolTable

KERNEL = "[kernel]"
"""The module of the kernel's functions."""

CACHED = 20_000
"""So many locations of a process are remembered."""

CODE_MAP_BYTES = 16 << 20
"""So much of a map of code that was made at run time is read."""

AGAIN_S = 5.0
"""So long an address that is in no mapping waits until the mappings are read again."""

_DELETED = " (deleted)"

# What is read over a network may hang, and with it who wants to say what hangs.
_REMOTE = re.compile(rb"nfs4?|cifs|smb[23]?|ceph|9p|afs|gfs2|lustre|glusterfs|fuse\..*")


class Mapping(NamedTuple):
    """A stretch of a process's memory that it may execute, as `/proc/PID/maps` has it.

    Attributes:
        begin: its first address.
        end: ... and the one behind its last.
        offset: of its begin in the file, in bytes.
        device: of the file, `major:minor` in hexadecimal digits.
        path: of the file as the process sees it, with ` (deleted)` behind it where it is no longer there; `[vdso]` and
            the like; empty for none.

    """

    begin: int
    end: int
    offset: int
    device: str
    path: str

    @property
    def is_file(self) -> bool:
        """Whether it was mapped from a file that may have symbols."""
        return self.path.startswith("/") and not self.path.startswith(("/memfd:", "/dev/zero", "/SYSV", "//anon"))


def parse_maps(text: bytes, file: str = "maps") -> list[Mapping]:
    """Parse `/proc/PID/maps`: the executable mappings, in the order of their addresses.

    Raises ProcError for a line that does not have its form.
    """
    mappings = []
    for line in text.splitlines():
        words = line.split(None, 5)
        try:
            if b"x" not in words[1]:
                continue
            begin, end = words[0].split(b"-")
            path = words[5] if len(words) > 5 else b""
            mappings.append(
                Mapping(int(begin, 16), int(end, 16), int(words[2], 16), words[3].decode(), os.fsdecode(path))
            )
        except (IndexError, ValueError):
            raise ProcError(file, "line", "BEGIN-END PERMISSIONS OFFSET DEVICE INODE [PATH]", line) from None
    return mappings


class AddressSpace:
    """The executable mappings of one process: which module, offset and function an address of it is.

    Offsets are those in the file, so that they can be told without reading it; `addr2line` wants the addresses that
    `readelf -lW` puts beside them. Files are read below the process's own root, deleted ones through
    `/proc/PID/map_files` or `/proc/PID/exe`, those of network file systems never: they may hang. Code that was made at
    run time is named by `/tmp/perf-PID.map`, where its maker keeps one, as perf(1) knows it.

    Args:
        pid: of the process, as the root shows it.
        root: where procfs is mounted.
        clock: what tells the time.
        files: the symbol tables.

    """

    def __init__(self, pid: int, *, root: str = "/proc", clock: Clock, files: SymbolFiles) -> None:
        self._path = self._alive = f"{root}/{pid}"
        self._files = files
        self._clock = clock
        self._mappings: list[Mapping] = []
        self._begins: list[int] = []
        self._read_ns: int | None = None
        self._known: dict[tuple[int, bool], Location] = {}
        self._rules: dict[int, Rule | None] = {}
        self._remote = _remote_devices(self._path)
        self._code = CodeMap(self._path)

    def locate(self, address: int, *, caller: bool = False) -> Location | None:
        """What an address of user space is; None where nothing is mapped there that can be executed.

        Args:
            address: that of an instruction.
            caller: whether it is one to be returned to: the call stands before it, perhaps at another function's end.

        """
        found = self._known.get((address, caller))
        if found is None:
            mapping = self.mapping(address)
            if mapping is None:
                return None
            if len(self._known) >= CACHED:
                self._known.clear()
            found = self._known[address, caller] = self._location(mapping, address, address - caller)
        return found

    def rule(self, address: int) -> Rule | None:
        """How the frame of the function at this address is undone; None where that is not known.

        Args:
            address: that of an instruction.

        """
        if address in self._rules:
            return self._rules[address]
        mapping = self.mapping(address)
        if len(self._rules) >= CACHED:
            self._rules.clear()
        found = None if mapping is None else self._rule(mapping, address)
        self._rules[address] = found
        return found

    def _rule(self, mapping: Mapping, address: int) -> Rule | None:
        table = self._table(mapping)
        bias = mapping.begin - mapping.offset
        with contextlib.suppress(OSError, FramesError):
            if table is not None and table[1].frames is not None:
                found = table[1].frames.rule(address - bias)
                return None if found is None else found._replace(begin=found.begin + bias)
        return None

    @property
    def code_map(self) -> str:
        """Where the map of code that was made at run time is, or would be."""
        return self._code.path()

    def read_code_map(self) -> None:
        """Read that map now, for it may be gone later."""
        self._code.read()
        self._known.clear()

    def mapping(self, address: int) -> Mapping | None:
        """The executable mapping that an address is in; None where there is none."""
        found = self._mapping(address)
        if found is None:
            now = self._clock.monotonic()
            if self._read_ns is None or now - self._read_ns >= AGAIN_S * 1e9:
                self._read_ns = now
                self._read()
                found = self._mapping(address)
        return found

    def _mapping(self, address: int) -> Mapping | None:
        at = bisect_right(self._begins, address) - 1
        return self._mappings[at] if at >= 0 and address < self._mappings[at].end else None

    def _read(self) -> None:
        for path in self._threads():
            with contextlib.suppress(OSError), open(f"{path}/maps", "rb") as file:  # noqa: PTH123 - below /proc
                self._mappings = parse_maps(file.read(), f"{path}/maps")
                if self._mappings:
                    self._alive = path
                    break
        self._begins = [mapping.begin for mapping in self._mappings]
        self._known.clear()
        self._rules.clear()

    def _threads(self) -> Iterator[str]:
        """The process and its threads: if the first one ends before others, nothing is mapped in it any more."""
        yield self._path
        with contextlib.suppress(OSError):
            for tid in os.listdir(f"{self._path}/task"):  # noqa: PTH208 - names
                yield f"{self._path}/task/{tid}"

    def _location(self, mapping: Mapping, address: int, instruction: int) -> Location:
        if not mapping.is_file:
            if mapping.path.startswith("[v"):
                return Location("", mapping.path, address - mapping.begin)
            function = self._code.name(instruction)
            return Location(function, "", -1 if function else address)
        offset = address - mapping.begin + mapping.offset
        found = self._table(mapping)
        function = "" if found is None else self._files.name(found[0], instruction - mapping.begin + mapping.offset)
        return Location(function, printable(mapping.path.removesuffix(_DELETED)), offset)

    def _table(self, mapping: Mapping) -> tuple[str, SymbolTable] | None:
        """Where the file of a mapping is, and its table; None where it may not, or cannot be read."""
        if mapping.is_file and mapping.device not in self._remote:
            for path in self._places(mapping):
                if (table := self._files.table(path)) is not None:
                    return path, table
        return None

    def _places(self, mapping: Mapping) -> Iterator[str]:
        """Where the file of a mapping can be read."""
        if not mapping.path.endswith(_DELETED):
            yield f"{self._alive}/root{mapping.path}"
        yield f"{self._path}/map_files/{mapping.begin:x}-{mapping.end:x}"
        with contextlib.suppress(OSError):
            if str(Path(f"{self._alive}/exe").readlink()) == mapping.path:
                yield f"{self._alive}/exe"


class CodeMap:
    """Names of code that was made at run time, as its maker writes them: Java when asked, Node.js, Python from 3.12 on.

    A line of the file is `BEGIN SIZE NAME`, the first two in hexadecimal digits; later lines hold over earlier ones
    (tools/perf/Documentation/jit-interface.txt of Linux).

    Args:
        path: of the process, below the root of procfs.

    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._version: tuple[int, int, int] = (0, 0, 0)
        self._begins: list[int] = []
        self._entries: list[tuple[int, str]] = []  # end, name

    def name(self, address: int) -> str:
        """What was made at this address; empty where it is not told."""
        at = self._find(address)
        if at is None and self.read():
            at = self._find(address)
        return "" if at is None else self._entries[at][1]

    def _find(self, address: int) -> int | None:
        at = bisect_right(self._begins, address) - 1
        return at if at >= 0 and address < self._entries[at][0] else None

    def path(self) -> str:
        """Where the file is, below the process's own root and by its pid there."""
        pids = re.search(rb"^NSpid:.*?(\d+)$", content(f"{self._path}/status"), re.MULTILINE)
        return f"{self._path}/root/tmp/perf-{int(pids[1]) if pids else 0}.map"

    def read(self) -> bool:
        """Read the file if it has changed. Returns whether it was read."""
        try:
            owner = Path(self._path).stat().st_uid
            descriptor = os.open(self.path(), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            status = os.fstat(descriptor)
            version = status.st_ino, status.st_size, status.st_mtime_ns
            # Anybody may have put a file there; root may have for a process of another's.
            if version == self._version or status.st_uid not in (owner, 0):
                return False
            self._version = version
            text = file.read(CODE_MAP_BYTES)
        found = {}
        for line in text.splitlines():
            words = line.split(None, 2)
            with contextlib.suppress(ValueError, IndexError):
                begin = int(words[0], 16)
                found[begin] = begin + int(words[1], 16), printable(words[2].decode("utf-8", "replace"))
        self._begins = sorted(found)
        self._entries = [found[begin] for begin in self._begins]
        return True


def kernel_location(address: int) -> Location:
    """What an address of the kernel is; the address itself is the machine's secret and not told."""
    return Location(kernel_symbols().name(address), KERNEL)


def _remote_devices(path: str) -> set[str]:
    """Devices of network file systems that a process sees, as its maps write them."""
    found = set()
    for line in content(f"{path}/mountinfo").splitlines():
        before, _, behind = line.partition(b" - ")
        if _REMOTE.fullmatch(behind.split(None, 1)[0] if behind else b""):
            major, minor = before.split()[2].split(b":")
            found.add(f"{int(major):02x}:{int(minor):02x}")
    return found
