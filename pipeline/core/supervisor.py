"""`laggard up`: starts the parts as processes, restarts each that dies or hangs, and stops all of them.

It holds no state and imports little. A part is one child process in a session of its own. So ^C reaches the supervisor
alone, which then stops the parts in order. Two pipes connect them. A part writes its *report*, one JSON object per
line, to its standard output. It reads its standard input, where nothing ever comes except the end: then the supervisor
has ended in some way, and the part stops, too. The standard error of a part is passed on, line by line. Signs of life
come over a separate socket, see `laggard.pipeline.core.watchdog`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Protocol

from laggard.pipeline.core.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from laggard.pipeline.core.watchdog import MemoryLimit

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0
"""A part that dies after working this long is restarted after the first pause, not a longer one."""

MOST_FAILURES = 20
"""A part is abandoned after this many deaths in a row without `STEADY_S` of work, so after 7 minutes at least."""

STOPPING_S = 60.0
"""The time that a part has to stop before it is killed, in seconds. On a busy disk the last write is slow."""

_CHECK_S = 1.0
_LONGEST_CHECK_S = 1.5
"""The most time that counts between two checks: after a longer gap this process, and maybe the parts, did not run."""
_ENDING_S = 0.2
_READ_BYTES = 65536


class Console(Protocol):
    """The output of the supervisor."""

    def announce(self, line: str) -> None:
        """Show a line that people must know."""

    def show(self, reports: Mapping[str, Mapping[str, Any]]) -> None:
        """Show the newest report of each part that has one; called after each new report."""

    def alive(self) -> None:
        """Give the supervisor's own sign of life: once a second."""


@dataclass(slots=True)
class _Child:
    """One part that runs, or waits for its restart."""

    name: str
    arguments: Sequence[str]
    watchdog: Watchdog
    process: subprocess.Popen[bytes] | None = None
    pending: dict[IO[bytes], bytes] = field(default_factory=dict)
    reported: bool = False
    started: float = 0.0
    alive: float = 0.0
    killed_as: str = ""
    failures: int = 0
    pause_s: float = FIRST_PAUSE_S
    start_at: float = 0.0


