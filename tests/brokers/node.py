"""One broker: a Java process and its folder."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

from tests.brokers.java import STARTED, java
from tests.brokers.processes import start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

STARTS_S = 120.0
STOPS_S = 90.0


class BrokerError(Exception):
    """A broker did not do what was asked; with the end of what it said."""


class Node:
    """One broker of a cluster, which is a controller as well.

    Attributes:
        number: its id.
        port: of its clients.
        folder: its own, with its data.
        log: what it said since the first start.

    """

    def __init__(
        self, folder: Path, number: int, port: int, properties: Mapping[str, str], *, heap_mb: int, flags: Sequence[str]
    ) -> None:
        folder.mkdir(parents=True)
        self.number = number
        self.port = port
        self.log = folder / "broker.log"
        self.folder = folder
        self._heap_mb = heap_mb
        self._flags = ("-Dlaggard.log=info", *flags)
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._process: subprocess.Popen[bytes] | None = None
        self._said_before = 0

    def __repr__(self) -> str:
        return f"<Node {self.number} on port {self.port}>"

    def __getstate__(self) -> dict[str, object]:
        """What another process is told: it can use the broker, and not end it."""
        return {**self.__dict__, "_process": None}

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process."""
        if self._process is None:
            raise BrokerError(f"{self} was not started")
        return self._process.pid

    def format(self, cluster_id: str, arguments: Sequence[str] = ()) -> None:
        """Prepare the folder, once."""
        tool = ("format", f"--cluster-id={cluster_id}", "--config", str(self._settings), *arguments)
        done = subprocess.run(
            java("kafka.tools.StorageTool", *tool, heap_mb=128, flags=self._flags[1:]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=STARTS_S,
        )
        if done.returncode:
            raise BrokerError(
                f"the folder of {self} could not be formatted:\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
            )

    def start(self, *, wait: bool = True) -> None:
        """Start it, on the data that it has. Several brokers are started without waiting, then awaited."""
        if self.alive:
            raise BrokerError(f"{self} runs already")
        with self.log.open("ab") as log:
            self._said_before = log.tell()
            command = java("kafka.Kafka", str(self._settings), heap_mb=self._heap_mb, flags=self._flags)
            self._process = start(command, log)
        if wait:
            self.await_started()

    def await_started(self) -> None:
        """Wait until it serves."""
        deadline = time.monotonic() + STARTS_S
        while STARTED not in self.said():
            if not self.alive or time.monotonic() > deadline:
                what = "did not start in time" if self.alive else "ended while it started"
                raise BrokerError(f"{self} {what}:\n{self.said()[-4000:]}")
            time.sleep(0.05)

    def said(self) -> str:
        """What it said since its last start."""
        with self.log.open("rb") as log:
            log.seek(self._said_before)
            return log.read().decode(errors="replace")

    def kill(self) -> None:
        """SIGKILL: it can do nothing about it."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM: it hands over what it leads. One that does not end in time is killed."""
        if self.alive:
            self._end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: it is there, and does not answer."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._running().send_signal(signal.SIGCONT)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or not self.alive:
            raise BrokerError(f"{self} does not run")
        return self._process

    def _end(self, how: signal.Signals) -> None:
        process = self._running()
        process.send_signal(how)
        try:
            process.wait(STOPS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
