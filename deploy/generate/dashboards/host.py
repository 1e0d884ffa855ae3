"""The dashboard of a host: its processes by score, their deviating features, and the machine itself."""

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
    TIMES,
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
    """Return the dashboard."""
    return assemble(
        HOST_UID,
        "laggard / Host",
        "Why a machine is slow: its processes by score, with their baselines, and the machine itself. Links from "
        "incidents open the time from half an hour before the onset to ten minutes after it.",
        variables=[
            *common_variables(every_host=False),
            query_variable(
                "row",
                "Process",
                f"query_result({_worst_rows(20)})",
                "The 20 processes with the highest scores in the time range, the worst first. One may be the host "
                "itself.",
                every=False,
                regex=_value_of("row"),
            ),
            query_variable(
                "feature",
                "Feature",
                f"query_result(topk(6, {worst('feature', f'max_over_time({_OF_ROW_IN_RANGE})')}))",
                "The features of this process with the highest scores in the time range, the worst first.",
                every=True,
                regex=_value_of("feature"),
            ),
        ],
        annotations=annotations_by(_HERE, "host"),
        rows=[
            Row("Now", _numbers()),
            Row("Why", [_ranking(), _incidents(), _anomalies(), _rows(), _deviations()]),
            Row("$row and its baseline", [_feature()]),
            Row("Timeline", [_scores(), _when()]),
            Row("Machine", _machine()),
        ],
    )


def _value_of(label: str) -> str:
    """Return the regular expression that extracts a label's value from an answer of `query_result`."""
    return rf'/{label}="((?:[^"\\]|\\.)*)"/'


def _worst_rows(count: int, at: str = "") -> str:
    """Return the query of the worst rows of the time range.

    Args:
        count: the number of rows.
        at: for a query over time, the modifier that evaluates each step at the end of the range.

    """
    return f"topk({count}, {worst('row', f'max_over_time({_ROWS_IN_RANGE}{at})')})"


