"""Programs that look at a process for us: started, asked whether they have ended, and ended."""

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
"""So much a program may write; it is ended where it would write more. As values of Python that may be 100 MB."""

MEMORY_BYTES = 2 << 30
"""So much memory it may map, that of the files it reads, too."""

CPU_S = 60
"""So much CPU time it may take: a look takes some milliseconds."""

ERROR_BYTES = 4096
GRACE_S = 2.0
"""So long a program may take to end when it is asked to."""


def _prepare() -> None:
    """In the child: take the signals that it is asked to end with, which an agent's threads leave to one of them.

    And be bounded: it parses what the process that it looks at controls.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    bounds = {resource.RLIMIT_AS: MEMORY_BYTES, resource.RLIMIT_CPU: CPU_S, resource.RLIMIT_FSIZE: OUTPUT_BYTES}
    bound(bounds | {resource.RLIMIT_CORE: 0})


class Child:
    """A program that runs beside us and writes down what it finds.

    What it writes goes to files without a name, so that it never waits for us. It is in a session of its own: what a
    terminal sends to laggard does not reach it.

    Args:
        command: the program and its arguments.
        output_option: the one that takes the file to write to; without one it is the standard output.

    Raises:
        OSError: it cannot be started.

    Attributes:
        cpu_s: CPU time that it took, in seconds; known when it has ended.
        returncode: as of `subprocess.Popen`; None as long as it runs.

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
                # Nothing is to be fetched from a network, least of all while a process stands still.
                env=os.environ | {"LC_ALL": "C.UTF-8", "DEBUGINFOD_URLS": ""},
            )
            opened.pop_all()

    def ended(self) -> bool:
        """Whether it has ended; does not wait."""
        return self._reap(os.WNOHANG)

    def ends_within(self, seconds: float) -> bool:
        """Wait until it has ended, but no longer than this; return whether it has."""
        until = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() >= until:
                return False
            time.sleep(0.001)
        return True

    def interrupt(self) -> None:
        """Ask it to end as ^C does, and to write what it has; wait for that, but not for ever."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it."""
        self._end(signal.SIGKILL)

    def wait(self) -> None:
        """Wait until it ends by itself."""
        self._reap(0)

    def output(self) -> bytes:
        """What it wrote."""
        return os.pread(self._output.fileno(), OUTPUT_BYTES, 0)

    def error(self) -> str:
        """What it said about itself: the first line."""
        text = os.pread(self._errors.fileno(), ERROR_BYTES, 0).decode("utf-8", "replace").strip()
        return text.partition("\n")[0]

    def close(self) -> None:
        """Forget what it wrote; it is killed if it still runs."""
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
            # Not by `Popen.poll`, which does not tell what the child used.
            pid, status, usage = os.wait4(self._process.pid, options)
            if pid:
                self.returncode = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = usage.ru_utime + usage.ru_stime
        return self.returncode is not None
