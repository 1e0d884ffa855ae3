"""A child process for dangerous work: it parses what others control, or touches what they can change.

Its answers may be forged if it was taken over: they are limited in bytes and time here, and validated by the callers.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Final

from laggard.producers.diagnosis.confinement import LAST, PACKET_BYTES, READY, clear_ambient
from laggard.producers.system.kernel import cpu_clock
from laggard.producers.system.proc import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

START_S: Final = 60.0
"""The timeout of a start, in seconds, and the limit of its CPU time: laggard's code is slow on a busy machine."""

ANSWER_S: Final = 10.0
"""The timeout of an answer, in seconds ..."""

ANSWER_CPU_S: Final = 2.0
"""... and the limit of its CPU time."""

ANSWER_BYTES: Final = 1 << 14
"""The default limit of an answer, in bytes."""

_CHECK_S: Final = 0.1  # how often the CPU time of an answer is checked

_LONGEST_CAUSE: Final = 300
_SMALLEST: Final = 64  # a packet counts as this many bytes at least

_spent = threading.local()


class HelperError(Exception):
    """A helper has no answer: it died, took too long, or did not answer correctly. It is killed then."""


class HelperGoneError(HelperError):
    """It had died before the question, which is not the cause."""


def thread_time() -> float:
    """Return the CPU time of this thread, and of helpers for it, in seconds."""
    return time.thread_time() + helpers_time()


def helpers_time() -> float:
    """Return the CPU time of helpers for this thread, in seconds."""
    return float(getattr(_spent, "cpu_s", 0.0))


