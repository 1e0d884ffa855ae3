"""The child's side of `Helper`: it takes all rights from itself, and then answers one question after the other.

A child parses what others control, so it has to be taken for theirs: bounded in memory, CPU time and files, without
privileges and secrets, and with nothing to open.

Source: setrlimit(2), prctl(2), capabilities(7), unix(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import socket
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NOBODY: Final = 65534

STRANGERS: Final = 0x7FFE0000
"""The first of 65,536 users of whom no other process is: programs of the user nobody could end what is nobody's."""

PACKET_BYTES: Final = 1 << 16
"""An answer goes in packets of so many bytes at most, each behind one byte that says whether it is the last one."""

MORE, LAST = b"+", b"."

READY: Final = "ready"
"""What is answered before anything is asked: that it has confined itself."""

QUESTION_BYTES: Final = 4096

_DEATH_SIGNAL, _DUMPABLE, _NAME, _NO_NEW_PRIVILEGES, _AMBIENT = 1, 4, 15, 38, 47  # PR_SET_..., PR_CAP_AMBIENT
_NEW_NETWORK, _NEW_IPC = 0x40000000, 0x08000000  # CLONE_NEW...
_CLEAR_ALL: Final = 4  # PR_CAP_AMBIENT_CLEAR_ALL
_CAPABILITIES: Final = 0x20080522  # _LINUX_CAPABILITY_VERSION_3

_library = ctypes.CDLL(None, use_errno=True)


def take_name(name: str) -> None:
    """Go by this name from now on, of 15 bytes at most: else it would be `python`, like half of a machine."""
    _library.prctl(_NAME, name.encode(), 0, 0, 0)


def limit(memory_bytes: int, cpu_s: int, files: int) -> None:
    """Bound this process for good, and let it be the first to be ended where memory is short.

    Args:
        memory_bytes: what it may map beside what it has mapped already.
        cpu_s: CPU time from its start on; behind that the kernel ends it.
        files: descriptors.

    """
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - the kernel's own
        mapped = int(file.read(64).split()[0]) * resource.getpagesize()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb") as file:  # noqa: PTH123 - likewise
        file.write(b"1000")
    bound(
        {
            resource.RLIMIT_AS: mapped + memory_bytes,
            resource.RLIMIT_CPU: cpu_s,
            resource.RLIMIT_NOFILE: files,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NPROC: 0,
        }
    )


def bound(limits: Mapping[int, int]) -> None:
    """Bound this process for good, by setrlimit(2). Lower bounds stay.

    Args:
        limits: the bound of each resource, such as `RLIMIT_CPU`.

    """
    for what, most in limits.items():
        allowed = resource.getrlimit(what)[1]
        least = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(what, (least, least))


def drop_to_stranger() -> None:
    """As `drop`, to a user of whom there is no other process; to nobody, where there are no such users."""
    stranger = STRANGERS + os.getpid() % (1 << 16)
    try:
        drop(stranger, stranger)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a user namespace has few users
            raise
        drop(NOBODY, NOBODY)


def drop(uid: int, gid: int) -> None:
    """Become this user for good, without groups and capabilities; root alone can, others stay who they are.

    In a container even root may not: it stays root then, without capabilities.
    """
    if uid < 0 or gid < 0:  # for setresuid(2) these mean to stay who it is
        raise OSError(errno.EINVAL, f"there is no user {uid} of group {gid}")
    if os.geteuid() == 0 and (uid, gid) != (0, 0):
        with contextlib.suppress(PermissionError):
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
    _prctl(_NO_NEW_PRIVILEGES, 1)
    clear_ambient()
    header, none, left = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    # A filter of system calls may forbid it: then there may be nothing to drop.
    if _library.capset(header, none) < 0:
        number = ctypes.get_errno()
        if _library.capget(header, left) < 0 or any(left):
            raise OSError(number, "it keeps its capabilities, as capset(2) is forbidden")
    _prctl(_DUMPABLE, 0)  # no other process of this user may look into it


def clear_ambient() -> None:
    """Let what this thread starts have no capabilities, unless it is root."""
    with contextlib.suppress(OSError):  # kernels before 4.3
        _prctl(_AMBIENT, _CLEAR_ALL)


def leave() -> None:
    """Have no network and no files below the root any more, where that is permitted: the agent listens on loopback."""
    _library.unshare(_NEW_NETWORK | _NEW_IPC)
    with contextlib.suppress(OSError):
        os.chroot("/proc/self/fdinfo")
    os.chdir("/")


def end_with(parent: int) -> None:
    """End when this process, which started this one, ends; call it when the rights are dropped, which undoes it."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()


def serve(answer: Callable[[list[object], int], object], idle_s: float | None = None) -> None:
    """Answer questions until nobody asks any more. Standard input is a socket, a question a list in JSON.

    Args:
        answer: what answers a question; it gets the descriptor that came with it, or -1, and what it returns is written
            as JSON, or, if it is a descriptor (`Sent`), sent. The descriptor that came is closed behind it.
        idle_s: it ends when it was not asked for so long; None for never.

    """
    with socket.socket(fileno=0) as connection:
        _send(connection, json.dumps(READY).encode())
        connection.settimeout(idle_s)
        while True:
            try:
                text, descriptors, _, _ = socket.recv_fds(connection, QUESTION_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
            except TimeoutError:
                return
            if not text:
                return
            descriptor = descriptors[0] if descriptors else -1
            try:
                found = answer(json.loads(text), descriptor)
            finally:
                if descriptor >= 0:
                    with contextlib.suppress(OSError):  # it is the answer's owner
                        os.close(descriptor)
            if isinstance(found, Sent):
                socket.send_fds(connection, [LAST + b"null"], [found.descriptor])
                os.close(found.descriptor)
            else:
                _send(connection, json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode())


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """Tell who started this process why it cannot confine itself, and end."""
    try:
        yield
    except OSError as error:
        with socket.socket(fileno=0) as connection:
            _send(connection, json.dumps(f"it cannot begin: {error}").encode())
        sys.exit(1)


class Sent:
    """A descriptor that is an answer; it is closed when it has been sent."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor


def _send(connection: socket.socket, text: bytes) -> None:
    while len(text) >= PACKET_BYTES:
        connection.send(MORE + text[: PACKET_BYTES - 1])
        text = text[PACKET_BYTES - 1 :]
    connection.send(LAST + text)


def _prctl(option: int, value: int) -> None:
    if _library.prctl(option, value, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")
