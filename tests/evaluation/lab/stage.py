"""The shop, its visitors and its neighbors at work, and all that can be counted of them."""

from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.host.processes import ProcessTable
from laggard.producers.system.clock import Clock
from tests.evaluation.lab.counters import HostCounters, process_rows
from tests.evaluation.lab.hosts import MIB, Disk, Host, Lab
from tests.evaluation.lab.servers import Servers
from tests.evaluation.lab.tiers import IMAGE_BYTES, PRODUCTS, WEB_PORT, Shop

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack

    from numpy.typing import NDArray

    from tests.evaluation.lab.scenarios import Scenario

PERFORMANCE: Final = (
    "throughput_per_s",
    "errors_per_s",
    "response_time_mean_s",
    "response_time_standard_deviation_s",
    "response_time_p50_s",
    "response_time_p75_s",
    "response_time_p90_s",
    "response_time_p95_s",
    "response_time_p99_s",
)
CAPACITY: Final = 140.0
"""Pages a second that the web tier can make; the two others can make more."""
APPLICATION_CORES: Final = 1.0
DATABASE_CORES: Final = 0.5
WEB_BYTES: Final = 160 * MIB
APPLICATION_BYTES: Final = 512 * MIB
DISK_BYTES_PER_S: Final = 128 * MIB
MEMORY_EATEN: Final = 180 * MIB
"""By the neighbor that eats memory, of that of the database's host."""
ARCHIVE_BYTES: Final = 256 * MIB
"""What the neighbor of the disk reads."""
WARM_UP_S: Final = 12.0
CALIBRATION_S: Final = 8.0
SETTLING_S: Final = 5.0
DELIVERY_S: Final = 0.02
"""How long an answer may be under way from the visitors to the recorder."""


@dataclass(slots=True)
class Interval:
    """What was seen of one interval.

    Attributes:
        begin, end: seconds since the Unix epoch.
        visitors: how many there were.
        performance: `PERFORMANCE`.
        hosts: rows of hosts.
        processes: by host and name, `FEATURES`.
        others_cores: CPU time that the rest of the machine took.

    """

    begin: float
    end: float
    visitors: int
    performance: dict[str, float] = field(default_factory=dict)
    hosts: dict[str, dict[str, float]] = field(default_factory=dict)
    processes: dict[str, Mapping[str, NDArray[np.float64]]] = field(default_factory=dict)
    others_cores: float = math.nan


