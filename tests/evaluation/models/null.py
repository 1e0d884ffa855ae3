"""How often performance models cry wolf: applications whose relations do not change, beside the budgets.

    python -m tests.evaluation.models.null                      # 6 worlds x 3 seeds x 10,000 intervals
    python -m tests.evaluation.models.null --worlds daily --seeds 1 --intervals 3000

See `tests/evaluation/README.md` for what is simulated and what the columns mean.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.operators.calibration import QUIET_S
from laggard.operators.regression import Regression, Trait
from tests.evaluation.null import rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Series = NDArray[np.float64]

DAY: Final = 1440
"""Intervals in the rhythm of a day."""

DAY_S: Final = 86400.0
METRICS: Final = 300
PERFORMANCE: Final = ("response_time_mean_s", "throughput_per_s")


@dataclass(frozen=True)
class World:
    """An application that does not change.

    Attributes:
        noise: what response times are multiplied by beside the load: the exponent, shape (intervals,).
        daily: whether the load has the rhythm of a day; else each interval's is drawn by itself.

    """

    noise: Callable[[np.random.Generator, int], Series]
    daily: bool = False


def gaussian(random: np.random.Generator, intervals: int) -> Series:
    """Normal, 5 %."""
    return np.log(np.maximum(1.0 + 0.05 * random.standard_normal(intervals), 0.1))


def log_normal(random: np.random.Generator, intervals: int) -> Series:
    """Log-normal, 15 %."""
    return 0.15 * random.standard_normal(intervals)


def autocorrelated(random: np.random.Generator, intervals: int) -> Series:
    """5 %, of which 0.8 stays from each interval to the next."""
    return 0.05 * autoregressive(random, intervals, 0.8)


def heavy(random: np.random.Generator, intervals: int) -> Series:
    """Student's t with 3 degrees of freedom, 5 %."""
    return 0.05 * random.standard_t(3, intervals)


def autoregressive(random: np.random.Generator, intervals: int, kept: float) -> Series:
    """A stationary series of variance 1 that keeps the part `kept` from each value to the next."""
    series = random.standard_normal(intervals)
    fresh = np.sqrt(1.0 - kept * kept)
    for at in range(1, intervals):
        series[at] = kept * series[at - 1] + fresh * series[at]
    return series


WORLDS: Final[Mapping[str, World]] = {
    "gaussian": World(gaussian),
    "log-normal": World(log_normal),
    "autocorrelated": World(autocorrelated),
    "heavy-tailed": World(heavy),
    "daily": World(gaussian, daily=True),
    "daily, autocorrelated": World(autocorrelated, daily=True),
}


@dataclass(frozen=True, eq=False)
class Names:
    """The names of metrics, as operators see them."""

    ids: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Quiet:
    """What an application shows on which nothing changes.

    Attributes:
        names: of the metrics.
        values: shape (intervals, metrics).
        performance: by name, shape (intervals,).
        traits: by metric.

    """

    names: Names
    values: Series
    performance: Mapping[str, Series]
    traits: Mapping[str, Trait]


