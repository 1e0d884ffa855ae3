"""Measures that may improve while a suspect is slowed: host pressure, waiting of other tasks, a response time."""

from __future__ import annotations

import contextlib
import math
import re
import statistics
import subprocess
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.processes import PROC
from laggard.producers.system.proc import ProcError, parse_pressure, parse_schedstat

if TYPE_CHECKING:
    from pathlib import Path

_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


class Measure(NamedTuple):
    """A measure; smaller values are better.

    Attributes:
        name: its name with its base unit, like that of a feature.
        words: its description, as the subject of a sentence.

    """

    name: str
    words: str


WAITING: Final = Measure("cpu_wait_ratio", "how long other tasks wait for a CPU")
PRESSURE: Final = {
    "cpu": Measure("pressure_cpu_some_ratio", "the share of time that some task waits for a CPU"),
    "io": Measure("pressure_io_some_ratio", "the share of time that some task waits for I/O"),
    "memory": Measure("pressure_memory_some_ratio", "the share of time that some task waits for memory"),
}
RESPONSE: Final = Measure("response_s", "what the command measures")


class MeasureError(Exception):
    """The command that measures the response time failed, with the reason."""


class Counters(NamedTuple):
    """Counters of the kernel, in seconds: stall times by resource, and the waiting time of each task."""

    ts: float
    stalled_s: dict[str, float]
    waited_s: dict[tuple[str, str], float]


def counters(suspect: int, proc: Path = PROC) -> Counters:
    """Read the counters, without the waiting of the suspect itself: a stopped process does not wait."""
    stalled = {}
    for resource in PRESSURE:
        with contextlib.suppress(OSError, ProcError, KeyError):
            stalled[resource] = parse_pressure((proc / "pressure" / resource).read_bytes())["some"] / 1e6
    waited = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == suspect:
            continue
        with contextlib.suppress(OSError):
            for task in (entry / "task").iterdir():
                with contextlib.suppress(OSError, ProcError):
                    schedstat = parse_schedstat((task / "schedstat").read_bytes())
                    waited[entry.name, task.name] = schedstat.wait_ns / 1e9
    return Counters(time.monotonic(), stalled, waited)


def between(before: Counters, after: Counters) -> dict[Measure, float]:
    """Return the increase per second of the counters that both have."""
    seconds = max(after.ts - before.ts, 1e-9)
    found = {
        measure: (after.stalled_s[name] - before.stalled_s[name]) / seconds
        for name, measure in PRESSURE.items()
        if name in before.stalled_s and name in after.stalled_s
    }
    both = before.waited_s.keys() & after.waited_s.keys()
    if both:
        found[WAITING] = sum(after.waited_s[task] - before.waited_s[task] for task in both) / seconds
    return found


def response(command: str, timeout_s: float) -> float:
    """Run a command once, and return the last number that it prints, otherwise its duration in seconds.

    Raises:
        MeasureError: it failed, took too long, or printed a number that is not finite.

    """
    began = time.monotonic()
    try:
        ran = subprocess.run(  # noqa: S602 - it is the user's own command line, and may have pipes
            command, shell=True, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise MeasureError(f"the command did not end within {timeout_s:g} s") from None
    took = time.monotonic() - began
    if ran.returncode != 0:
        output_lines = (ran.stderr.strip() or ran.stdout.strip()).splitlines()
        raise MeasureError(
            f"the command ended with code {ran.returncode}" + (f": {output_lines[-1][:200]}" if output_lines else "")
        )
    numbers = _NUMBER.findall(ran.stdout)
    value = float(numbers[-1]) if numbers else took
    if not math.isfinite(value):
        raise MeasureError(f"the command printed {numbers[-1][:40]}; expected a number")
    return value


class Meter:
    """Measures one period after another.

    Parameters:
        suspect: the pid of the suspect, whose own waiting does not count.
        command: the command that measures the response time; empty for none.
        timeout_s: the time limit of the command, in seconds.

    """

    def __init__(self, suspect: int, command: str = "", timeout_s: float = 30.0) -> None:
        self._suspect = suspect
        self._command = command
        self._timeout_s = timeout_s

    def period(self, seconds: float) -> dict[Measure, float]:
        """Measure for this time, at least until the command has ended once. The median of its runs counts."""
        responses: list[float] = []
        before = counters(self._suspect)
        end = before.ts + seconds
        while self._command and (not responses or time.monotonic() < end):
            responses.append(response(self._command, self._timeout_s))
        time.sleep(max(end - time.monotonic(), 0.0))
        found = between(before, counters(self._suspect))
        return found | ({RESPONSE: statistics.median(responses)} if responses else {})
