"""`laggard work` as a process of its own, on an embedded bus: what a real Prometheus scrapes in tests."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from laggard.pipeline.core.claims import holder_of
from tests.brokers.processes import start
from tests.monitoring.servers import awaited

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

STARTS_S = 60.0


@contextmanager
def running_worker(path: Path, **more: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A worker on the bus in this file; gives the address of its port, and its process.

    Args:
        path: the file.
        more: settings, as variables of the environment name them without their beginning: `operators`.

    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
    settings = {"LAGGARD_STATE": str(path.parent), "LAGGARD_WEB_LISTEN": "127.0.0.1:0"}
    settings |= {f"LAGGARD_{name.upper()}": value for name, value in more.items()}
    command = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "work", "--bus", str(path)]
    log = path.with_name("worker.log")
    with log.open("wb") as output:
        process = start(command, output, {**environment, **settings})

    def address() -> str:
        assert process.poll() is None, log.read_text()
        held = holder_of(str(path), path.parent, "work")
        return held.url.removeprefix("http://") if held else ""

    try:
        yield awaited(address, within_s=STARTS_S), process
    finally:
        process.terminate()
        process.wait(30)