_FOLLOWING: Final[Sequence[tuple[str, Trait, Callable[[Series, Series], Series]]]] = (
    ("cpu_busy_ratio", Trait("cpu", "use", 1), lambda busy, wait: busy),
    ("cpu_idle_ratio", Trait("cpu", "free", -1), lambda busy, wait: 1.0 - busy),
    ("cpu_pressure_ratio", Trait("cpu", "wait", 1), lambda busy, wait: wait),
    ("cpu_load_1min", Trait("cpu", "wait", 1), lambda busy, wait: 0.2 + busy + wait),
    ("context_switches_per_s", Trait("cpu", "load"), lambda busy, wait: 300.0 + 9000.0 * busy),
    ("packets_received_per_s", Trait("network", "load"), lambda busy, wait: 20.0 + 4000.0 * busy),
    ("disk_busy_ratio", Trait("disk", "use", 1), lambda busy, wait: 0.4 * busy),
    ("disk_queue_length", Trait("disk", "wait", 1), lambda busy, wait: 0.3 * busy),
    ("memory_used_bytes", Trait("memory", "use", 1), lambda busy, wait: 4e8 * (1.0 + 0.1 * busy)),
    ("memory_pressure_ratio", Trait("memory", "wait", 1), lambda busy, wait: 0.001 * np.ones_like(busy)),
)
_OTHER: Final = (
    ("cpu_wait_ratio", Trait("cpu", "wait", 1)),
    ("memory_faults_per_s", Trait("memory", "wait", 1)),
    ("disk_latency_s", Trait("disk", "wait", 1)),
    ("disk_reads_per_s", Trait("disk", "use", 1)),
    ("packets_per_s", Trait("network", "load")),
    ("other", Trait()),
)


def show(name: str, seed: int, intervals: int) -> Quiet:
    """An application of four hosts under a world's load: one queue, and 300 metrics of which 40 follow it.

    A request takes 20 ms, and waits as in a queue with one server, rho / (1 - rho) times as long.
    """
    world = WORLDS[name]
    random = np.random.default_rng([seed, list(WORLDS).index(name)])
    time = np.arange(intervals)
    if world.daily:
        rhythm = 0.45 + 0.25 * np.sin(2.0 * np.pi * time / DAY + random.uniform(0.0, 2.0 * np.pi))
        busy = rhythm * (1.0 + 0.05 * random.standard_normal(intervals))
    else:
        busy = random.uniform(0.3, 0.7, intervals)
    busy = busy.clip(0.02, 0.9)
    wait = busy * busy / (1.0 - busy)
    throughput = busy / 0.02
    response = 0.02 / (1.0 - busy) * np.exp(world.noise(random, intervals))
    performance = {
        "response_time_mean_s": response,
        "throughput_per_s": throughput * np.exp(0.3 * world.noise(random, intervals)),
    }
    ids: list[str] = []
    columns: list[Series] = []
    traits: dict[str, Trait] = {}

    def add(metric: str, trait: Trait, values: Series) -> None:
        ids.append(metric)
        columns.append(values)
        traits[metric] = trait

    for host, share in (("web-1", 1.0), ("app-1", 0.6), ("app-2", 0.6), ("db-1", 0.4)):
        # The first host is the queue; on the others nothing waits to speak of.
        theirs = wait if share == 1.0 else 0.05 * share * busy
        for feature, trait, follow in _FOLLOWING:
            shown = follow(share * busy, theirs) * (1.0 + 0.03 * random.standard_normal(intervals))
            add(f"{host}:{feature}", trait, shown)
    for number in range(METRICS - len(ids)):
        feature, trait = _OTHER[number % len(_OTHER)]
        chance: Series = (
            5.0 + random.standard_normal(intervals),
            9.0 + autoregressive(random, intervals, 0.8),
            900.0 + random.standard_normal(intervals).cumsum(),
            5.0 + np.sin(2.0 * np.pi * (time / DAY + random.uniform())) + 0.1 * random.standard_normal(intervals),
            random.pareto(1.5, intervals),
            random.poisson(0.05, intervals).astype(np.float64),
            np.full(intervals, float(number)),
        )[number % 7]
        add(f"{('web-1', 'app-1', 'app-2', 'db-1')[number % 4]}/other-{number}:{feature}", trait, chance)
    return Quiet(Names(tuple(ids)), np.column_stack(columns), performance, traits)


class Cry(NamedTuple):
    """What an operator made of a world.

    Attributes:
        world: which.
        days: how long it was, of intervals of some seconds.
        rebuilds: by performance metric, models that were given up although nothing had changed.
        for_slow: of the rebuilds, those at which a response time was called slow: theirs is the other budget.
        alarms: times that the score rose above 1.
        above: intervals with a score above 1.
        late: of rebuilds and alarms, those in the second half.

    """

    world: str
    days: float
    rebuilds: Mapping[str, int]
    for_slow: int
    alarms: int
    above: int
    late: tuple[int, int]


