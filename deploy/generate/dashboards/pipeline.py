"""The dashboard of laggard itself: lag, losses, recovery, and the cost of workers and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.generate.dashboards.annotations import started_workers
from deploy.generate.dashboards.layout import Row, assemble
from deploy.generate.dashboards.panels import (
    ON_HOST,
    ORANGE,
    PIPELINE_UID,
    PLACE,
    RED,
    TASK,
    graph,
    number,
    or_zero,
    series,
    worst,
)
from deploy.generate.dashboards.tables import Column, table
from deploy.generate.dashboards.variables import common_variables

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from deploy.generate.dashboards.layout import PanelBuilder

_NAMED = "{{operator}} {{topic}}[{{partition}}]"
_RATE = "$__rate_interval"

_LOST = (
    ("dead_letters", "dead letters"),
    ("late", "late"),
    ("missed_records", "missed"),
    ("duplicates", "duplicates"),
)


def pipeline() -> Dashboard:
    """Return the dashboard."""
    return assemble(
        PIPELINE_UID,
        "laggard / Pipeline",
        "Whether laggard keeps up, loses nothing, and what it costs. All other dashboards are late by the lag shown "
        "here.",
        variables=common_variables(every_host=True),
        annotations=started_workers(),
        rows=[
            Row("Now", _numbers()),
            Row("Lag and throughput", _keeping_up()),
            Row("Losses", _losses()),
            Row("Recovery and rebalances", _recovery()),
            Row("Workers", _workers()),
            Row("Agents", _agents()),
        ],
    )


def _task(name: str) -> str:
    return series(f"laggard_{name}", *PLACE)


def _rate(name: str) -> str:
    return f"rate({series(f'laggard_{name}', *PLACE, window=_RATE)})"


def _increase(name: str, window: str = _RATE) -> str:
    return f"increase({series(f'laggard_{name}', *PLACE, window=window)})"


def _quantile(quantile: float, histogram: str) -> str:
    return f"histogram_quantile({quantile:g}, sum by (operator, le) ({_rate(f'{histogram}_bucket')}))"


def _numbers() -> list[PanelBuilder]:
    return [
        number(
            "Workers",
            "Workers that Prometheus scrapes. If some are missing, see the table of workers, and `up` of the job.",
            or_zero(f"count({_task('build_info')})", scraped=""),
            limits=((0, RED), (1, "green")),
        ),
        number(
            "Lag (records)",
            "Records on the bus that are not processed and committed yet. If it grows for minutes, add workers, at "
            "most one per partition.",
            or_zero(f"sum({worst(TASK, _task('lag_records'))})"),
            limits=((1000, ORANGE),),
        ),
        number(
            "Records/s",
            "Records that all workers read: those that agents publish, once for each operator.",
            or_zero(f"sum({_rate('records_total')})"),
        ),
        number(
            "Latency, 99 %",
            "99th percentile of the time from a record's own time to the commit of its results. It includes errors "
            "of the agents' clocks: check `laggard doctor`.",
            f"histogram_quantile(0.99, sum by (le) ({_rate('latency_seconds_bucket')}))",
            unit="s",
            limits=((10, ORANGE),),
        ),
        number(
            "Dead letters",
            "Unusable records of this time range. The topic of dead letters has each of them with its reason.",
            or_zero(f"round(sum({_increase('dead_letters_total', '$__range')}))"),
            limits=((1, ORANGE),),
        ),
        number(
            "Recovering",
            "Partitions that are restoring their state. They publish no new results until that is done.",
            or_zero(f"count({worst(TASK, _task('recovery_left_records'))} > 0)"),
            limits=((1, ORANGE),),
        ),
    ]


def _keeping_up() -> list[PanelBuilder]:
    return [
        graph(
            "Lag (records)",
            "Lag by partition. If all grow, add workers. If one grows, its hosts send more than the others, or its "
            "worker is slow: see the workers below.",
            [(worst(TASK, _task("lag_records")), _NAMED)],
        ),
        graph(
            "Latency",
            "Time from a record's own time to the commit of its results, which is the delay of an anomaly. Median "
            "and 99th percentile.",
            [
                (_quantile(0.5, "latency_seconds"), "{{operator}}, 50 %"),
                (_quantile(0.99, "latency_seconds"), "{{operator}}, 99 %"),
            ],
            unit="s",
            exemplars=True,
        ),
        graph(
            "Records/s",
            "Records read, by operator and topic. It follows the number of hosts and their interval. A step down "
            "means that hosts fell silent.",
            [(f"sum by (operator, topic) ({_rate('records_total')})", "{{operator}} {{topic}}")],
            span=8,
        ),
        graph(
            "Bytes/s",
            "Bytes read, by operator and topic. Hosts with many processes have large frames.",
            [(f"sum by (operator, topic) ({_rate('record_bytes_total')})", "{{operator}} {{topic}}")],
            unit="Bps",
            span=8,
        ),
        graph(
            "Commits and processing",
            "99th percentile of the duration of a commit, and of the time from the poll that fetched a record to its "
            "commit. If commits become slow, check the brokers, or the disk of the embedded bus.",
            [
                (_quantile(0.99, "commit_duration_seconds"), "{{operator}}, commit"),
                (_quantile(0.99, "processing_seconds"), "{{operator}}, processing"),
            ],
            unit="s",
            span=8,
        ),
    ]


def _losses() -> list[PanelBuilder]:
    return [
        graph(
            "Unused records",
            "Dead letters: the reasons are in their topic. Late: older than the last frame of the stream; check the "
            "clocks. Missed: deleted by retention before they were read; extend the retention or add workers. "
            "Duplicates are harmless.",
            [
                (f"sum by (operator) ({_increase(f'{name}_total')})", f"{{{{operator}}}}, {label}")
                for name, label in _LOST
            ],
        ),
        graph(
            "Hidden streams, clocks and names",
            "Frames of streams that are not exported because there are too many. Streams restarted because their "
            "producer's clock was set back. Hosts that share a name: give each its own `host`.",
            [
                (f"sum({_increase('frames_left_out_total')})", "hidden frames"),
                (f"sum by (operator) ({_increase('clocks_set_back_total')})", "{{operator}}, clocks set back"),
                (f"sum by (operator) ({_increase('namesakes_total')})", "{{operator}}, shared names"),
            ],
        ),
    ]


def _recovery() -> list[PanelBuilder]:
    return [
        graph(
            "Records to replay",
            "Records left to replay until a partition's state is restored, and the lag of standbys.",
            [
                (worst(TASK, _task("recovery_left_records")), _NAMED),
                (worst(TASK, _task("standby_left_records")), f"{_NAMED}, standby"),
            ],
            span=8,
        ),
        graph(
            "Last recovery",
            "Duration of the last recovery. If it is too long, set `worker.standby`.",
            [(worst(TASK, _task("recovery_seconds")), _NAMED)],
            unit="s",
            span=8,
        ),
        graph(
            "Rebalances and the bus",
            "Partitions assigned and revoked, commits fenced because another worker had taken over, and retries "
            "because the bus was unavailable. Endless rebalances: workers are killed, or are too slow to poll.",
            [
                (f"sum({_increase('assignments_total')})", "assigned"),
                (f"sum({_increase('revocations_total')})", "revoked"),
                (f"sum({_increase('fenced_total')})", "fenced"),
                (f"sum({_increase('retries_total')})", "retries"),
            ],
            span=8,
        ),
        graph(
            "States",
            "Keys (such as hosts) with a state. Their number determines a worker's memory.",
            [(f"sum by (operator) ({worst(TASK, _task('keys'))})", "{{operator}}")],
            span=8,
        ),
        graph(
            "Size of states",
            "Newest snapshots of all keys, before compression: the amount that a recovery loads.",
            [(f"sum by (operator) ({worst(TASK, _task('state_bytes'))})", "{{operator}}")],
            unit="decbytes",
            span=8,
        ),
        graph(
            "Snapshots",
            "Snapshots written, unusable and migrated from an older version. Keys with an unusable snapshot learn "
            "anew from the input.",
            [
                (f"sum by (operator) ({_increase('snapshots_total')})", "{{operator}}, written"),
                (f"sum by (operator) ({_increase('snapshots_unusable_total')})", "{{operator}}, unusable"),
                (f"sum by (operator) ({_increase('snapshots_migrated_total')})", "{{operator}}, migrated"),
            ],
            span=8,
        ),
    ]


def _of_workers(expression: str) -> str:
    """Restrict a query on all scraped processes to the workers of laggard."""
    return f"{expression} * on (job, instance) group_left () {_task('build_info')}"


def _workers() -> list[PanelBuilder]:
    cpu = _of_workers(f"rate({series('process_cpu_seconds_total', *PLACE, window=_RATE)})")
    memory = _of_workers(series("process_resident_memory_bytes", *PLACE))
    return [
        table(
            "Workers",
            "Workers by lag. A worker without partitions is a spare; a recent start is a restart.",
            {"instance": "Worker", "version": "Version"},
            [
                Column("Partitions", _by_worker(f"count by (job, instance) ({_task('lag_records')})"), decimals=0),
                Column("Lag", _by_worker(f"sum by (job, instance) ({_task('lag_records')})"), decimals=0),
                Column("Records/s", _by_worker(f"sum by (job, instance) ({_rate('records_total')})")),
                Column(
                    "Started",
                    f"1000 * {_by_worker(series('process_start_time_seconds', *PLACE))}",
                    unit="dateTimeFromNow",
                ),
            ],
            sort="Lag",
            links={},
            height=6,
            empty="No worker. Check that Prometheus scrapes them.",
        ),
        graph(
            "CPU",
            "CPU use of each worker, in cores. A worker cannot use much more than one: add workers.",
            [(cpu, "{{instance}}")],
            limits=((0.9, ORANGE),),
        ),
        graph(
            "Memory",
            "Resident memory. Expect 70 MB, and 1 MB for each host of 200 processes.",
            [(memory, "{{instance}}")],
            unit="decbytes",
        ),
    ]


def _by_worker(expression: str) -> str:
    """Add the worker's version, so that all queries of the table have the same labels."""
    build = f"max by (job, instance, version) ({_task('build_info')})"
    return f"sum by (instance, version) ({build} * on (job, instance) group_left () ({expression}))"


