"""All that can be counted of a host of the lab: its groups, its network, its disk and its processes.

Features are called as the agent calls them wherever it has the counter; a share of the host's CPUs is one of its quota.
Other counters of the kernel keep the kernel's name, with the unit after it.
"""

from __future__ import annotations

import math
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.host.processes import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from laggard.pipeline.core.records import Layout
    from tests.evaluation.lab.groups import Group
    from tests.evaluation.lab.hosts import Disk, Host

    Values = dict[str, float]

SECTOR: Final = 512
PAGE: Final = 4096
LOAD_S: Final = 60.0
MEMORY_BYTES: Final = re.compile(
    r"(cache|rss|rss_huge|shmem|mapped_file|dirty|writeback|swap|swapcached|(in)?active_(anon|file)|unevictable|"
    r"hierarchical_mem\w+_limit)$"
)
"""Of `memory.stat`, what is a size and no count of events."""
MEMORY_NAMES: Final = {
    "pgmajfault": "page_faults_major_per_s",
    "pgpgin": "memory_pages_charged_per_s",
    "pgpgout": "memory_pages_uncharged_per_s",
}
DISK: Final = {
    "read_operations_per_s": (0, 1.0),
    "read_merges_per_s": (1, 1.0),
    "read_bytes_per_s": (2, SECTOR),
    "read_time_ratio": (3, 1e-3),
    "write_operations_per_s": (4, 1.0),
    "write_merges_per_s": (5, 1.0),
    "write_bytes_per_s": (6, SECTOR),
    "write_time_ratio": (7, 1e-3),
    "busy_ratio": (9, 1e-3),
    "queue_ratio": (10, 1e-3),
    "flush_operations_per_s": (15, 1.0),
    "flush_time_ratio": (16, 1e-3),
}
"""Columns of `/proc/diskstats` after the name, and their units."""
INTERFACE: Final = ("bytes", "packets", "errors", "drops", "fifo_errors", "frame_errors", "compressed", "multicast")
"""Columns of `/proc/net/dev`, for each direction."""
NETWORK_GAUGES: Final = re.compile(r"tcp_curr_estab$|_(default_ttl|forwarding|rto_algorithm|rto_min|rto_max|max_conn)$")


class Rates:
    """Counters that become rates: differences over the time between two looks, NaN at the first."""

    def __init__(self) -> None:
        self._last: Values = {}
        self._last_s = math.nan

    def read(self, counted: Values, gauges: Values) -> Values:
        """All of both, the counters as rates."""
        now_s = time.monotonic()
        elapsed_s = now_s - self._last_s
        values = {name: (count - self._last.get(name, math.nan)) / elapsed_s for name, count in counted.items()}
        self._last, self._last_s = counted, now_s
        return values | gauges


class HostCounters:
    """The row of a host, which has the disk or none, read every `interval_s`."""

    def __init__(self, host: Host, interval_s: float, disk: Disk | None = None) -> None:
        self._host = host
        self._forgets = 1 - math.exp(-interval_s / LOAD_S)
        self._disk = disk
        self._rates = Rates()
        self._load = 0.0

    def read(self) -> Values:
        """All features at once."""
        host = self._host
        counted: Values = {}
        gauges: Values = {}
        _add_group(host.group, "", counted, gauges, host.cores or 1.0)
        for name, group in host.groups.items():
            _add_group(group, f"group_{name}_", counted, gauges, host.cores or 1.0)
        pids = list(host.group.pids())
        if pids:
            _add_network(f"/proc/{pids[0]}/net", counted, gauges)
        states = [state for pid in pids if (state := _state(pid))]
        gauges["processes"] = float(len(states))
        gauges["processes_running"] = float(states.count("R"))
        gauges["processes_blocked"] = float(states.count("D"))
        self._load += (states.count("R") + states.count("D") - self._load) * self._forgets
        gauges["load_1m"] = self._load
        if self._disk:
            _add_disk(self._disk, counted)
        values = self._rates.read(counted, gauges)
        if host.cores:
            values["cpu_idle_ratio"] = max(0.0, 1.0 - values["cpu_busy_ratio"])
        if host.memory_bytes:
            held = values["memory_usage_bytes"]
            values["memory_free_bytes"] = host.memory_bytes - held
            values["memory_used_bytes"] = held - values["memory_cached_bytes"]
            values["memory_available_bytes"] = host.memory_bytes - values["memory_used_bytes"]
        periods = values.pop("cpu_quota_periods_per_s")
        values["cpu_quota_throttled_ratio"] = values["cpu_quota_throttled_per_s"] / periods if periods else 0.0
        return values


