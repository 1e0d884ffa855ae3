"""How often laggard cries wolf: incidents on machines where nothing is wrong, beside the budget.

    python -m tests.evaluation.null                  # simulated machines
    python -m tests.evaluation.null --real 60        # this machine, as it is, for an hour

See `README.md` for what is simulated and what the columns mean.
"""

from __future__ import annotations

import argparse
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.stats import chi2

from laggard.operators.calibration import QUIET_S, Calibration
from laggard.operators.deviations import Scores
from laggard.operators.gaussian.detector import CALIBRATIONS
from laggard.pipeline.alarms.trigger import Trigger
from laggard.pipeline.core.records import Frame
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.wiring import wire
from laggard.producers.host.agent import Agent
from tests.evaluation.recording import read_frames
from tests.evaluation.simulated import DAY_S, HOST_LAYOUT, Fault, Kind, Machine, drawn_faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout, Mark
    from laggard.pipeline.scoring.stream import Operator
    from laggard.pipeline.settings import Given

    Vector = NDArray[np.float64]

BUDGETS: Final = (0.1, 1.0, 10.0)
"""False incidents of a host in a day."""

SCOPES: Final = ("process", "host")

LATE_S: Final = 10.0
"""So long after its end a trouble may still be noticed."""

_SMALL, _MIDDLE, _LARGE = ("small", 50, 2, 20.0), ("middle", 200, 8, 60.0), ("large", 500, 32, 200.0)

MACHINES: Final[Sequence[tuple[Kind, float]]] = tuple(
    (Kind(f"{name} at {interval_s:g} s", processes, interval_s, cores, short), days)
    for (name, processes, cores, short), interval_s, days in (
        (_SMALL, 1.0, 2.0),
        (_SMALL, 5.0, 5.0),
        (_SMALL, 5.0, 5.0),
        (_SMALL, 30.0, 7.0),
        (_MIDDLE, 1.0, 2.0),
        (_MIDDLE, 5.0, 5.0),
        (_MIDDLE, 5.0, 5.0),
        (_MIDDLE, 30.0, 7.0),
        (_LARGE, 1.0, 1.0),
        (_LARGE, 5.0, 4.0),
        (_LARGE, 30.0, 7.0),
    )
)
"""What is simulated, and for how many days."""


class Raw(NamedTuple):
    """The raw scores of one scope's frames: they do not depend on the budget."""

    ts: Vector
    raw: Vector


@dataclass(frozen=True, slots=True)
class Trace:
    """What the operators made of one machine's days.

    Attributes:
        name: of the kind of machine.
        begin: of the first tick, seconds since the Unix epoch.
        days: how long.
        scopes: the raw scores of each.
        faults: what was injected.

    """

    name: str
    begin: float
    days: float
    scopes: Mapping[str, Raw]
    faults: tuple[Fault, ...] = ()


class Verdict(NamedTuple):
    """One budget on one trace.

    Attributes:
        fired: when incidents began, and in which scope.
        open_s: how long at least one was open.
        found: of each fault, whether a score was above 1 while it lasted.

    """

    fired: tuple[tuple[float, str], ...]
    open_s: float
    found: tuple[bool, ...]


class Watcher:
    """Takes frames as they come, and keeps what the sudden part of the operator `gaussian`, as wired, makes of them."""

    def __init__(self, settings: Sequence[Given] = ()) -> None:
        (wired,) = (each for each in wire(read_settings(environ={}, flags=list(settings))) if each.name == "gaussian")
        self._operators: dict[str, Operator] = {scope: wired.make() for scope in SCOPES}
        self._scores: dict[str, list[tuple[float, float]]] = {scope: [] for scope in SCOPES}

    def take(self, scope: str, ts: float, layout: Layout, values: NDArray[np.float64]) -> None:
        operator = self._operators[scope]
        scores = operator.score(ts, layout, values)
        assert isinstance(scores, Scores)
        self._scores[scope].append((ts, scores.of_gaussian.worst_without(scores.frozen)))
        operator.learn(ts, layout, values)

    def publish(self, records: Sequence[Frame | Mark]) -> None:
        """What the agent publishes."""
        for record in records:
            if isinstance(record, Frame) and record.scope in SCOPES:
                self.take(record.scope, record.ts, record.layout, record.values)

    def trace(self, name: str, faults: tuple[Fault, ...] = ()) -> Trace:
        """All so far."""
        scopes = {scope: Raw(*np.array(scores).reshape(-1, 2).T) for scope, scores in self._scores.items()}
        ts = scopes["process"].ts
        return Trace(name, float(ts[0]), float(ts[-1] - ts[0]) / DAY_S, scopes, faults)


