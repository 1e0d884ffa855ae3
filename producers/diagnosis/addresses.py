"""The address space of a process: its mappings, and so the location of an address."""

from __future__ import annotations

import contextlib
import os
import re
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from laggard.pipeline.core.records.diagnosis import Location
from laggard.producers.diagnosis.helper import thread_time
from laggard.producers.diagnosis.states import credentials, inner_pid
from laggard.producers.diagnosis.symbols import KERNEL, kernel_symbols
from laggard.producers.system import foreign
from laggard.producers.system.kernel import MOUNTS_BYTES
from laggard.producers.system.proc import ProcError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.producers.diagnosis.frames import Rule
    from laggard.producers.diagnosis.symbols import Key, SymbolFiles
    from laggard.producers.system.clock import Clock

CACHED = 20_000
"""The most locations of a process in the cache."""

MAPS_BYTES = 8 << 20
"""The limit of the list of a process's mappings, in bytes: as many as it may have, with names of 90 bytes."""

MAPPINGS = 1 << 14
"""The most executable mappings of a process, those at the lowest addresses."""

READING_SHARE = 0.05
"""The limit of the CPU time for reading a growing map of code again, as a share of the time."""

AGAIN_S = 5.0
"""The time until the mappings are read again for an address that is in none of them, in seconds."""

_DELETED = " (deleted)"
_LONGEST_LINE = 1 << 13  # of maps: paths have at most 4 KiB
_THREADS = 64  # the most threads that are tried for a list of mappings

# Reads over a network may hang, and with them the diagnosis of a process that hangs.
_REMOTE = re.compile(rb"nfs4?|cifs|smb[23]?|ceph|9p|afs|gfs2|lustre|glusterfs|fuse(blk)?(\..*)?")


class Mapping(NamedTuple):
    """An executable stretch of a process's memory, as in `/proc/PID/maps`.

    Attributes:
        begin: its first address.
        end: the address after its last one.
        offset: the offset of its begin in the file, in bytes.
        device: the device of the file, `major:minor` in hexadecimal digits.
        path: the path of the file as the process sees it, followed by ` (deleted)` if it is no longer there; `[vdso]`
            and the like; empty for none.

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
    """Parse `/proc/PID/maps`: the executable mappings, in the order of their addresses, at most `MAPPINGS`.

    Raises `ProcError` for a malformed line.
    """
    mappings: list[Mapping] = []
    for line in text.splitlines():
        words = line.split(None, 5)
        try:
            if b"x" not in words[1]:
                continue
            if len(mappings) == MAPPINGS:
                break
            begin, end = words[0].split(b"-")
            path = words[5] if len(words) > 5 else b""
            mappings.append(
                Mapping(int(begin, 16), int(end, 16), int(words[2], 16), words[3].decode(), os.fsdecode(path))
            )
        except (IndexError, ValueError):
            raise ProcError(file, "line", "BEGIN-END PERMISSIONS OFFSET DEVICE INODE [PATH]", line) from None
    return mappings


def mapped_files(path: str, most: int = MAPS_BYTES) -> set[str]:
    """Return the paths of the executable mappings of a process; nothing without permission.

    Args:
        path: the path of the process below the root of procfs.
        most: the limit of the list of its mappings, in bytes.

    """
    try:
        text = foreign.lines(f"{path}/maps", most)
        return {mapping.path for mapping in parse_maps(text, f"{path}/maps") if mapping.is_file}
    except (OSError, ProcError):
        return set()


class AddressSpace:
    """The executable mappings of one process: module, offset and function of an address.

    Offsets are those in the file, since they are known without reading it; `addr2line` needs the addresses that
    `readelf -lW` shows for them. Files are opened through `/proc/PID/map_files` or `/proc/PID/exe`, otherwise below the
    process's own root. Those of network filesystems are never opened, since they may hang. Names of code that was
    compiled at run time come from `/tmp/perf-PID.map`, if its maker writes one, as for perf(1).

    Args:
        pid: the pid of the process, as the root shows it.
        root: the mount point of procfs.
        clock: the clock.
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
        self._keys: dict[Mapping, Key | None] = {}
        self._cut = False
        self._remote = _remote_devices(self._path)
        self._code = CodeMap(self._path, files)

    @property
    def notes(self) -> list[str]:
        """The gaps in its results, and the reasons."""
        if not self._cut:
            return []
        read = f"{MAPPINGS:,} mappings or {MAPS_BYTES >> 20} MiB"
        return [f"some functions have no names: only the first {read} of its list of mappings are read"]

    def locate(self, address: int, *, caller: bool = False) -> Location | None:
        """Return the location of an address in user space; None if it is in no executable mapping.

        Args:
            address: the address of an instruction.
            caller: whether it is a return address: the call is before it, perhaps at the end of another function.

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
        """Return the rule that undoes the frame of the function at this address; None if unknown.

        Args:
            address: the address of an instruction.

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
        key = self._key(mapping)
        bias = mapping.begin - mapping.offset
        found = None if key is None else self._files.rule(key, address - bias)
        return None if found is None else found._replace(begin=found.begin + bias)

    @property
    def code_map(self) -> str:
        """The path of the map of code that was compiled at run time, even if there is none."""
        return self._code.path()

    def read_code_map(self) -> None:
        """Read that map now, since it may be gone later."""
        self._code.read()
        self._known.clear()

    def mapping(self, address: int) -> Mapping | None:
        """Return the executable mapping of an address; None if there is none."""
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
            with contextlib.suppress(OSError):
                text = foreign.lines(f"{path}/maps", MAPS_BYTES)
                self._mappings = parse_maps(text, f"{path}/maps")
                self._cut = len(self._mappings) == MAPPINGS or len(text) > MAPS_BYTES - _LONGEST_LINE
                if self._mappings:
                    self._alive = path
                    break
        self._begins = [mapping.begin for mapping in self._mappings]
        self._known.clear()
        self._rules.clear()
        self._keys.clear()

    def _threads(self) -> Iterator[str]:
        """Yield the paths of the process and its threads: after the end of its first one, only the others have maps."""
        yield self._path
        with contextlib.suppress(OSError):
            for tid in foreign.names(f"{self._path}/task", _THREADS):
                yield f"{self._path}/task/{tid}"

    def _location(self, mapping: Mapping, address: int, instruction: int) -> Location:
        if not mapping.is_file:
            if mapping.path.startswith("[v"):
                return Location("", mapping.path, address - mapping.begin)
            function = self._code.name(instruction)
            return Location(function, "", -1 if function else address)
        offset = address - mapping.begin + mapping.offset
        key = self._key(mapping)
        function = "" if key is None else self._files.name(key, instruction - mapping.begin + mapping.offset)
        return Location(function, printable(mapping.path.removesuffix(_DELETED)), offset)

    def _key(self, mapping: Mapping) -> Key | None:
        """Return the key of the file of a mapping, which is open then; None if it must not or cannot be opened."""
        if mapping in self._keys:
            key = self._keys[mapping]
            if key is None or key in self._files:
                return key
        key = None
        if mapping.is_file and self._remote is not None and mapping.device not in self._remote:
            with contextlib.suppress(OSError):
                key = self._files.add(self._open(mapping))
        self._keys[mapping] = key
        return key

    def _open(self, mapping: Mapping) -> int:
        """Open the file of a mapping: the mapped one, otherwise the one at its path. Raises `OSError`."""
        with contextlib.suppress(OSError):
            return foreign.mapped(self._path, mapping.begin, mapping.end)
        with contextlib.suppress(OSError):
            if foreign.link(f"{self._alive}/exe") == mapping.path:
                return foreign.program(self._alive)
        if mapping.path.endswith(_DELETED):
            raise FileNotFoundError(mapping.path)
        return foreign.opened(self._alive, mapping.path, credentials(self._path)[0])


