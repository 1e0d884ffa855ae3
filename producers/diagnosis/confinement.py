"""The child's side of `Helper`: it drops all its rights, and then answers one question after the other.

A child parses what others control, so they may take it over. It is limited in memory, CPU time and files, has no
privileges and secrets, and can open nothing.

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
"""The first of 65,536 users without other processes: programs of the user `nobody` could kill a child of that user."""

PACKET_BYTES: Final = 1 << 16
"""The most bytes of a packet. Each packet of an answer begins with a byte that shows whether it is the last one."""

MORE, LAST = b"+", b"."

READY: Final = "ready"
"""The first message, before any question: the child has confined itself."""

QUESTION_BYTES: Final = 4096

_DEATH_SIGNAL, _DUMPABLE, _NAME, _NO_NEW_PRIVILEGES, _AMBIENT = 1, 4, 15, 38, 47  # PR_SET_..., PR_CAP_AMBIENT
_NEW_NETWORK, _NEW_IPC = 0x40000000, 0x08000000  # CLONE_NEW...
_CLEAR_ALL: Final = 4  # PR_CAP_AMBIENT_CLEAR_ALL
_CAPABILITIES: Final = 0x20080522  # _LINUX_CAPABILITY_VERSION_3

_library = ctypes.CDLL(None, use_errno=True)


def take_name(name: str) -> None:
    """Use this name from now on, of 15 bytes at most: otherwise it would be `python`, like many processes."""
    _library.prctl(_NAME, name.encode(), 0, 0, 0)


def limit(memory_bytes: int, cpu_s: int, files: int) -> None:
    """Limit this process for good, and make it the first one that the kernel kills when memory is short.

    Args:
        memory_bytes: the most memory that it may map in addition to its present mappings.
        cpu_s: the most CPU time since its start; after that the kernel kills it.
        files: the most descriptors.

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
    """Limit this process for good, by setrlimit(2). Lower limits stay.

    Args:
        limits: the limit of each resource, such as `RLIMIT_CPU`.

    """
    for what, most in limits.items():
        allowed = resource.getrlimit(what)[1]
        least = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(what, (least, least))


def drop_to_stranger() -> None:
    """Drop rights as `drop` does, to a user without other processes; to `nobody`, if there are no such users."""
    stranger = STRANGERS + os.getpid() % (1 << 16)
    try:
        drop(stranger, stranger)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a user namespace has few users
            raise
        drop(NOBODY, NOBODY)


def drop(uid: int, gid: int) -> None:
    """Become this user for good, without groups and capabilities. Only root can; others stay who they are.

    In a container even root may not. Then it stays root, without capabilities.
    """
    if uid < 0 or gid < 0:  # for setresuid(2) these mean no change
        raise OSError(errno.EINVAL, f"invalid user {uid} or group {gid}")
    if os.geteuid() == 0 and (uid, gid) != (0, 0):
        with contextlib.suppress(PermissionError):
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
    _prctl(_NO_NEW_PRIVILEGES, 1)
    clear_ambient()
    header, none, left = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    # A filter of system calls may forbid it; that is fine if there is nothing to drop.
    if _library.capset(header, none) < 0:
        number = ctypes.get_errno()
        if _library.capget(header, left) < 0 or any(left):
            raise OSError(number, "cannot drop capabilities: capset(2) is forbidden")
    _prctl(_DUMPABLE, 0)  # no other process of this user may read its memory


def clear_ambient() -> None:
    """Leave no capabilities to the programs that this thread starts, unless it is root."""
    with contextlib.suppress(OSError):  # kernels before 4.3
        _prctl(_AMBIENT, _CLEAR_ALL)


def leave() -> None:
    """Drop access to the network and the files below the root, if that is permitted: the agent listens on loopback."""
    _library.unshare(_NEW_NETWORK | _NEW_IPC)
    with contextlib.suppress(OSError):
        os.chroot("/proc/self/fdinfo")
    os.chdir("/")


def end_with(parent: int) -> None:
    """End when this process, which started this one, ends. Call it after dropping rights, which would undo it."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()


def serve(answer: Callable[[list[object], int], object], idle_s: float | None = None) -> None:
    """Answer questions until the connection is closed. Standard input is a socket, and a question is a list in JSON.

    Args:
        answer: answers a question, with the descriptor that came with it, or -1. Its result is written as JSON, or
            sent if it is a descriptor (`Sent`). The descriptor that came is closed afterward.
        idle_s: the time without questions after which this ends, in seconds; None for never.

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
                    with contextlib.suppress(OSError):  # the answer may have closed it
                        os.close(descriptor)
            if isinstance(found, Sent):
                socket.send_fds(connection, [LAST + b"null"], [found.descriptor])
                os.close(found.descriptor)
            else:
                _send(connection, json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode())


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """Report to the parent process why this one cannot confine itself, and end."""
    try:
        yield
    except OSError as error:
        with socket.socket(fileno=0) as connection:
            _send(connection, json.dumps(f"the helper cannot confine itself: {error}").encode())
        sys.exit(1)


class Sent:
    """A descriptor as an answer; it is closed when it has been sent."""

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
