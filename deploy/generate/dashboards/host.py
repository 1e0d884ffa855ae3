"""Host: why a machine is slow. Its processes by rank, what of them is unusual, and how the machine itself is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.generate.dashboards.annotations import annotations_by
from deploy.generate.dashboards.incidents import anomaly_columns, anomaly_labels, incident_columns, incident_labels
from deploy.generate.dashboards.layout import Row, assemble
from deploy.generate.dashboards.panels import (
    DEVIATIONS,
    HOST_UID,
    ORANGE,
    PLACE,
    RED,
    SCORE,
    TIMES_USUAL,
    band,
    dashboard_url,
    graph,
    number,
    or_zero,
    series,
    timeline,
    worst,
)
from deploy.generate.dashboards.tables import Column, table
from deploy.generate.dashboards.variables import common_variables, query_variable

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from deploy.generate.dashboards.layout import PanelBuilder

_HERE = (*PLACE, 'host="$host"')
_ROW = 'row="$row"'

_SCORES = series("laggard_score", *_HERE)
_ROWS = series("laggard_row_score", *_HERE)
_ROWS_IN_RANGE = series("laggard_row_score", *_HERE, window="$__range")
_OF_ROW_IN_RANGE = series("laggard_feature_score", *_HERE, _ROW, window="$__range")
_RANKED = "operator, scope, row, feature"


def host() -> Dashboard:
    """The dashboard, built."""
    return assemble(
        HOST_UID,
        "laggard / Host",
        "Why a machine is slow: its processes by how unusual they are, each with what is usual for it, and the machine "
        "itself. Opened from an incident it shows the half hour before that began, and at most ten minutes after.",
        variables=[
            *common_variables(every_host=False),
            query_variable(
                "row",
                "Process",
                f"query_result({_most_unusual(20)})",
                "The most unusual processes of the time range (one may be the host itself), the worst first.",
                every=False,
                regex=_value_of("row"),
            ),
            query_variable(
                "feature",
                "Feature",
                f"query_result(topk(6, {worst('feature', f'max_over_time({_OF_ROW_IN_RANGE})')}))",
                "What of this process was most unusual in the time range, the worst first.",
                every=True,
                regex=_value_of("feature"),
            ),
        ],
        annotations=annotations_by(_HERE, "host"),
        rows=[
            Row("Now", _numbers()),
            Row("Why", [_ranking(), _incidents(), _seen(), _rows(), _deviations()]),
            Row("$row beside what is usual for it", [_feature()]),
            Row("When", [_scores(), _when()]),
            Row("The machine", _machine()),
        ],
    )


def _value_of(label: str) -> str:
    """Takes a label's value out of what `query_result` gives."""
    return rf'/{label}="((?:[^"\\]|\\.)*)"/'


def _most_unusual(count: int, at: str = "") -> str:
    """The rows that were most unusual in the time range; in a query over time, `at` its end for every step."""
    return f"topk({count}, {worst('row', f'max_over_time({_ROWS_IN_RANGE}{at})')})"


def _numbers() -> list[PanelBuilder]:
    return [
        number(
            "Score",
            "How unusual the newest frame is, of the processes or of the host itself, whichever is worse. 1 is the "
            "budget for false alarms.",
            worst("host", _SCORES),
            limits=SCORE,
        ),
        number(
            "Open incidents",
            "Incidents of this host that have not ended; the table below says what stood out.",
            or_zero(f"sum({worst('host', series('laggard_incidents_open', *_HERE))})"),
            limits=((1, RED),),
        ),
        number(
            "Incidents",
            "Incidents that began in this time range.",
            or_zero(f"round(sum(increase({series('laggard_incidents_total', *_HERE, window='$__range')})))"),
            limits=((1, ORANGE),),
        ),
        number(
            "Marks",
            "How often somebody said in this time range that it is slow: `laggard mark NOTE`. Each is answered with a "
            "ranking of that moment: `laggard why --host $host --mark last`.",
            or_zero(f"round(sum(increase({series('laggard_marks_total', *_HERE, window='$__range')})))"),
        ),
        number(
            "Known for",
            "How long the model has been learning. Below an hour, what is shown as unusual may be what this machine "
            "does every now and then.",
            worst("host", series("laggard_model_age_seconds", *_HERE)),
            unit="s",
        ),
        number(
            "Last frame",
            "How old the newest frame is. When this grows, the agent or the way to the bus is down.",
            f"time() - {worst('host', series('laggard_frame_timestamp_seconds', *_HERE))}",
            unit="s",
            limits=((120, ORANGE),),
        ),
    ]


def _ranking() -> PanelBuilder:
    def of(metric: str) -> str:
        return worst(_RANKED, series(f"laggard_feature_{metric}", *_HERE))

    rows = worst("operator, scope, row", _ROWS)
    value, usual = of("value"), of("usual")
    return table(
        "Culprits: processes by score, at the end of the time range",
        "The processes that are most unlike themselves, and of each what is most unusual, beside what is usual. The "
        "first one is to blame more often than not. Features are in the base unit that their name ends with. "
        "`laggard why --host $host` also tells culprits from those that only wait for them.",
        {"row": "Process", "feature": "Feature", "scope": "Scope", "operator": "Operator"},
        [
            Column(
                "Score",
                f"{rows} * on (operator, scope, row) group_right () ({of('score')} > bool -1)",
                decimals=2,
                limits=SCORE,
            ),
            Column("Feature's score", of("score"), decimals=2),
            Column("Value", value),
            Column("Usual", usual),
            Column("±", of("usual_deviation")),
            Column("Times usual", f"{value} / ({usual} > 0)", unit=TIMES_USUAL, decimals=1),
        ],
        sort="Score",
        links={
            "Process": (
                "Show its features beside what is usual",
                dashboard_url(HOST_UID, "${host:queryparam}&var-row=${__data.fields.Process:percentencode}"),
            )
        },
        height=9,
        empty="Nothing is ranked: does the worker see frames of this host?",
    )


