"""Commands to a Java virtual machine (HotSpot): what the program `jcmd` sends, without starting a Java of our own.

The protocol is that of `sun.tools.attach.VirtualMachineImpl` and `attachListener_linux.cpp` of OpenJDK: a file
`.attach_pidN` and the signal QUIT make the machine listen on the socket `.java_pidN`, both in its `/tmp`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from pathlib import Path

from laggard.producers.diagnosis.contract import ProfilerError, Unsuited
from laggard.producers.diagnosis.states import may_signal
from laggard.producers.foreign import content

WAIT_S = 1.5
"""So long a machine is waited for: one that is starved of CPU time, or stopped, answers later or never."""

ANSWER_BYTES = 64 << 20
"""So much of an answer is read."""

_VERSION = b"1"
_ARGUMENTS = 3


class Jvm:
    """One virtual machine that listens.

    Args:
        pid: of its process, in our own pid namespace.
        root: where procfs is mounted.

    """

    def __init__(self, pid: int, *, root: str = "/proc") -> None:
        self._pid = pid
        self._path = f"{root}/{pid}"
        self.inner_pid = _inner_pid(self._path) or pid

    def refusal(self) -> str:
        """Why it cannot be asked, in words; empty where it can. Changes nothing."""
        if not content(f"{self._path}/stat"):
            return f"there is no process {self._pid} any more"
        maps = content(f"{self._path}/maps")
        if not maps:
            return f"the memory of process {self._pid} may not be looked at: run laggard as root or as its user"
        if b"/libjvm.so" not in maps:
            return Unsuited(f"process {self._pid} is no Java virtual machine of OpenJDK's kind")
        if os.geteuid() not in (0, Path(self._path).stat().st_uid) or not may_signal(self._pid):
            return f"process {self._pid} listens only to its own user and to root, who needs CAP_KILL and CAP_CHOWN"
        return self._deaf()

    def _deaf(self) -> str:
        """Why it would not begin to listen, in words; empty where it would."""
        # What does not catch the signal is ended by it: a machine that has just begun, or was started with -Xrs.
        caught = re.search(rb"^SigCgt:\s*([0-9a-f]+)$", content(f"{self._path}/status"), re.MULTILINE)
        if caught is None or not int(caught[1], 16) >> (signal.SIGQUIT - 1) & 1:
            return f"process {self._pid} does not catch the signal QUIT, which would ask it to listen (-Xrs)"
        if b"-XX:+DisableAttachMechanism" in content(f"{self._path}/cmdline"):
            return f"process {self._pid} was told not to listen (-XX:+DisableAttachMechanism)"
        return ""

    def ask(self, command: str, *arguments: str) -> str:
        """What the machine answers to a command.

        Raises:
            ProfilerError: it does not answer, or answers with an error.

        """
        self._listen()
        padded = [*arguments, *[""] * (_ARGUMENTS - len(arguments))]
        request = b"\0".join([_VERSION, command.encode(), *(argument.encode() for argument in padded), b""])
        until = time.monotonic() + WAIT_S
        answer = bytearray()
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(WAIT_S)
                connection.connect(self._socket())
                connection.sendall(request)
                while len(answer) < ANSWER_BYTES:
                    connection.settimeout(max(0.01, until - time.monotonic()))
                    text = connection.recv(1 << 16)
                    if not text:
                        break
                    answer += text
        except OSError as error:
            raise ProfilerError(f"jcmd: process {self._pid} did not answer to {command!r}: {error}") from error
        code, _, rest = bytes(answer).decode("utf-8", "replace").partition("\n")
        if code != "0":
            said = rest.strip().partition("\n")[0] or "nothing: an old Java listens only to its own user"
            raise ProfilerError(f"jcmd: process {self._pid} answered to {command!r} with {code!r}: {said}")
        return rest

    def _socket(self) -> str:
        return f"{self._path}/root/tmp/.java_pid{self.inner_pid}"

    def _listen(self) -> None:
        """Have it listen, if it does not yet."""
        path = Path(self._socket())
        if path.is_socket():
            return
        reason = self.refusal()
        if reason:
            raise ProfilerError(f"jcmd: {reason}")
        wish = f"{self._path}/root/tmp/.attach_pid{self.inner_pid}"
        try:
            owner = Path(self._path).stat()
            with contextlib.suppress(FileExistsError):  # of another one who asks at this moment, or has asked in vain
                descriptor = os.open(wish, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
                try:
                    if os.geteuid() != owner.st_uid:
                        os.fchown(descriptor, owner.st_uid, owner.st_gid)
                finally:
                    os.close(descriptor)
            os.kill(self._pid, signal.SIGQUIT)
            until = time.monotonic() + WAIT_S
            while not path.is_socket():
                if time.monotonic() >= until:
                    raise ProfilerError(f"jcmd: process {self._pid} did not begin to listen within {WAIT_S:g} s")
                time.sleep(0.01)
        except OSError as error:
            raise ProfilerError(f"jcmd: process {self._pid} cannot be asked to listen: {error}") from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(wish)  # noqa: PTH108 - a path below /proc


def _inner_pid(path: str) -> int:
    """The pid that a process has in its own namespace; 0 where it is gone."""
    pids = re.search(rb"^NSpid:.*?(\d+)$", content(f"{path}/status"), re.MULTILINE)
    return int(pids[1]) if pids else 0
