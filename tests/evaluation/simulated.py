"""Simulated machines: days of frames without any trouble, as varied as those of real ones, from a seed.

Every process has latent requests, work, memory and input and output at each tick. The agent's counters follow from
these, so that the counters of a process correlate as they do on a machine. Shapes and sizes are after recordings of the
agent; see `README.md` for what happens on these machines. A block of ticks is made at a time, as whole arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.records import make_layout
from laggard.producers.host.process import RATES
from laggard.producers.host.processes import FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

DAY_S: Final = 86400.0
START: Final = 1_700_006_400.0
"""The start of all machines: a midnight, seconds since the Unix epoch."""

LONGEST_S: Final = 3 * 3600.0
"""The longest life of short-lived processes."""

BLOCK: Final = 25_000
"""A block has about this many ticks of one process."""

HOST_FEATURES: Final = (
    "switches_per_s",
    "interrupts_per_s",
    "forks_per_s",
    "processes_running",
    "processes_blocked",
    "cpu_user_ratio",
    "cpu_system_ratio",
    "cpu_io_wait_ratio",
    "cpu_busiest_core_ratio",
    "load_1m",
    "load_15m",
    "pressure_cpu_some_ratio",
    "pressure_io_some_ratio",
    "pressure_memory_some_ratio",
    "memory_used_bytes",
    "memory_cached_bytes",
    "memory_dirty_bytes",
    "page_faults_minor_per_s",
    "page_faults_major_per_s",
    "disk_vda_read_bytes_per_s",
    "disk_vda_write_bytes_per_s",
    "disk_vda_busy_ratio",
    "network_eth0_receive_bytes_per_s",
    "network_eth0_transmit_bytes_per_s",
    "network_eth0_receive_drops_per_s",
    "users",
)


class Role(NamedTuple):
    """The purpose of a process. Ranges are of the decimal logarithm; every process draws its own.

    Attributes:
        share: of the machine's processes.
        rate: requests a second.
        cost: CPU seconds of one.
        bytes: read and written by one.
        memory: resident bytes; those under 1 kB have none, and no descriptors: kernel threads.
        rhythm: how much of the day's rhythm and of the machine's common load it follows.
        bursts: an hour.

    """

    share: float
    rate: tuple[float, float]
    cost: tuple[float, float]
    bytes: tuple[float, float]
    memory: tuple[float, float]
    rhythm: float
    bursts: float


ROLES: Final = {
    "kworker": Role(0.40, (-3.0, 1.5), (-5.5, -4.0), (-2.0, -1.0), (0.0, 0.0), 0.3, 0.2),
    "idle": Role(0.22, (-4.3, -2.0), (-4.0, -1.5), (2.0, 6.0), (6.0, 7.5), 0.0, 0.0),
    "daemon": Role(0.18, (-2.0, 0.3), (-4.0, -2.0), (2.0, 5.0), (6.5, 8.0), 0.2, 0.3),
    "service": Role(0.15, (0.0, 2.0), (-4.0, -2.5), (2.0, 4.5), (7.0, 9.0), 1.0, 0.5),
    "database": Role(0.02, (1.0, 2.5), (-4.0, -3.0), (3.0, 5.0), (8.5, 9.7), 1.0, 1.0),
    "batch": Role(0.03, (-1.0, 1.0), (-2.5, -1.5), (4.0, 6.0), (7.5, 9.0), 0.0, 2.0),
}

SHORT_NAMES: Final = ("sh", "cc1", "python3", "cron", "git", "ssh", "curl", "sed", "make", "gzip")
"""The names of short-lived processes."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of machine.

    Attributes:
        name: what it is called in tables.
        processes: that live long.
        interval_s: between ticks.
        cores: of its processor.
        short_per_h: processes that come and go, an hour.

    """

    name: str
    processes: int
    interval_s: float
    cores: int
    short_per_h: float


class Fault(NamedTuple):
    """A trouble that is injected.

    Attributes:
        kind: `hog`, `leak`, `shift`, `io`, `descriptors`.
        process: number of the long-lived process.
        start, end: seconds since the Unix epoch.
        strength: of the decimal logarithm of what it takes, 0 to 1.

    """

    kind: str
    process: int
    start: float
    end: float
    strength: float


class Tick(NamedTuple):
    """The frame that the agent would have published at one tick; values have the shape (rows, features)."""

    ts: float
    layout: Layout
    values: Matrix
    host: Matrix


class Lives(NamedTuple):
    """Processes that come and go: when, and what they do; one entry each."""

    names: list[str]
    births: Vector
    deaths: Vector
    rates: Vector
    costs: Vector
    sizes: Vector
    memory: Vector


GAUGES: Final = (
    "processes_running",
    "processes_blocked",
    "load_1m",
    "load_15m",
    "memory_used_bytes",
    "memory_cached_bytes",
    "memory_dirty_bytes",
    "users",
)
"""The features of the host that need no earlier tick."""

HOST_LAYOUT: Final = make_layout(("host",), ("host",), HOST_FEATURES)


class Machine:
    """One machine for some days.

    Args:
        kind: of machine.
        days: how long it runs.
        seed: of the random numbers.
        faults: troubles; what happens else is the same with them and without.

    """

    def __init__(self, kind: Kind, days: float, seed: int, faults: tuple[Fault, ...] = ()) -> None:
        self.kind = kind
        self.days = days
        self._faults = faults
        self._random = np.random.default_rng([seed, kind.processes, round(kind.interval_s * 1000)])
        self._end = START + days * DAY_S
        self._draw_processes()
        self._draw_events()
        self._lives = self._draw_lives()
        count = kind.processes
        # Recursions, a line each: slow drift, bursts, memory steps; the machine's common load; what the host averages.
        self._state = np.zeros((3, count))
        self._common = np.zeros(2)
        self._host_state = np.zeros(4)
        self._layouts: dict[tuple[bytes, bytes], Layout] = {}

    def _draw_processes(self) -> None:
        random, count = self._random, self.kind.processes
        shares = np.array([role.share for role in ROLES.values()])
        numbers = np.repeat(np.arange(len(ROLES)), np.ceil(shares * count).astype(int))[:count]
        roles = [list(ROLES.values())[number] for number in numbers]
        self.names = [f"{list(ROLES)[number]}-{index // 3}" for index, number in enumerate(numbers)]

        def drawn(ranges: list[tuple[float, float]]) -> Vector:
            low, high = np.array(ranges).T
            values: Vector = 10.0 ** random.uniform(low, high)
            return values

        self._rate = drawn([role.rate for role in roles])
        self._cost = drawn([role.cost for role in roles])
        self._size = drawn([role.bytes for role in roles])
        self._memory = drawn([role.memory for role in roles])
        self.kernel = self._memory < 1e3
        self._rhythm = np.array([role.rhythm for role in roles]) * random.uniform(0.5, 1.5, count)
        self._bursts = np.array([role.bursts for role in roles]) * random.lognormal(0.0, 0.7, count)
        self._burst_s = 10.0 ** random.uniform(0.7, 2.5, count)
        self._drift_s = 10.0 ** random.uniform(2.0, 4.0, count)
        self._drift = random.uniform(0.05, 0.4, count)
        self._uneven = random.uniform(0.3, 3.0, count)  # the shape of the work of one request
        self._user = random.beta(4.0, 2.0, count)
        self._grows_s = np.where(random.random(count) < 0.2, 10.0 ** random.uniform(2.5, 4.5, count), 0.0)
        self._grows = random.uniform(0.05, 0.6, count)
        self._steps_per_h = 10.0 ** random.uniform(-1.0, 1.5, count)
        self._threads = np.where(self.kernel, 1.0, np.ceil(random.lognormal(1.0, 1.2, count)))
        self._descriptors = np.where(self.kernel, 0.0, np.ceil(random.lognormal(2.5, 1.0, count)))
        self._hourly = random.random(count) < 0.05
        self._hidden = random.random(count) < 0.05  # their input and output may not be read

    def _draw_events(self) -> None:
        """Restarts of single processes, deployments of all services, reboots; what happens at which hour."""
        random, count = self._random, self.kind.processes
        services = np.array([name.startswith(("service", "batch")) for name in self.names])
        births = []
        deployments = START + DAY_S * (np.arange(1.4, self.days, 2.0) + random.uniform(0.0, 0.3))
        self.reboots = START + DAY_S * (np.arange(2.5, self.days, 4.0) + random.uniform(0.0, 0.5))
        for number in range(count):
            own = START + random.uniform(0.0, self.days * DAY_S, random.poisson(self.days / 30.0))
            rolled = deployments + random.uniform(0.0, 60.0) if services[number] else deployments[:0]
            each = own[:0] if self.kernel[number] else np.concatenate([own, rolled])
            births.append(np.sort(np.concatenate([[START - 30 * DAY_S], each, self.reboots])))
        self._births = births
        self._cron_s = random.uniform(0.0, 3600.0)
        self._backup_s = random.uniform(1.0, 4.0) * 3600.0
        self._peak_s = random.uniform(11.0, 17.0) * 3600.0

    def _draw_lives(self) -> Lives:
        random, kind = self._random, self.kind
        days = int(np.ceil(self.days))
        count = random.poisson(kind.short_per_h * 24.0 * self.days)
        births = START + random.uniform(0.0, self.days * DAY_S, count)
        # More of them when people are at work.
        busy = self._day(births)
        births = births[random.random(count) < busy / 1.8]
        count = len(births)
        names = [SHORT_NAMES[number] for number in random.integers(len(SHORT_NAMES), size=count)]
        for index in np.flatnonzero(random.random(count) < 0.05):
            names[index] = f"tool-{index}"  # never seen before
        lasts = np.minimum(random.lognormal(2.0, 1.6, count), LONGEST_S)
        rates, costs = 10.0 ** random.uniform(0.0, 2.0, count), 10.0 ** random.uniform(-3.5, -2.2, count)
        sizes, memory = 10.0 ** random.uniform(2.0, 5.5, count), 10.0 ** random.uniform(6.3, 8.5, count)
        # Scheduled jobs: each hour, each night, every five minutes.
        hours = START + self._cron_s + 3600.0 * np.arange(24 * days)
        nights = START + self._backup_s + DAY_S * np.arange(days)
        often = START + 300.0 * np.arange(288 * days) + self._cron_s % 300.0
        for name, at, last, rate, cost, size, held in (
            ("hourly", hours, random.uniform(20.0, 90.0), 50.0, 8e-3, 2e4, 6e7),
            ("backup", nights, random.uniform(1500.0, 3000.0), 200.0, 1.5e-3, 3e5, 2e8),
            ("collect", often, 1.5, 20.0, 2e-3, 2e4, 1e7),
        ):
            names += [name] * len(at)
            births = np.concatenate([births, at + random.uniform(0.0, 2.0, len(at))])
            lasts = np.concatenate([lasts, last * random.lognormal(0.0, 0.15, len(at))])
            rates = np.concatenate([rates, np.full(len(at), rate)])
            costs = np.concatenate([costs, np.full(len(at), cost)])
            sizes = np.concatenate([sizes, np.full(len(at), size)])
            memory = np.concatenate([memory, np.full(len(at), held)])
        order = np.argsort(births)
        names = [names[index] for index in order]
        each = (births, births + lasts, rates, costs, sizes, memory)
        return Lives(names, *(values[order] for values in each))

    def _day(self, ts: Vector) -> Vector:
        """The rhythm of the day, and of the week: around 1."""
        peak = np.cos(2.0 * np.pi * (ts - self._peak_s) / DAY_S)
        weekend = ((ts // DAY_S) % 7 >= 5).astype(float)
        result: Vector = np.exp(0.6 * peak) * (1.0 - 0.4 * weekend)
        return result

    def ticks(self) -> Iterator[Tick]:
        """All ticks, in order."""
        step = self.kind.interval_s
        length = max(BLOCK // self.kind.processes, 16)
        total = round(self.days * DAY_S / step)
        for first in range(0, total, length):
            ts: Vector = START + step * np.arange(first, min(first + length, total), dtype=np.float64)
            # The agent's timer is late now and then.
            ts += self._random.exponential(0.002, len(ts))
            yield from self._block(ts)

    def _block(self, ts: Vector) -> Iterator[Tick]:
        off = np.zeros(len(ts), bool)
        fresh = np.zeros(len(ts), bool)
        for reboot in self.reboots:
            off |= (ts >= reboot) & (ts < reboot + 90.0)
            fresh |= (ts >= reboot + 90.0) & (ts < reboot + 90.0 + self.kind.interval_s)
        lives = self._lives
        first, last = np.searchsorted(lives.births, [ts[0] - LONGEST_S, ts[-1]])
        picked = first + np.flatnonzero(lives.deaths[first:last] > ts[0])
        long, host_load = self._long(ts)
        short = self._short(ts, picked)
        values = np.concatenate([long, short], axis=2)
        host = self._host(ts, values, host_load)
        values[: len(RATES), fresh] = np.nan
        host[fresh] = np.where(np.isin(HOST_FEATURES, GAUGES), host[fresh], np.nan)
        instances = np.stack([np.searchsorted(births, ts, side="right") for births in self._births], axis=1)
        there = (ts[:, None] >= lives.births[picked]) & (ts[:, None] < lives.deaths[picked])
        changed = (np.diff(instances, axis=0) != 0).any(axis=1) | (np.diff(there, axis=0) != 0).any(axis=1)
        cuts = [0, *(np.flatnonzero(changed) + 1), len(ts)]
        for begin, end in pairwise(cuts):
            layout = self._layout(instances[begin], picked[there[begin]])
            columns = np.concatenate(
                [np.arange(self.kind.processes), self.kind.processes + np.flatnonzero(there[begin])]
            )
            part = values[:, begin:end][:, :, columns]
            for index in range(end - begin):
                if not off[begin + index]:
                    yield Tick(
                        float(ts[begin + index]), layout, part[:, index].T, host[begin + index : begin + index + 1]
                    )

    def _layout(self, instances: NDArray[np.intp], picked: NDArray[np.intp]) -> Layout:
        key = instances.tobytes(), picked.tobytes()
        layout = self._layouts.get(key)
        if layout is None:
            rows = [
                f"{name}[{index}@{instance}]"
                for index, (name, instance) in enumerate(zip(self.names, instances, strict=True))
            ]
            short = [self._lives.names[index] for index in picked]
            rows += [f"{name}[s{index}@0]" for name, index in zip(short, picked, strict=True)]
            layout = make_layout(rows, [*self.names, *short], FEATURES)
            self._layouts = {key: layout}
        return layout

    def _long(self, ts: Vector) -> tuple[Matrix, Vector]:
        """The long-lived processes: the shape is (features, ticks, processes); and the machine's common load."""
        random, step = self._random, self.kind.interval_s
        shape = (len(ts), self.kind.processes)
        drift = random.standard_normal(shape, np.float32) * (self._drift * np.sqrt(2.0 * step / self._drift_s))
        burst = random.random(shape, np.float32) < self._bursts * (step / 3600.0)
        bursts = np.zeros(shape)
        bursts[burst] = np.minimum(random.pareto(1.3, int(burst.sum())) + 1.0, 300.0)
        stepped = random.random(shape, np.float32) < self._steps_per_h * (step / 3600.0)
        steps = np.zeros(shape)
        steps[stepped] = random.standard_t(2.5, int(stepped.sum())) * 0.02
        common = random.standard_normal((len(ts), 1)) * 0.3 * np.sqrt(2.0 * step / 600.0)
        surges = random.random((len(ts), 1)) < 4.0 * step / DAY_S
        surge = np.where(surges, np.minimum(random.pareto(1.5, surges.shape), 5.0), 0.0)
        keep = np.exp(-step / np.stack([self._drift_s, self._burst_s, np.full(shape[1], 4 * 3600.0)]))
        state, load = self._state, self._common
        series = np.stack([drift, bursts, steps], axis=1)
        loads = np.concatenate([common, surge], axis=1)
        kept = np.exp(-step / np.array([600.0, 300.0]))
        for index in range(len(ts)):
            state = series[index] = state * keep + series[index]
            load = loads[index] = load * kept + loads[index]
        self._state, self._common = state, load
        shared = np.log(self._day(ts)) + loads[:, 0] + np.log1p(loads[:, 1])
        births = np.stack([each[np.searchsorted(each, ts, side="right") - 1] for each in self._births], axis=1)
        age = ts[:, None] - births
        rate = self._rate * np.exp(shared[:, None] * self._rhythm + series[:, 0]) * (1.0 + series[:, 1])
        rate *= 1.0 + 5.0 * np.exp(-age / 30.0)
        rate *= np.where(self._hourly & (((ts[:, None] - self._cron_s) % 3600.0) < 60.0), 20.0, 1.0)
        midnight = (ts % DAY_S < 20.0)[:, None] & ~self.kernel
        rate += np.where(midnight, 0.5, 0.0)
        warm = 1.0 - 0.7 * np.exp(-age / (60.0 + self._drift_s / 4.0))
        grown = (ts[:, None] / np.maximum(self._grows_s, 1.0) + self._grows * 7.0) % 1.0
        grown[:, self._grows_s == 0.0] = 0.0
        memory = self._memory * warm * np.exp(np.clip(series[:, 2], -1.0, 2.0)) * (1.0 + self._grows * grown)
        memory[:, self.kernel] = 0.0
        parameters = (self._cost, self._size, self._uneven, self._user, self._threads, self._descriptors)
        values = self._counters(ts, rate, memory, np.diff(memory, axis=0, prepend=memory[:1]), parameters)
        values[10:17, :, self._hidden] = np.nan
        for fault in self._faults:
            if fault.end > ts[0] and fault.start <= ts[-1]:
                inject(values[:, :, fault.process], ts, fault, step)
        lost = random.random(shape, np.float32) < 2e-6
        values[:, lost] = np.nan
        return values, np.exp(shared)

    def _short(self, ts: Vector, picked: NDArray[np.intp]) -> Matrix:
        lives = self._lives
        age = np.maximum(ts[:, None] - lives.births[picked], 0.0)
        count = len(picked)
        rate = np.broadcast_to(lives.rates[picked], age.shape)
        memory = lives.memory[picked] * (1.0 - 0.8 * np.exp(-age / 2.0))
        ones = np.ones(count)
        parameters = (lives.costs[picked], lives.sizes[picked], ones, 0.7 * ones, ones, 8.0 * ones)
        return self._counters(ts, rate, memory, np.diff(memory, axis=0, prepend=0.0 * memory[:1]), parameters)

    def _counters(
        self, ts: Vector, rate: Matrix, memory: Matrix, growth: Matrix, parameters: tuple[Vector, ...]
    ) -> Matrix:
        """Return the counters of processes by their requests a second, shape (features, ticks, processes)."""
        random, step = self._random, self.kind.interval_s
        cost, size, uneven, user, threads, descriptors = parameters
        shape = rate.shape
        noise = random.standard_normal((6, *shape), np.float32)
        requests = random.poisson(rate * step)
        work = random.standard_gamma(requests * uneven) * (cost / uneven)
        heavy = random.random(shape, np.float32) < 1e-3
        work[heavy] *= np.minimum(random.pareto(1.5, int(heavy.sum())) + 1.0, 100.0)
        # No more than there are threads and cores.
        busy = np.minimum(work / step, np.minimum(threads, self.kind.cores))
        total = busy.sum(axis=1, keepdims=True)
        busy *= np.minimum(1.0, 0.95 * self.kind.cores / np.maximum(total, 1e-9))
        crowd = np.minimum(total / self.kind.cores, 1.5) ** 2
        values = np.empty((len(FEATURES), *shape))
        share = np.clip(user + 0.05 * noise[0], 0.02, 0.98)
        values[0] = busy * share
        values[1] = busy * (1.0 - share)
        values[2] = (busy + 1e-5 * (requests > 0)) * crowd * np.exp(0.8 * noise[1])
        values[3] = 0.0
        moved = requests * size * np.exp(0.5 * noise[2])
        missed = random.random(shape, np.float32) < 0.02 * np.minimum(requests, 5)
        cold = np.zeros(shape)
        cold[missed] = np.minimum((random.pareto(1.2, int(missed.sum())) + 1.0) * 4096.0, 3e8)
        flushed = ((ts[:, None] + 7.0 * np.arange(shape[1])) % 30.0) < step
        written = np.where(flushed, moved * max(30.0 / step, 1.0), 0.0) // 4096.0 * 4096.0
        values[4] = (cold / 2e8 / step) * np.exp(0.5 * noise[3]) * (cold > 0)
        slices = requests * 1.5 + busy * step * 50.0
        values[5] = np.round(slices * np.exp(0.1 * noise[3])) / step
        values[6] = np.round(np.maximum(growth, 0.0) / 4096.0 + requests * (size / 3e4) * np.exp(0.6 * noise[4])) / step
        values[7] = np.where(cold > 1e6, np.ceil(cold / 1e6), 0.0) / step
        values[8] = np.round(requests * np.exp(0.1 * noise[4])) / step
        values[9] = random.poisson(np.minimum(busy * step * (1.0 + 30.0 * crowd), 1e6)) / step
        values[10] = moved / step
        values[11] = np.round(0.3 * moved * np.exp(0.4 * noise[5])) / step
        values[12] = requests * 2.0 / step
        values[13] = np.round(requests * np.exp(0.2 * noise[5])) / step
        values[14] = cold / step
        values[15] = written / step
        values[16] = np.where(missed & flushed, written * 0.1, 0.0) / step
        values[17] = memory // 4096.0 * 4096.0
        values[18] = np.where(memory > 0, (memory * 2.0 + 1e8) // 1048576.0 * 1048576.0, 0.0)
        values[19] = np.where(memory > 0, np.round(np.log2(np.maximum(memory, 1.0))) * 262144.0, 0.0)
        values[20] = 0.0
        together = np.minimum(rate * np.maximum(cost, 0.003) * 3.0, 1000.0)
        values[21] = threads + np.floor(np.minimum(together, threads))
        open_now = np.where(memory > 0, random.poisson(together), 0)
        values[22] = np.where(memory > 0, descriptors + open_now, 0.0)
        values[23] = np.where(memory > 0, np.floor(descriptors * 0.3) + open_now, 0.0)
        values[24:-1] = 0.0  # no children, no quota, no pressure
        values[-1] = self.kind.cores
        within = size < 1.0  # the kernel
        values[10:17, :, within] = 0.0
        values[6:8, :, within] = 0.0
        return values

    def _host(self, ts: Vector, values: Matrix, load: Vector) -> Matrix:
        """The host's row; the shape is (ticks, features)."""
        random, cores, step = self._random, self.kind.cores, self.kind.interval_s
        total = np.nansum(values, axis=2)
        count = len(ts)
        host = np.empty((count, len(HOST_FEATURES)))
        busy = np.minimum((total[0] + total[1]) / cores, 1.0)
        noise = random.standard_normal((6, count))
        forks = random.poisson(step * self.kind.short_per_h / 3600.0 * 3.0 * np.minimum(load, 5.0)) / step
        running = random.poisson(busy * cores)
        state = self._host_state
        loads = np.empty((count, 4))
        keep = np.exp(-step / np.array([60.0, 900.0, 30.0, 20000.0]))
        dirty = total[11] * 30.0
        inputs = np.stack([running, running, dirty, total[14] * step * 0.05 / (1.0 - keep[3])], axis=1)
        for index in range(count):
            state = loads[index] = state * keep + inputs[index] * (1.0 - keep)
        self._host_state = state
        reads, writes = total[14], total[15]
        disk = np.minimum((reads + writes) / 4e8, 1.0)
        host[:, 0] = total[8] + total[9] + 300.0 * np.exp(0.1 * noise[0])
        host[:, 1] = total[8] * 0.5 + 500.0 * np.exp(0.1 * noise[1])
        host[:, 2] = forks
        host[:, 3] = running + 1.0
        host[:, 4] = random.poisson(disk * 2.0)
        host[:, 5] = np.minimum(total[0] / cores, 1.0)
        host[:, 6] = np.minimum(total[1] / cores + 0.01 * np.exp(0.2 * noise[2]), 1.0)
        host[:, 7] = disk * 0.3 * (1.0 - busy)
        host[:, 8] = np.minimum(busy * (1.0 + np.abs(noise[3])), 1.0)
        host[:, 9:11] = loads[:, :2]
        host[:, 11] = np.minimum(busy**2 * np.exp(0.4 * noise[4]), 1.0)
        host[:, 12] = np.minimum(disk * 0.7 * np.exp(0.4 * noise[5]), 1.0)
        host[:, 13] = 0.0
        host[:, 14] = total[17] * 0.8 + 4e8
        host[:, 15] = 1e9 + np.minimum(loads[:, 3], 4e9)
        host[:, 16] = loads[:, 2]
        host[:, 17], host[:, 18] = total[6], total[7]
        host[:, 19], host[:, 20], host[:, 21] = reads, writes, disk
        packets = random.poisson(np.minimum(total[12] * 0.3 * step, 1e9)) / step
        host[:, 22] = packets * 400.0 * np.exp(0.3 * noise[0])
        host[:, 23] = packets * 2000.0 * np.exp(0.5 * noise[1])
        host[:, 24] = np.where(random.random(count) < 20.0 * step / DAY_S, random.poisson(2.0, count), 0.0) / step
        host[:, 25] = np.floor(2.0 * np.clip(self._day(ts) - 0.6, 0.0, None) + ((ts // 3571.0) * 7919 % 11 > 8))
        return host


def inject(values: Matrix, ts: Vector, fault: Fault, step: float) -> None:
    """Let one process go wrong, in place; its values have the shape (features, ticks)."""
    during = (ts >= fault.start) & (ts < fault.end)
    after = np.where(during, ts - fault.start, 0.0)
    scale = 10.0**fault.strength
    column = FEATURES.index
    if fault.kind == "hog":
        values[column("cpu_user_ratio")] += during * 0.1 * scale
        values[column("timeslices_per_s")] += during * 5.0 * scale
        values[column("switches_involuntary_per_s")] += during * 2.0 * scale
    elif fault.kind == "leak":
        rate = 2e6 * scale
        values[column("memory_rss_bytes")] += after * rate // 4096.0 * 4096.0
        values[column("memory_virtual_bytes")] += after * rate // 1048576.0 * 1048576.0
        values[column("page_faults_minor_per_s")] += during * rate / 4096.0
    elif fault.kind == "shift":
        values[:17] *= 1.0 + during * (2.0 * scale - 1.0)
    elif fault.kind == "io":
        rate = 5e6 * scale
        values[column("io_read_characters_per_s")] += during * rate
        values[column("io_read_bytes_per_s")] += during * rate
        values[column("io_read_operations_per_s")] += during * rate / 65536.0
        values[column("io_delay_ratio")] += during * min(rate / 2e8, 0.9)
        values[column("cpu_system_ratio")] += during * rate / 1e9
    else:
        values[column("descriptors")] += np.floor(after * 2.0 * scale)
        values[column("sockets")] += np.floor(after * 2.0 * scale)


FAULTS: Final = ("hog", "leak", "shift", "io", "descriptors")


def drawn_faults(machine: Machine, seed: int, per_day: int = 5) -> tuple[Fault, ...]:
    """Draw this number of faults per day, after the first half day, each in a process that is no kernel thread."""
    random = np.random.default_rng([seed, 7])
    own = np.flatnonzero(~machine.kernel)
    found = []
    gap = DAY_S / per_day
    for number in range(int((machine.days - 0.5) * per_day)):
        start = START + DAY_S / 2 + gap * number + random.uniform(0.0, 0.6) * gap
        last = random.uniform(60.0, 600.0)
        kind = FAULTS[number % len(FAULTS)]
        found.append(Fault(kind, int(random.choice(own)), start, start + last, float(random.random())))
    return tuple(found)