def simulate(kind: Kind, days: float, seed: int, troubled: bool = False) -> Trace:
    """The trace of one simulated machine."""
    faults = drawn_faults(Machine(kind, days, seed), seed) if troubled else ()
    watcher = Watcher()
    for tick in Machine(kind, days, seed, faults).ticks():
        watcher.take("process", tick.ts, tick.layout, tick.values)
        watcher.take("host", tick.ts, HOST_LAYOUT, tick.host)
    return watcher.trace(kind.name, faults)


def judge(trace: Trace, per_day: float) -> Verdict:
    """Judge a trace by a budget, with the calibration and the trigger as they are wired.

    Half of the budget is for what lasts, see `alarm.py`.
    """
    scale, prior = CALIBRATIONS["scale_free"]
    fired = []
    open_at = []
    found = np.zeros(len(trace.faults), bool)
    for scope, (times, raws) in trace.scopes.items():
        calibration = Calibration(per_day=0.5 * per_day / len(SCOPES), scale=scale, prior=prior)
        trigger = Trigger()
        for ts, raw in zip(times.tolist(), raws.tolist(), strict=True):
            score = calibration.score(raw)
            fires, trigger = trigger.after(ts, score, QUIET_S)
            if fires:
                fired.append((ts, scope))
            if score > 1.0:
                open_at.append((ts, ts + QUIET_S))
                for number, fault in enumerate(trace.faults):
                    found[number] |= fault.start <= ts <= fault.end + LATE_S
            calibration.learn(ts, raw)
    return Verdict(tuple(sorted(fired)), _covered(open_at), tuple(map(bool, found)))


