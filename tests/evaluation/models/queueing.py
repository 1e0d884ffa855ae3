"""A seeded queueing model of the paper's two testbeds and its four scenarios (S2, sections 3 and 5).

Users think, then send a request that visits the tiers (a closed network, solved by Schweitzer's approximate mean value
analysis, interval by interval). A noisy neighbor slows a tier's CPU down, takes memory so that requests wait for the
disk, or takes the disk. Each tier and host shows some forty metrics, each also for its CPUs, disks and interfaces; they
follow the model with noise of their own. The rest of the 7,522 has nothing to do with it: noise, autoregressive series,
random walks, daily rhythms, spikes, steps, constants, and copies of one another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.regression.models import Trait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

METRICS: Final = 7_522 - 8
"""In section 4: 7,522, of which 8 are the application's performance."""

DISK_METRICS: Final = 1_800 + 2 * 48
"""The disk's scenario has one host, with two virtual machines."""

SCENARIOS: Final = ("workload", "cpu", "memory", "disk")

RANDOM: Final = "random"
"""Section 4's random workload: nothing is contended, but that the first tier's CPU is too small for its users."""


@dataclass(frozen=True, eq=False)
class Recording:
    """What a scenario shows.

    Attributes:
        ids: of the metrics.
        values: shape (intervals, metrics).
        performance: by name, shape (intervals,).
        interval_s: how long an interval is.
        contended: whether the bottleneck is there, shape (intervals,).
        host: where it is.
        resource: what is short.
        traits: by metric.
        hosts: by metric, where its id does not tell it.
        resolution: changes too small to notice, by the end of a metric's id.

    """

    ids: tuple[str, ...]
    values: NDArray[np.float64]
    performance: Mapping[str, NDArray[np.float64]]
    interval_s: float
    contended: NDArray[np.bool_]
    host: str
    resource: str
    traits: Mapping[str, Trait]
    hosts: Mapping[str, str]
    resolution: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Tier:
    host: str
    vm: str
    demands: Mapping[str, float]  # seconds of a request, by `cpu` and `disk`


_RUBBOS = (
    _Tier("esx1", "web", {"cpu": 0.0030}),
    _Tier("esx2", "app1", {"cpu": 0.0011}),
    _Tier("esx2", "app2", {"cpu": 0.0011}),
    _Tier("esx3", "cjdbc", {"cpu": 0.0008}),
    _Tier("esx4", "db1", {"cpu": 0.0007, "disk": 0.0006}),
    _Tier("esx4", "db2", {"cpu": 0.0007, "disk": 0.0006}),
)
_TPCH = (_Tier("esx5", "tpch_f", {"cpu": 9.0, "disk": 38.0}),)


