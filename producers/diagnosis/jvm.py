"""Commands to a Java virtual machine (HotSpot): what the program `jcmd` sends, without starting a Java of our own.

The protocol is that of `sun.tools.attach.VirtualMachineImpl` and `attachListener_linux.cpp` of OpenJDK: a file
`.attach_pidN` and the signal QUIT make the machine listen on the socket `.java_pidN`, both in its `/tmp`. A child
process does there what has to be done, as the machine's user, see `attaching`.
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

Told = TypeVar("Told")

WAIT_S = 1.5
"""So long a machine is waited for: one that is starved of CPU time, or stopped, answers later or never."""

ANSWER_BYTES: Final = DUMP_BYTES
"""So much of an answer is read."""

_VERSION = b"1"
_ARGUMENTS = 3
_LONGEST_SAID = 200
_MODULE: Final = "laggard.producers.diagnosis.attaching"
_PEER: Final = struct.Struct("=iII")  # struct ucred: pid, uid, gid


class Answer(NamedTuple):
    """What a machine answers.

    Attributes:
        text: the beginning of it.
        cut: whether that is not all.

    """

    text: bytes
    cut: bool


class Jvm:
    """One virtual machine that listens.

    Args:
        pid: of its process, in our own pid namespace.
        root: where procfs is mounted.

    """

    def __init__(self, pid: int, *, root: str = "/proc") -> None:
        self._pid = pid
        self._path = f"{root}/{pid}"
        self._start_ticks = self._started()
        self._helper: Helper | None = None
        self.inner_pid = inner_pid(self._path) or pid

    def refusal(self) -> str:
        """Why it cannot be asked, in words; empty where it can. Changes nothing."""
        if not content(f"{self._path}/stat"):
            return f"there is no process {self._pid} any more"
        files = mapped_files(self._path)
        if not files:
            return f"the memory of process {self._pid} may not be looked at: run laggard as root or as its user"
        if not any(file.endswith("/libjvm.so") for file in files):
            return Unsuited(f"process {self._pid} is no Java virtual machine of OpenJDK's kind")
        if os.geteuid() not in (0, credentials(self._path)[0]) or not may_signal(self._pid):
            return f"process {self._pid} listens only to its own user and to root, who needs CAP_KILL and CAP_SETUID"
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

    def ask(self, command: str, *arguments: str) -> Answer:
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
            with self._connected() as connection:
                connection.settimeout(WAIT_S)
                connection.sendall(request)
                while len(answer) <= ANSWER_BYTES:
                    left_s = until - time.monotonic()
                    if left_s <= 0.0:
                        raise TimeoutError(f"no end of it within {WAIT_S:g} s")
                    connection.settimeout(left_s)
                    text = connection.recv(1 << 16)
                    if not text:
                        break
                    answer += text
        except OSError as error:
            raise ProfilerError(f"jcmd: process {self._pid} did not answer to {command!r}: {error}") from error
        code, _, rest = bytes(answer[: ANSWER_BYTES + 1]).partition(b"\n")
        if code != b"0":
            said = _said(rest.strip().partition(b"\n")[0]) or "nothing: an old Java listens only to its own user"
            raise ProfilerError(f"jcmd: process {self._pid} answered to {command!r} with {_said(code)!r}: {said}")
        return Answer(rest[:ANSWER_BYTES], len(answer) > ANSWER_BYTES)

    def found(self, name: str) -> tuple[int, int] | None:
        """What lies in the folder of this name: its mode and its user; None for nothing.

        Raises:
            ProfilerError: that cannot be told.

        """
        match self._did("look", name):
            case [int(mode), int(uid)]:
                return mode, uid
        return None

    def remove(self, name: str) -> None:
        """Remove a file of the machine's user in the folder.

        Raises:
            ProfilerError: it cannot be.

        """
        self._did("remove", name)

    def _connected(self) -> socket.socket:
        """A connection to the machine: to this process, and not to whoever listens there. Raises OSError."""
        try:
            told, descriptor = self._reached(
                lambda child: child.ask_descriptor("connect", f".java_pid{self.inner_pid}")
            )
        except HelperError as error:
            raise OSError(str(error)) from error
        if descriptor < 0:
            raise OSError(_why(told))
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

    def _reached(self, ask: Callable[[Helper], Told]) -> Told:
        """What the child answers, and where it has ended meanwhile, a new one. Raises HelperError."""
        try:
            return ask(self._attached())
        except HelperGoneError:
            return ask(self._attached())

    def _attached(self) -> Helper:
        """The child that is where the machine is. Raises HelperError."""
        if self._helper is None or not self._helper.alive:
            uid, gid = credentials(self._path)
            if uid < 0 or gid < 0:
                raise HelperError(f"there is no process {self._pid} any more")
            helper = Helper(_MODULE, self._path, str(uid), str(gid))
            helper.wait()
            if not self._start_ticks or self._started() != self._start_ticks or credentials(self._path) != (uid, gid):
                helper.close()
                raise HelperError(f"there is no process {self._pid} any more")
            self._helper = helper
        return self._helper

    def _did(self, *question: str) -> object:
        try:
            told = self._reached(lambda child: child.ask(*question, patience_s=max(1.0, WAIT_S)))
        except HelperError as error:
            raise ProfilerError(f"jcmd: the folder /tmp of process {self._pid} cannot be used: {error}") from error
        match told:
            case [True, what]:
                return what
        raise ProfilerError(f"jcmd: in the folder /tmp of process {self._pid}: {' '.join(question)}: {_why(told)}")

    def _listens(self) -> bool:
        found = self.found(f".java_pid{self.inner_pid}")
        return found is not None and stat.S_ISSOCK(found[0])

    def _listen(self) -> None:
        """Have it listen, if it does not yet."""
        if self._listens():
            return
        wish = f".attach_pid{self.inner_pid}"
        # A file of another one who asks at this moment, or has asked in vain, may be there.
        made = self._did("wish", wish)
        try:
            self._signal()
            until = time.monotonic() + WAIT_S
            while not self._listens():
                if time.monotonic() >= until:
                    raise ProfilerError(f"jcmd: process {self._pid} did not begin to listen within {WAIT_S:g} s")
                time.sleep(0.01)
        finally:
            if made:
                with contextlib.suppress(ProfilerError):  # it has ended
                    self._did("remove", wish)

    def _signal(self) -> None:
        """Ask it to listen: this process, and only while it would not be ended by that."""
        try:
            descriptor = os.pidfd_open(self._pid)
            try:
                reason = self.refusal()
                if not reason and self._started() != self._start_ticks:
                    reason = f"there is no process {self._pid} any more"
                if reason:
                    raise ProfilerError(f"jcmd: {reason}")
                signal.pidfd_send_signal(descriptor, signal.SIGQUIT)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ProfilerError(f"jcmd: process {self._pid} cannot be asked to listen: {error}") from error

    def _started(self) -> int:
        """When it began, in clock ticks since boot; 0 where it is gone."""
        try:
            return parse_stat(content(f"{self._path}/stat")).start_ticks
        except ProcError:
            return 0


def _said(text: bytes) -> str:
    return printable(text[:_LONGEST_SAID].decode("utf-8", "replace"))


def _why(told: object) -> str:
    """Why the child did not do what it was asked, as it says."""
    match told:
        case [False, str(why)]:
            return printable(why[:_LONGEST_SAID])
    return "it did not answer as it should"
