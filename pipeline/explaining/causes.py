"""The causes of a host's slowness apart from its processes: rules from its counters to plain words, one for each cause.

A rule applies if its counter has risen: it is far from its baseline (`FIRM`), and at least the minimum of the rule, so
that a thousandth is not reported. Each cause has figures. No program on the host can bring about an `outside` cause.

References: Documentation/accounting/psi.rst (pressure), Documentation/admin-guide/iostats.rst (time of disks) of Linux;
B. Gregg, "The USE Method", 2012 (for each resource: utilization, saturation, errors).
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
"""A feature with this score is far from its baseline (8 standard deviations), whatever the false-alarm budget."""

FORKS_PER_S: Final = 20.0
"""The least rate of forks, per second, at which short-lived processes are a cause."""

BOOTED_S: Final = 600.0
"""A boot is reported for this time, in seconds."""

SLOWER: Final = 3.0
"""A disk is slow if an operation takes at least this many times its baseline ..."""

NO_BUSIER: Final = 1.5
"""... while its operations and bytes are at most this many times theirs."""

Resource = Literal["cpu", "disk", "memory", "network"]


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of a host's slowness.

    Attributes:
        resource: the scarce resource.
        clause: a clause with figures: `the hypervisor takes 38 % of its CPUs away, usually 0 ± 0.1 %`.
        feature: the counter that rose; its values show the onset.
        closer: how to investigate further on that machine.
        outside: whether no program on the host can bring it about.

    """

    resource: Resource
    clause: str
    feature: FeatureScore
    closer: str
    outside: bool = False


class HostCounters:
    """A host's counters with their baselines.

    Parameters:
        row: the row of the host, with all its features.

    """

    def __init__(self, row: RowScore) -> None:
        self._features = {each.feature: each for each in row.features}

    def value(self, feature: str) -> float:
        """Return the scored value, usually a mean of the last few; NaN without the feature."""
        found = self._features.get(feature)
        return math.nan if found is None else found.scored

    def usual(self, feature: str) -> float:
        """Return the mean of the baseline; NaN without one."""
        found = self._features.get(feature)
        return math.nan if found is None else found.mean

    def risen(self, feature: str, least: float) -> FeatureScore | None:
        """Return the feature if it is far from its baseline and at least `least`, in its base unit; otherwise None."""
        found = self._features.get(feature)
        return found if found is not None and found.score >= FIRM and found.scored >= least else None

    def clause_of(self, feature: str) -> str:
        """Return a clause with the scored value and, if known, its baseline."""
        return beside_usual(self._features[feature], "host")

    def devices(self, kind: str, end: str) -> list[str]:
        """Return the sorted names of the devices of a kind that have a feature with this end."""
        return [
            name.removeprefix(f"{kind}_").removesuffix(f"_{end}")
            for name in sorted(self._features)
            if name.startswith(f"{kind}_") and name.endswith(f"_{end}")
        ]

    def booted_s(self, ts: float) -> float:
        """Return the seconds from the boot of the host to `ts`; NaN if unknown, or not less than `BOOTED_S`."""
        age_s = ts - self.value("boot_timestamp_seconds")
        return age_s if 0.0 <= age_s < BOOTED_S else math.nan


def causes(row: RowScore) -> tuple[Cause, ...]:
    """Return all outside causes, then the first cause of each other resource.

    Args:
        row: the row of the host, with all its features.

    """
    host = HostCounters(row)
    found = [cause for rule in RULES for cause in rule(host)]
    outside = [cause for cause in found if cause.outside]
    inside = {cause.resource: cause for cause in reversed(found) if not cause.outside}
    # A slow disk explains the waits for it.
    covered = {cause.resource for cause in outside}
    order = [cause for cause in found if inside.get(cause.resource) is cause and cause.resource not in covered]
    return (*outside, *order)


# The rules. Each yields the causes that it finds.


def stolen(host: HostCounters) -> Iterator[Cause]:
    """Find steal time: the hypervisor runs other machines on the CPUs of this one."""
    if risen := host.risen("cpu_steal_ratio", 0.02):
        text = host.clause_of("cpu_steal_ratio")
        yield Cause("cpu", text, risen, "`mpstat -P ALL 1`; ask whoever runs the hypervisor", outside=True)


def hot(host: HostCounters) -> Iterator[Cause]:
    """Find CPUs that are slowed by heat, or by a power limit."""
    for feature in ("cpu_throttled_ratio", "cpu_capped_ratio"):
        if risen := host.risen(feature, 0.05):
            yield Cause(
                "cpu",
                host.clause_of(feature),
                risen,
                "`sensors`; `dmesg | grep -i -e thermal -e throttl`",
                outside=True,
            )
            return


def slow_disk(host: HostCounters) -> Iterator[Cause]:
    """Find disks whose operations take much longer although the load is normal."""
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
            text = (
                f"disk {(shown := printable(disk))} takes {readable('_s', each_s)} for an operation, usually "
                f"{readable('_s', usual_s)}, though it makes {readable('', rate)} a second, usually "
                f"{readable('', usual_rate)}"
            )
            closer = f"`iostat -x 1`; `dmesg | grep {shown}`; `smartctl -a /dev/{shown}`"
            yield Cause("disk", text, risen, closer, outside=True)


