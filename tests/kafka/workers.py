"""`laggard work` as processes of their own, with everything that can happen to a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from tests.brokers.processes import start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STARTS_S = 120.0
STOPS_S = 60.0

_URL = re.compile(r"http://127\.0\.0\.1:\d+")


class WorkerError(Exception):
    """A worker did not do what was asked; with the end of what it said."""


class Worker:
    """One worker; it may be started again and again.

    Parameters:
        folder: its own: its state directory and what it says.
        settings: what it is told in the environment, by the names of the settings.

    Attributes:
        log: what it said since the first start.

    """

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        folder.mkdir(parents=True)
        self.log = folder / "worker.log"
        told = {"state": folder / "state", "web.listen": "127.0.0.1:0", **settings}
        self._environment = {name: text for name, text in os.environ.items() if not name.startswith("LAGGARD_")} | {
            "LAGGARD_" + name.upper().replace(".", "_"): str(value) for name, value in told.items()
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._said_before = 0

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Its process, the last one."""
        if self._process is None:
            raise WorkerError("the worker was not started")
        return self._process

    def start(self) -> None:
        """Start it, without waiting for anything."""
        with self.log.open("ab") as log:
            self._said_before = log.tell()
            command = [sys.executable, "-m", "laggard.pipeline.cli", "work"]
            self._process = start(command, log, self._environment)

    def said(self) -> str:
        """What it said since its last start."""
        with self.log.open("rb") as log:
            log.seek(self._said_before)
            return log.read().decode(errors="replace")

    def check(self) -> None:
        """Raises WorkerError when it has ended by itself."""
        if not self.alive:
            raise WorkerError(f"a worker ended with {self.process.returncode}:\n{self.said()[-4000:]}")

    def await_ready(self) -> None:
        """Wait until it has its partitions and their states."""
        deadline = time.monotonic() + STARTS_S
        while not self.ready():
            self.check()
            if time.monotonic() > deadline:
                raise WorkerError(f"a worker is not ready in time:\n{self.said()[-4000:]}")
            time.sleep(0.1)

    def ready(self) -> bool:
        """What `/-/ready` says."""
        try:
            self.fetch("/-/ready")
        except OSError:
            return False
        return True

    def fetch(self, path: str) -> str:
        """What its HTTP port answers. Raises OSError where it does not."""
        found = _URL.search(self.said())
        if found is None:
            raise ConnectionRefusedError("it has not said its address")
        with urllib.request.urlopen(found.group() + path, timeout=20) as answer:
            return str(answer.read().decode())

    def metric(self, name: str) -> float:
        """A metric, summed over its labels; 0 where it is not there."""
        lines = (line for line in self.fetch("/metrics").splitlines() if re.match(rf"{name}[ {{]", line))
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def kill(self) -> None:
        """SIGKILL: it can do nothing about it."""
        self.check()
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM: it commits and leaves. Raises WorkerError when it does not end well."""
        self.check()
        self.process.terminate()
        try:
            code = self.process.wait(STOPS_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise WorkerError(f"a worker did not stop in time:\n{self.said()[-4000:]}") from None
        # One that has hardly begun does not hear it yet.
        if code and (code != -signal.SIGTERM or _URL.search(self.said())):
            raise WorkerError(f"a worker was stopped and ended with {code}:\n{self.said()[-4000:]}")

    def pause(self) -> None:
        """SIGSTOP: it is there, and does nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Kill it if it runs."""
        if self.alive:
            self.process.kill()
        if self._process is not None:
            self._process.wait()