def _agents() -> list[PanelBuilder]:
    def of(name: str) -> str:
        return worst("host", series(f"laggard_agent_{name}", *ON_HOST))

    def increase(name: str) -> str:
        return worst("host", f"increase({series(f'laggard_agent_{name}', *ON_HOST, window=_RATE)})")

    return [
        graph(
            "Agents: CPU",
            "CPU use of one core, the ten busiest agents. It grows with the number of processes; a longer "
            "`agent.interval` reduces it. Profiling during anomalies is shown separately.",
            [
                (f"topk(10, {of('cpu_ratio')})", "{{host}}"),
                (f"topk(10, {of('diagnosis_cpu_ratio')})", "{{host}}, profiling"),
            ],
            unit="percentunit",
            span=8,
        ),
        graph(
            "Agents: memory",
            "Resident memory, the ten largest agents. It does not grow with time; if it does, report it.",
            [(f"topk(10, {of('resident_memory_bytes')})", "{{host}}")],
            unit="decbytes",
            span=8,
        ),
        graph(
            "Agents: reading and publishing",
            "Duration of a tick, the ten slowest agents. Ticks longer than the interval cause missed ticks.",
            [
                (f"topk(10, {of('tick_duration_seconds')})", "{{host}}, reading"),
                (f"topk(10, {of('publish_duration_seconds')})", "{{host}}, publishing"),
            ],
            unit="s",
            span=8,
        ),
        graph(
            "Agents: waiting records",
            "Records in the agent's spool: the bus is unavailable, or the network path to it. The agent sends them "
            "later.",
            [(f"topk(10, {of('waiting_records')})", "{{host}}")],
            span=12,
        ),
        graph(
            "Agents: losses",
            "Dropped: records, because the bus was unavailable for longer than the spool lasts "
            "(`agent.spool_bytes`). Rejected: ticks that the bus refused. Missed: ticks skipped because the machine "
            "was too busy.",
            [
                (f"topk(10, {increase('dropped_records_total')})", "{{host}}, dropped"),
                (f"topk(10, {increase('publish_failures_total')})", "{{host}}, rejected"),
                (f"topk(10, {of('missed_ticks')})", "{{host}}, missed"),
            ],
            span=12,
        ),
    ]