def damaged_network(host: HostCounters) -> Iterator[Cause]:
    """Find interfaces that lose packets."""
    for end in ("receive_errors_per_s", "transmit_errors_per_s", "receive_drops_per_s", "transmit_drops_per_s"):
        for interface in host.devices("network", end):
            if risen := host.risen(f"network_{interface}_{end}", 1.0):
                shown = printable(interface)
                closer = f"`ip -s -s link show {shown}`; `ethtool -S {shown}`"
                yield Cause("network", host.clause_of(risen.feature), risen, closer)


def short_of_memory(host: HostCounters) -> Iterator[Cause]:
    """Find memory shortage: waits for memory, swapping, scans for free pages, or out-of-memory kills."""
    signs = (
        ("out_of_memory_kills_per_s", 0.01),
        ("pressure_memory_some_ratio", 0.05),
        ("swap_in_bytes_per_s", 1e6),
        ("swap_out_bytes_per_s", 1e6),
        ("page_scans_per_s", 1000.0),
    )
    risen = [found for feature, least in signs if (found := host.risen(feature, least))]
    if risen:
        text = "; ".join(host.clause_of(each.feature) for each in risen[:2])
        if not math.isnan(available := host.value("memory_available_bytes")):
            text += f"; {clause('memory_available_bytes', available, 'host')}"
        yield Cause("memory", text, risen[0], "who holds it: `ps -eo pid,rss,comm --sort -rss | head`; `vmstat 1`")


def cold_cache(host: HostCounters) -> Iterator[Cause]:
    """Find a cold cache: programs and files are read from disk that are normally in memory, as after a boot."""
    faults, paged = host.risen("page_faults_major_per_s", 10.0), host.risen("paging_in_bytes_per_s", 1e6)
    if not (faults and paged):
        return
    read = f"{host.clause_of(faults.feature)}; {host.clause_of(paged.feature)}"
    text = f"what is in memory at other times comes from disk: {read}"
    cached, usual = host.value("memory_cached_bytes"), host.usual("memory_cached_bytes")
    if cached < usual / 2.0:
        text += f"; only {host.clause_of('memory_cached_bytes')}"
    yield Cause("disk", text, faults, "what is read: `iostat -x 1`; it gets better once the cache is warm")


def busy_disk(host: HostCounters) -> Iterator[Cause]:
    """Find loaded disks, or waits for I/O, without a visible process: writeback, or a guest."""
    for disk in host.devices("disk", "busy_ratio"):
        if risen := host.risen(f"disk_{disk}_busy_ratio", 0.5):
            text = host.clause_of(risen.feature)
            for end, least in (("write_bytes_per_s", 1e6), ("read_bytes_per_s", 1e6)):
                if host.value(amount := f"disk_{disk}_{end}") >= max(least, 2.0 * host.usual(amount)):
                    text += f"; {host.clause_of(amount)}"
            if host.risen("memory_writeback_bytes", 1e6):
                text += f"; {host.clause_of('memory_writeback_bytes')}"
            yield Cause("disk", text, risen, "`iostat -x 1`; `iotop -oPa`")
    if risen := host.risen("pressure_io_some_ratio", 0.1):
        yield Cause(
            "disk", host.clause_of(risen.feature), risen, "`iostat -x 1`; mounts over the network: `nfsiostat 1`"
        )


def short_lived(host: HostCounters) -> Iterator[Cause]:
    """Find many short-lived processes."""
    if risen := host.risen("forks_per_s", FORKS_PER_S):
        yield Cause("cpu", host.clause_of("forks_per_s"), risen, "who starts them: `execsnoop` of bcc, or `forkstat`")


def interrupted(host: HostCounters) -> Iterator[Cause]:
    """Find CPUs that are busy with interrupts of devices, mostly of the network."""
    for feature in ("cpu_soft_interrupt_ratio", "cpu_interrupt_ratio"):
        if risen := host.risen(feature, 0.1):
            text = host.clause_of(feature)
            received = [
                f"network_{each}_receive_packets_per_s" for each in host.devices("network", "receive_packets_per_s")
            ]
            if received and host.value(most := max(received, key=host.value)) >= 2.0 * host.usual(most):
                text += f"; {host.clause_of(most)}"
            yield Cause("cpu", text, risen, "which: `watch -d cat /proc/softirqs /proc/interrupts`")
            return


def busy_processors(host: HostCounters) -> Iterator[Cause]:
    """Find waits for the CPU, of tasks that do not stand out."""
    if risen := host.risen("pressure_cpu_some_ratio", 0.2):
        text = host.clause_of("pressure_cpu_some_ratio")
        if not math.isnan(host.value("cpu_busy_ratio")):
            text += f"; {host.clause_of('cpu_busy_ratio')}"
        yield Cause("cpu", text, risen, "`top`; who was slowed by a limit: `cpu.stat` of its cgroup")


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
"""The rules in the order of reporting. Of the causes of one resource, the first explains the later ones."""
