"""Every metric, declared once: for the exporter, and for `deploy/docs/reference/metrics.md`."""

from __future__ import annotations

from typing import get_args

from laggard.operators.calibration import QUIET_S
from laggard.operators.ranking import Kind
from laggard.pipeline.alarms.courses import OVER_S
from laggard.pipeline.alarms.status import MEANINGS
from laggard.pipeline.metrics.metric import Metric
from laggard.pipeline.metrics.producers import OF_PRODUCERS
from laggard.pipeline.metrics.tasks import OF_TASKS

MAX_LABEL = 100
"""The most characters of a label's value; a longer one is cut and ends in an ellipsis."""

MAX_STREAMS = 8000
"""The most streams (operator, key, scope) and agents that are shown; others wait until one of them falls silent. A host
has two streams of each operator, and an agent."""

TOP_FEATURES = 3
"""The most features of a row with series of their own: the worst ones."""

TOP_TERMS = 5
"""The most metrics of a performance model with series of their own: those that were chosen first."""

MAX_CLUSTERS, MAX_STATES = 64, 16
"""The most clusters of outlying requests, and states, of a service with series of their own; the others share one."""

WORST_S = 15.0
"""The score of a service is that of the worst request of the last one to two periods of this length, in seconds."""

STALE_S = 300.0
"""A stream is no longer shown after a silence of this time, in seconds, and of three of its ticks."""


HOST_FEATURES = (
    "cpus",
    "cpu_busy_ratio",
    "cpu_io_wait_ratio",
    "cpu_steal_ratio",
    "load_1m",
    "memory_available_bytes",
    "swap_used_bytes",
    *(f"pressure_{what}_{who}_ratio" for what in ("cpu", "io", "memory") for who in ("some", "full")),
)
"""These features of a host's frame are shown ..."""

HOST_DEVICES = (
    ("disk", "read_bytes_per_s"),
    ("disk", "write_bytes_per_s"),
    ("disk", "busy_ratio"),
    ("network", "receive_bytes_per_s"),
    ("network", "transmit_bytes_per_s"),
)
"""... and, as KIND_END, the sum of these over all devices of a kind except for the loopback; of ratios the highest."""

_STREAM = ("host", "operator", "scope")
_FEATURE = (*_STREAM, "row", "feature")
_INCIDENT = ("host", "scope", "row", "feature")
_MODEL = ("application", "performance")
_DEVIATION = ("pool", "member", "kind", "feature")

