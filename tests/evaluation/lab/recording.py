"""One scenario happens, and is written down, with its culprit."""

from __future__ import annotations

import json
import math
import random
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.producers.host.processes import FEATURES
from tests.evaluation.lab.hosts import MIB, Lab
from tests.evaluation.lab.stage import CAPACITY, MEMORY_EATEN, Interval, Stage
from tests.evaluation.lab.writing import APPLICATION, METRICS, write_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.evaluation.lab.scenarios import Scenario

WORTH: Final = 2.0
"""The mean response time under contention is at least this many times the one without."""
STEP_S: Final = 0.1
"""How often neighbors are told how much to take."""


class Check(NamedTuple):
    """What a recording should show, what it shows, and whether that is enough."""

    expected: str
    found: str
    held: bool


def record(scenario: Scenario, file: Path, interval_s: float, seed: int) -> bool:
    """Let a scenario happen, and write it down. Returns whether it was what it should be."""
    with Lab() as lab, ExitStack() as closing:
        stage = Stage(lab, scenario, interval_s, seed, closing)
        visitors = scenario.visitors(seed)
        cost_s = stage.prepare(visitors[0])
        intervals = _play(stage, scenario, visitors, interval_s, seed)
        cores = {host.name: host.cores for host in stage.hosts}
    checks = checked(scenario, intervals)
    with file.open("w") as written:
        recorded = write_frames(written, list(cores), intervals, interval_s, seed)
    truth = {
        "scenario": scenario.name,
        "seed": seed,
        "interval_s": interval_s,
        "application": APPLICATION,
        "capacity_per_s": CAPACITY,
        "web_seconds_per_page": cost_s,
        "cores": cores,
        "metrics": METRICS,
        "recorded_metrics": recorded,
        "others_cores_mean": float(np.mean([each.others_cores for each in intervals])),
        "others_cores_most": float(np.max([each.others_cores for each in intervals])),
        "checks": [check._asdict() for check in checks],
        "bottlenecks": [
            {
                "host": scenario.host,
                "resource": scenario.resource,
                "begin": intervals[scenario.begin - 1].begin,
                "end": intervals[scenario.end - 1].end,
            }
        ],
        "intervals": [
            {
                "begin": each.begin,
                "end": each.end,
                "visitors": each.visitors,
                "others_cores": round(each.others_cores, 3),
                "host": scenario.host if scenario.contended(number) else "",
                "resource": scenario.resource if scenario.contended(number) else "",
            }
            for number, each in enumerate(intervals, 1)
        ],
    }
    file.with_suffix(".truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    for check in checks:
        print(f"{scenario.name}: {'' if check.held else 'NOT SO: '}{check.expected}: {check.found}")
    return all(check.held for check in checks)


def _play(stage: Stage, scenario: Scenario, visitors: Sequence[int], interval_s: float, seed: int) -> list[Interval]:
    phase = random.Random(f"phase {seed}").uniform(0, 2 * math.pi)
    stage.read(Interval(0.0, time.time(), 0))  # what rates are compared with
    stage.servers.answers()
    start = math.ceil(time.time()) + interval_s
    _sleep_until(start - interval_s)
    stage.read(Interval(0.0, start - interval_s, 0))
    _sleep_until(start)
    stage.come(visitors[0])
    stage.read(Interval(0.0, start, 0))
    shares: dict[str, float] = {}

    def disturb_until(end: float) -> None:
        while (left := end - time.time()) > 0:
            for noise in scenario.noise:
                share = noise.share((time.time() - start) / interval_s, phase)
                if share != shares.get(noise.name, 0.0):
                    stage.disturb(noise.name, share)
                    shares[noise.name] = share
            time.sleep(min(left, STEP_S))

    intervals = []
    for number, count in enumerate(visitors):
        interval = Interval(start + number * interval_s, start + (number + 1) * interval_s, count)
        disturb_until(interval.end)
        if number + 1 < len(visitors):
            stage.come(visitors[number + 1])
        stage.read(interval)
        intervals.append(interval)
    return intervals


def _sleep_until(ts: float) -> None:
    while (left := ts - time.time()) > 0:
        time.sleep(left)


def checked(scenario: Scenario, intervals: Sequence[Interval]) -> list[Check]:
    """Whether the contention hurt, and was made of what it should be."""
    during = [each for number, each in enumerate(intervals, 1) if scenario.contended(number)]
    before = intervals[: scenario.begin - 1]

    def mean(of: Sequence[Interval], value: Callable[[Interval], float]) -> float:
        return float(np.nanmean([value(each) for each in of]))

    def of_host(feature: str) -> float:
        return mean(during, lambda each: each.hosts[scenario.host][feature])

    usual, worse = (mean(each, lambda one: one.performance["response_time_mean_s"]) for each in (before, during))
    expected = f"under contention the mean response time is at least {WORTH:g} times that before"
    checks = [Check(expected, f"{worse:.4f} s, before {usual:.4f} s", worse >= WORTH * usual)]
    if not scenario.noise:
        busy = of_host("cpu_busy_ratio")
        checks.append(Check("the host's CPU quota is used up", f"{busy:.2f} of it", busy >= 0.9))
    elif scenario.resource == "cpu":
        used = [of_host(f"group_{noise.name}_cpu_busy_ratio") for noise in scenario.noise]
        shares = ", ".join(f"{each:.2f}" for each in used)
        checks.append(Check("each neighbour takes 0.05 of the host's CPU quota", shares, min(used) >= 0.05))
    elif scenario.resource == "memory":
        held = of_host(f"group_{scenario.noise[0].name}_memory_rss_bytes")
        expected = f"the neighbour holds 0.8 of the {MEMORY_EATEN / MIB:.0f} MiB that it should"
        checks.append(Check(expected, f"{held / MIB:.0f} MiB", held >= 0.8 * MEMORY_EATEN))
    else:
        busy, place = of_host("disk_data_busy_ratio"), FEATURES.index("io_read_bytes_per_s")
        read = mean(during, lambda each: each.processes[scenario.host][scenario.noise[0].name][place]) / MIB
        checks.append(Check("the disk is busy", f"{busy:.2f} of the time", busy >= 0.8))
        checks.append(Check("the neighbour reads at least 5 MiB/s", f"{read:.1f} MiB/s", read >= 5.0))
    return checks