class CodeMap:
    """Names of code that was compiled at run time, as written by its maker: Java if asked, Node.js, Python since 3.12.

    Args:
        path: the path of the process below the root of procfs.
        files: the files through which the map is read.

    """

    def __init__(self, path: str, files: SymbolFiles) -> None:
        self._path = path
        self._files = files
        self._key: Key | None = None
        self._due = 0.0

    def name(self, address: int) -> str:
        """Return the name of the code at this address; empty if unknown."""
        found = self._find(address)
        if not found and time.monotonic() >= self._due and self.read():
            begun = thread_time()
            found = self._find(address)
            self._due = time.monotonic() + (thread_time() - begun) / READING_SHARE
        return found

    def _find(self, address: int) -> str:
        return self._files.code(self._key, address) if self._key is not None else ""

    def path(self) -> str:
        """Return the path of the file as the process sees it: with its pid there."""
        return f"/tmp/perf-{inner_pid(self._path)}.map"  # noqa: S108 - the path that all use

    def read(self) -> bool:
        """Open the file as it is now, and return whether it has changed."""
        try:
            owner = credentials(self._path)[0]
            descriptor = foreign.opened(self._path, self.path(), owner)
            # Any user may have put a file there; root may have done so for a process of another user.
            if os.fstat(descriptor).st_uid not in (owner, 0):
                os.close(descriptor)
                return False
            before, self._key = self._key, self._files.add(descriptor)
        except OSError:
            return False
        if before is not None and before != self._key:
            self._files.remove(before)
        return self._key != before


def kernel_location(address: int) -> Location:
    """Return the location of an address of the kernel, without the address itself, which is a secret of the machine."""
    return Location(kernel_symbols().name(address), KERNEL)


def _remote_devices(path: str) -> set[str] | None:
    """Return the devices of network filesystems that a process sees, as in its maps; None if there are too many."""
    text = foreign.content(f"{path}/mountinfo", MOUNTS_BYTES)
    if len(text) >= MOUNTS_BYTES - 1:
        return None
    found = set()
    for line in text.splitlines():
        before, _, behind = line.partition(b" - ")
        if _REMOTE.fullmatch(behind.split(None, 1)[0] if behind else b""):
            major, minor = before.split()[2].split(b":")
            found.add(f"{int(major):02x}:{int(minor):02x}")
    return found