METRICS: tuple[Metric, ...] = (
    Metric("build", "info", ("version", "python"), "The versions of laggard and of Python."),
    Metric(
        "score",
        "gauge",
        _STREAM,
        "The score of the newest frame. Above 1 it is an anomaly by the false-alarm budget.",
    ),
    Metric(
        "row_score",
        "gauge",
        (*_STREAM, "row"),
        "The score of the worst row of this name in the newest frame, for the worst names (setting web.top_rows).",
    ),
    Metric(
        "feature_score",
        "gauge",
        _FEATURE,
        f"The scores of the worst features of that row, at most {TOP_FEATURES}.",
    ),
    Metric(
        "feature_value", "gauge", _FEATURE, "The value of such a feature in the newest frame, in the unit of its name."
    ),
    Metric("feature_usual", "gauge", _FEATURE, "The mean of its baseline."),
    Metric("feature_usual_deviation", "gauge", _FEATURE, "The standard deviation of its baseline."),
    Metric(
        "rows_left_out",
        "gauge",
        _STREAM,
        "Names in the newest frame without a laggard_row_score. It is a gauge, since a name that is left out of "
        "one frame may be shown in the next.",
    ),
    Metric(
        "anomalies_open",
        "gauge",
        _STREAM,
        "The number of an operator's open anomalies: that of the score, until it has been 1 or less for "
        f"{QUIET_S:.0f} s ({OVER_S:.0f} s for pools, services and applications), and each lasting one. Of live frames "
        "only.",
    ),
    Metric(
        "anomalies_opened",
        "counter",
        _STREAM,
        "Anomalies opened by live frames, since the stream's state began: a worker that takes it over counts on. Its "
        "exemplar is the id of the newest, while that is open.",
    ),
    Metric(
        "anomaly_score",
        "gauge",
        _FEATURE,
        "The newest score of an open anomaly. Row and feature are those at its opening; empty if they are unknown.",
    ),
    Metric(
        "anomaly_value",
        "gauge",
        _FEATURE,
        "The value of that feature of that row farthest from its baseline since the anomaly opened, in the unit "
        "of its name.",
    ),
    Metric("anomaly_usual", "gauge", _FEATURE, "The mean of its baseline when the anomaly opened."),
    Metric(
        "anomaly_usual_deviation",
        "gauge",
        _FEATURE,
        "The standard deviation of its baseline when the anomaly opened.",
    ),
    Metric(
        "anomaly_start_timestamp_seconds",
        "gauge",
        _FEATURE,
        "The onset of the anomaly by its frames, seconds since the Unix epoch.",
    ),
    Metric(
        "notices_opened",
        "counter",
        _STREAM,
        "Notices opened by live frames, since the stream's state began: suspicious, but not unusual enough for an "
        "anomaly.",
    ),
    Metric(
        "status",
        "gauge",
        ("host", "status"),
        "1 for the status of the host, as far as this worker knows, 0 for all others; the first one that holds: "
        f"{'; '.join(f'`{status}` ({meaning})' for status, meaning in MEANINGS.items())}.",
    ),
    Metric("incidents_open", "gauge", ("host",), "Open incidents. Of live records only."),
    Metric(
        "incidents",
        "counter",
        ("host",),
        "Incidents opened, since this process joins those of the host. Its exemplar is the id of the newest open one.",
    ),
    Metric(
        "incidents_dismissed",
        "counter",
        ("host",),
        "Incidents that people dismissed by feedback, since this process joins those of the host.",
    ),
    Metric(
        "incidents_closed",
        "counter",
        ("host", "operators"),
        "Incidents closed, since this process joins those of the host, by the operators that saw them, in alphabetical "
        "order: `cpu,gaussian`.",
    ),
    Metric(
        "incident_score",
        "gauge",
        (*_INCIDENT, "operator"),
        "The worst score of an open incident, for each operator that saw it. Row and feature are the present "
        "culprit, empty without one; the scope is that of the row.",
    ),
    Metric(
        "incident_value",
        "gauge",
        _INCIDENT,
        "The value of that feature of that row in the last record, in the unit of its name.",
    ),
    Metric("incident_usual", "gauge", _INCIDENT, "The mean of its baseline then."),
    Metric("incident_usual_deviation", "gauge", _INCIDENT, "The standard deviation of its baseline then."),
    Metric(
        "incident_start_timestamp_seconds",
        "gauge",
        _INCIDENT,
        "The onset of the first anomaly of the incident, seconds since the Unix epoch.",
    ),
    Metric(
        "performance_value",
        "gauge",
        _MODEL,
        "The measured performance of an application in its newest interval, in the unit of its name.",
    ),
    Metric("performance_predicted", "gauge", _MODEL, "The performance that the model predicts for that interval."),
    Metric(
        "performance_model_p_value",
        "gauge",
        _MODEL,
        "The p-value of the newest errors of the model, if it still holds.",
    ),
    Metric(
        "performance_model_r2",
        "gauge",
        _MODEL,
        "The share of the variance of the newest intervals that the model explains.",
    ),
    Metric(
        "performance_model_built_timestamp_seconds",
        "gauge",
        _MODEL,
        "The end of the interval at which the model was built, seconds since the Unix epoch.",
    ),
    Metric(
        "performance_models_built",
        "counter",
        (*_MODEL, "reason"),
        "Models built, since this process has the application: the `first`, `grown` when there was more to learn from, "
        "`changed` when response times or their relation to the metrics had changed, `poor`, or by a person's `wish`.",
    ),
    Metric(
        "performance_model_term",
        "info",
        (*_MODEL, "position", "host", "row", "feature", "resource"),
        f"The metrics in the model in the order of their selection, at most {TOP_TERMS}: their host, row, feature "
        "and resource.",
    ),
    Metric("pool_members", "gauge", ("pool",), "Members of a pool at its newest tick."),
    Metric(
        "pool_deviating",
        "gauge",
        ("pool", "kind"),
        "Members of a pool that deviate now, by kind: "
        f"{', '.join(f'`{kind}`' for kind in get_args(Kind))}. A kind that has not occurred since this process "
        "has the pool has no series. `younger` is no trouble, and scores at most 1.",
    ),
    Metric(
        "pool_deviation_score",
        "gauge",
        _DEVIATION,
        "The score of the worst deviations (setting web.top_rows). The member may also be a group of members, "
        "such as those of a host; the feature is the most distinctive one.",
    ),
    Metric(
        "pool_deviation_value",
        "gauge",
        _DEVIATION,
        "The value of that feature of that member, in the unit of its name.",
    ),
    Metric("pool_deviation_usual", "gauge", _DEVIATION, "The mean of the pool's baseline."),
    Metric("pool_deviation_usual_deviation", "gauge", _DEVIATION, "The standard deviation of the pool's baseline."),
    Metric(
        "pool_deviation_start_timestamp_seconds",
        "gauge",
        _DEVIATION,
        "The onset of the deviation, seconds since the Unix epoch.",
    ),
    Metric(
        "pool_deviations_left_out",
        "gauge",
        ("pool",),
        "Deviations without a laggard_pool_deviation_score. It is a gauge, like laggard_rows_left_out.",
    ),
    Metric(
        "requests",
        "counter",
        ("service",),
        "Traced requests of a service that were scored, since this process has the service.",
    ),
    Metric(
        "requests_outlying",
        "counter",
        ("service", "row"),
        "Outliers among them, by the name of their cluster: the main cause in a few words. At most "
        f"{MAX_CLUSTERS} names, the others are `...`. Its exemplar is the id of the newest request.",
    ),
    Metric(
        "request_score",
        "gauge",
        ("service",),
        f"The score of the worst request that ended in the newest {WORST_S:.0f} to {2 * WORST_S:.0f} s. Above 1 "
        "it is an outlier.",
    ),
    Metric(
        "request_duration_seconds",
        "histogram",
        ("service", "outlying"),
        "Durations of requests, by whether they are outliers (1) or normal (0).",
    ),
    Metric(
        "request_state_seconds",
        "counter",
        ("service", "state", "outlying"),
        "Time of requests in each state: `RU` in user mode, `RS` in the kernel, waiting for `BP` a CPU, `BD` a "
        "disk, `BN` the network, `BT` another task, `BF` a futex, `BS` a timer, `BI` an interrupt; `UN` is "
        "unknown.",
    ),
    Metric(
        "false_alarms_budget_per_day",
        "gauge",
        ("host", "operator"),
        "The false-alarm budget: anomalies to expect per day of a host without any fault (setting "
        "OPERATOR.false_alarms).",
    ),
    Metric(
        "host_value",
        "gauge",
        ("host", "feature"),
        f"Counters of the host itself in its newest frame: {', '.join(HOST_FEATURES)}; and of all its disks and "
        f"interfaces together {', '.join(f'{kind}_{end}' for kind, end in HOST_DEVICES)}.",
    ),
    Metric("marks", "counter", ("host",), "Marks received, since this process has the host."),
    Metric("frame_timestamp_seconds", "gauge", _STREAM, "The time of the newest frame, seconds since the Unix epoch."),
    Metric("model_age_seconds", "gauge", _STREAM, "The time for which the model has learned."),
    Metric(
        "model_young", "gauge", _STREAM, "1 while the model has learned too little for reliable results, otherwise 0."
    ),
    Metric(
        "frames_left_out",
        "counter",
        (),
        "Frames of streams (operator, key and scope) that are not shown here: there are too many streams.",
    ),
    *OF_TASKS,
    *OF_PRODUCERS,
)
