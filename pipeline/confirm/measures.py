"""What may get better while a suspect is slowed: the host's pressure, others' waiting, a response time."""

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
    """Something that is measured; less of it is better.

    Attributes:
        name: with its base unit, as a feature has it.
        words: what it is, as the subject of a sentence.

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
    """The command that measures failed; says how."""


class Counters(NamedTuple):
    """What the kernel has counted so far: times in seconds, by name; and the waiting of each task."""

    ts: float
    stalled_s: dict[str, float]
    waited_s: dict[tuple[str, str], float]


def counters(suspect: int, proc: Path = PROC) -> Counters:
    """Read them. The suspect's own waiting is left out: who is stopped does not wait."""
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
    """What happened in a second, of what both have."""
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
    """Run a command once: the last number that it prints, or else how long it took, in seconds.

    Raises:
        MeasureError: it failed or took too long.

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
        said = (ran.stderr.strip() or ran.stdout.strip()).splitlines()
        raise MeasureError(f"the command ended with code {ran.returncode}" + (f": {said[-1][:200]}" if said else ""))
    numbers = _NUMBER.findall(ran.stdout)
    value = float(numbers[-1]) if numbers else took
    if not math.isfinite(value):
        raise MeasureError(f"the command printed {numbers[-1][:40]}; expected a number")
    return value


class Meter:
    """Measures one period after the other.

    Parameters:
        suspect: whose own waiting does not count.
        command: what is run for the response time; empty for nothing.
        timeout_s: how long it may take.

    """

    def __init__(self, suspect: int, command: str = "", timeout_s: float = 30.0) -> None:
        self._suspect = suspect
        self._command = command
        self._timeout_s = timeout_s

    def period(self, seconds: float) -> dict[Measure, float]:
        """Measure for so long, or until the command has ended once. The median of its runs counts."""
        responses: list[float] = []
        before = counters(self._suspect)
        end = before.ts + seconds
        while self._command and (not responses or time.monotonic() < end):
            responses.append(response(self._command, self._timeout_s))
        time.sleep(max(end - time.monotonic(), 0.0))
        found = between(before, counters(self._suspect))
        return found | ({RESPONSE: statistics.median(responses)} if responses else {})
