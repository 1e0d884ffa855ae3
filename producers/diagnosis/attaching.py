"""The child process that accesses the directory `/tmp` of a Java virtual machine, as the user of that machine.

`python -I -m laggard.producers.diagnosis.attaching PID PATH UID GID`: PATH is the path of the machine below a root of
procfs. The child enters the machine's mount namespace and root, and becomes its user, before any access there. So
links, pipes and sockets there lead to nothing that the machine's user could not reach without laggard.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
import sys
from typing import Any, Final

from laggard.producers.diagnosis import confinement
from laggard.producers.system import foreign

MEMORY_BYTES: Final = 64 << 20
CPU_S: Final = 60
FILES: Final = 32

IDLE_S: Final = 60.0
"""The child ends after this time without a question, in seconds: dumps come every 5 s."""

CONNECT_S: Final = 1.0
"""The timeout of a full queue of connections, in seconds."""

_NEW_NAMESPACE: Final = 0x00020000  # CLONE_NEWNS


def answer(question: list[Any], _: int) -> object:
    """Answer a question about a file in the directory, given by its name.

    Returns:
        `[true, result]`, or `[false, reason]`; for `connect` the connected socket, or `[false, reason]`.

    """
    try:
        match question:
            case ["look", str(name)]:
                return [True, _stat(name)]
            case ["wish", str(name)]:
                return [True, _wish(name)]
            case ["remove", str(name)]:
                os.unlink(name)  # noqa: PTH108 - relative to the folder
                return [True, None]
            case ["connect", str(name)]:
                return _connected(name)
    except OSError as error:
        return [False, error.strerror or str(error)]
    return [False, "an unknown question"]


def _stat(name: str) -> object:
    """Return the mode and the user of a file; None if there is none."""
    try:
        status = os.lstat(name)
    except FileNotFoundError:
        return None
    return [status.st_mode, status.st_uid]


def _wish(name: str) -> bool:
    """Create an empty file; return False if there is a file already."""
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def _connected(name: str) -> object:
    """Connect as Java's own attach does: to a socket that only the machine's user may use."""
    status = os.lstat(name)
    if not stat.S_ISSOCK(status.st_mode):
        return [False, "expected a socket"]
    if status.st_uid != os.geteuid() or status.st_mode & 0o066:
        return [False, f"expected a socket that only user {os.geteuid()} may use, got one of user {status.st_uid}"]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(CONNECT_S)
        connection.connect(name)
        return confinement.Sent(connection.detach())


def main() -> None:
    """Become the machine's user in its namespace, and answer questions."""
    parent, path, uid, gid = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    confinement.take_name("laggard-attach")
    with confinement.reporting():
        root = os.open(f"{path}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        confinement.limit(MEMORY_BYTES, CPU_S, FILES)
        _enter_namespace(f"{path}/ns/mnt")
        with contextlib.suppress(PermissionError):  # without permission it has no more rights than that user
            os.fchdir(root)
            os.chroot(".")
        confinement.drop(uid, gid)
        folder = foreign.folder(root, "tmp")
        os.fchdir(folder)
        os.close(folder)
        os.close(root)
        confinement.end_with(parent)
    confinement.serve(answer, IDLE_S)


def _enter_namespace(path: str) -> None:
    """Enter a mount namespace, if that is permitted: then automatic mounts are those of the machine."""
    library = ctypes.CDLL(None, use_errno=True)
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            library.setns(descriptor, _NEW_NAMESPACE)
        finally:
            os.close(descriptor)


if __name__ == "__main__":
    main()