def _covered(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of a union of intervals."""
    total, reached = 0.0, -np.inf
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def garwood(count: int, exposure: float) -> tuple[float, float]:
    """The exact 95 % interval of a Poisson rate (Garwood 1936)."""
    low = chi2.ppf(0.025, 2 * count) / 2.0 if count else 0.0
    return float(low / exposure), float(chi2.ppf(0.975, 2 * count + 2) / 2.0 / exposure)


def rate(count: int, days: float) -> str:
    """A number in a number of days, for people."""
    if days <= 0.0:
        return "-"
    low, high = garwood(count, days)
    return f"{count / days:.2f} ({low:.2f} to {high:.2f})"


def tables(traces: Sequence[Trace], budgets: Sequence[float] = BUDGETS) -> str:
    """What the budgets make of traces, in Markdown."""
    verdicts = {budget: [judge(trace, budget) for trace in traces] for budget in budgets}
    lines = [
        "| false incidents per host-day | " + " | ".join(f"budget {budget:g}" for budget in budgets) + " |",
        "|---|" + "---|" * len(budgets),
    ]

    def line(name: str, cells: Iterable[str]) -> None:
        lines.append(f"| {name} | " + " | ".join(cells) + " |")

    def counted(among: Sequence[int], begin: float, end: float, scopes: tuple[str, ...] = SCOPES) -> list[str]:
        cells = []
        for budget in budgets:
            days, count = 0.0, 0
            for index in among:
                trace = traces[index]
                days += max(0.0, min(trace.days, end) - begin)
                since = [(ts - trace.begin) / DAY_S for ts, scope in verdicts[budget][index].fired if scope in scopes]
                count += sum(begin <= at < end for at in since)
            cells.append(rate(count, days))
        return cells

    every = range(len(traces))
    line("all", counted(every, 0.0, np.inf))
    line("... first hour", counted(every, 0.0, 1 / 24))
    line("... rest of the first day", counted(every, 1 / 24, 1.0))
    line("... later days", counted(every, 1.0, np.inf))
    for scope in SCOPES:
        line(f"later days, {scope}", counted(every, 1.0, np.inf, (scope,)))
    for name in dict.fromkeys(trace.name for trace in traces):
        line(f"later days, {name}", counted([i for i in every if traces[i].name == name], 1.0, np.inf))
    days = sum(trace.days for trace in traces)
    shares = [sum(verdict.open_s for verdict in verdicts[budget]) / (days * DAY_S) for budget in budgets]
    line("time with an incident open", [f"{share:.3%}" for share in shares])
    for first in range(0, 24, 4):
        cells = []
        for budget in budgets:
            hours = [ts % DAY_S // 3600 for verdict in verdicts[budget] for ts, _ in verdict.fired]
            cells.append(str(sum(first <= hour < first + 4 for hour in hours)))
        line(f"incidents from {first:02} to {first + 4:02} h", cells)
    return "\n".join(lines)


def power(troubled: Sequence[Trace], quiet: Sequence[Trace], budgets: Sequence[float] = BUDGETS) -> str:
    """How many of the injected troubles are noticed, in Markdown; in brackets, what would be by chance."""
    lines = [
        "| noticed | " + " | ".join(f"budget {budget:g}" for budget in budgets) + " |",
        "|---|" + "---|" * len(budgets),
    ]
    found: dict[tuple[str, float], list[bool]] = {}
    chance: dict[tuple[str, float], list[bool]] = {}
    for budget in budgets:
        for trace, same in zip(troubled, quiet, strict=True):
            there = judge(trace, budget).found
            blind = judge(Trace(same.name, same.begin, same.days, same.scopes, trace.faults), budget).found
            for fault, yes, anyway in zip(trace.faults, there, blind, strict=True):
                for key in ("all", fault.kind, trace.name):
                    found.setdefault((key, budget), []).append(yes)
                    chance.setdefault((key, budget), []).append(anyway)
    for key in dict.fromkeys(name for name, _ in found):
        cells = [
            f"{sum(found[key, budget])}/{len(found[key, budget])} ({np.mean(found[key, budget]):.0%};"
            f" {np.mean(chance[key, budget]):.0%})"
            for budget in budgets
        ]
        lines.append(f"| {key} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def watch(minutes: float) -> Trace:
    """This machine, seen by the agent at 1 s ticks."""
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    timer = threading.Timer(minutes * 60.0, stop.set)
    timer.start()
    watcher = Watcher()
    try:
        Agent(watcher.publish, "null", 1.0, command_lines=False).run(stop)
    finally:
        timer.cancel()
    return watcher.trace("this machine at 1 s")


def replay(folder: Path) -> Trace:
    """A recording, see `recording.py`."""
    watcher = Watcher()
    for scope in SCOPES:
        for frame in read_frames(folder, scope):
            watcher.publish([frame])
    return watcher.trace(folder.name)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.evaluation.null", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", type=float, metavar="MINUTES", help="watch this machine instead")
    parser.add_argument("--replay", type=Path, metavar="DIR", nargs="+", help="judge recordings instead")
    parser.add_argument("--days", type=float, default=1.0, metavar="FACTOR", help="of the simulated days (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, help="machines to simulate at once (default: 1)")
    parser.add_argument("--quiet-only", action="store_true", help="leave out the pass with injected troubles")
    options = parser.parse_args(arguments)
    if options.real or options.replay:
        print(tables([watch(options.real)] if options.real else [replay(folder) for folder in options.replay]))
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        plans = [(kind, days * options.days, options.seed + number) for number, (kind, days) in enumerate(MACHINES)]
        quiet = list(pool.map(simulate, *zip(*plans, strict=True)))
        print(tables(quiet))
        if not options.quiet_only:
            troubled = list(pool.map(simulate, *zip(*plans, strict=True), [True] * len(plans)))
            print("\n" + power(troubled, quiet))


if __name__ == "__main__":
    main()
