"""What tracing costs: requests a second, and CPU time of a request, with and without it, in turns; and the analysis.

The levels are `off`; `minimal`, without interrupts, timers and disks; `full`, all that the critical path takes; and
`all`, every event that the kernel has, which the paper's full tracing was. Within each round all of them have their
turn, each round begins with another one.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.ftrace.recording import Recording
from tests.evaluation.requests.lab.servers import shop
from tests.evaluation.requests.lab.session import recorder
from tests.evaluation.requests.lab.sites import blog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tests.evaluation.requests.lab.servers import Server

LEVELS: Final = ("off", "minimal", "full", "all")
CLIENTS: Final = 6
WARM_UP_S: Final = 3
ROUNDS: Final = 6
ANALYSED: Final = 2
"""Recordings whose analysis is timed."""
SECONDS: Final = 4
"""Of each turn."""
DRAWS: Final = 2_000
"""Of the bootstrap."""
HEADINGS: Final = (
    "server",
    "level",
    "requests/s",
    "of that without",
    "CPU of a request",
    "of that without",
    "events of a request",
    "recorder, of a core",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A server under load.

    Attributes:
        title: of it.
        server: makes it.
        path: the page that all clients ask for.
        kept: whether connections are kept.

    """

    title: str
    server: Callable[[Path], AbstractContextManager[Server]]
    path: str
    kept: bool = False