def solve(users: NDArray[np.float64], think_s: float, demands: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Schweitzer's approximation for each interval.

    Args:
        users: shape (intervals,).
        think_s: between a response and the next request.
        demands: seconds of a request at each station, shape (intervals, stations).

    Returns:
        Throughput per second, response time in seconds, and the requests at each station, shape (intervals, stations).

    """
    queue = np.zeros_like(demands) + users[:, None] / demands.shape[1] * 0.1
    for _ in range(2_000):
        response = demands * (1.0 + (users[:, None] - 1.0) / users[:, None] * queue)
        throughput = users / (think_s + response.sum(axis=1))
        after = throughput[:, None] * response
        if np.abs(after - queue).max() < 1e-7 * users.max():
            queue = after
            break
        queue = after
    return throughput, response.sum(axis=1), queue


@dataclass
class _Shown:
    """Metrics as they are made."""

    random: np.random.Generator
    ids: list[str] = field(default_factory=list)
    columns: list[NDArray[np.float64]] = field(default_factory=list)
    traits: dict[str, Trait] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)

    def add(
        self, host: str, row: str, feature: str, *, values: NDArray[np.float64], trait: Trait, noise: float = 0.0
    ) -> None:
        """A metric that follows `values`, with noise as a share of it."""
        name = f"{row}:{feature}"
        shown = values * (1.0 + noise * self.random.standard_normal(len(values)))
        self.ids.append(name)
        self.columns.append(shown)
        self.traits[name] = trait
        self.hosts[name] = host


def record(scenario: str, seed: int, *, metrics: int | None = None) -> Recording:
    """One run of a scenario, or of the random workload, with the paper's schedule."""
    random = np.random.default_rng([seed, (*SCENARIOS, RANDOM).index(scenario)])
    disk = scenario == "disk"
    metrics = metrics or (DISK_METRICS if disk else METRICS)
    tiers = _TPCH if disk else _RUBBOS
    intervals, first, last = {
        "workload": (60, 20, 40),
        "cpu": (120, 20, 100),
        "memory": (120, 40, 80),
        "disk": (60, 20, 40),
        RANDOM: (400, 0, 0),
    }[scenario]
    interval_s, think_s = (360.0, 20.0) if disk else (60.0, 7.0)
    contended = np.zeros(intervals, np.bool_)
    contended[first:last] = True
    users = {
        "workload": lambda: np.where(contended, 2300.0, 1000.0) * (1.0 + 0.02 * random.standard_normal(intervals)),
        "cpu": lambda: random.uniform(1100.0, 1300.0, intervals),
        "memory": lambda: random.uniform(900.0, 1100.0, intervals),
        # Users come and go within an interval of six minutes.
        "disk": lambda: random.uniform(3.0, 4.0, intervals),
        RANDOM: lambda: random.uniform(400.0, 4000.0, intervals),
    }[scenario]()
    stations = [(tier, resource) for tier in tiers for resource in tier.demands]
    demands = np.array([tier.demands[resource] for tier, resource in stations])[None, :] * np.exp(
        0.02 * random.standard_normal((intervals, len(stations)))
    )
    stolen = np.zeros(intervals)  # of the CPUs of the first host
    squeezed = np.zeros(intervals)  # of the memory of the last one, 0 to 1
    crowded = np.zeros(intervals)  # users of the other database on the disk
    if scenario == "cpu":
        # Four neighbors, each between 10 % and 40 %; two of them until the 40th interval and from the 81st on.
        active = np.where(contended, 2.0, 0.0)
        active[40:80] += 2.0
        stolen = active * 0.105 * random.uniform(0.6, 1.2, intervals)
    if scenario == "memory":
        squeezed = np.where(contended, random.uniform(0.6, 1.0, intervals), 0.0)
    if disk:
        crowded = np.where(contended, random.uniform(1.0, 2.0, intervals), 0.0)
    for number, (tier, resource) in enumerate(stations):
        if tier.host == "esx1" and resource == "cpu":
            demands[:, number] /= np.maximum(1.0 - stolen, 0.15)
        if resource == "disk":
            demands[:, number] *= (1.0 + 7.0 * squeezed) * (1.0 + 0.8 * crowded)
    throughput, response, queue = solve(users, think_s, demands)
    spread = 0.02 if not disk else 0.06
    mean = response * np.exp(spread * random.standard_normal(intervals))
    seen = throughput * np.exp(0.3 * spread * random.standard_normal(intervals))
    performance = {"response_time_mean_s": mean, "throughput_per_s": seen}

    shown = _Shown(random)
    for host in dict.fromkeys(tier.host for tier in tiers):
        _show_host(
            shown,
            host,
            stations,
            throughput=throughput,
            demands=demands,
            queue=queue,
            stolen=stolen,
            squeezed=squeezed,
            crowded=crowded,
        )
    _show_others(shown, tuple(dict.fromkeys(tier.host for tier in tiers)), metrics - len(shown.ids), intervals)
    order = random.permutation(len(shown.ids))
    host, resource = {
        "workload": ("esx1", "cpu"),
        "cpu": ("esx1", "cpu"),
        "memory": ("esx4", "memory"),
        "disk": ("esx5", "disk"),
        RANDOM: ("", ""),
    }[scenario]
    return Recording(
        tuple(shown.ids[at] for at in order),
        np.column_stack([shown.columns[at] for at in order]),
        performance,
        interval_s,
        contended,
        host,
        resource,
        shown.traits,
        shown.hosts,
    )


def _show_host(
    shown: _Shown,
    host: str,
    stations: list[tuple[_Tier, str]],
    *,
    throughput: NDArray[np.float64],
    demands: NDArray[np.float64],
    queue: NDArray[np.float64],
    stolen: NDArray[np.float64],
    squeezed: NDArray[np.float64],
    crowded: NDArray[np.float64],
) -> None:
    one = np.ones_like(throughput)
    busy, runnable, waiting, traffic = 0.06 * one, 0.2 * one, 0.0 * one, 50.0 * one
    reads, disk_queue = 3.0 * one, 0.02 * one
    stolen = stolen if host == "esx1" else 0.0 * one
    squeezed = squeezed if host == "esx4" else 0.0 * one
    crowded = crowded if host == "esx5" else 0.0 * one
    jitter = lambda size: np.exp(size * shown.random.standard_normal(len(throughput)))  # noqa: E731
    vms = list(dict.fromkeys(tier for tier, _ in stations if tier.host == host))
    for tier in vms:
        row = f"{host}/{tier.vm}"
        at = {resource: number for number, (each, resource) in enumerate(stations) if each is tier}
        cpu = throughput * demands[:, at["cpu"]]
        used = cpu * (1.0 - stolen)
        ready = (queue[:, at["cpu"]] - cpu).clip(0.0) * 0.3 + cpu * stolen * 2.0 + 0.01
        pages = throughput * 20.0 + 4000.0 * squeezed
        busy, runnable, waiting, traffic = (
            busy + used,
            runnable + queue[:, at["cpu"]],
            waiting + ready,
            traffic + throughput,
        )
        values: list[tuple[str, NDArray[np.float64], Trait]] = [
            ("cpu_used_ratio", used, Trait("cpu", "use", 1)),
            ("cpu_idle_ratio", (1.0 - cpu).clip(0.002), Trait("cpu", "free", -1)),
            ("cpu_ready_ratio", ready, Trait("cpu", "wait", 1)),
            ("cpu_system_ratio", 0.3 * used, Trait("cpu", "use", 1)),
            ("load_average", 0.1 + queue[:, at["cpu"]], Trait("cpu", "wait", 1)),
            ("context_switches_per_s", 300.0 + 9.0 * throughput, Trait("cpu", "load")),
            ("interrupts_per_s", 200.0 + 5.0 * throughput, Trait("cpu", "load")),
            ("packets_received_per_s", 20.0 + 4.0 * throughput, Trait("network", "load")),
            ("packets_sent_per_s", 20.0 + 4.5 * throughput, Trait("network", "load")),
            ("network_received_bytes_per_s", 1e4 + 2e3 * throughput, Trait("network", "load")),
            ("network_sent_bytes_per_s", 1e4 + 9e3 * throughput, Trait("network", "load")),
            ("udp_active", 170.0 + 0.3 * throughput + queue[:, at["cpu"]], Trait("network", "load")),
            ("memory_active_bytes", 4e8 * (1.0 - 0.5 * squeezed) * jitter(0.01), Trait("memory", "use", 0)),
            ("memory_granted_bytes", 9e8 * (1.0 - 0.45 * squeezed), Trait("memory", "free", -1)),
            ("swapped_in_per_s", 0.2 * jitter(0.5) + 900.0 * squeezed, Trait("memory", "wait", 1)),
            ("page_faults_major_per_s", 0.5 * jitter(0.3) + 300.0 * squeezed, Trait("memory", "wait", 1)),
            ("page_faults_per_s", pages, Trait("memory", "load")),
        ]
        if "disk" in at:
            use = throughput * demands[:, at["disk"]]
            own = throughput * (0.4 if host != "esx5" else 400.0)
            reads = reads + own * (1.0 + 5.0 * squeezed)
            disk_queue = disk_queue + queue[:, at["disk"]] + crowded
            values += [
                ("disk_reads_per_s", own * (1.0 + 5.0 * squeezed), Trait("disk", "use", 1)),
                ("disk_busy_ratio", use.clip(0.0, 1.0), Trait("disk", "use", 1)),
                (
                    "io_wait_ratio",
                    0.01 + 0.5 * queue[:, at["disk"]] / (1.0 + queue.sum(axis=1)),
                    Trait("disk", "wait", 1),
                ),
            ]
        for feature, base, trait in values:
            shown.add(host, row, feature, values=base, trait=trait, noise=0.03)
            for part in range(4):
                shown.add(host, row, f"{feature}[{part}]", values=base * jitter(0.04), trait=trait, noise=0.08)
    for feature, base, trait in [
        ("cpu_busy_ratio", (busy + 1.3 * stolen).clip(0.0, 1.0), Trait("cpu", "use", 1)),
        ("cpu_idle_ratio", (1.0 - busy - 1.3 * stolen).clip(0.004), Trait("cpu", "free", -1)),
        ("cpu_load_1min", runnable + 4.0 * stolen, Trait("cpu", "wait", 1)),
        ("cpu_pressure_ratio", waiting + 0.5 * stolen, Trait("cpu", "wait", 1)),
        ("packets_per_s", 30.0 + 9.0 * traffic, Trait("network", "load")),
        ("memory_free_bytes", 4e8 * (1.0 - 0.9 * squeezed), Trait("memory", "free", -1)),
        ("memory_pressure_ratio", 0.001 * jitter(0.5) + 0.4 * squeezed, Trait("memory", "wait", 1)),
        ("swap_used_bytes", 1e6 * jitter(0.2) + 4e8 * squeezed, Trait("memory", "use", 1)),
        ("disk_reads_per_s", reads + 60.0 * crowded, Trait("disk", "use", 1)),
        ("disk_writes_per_s", 4.0 * jitter(0.1) + 40.0 * crowded, Trait("disk", "use", 1)),
        ("disk_queue_length", disk_queue, Trait("disk", "wait", 1)),
        ("disk_latency_s", 0.004 * (1.0 + disk_queue), Trait("disk", "wait", 1)),
    ]:
        shown.add(host, host, feature, values=base, trait=trait, noise=0.03)
        for part in range(8):
            shown.add(host, host, f"{feature}[{part}]", values=base * jitter(0.04), trait=trait, noise=0.08)


def _show_others(shown: _Shown, hosts: tuple[str, ...], count: int, intervals: int) -> None:
    """Metrics that have nothing to do with the application."""
    random = shown.random
    time = np.arange(intervals)

    def autoregressive(kept: float) -> NDArray[np.float64]:
        noise = random.standard_normal(intervals)
        out = np.empty(intervals)
        level = random.standard_normal() / np.sqrt(1.0 - kept * kept)
        for at in range(intervals):
            level = kept * level + noise[at]
            out[at] = level
        return out

    kinds: tuple[Callable[[], NDArray[np.float64]], ...] = (
        lambda: 5.0 + random.standard_normal(intervals),
        lambda: 9.0 + autoregressive(0.8),
        lambda: 40.0 + random.standard_normal(intervals).cumsum(),
        lambda: (
            5.0
            + np.sin(2.0 * np.pi * time / random.uniform(15.0, 1440.0) + random.uniform(0.0, 6.3))
            + 0.1 * random.standard_normal(intervals)
        ),
        lambda: random.pareto(1.5, intervals),
        lambda: np.where(time >= random.integers(intervals), 3.0, 1.0) + 0.05 * random.standard_normal(intervals),
        lambda: random.poisson(0.05, intervals).astype(np.float64),
        lambda: np.full(intervals, float(random.integers(1000))),
        lambda: np.full(intervals, 0.0),
    )
    names = (
        ("cpu_ready_ratio", Trait("cpu", "wait", 1)),
        ("cpu_used_ratio", Trait("cpu", "use", 1)),
        ("memory_granted_bytes", Trait("memory", "free", -1)),
        ("page_faults_major_per_s", Trait("memory", "wait", 1)),
        ("disk_latency_s", Trait("disk", "wait", 1)),
        ("disk_reads_per_s", Trait("disk", "use", 1)),
        ("packets_per_s", Trait("network", "load")),
        ("interrupts_per_s", Trait("cpu", "load")),
        ("other", Trait()),
        ("other_errors", Trait()),
    )
    made: list[NDArray[np.float64]] = []
    for number in range(count):
        host = hosts[number % len(hosts)]
        feature, trait = names[int(random.integers(len(names)))]
        if made and random.random() < 0.2:
            values = made[int(random.integers(len(made)))] * (1.0 + 0.01 * random.standard_normal(intervals))
        else:
            values = kinds[int(random.integers(len(kinds)))]()
        made.append(values)
        shown.add(host, f"{host}/other-{number}", feature, values=values, trait=trait)
        # A metric that is named after a contended resource belongs to it, wherever it is: but it does not reflect it.
        shown.hosts[shown.ids[-1]] = ""