def _incidents() -> PanelBuilder:
    return table(
        "Incidents of this time range",
        "Who was to blame, the worst value, what was usual, and how many operators saw it. Those above whose score has "
        "passed by now are here. `laggard incidents --host $host` tells them in sentences.",
        incident_labels(host=False),
        incident_columns(_HERE, window="$__range", labels=incident_labels(host=False)),
        sort="Began",
        links={},
        height=5,
        empty="No incident began or was open in this time range.",
    )


def _seen() -> PanelBuilder:
    return table(
        "What each operator saw in this time range",
        "The evidence: what stood out when an operator began to see something, the worst value since, and what was "
        "usual before it. What may have one cause is one incident above.",
        anomaly_labels(),
        anomaly_columns(_HERE, "$__range"),
        sort="Began",
        links={},
        height=5,
        empty="No operator saw anything in this time range.",
    )


def _rows() -> PanelBuilder:
    return graph(
        "Processes by score",
        "The ten that were most unusual in the time range. Processes of one name are one line, that of the worst of "
        "them; a line has gaps where its process was not among the worst (setting `web.top_rows`).",
        [(f"{worst('row', _ROWS)} and on (row) {_most_unusual(10, at=' @ end()')}", "{{row}}")],
        limits=SCORE,
        symlog=True,
    )


def _deviations() -> PanelBuilder:
    by = "row, feature"
    value, usual, spread = (
        worst(by, series(f"laggard_feature_{which}", *_HERE)) for which in ("value", "usual", "usual_deviation")
    )
    scores = series("laggard_feature_score", *_HERE, window="$__range")
    unusual = f"topk(10, {worst(by, f'max_over_time({scores} @ end())')})"
    return graph(
        "How far from usual",
        "The ten most unusual features, in standard deviations above what is usual: comparable whatever their units. "
        "What rises first is nearer to the cause than what follows.",
        [(f"({value} - {usual}) / ({spread} > 0) and on ({by}) {unusual}", "{{row}}: {{feature}}")],
        unit=DEVIATIONS,
        symlog=True,
    )


def _feature() -> PanelBuilder:
    def of(which: str) -> str:
        return worst("feature", series(f"laggard_feature_{which}", *_HERE, _ROW, 'feature=~"$feature"'))

    return band(
        "$feature",
        "The newest value, and in grey what is usual: the mean and one standard deviation to both sides, as learned "
        "until then. A band that follows the value has begun to learn the new level. There are gaps where the "
        "process, or this feature of it, was not among the worst.",
        value=of("value"),
        usual=of("usual"),
        deviation=of("usual_deviation"),
        by="feature",
    )


def _scores() -> PanelBuilder:
    return graph(
        "Score",
        "How unusual the processes and the host itself are. Above 1, the dashed line, is more than the budget for "
        "false alarms allows; of the operator `cpu` it is prolonged high use.",
        [(worst("operator, scope", _SCORES), "{{scope}} ({{operator}})")],
        limits=SCORE,
        symlog=True,
    )


def _when() -> PanelBuilder:
    return timeline(
        "When operators saw something",
        "While an operator has an open anomaly. What overlaps may have one cause, and is one incident then.",
        f"{worst('operator, scope', series('laggard_anomalies_open', *_HERE))} > bool 0",
        "{{scope}} ({{operator}})",
        {0: ("calm", "transparent"), 1: ("unusual", RED)},
        span=12,
        height=8,
    )


def _machine() -> list[PanelBuilder]:
    return [
        _of_machine(
            "Pressure",
            "Share of the time in which some or all tasks waited for processors, storage or memory (PSI). Of memory, "
            "anything but 0 says that it is short; of I/O, that storage is the bottleneck.",
            "pressure_.+_ratio",
            "percentunit",
        ),
        _of_machine(
            "Processors and disks",
            "How busy all processors are together, and the busiest disk. Time that a hypervisor takes away (steal) "
            "says that the cause is not on this machine.",
            "cpu_.+_ratio|disk_busy_ratio",
            "percentunit",
        ),
        _of_machine(
            "Load",
            "Tasks that run or wait, over the last minute, beside the number of processors. More than that is a queue.",
            "load_1m|cpus",
            "short",
        ),
        _of_machine(
            "Memory",
            "Available is what can be had without swapping; used swap that grows goes wrong next.",
            "memory_available_bytes|swap_used_bytes",
            "decbytes",
        ),
        _of_machine(
            "Disks",
            "Read and written, by all disks. A disk that is busy while it does little is the cause.",
            "disk_(read|write)_bytes_per_s",
            "Bps",
        ),
        _of_machine(
            "Network",
            "Received and sent, by all interfaces but the loopback. Compare with the sockets of the processes above.",
            "network_.+_bytes_per_s",
            "Bps",
        ),
    ]


def _of_machine(title: str, description: str, features: str, unit: str) -> PanelBuilder:
    values = series("laggard_host_value", *_HERE, f'feature=~"{features}"')
    return graph(title, description, [(worst("feature", values), "{{feature}}")], unit=unit, span=8)
