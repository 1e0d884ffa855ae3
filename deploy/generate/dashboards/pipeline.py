"""Pipeline: whether laggard itself keeps up, loses nothing, and what it costs."""

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
    """The dashboard, built."""
    return assemble(
        PIPELINE_UID,
        "laggard / Pipeline",
        "Whether laggard keeps up, loses nothing, and what it costs. What is shown of hosts is as new as the lag "
        "allows.",
        variables=common_variables(every_host=True),
        annotations=started_workers(),
        rows=[
            Row("Now", _numbers()),
            Row("Keeping up", _keeping_up()),
            Row("What was not used", _losses()),
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
            "Workers that Prometheus reads. Fewer than you run: see the table of workers, and `up` of the job.",
            or_zero(f"count({_task('build_info')})"),
            limits=((0, RED), (1, "green")),
        ),
        number(
            "Records behind",
            "Records on the bus that are not processed and committed yet. If it grows for minutes, add workers, at "
            "most one for each partition.",
            or_zero(f"sum({worst(TASK, _task('lag_records'))})"),
            limits=((1000, ORANGE),),
        ),
        number(
            "Records a second",
            "What all workers read: what the agents send, once for each operator.",
            or_zero(f"sum({_rate('records_total')})"),
        ),
        number(
            "Latency, 99 %",
            "From a record's own time to the commit of what it led to, for 99 of 100 records. An agent's clock that is "
            "ahead or behind shows here as well: `laggard doctor`.",
            f"histogram_quantile(0.99, sum by (le) ({_rate('latency_seconds_bucket')}))",
            unit="s",
            limits=((10, ORANGE),),
        ),
        number(
            "Dead letters",
            "Records of this time range that could not be used. Each is in the topic of dead letters with its reason: "
            "read it there.",
            or_zero(f"round(sum({_increase('dead_letters_total', '$__range')}))"),
            limits=((1, ORANGE),),
        ),
        number(
            "Recovering",
            "Partitions whose state is being replayed. Until that is done they give no new results.",
            or_zero(f"count({worst(TASK, _task('recovery_left_records'))} > 0)"),
            limits=((1, ORANGE),),
        ),
    ]


def _keeping_up() -> list[PanelBuilder]:
    return [
        graph(
            "Records behind",
            "By partition. All that grow: add workers. One that grows: its hosts send more than the others', or its "
            "worker is slow; see the workers below.",
            [(worst(TASK, _task("lag_records")), _NAMED)],
        ),
        graph(
            "Latency",
            "From a record's own time to the commit of what it led to: how late an anomaly is told. The median, "
            "and what 99 of 100 records stay below.",
            [
                (_quantile(0.5, "latency_seconds"), "{{operator}}, 50 %"),
                (_quantile(0.99, "latency_seconds"), "{{operator}}, 99 %"),
            ],
            unit="s",
            exemplars=True,
        ),
        graph(
            "Records a second",
            "Read, by operator and topic. It follows the number of hosts and their interval; a step down is hosts that "
            "fell silent.",
            [(f"sum by (operator, topic) ({_rate('records_total')})", "{{operator}} {{topic}}")],
            span=8,
        ),
        graph(
            "Bytes a second",
            "Read, by operator and topic. Large frames are those of hosts with many processes.",
            [(f"sum by (operator, topic) ({_rate('record_bytes_total')})", "{{operator}} {{topic}}")],
            unit="Bps",
            span=8,
        ),
        graph(
            "Commits and processing",
            "How long a commit takes, and from the poll that brought a record to that commit, for 99 of 100. Commits "
            "that get slower point to the brokers, or to the disk of the embedded bus.",
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
            "Records that were not used",
            "Dead letters have their reason with them in their topic. Late: older than their stream's last frame, look "
            "at clocks. Missed: retention deleted them before they were read, so keep more or add workers. Duplicates "
            "do no harm.",
            [
                (f"sum by (operator) ({_increase(f'{name}_total')})", f"{{{{operator}}}}, {said}")
                for name, said in _LOST
            ],
        ),
        graph(
            "Not shown, set back, of one name",
            "Frames of streams that are too many to be shown here; streams that began anew because a clock was set "
            "back; and hosts that share a name: give each a `host` of its own.",
            [
                (f"sum({_increase('frames_left_out_total')})", "frames not shown"),
                (f"sum by (operator) ({_increase('clocks_set_back_total')})", "{{operator}}, clocks set back"),
                (f"sum by (operator) ({_increase('namesakes_total')})", "{{operator}}, hosts of one name"),
            ],
        ),
    ]


