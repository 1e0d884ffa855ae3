"""The owner of a process: its user, and its container.

Sources: proc_pid_status(5), passwd(5), cgroups(7). The names of control groups are in the documentation of container
managers: Docker and podman (the systemd and the cgroupfs driver), Kubernetes (the CRI) and LXC (`lxc.payload.NAME`).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from laggard.producers.system.foreign import opened, read, reading
from laggard.producers.system.proc import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PASSWD_BYTES: Final = 4 << 20
"""The most bytes that are read of a file of users."""

LONGEST: Final = 64
"""The most characters of the name of a user or a container."""

SHORT_ID: Final = 12
"""The number of digits of a container's id that are shown, as container managers do."""

_UID: Final = re.compile(rb"\nUid:\t\d+\t(\d+)")
_MANAGERS: Final[Mapping[str, str]] = {
    "docker": "docker",
    "libpod": "podman",
    "libpod-payload": "podman",
    "cri-containerd": "containerd",
    "crio": "crio",
    "containerd": "containerd",
    "nerdctl": "containerd",
}
"""The container manager by the word before a container's id in the path of its control group."""

_SCOPE: Final = re.compile(r"([a-z][a-z-]*)-([0-9a-f]{64})(?:\.scope)?")
_ID: Final = re.compile(r"[0-9a-f]{64}")
_POD: Final = re.compile(r"(?:kubepods.*-)?pod([0-9a-f]{8}[-_][0-9a-f_-]{27})(?:\.slice)?")
_LXC: Final = re.compile(r"lxc\.payload\.(.+)")


class Users:
    """The names of users, from the passwd file of the machine; a missing user has its number.

    Other sources of users (LDAP, systemd-homed) are not queried: that may take seconds, or wait for a network.

    Args:
        root: the mount point of procfs. Its process 1 has the file of the machine, even if this process runs in a
            container.

    """

    def __init__(self, root: str = "/proc") -> None:
        self._first = f"{root}/1"
        self._stamp: tuple[int, int, int] | None = None
        self._names: dict[int, str] = {}

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        try:
            file = self._open()
        except OSError:
            return
        try:
            found = os.fstat(file)
            stamp = found.st_dev, found.st_ino, found.st_mtime_ns
            if stamp != self._stamp:
                self._stamp = stamp
                self._names = parse_passwd(read(file, MAX_PASSWD_BYTES))
        finally:
            os.close(file)

    def _open(self) -> int:
        try:
            return opened(self._first, "etc/passwd", 0)
        except OSError:  # not permitted
            return reading("/etc/passwd")

    def name(self, uid: int) -> str:
        """Return the name of a user."""
        return self._names.get(uid, str(uid))


def parse_passwd(text: bytes) -> dict[int, str]:
    """Parse `/etc/passwd`: names by number, the first one of each; malformed lines are skipped."""
    names: dict[int, str] = {}
    for line in text.decode("utf-8", "replace").splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and fields[0] and fields[2].isdecimal() and len(fields[2]) <= 10:
            names.setdefault(int(fields[2]), printable(fields[0])[:LONGEST])
    return names


def parse_uid(text: bytes) -> int | None:
    """Parse the effective user of `/proc/PID/status`; None if it is missing."""
    found = _UID.search(text)
    return int(found[1]) if found else None


def parse_container(text: bytes) -> str:
    """Parse `/proc/PID/cgroup`: the innermost container that a control group of the process is named for.

    Returns:
        Its manager and its short id, `docker:3f2a8b4c5d6e`, or its name, `lxc:web`. Without a container the systemd
        unit, `nginx.service`, or `session-3.scope` for processes of a user's session. Empty if none is named.

    """
    unit = ""
    for line in text.decode("utf-8", "replace").splitlines():
        parts = line.split(":", 2)[-1].split("/")
        if found := _container(parts):
            return printable(found)[:LONGEST]
        unit = unit or next((each for each in reversed(parts) if each.endswith((".service", ".scope"))), "")
    return printable(unit)[:LONGEST]


def _container(parts: list[str]) -> str:
    """Return the container in the parts of a control group's path; empty without one."""
    managed = "kubernetes" if any(map(_POD.fullmatch, parts)) else ""
    for number in reversed(range(len(parts))):
        part = parts[number]
        if scope := _SCOPE.fullmatch(part):
            manager = _MANAGERS.get(scope[1])
            if manager is not None:
                return f"{managed or manager}:{scope[2][:SHORT_ID]}"
        elif _ID.fullmatch(part):
            before = parts[number - 1] if number else ""
            return f"{managed or _MANAGERS.get(before) or 'container'}:{part[:SHORT_ID]}"
        elif lxc := _LXC.fullmatch(part):
            return f"lxc:{lxc[1]}"
        elif part and number and parts[number - 1] == "lxc":
            return f"lxc:{part}"
    return ""
