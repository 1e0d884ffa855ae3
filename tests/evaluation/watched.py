"""An agent as users run it, and what it says of processes; and how programs are let go before others."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusError, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records.diagnosis_json import read_diagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from laggard.pipeline.core.bus import Incoming
    from laggard.pipeline.core.records.diagnosis import Diagnosis, ThreadUse

HOST: Final = "evaluation"
COUNTERS, DIAGNOSES = Partition("laggard.counters", 0), Partition("laggard.diagnoses", 0)
START_S: Final = 60.0
"""Within which an agent has to have ticked twice."""


@dataclass
class Agent:
    """One that runs.

    Attributes:
        bus: that it publishes to.
        pid: its process's.

    """

    bus: EmbeddedBus
    pid: int

    def records(self, partition: Partition) -> list[Incoming]:
        """All that it has published there."""
        return list(self.bus.read(partition, 0))

    def diagnoses(self, pid: int, since_ts: float = 0.0) -> list[Diagnosis]:
        """All records of diagnoses of a process, in order, that were told since a time."""
        found = [read_diagnosis(record.value, "diagnoses") for record in self.records(DIAGNOSES)]
        return [each for each in found if each.pid == pid and each.ts >= since_ts]

    def wait_for(self, pid: int, progress: str, since_ts: float, within_s: float) -> Diagnosis | None:
        """The first such record of a process; None where none comes within that many seconds."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            for found in self.diagnoses(pid, since_ts):
                if found.progress == progress:
                    return found
            time.sleep(0.2)
        return None


@contextmanager
def agent(folder: Path, **settings: str) -> Iterator[Agent]:
    """An agent that has ticked twice, with these settings (`cpu_threshold="50%"`). Ends by SIGTERM.

    Raises:
        RuntimeError: it does not run.

    """
    given = {"state": str(folder), "host": HOST, "agent_interval": "1s"} | settings
    environ = {f"LAGGARD_{name.upper()}": value for name, value in given.items()}
    environ |= {"PATH": os.environ["PATH"], "HOME": str(folder)}
    command = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "agent"]
    with subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            put_first(process.pid)
            path, until = folder / "laggard.db", time.monotonic() + START_S
            while not path.exists() or _ticks(path) < 2:
                if process.poll() is not None or time.monotonic() > until:
                    process.kill()
                    _, said = process.communicate()
                    raise RuntimeError(f"laggard agent: expected two ticks within {START_S:g} s, got: {said}")
                time.sleep(0.2)
            with EmbeddedBus(path) as bus:
                yield Agent(bus, process.pid)
        finally:
            process.terminate()
            process.communicate()


def _ticks(path: Path) -> int:
    with EmbeddedBus(path) as bus, suppress(BusError):  # before it has made its topics
        return bus.bounds(COUNTERS)[1]
    return 0


def put_first(pid: int) -> None:
    """Let the kernel prefer a process that began a session to all that others run here, where that is allowed."""
    with suppress(OSError):  # no scheduling by sessions, or not root
        Path(f"/proc/{pid}/autogroup").write_text("-20")
    with suppress(OSError):
        for tid in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names
            os.setpriority(os.PRIO_PROCESS, int(tid), -20)


def share(thread: ThreadUse, is_right: Callable[[str], bool], *, state: str = "running") -> tuple[int, int]:
    """Of a thread's samples in a state: those whose innermost function is right, and all."""
    stacks = [stack for stack in thread.stacks if stack.state == state]
    right = [stack for stack in stacks if stack.locations and is_right(stack.locations[0].function)]
    return sum(stack.samples for stack in right), sum(stack.samples for stack in stacks)


def middle(values: Sequence[float], form: str = ".2f") -> str:
    """Median, least and greatest."""
    if not values:
        return "-"
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
