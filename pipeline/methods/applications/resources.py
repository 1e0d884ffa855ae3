"""The resource, role and description of each metric of a host or its processes: a table and its lookup.

The *role* of a metric is its relation to its *resource*: work waits for it, it is used, or free, or the metric only
follows the load. The *sign* is the physical one of its coefficient in a model of a response time: more waiting, more
time. The role separates a bottleneck from its symptoms. Under load nearly all counters rise together, but only a scarce
resource makes others wait (S2, section 5; B. Gregg, "The USE Method", 2012).

Names are looked up first in the catalog of laggard, by their ends: `group_db_cpu_busy_ratio` is like `cpu_busy_ratio`.
Then come patterns for the names of node_exporter, PostgreSQL, nginx and VMware (`esxtop`) in their exporters. Unknown
metrics have no resource, no role and no sign.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from laggard.operators.regression.models import UNKNOWN, Trait
from laggard.pipeline.core.own import is_own
from laggard.pipeline.explaining.counters import CATALOGUE, STOCKS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.methods.applications.metrics import metric_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.regression.models import Gauge, Role
    from laggard.pipeline.core.records.models import Resource
    from laggard.pipeline.explaining.counters import Counter


class _Known(NamedTuple):
    """A trait, and a description with places for the owner of the metric (`{who}`) and its device (`{device}`)."""

    trait: Trait
    words: str


_SIGNS: Final[Mapping[Role, int]] = {"wait": 1, "use": 1, "free": -1, "load": 0, "": 0}


def trait(metric: str) -> Trait:
    """Return the trait of a metric, given as `ROW:FEATURE`. Those of laggard's own processes explain nothing."""
    parts = metric_parts(metric)
    known = _known(parts.feature)[0].trait
    return replace(known, barred=True) if is_own(parts.name) else known


def resource_of(metric: str) -> Resource:
    """Return the resource of a metric, given as `ROW:FEATURE`; empty if unknown."""
    return cast("Resource", trait(metric).resource)


def described(metric: str) -> str:
    """Return a metric in plain words: ``time that `nginx` on web-1 waited for a free CPU``."""
    parts = metric_parts(metric)
    known, device = _known(parts.feature)
    host = printable(parts.host)
    who = f"`{printable(parts.name)}` on {host}" if parts.name else host
    if not known.words:
        return f"{printable(parts.feature)} of {who}"
    return known.words.replace("{device}", printable(device)).replace("{who}", who)


@lru_cache(maxsize=65_536)
def _known(feature: str) -> tuple[_Known, str]:
    """Return the table entry of a feature, and the name of its device; empty without one."""
    known, device = _found(feature)
    if feature.partition("{")[0].endswith(STOCKS):
        known = known._replace(trait=replace(known.trait, level=True))
    return known, device


def _found(feature: str) -> tuple[_Known, str]:
    words = feature.split("_")
    for start in range(len(words)):
        if (known := _ENDS.get("_".join(words[start:]))) is not None:
            return known, ""
        for stop in range(start + 2, len(words)):
            if (known := _DEVICES.get((words[start], "_".join(words[stop:])))) is not None:
                return known, "_".join(words[start + 1 : stop])
    for pattern, known in _PATTERNS:
        if match := pattern.search(feature):
            return known, match.groupdict().get("device") or ""
    return _Known(UNKNOWN, ""), ""


def _row(resource: Resource, role: Role, words: str, gauge: Gauge = "", short: float = 0.0) -> _Known:
    return _Known(Trait(resource, role, _SIGNS[role], gauge, short), words)


def _of(counter: Counter) -> _Known:
    gauge, short = _GAUGES.get(counter.name, ("", 0.0))
    return _row(counter.resource, counter.role, counter.noun, gauge, short)


_GAUGES: Final[Mapping[str, tuple[Gauge, float]]] = {
    "cpus": ("size", 0.0),
    **dict.fromkeys(("cpu_busy_ratio", "busy_ratio"), ("use", 0.0)),
    **dict.fromkeys(("pressure_cpu_some_ratio", "pressure_io_some_ratio"), ("pressure", 0.1)),
    "pressure_memory_some_ratio": ("pressure", 0.02),
    **dict.fromkeys(("processes_running", "processes_blocked"), ("queue", 0.5)),
    **dict.fromkeys(("read_time_ratio", "write_time_ratio", "queue_ratio"), ("queue", 1.0)),
    **dict.fromkeys(("cpu_quota_throttled_ratio", "cpu_throttled_ratio"), ("stops", 0.1)),
    "cpu_steal_ratio": ("stops", 0.05),
    "memory_limit_hits_per_s": ("stops", 1.0),
    "out_of_memory_kills_per_s": ("stops", 0.001),
    **{f"{way}_{what}_per_s": ("stops", 1.0) for way in ("receive", "transmit") for what in ("errors", "drops")},
}
"""The gauges of a shortage among laggard's own counters, each with its least value; see `Trait`."""


