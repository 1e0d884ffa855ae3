"""What ails a host when no process does: rules from its own counters to plain words. A page of rules, one a cause.

A rule holds where its counter has risen: it is far from its usual (`FIRM`) and, so that nobody is told of a thousandth,
at least what the rule asks for. Each gives figures. Those that are `outside` no program on the host can bring about.

References: Documentation/accounting/psi.rst (pressure), Documentation/admin-guide/iostats.rst (time of disks) of Linux;
B. Gregg, "The USE Method", 2012 (for each resource: utilisation, saturation, errors).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from laggard.pipeline.explaining.explain import beside_usual, clause, printable
from laggard.pipeline.explaining.units import readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laggard.operators.ranking import FeatureScore, RowScore

FIRM: Final = 15.0
"""A feature with this score is far from its usual (eight standard deviations), whatever the budget for alerts says."""

FORKS_PER_S: Final = 20.0
"""Processes that end before they are seen are a cause where at least so many begin in a second."""

BOOTED_S: Final = 600.0
"""A host that booted less than this before is told to have done so."""

SLOWER: Final = 3.0
"""A disk is slow where an operation takes so many times as long as usual ..."""

NO_BUSIER: Final = 1.5
"""... while it does no more than so many times as much."""

Resource = Literal["cpu", "disk", "memory", "network"]


@dataclass(frozen=True, slots=True)
class Cause:
    """What ails a host.

    Attributes:
        resource: what there is too little of.
        told: a clause with figures: `the hypervisor takes 38 % of its CPUs away, usually 0 ± 0.1 %`.
        feature: the counter that rose: since when it has been so can be seen in it.
        closer: how to look closer on that machine.
        outside: whether no program on the host can bring it about.

    """

    resource: Resource
    told: str
    feature: FeatureScore
    closer: str
    outside: bool = False


class HostCounters:
    """A host's counters beside their usual.

    Parameters:
        row: the host's, with all its features.

    """

    def __init__(self, row: RowScore) -> None:
        self._features = {each.feature: each for each in row.features}

    def value(self, feature: str) -> float:
        """What was judged: the mean of the last few values where there is one; NaN where it is not there."""
        found = self._features.get(feature)
        return math.nan if found is None else found.judged

    def usual(self, feature: str) -> float:
        """The usual mean; NaN where nothing is known."""
        found = self._features.get(feature)
        return math.nan if found is None else found.mean

    def risen(self, feature: str, least: float) -> FeatureScore | None:
        """The feature where it is far above its usual and at least `least`, in its base unit."""
        found = self._features.get(feature)
        return found if found is not None and found.score >= FIRM and found.judged >= least else None

    def told(self, feature: str) -> str:
        """A clause that says what it is and, where it is known, what is usual."""
        return beside_usual(self._features[feature], "host")

    def devices(self, kind: str, end: str) -> list[str]:
        """The devices of a kind that have a feature with this end, by name."""
        return [
            name.removeprefix(f"{kind}_").removesuffix(f"_{end}")
            for name in sorted(self._features)
            if name.startswith(f"{kind}_") and name.endswith(f"_{end}")
        ]

    def booted_s(self, ts: float) -> float:
        """How long before `ts` the host booted; NaN where that is unknown or long ago."""
        age_s = ts - self.value("boot_timestamp_seconds")
        return age_s if 0.0 <= age_s < BOOTED_S else math.nan


def causes(row: RowScore) -> tuple[Cause, ...]:
    """All causes that hold, those from outside first; of each resource otherwise the first only.

    Args:
        row: the host's, with all its features.

    """
    host = HostCounters(row)
    found = [cause for rule in RULES for cause in rule(host)]
    outside = [cause for cause in found if cause.outside]
    inside = {cause.resource: cause for cause in reversed(found) if not cause.outside}
    # A slow disk explains what waits for it.
    covered = {cause.resource for cause in outside}
    order = [cause for cause in found if inside.get(cause.resource) is cause and cause.resource not in covered]
    return (*outside, *order)


# The rules. Each gives the causes that it finds.


def stolen(host: HostCounters) -> Iterator[Cause]:
    """Steal time: the hypervisor runs others on the processors that this machine thinks it has."""
    if risen := host.risen("cpu_steal_ratio", 0.02):
        told = host.told("cpu_steal_ratio")
        yield Cause("cpu", told, risen, "`mpstat -P ALL 1`; ask whoever runs the hypervisor", outside=True)


def hot(host: HostCounters) -> Iterator[Cause]:
    """Heat, or a limit of power, slows the processors."""
    for feature in ("cpu_throttled_ratio", "cpu_capped_ratio"):
        if risen := host.risen(feature, 0.05):
            yield Cause(
                "cpu", host.told(feature), risen, "`sensors`; `dmesg | grep -i -e thermal -e throttl`", outside=True
            )
            return


def slow_disk(host: HostCounters) -> Iterator[Cause]:
    """A disk takes far longer for each operation although it does no more than usual."""
    for disk in host.devices("disk", "busy_ratio"):
        times = [f"disk_{disk}_{way}_time_ratio" for way in ("read", "write")]
        operations = [f"disk_{disk}_{way}_operations_per_s" for way in ("read", "write")]
        amounts = [f"disk_{disk}_{way}_bytes_per_s" for way in ("read", "write")]
        risen = next((found for each in (*times, f"disk_{disk}_busy_ratio") if (found := host.risen(each, 0.05))), None)
        rate, usual_rate = sum(map(host.value, operations)), sum(map(host.usual, operations))
        amount, usual_amount = sum(map(host.value, amounts)), sum(map(host.usual, amounts))
        if not (risen and rate > 0.0 and usual_rate > 0.0):
            continue
        each_s = sum(map(host.value, times)) / rate
        usual_s = sum(map(host.usual, times)) / usual_rate
        if each_s >= SLOWER * usual_s > 0.0 and rate <= NO_BUSIER * usual_rate and amount <= NO_BUSIER * usual_amount:
            told = (
                f"disk {(shown := printable(disk))} takes {readable('_s', each_s)} for an operation, usually "
                f"{readable('_s', usual_s)}, though it makes {readable('', rate)} a second, usually "
                f"{readable('', usual_rate)}"
            )
            closer = f"`iostat -x 1`; `dmesg | grep {shown}`; `smartctl -a /dev/{shown}`"
            yield Cause("disk", told, risen, closer, outside=True)


def damaged_network(host: HostCounters) -> Iterator[Cause]:
    """An interface loses packets."""
    for end in ("receive_errors_per_s", "transmit_errors_per_s", "receive_drops_per_s", "transmit_drops_per_s"):
        for interface in host.devices("network", end):
            if risen := host.risen(f"network_{interface}_{end}", 1.0):
                shown = printable(interface)
                closer = f"`ip -s -s link show {shown}`; `ethtool -S {shown}`"
                yield Cause("network", host.told(risen.feature), risen, closer)


def short_of_memory(host: HostCounters) -> Iterator[Cause]:
    """Memory is short: tasks wait for it, pages go out to swap and come back, or processes are killed for it."""
    signs = (
        ("out_of_memory_kills_per_s", 0.01),
        ("pressure_memory_some_ratio", 0.05),
        ("swap_in_bytes_per_s", 1e6),
        ("swap_out_bytes_per_s", 1e6),
        ("page_scans_per_s", 1000.0),
    )
    risen = [found for feature, least in signs if (found := host.risen(feature, least))]
    if risen:
        told = "; ".join(host.told(each.feature) for each in risen[:2])
        if not math.isnan(available := host.value("memory_available_bytes")):
            told += f"; {clause('memory_available_bytes', available, 'host')}"
        yield Cause("memory", told, risen[0], "who holds it: `ps -eo pid,rss,comm --sort -rss | head`; `vmstat 1`")


def cold_cache(host: HostCounters) -> Iterator[Cause]:
    """Programs and files are read from disk that are in memory at other times, as after a boot."""
    faults, paged = host.risen("page_faults_major_per_s", 10.0), host.risen("paging_in_bytes_per_s", 1e6)
    if not (faults and paged):
        return
    told = f"what is in memory at other times comes from disk: {host.told(faults.feature)}; {host.told(paged.feature)}"
    cached, usual = host.value("memory_cached_bytes"), host.usual("memory_cached_bytes")
    if cached < usual / 2.0:
        told += f"; only {host.told('memory_cached_bytes')}"
    yield Cause("disk", told, faults, "what is read: `iostat -x 1`; it gets better once the cache is warm")


def busy_disk(host: HostCounters) -> Iterator[Cause]:
    """A disk is loaded, or tasks wait for one, and no process is seen to do it: writing back, or a guest."""
    for disk in host.devices("disk", "busy_ratio"):
        if risen := host.risen(f"disk_{disk}_busy_ratio", 0.5):
            told = host.told(risen.feature)
            for end, least in (("write_bytes_per_s", 1e6), ("read_bytes_per_s", 1e6)):
                if host.value(amount := f"disk_{disk}_{end}") >= max(least, 2.0 * host.usual(amount)):
                    told += f"; {host.told(amount)}"
            if host.risen("memory_writeback_bytes", 1e6):
                told += f"; {host.told('memory_writeback_bytes')}"
            yield Cause("disk", told, risen, "`iostat -x 1`; `iotop -oPa`")
    if risen := host.risen("pressure_io_some_ratio", 0.1):
        yield Cause("disk", host.told(risen.feature), risen, "`iostat -x 1`; mounts over the network: `nfsiostat 1`")


def short_lived(host: HostCounters) -> Iterator[Cause]:
    """Processes that end before they are seen."""
    if risen := host.risen("forks_per_s", FORKS_PER_S):
        yield Cause("cpu", host.told("forks_per_s"), risen, "who starts them: `execsnoop` of bcc, or `forkstat`")


def interrupted(host: HostCounters) -> Iterator[Cause]:
    """Devices keep the processors busy, mostly the network."""
    for feature in ("cpu_soft_interrupt_ratio", "cpu_interrupt_ratio"):
        if risen := host.risen(feature, 0.1):
            told = host.told(feature)
            received = [
                f"network_{each}_receive_packets_per_s" for each in host.devices("network", "receive_packets_per_s")
            ]
            if received and host.value(most := max(received, key=host.value)) >= 2.0 * host.usual(most):
                told += f"; {host.told(most)}"
            yield Cause("cpu", told, risen, "which: `watch -d cat /proc/softirqs /proc/interrupts`")
            return


def busy_processors(host: HostCounters) -> Iterator[Cause]:
    """Tasks wait for a processor, and none of them stands out."""
    if risen := host.risen("pressure_cpu_some_ratio", 0.2):
        told = host.told("pressure_cpu_some_ratio")
        if not math.isnan(host.value("cpu_busy_ratio")):
            told += f"; {host.told('cpu_busy_ratio')}"
        yield Cause("cpu", told, risen, "`top`; who was slowed by a limit: `cpu.stat` of its cgroup")


RULES: Final[tuple[Callable[[HostCounters], Iterator[Cause]], ...]] = (
    stolen,
    hot,
    slow_disk,
    short_of_memory,
    cold_cache,
    busy_disk,
    short_lived,
    interrupted,
    busy_processors,
    damaged_network,
)
"""In the order in which they are told; of what is about one resource, the first explains those behind it."""
