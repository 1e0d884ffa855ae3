"""The host's own counters as one row: processors, load, pressure, memory, paging, devices, and used capacity."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import psutil

from laggard.pipeline.core.records import Layout, make_layout
from laggard.producers.host.cpu_limits import CpuLimits
from laggard.producers.host.filling import Filling
from laggard.producers.system.open_files import FileBudget
from laggard.producers.system.proc import (
    parse_load,
    parse_meminfo,
    parse_pressure,
    parse_system_stat,
    parse_vmstat,
    whole_disks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from laggard.producers.system.clock import Clock
    from laggard.producers.system.proc import Cpu, SystemStat

    Values = dict[str, float]

MAX_DEVICES = 32
"""The most disks, and the most interfaces, with features of their own: the first ones by name that were ever active."""

_FILES = ("stat", "loadavg", "meminfo", "vmstat", "pressure/cpu", "pressure/io", "pressure/memory")
_STAT, _LOAD, _MEMINFO, _VMSTAT = range(4)
_PRESSURES = {"cpu": 4, "io": 5, "memory": 6}
_CPU_MODES = (
    "cpu_user_ratio",
    "cpu_nice_ratio",
    "cpu_system_ratio",
    "cpu_idle_ratio",
    "cpu_io_wait_ratio",
    "cpu_interrupt_ratio",
    "cpu_soft_interrupt_ratio",
    "cpu_steal_ratio",
)
_DISK = {
    "read_bytes_per_s": ("read_bytes", 1.0),
    "write_bytes_per_s": ("write_bytes", 1.0),
    "read_operations_per_s": ("read_count", 1.0),
    "write_operations_per_s": ("write_count", 1.0),
    "read_time_ratio": ("read_time", 1e-3),
    "write_time_ratio": ("write_time", 1e-3),
    "busy_ratio": ("busy_time", 1e-3),
}
_INTERFACE = {
    "receive_bytes_per_s": ("bytes_recv", 1.0),
    "transmit_bytes_per_s": ("bytes_sent", 1.0),
    "receive_packets_per_s": ("packets_recv", 1.0),
    "transmit_packets_per_s": ("packets_sent", 1.0),
    "receive_errors_per_s": ("errin", 1.0),
    "transmit_errors_per_s": ("errout", 1.0),
    "receive_drops_per_s": ("dropin", 1.0),
    "transmit_drops_per_s": ("dropout", 1.0),
}


class HostCounters:
    """The counters of a host at a tick.

    - Processor modes are shares of all processors together; `cpu_busiest_core_ratio` is the share of the busiest one.
    - Pressure is the share of time in which some or all tasks stalled on the resource.
    - A disk's `read_time_ratio` is the mean number of reads in flight.
    - `cpu_throttled_ratio` is the share of time in which the hottest processor was throttled by heat.
    - `cpu_capped_ratio` is the share of the highest frequency that is not allowed now.
    - `boot_timestamp_seconds` is the boot time, since the Unix epoch.
    - `Filling` describes the features of used capacity.

    Features that this kernel does not count are missing. A feature that can no longer be read is NaN, and so is the
    rate of a counter that went backwards.

    Args:
        clock: the clock of the rates.
        root: the mount point of procfs.
        processors: the folder of the processors in sysfs.

    Attributes:
        read_errors: the number of sources that failed at the last tick.

    """

    def __init__(self, clock: Clock, root: str = "/proc", processors: str = "/sys/devices/system/cpu") -> None:
        self.read_errors = 0
        self._clock = clock
        self._root = root
        self._files = FileBudget(len(_FILES))
        self._descriptors = [-1] * len(_FILES)
        self._limits = CpuLimits(processors)
        self._filling = Filling(clock, root)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        # Each returns counters since boot, which become rates, and present values.
        self._sources: tuple[Callable[[], tuple[Values, Values]], ...] = (
            self._system,
            self._load,
            self._pressure,
            self._memory,
            self._paging,
            self._disks,
            self._interfaces,
            self._users,
            self._throttling,
            self._full,
        )
        self._names: list[tuple[str, ...]] = [()] * len(self._sources)
        self._last: Values = {}
        self._last_s = 0.0
        self._last_system: SystemStat | None = None
        self._layout: Layout | None = None

    def close(self) -> None:
        """Close all files; the next tick opens them again."""
        self._files.release(self._descriptors)
        self._limits.close()

    def read(self) -> tuple[Layout, NDArray[np.float64]]:
        """Read all counters. The values have the shape (1, features) and are read-only."""
        self.read_errors = 0
        now_s = self._clock.monotonic() / 1e9
        elapsed_s = now_s - self._last_s
        counters: Values = {}
        values: Values = {}
        with _psutil_root(self._root):
            for number, source in enumerate(self._sources):
                try:
                    counted, present = source()
                except Exception as error:  # noqa: BLE001 - one source's failure is not the others'
                    if self._names[number] or not isinstance(error, OSError):
                        self.read_errors += 1
                    values.update(dict.fromkeys(self._names[number], np.nan))
                    continue
                counters.update(counted)
                for name, count in counted.items():
                    difference = count - self._last.get(name, np.nan)
                    values[name] = difference / elapsed_s if difference >= 0 and elapsed_s > 0 else np.nan
                values.update(present)
                self._names[number] = (*counted, *present)
        self._last, self._last_s = counters, now_s
        if self._layout is None or self._layout.features != tuple(values):
            self._layout = make_layout(("host",), ("host",), values)
        row = np.array([list(values.values())], np.float64)
        row.setflags(write=False)
        return self._layout, row

    def _system(self) -> tuple[Values, Values]:
        system = parse_system_stat(self._text(_STAT), self._path(_STAT))
        last, self._last_system = self._last_system, system
        counters: Values = {
            "switches_per_s": system.switches,
            "interrupts_per_s": system.interrupts,
            "soft_interrupts_per_s": system.soft_interrupts,
            "forks_per_s": system.forks,
        }
        values: Values = {"processes_running": system.running, "processes_blocked": system.blocked}
        shares = _shares(system.total, last.total if last else None)
        values.update(zip((*_CPU_MODES, "cpu_guest_ratio", "cpu_busy_ratio"), shares, strict=True))
        cores = [_shares(cpu, last.cpus.get(name))[-1] for name, cpu in system.cpus.items()] if last else []
        values["cpu_busiest_core_ratio"] = max((core for core in cores if core == core), default=np.nan)  # noqa: PLR0124
        values["cpus"] = len(system.cpus)
        values["boot_timestamp_seconds"] = system.boot
        return counters, values

    def _load(self) -> tuple[Values, Values]:
        loads = parse_load(self._text(_LOAD), self._path(_LOAD))
        return {}, dict(zip(("load_1m", "load_5m", "load_15m"), loads, strict=True))

    def _pressure(self) -> tuple[Values, Values]:
        counters: Values = {}
        for resource, which in _PRESSURES.items():
            totals = parse_pressure(self._text(which), self._path(which))
            for kind, total_us in totals.items():
                counters[f"pressure_{resource}_{kind}_ratio"] = total_us / 1e6
        return counters, {}

    def _memory(self) -> tuple[Values, Values]:
        memory = parse_meminfo(self._text(_MEMINFO), self._path(_MEMINFO))
        return {}, {
            "memory_used_bytes": memory.total - memory.available,
            "memory_available_bytes": memory.available,
            "memory_free_bytes": memory.free,
            "memory_cached_bytes": memory.cached,
            "memory_buffers_bytes": memory.buffers,
            "memory_shared_bytes": memory.shared,
            "memory_slab_bytes": memory.slab,
            "memory_active_bytes": memory.active,
            "memory_inactive_bytes": memory.inactive,
            "memory_dirty_bytes": memory.dirty,
            "memory_writeback_bytes": memory.writeback,
            "swap_used_bytes": memory.swap_total - memory.swap_free,
            "swap_free_bytes": memory.swap_free,
        }

    def _paging(self) -> tuple[Values, Values]:
        events = parse_vmstat(self._text(_VMSTAT), self._path(_VMSTAT))
        return {
            "page_faults_minor_per_s": events.faults - events.faults_major,
            "page_faults_major_per_s": events.faults_major,
            "paging_in_bytes_per_s": events.paged_in * 1024,
            "paging_out_bytes_per_s": events.paged_out * 1024,
            "swap_in_bytes_per_s": events.swapped_in * self._page_bytes,
            "swap_out_bytes_per_s": events.swapped_out * self._page_bytes,
            "page_scans_per_s": events.scanned,
            "out_of_memory_kills_per_s": events.kills,
        }, {}

    def _disks(self) -> tuple[Values, Values]:
        disks = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
        whole = whole_disks(set(disks))
        return _devices("disk", {name: disk for name, disk in disks.items() if name in whole}, _DISK), {}

    def _interfaces(self) -> tuple[Values, Values]:
        return _devices("network", psutil.net_io_counters(pernic=True, nowrap=False), _INTERFACE), {}

    def _users(self) -> tuple[Values, Values]:
        return {}, {"users": len(psutil.users())}

    def _throttling(self) -> tuple[Values, Values]:
        throttled_s, capped = self._limits.throttled_s(), self._limits.capped_ratio()
        counters = {} if throttled_s is None else {"cpu_throttled_ratio": throttled_s}
        return counters, {} if capped is None else {"cpu_capped_ratio": capped}

    def _full(self) -> tuple[Values, Values]:
        return {}, self._filling.read()

    def _text(self, which: int) -> bytes:
        return self._files.read(self._descriptors, which, self._path(which))

    def _path(self, which: int) -> str:
        return f"{self._root}/{_FILES[which]}"


def _shares(now: Cpu, last: Cpu | None) -> tuple[float, ...]:
    """Return shares of the time since the last reading: of `_CPU_MODES`, of guests, of all work; NaN without time."""
    if last is None:
        return (np.nan,) * (len(_CPU_MODES) + 2)
    # The kernel lets iowait, and with it idle, step back a little: that is zero time, not a negative one.
    spent = [max(0, new - old) for new, old in zip(now, last, strict=True)]
    user, nice, *others, guest, guest_nice = spent
    modes = [max(0, user - guest), max(0, nice - guest_nice), *others]
    guests = guest + guest_nice
    total = sum(modes) + guests
    if not total:
        return (np.nan,) * (len(_CPU_MODES) + 2)
    idle = modes[3] + modes[4]
    return (*(mode / total for mode in modes), guests / total, 1 - idle / total)


def _devices(kind: str, devices: Mapping[str, tuple[float, ...]], features: Mapping[str, tuple[str, float]]) -> Values:
    """Return the counters of each device that was ever active, in base units."""
    counters: Values = {}
    used = sorted(name for name, device in devices.items() if any(device))
    for name in used[:MAX_DEVICES]:
        for feature, (field, unit) in features.items():
            counters[f"{kind}_{name}_{feature}"] = getattr(devices[name], field) * unit
    return counters


@contextmanager
def _psutil_root(root: str) -> Iterator[None]:
    """Let psutil read below this root. psutil has one root for the whole program, so it is restored at once."""
    before = psutil.PROCFS_PATH
    psutil.PROCFS_PATH = root
    try:
        yield
    finally:
        psutil.PROCFS_PATH = before