_ENDS: Final[Mapping[str, _Known]] = {each.name: _of(each) for each in CATALOGUE if not each.device}
"""The entries by the end of a feature's name, which begins with a whole word."""

_DEVICES: Final[Mapping[tuple[str, str], _Known]] = {
    (each.device, each.name): _of(each) for each in CATALOGUE if each.device
}
"""The entries of devices by the first word and the end of the name; the name of the device is between them."""

_DEVICE: Final = r'\{.*\b(?:device|name)="(?P<device>[^"]*)"'


def _pattern(expression: str, known: _Known) -> tuple[re.Pattern[str], _Known]:
    return re.compile(expression), known


_PATTERNS: Final = (
    # node_exporter, counters as rates: `node_cpu_seconds_per_s{cpu="0",mode="idle"}`.
    _pattern(r'node_cpu_seconds\w*\{.*mode="idle"', _row("cpu", "free", "idle CPU time of {who}")),
    _pattern(r'node_cpu_seconds\w*\{.*mode="iowait"', _row("disk", "wait", "time that CPUs of {who} waited for disks")),
    _pattern(
        r'node_cpu_seconds\w*\{.*mode="steal"',
        _row("cpu", "wait", "CPU time that was taken away from {who}", "stops", 0.05),
    ),
    _pattern(r"node_cpu_(guest_)?seconds", _row("cpu", "use", "CPU time that was used on {who}")),
    _pattern(r"node_(load\d+|procs_running)", _row("cpu", "wait", "tasks on {who} that ran or wanted a CPU")),
    _pattern(r"node_procs_blocked", _row("disk", "wait", "tasks on {who} that waited for disks", "queue", 0.5)),
    _pattern(r"node_schedstat_waiting_seconds", _row("cpu", "wait", "time that tasks on {who} waited for a CPU")),
    _pattern(r"node_schedstat_running_seconds", _row("cpu", "use", "CPU time of tasks on {who}")),
    _pattern(r"node_schedstat_timeslices", _row("cpu", "load", "how often tasks on {who} were scheduled")),
    _pattern(
        r"node_pressure_cpu_\w*waiting",
        _row("cpu", "wait", "time that some task on {who} waited for a CPU", "pressure", 0.1),
    ),
    _pattern(r"node_pressure_io_", _row("disk", "wait", "time that tasks on {who} waited for I/O", "pressure", 0.1)),
    _pattern(
        r"node_pressure_memory_", _row("memory", "wait", "time that tasks on {who} waited for memory", "pressure", 0.02)
    ),
    _pattern(
        r"node_memory_(MemAvailable|MemFree|Cached|SwapFree)_bytes", _row("memory", "free", "free memory of {who}")
    ),
    _pattern(r"node_memory_Dirty_bytes", _row("disk", "load", "what waited on {who} to be written to disk")),
    _pattern(r"node_memory_Writeback_bytes", _row("disk", "wait", "what was on its way to disk on {who}")),
    _pattern(r"node_memory_", _row("memory", "", "")),
    _pattern(r"node_vmstat_pgmajfault", _row("memory", "wait", "page faults on {who} that had to read from a disk")),
    _pattern(r"node_vmstat_(pswpin|pswpout|oom_kill|pgscan\w*)", _row("memory", "wait", "want of memory on {who}")),
    _pattern(r"node_vmstat_pgfault", _row("memory", "load", "page faults on {who}")),
    _pattern(
        r"node_disk_(read|write|io)_time\w*weighted\w*" + _DEVICE,
        _row("disk", "wait", "requests under way on disk {device} of {who}"),
    ),
    _pattern(
        r"node_disk_(read|write)_time_seconds\w*" + _DEVICE,
        _row("disk", "wait", "requests under way on disk {device} of {who}"),
    ),
    _pattern(r"node_disk_io_now\w*" + _DEVICE, _row("disk", "wait", "requests under way on disk {device} of {who}")),
    _pattern(
        r"node_disk_io_time_seconds\w*" + _DEVICE, _row("disk", "use", "time that disk {device} of {who} was busy")
    ),
    _pattern(r"node_disk_\w*" + _DEVICE, _row("disk", "use", "work of disk {device} of {who}")),
    _pattern(
        r"node_network_\w*_(errs|drop)\w*" + _DEVICE,
        _row("network", "wait", "packets that interface {device} of {who} lost"),
    ),
    _pattern(
        r"node_netstat_\w*(Retrans|Drop|Overflow)", _row("network", "wait", "packets that {who} lost or sent again")
    ),
    _pattern(r"node_(network|netstat|sockstat|softnet)_", _row("network", "load", "")),
    _pattern(r"node_(context_switches|intr|forks)", _row("cpu", "load", "")),
    # PostgreSQL: the names of postgres_exporter, and those of pg_stat_* itself.
    _pattern(
        r"pg_\w*(deadlocks|blocked|waiting_locks|lock_wait)|pg_locks_",
        _row("lock", "wait", "locks in PostgreSQL on {who}"),
    ),
    _pattern(
        r'pg_stat_activity\w*\{.*wait_event_type="Lock"',
        _row("lock", "wait", "sessions that waited for a lock on {who}"),
    ),
    _pattern(
        r'pg_stat_activity\w*\{.*wait_event_type="IO"', _row("disk", "wait", "sessions that waited for I/O on {who}")
    ),
    _pattern(
        r"pg_\w*(blk|block)_(read|write)_time", _row("disk", "wait", "time that PostgreSQL on {who} waited for blocks")
    ),
    _pattern(r"pg_\w*blks_read", _row("disk", "use", "blocks that PostgreSQL on {who} read from disk")),
    _pattern(r"pg_\w*temp_(bytes|files)", _row("memory", "wait", "temporary files of PostgreSQL on {who}")),
    _pattern(r"pg_\w*(blks_hit|tup_|xact_|num_backends|numbackends)", _row("", "load", "")),
    _pattern(r"pg_stat_", _row("", "load", "")),
    # nginx: stub_status.
    _pattern(
        r"nginx_\w*connections_(active|reading|writing|waiting)", _row("", "load", "connections of nginx on {who}")
    ),
    _pattern(r"nginx_", _row("", "load", "")),
    # VMware: esxtop and vCenter, with the names in S2: `CPU_Ready`, `Mem_GrantedMB`.
    _pattern(
        r"(?i)cpu_?(ready|co_?stop|wait|overlap|max_?limited|latency)",
        _row("cpu", "wait", "time that {who} waited for a CPU"),
    ),
    _pattern(r"(?i)cpu_?load|(?i:run_?queue)", _row("cpu", "wait", "load of {who}")),
    _pattern(r"(?i)cpu\w*_?idle", _row("cpu", "free", "idle CPU time of {who}")),
    _pattern(r"(?i)cpu\w*_?(util|usage|used|run|sys|user|total)", _row("cpu", "use", "CPU time of {who}")),
    _pattern(r"(?i)mem\w*_?(granted|free|avail|consumed)", _row("memory", "free", "memory that {who} had")),
    _pattern(
        r"(?i)mem\w*_?(swap|balloon|zip|compress|latency|memctl)", _row("memory", "wait", "want of memory on {who}")
    ),
    _pattern(r"(?i)mem\w*_?(active|used|usage|touched)", _row("memory", "use", "memory in use on {who}")),
    _pattern(
        r"(?i)(disk|adapter|datastore|vmhba|lun)\w*(latency|queue|millisec|await|svctm)",
        _row("disk", "wait", "time that disks of {who} took"),
    ),
    _pattern(r"(?i)(disk|adapter|datastore|vmhba|lun)", _row("disk", "use", "work of disks of {who}")),
    _pattern(
        r"(?i)(net|nic|vswitch|vmnic|packet|pcks|pkcs|udp|tcp|sock)\w*(drop|err|retrans)",
        _row("network", "wait", "packets that {who} lost"),
    ),
    _pattern(r"(?i)(network|nic_|vswitch|vmnic|packet|pcks|pkcs|udp|tcp|sock)", _row("network", "load", "")),
    _pattern(r"(?i)(context_?switch|interrupt|_int$)", _row("cpu", "load", "")),
    # All others: by their words.
    _pattern(r"(?i)lock\w*_?(wait|time|contention)", _row("lock", "wait", "time that locks were waited for on {who}")),
)
"""The patterns, the first of which that is found in a name counts."""
