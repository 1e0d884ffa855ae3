"""Checks once a second whether a part of `laggard up` still works: its signs of life, its state and its memory.

A part speaks the protocol of sd_notify(3) to `laggard up` as it does to systemd. The socket is one end of a pair that
the part inherits, not an address: no stranger can send to it, or fill it.

Memory counts if no file is behind it, in RAM or in swap: mapped files can be dropped at any time. RLIMIT_AS would limit
addresses instead, of which threads and allocators reserve many times their use. At that limit an allocation fails
somewhere in the part, which may continue half broken; a killed part restarts in a clean state.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

STOPPED_S: Final = 3.0
"""A part that is stopped (SIGSTOP) for this time is killed. It does not continue by itself, and may hold the bus."""

SILENT_S: Final = 60.0
"""A part whose loop has not turned for this time hangs. Time spent waiting for a disk or a CPU does not count."""

LONGEST_SILENT_S: Final = 960.0
"""The limit doubles up to this with each kill, so that a part whose steps take so long is not killed forever."""

EXCUSED_S: Final = 600.0
"""The most time for which a silent part may wait for a disk or a CPU."""

_MESSAGE_BYTES: Final = 4096
_MEMORY: Final = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB$", re.MULTILINE)
_STATE: Final = re.compile(rb"^State:\s*(\w)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The most memory that a part may use, in bytes, and the name of the setting that limits it."""

    max_bytes: int
    setting: str


class Watchdog:
    """Watches one part, over all its restarts.

    Args:
        limit: its memory limit; None for none.
        root: where procfs is mounted.

    """

    def __init__(self, limit: MemoryLimit | None, root: str = "/proc") -> None:
        self._limit = limit
        self._root = Path(root)
        self._patience_s = SILENT_S
        self._ours: socket.socket | None = None
        self._reset()

    def _reset(self) -> None:
        self._stopped_s = self._silent_s = self._excused_s = 0.0
        self._used_s: dict[str, float] = {}

    def begin(self, environ: Mapping[str, str]) -> tuple[dict[str, str], socket.socket]:
        """Prepare a start: return the environment of the part, and its socket, which the caller closes."""
        self.end()
        self._reset()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ours.setblocking(False)
        # The variables of this process's service manager are not for its parts.
        own = {name: value for name, value in environ.items() if name != "WATCHDOG_PID"}
        return own | {
            "NOTIFY_SOCKET": f"fd:{theirs.fileno()}",
            "WATCHDOG_USEC": f"{self._patience_s * 1e6:.0f}",
        }, theirs

    def end(self) -> None:
        """Clean up after the end of a part."""
        if self._ours is not None:
            self._ours.close()
            self._ours = None

    def is_alive(self) -> bool:
        """Return whether a sign of life has arrived since the last call."""
        found = False
        while self._ours is not None:
            try:
                found |= b"WATCHDOG=1" in self._ours.recv(_MESSAGE_BYTES).split(b"\n")
            except OSError:  # no more messages, or the part has ended
                break
        return found

    def check(self, pid: int, passed_s: float, *, alive: bool) -> str:
        """Return why a part must be killed, in words; empty if it must not.

        Args:
            pid: the process id of the part, which has not been waited for.
            passed_s: the seconds since the last check in which it could have given a sign of life.
            alive: whether it has.

        """
        try:
            status = (self._root / f"{pid}/status").read_bytes()
        except OSError:
            return ""
        return self._is_stopped(status, passed_s) or self._is_large(status) or self._is_silent(pid, passed_s, alive)

    def _is_stopped(self, status: bytes, passed_s: float) -> str:
        state = _STATE.search(status)
        # Not `t`: a tracer stopped it, and lets it continue.
        self._stopped_s = self._stopped_s + passed_s if state and state[1] == b"T" else 0.0
        return f"was stopped (SIGSTOP) for {STOPPED_S:g} s" if self._stopped_s >= STOPPED_S else ""

    def _is_large(self, status: bytes) -> str:
        used_bytes = 1024 * sum(map(int, _MEMORY.findall(status)))
        if self._limit is None or used_bytes <= self._limit.max_bytes:
            return ""
        mebibytes = f"{used_bytes / 2**20:,.0f} MiB of memory, {self._limit.max_bytes / 2**20:,.0f} MiB"
        return f"held {mebibytes} are allowed (setting {self._limit.setting})"

    def _is_silent(self, pid: int, passed_s: float, alive: bool) -> str:
        if alive:
            self._silent_s = self._excused_s = 0.0
            self._used_s = {}
            return ""
        waited_s = min(self._waited_s(pid, passed_s), EXCUSED_S - self._excused_s)
        self._excused_s += waited_s
        self._silent_s += passed_s - waited_s
        if self._silent_s < self._patience_s:
            return ""
        limit_s, self._patience_s = self._patience_s, min(2 * self._patience_s, LONGEST_SILENT_S)
        return f"gave no sign of life for {limit_s:g} s{self._sleeps(pid)}"

    def _sleeps(self, pid: int) -> str:
        """Return where the main thread sleeps in the kernel, in words; empty if it does not, or that is unreadable."""
        with suppress(OSError):
            place = (self._root / f"{pid}/wchan").read_text()
            return f", asleep in {place}," if place not in {"", "0"} else ""
        return ""

    def _waited_s(self, pid: int, passed_s: float) -> float:
        """Return the seconds for which some thread waited for a disk, or was runnable without a CPU."""
        before, self._used_s = self._used_s, {}
        waited_s = 0.0
        with suppress(OSError):
            for thread in (self._root / f"{pid}/task").iterdir():
                # The name before may contain any characters.
                fields = (thread / "stat").read_bytes().rpartition(b")")[2].split()
                used_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                self._used_s[thread.name] = used_s
                if fields[0] == b"D":
                    waited_s = passed_s
                elif fields[0] == b"R":
                    waited_s = max(waited_s, passed_s - (used_s - before.get(thread.name, 0.0)))
        return waited_s
