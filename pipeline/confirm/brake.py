"""Slows a process, and releases it whatever happens.

This needs three processes. The caller sends "on" and "off" to the *brake*. The brake releases the suspect at the end
of its input, which comes when the caller ends, however it ends. A *guard* waits for the end of the brake in the same
way, and releases the suspect too. Both run in sessions of their own: a signal to the process group of a terminal or
service does not end all three. Signals reach the suspect through a descriptor, not its id.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from types import TracebackType

CYCLE_S: Final = 0.1
"""Each stop of a suspect takes a part of this time, in seconds: too short for most of its clients to notice."""

DEADLINE_S: Final = 3600.0
"""A brake without a command for this time, in seconds, releases the suspect and ends."""

LEAST_QUOTA_US: Final = 1000
"""The smallest quota that the kernel accepts, in microseconds."""

CGROUPS: Final = Path("/sys/fs/cgroup")

ON, OFF = b"1", b"0"

_HELD: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGTSTP)


class Grip(Protocol):
    """A way to slow a process."""

    def hold(self) -> None:
        """Slow it."""

    def release(self) -> None:
        """Release it; can be called at any time, and again."""


@dataclass(frozen=True, slots=True)
class Signals:
    """Stops and continues the process by signals."""

    pidfd: int

    def hold(self) -> None:
        """Stop it."""
        self._send(signal.SIGSTOP)

    def release(self) -> None:
        """Continue it."""
        self._send(signal.SIGCONT)

    def _send(self, what: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            signal.pidfd_send_signal(self.pidfd, what)


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits the CPU time of the process by its own control group (version 2).

    Attributes:
        file: the `cpu.max` of the group.
        before: its original content.
        quota_us: the CPU time in each `CYCLE_S`, in microseconds.

    """

    file: Path
    before: str
    quota_us: int

    def hold(self) -> None:
        """Set the limit."""
        self.file.write_text(f"{self.quota_us} {round(CYCLE_S * 1e6)}\n")

    def release(self) -> None:
        """Restore the original limit."""
        with contextlib.suppress(FileNotFoundError):  # it has ended, and its group was removed
            self.file.write_text(f"{self.before}\n")


def own_group(pid: int, cgroups: Path = CGROUPS, proc: Path = Path("/proc")) -> Path | None:
    """Return the `cpu.max` of the control group of this process alone; None without a writable one."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
        path = next(line[3:] for line in lines if line.startswith("0::"))
        group = cgroups / path.strip("/")
        if path == "/" or (group / "cgroup.procs").read_text().split() != [str(pid)]:
            return None
        file = group / "cpu.max"
        file.read_text()
    except (OSError, StopIteration):
        return None
    return file if os.access(file, os.W_OK) else None


def run(grip: Grip, commands: int, share: float, *, cycles: bool) -> None:
    """Follow the commands until their end, in the process of the brake.

    Args:
        grip: the way to slow the suspect.
        commands: a descriptor to read `ON` and `OFF` from.
        share: the share of each `CYCLE_S` for which it holds the suspect, with cycles.
        cycles: whether it releases the suspect in each cycle.

    """
    holding, on, last = False, False, time.monotonic()
    try:
        while time.monotonic() - last < DEADLINE_S:
            wait_s = DEADLINE_S if not (on and cycles) else CYCLE_S * (share if holding else 1.0 - share)
            if select.select([commands], [], [], wait_s)[0]:
                received = os.read(commands, 64)
                if not received:
                    return
                on, last = received.endswith(ON), time.monotonic()
                wanted = on
            else:
                wanted = on and not (cycles and holding)
            if wanted != holding:
                (grip.hold if wanted else grip.release)()
                holding = wanted
    finally:
        grip.release()


def main(arguments: list[str]) -> None:
    """Run the brake: `COMMANDS SHARE signals PIDFD`, or `COMMANDS SHARE quota FILE BEFORE QUOTA_US`."""
    commands, share, kind, *rest = arguments
    grip: Grip = Signals(int(rest[0])) if kind == "signals" else Quota(Path(rest[0]), rest[1], int(rest[2]))
    for ignored in _HELD:
        signal.signal(ignored, signal.SIG_IGN)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(writing)
        os.close(int(commands))
        if not os.read(reading, 1):  # the brake was killed or failed
            grip.release()
        os._exit(0)
    os.close(reading)
    os.write(sys.stdout.fileno(), ON)
    run(grip, int(commands), float(share), cycles=kind == "signals")
    os.write(writing, OFF)  # the brake has released the suspect itself: the guard must not undo later changes by others


class Brake:
    """A brake, for its caller.

    Parameters:
        pidfd: a descriptor of the suspect.
        share: the share of the time for which it is stopped, or of its CPU time that it loses.
        quota: the `cpu.max` of its own control group, and the cores that it uses; None to stop it by signals.

    """

    def __init__(self, pidfd: int, share: float, quota: tuple[Path, float] | None = None) -> None:
        self._pidfd = pidfd
        self.how = "signals" if quota is None else "quota"
        if quota is None:
            rest = ["signals", str(pidfd)]
        else:
            file, used = quota
            limit_us = max(round(used * (1.0 - share) * CYCLE_S * 1e6), LEAST_QUOTA_US)
            rest = ["quota", str(file), file.read_text().strip(), str(limit_us)]
        commands, self._commands = os.pipe()
        code = "import sys; from laggard.pipeline.confirm.brake import main; main(sys.argv[1:])"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, str(commands), str(share), *rest],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pass_fds=[commands, pidfd],
            start_new_session=True,
        )
        os.close(commands)
        assert self._process.stdout is not None
        if self._process.stdout.read(1) != ON:
            self.close()
            raise OSError("the process that would slow the suspect has not started")

    def __enter__(self) -> Brake:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def set(self, on: bool) -> None:
        """Slow or release the suspect. Raises `BrokenPipeError` if the brake has ended."""
        os.write(self._commands, ON if on else OFF)

    def close(self) -> None:
        """Release the suspect, and end the brake."""
        if self._commands >= 0:
            os.close(self._commands)
            self._commands = -1
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its guard releases the suspect
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self.how == "signals":
            Signals(self._pidfd).release()