class Supervisor:
    """Runs parts until it is stopped.

    Parameters:
        parts: name and command line of each, in the order of starting; they are stopped in the reverse order.
        console: shows deaths, and the errors and reports of the parts.
        final: exit codes after which a restart cannot help. They count for a part that has never reported.
        memory: the memory limits by part; a part without one is not limited.

    Attributes:
        restarts: the number of restarts of parts.

    """

    def __init__(
        self,
        parts: Mapping[str, Sequence[str]],
        console: Console,
        final: Collection[int] = (),
        memory: Mapping[str, MemoryLimit] | None = None,
    ) -> None:
        self.restarts = 0
        limits = memory or {}
        self._children = [_Child(name, arguments, Watchdog(limits.get(name))) for name, arguments in parts.items()]
        self._reports: dict[str, dict[str, Any]] = {}
        self._console = console
        self._final = frozenset(final)
        self._stops = 0
        self._looked = time.monotonic()
        self._selector = selectors.DefaultSelector()
        # A write to it ends the wait for events at once, also from a signal handler. It stays open until the process
        # ends, since `stop` may be called at any time.
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def stop(self) -> None:
        """Stop all parts; a second call kills them. Signal handlers may call it."""
        self._stops += 1
        os.write(self._wake, b"!")

    def run(self, duration_s: float = math.inf) -> int:
        """Run until `stop`, or for `duration_s`, or until a part proves that it cannot be started at all.

        A part that dies, hangs, is stopped or uses too much memory is restarted, after growing pauses, until it is
        abandoned. The others continue, unless none is left.

        Returns:
            0 after a clean stop; the exit code of the part that could not be started; 1 if one did not stop cleanly or
            was abandoned.

        """
        end = time.monotonic() + duration_s
        self._looked = time.monotonic()
        code = 0
        try:
            while not self._stops and not code and time.monotonic() < end and not all(map(_given_up, self._children)):
                for child in self._children:
                    if child.process is None and time.monotonic() >= child.start_at:
                        self._start(child)
                self._listen(min([end, *(child.start_at for child in self._children if child.process is None)]))
                self._check()
                code = next((gone for child in self._children if (gone := self._mourn(child))), 0)
        finally:
            stopped = [self._end(child) for child in reversed(self._children)]
            self._selector.close()
        return code or int(not all(stopped) or any(map(_given_up, self._children)))

    def _start(self, child: _Child) -> None:
        child.started = child.alive = time.monotonic()
        child.killed_as = ""
        environment, inherited = child.watchdog.begin(os.environ)
        try:
            child.process = subprocess.Popen(
                child.arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env=environment,
                pass_fds=(inherited.fileno(),),
            )
        except OSError as error:
            child.watchdog.end()
            self._again(child, f"cannot be started ({error.strerror})")
            return
        finally:
            inherited.close()
        for stream in (child.process.stdout, child.process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            child.pending[stream] = b""
            self._selector.register(stream, selectors.EVENT_READ, child)

    def _listen(self, until: float) -> None:
        """Wait for a report, an error, the end of a part or `stop`, at most until this time, and not for long."""
        for key, _ in self._selector.select(max(0.0, min(_CHECK_S, until - time.monotonic()))):
            if key.data is None:
                os.read(self._woken, _READ_BYTES)
                continue
            child: _Child = key.data
            for stream in [stream for stream in child.pending if stream is key.fileobj]:
                if not self._receive(child, stream):
                    self._selector.unregister(stream)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        # The pipe closes a moment before the process ends.
                        if child.process is not None:
                            child.process.wait(_ENDING_S)

    def _receive(self, child: _Child, stream: IO[bytes]) -> bool:
        """Process the output of a part, and return whether there was any."""
        try:
            read = os.read(stream.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        *lines, rest = (child.pending[stream] + read).split(b"\n")
        if not read or len(rest) > _READ_BYTES:
            lines, rest = [*lines, rest], b""
        child.pending[stream] = rest
        for line in lines:
            self._take(child, line, report=child.process is not None and stream is child.process.stdout)
        return bool(read)

    def _take(self, child: _Child, line: bytes, *, report: bool) -> None:
        text = "".join(character if character.isprintable() else " " for character in line.decode(errors="replace"))
        if not text.strip():
            return
        message: object = None
        if report:
            with contextlib.suppress(ValueError):
                message = json.loads(text)
        if isinstance(message, dict):
            child.reported = True
            self._reports[child.name] = message
            self._console.show(self._reports)
        else:
            self._console.announce(f"{child.name}: {text.rstrip()}")

    def _check(self) -> None:
        """Once a second, kill each part that does not work."""
        now = time.monotonic()
        if now - self._looked < _CHECK_S:
            return
        passed_s, self._looked = min(now - self._looked, _LONGEST_CHECK_S), now
        self._console.alive()
        for child in self._children:
            if child.process is None or child.process.poll() is not None:
                continue
            alive = child.watchdog.is_alive()
            if alive:
                child.alive = now
            self._kill(child, child.watchdog.check(child.process.pid, passed_s, alive=alive))

    def _kill(self, child: _Child, reason: str) -> None:
        """Kill a part if there is a reason; its end is handled like any other."""
        if reason and not child.killed_as and child.process is not None:
            child.killed_as = f"{reason} and was killed"
            child.process.kill()

    def _mourn(self, child: _Child) -> int:
        """If a part has died, plan its restart, or return the exit code after which a restart cannot help."""
        if child.process is None or child.process.poll() is None:
            return 0
        code = child.process.returncode
        self._close(child)
        if code in self._final and not child.reported:
            return code
        died = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        self._again(child, child.killed_as or died)
        return 0

    def _again(self, child: _Child, what: str) -> None:
        now = time.monotonic()
        # The time for which a part hung before it was killed does not count as work.
        if child.alive - child.started >= STEADY_S:
            child.pause_s, child.failures = FIRST_PAUSE_S, 0
        child.failures += 1
        if child.failures >= MOST_FAILURES:
            child.start_at = math.inf
            self._console.announce(
                f"{child.name} {what}, {child.failures} times in a row, and is not started again; the other parts go "
                "on. Remove the cause, then start laggard again"
            )
            return
        self._console.announce(f"{child.name} {what}; it starts again in {child.pause_s:g} s")
        self.restarts += 1
        child.start_at = now + child.pause_s
        child.pause_s = min(2 * child.pause_s, LONGEST_PAUSE_S)

    def _end(self, child: _Child) -> bool:
        """Stop a part, and return whether it ended cleanly."""
        process = child.process
        if process is None:
            return True
        process.terminate()
        process.send_signal(signal.SIGCONT)  # a stopped process would not handle SIGTERM
        latest = time.monotonic() + STOPPING_S
        while process.poll() is None and self._stops < 2 and time.monotonic() < latest:
            self._listen(latest)
        if process.poll() is None:
            process.kill()
            process.wait()
            self._console.announce(f"{child.name} did not stop and was killed")
        # A part that is just starting does not handle SIGTERM yet, and has nothing to clean up.
        well = process.returncode in (0, -signal.SIGTERM)
        self._close(child)
        return well

    def _close(self, child: _Child) -> None:
        """Process the remaining output of a dead part, and close its pipes."""
        assert child.process is not None
        for stream in child.pending:
            while self._receive(child, stream):
                pass
            with contextlib.suppress(KeyError):
                self._selector.unregister(stream)
            stream.close()
        if child.process.stdin is not None:
            child.process.stdin.close()
        child.pending.clear()
        child.watchdog.end()
        child.process = None


def _given_up(child: _Child) -> bool:
    return child.process is None and child.start_at == math.inf


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
