"""Commands to a Java virtual machine (HotSpot): those of the program `jcmd`, without starting another Java.

The protocol is that of `sun.tools.attach.VirtualMachineImpl` and `attachListener_linux.cpp` of OpenJDK: a file
`.attach_pidN` and the signal QUIT make the machine listen on the socket `.java_pidN`, both in its `/tmp`. A child
process accesses these as the machine's user, see `attaching`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import struct
import time
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from laggard.producers.diagnosis.addresses import mapped_files
from laggard.producers.diagnosis.contract import ProfilerError, Unsuited
from laggard.producers.diagnosis.dumps import DUMP_BYTES
from laggard.producers.diagnosis.helper import Helper, HelperError, HelperGoneError
from laggard.producers.diagnosis.states import credentials, inner_pid, may_signal
from laggard.producers.system.foreign import content
from laggard.producers.system.proc import ProcError, parse_stat, printable

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

WAIT_S = 1.5
"""The timeout of a machine, in seconds: one that is starved of CPU time, or stopped, answers later or never."""

ANSWER_BYTES: Final = DUMP_BYTES
"""The limit of an answer, in bytes."""

_VERSION = b"1"
_ARGUMENTS = 3
_LONGEST_ERROR = 200
_MODULE: Final = "laggard.producers.diagnosis.attaching"
_PEER: Final = struct.Struct("=iII")  # struct ucred: pid, uid, gid


class Answer(NamedTuple):
    """The answer of a machine.

    Attributes:
        text: its beginning.
        cut: whether there is more of it.

    """

    text: bytes
    cut: bool


class Jvm:
    """One virtual machine that listens.

    Args:
        pid: the pid of its process in laggard's pid namespace.
        root: the mount point of procfs.

    """

    def __init__(self, pid: int, *, root: str = "/proc") -> None:
        self._pid = pid
        self._path = f"{root}/{pid}"
        self._start_ticks = self._started()
        self._helper: Helper | None = None
        self.inner_pid = inner_pid(self._path) or pid

    def refusal(self) -> str:
        """Return why it cannot be asked, in words; empty if it can. Changes nothing."""
        if not content(f"{self._path}/stat"):
            return f"process {self._pid} has ended"
        files = mapped_files(self._path)
        if not files:
            return f"cannot read the memory of process {self._pid}: run laggard as root or as its user"
        if not any(file.endswith("/libjvm.so") for file in files):
            return Unsuited(f"process {self._pid} is not an OpenJDK virtual machine")
        if os.geteuid() not in (0, credentials(self._path)[0]) or not may_signal(self._pid):
            return f"process {self._pid} accepts only its own user, or root with CAP_KILL and CAP_SETUID"
        return self._deaf()

    def _deaf(self) -> str:
        """Return why it would not begin to listen, in words; empty if it would."""
        # The signal kills a process that does not catch it: a machine that has just begun, or was started with -Xrs.
        caught = re.search(rb"^SigCgt:\s*([0-9a-f]+)$", content(f"{self._path}/status"), re.MULTILINE)
        if caught is None or not int(caught[1], 16) >> (signal.SIGQUIT - 1) & 1:
            return f"process {self._pid} does not catch the signal QUIT, by which it is asked to listen (-Xrs)"
        if b"-XX:+DisableAttachMechanism" in content(f"{self._path}/cmdline"):
            return f"process {self._pid} accepts no commands (-XX:+DisableAttachMechanism)"
        return ""

    def ask(self, command: str, *arguments: str) -> Answer:
        """Return the answer of the machine to a command.

        Raises:
            ProfilerError: it does not answer, or answers with an error.

        """
        self._listen()
        padded = [*arguments, *[""] * (_ARGUMENTS - len(arguments))]
        request = b"\0".join([_VERSION, command.encode(), *(argument.encode() for argument in padded), b""])
        until = time.monotonic() + WAIT_S
        answer = bytearray()
        try:
            with self._connected() as connection:
                connection.settimeout(WAIT_S)
                connection.sendall(request)
                while len(answer) <= ANSWER_BYTES:
                    left_s = until - time.monotonic()
                    if left_s <= 0.0:
                        raise TimeoutError(f"the answer did not end within {WAIT_S:g} s")
                    connection.settimeout(left_s)
                    text = connection.recv(1 << 16)
                    if not text:
                        break
                    answer += text
        except OSError as error:
            raise ProfilerError(f"jcmd: process {self._pid} did not answer to {command!r}: {error}") from error
        code, _, rest = bytes(answer[: ANSWER_BYTES + 1]).partition(b"\n")
        if code != b"0":
            message = _message(rest.strip().partition(b"\n")[0]) or "no message; an old Java accepts only its own user"
            raise ProfilerError(f"jcmd: process {self._pid} answered to {command!r} with {_message(code)!r}: {message}")
        return Answer(rest[:ANSWER_BYTES], len(answer) > ANSWER_BYTES)

    def found(self, name: str) -> tuple[int, int] | None:
        """Return the mode and the user of a file in the machine's `/tmp`; None if there is none.

        Raises:
            ProfilerError: that is unknown.

        """
        match self._did("look", name):
            case [int(mode), int(uid)]:
                return mode, uid
        return None

    def remove(self, name: str) -> None:
        """Remove a file of the machine's user in its `/tmp`.

        Raises:
            ProfilerError: it cannot be removed.

        """
        self._did("remove", name)

    def _connected(self) -> socket.socket:
        """Return a connection to this process, and not to another one that listens there. Raises `OSError`."""
        try:
            answer, descriptor = self._reached(
                lambda child: child.ask_descriptor("connect", f".java_pid{self.inner_pid}")
            )
        except HelperError as error:
            raise OSError(str(error)) from error
        if descriptor < 0:
            raise OSError(_why(answer))
        try:
            connection = socket.socket(fileno=descriptor)
        except OSError:
            os.close(descriptor)
            raise
        if connection.family == socket.AF_UNIX:
            pid, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            if pid == self._pid and uid == credentials(self._path)[0]:
                return connection
        connection.close()
        raise OSError("another process listens in its place")

    def _reached(self, ask: Callable[[Helper], Result]) -> Result:
        """Return the answer of the child, or of a new one if that had ended. Raises `HelperError`."""
        try:
            return ask(self._attached())
        except HelperGoneError:
            return ask(self._attached())

    def _attached(self) -> Helper:
        """Return the child that is in the machine's namespace. Raises `HelperError`."""
        if self._helper is None or not self._helper.alive:
            uid, gid = credentials(self._path)
            if uid < 0 or gid < 0:
                raise HelperError(f"process {self._pid} has ended")
            helper = Helper(_MODULE, self._path, str(uid), str(gid))
            helper.wait()
            if not self._start_ticks or self._started() != self._start_ticks or credentials(self._path) != (uid, gid):
                helper.close()
                raise HelperError(f"process {self._pid} has ended")
            self._helper = helper
        return self._helper

    def _did(self, *question: str) -> object:
        try:
            answer = self._reached(lambda child: child.ask(*question, patience_s=max(1.0, WAIT_S)))
        except HelperError as error:
            raise ProfilerError(f"jcmd: cannot use the folder /tmp of process {self._pid}: {error}") from error
        match answer:
            case [True, what]:
                return what
        raise ProfilerError(f"jcmd: in the folder /tmp of process {self._pid}: {' '.join(question)}: {_why(answer)}")

    def _listens(self) -> bool:
        found = self.found(f".java_pid{self.inner_pid}")
        return found is not None and stat.S_ISSOCK(found[0])

    def _listen(self) -> None:
        """Make the machine listen, unless it does already."""
        if self._listens():
            return
        wish = f".attach_pid{self.inner_pid}"
        # There may be a file of another program that asks at this moment, or has asked in vain.
        created = self._did("wish", wish)
        try:
            self._signal()
            until = time.monotonic() + WAIT_S
            while not self._listens():
                if time.monotonic() >= until:
                    raise ProfilerError(f"jcmd: process {self._pid} did not start to listen within {WAIT_S:g} s")
                time.sleep(0.01)
        finally:
            if created:
                with contextlib.suppress(ProfilerError):  # it has ended
                    self._did("remove", wish)

    def _signal(self) -> None:
        """Ask this process to listen, and only if the signal would not kill it."""
        try:
            descriptor = os.pidfd_open(self._pid)
            try:
                reason = self.refusal()
                if not reason and self._started() != self._start_ticks:
                    reason = f"process {self._pid} has ended"
                if reason:
                    raise ProfilerError(f"jcmd: {reason}")
                signal.pidfd_send_signal(descriptor, signal.SIGQUIT)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ProfilerError(f"jcmd: cannot ask process {self._pid} to listen: {error}") from error

    def _started(self) -> int:
        """Return its start time, in clock ticks since boot; 0 if it is gone."""
        try:
            return parse_stat(content(f"{self._path}/stat")).start_ticks
        except ProcError:
            return 0


def _message(text: bytes) -> str:
    return printable(text[:_LONGEST_ERROR].decode("utf-8", "replace"))


def _why(answer: object) -> str:
    """Return why the child did not do its task, in its words."""
    match answer:
        case [False, str(why)]:
            return printable(why[:_LONGEST_ERROR])
    return "unexpected answer"
