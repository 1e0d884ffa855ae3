"""Programs that sample a process: started, polled and ended."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import time
from typing import IO, TYPE_CHECKING

from laggard.producers.diagnosis.confinement import bound

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTPUT_BYTES = 16 << 20
"""The most output of a program, in bytes; more of it ends the program. As values of Python that may be 100 MB."""

MEMORY_BYTES = 2 << 30
"""The most memory that it may map, in bytes, including the files that it reads."""

CPU_S = 60
"""The most CPU time of a program, in seconds: a sample needs some milliseconds."""

ERROR_BYTES = 4096
GRACE_S = 2.0
"""The time that a program has to end after a signal, in seconds."""


def _prepare() -> None:
    """In the child: unblock the signals that end it, which the program that started laggard may have blocked.

    Limit its resources, too: it parses what the sampled process controls.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    bounds = {resource.RLIMIT_AS: MEMORY_BYTES, resource.RLIMIT_CPU: CPU_S, resource.RLIMIT_FSIZE: OUTPUT_BYTES}
    bound(bounds | {resource.RLIMIT_CORE: 0})


class Child:
    """A program that runs as a child process and writes its results.

    Its output goes to files without a name, so that it never waits for laggard. It is in a session of its own: signals
    of a terminal to laggard do not reach it.

    Args:
        command: the program and its arguments.
        output_option: the option for the output file; without one it is the standard output.

    Raises:
        OSError: it cannot be started.

    Attributes:
        cpu_s: its CPU time in seconds; known when it has ended.
        returncode: as in `subprocess.Popen`; None while it runs.

    """

    def __init__(self, command: Sequence[str], *, output_option: str = "") -> None:
        self.cpu_s = 0.0
        self.returncode: int | None = None
        with contextlib.ExitStack() as opened:
            self._output: IO[bytes] = opened.enter_context(tempfile.TemporaryFile())
            self._errors: IO[bytes] = opened.enter_context(tempfile.TemporaryFile())
            file = self._output.fileno()
            self._process = subprocess.Popen(
                [*command, output_option, f"/proc/self/fd/{file}"] if output_option else command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if output_option else file,
                stderr=self._errors,
                pass_fds=(file,) if output_option else (),
                start_new_session=True,
                preexec_fn=_prepare,  # noqa: PLW1509 - system calls alone, no lock
                # No downloads, least of all while a process is stopped.
                env=os.environ | {"LC_ALL": "C.UTF-8", "DEBUGINFOD_URLS": ""},
            )
            opened.pop_all()

    def ended(self) -> bool:
        """Return whether it has ended, without waiting."""
        return self._reap(os.WNOHANG)

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end, but no longer than this; return whether it has ended."""
        until = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() >= until:
                return False
            time.sleep(0.001)
        return True

    def interrupt(self) -> None:
        """Interrupt it as ^C does, so that it writes its results. Kill it if it has not ended after `GRACE_S`."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill it."""
        self._end(signal.SIGKILL)

    def wait(self) -> None:
        """Wait until it ends by itself."""
        self._reap(0)

    def output(self) -> bytes:
        """Return its output."""
        return os.pread(self._output.fileno(), OUTPUT_BYTES, 0)

    def error(self) -> str:
        """Return the first line of its error output."""
        text = os.pread(self._errors.fileno(), ERROR_BYTES, 0).decode("utf-8", "replace").strip()
        return text.partition("\n")[0]

    def close(self) -> None:
        """Drop its output, and kill it if it still runs."""
        if self.returncode is None:
            self.kill()
        self._output.close()
        self._errors.close()

    def _end(self, how: signal.Signals) -> None:
        if not self.ended():
            os.kill(self._process.pid, how)  # not by `Popen`, which reaps
            if not self.ends_within(GRACE_S):
                os.kill(self._process.pid, signal.SIGKILL)
                self._reap(0)

    def _reap(self, options: int) -> bool:
        if self.returncode is None:
            # Not by `Popen.poll`, which does not return the CPU time of the child.
            pid, status, usage = os.wait4(self._process.pid, options)
            if pid:
                self.returncode = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = usage.ru_utime + usage.ru_stime
        return self.returncode is not None