def _add_group(group: Group, before: str, counted: Values, gauges: Values, cores: float) -> None:
    """What a group counts."""
    cpu = _pairs(group, "unified", "cpu.stat")
    for name, feature in (("usage", "busy"), ("user", "user"), ("system", "system")):
        counted[f"{before}cpu_{feature}_ratio"] = cpu[f"{name}_usec"] / 1e6 / cores
    for number, used_ns in enumerate(_text(group, "cpuacct", "cpuacct.usage_percpu").split()):
        counted[f"{before}cpu_core_{number}_busy_ratio"] = int(used_ns) / 1e9
    if not before:
        quota = _pairs(group, "cpu", "cpu.stat")
        counted["cpu_quota_periods_per_s"] = quota["nr_periods"]
        counted["cpu_quota_throttled_per_s"] = quota["nr_throttled"]
        counted["cpu_quota_throttled_time_ratio"] = quota["throttled_time"] / 1e9
        for kind in ("read", "write"):
            for what, unit in (("io_serviced", "operations"), ("io_service_bytes", "bytes")):
                text = _text(group, "blkio", f"blkio.throttle.{what}_recursive").lower()
                found = sum(map(int, re.findall(rf"{kind} (\d+)", text)))
                counted[f"io_{kind}_{unit}_per_s"] = found
    for resource in ("cpu", "io", "memory"):
        for line in _text(group, "unified", f"{resource}.pressure").splitlines():
            kind, *_, total = line.split()
            counted[f"{before}pressure_{resource}_{kind}_ratio"] = int(total.partition("=")[2]) / 1e6
    gauges[f"{before}memory_usage_bytes"] = float(_text(group, "memory", "memory.usage_in_bytes"))
    gauges[f"{before}memory_peak_bytes"] = float(_text(group, "memory", "memory.max_usage_in_bytes"))
    counted[f"{before}memory_limit_hits_per_s"] = float(_text(group, "memory", "memory.failcnt"))
    gauges[f"{before}kernel_memory_bytes"] = float(_text(group, "memory", "memory.kmem.usage_in_bytes"))
    gauges[f"{before}kernel_memory_tcp_bytes"] = float(_text(group, "memory", "memory.kmem.tcp.usage_in_bytes"))
    memory = _pairs(group, "memory", "memory.stat")
    counted[f"{before}page_faults_minor_per_s"] = memory.pop("total_pgfault") - memory["total_pgmajfault"]
    for name, count in memory.items():
        if not name.startswith("total_"):  # each says what is in the groups below it, too
            continue
        kind = name.removeprefix("total_")
        if MEMORY_BYTES.match(kind):
            gauges[f"{before}memory_{'cached' if kind == 'cache' else kind}_bytes"] = count
        else:
            counted[before + MEMORY_NAMES.get(kind, f"{kind}_per_s")] = count
    for line in _text(group, "memory", "memory.numa_stat").splitlines():
        name, pages = line.split()[0].split("=")
        gauges[f"{before}memory_numa_{name}_bytes"] = float(pages) * PAGE


def _add_network(folder: str, counted: Values, gauges: Values) -> None:
    """What a network namespace counts; `folder` is the `net` of a process in it."""
    for line in Path(folder, "dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        for place, number in enumerate(numbers.split()):
            direction = "receive" if place < len(INTERFACE) else "transmit"
            counted[f"network_{name.strip()}_{direction}_{INTERFACE[place % len(INTERFACE)]}_per_s"] = int(number)
    for file in ("snmp", "netstat"):
        lines = Path(folder, file).read_text().splitlines()
        for names, numbers in zip(lines[::2], lines[1::2], strict=True):
            protocol, _, heads = names.partition(":")
            for head, number in zip(heads.split(), numbers.partition(":")[2].split(), strict=True):
                _sort(f"network_{_snake(protocol)}_{_snake(head)}", int(number), counted, gauges)
    with suppress(FileNotFoundError):
        for line in Path(folder, "snmp6").read_text().splitlines():
            name, number = line.split()
            _sort(f"network_{_snake(name)}", int(number), counted, gauges)
    for line in Path(folder, "sockstat").read_text().splitlines():
        protocol, _, pairs = line.partition(":")
        words = pairs.split()
        for name, number in zip(words[::2], words[1::2], strict=True):
            gauges[f"sockets_{_snake(protocol)}_{name}"] = float(number)


def _sort(name: str, number: int, counted: Values, gauges: Values) -> None:
    if NETWORK_GAUGES.search(name):
        gauges[name] = number
    else:
        counted[f"{name}_per_s"] = number


def _add_disk(disk: Disk, counted: Values) -> None:
    """What the kernel counts of the disk, called `data`."""
    for line in Path("/proc/diskstats").read_text().splitlines():
        _, _, name, *columns = line.split()
        if name == disk.device:
            for feature, (column, unit) in DISK.items():
                counted[f"disk_data_{feature}"] = int(columns[column]) * unit


def _text(group: Group, hierarchy: str, name: str) -> str:
    return (group.paths[hierarchy] / name).read_text()


def _pairs(group: Group, hierarchy: str, name: str) -> dict[str, int]:
    return {words[0]: int(words[1]) for words in map(str.split, _text(group, hierarchy, name).splitlines())}


def _state(pid: int) -> str:
    """The state of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def process_rows(
    hosts: list[Host], layout: Layout, values: NDArray[np.float64]
) -> Iterator[tuple[Host, Mapping[str, NDArray[np.float64]]]]:
    """Of what the agent read of all processes, those of each host, by name: sums, NaN only where all are."""
    by_pid = {
        int(row.rpartition("[")[2].partition("@")[0]): (name, each)
        for row, name, each in zip(layout.rows, layout.names, values, strict=True)
    }
    for host in hosts:
        named: dict[str, list[NDArray[np.float64]]] = {}
        for pid in sorted(host.group.pids()):
            if pid in by_pid:
                name, each = by_pid[pid]
                named.setdefault(name, []).append(each)
        rows = {}
        for name, each in sorted(named.items()):
            stacked = np.array(each)
            missing = np.isnan(stacked).all(axis=0)
            rows[name] = np.where(missing, np.nan, np.nansum(stacked, axis=0))
            rows[name][-len(SHARED) :] = stacked[0, -len(SHARED) :]  # of their group, and not of each
        yield host, rows