class Helper:
    """One child process. It ends with laggard, when it is closed, or when it fails to answer. Threads ask it in turns.

    It has nothing of laggard's environment, and no descriptors except for its socket and those of its questions. It
    confines itself before the first question.

    Args:
        module: the module that it runs, which calls `confinement.serve`.
        arguments: its arguments, after the pid of this process.

    Raises:
        HelperError: there are too many files or threads to start it.

    """

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-I", "-m", module, str(os.getpid()), *arguments]
        self._turn = threading.Lock()
        self._ready = False
        try:
            self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise HelperError(f"the helper cannot start: {error.strerror}") from error
        self._cause = ""
        self._seen_s = self._counted_s = 0.0
        self._child = child = _Child()
        # The child is killed when the thread that started it ends, so that is a thread of its own.
        keeper = threading.Thread(target=child.keep, args=(command, theirs), name="diagnosis-helper", daemon=True)
        try:
            keeper.start()
        except RuntimeError as error:  # too many threads
            theirs.close()
            self._connection.close()
            raise HelperError(f"the helper cannot start: {error}") from error
        child.began.wait()
        self._close = weakref.finalize(self, _end, child, self._connection)

    @property
    def pid(self) -> int:
        """The pid of its process; 0 if that could not be started."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return not self._child.ended.is_set()

    @property
    def cpu_s(self) -> float:
        """The CPU time that it has used so far, in seconds."""
        return self._cpu_s()

    def wait(self) -> None:
        """Wait until it can answer, which does not count as the wait for an answer.

        Raises:
            HelperError: it did not start.

        """
        with self._turn:
            self._begin()

    def ask(
        self,
        *question: object,
        descriptor: int = -1,
        most: int = ANSWER_BYTES,
        patience_s: float = ANSWER_S,
        cpu_s: float = ANSWER_CPU_S,
    ) -> object:
        """Return its answer: values of JSON's types, not validated.

        Args:
            question: values of JSON's types.
            descriptor: a descriptor to send with the question; it stays open here.
            most: the limit of the answer, in bytes.
            patience_s: the timeout of the answer, in seconds.
            cpu_s: the limit of its CPU time, in seconds.

        Raises:
            HelperError: there is no answer.

        """
        answer, unasked = self._exchange(question, descriptor, most, patience_s, cpu_s)
        if unasked >= 0:
            os.close(unasked)
        return answer

    def ask_descriptor(self, *question: object, patience_s: float = ANSWER_S) -> tuple[object, int]:
        """Return the answer likewise, and the descriptor that came with it, which the caller owns; -1 for none."""
        return self._exchange(question, -1, ANSWER_BYTES, patience_s, ANSWER_CPU_S)

    def close(self) -> None:
        """Kill it after the present answer."""
        with self._turn:
            self._close()

    def _exchange(
        self, question: tuple[object, ...], descriptor: int, most: int, patience_s: float, cpu_s: float
    ) -> tuple[object, int]:
        text = json.dumps(question, separators=(",", ":")).encode()
        with self._turn:
            self._begin()
            if not self.alive:
                raise HelperGoneError(self._cause or "the helper has ended")
            try:
                if descriptor < 0:
                    self._connection.send(text)
                else:
                    socket.send_fds(self._connection, [text], [descriptor])
            except OSError as error:
                raise HelperGoneError(str(self._failed(f"cannot send to the helper: {error.strerror}"))) from error
            with self._counted() as begun_s:
                return self._answer(most, patience_s, begun_s + cpu_s)

    def _begin(self) -> None:
        if not self._ready:
            if not self.alive:
                raise HelperGoneError(self._cause or self._child.refused or "the helper has ended")
            with self._counted() as begun_s:
                greeting, _ = self._answer(ANSWER_BYTES, START_S, begun_s + START_S)
            if greeting != READY:
                raise self._failed(printable(str(greeting)[:_LONGEST_CAUSE]))
            self._ready = True

    @contextlib.contextmanager
    def _counted(self) -> Iterator[float]:
        """Count its CPU time within as that of this thread, and also what it used after the answer before."""
        try:
            yield self._cpu_s()
        finally:
            now_s = self._cpu_s()
            _spent.cpu_s = helpers_time() + max(0.0, now_s - self._counted_s)
            self._counted_s = max(now_s, self._counted_s)

    def _answer(self, most: int, patience_s: float, until_cpu_s: float) -> tuple[object, int]:
        until = time.monotonic() + patience_s
        parts: list[bytes] = []
        got = -1
        try:
            while True:
                self._wait(until, until_cpu_s)
                packet, descriptors, _, _ = socket.recv_fds(
                    self._connection, PACKET_BYTES, 1, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
                )
                if descriptors:
                    if got >= 0:
                        os.close(got)
                    got = descriptors[0]
                most -= max(_SMALLEST, len(packet) - 1)
                if not packet or most < 0:
                    raise self._failed("the helper ended" if not packet else "the helper's answer is too long")
                parts.append(packet[1:])
                if packet[:1] == LAST:
                    return json.loads(b"".join(parts)), got
        except (HelperError, OSError, ValueError, RecursionError) as error:
            if got >= 0:
                os.close(got)
            if isinstance(error, HelperError):
                raise
            ended = isinstance(error, ConnectionError)
            raise self._failed("the helper ended" if ended else f"the helper's answer is invalid: {error}") from error

    def _wait(self, until: float, until_cpu_s: float) -> None:
        """Wait for a packet."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        while not poll.poll(round(_CHECK_S * 1e3)):
            if self._cpu_s() > until_cpu_s:
                raise self._failed("the helper used too much CPU time")
            if time.monotonic() > until:
                raise self._failed("the helper did not answer in time")

    def _failed(self, why: str) -> HelperError:
        """Kill it: a late answer would be taken for the answer to another question."""
        self._cpu_s()
        self._close()
        self._cause = why
        return HelperError(why)

    def _cpu_s(self) -> float:
        """Return its CPU time so far, in seconds; the last known value when it has ended."""
        if self.alive:
            with contextlib.suppress(OSError):
                self._seen_s = time.clock_gettime(cpu_clock(self.pid))
        return self._seen_s


class _Child:
    """The process of a helper.

    Attributes:
        owner: the pid of the process that started it.
        pid: its own pid; 0 if it could not be started.
        refused: the reason for that, in words.
        began: set when it was started, or could not be.
        ended: set when it has ended.

    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.pid = 0
        self.refused = ""
        self.began, self.ended = threading.Event(), threading.Event()
        self._reaping = threading.Lock()

    def keep(self, command: list[str], connection: socket.socket) -> None:
        """Start it, and wait for its end."""
        clear_ambient()
        try:
            with connection:
                process = subprocess.Popen(
                    command,
                    stdin=connection.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={"OPENBLAS_NUM_THREADS": "1"},  # it may not start a second thread
                    start_new_session=True,
                )
            self.pid = process.pid
            self.began.set()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            with self._reaping:
                process.wait()
                self.ended.set()
        except OSError as error:  # ChildProcessError, too, if other code has waited for it
            self.refused = f"cannot start {sys.executable}: {error.strerror}"
        finally:
            self.ended.set()
            self.began.set()

    def kill(self) -> None:
        """Kill it, if it has not ended."""
        with self._reaping:
            if self.pid and not self.ended.is_set():
                os.kill(self.pid, signal.SIGKILL)
        self.ended.wait()


def _end(child: _Child, connection: socket.socket) -> None:
    if child.owner == os.getpid():  # not in a fork of it
        child.kill()
    connection.close()