class Stage:
    """The shop, its visitors and its neighbors at work, and the counters of all."""

    def __init__(self, lab: Lab, scenario: Scenario, interval_s: float, seed: int, closing: ExitStack) -> None:
        self._scenario = scenario
        self._seed = seed
        self.web = lab.host("web", WEB_BYTES)
        self.application = lab.host("app", APPLICATION_BYTES)
        self.database = lab.host("db", scenario.database_bytes)
        self.hosts = [self.web, self.application, self.database]
        clients = lab.host("clients")
        disk = Disk(lab, IMAGE_BYTES)
        shop = Shop(lab.folder, self.web, self.application, self.database, disk)
        clients.add("visitors")
        log = lab.folder / "answers"
        command = ["tests.evaluation.lab.visitors", self.web.address, str(WEB_PORT), str(seed), str(PRODUCTS)]
        self._visitors = clients.start("visitors", [sys.executable, "-m", *command], told=True, says=log)
        self._answers = closing.enter_context(log.open())
        self._late: list[tuple[float, float, int]] = []
        self._neighbours = self._start_neighbours(disk)
        self._group = lab.group
        self._last_cpu: tuple[float, float, float] | None = None
        self.servers = Servers(shop, interval_s / 3)
        closing.callback(self.servers.close)
        self._table = ProcessTable(Clock(), interval_s, command_lines=False)
        closing.callback(self._table.close)
        self._counters = {
            host.name: HostCounters(host, interval_s, disk if host is self.database else None) for host in self.hosts
        }
        self._disk = disk

    def _start_neighbours(self, disk: Disk) -> dict[str, subprocess.Popen[str]]:
        host = self._host()
        started = {}
        for noise in self._scenario.noise:
            host.add(noise.name)
            arguments = {"cpu": "1", "memory": str(MEMORY_EATEN), "disk": str(disk.folder / "archive")}
            if self._scenario.resource == "disk":
                with (disk.folder / "archive").open("wb") as file:
                    for _ in range(ARCHIVE_BYTES // MIB):
                        file.write(os.urandom(MIB))
            argument = arguments[self._scenario.resource]
            command = ["tests.evaluation.lab.neighbour", noise.name, self._scenario.resource, argument, str(self._seed)]
            started[noise.name] = host.start(noise.name, [sys.executable, "-m", *command], told=True)
        return started

    def _host(self) -> Host:
        return next(host for host in self.hosts if host.name == self._scenario.host)

    def prepare(self, visitors: int) -> float:
        """Warm up, and bound the hosts. Returns the CPU seconds of the web tier for one page."""
        self.come(visitors)
        time.sleep(WARM_UP_S)
        self._take_answers(math.inf)
        begin, begin_s = self._web_cpu_s(), time.time()
        time.sleep(CALIBRATION_S)
        pages = len(self._take_answers(time.time()))
        if pages < CALIBRATION_S:
            raise OSError(f"the shop gave {pages} answers in {time.time() - begin_s:.0f} s: expected some each second")
        cost_s = (self._web_cpu_s() - begin) / pages
        self.web.limit_cpu(cost_s * CAPACITY)
        self.application.limit_cpu(APPLICATION_CORES)
        self.database.limit_cpu(DATABASE_CORES)
        self._disk.limit(self.database.group, self._scenario.disk_operations_per_s, DISK_BYTES_PER_S)
        time.sleep(SETTLING_S)
        return cost_s

    def _web_cpu_s(self) -> float:
        return int((self.web.group.paths["cpuacct"] / "cpuacct.usage").read_text()) / 1e9

    def come(self, visitors: int) -> None:
        """Set the number of visitors."""
        tell(self._visitors, "the process of the visitors", str(visitors))

    def disturb(self, name: str, share: float) -> None:
        """Let a neighbor use a share of its host's CPU quota, memory or disk."""
        factor = self.web.cores if self._scenario.resource == "cpu" else 1.0
        tell(self._neighbours[name], name, f"{share * factor:.4f}")

    def read(self, interval: Interval) -> None:
        """Read all counters, those of the interval that has just ended."""
        self.servers.ask()
        interval.others_cores = self._others()
        interval.hosts = {host.name: self._counters[host.name].read() for host in self.hosts}
        layout, values = self._table.read()
        interval.processes = {host.name: rows for host, rows in process_rows(self.hosts, layout, values)}
        interval.performance = performance(self._take_answers(interval.end), interval.end - interval.begin)
        for host, answer in self.servers.answers().items():
            interval.hosts[host] |= answer

    def _take_answers(self, end: float) -> list[tuple[float, float, int]]:
        """Those that were complete by then."""
        time.sleep(DELIVERY_S)
        text = self._answers.read()
        taken = self._late
        for line in text.splitlines():
            ts, took, status = line.split()
            taken.append((float(ts), float(took), int(status)))
        self._late = [each for each in taken if each[0] > end]
        return [each for each in taken if each[0] <= end]

    def _others(self) -> float:
        """Cores that the rest of the machine used since the last look, and what other machines took of its host."""
        user, nice, system, _, _, interrupts, soft, steal, *_ = map(
            int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        )
        all_s = (user + nice + system + interrupts + soft + steal) / os.sysconf("SC_CLK_TCK")
        own_s = int((self._group.paths["cpuacct"] / "cpuacct.usage").read_text()) / 1e9 + time.process_time()
        now = time.monotonic(), all_s, own_s
        last, self._last_cpu = self._last_cpu, now
        return math.nan if last is None else (now[1] - last[1] - now[2] + last[2]) / (now[0] - last[0])


def tell(process: subprocess.Popen[str], name: str, line: str) -> None:
    """Say a line to a process. Raises OSError where it has ended."""
    assert process.stdin is not None
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise OSError(f"{name} ended before the scenario did") from None


def performance(answers: Sequence[tuple[float, float, int]], interval_s: float) -> dict[str, float]:
    """`PERFORMANCE` of answers: when each was complete, the seconds that it took, and its status."""
    took = np.array([each[1] for each in answers if each[2] == 200])
    values = [len(took) / interval_s, (len(answers) - len(took)) / interval_s]
    if len(took):
        values += [float(took.mean()), float(took.std()), *np.percentile(took, [50, 75, 90, 95, 99]).tolist()]
    else:
        values += [math.nan] * 7
    return dict(zip(PERFORMANCE, values, strict=True))