CASES: Final = {
    "blog": Case("nginx, PHP, MariaDB", blog, "/index.php?page=home&number=7"),
    "shop": Case("threads of Python, redis", shop, "/list?number=7"),
    "static": Case("nginx, a file", blog, "/index.html", kept=True),
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One measurement.

    Attributes:
        requests_per_s: that clients had.
        cpu_s: of the servers, for a request.
        events: of the servers' threads, for a request; 0 where none were recorded.
        recorder_share: CPU time of the recorder, of one core.

    """

    requests_per_s: float
    cpu_s: float
    events: float = 0.0
    recorder_share: float = 0.0


@dataclass(slots=True)
class Cost:
    """What was measured of a server.

    Attributes:
        turns: by level, one of each round.
        analysed_per_s: events that the analysis takes in a second of CPU time, in the first turns of `full`.

    """

    turns: dict[str, list[Turn]] = field(default_factory=lambda: {level: [] for level in LEVELS})
    analysed_per_s: list[float] = field(default_factory=list)


def measure(case: Case, rounds: int) -> Cost:
    """Let the levels take turns."""
    cost = Cost()
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="laggard-cost-")))
        server = closing.enter_context(case.server(folder))
        _load(server, case, WARM_UP_S)
        for number in range(rounds):
            first = number % len(LEVELS)
            for level in (*LEVELS[first:], *LEVELS[:first]):
                with tempfile.TemporaryDirectory(prefix="laggard-cost-") as trace:
                    cost.turns[level].append(_turn(server, case, level, Path(trace)))
                    if level == "full" and number < ANALYSED:
                        cost.analysed_per_s.append(_analysed_per_s(Path(trace)))
    return cost


def _turn(server: Server, case: Case, level: str, folder: Path) -> Turn:
    tracing = nullcontext(None) if level == "off" else recorder(server, folder, minimal=level == "minimal")
    with tracing as recording:
        if recording and level == "all":
            recording.session.instance.write("events/enable", "1")
        own_s = time.process_time()
        if recording:
            recording.start()
        begin_s, begin = _cpu_s(server), time.monotonic()
        load = _load_started(server, case, SECONDS)
        while load.poll() is None:
            time.sleep(0.2)
            if recording:
                recording.drain()
        cpu_s, took_s = _cpu_s(server) - begin_s, time.monotonic() - begin
        if recording:
            recording.stop()
        own_s = time.process_time() - own_s
        requests = _requests(load)
        threads = _threads(server)
    events = 0
    if level in ("minimal", "full"):
        events = sum(int(np.isin(batch.events["tid"], threads).sum()) for batch in Recording(folder))
    return Turn(requests / took_s, cpu_s / requests, events / requests, own_s / took_s)


def _load(server: Server, case: Case, seconds: int) -> int:
    load = _load_started(server, case, seconds)
    load.wait()
    return _requests(load)


def _load_started(server: Server, case: Case, seconds: int) -> subprocess.Popen[str]:
    kept = ["-k"] if case.kept else []
    # So many requests that the time limit is reached first, which has to come before their number.
    limits = ["-t", str(seconds), "-n", "10000000"]
    url = f"http://127.0.0.1:{server.port}{case.path}"
    command = ["ab", "-q", "-l", *kept, "-c", str(CLIENTS), *limits, url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _requests(load: subprocess.Popen[str]) -> int:
    """How many were answered. Raises OSError where one was not."""
    assert load.stdout is not None
    with load.stdout:
        said = load.stdout.read()
    found = {name: int(count) for name, count in re.findall(r"^(\w+) requests:\s+(\d+)", said, re.MULTILINE)}
    if load.returncode or not found.get("Complete") or found.get("Failed") or "Non-2xx" in said:
        raise OSError(f"expected all requests to be answered: {said}")
    return found["Complete"]


def _threads(server: Server) -> list[int]:
    """Of the servers' processes."""
    sessions = {process.pid for process in server.processes.values()}
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(each.read_text().rpartition(")")[2].split()[3]) in sessions:
                found += [int(task.name) for task in (each.parent / "task").iterdir()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _cpu_s(server: Server) -> float:
    """Of the servers' processes so far."""
    ticks = 0
    for pid in {process.pid for process in server.processes.values()}:
        for each in (pid, *_children(pid)):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [each for child in children for each in _children(child)]


def _analysed_per_s(folder: Path) -> float:
    begin_s = time.process_time()
    recording = Recording(folder)
    analysis = Analysis(host=recording.host, clock_offset_s=recording.wall_offset_s)
    for batch in recording:
        analysis.feed(batch)
    analysis.finish()
    return analysis.report.events / (time.process_time() - begin_s)


def run(servers: Sequence[str], rounds: int) -> str:
    """The table of these servers."""
    return table({name: measure(CASES[name], rounds) for name in servers})


def table(costs: dict[str, Cost]) -> str:
    """A line for each server and level, with medians over the rounds and intervals of 95 % by the bootstrap."""
    lines = [
        f"| {' | '.join(HEADINGS)} |",
        f"|{'---|' * len(HEADINGS)}",
    ]
    for name, cost in costs.items():
        off = cost.turns["off"]
        for level, turns in cost.turns.items():
            rate = statistics.median(turn.requests_per_s for turn in turns)
            cpu_ms = statistics.median(turn.cpu_s for turn in turns) * 1e3
            cells = [CASES[name].title, level, f"{rate:,.0f}"]
            cells.append(_ratio([a.requests_per_s / b.requests_per_s for a, b in zip(turns, off, strict=True)], level))
            cells.append(f"{cpu_ms:.2f} ms")
            cells.append(_ratio([a.cpu_s / b.cpu_s for a, b in zip(turns, off, strict=True)], level))
            events = statistics.median(turn.events for turn in turns)
            cells.append(f"{events:,.0f}" if events else "")
            cells.append(f"{statistics.median(turn.recorder_share for turn in turns):.1%}" if level != "off" else "")
            lines.append(f"| {' | '.join(cells)} |")
    speeds = [speed for cost in costs.values() for speed in cost.analysed_per_s]
    lines.append(f"\nReading and analysing takes {statistics.median(speeds):,.0f} events a second of CPU time.")
    return "\n".join(lines)


def _ratio(ratios: Sequence[float], level: str) -> str:
    """The median, and its interval of 95 %."""
    if level == "off":
        return ""
    draws = np.median(np.random.default_rng(1).choice(ratios, (DRAWS, len(ratios))), axis=1)
    low, high = np.percentile(draws, [2.5, 97.5])
    return f"{statistics.median(ratios):.3f} [{low:.3f} to {high:.3f}]"