def _recovery() -> list[PanelBuilder]:
    return [
        graph(
            "Records to replay",
            "What is left until a partition's state is what it was, and how far standbys are behind.",
            [
                (worst(TASK, _task("recovery_left_records")), _NAMED),
                (worst(TASK, _task("standby_left_records")), f"{_NAMED}, standby"),
            ],
            span=8,
        ),
        graph(
            "Last recovery",
            "How long it took. Where this is too long for you: `worker.standby`.",
            [(worst(TASK, _task("recovery_seconds")), _NAMED)],
            unit="s",
            span=8,
        ),
        graph(
            "Rebalances and the bus",
            "Partitions that were given and taken, commits that were refused because another worker has them, and "
            "what was tried again because the bus was away. Rebalances that never end: workers that are killed, or too "
            "slow to poll.",
            [
                (f"sum({_increase('assignments_total')})", "given"),
                (f"sum({_increase('revocations_total')})", "taken"),
                (f"sum({_increase('fenced_total')})", "refused"),
                (f"sum({_increase('retries_total')})", "tried again"),
            ],
            span=8,
        ),
        graph(
            "States",
            "Keys, as hosts, that have a state: how many a worker has decides its memory.",
            [(f"sum by (operator) ({worst(TASK, _task('keys'))})", "{{operator}}")],
            span=8,
        ),
        graph(
            "Size of states",
            "Of all newest snapshots, before compression: what a recovery has to load.",
            [(f"sum by (operator) ({worst(TASK, _task('state_bytes'))})", "{{operator}}")],
            unit="decbytes",
            span=8,
        ),
        graph(
            "Snapshots",
            "Written, and those that could not be used so that their state was learned from the input again.",
            [
                (f"sum by (operator) ({_increase('snapshots_total')})", "{{operator}}, written"),
                (f"sum by (operator) ({_increase('snapshots_unusable_total')})", "{{operator}}, unusable"),
                (f"sum by (operator) ({_increase('snapshots_migrated_total')})", "{{operator}}, migrated"),
            ],
            span=8,
        ),
    ]


def _of_workers(expression: str) -> str:
    """Of all processes that Prometheus reads, only what laggard's workers say about themselves."""
    return f"{expression} * on (job, instance) group_left () {_task('build_info')}"


def _workers() -> list[PanelBuilder]:
    cpu = _of_workers(f"rate({series('process_cpu_seconds_total', *PLACE, window=_RATE)})")
    memory = _of_workers(series("process_resident_memory_bytes", *PLACE))
    return [
        table(
            "Workers",
            "One line for each. A worker without partitions is a spare; one whose start is recent has been restarted.",
            {"instance": "Worker", "version": "Version"},
            [
                Column("Partitions", _by_worker(f"count by (job, instance) ({_task('lag_records')})"), decimals=0),
                Column("Behind", _by_worker(f"sum by (job, instance) ({_task('lag_records')})"), decimals=0),
                Column("Records a second", _by_worker(f"sum by (job, instance) ({_rate('records_total')})")),
                Column(
                    "Started",
                    f"1000 * {_by_worker(series('process_start_time_seconds', *PLACE))}",
                    unit="dateTimeFromNow",
                ),
            ],
            sort="Behind",
            links={},
            height=6,
            empty="No worker is read.",
        ),
        graph(
            "Processors",
            "Cores that each worker takes. Near one it cannot take more: add workers.",
            [(cpu, "{{instance}}")],
            limits=((0.9, ORANGE),),
        ),
        graph(
            "Memory",
            "Resident. About 1 MB for each host of 200 processes, and a base of 70 MB.",
            [(memory, "{{instance}}")],
            unit="decbytes",
        ),
    ]


def _by_worker(expression: str) -> str:
    """With the worker's version, so that the queries of the table have the same labels."""
    build = f"max by (job, instance, version) ({_task('build_info')})"
    return f"sum by (instance, version) ({build} * on (job, instance) group_left () ({expression}))"


def _agents() -> list[PanelBuilder]:
    def of(name: str) -> str:
        return worst("host", series(f"laggard_agent_{name}", *ON_HOST))

    def grown(name: str) -> str:
        return worst("host", f"increase({series(f'laggard_agent_{name}', *ON_HOST, window=_RATE)})")

    return [
        graph(
            "Agents: processors",
            "Share of one core, the ten that take most. It grows with the number of processes; a longer "
            "`agent.interval` takes less. Apart from it, what looking into processes takes while something is wrong.",
            [
                (f"topk(10, {of('cpu_ratio')})", "{{host}}"),
                (f"topk(10, {of('diagnosis_cpu_ratio')})", "{{host}}, looking into processes"),
            ],
            unit="percentunit",
            span=8,
        ),
        graph(
            "Agents: memory",
            "Resident, the ten that take most. It does not grow with time; if it does, please tell us.",
            [(f"topk(10, {of('resident_memory_bytes')})", "{{host}}")],
            unit="decbytes",
            span=8,
        ),
        graph(
            "Agents: reading and publishing",
            "How long a tick takes, the ten slowest. A tick as long as the interval makes ticks fall out.",
            [
                (f"topk(10, {of('tick_duration_seconds')})", "{{host}}, reading"),
                (f"topk(10, {of('publish_duration_seconds')})", "{{host}}, publishing"),
            ],
            unit="s",
            span=8,
        ),
        graph(
            "Agents: records that wait",
            "What the bus did not have yet: it is away, or the way there is. It goes on from the agent's spool.",
            [(f"topk(10, {of('waiting_records')})", "{{host}}")],
            span=12,
        ),
        graph(
            "Agents: what was lost",
            "Records that were dropped since the bus was away for longer than the spool lasts (`agent.spool_bytes`), "
            "ticks that the bus refused, and ticks that fell out because the machine was too busy.",
            [
                (f"topk(10, {grown('dropped_records_total')})", "{{host}}, dropped"),
                (f"topk(10, {grown('publish_failures_total')})", "{{host}}, refused"),
                (f"topk(10, {of('missed_ticks')})", "{{host}}, fell out"),
            ],
            span=12,
        ),
    ]