def _numbers() -> list[PanelBuilder]:
    return [
        number(
            "Score",
            "Score of the newest frame: the worse of the processes' and the host's own. Scores above 1 exceed the "
            "false-alarm budget.",
            worst("host", _SCORES),
            limits=SCORE,
        ),
        number(
            "Open incidents",
            "Open incidents of this host. The table below names the culprits.",
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
            "Marks set in this time range by `laggard mark NOTE`. `laggard why --host $host --mark last` shows the "
            "ranking at the last one.",
            or_zero(f"round(sum(increase({series('laggard_marks_total', *_HERE, window='$__range')})))"),
        ),
        number(
            "Model age",
            "The time for which the model has learned. Below an hour, rare but normal events may be reported as "
            "anomalies.",
            worst("host", series("laggard_model_age_seconds", *_HERE)),
            unit="s",
        ),
        number(
            "Last frame",
            "Age of the newest frame. If it grows, the agent or its connection to the bus is down, or the pipeline "
            "is behind.",
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
        "Processes by score, each with its most deviating features. The first one is usually the culprit. Values are "
        "in the base unit that ends the feature's name. `laggard why --host $host` also separates culprits from "
        "victims.",
        {"row": "Process", "feature": "Feature", "scope": "Scope", "operator": "Operator"},
        [
            Column(
                "Score",
                f"{rows} * on (operator, scope, row) group_right () ({of('score')} > bool -1)",
                decimals=2,
                limits=SCORE,
            ),
            Column("Feature score", of("score"), decimals=2),
            Column("Value", value),
            Column("Baseline", usual),
            Column("±", of("usual_deviation")),
            Column("Ratio", f"{value} / ({usual} > 0)", unit=TIMES, decimals=1),
        ],
        sort="Score",
        links={
            "Process": (
                "Show its features and their baselines",
                dashboard_url(HOST_UID, "${host:queryparam}&var-row=${__data.fields.Process:percentencode}"),
            )
        },
        height=9,
        empty="No ranking. Check that a worker reads frames of this host.",
    )


def _incidents() -> PanelBuilder:
    return table(
        "Incidents of this time range",
        "Culprit, worst value, baseline, and the number of operators that detected it. Incidents that have ended are "
        "included. `laggard incidents --host $host` describes them in sentences.",
        incident_labels(host=False),
        incident_columns(_HERE, window="$__range", labels=incident_labels(host=False)),
        sort="Onset",
        links={},
        height=5,
        empty="No incident began or was open in this time range.",
    )


def _anomalies() -> PanelBuilder:
    return table(
        "Anomalies by operator in this time range",
        "The evidence: row and feature at the onset, worst value since then, and baseline at the onset. Anomalies "
        "that may have one cause are one incident above.",
        anomaly_labels(),
        anomaly_columns(_HERE, "$__range"),
        sort="Onset",
        links={},
        height=5,
        empty="No anomaly in this time range.",
    )


def _rows() -> PanelBuilder:
    return graph(
        "Processes by score",
        "The ten processes with the highest scores in the time range. Processes of one name share a line, which "
        "shows the worst of them. A line has gaps where its process was not among the worst (`web.top_rows`).",
        [(f"{worst('row', _ROWS)} and on (row) {_worst_rows(10, at=' @ end()')}", "{{row}}")],
        limits=SCORE,
        symlog=True,
    )


def _deviations() -> PanelBuilder:
    by = "row, feature"
    value, usual, spread = (
        worst(by, series(f"laggard_feature_{which}", *_HERE)) for which in ("value", "usual", "usual_deviation")
    )
    scores = series("laggard_feature_score", *_HERE, window="$__range")
    largest = f"topk(10, {worst(by, f'max_over_time({scores} @ end())')})"
    return graph(
        "Deviation from the baseline",
        "The ten most deviating features, in standard deviations above the baseline, so that different units "
        "compare. The feature that rises first is closest to the cause.",
        [(f"({value} - {usual}) / ({spread} > 0) and on ({by}) {largest}", "{{row}}: {{feature}}")],
        unit=DEVIATIONS,
        symlog=True,
    )


def _feature() -> PanelBuilder:
    def of(which: str) -> str:
        return worst("feature", series(f"laggard_feature_{which}", *_HERE, _ROW, 'feature=~"$feature"'))

    return band(
        "$feature",
        "The newest value; in gray the baseline as learned until then: the mean, and one standard deviation on both "
        "sides. A band that follows the value means that the model is learning the new level. Gaps: the process or "
        "its feature was not among the worst.",
        value=of("value"),
        usual=of("usual"),
        deviation=of("usual_deviation"),
        by="feature",
    )


def _scores() -> PanelBuilder:
    return graph(
        "Score",
        "Scores of the processes and of the host itself. Scores above 1 (dashed line) exceed the false-alarm budget. "
        "For the operator `cpu`, above 1 means prolonged high use.",
        [(worst("operator, scope", _SCORES), "{{scope}} ({{operator}})")],
        limits=SCORE,
        symlog=True,
    )


def _when() -> PanelBuilder:
    return timeline(
        "Open anomalies by operator",
        "The time for which each operator has an open anomaly. Overlapping anomalies may have one cause; then they "
        "are one incident.",
        f"{worst('operator, scope', series('laggard_anomalies_open', *_HERE))} > bool 0",
        "{{scope}} ({{operator}})",
        {0: ("calm", "transparent"), 1: ("anomaly", RED)},
        span=12,
        height=8,
    )


def _machine() -> list[PanelBuilder]:
    return [
        _of_machine(
            "Pressure",
            "Share of the time in which some or all tasks waited for CPU, storage or memory (PSI). Memory pressure "
            "above 0 means that memory is short. High I/O pressure means that storage is the bottleneck.",
            "pressure_.+_ratio",
            "percentunit",
        ),
        _of_machine(
            "CPUs and disks",
            "Utilization of all CPUs together, and of the busiest disk. With steal, the hypervisor gives CPU time to "
            "other machines: look for the cause there.",
            "cpu_.+_ratio|disk_busy_ratio",
            "percentunit",
        ),
        _of_machine(
            "Load",
            "Tasks that run or wait (mean of the last minute), and the number of CPUs. A load above that number is a "
            "queue.",
            "load_1m|cpus",
            "short",
        ),
        _of_machine(
            "Memory",
            "Available memory can be allocated without swapping. If used swap grows, the machine is running out of "
            "memory.",
            "memory_available_bytes|swap_used_bytes",
            "decbytes",
        ),
        _of_machine(
            "Disks",
            "Throughput of all disks. A disk with high utilization and low throughput is the bottleneck.",
            "disk_(read|write)_bytes_per_s",
            "Bps",
        ),
        _of_machine(
            "Network",
            "Throughput of all interfaces except loopback. Compare it with the sockets of the processes above.",
            "network_.+_bytes_per_s",
            "Bps",
        ),
    ]


def _of_machine(title: str, description: str, features: str, unit: str) -> PanelBuilder:
    values = series("laggard_host_value", *_HERE, f'feature=~"{features}"')
    return graph(title, description, [(worst("feature", values), "{{feature}}")], unit=unit, span=8)