def cry(name: str, seed: int, intervals: int, interval_s: float, method: str = "adaptive") -> Cry:
    """Watch a world from its beginning."""
    quiet = show(name, seed, intervals)
    operator = Regression(
        performance=PERFORMANCE,
        trait=quiet.traits.__getitem__,
        method="published" if method == "published" else "adaptive",
    )
    rebuilds, late = Counter[str](), [0, 0]
    for_slow = alarms = above = 0
    calm_since = -np.inf
    for at in range(intervals):
        ts = interval_s * at
        performance = {each: float(quiet.performance[each][at]) for each in PERFORMANCE}
        arguments = ts, quiet.names, quiet.values[at], performance
        slow = operator.score(*arguments).score > 1.0
        if slow:
            above += 1
            if ts - calm_since >= QUIET_S:
                alarms += 1
                late[1] += 2 * at >= intervals
            calm_since = np.inf
        elif np.isposinf(calm_since):
            calm_since = ts
        for model in operator.learn(*arguments):
            if model.reason in {"changed", "poor"}:
                if slow and model.performance == PERFORMANCE[0]:
                    for_slow += 1
                    continue
                rebuilds[model.performance] += 1
                late[0] += 2 * at >= intervals
    days = intervals * interval_s / DAY_S
    return Cry(name, days, dict(rebuilds), for_slow, alarms, above, (late[0], late[1]))


def table(cries: Sequence[Cry], budget: tuple[float, float] = (1.0, 1.0)) -> str:
    """What was seen, in Markdown: by world, all seeds together, and by world the worst seed."""
    heads = (
        "world",
        "days",
        f"rebuilds per day (budget {budget[0]:g})",
        "of response time, of throughput",
        "worst seed",
        "second half",
        f"false alarms per day (budget {budget[1]:g})",
        "worst seed",
        "second half",
        "intervals above 1",
        "rebuilds for slow",
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in dict.fromkeys(each.world for each in cries):
        mine = [each for each in cries if each.world == name]
        days = sum(each.days for each in mine)
        by_metric = [sum(each.rebuilds.get(metric, 0) for each in mine) for metric in PERFORMANCE]
        worst = max(sum(each.rebuilds.values()) / each.days for each in mine)
        worst_alarms = max(each.alarms / each.days for each in mine)
        late = [sum(each.late[at] for each in mine) / (0.5 * days) for at in (0, 1)]
        lines.append(
            f"| {name} | {days:.1f} | {rate(sum(by_metric), days)} | {by_metric[0] / days:.2f}, "
            f"{by_metric[1] / days:.2f} | {worst:.2f} | {late[0]:.2f} | "
            f"{rate(sum(each.alarms for each in mine), days)} | {worst_alarms:.2f} | {late[1]:.2f} | "
            f"{sum(each.above for each in mine)} | {sum(each.for_slow for each in mine)} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--intervals", type=int, default=10_000)
    options.add_argument("--interval", type=float, default=60.0, help="seconds of an interval")
    options.add_argument("--method", choices=("adaptive", "published"), default="adaptive")
    options.add_argument("--processes", type=int, default=os.cpu_count())
    chosen = options.parse_args(arguments)
    # A shell starts what it runs in the background with ^C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ProcessPoolExecutor(chosen.processes) as pool:
        futures = [
            pool.submit(cry, name, seed, chosen.intervals, chosen.interval, chosen.method)
            for name in chosen.worlds
            for seed in range(chosen.seeds)
        ]
        found = [each.result() for each in futures]
    print(f"{chosen.method}, {METRICS} metrics, {chosen.seeds} x {chosen.intervals} intervals of {chosen.interval:g} s")
    print(table(found))


if __name__ == "__main__":
    main()
