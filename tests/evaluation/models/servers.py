"""Simulated servers, request by request, with faults of resources and faults that no counter explains.

Requests arrive at random and wait for one of few workers. They compute on the web tier and query the database, which
computes and reads its disk. Tasks share the CPUs of their host, also with other programs. A step is 10 ms.

Some faults are of resources: spinning programs beside a tier (`cpu-web`, `cpu-db`), a stream of other reads on the
database's disk (`disk`), and thrashing on the database's host (`memory`). Another one is a surge of visitors that the
CPUs of the web tier cannot serve (`surge`). No counter of a host explains the other faults: a lock whose holder sleeps
(`lock`), and a slow answer of an upstream (`upstream`). The last one is connections that are refused and retried after
a pause (`refused`).

The counters have the names of the agent, so that a model sees what it sees on a server.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.methods.applications.metrics import metric_id
from laggard.pipeline.methods.applications.serving import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

STEP_S: Final = 0.01
CPUS: Final = 2
WORKERS: Final = 6
WEB_CPU_S: Final = 0.0395
DB_CPU_S: Final = 0.012
"""The mean CPU time of a request on both tiers."""

FAULTS: Final[Mapping[str, tuple[str, str]]] = {
    "cpu-web": ("web-1", "cpu"),
    "cpu-db": ("db-1", "cpu"),
    "disk": ("db-1", "disk"),
    "memory": ("db-1", "memory"),
    "surge": ("web-1", "cpu"),
    "lock": ("", ""),
    "upstream": ("", ""),
    "refused": ("", ""),
}
"""The faults with the host and resource that a model should name; empty where no resource is short."""


@dataclass(frozen=True, eq=False)
class Watched:
    """The intervals of one simulated application.

    Attributes:
        ids: the metrics.
        values: shape (intervals, metrics).
        performance: by name, shape (intervals,).
        interval_s: the length of an interval.
        faulty: whether the fault is there, shape (intervals,).

    """

    ids: tuple[str, ...]
    values: NDArray[np.float64]
    performance: Mapping[str, NDArray[np.float64]]
    interval_s: float
    faulty: NDArray[np.bool_]


@dataclass(slots=True)
class _Stage:
    place: str
    left_s: float


@dataclass(slots=True)
class _Request:
    began: float
    stages: list[_Stage]


class _Host:
    """A host, and what its counters have summed up since the interval began."""

    def __init__(self, name: str, programs: Sequence[str], random: np.random.Generator) -> None:
        self.name = name
        self.random = random
        self.programs = tuple(programs)
        self.used = dict.fromkeys((*programs, "background", "hog"), 0.0)
        self.waited = dict.fromkeys((*programs, "background", "hog"), 0.0)
        self.sums = dict.fromkeys(("busy", "cpu", "io", "memory", "running", "blocked", "queue", "disk"), 0.0)
        self.reads = 0.0
        self.job_s = float(random.uniform(4.0, 25.0))  # from the end of a background job to the next one
        self.job_tasks = int(random.integers(1, 4))
        self.busy_until = 0.0  # of a background job
        self.load = 0.3

    def clear(self) -> None:
        for each in (self.used, self.waited, self.sums):
            for name in each:
                each[name] = 0.0
        self.reads = 0.0


class Server:
    """An application on two hosts, or with both tiers on one, simulated until an interval ends.

    Parameters:
        fault: one of `FAULTS`; empty for none.
        seed: of the random numbers.
        alone: whether both tiers are on one host.

    """

    def __init__(self, fault: str, seed: int, *, alone: bool) -> None:
        self.random = np.random.default_rng([seed, ["", *FAULTS].index(fault), alone])
        self.web = _Host("web-1", ("nginx", "php-fpm") + (("mysqld",) if alone else ()), self.random)
        self.db = self.web if alone else _Host("db-1", ("mysqld",), self.random)
        self.hosts = [self.web] if alone else [self.web, self.db]
        self.fault, self.faulty = fault, False
        self.rate = float(self.random.uniform(8.0, 16.0))
        self.strength = float(self.random.uniform(0.7, 1.5))
        self.share = float(self.random.uniform(0.5, 1.0))  # of requests that take the lock or the upstream
        self.held = float(self.random.uniform(0.7, 0.95))  # of the time in which the lock is held
        self.surge = float(self.random.uniform(0.9, 1.15))  # of what the CPUs of the web tier can serve
        self.now = 0.0
        self.backlog: deque[_Request] = deque()
        self.active: list[_Request] = []
        self.done: list[float] = []
        self.next_arrival = 0.0
        self.locked_until = 0.0
        self.jobs = {host.name: float(self.random.exponential(20.0)) for host in self.hosts}

    def _new(self) -> _Request:
        random = self.random
        heavy = 3.0 if random.random() < 0.1 else 1.0
        cpu = heavy * random.gamma(4.0, 0.008)
        query = random.gamma(2.0, 0.006)
        stages = [_Stage("nginx", 0.001), _Stage("php-fpm", 0.6 * cpu)]
        if self.faulty and random.random() < self.share:
            if self.fault == "lock":
                stages.append(_Stage("lock", 0.0))
            elif self.fault == "upstream":
                stages.append(_Stage("sleep", self.strength * random.gamma(4.0, 0.1)))
            elif self.fault == "refused":
                for _ in range(int(random.integers(2, 6))):
                    stages += [_Stage("php-fpm", 0.0005), _Stage("sleep", self.strength * 0.1)]
        stages.append(_Stage("mysqld", query))
        if random.random() < 0.6:
            stages.append(_Stage("disk", random.exponential(0.01)))
        if self.faulty and self.fault == "memory":
            stages.append(_Stage("page", self.strength * random.exponential(0.12)))
        stages.append(_Stage("php-fpm", 0.4 * cpu))
        return _Request(self.now, stages)

    def _host(self, place: str) -> _Host:
        return self.db if place in {"mysqld", "disk", "page"} else self.web

    def step(self) -> None:
        """Simulate 10 ms."""
        rate = self.rate
        if self.faulty and self.fault == "surge":
            rate = self.surge * CPUS / (WEB_CPU_S + (DB_CPU_S if self.web is self.db else 0.0))
        while self.next_arrival <= self.now:
            self.backlog.append(self._new())
            self.next_arrival += float(self.random.exponential(1.0 / rate))
        while self.backlog and len(self.active) < WORKERS:
            self.active.append(self.backlog.popleft())
        wanting: dict[str, list[str]] = {host.name: [] for host in self.hosts}
        for each in self.active:
            place = each.stages[0].place
            if place in {"nginx", "php-fpm", "mysqld"}:
                wanting[self._host(place).name].append(place)
        shares = {}
        for host in self.hosts:
            shares[host.name] = self._cpu(host, wanting[host.name])
        self._disk()
        for each in list(self.active):
            self._advance(each, shares)
        self.now += STEP_S

    def _cpu(self, host: _Host, wanting: list[str]) -> float:
        """Share the CPUs of a host; return the share of each task."""
        tasks = list(wanting)
        if host.busy_until > self.now:
            tasks += ["background"] * host.job_tasks
        elif self.now >= self.jobs[host.name]:
            host.busy_until = self.now + float(self.random.gamma(2.0, 1.0))
            self.jobs[host.name] = host.busy_until + float(self.random.exponential(host.job_s))
        if self.faulty and self.fault == {"web-1": "cpu-web", "db-1": "cpu-db"}[host.name]:
            tasks += ["hog"] * round(3 + 3 * self.strength)
        if self.faulty and self.fault == "cpu-db" and host is self.web and host is self.db:
            tasks += ["hog"] * round(3 + 3 * self.strength)
        count = len(tasks)
        share = min(CPUS / count, 1.0) if count else 1.0
        for name in tasks:
            host.used[name] += share * STEP_S
            host.waited[name] += (1.0 - share) * STEP_S
        host.sums["busy"] += min(count, CPUS) / CPUS * STEP_S
        host.sums["cpu"] += min(max(count - CPUS, 0), CPUS) / CPUS * STEP_S
        host.sums["running"] += count * STEP_S
        host.load += (count - host.load) * STEP_S / 60.0
        return share

    def _disk(self) -> None:
        host = self.db
        own = [each for each in self.active if each.stages[0].place == "disk"]
        pages = [each for each in self.active if each.stages[0].place == "page"]
        others = round(4 + 6 * self.strength) if self.faulty and self.fault == "disk" else 0
        swapping = 2 if self.faulty and self.fault == "memory" else 0
        count = len(own) + others + len(pages) + swapping
        self.disk_share = 1.0 / max(len(own) + others + 0.3 * (len(pages) + swapping), 1.0)
        host.sums["disk"] += min(count, 1) * STEP_S
        host.sums["queue"] += count * STEP_S
        host.sums["blocked"] += count * STEP_S
        host.sums["io"] += min(count, CPUS) / CPUS * STEP_S
        host.sums["memory"] += min(len(pages) + swapping, CPUS) / CPUS * STEP_S
        host.reads += (200.0 if count else 0.0) * STEP_S

    def _advance(self, each: _Request, shares: Mapping[str, float]) -> None:
        left = STEP_S
        while each.stages and left > 1e-9:
            stage = each.stages[0]
            place = stage.place
            if place == "lock":
                if self.locked_until > self.now:
                    return
                # It is free: this one takes it, and sleeps while it holds it.
                hold = float(self.random.gamma(2.0, 0.5)) * self.held / (self.rate * self.share)
                self.locked_until = self.now + hold
                each.stages[0] = _Stage("sleep", hold)
                return
            speed = {"disk": self.disk_share, "sleep": 1.0, "page": 1.0}.get(place)
            if speed is None:
                speed = shares[self._host(place).name]
            rest = stage.left_s
            if rest > left * speed:
                stage.left_s = rest - left * speed
                return
            left -= rest / speed
            each.stages.pop(0)
        if not each.stages:
            self.done.append(self.now + STEP_S - left - each.began)
            self.active.remove(each)


OTHERS: Final = (
    *("systemd", "sshd", "cron", "rsyslogd", "dbus-daemon", "agetty", "java", "node", "redis-server", "postfix"),
    *("kworker/0:1", "ksoftirqd/0", "jbd2/sda1-8", "laggard", "laggard-trace"),
)
KERNEL: Final = ("kworker/0:1", "ksoftirqd/0", "jbd2/sda1-8")
PROCESS: Final = (
    *("cpu_user_ratio", "cpu_system_ratio", "cpu_wait_ratio", "timeslices_per_s", "switches_voluntary_per_s"),
    *("switches_involuntary_per_s", "page_faults_minor_per_s", "page_faults_major_per_s", "io_delay_ratio"),
    *("io_read_characters_per_s", "io_write_characters_per_s", "io_read_bytes_per_s", "memory_rss_bytes"),
    *("memory_virtual_bytes", "threads", "descriptors", "sockets"),
)


class _Counters:
    """The counters of a host, as its agent reads them in an interval."""

    def __init__(self, host: _Host, random: np.random.Generator) -> None:
        self.host = host
        self.random = random
        self.names = (*host.programs, "background", "hog", *OTHERS)
        self.walks = {name: random.uniform(0.5, 2.0, 8) for name in self.names}
        self.rows = Rows()

    def process(self, ts: float, length_s: float, requests: float, active: float) -> tuple[list[str], list[float]]:
        host, random = self.host, self.random
        rows = []
        for name in self.names:
            walk = self.walks[name] = self.walks[name] * np.exp(0.01 * random.standard_normal(8))
            used = host.used.get(name, 0.0) / length_s
            waited = host.waited.get(name, 0.0) / length_s
            own = name in host.programs
            idle = 0.0 if own else 0.002 * walk[0] * random.exponential()
            if name in {"laggard", "laggard-trace"}:
                idle = 0.02 * walk[0] * (1.0 + 0.1 * random.standard_normal()) + 0.002 * requests
            if name.startswith("kworker"):
                idle = 0.001 * (1.0 + 0.2 * requests) * random.gamma(4.0, 0.25)
            kernel = name in KERNEL
            work = used + idle
            crowd = host.sums["busy"] / length_s
            rows.append(
                [
                    0.0 if kernel else 0.8 * work,
                    work if kernel else 0.2 * work,
                    waited + idle * crowd * random.exponential(),
                    300.0 * work + 3.0 * walk[1] + random.poisson(10.0 * walk[1]) / 5.0,
                    250.0 * work + 2.0 * walk[1] + (6.0 * requests if own else 0.0),
                    40.0 * waited + random.poisson(2.0) / 5.0,
                    500.0 * work + random.poisson(2.0),
                    (host.sums["memory"] / length_s * 80.0 if own else 0.0) + random.poisson(0.05) / 5.0,
                    host.sums["io"] / length_s * (1.0 if name == "mysqld" else 0.0),
                    2e3 * requests * own + 100.0 * walk[2],
                    3e3 * requests * own + 100.0 * walk[2],
                    host.reads * 4096.0 * (name == "mysqld"),
                    0.0 if kernel else 2e7 * walk[3] * (1.0 + 0.001 * random.standard_normal()),
                    0.0 if kernel else 4e9 * walk[4],
                    1.0 if kernel else np.rint(8.0 * walk[5] + (active if own else 0.0)),
                    0.0 if kernel else np.rint(30.0 * walk[6] + (2.0 * active if own else 0.0)),
                    0.0 if kernel else np.rint(6.0 * walk[7] + (2.0 * active if own else 0.0)),
                ]
            )
        rows_ids = [f"{name}[{100 + at}@1]" for at, name in enumerate(self.names)]
        layout = make_layout(rows_ids, self.names, PROCESS)
        values = np.array(rows, np.float64)
        frame = Frame("host", host.name, "process", ts, 0, layout, values, ())
        shown = self.rows.rekeyed(frame, "shop")
        ids = [metric_id(row, feature) for row in shown.layout.rows for feature in shown.layout.features]
        return ids, shown.values.ravel().tolist()

    def of_host(self, length_s: float, requests: float) -> dict[str, float]:
        host, random = self.host, self.random
        sums = {name: value / length_s for name, value in host.sums.items()}

        def noise(size: float) -> float:
            return 1.0 + size * float(random.standard_normal())

        swapping = sums["memory"]
        return {
            "cpus": float(CPUS),
            "cpu_user_ratio": 0.78 * sums["busy"] * noise(0.03),
            "cpu_system_ratio": 0.2 * sums["busy"] * noise(0.05),
            "cpu_busy_ratio": min(sums["busy"] * noise(0.01) + 0.01, 1.0),
            "cpu_idle_ratio": max((1.0 - sums["busy"]) * noise(0.01) - 0.01, 0.0),
            "cpu_io_wait_ratio": min(sums["io"], 1.0 - sums["busy"]) * noise(0.1),
            "cpu_steal_ratio": 0.0,
            "processes_running": 1.0 + random.poisson(sums["running"] * 5.0) / 5.0,
            "processes_blocked": random.poisson(sums["blocked"] * 5.0) / 5.0,
            "load_1m": host.load + 0.05,
            "pressure_cpu_some_ratio": min(sums["cpu"] * noise(0.05) + 0.01 * random.random(), 1.0),
            "pressure_io_some_ratio": min(sums["io"] * noise(0.05) + 0.003 * random.random(), 1.0),
            "pressure_io_full_ratio": 0.6 * sums["io"] * noise(0.1),
            "pressure_memory_some_ratio": min(swapping * noise(0.1), 1.0),
            "pressure_memory_full_ratio": 0.5 * swapping * noise(0.1),
            "switches_per_s": 400.0 + 3000.0 * sums["busy"] * noise(0.05) + 20.0 * requests,
            "interrupts_per_s": 300.0 + 1000.0 * sums["busy"] * noise(0.05) + 10.0 * requests,
            "forks_per_s": random.poisson(5.0) / 5.0,
            "memory_used_bytes": 1.5e9 * (1.0 + 0.25 * min(swapping * 3.0, 1.0)) * noise(0.002),
            "memory_available_bytes": 5e8 * (1.0 - 0.85 * min(swapping * 3.0, 1.0)) * noise(0.005),
            "swap_in_bytes_per_s": 3e6 * swapping * noise(0.2),
            "swap_out_bytes_per_s": 2e6 * swapping * noise(0.2),
            "page_scans_per_s": 9000.0 * swapping * noise(0.2),
            "page_faults_major_per_s": random.poisson(1.0) / 5.0 + 150.0 * swapping,
            "disk_sda_read_operations_per_s": 1.0 + host.reads / length_s * noise(0.05),
            "disk_sda_write_operations_per_s": 4.0 + random.poisson(10.0) / 5.0,
            "disk_sda_read_bytes_per_s": 4096.0 * (1.0 + host.reads / length_s) * noise(0.05),
            "disk_sda_read_time_ratio": sums["queue"] * noise(0.05) + 0.001,
            "disk_sda_write_time_ratio": 0.01 * random.gamma(2.0, 1.0),
            "disk_sda_busy_ratio": min(sums["disk"] * noise(0.02) + 0.01, 1.0),
            "network_eth0_receive_packets_per_s": 12.0 * requests * noise(0.05) + 5.0,
            "network_eth0_transmit_packets_per_s": 14.0 * requests * noise(0.05) + 5.0,
            "network_eth0_receive_drops_per_s": 0.0,
        }


def watch(
    fault: str, seed: int, *, calm: int = 60, faulty: int = 20, after: int = 20, interval_s: float = 5.0, alone: bool
) -> Watched:
    """Watch an application before, during and after a fault, each for some intervals."""
    server = Server(fault, seed, alone=alone)
    counters = [_Counters(host, server.random) for host in server.hosts]
    intervals = calm + faulty + after
    samples: list[dict[str, float]] = []
    times: list[tuple[float, float]] = []
    is_faulty = np.zeros(intervals, np.bool_)
    is_faulty[calm : calm + faulty] = bool(fault)
    for at in range(intervals):
        server.faulty = bool(is_faulty[at])
        active = 0.0
        for _ in range(round(interval_s / STEP_S)):
            server.step()
            active += len(server.active) * STEP_S / interval_s
        requests = len(server.done) / interval_s
        times.append((float(np.mean(server.done)) if server.done else np.nan, requests))
        server.done.clear()
        sample: dict[str, float] = {}
        for each in counters:
            for feature, value in each.of_host(interval_s, requests).items():
                sample[metric_id(each.host.name, feature)] = value
            sample |= zip(*each.process(interval_s * at, interval_s, requests, active), strict=True)
            each.host.clear()
        samples.append(sample)
    ids = tuple(samples[0])
    response, throughput = np.array(times).T
    return Watched(
        ids,
        np.array([[each.get(name, np.nan) for name in ids] for each in samples]),
        {"response_time_mean_s": response, "throughput_per_s": throughput},
        interval_s,
        is_faulty,
    )


def expected(fault: str, *, alone: bool) -> tuple[str, str]:
    """Return the host and the resource that a model should name; empty for none."""
    host, resource = FAULTS[fault]
    return ("web-1" if host and alone else host), resource
