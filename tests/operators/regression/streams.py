"""Streams of an application's intervals for the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.regression import Trait

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.regression import Model, Regression, SampleScores

RT, THR = "response_time_mean_s", "throughput_per_s"


@dataclass(frozen=True, eq=False)
class Names:
    """The names of metrics, as operators see them."""

    ids: tuple[str, ...]


Interval = tuple[float, Names, np.ndarray, "Mapping[str, float]"]

FEATURES: Mapping[str, Trait] = {
    "cpu_busy_ratio": Trait("cpu", "use", 1),
    "cpu_idle_ratio": Trait("cpu", "free", -1),
    "cpu_pressure_ratio": Trait("cpu", "wait", 1),
    "disk_queue_length": Trait("disk", "wait", 1),
    "memory_free_bytes": Trait("memory", "free", -1),
    "packets_per_s": Trait("network", "load"),
}


def trait(metric: str) -> Trait:
    """What the streams' metrics are about."""
    return FEATURES.get(metric.partition(":")[2], Trait())


def stream(intervals: int, seed: int, *, change: int | None = None, others: int = 20) -> list[Interval]:
    """A web and a database server: at `change` a neighbor begins to take the database's disk."""
    chance = np.random.default_rng(seed)
    load = chance.uniform(20.0, 30.0, intervals)
    taken = np.zeros(intervals) if change is None else np.where(np.arange(intervals) >= change, 1.0, 0.0)
    busy, queue = load / 50.0, 0.1 + 0.01 * load + taken * chance.uniform(2.0, 5.0, intervals)
    response = 0.02 + 0.1 * busy**2 / (1.0 - busy) + 0.2 * queue
    shown: dict[str, np.ndarray] = {}
    for host, share in (("web-1", 1.0), ("db-1", 0.5)):
        shown[f"{host}:cpu_busy_ratio"] = share * busy
        shown[f"{host}:cpu_idle_ratio"] = 1.0 - share * busy
        shown[f"{host}:cpu_pressure_ratio"] = 0.2 * share * busy**2
        shown[f"{host}:disk_queue_length"] = queue if host == "db-1" else 0.05 * busy
        shown[f"{host}:memory_free_bytes"] = np.full(intervals, 4e9)
        shown[f"{host}:packets_per_s"] = 100.0 * share * load
    columns = [column * (1.0 + 0.02 * chance.standard_normal(intervals)) for column in shown.values()]
    ids = [*shown, *(f"web-1/other-{number}:value" for number in range(others))]
    columns += [chance.lognormal(size=intervals) for _ in range(others)]
    values, names = np.column_stack(columns), Names(tuple(ids))
    response *= 1.0 + 0.03 * chance.standard_normal(intervals)
    through = load * (1.0 + 0.01 * chance.standard_normal(intervals))
    return [
        (60.0 * at, names, values[at], {RT: float(response[at]), THR: float(through[at])}) for at in range(intervals)
    ]


def restless(intervals: int, seed: int, *, change: int | None = None) -> list[Interval]:
    """The same, where metrics come and go, values are missing or infinite, intervals are left out, clocks step back."""
    chance = np.random.default_rng([seed, 1])
    found, gone = list[Interval](), set[str]()
    names, ts = Names(()), 0.0
    for _, all_of_them, values, performance in stream(intervals, seed, change=change):
        ts += float(chance.choice([60.0, 60.0, 60.0, 600.0, 0.0, -60.0]))
        if chance.random() < 0.15:
            gone = {name for name in all_of_them.ids if chance.random() < 0.1}
        there = [at for at, name in enumerate(all_of_them.ids) if name not in gone]
        ids = tuple(all_of_them.ids[at] for at in there)
        names = names if names.ids == ids and chance.random() < 0.9 else Names(ids)
        mine = values[there]
        mine[chance.random(len(mine)) < 0.01] = chance.choice([np.nan, np.inf, -np.inf, 0.0, 1e12])
        told = dict(performance)
        if chance.random() < 0.1:
            told[RT] = float(chance.choice([np.nan, 0.0, 1e3, np.inf]))
        if chance.random() < 0.05:
            del told[THR]
        found.append((ts, names, mine, told))
    return found


def run(operator: Regression, intervals: Sequence[Interval]) -> list[tuple[SampleScores, tuple[Model, ...]]]:
    """Score, then learn, each interval."""
    return [(operator.score(*interval), operator.learn(*interval)) for interval in intervals]
