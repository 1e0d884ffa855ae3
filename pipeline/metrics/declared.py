"""Every metric, declared once: for the exporter, and for `deploy/metrics.md`."""

from __future__ import annotations

from typing import get_args

from laggard.operators.calibration import QUIET_S
from laggard.operators.ranking import Kind
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
        "How unusual the newest frame is. 1 is the false-alarm budget: above 1 is anomalous.",
    ),
    Metric(
        "row_score",
        "gauge",
        (*_STREAM, "row"),
        "How unusual the newest frame's worst row of this name is, for the worst names (setting web.top_rows).",
    ),
    Metric(
        "feature_score",
        "gauge",
        _FEATURE,
        f"How unusual the worst features of that row are, at most {TOP_FEATURES}.",
    ),
    Metric("feature_value", "gauge", _FEATURE, "What such a feature is in the newest frame, in the unit of its name."),
    Metric("feature_usual", "gauge", _FEATURE, "The mean of what is usual for it."),
    Metric("feature_usual_deviation", "gauge", _FEATURE, "The standard deviation of what is usual for it."),
    Metric(
        "rows_left_out",
        "gauge",
        _STREAM,
        "Names of rows in the newest frame that have no laggard_row_score. A gauge: what is left out of one frame is "
        "there again in the next, so that a running total would only count ticks.",
    ),
    Metric(
        "anomalies_open",
        "gauge",
        _STREAM,
        "The number of an operator's open anomalies: one from a score above 1 until it has been 1 or less for "
        f"{QUIET_S:.0f} s, and one for each process or name that deviates for long. Of live frames only.",
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
        "There while an anomaly is open: its newest score. Row and feature are those that it opened "
        "with; empty where they are not known.",
    ),
    Metric(
        "anomaly_value",
        "gauge",
        _FEATURE,
        "That feature of that row, in the unit of its name: the value farthest from the usual since it opened.",
    ),
    Metric("anomaly_usual", "gauge", _FEATURE, "The mean of what was usual for it when the anomaly opened."),
    Metric(
        "anomaly_usual_deviation",
        "gauge",
        _FEATURE,
        "The standard deviation of what was usual for it when the anomaly opened.",
    ),
    Metric(
        "anomaly_start_timestamp_seconds",
        "gauge",
        _FEATURE,
        "When the anomaly began, by its frames, since the Unix epoch.",
    ),
    Metric(
        "notices_opened",
        "counter",
        _STREAM,
        "Notices opened by live frames, since the stream's state began: of what is suspicious, but not unusual enough "
        "for an anomaly.",
    ),
    Metric(
        "status",
        "gauge",
        ("host", "status"),
        "1 for the status of the host, as far as this worker knows, 0 for all others; the first one that holds: "
        f"{'; '.join(f'`{status}` ({meaning})' for status, meaning in MEANINGS.items())}.",
    ),
    Metric("incidents_open", "gauge", ("host",), "Incidents that are open. Of live records only."),
    Metric(
        "incidents",
        "counter",
        ("host",),
        "Incidents opened, since this process joins those of the host. Its exemplar is the id of the newest that is "
        "open.",
    ),
    Metric(
        "incidents_dismissed",
        "counter",
        ("host",),
        "Incidents that people said were none, since this process joins those of the host.",
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
        "There while an incident is open, for each operator that saw it: the worst score that this one told. Row and "
        "feature are what is to blame so far, empty where nobody is; the scope is that of the row.",
    ),
    Metric(
        "incident_value",
        "gauge",
        _INCIDENT,
        "That feature of that row, in the unit of its name, as it was told last.",
    ),
    Metric("incident_usual", "gauge", _INCIDENT, "The mean of what was usual for it then."),
    Metric("incident_usual_deviation", "gauge", _INCIDENT, "The standard deviation of what was usual for it then."),
    Metric(
        "incident_start_timestamp_seconds",
        "gauge",
        _INCIDENT,
        "When the incident opened, by the first frame that is a part of it, since the Unix epoch.",
    ),
    Metric(
        "performance_value",
        "gauge",
        _MODEL,
        "What was measured of an application in its newest interval, in the unit that the performance metric's name "
        "ends with.",
    ),
    Metric("performance_predicted", "gauge", _MODEL, "What the model says that it should have been."),
    Metric(
        "performance_model_p_value",
        "gauge",
        _MODEL,
        "How probable the newest errors of the model are, if it still holds.",
    ),
    Metric(
        "performance_model_r2",
        "gauge",
        _MODEL,
        "The share of the newest intervals' variance that the model tells.",
    ),
    Metric(
        "performance_model_built_timestamp_seconds",
        "gauge",
        _MODEL,
        "The end of the interval at which the model was built, since the Unix epoch.",
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
        f"The metrics in the model, the first chosen first, at most {TOP_TERMS}: of which host, row and feature, and "
        "which resource that is about.",
    ),
    Metric("pool_members", "gauge", ("pool",), "Members of a pool that are there at its newest tick."),
    Metric(
        "pool_deviating",
        "gauge",
        ("pool", "kind"),
        "Members of a pool that behave unlike the others now, by how: "
        f"{', '.join(f'`{kind}`' for kind in get_args(Kind))}. There is no series of what none has done since this "
        "process has the pool. `younger` is no trouble, and has no score above 1.",
    ),
    Metric(
        "pool_deviation_score",
        "gauge",
        _DEVIATION,
        "How far that goes, for the worst (setting web.top_rows). The member may also be a group of members, such as "
        "one host's; the feature is the one that sets it apart most.",
    ),
    Metric("pool_deviation_value", "gauge", _DEVIATION, "That feature of that member, in the unit of its name."),
    Metric("pool_deviation_usual", "gauge", _DEVIATION, "The mean of what is usual in the pool."),
    Metric(
        "pool_deviation_usual_deviation", "gauge", _DEVIATION, "The standard deviation of what is usual in the pool."
    ),
    Metric(
        "pool_deviation_start_timestamp_seconds", "gauge", _DEVIATION, "Since when it goes on, since the Unix epoch."
    ),
    Metric(
        "pool_deviations_left_out",
        "gauge",
        ("pool",),
        "Deviations that have no laggard_pool_deviation_score. A gauge, as laggard_rows_left_out is.",
    ),
    Metric(
        "requests",
        "counter",
        ("service",),
        "Traced requests of a service that were judged, since this process has the service.",
    ),
    Metric(
        "requests_outlying",
        "counter",
        ("service", "row"),
        "Those that are out of line, by the name of their cluster of requests that are alike: the main cause in a few "
        f"words. At most {MAX_CLUSTERS} names, the others are `...`. Its exemplar is the id of the newest request.",
    ),
    Metric(
        "request_score",
        "gauge",
        ("service",),
        "How unusual the worst request is, of those that ended in the newest "
        f"{WORST_S:.0f} to {2 * WORST_S:.0f} s. Above 1 it is out of line.",
    ),
    Metric(
        "request_duration_seconds",
        "histogram",
        ("service", "outlying"),
        "How long requests took, by whether they are out of line (1) or normal (0).",
    ),
    Metric(
        "request_state_seconds",
        "counter",
        ("service", "state", "outlying"),
        "How long requests were in each state in sum: `RU` in user mode, `RS` in the kernel, waiting for `BP` a CPU, "
        "`BD` a disk, `BN` the network, `BT` another task, `BF` a futex, `BS` a timer, `BI` an interrupt; `UN` is not "
        "known.",
    ),
    Metric(
        "false_alarms_budget_per_day",
        "gauge",
        ("host", "operator"),
        "How many incidents a day are told of a host where nothing is wrong (setting OPERATOR.false_alarms).",
    ),
    Metric(
        "host_value",
        "gauge",
        ("host", "feature"),
        f"Counters of the host itself in its newest frame: {', '.join(HOST_FEATURES)}; and of all its disks and "
        f"interfaces together {', '.join(f'{kind}_{end}' for kind, end in HOST_DEVICES)}.",
    ),
    Metric("marks", "counter", ("host",), "Marks that came, since this process has the host."),
    Metric("frame_timestamp_seconds", "gauge", _STREAM, "The time of the newest frame, since the Unix epoch."),
    Metric("model_age_seconds", "gauge", _STREAM, "How long the model has been learning."),
    Metric("model_young", "gauge", _STREAM, "1 while the model has not seen enough to be relied on, else 0."),
    Metric(
        "frames_left_out",
        "counter",
        (),
        "Frames of streams (operator, key and scope) that are not shown here, because there are too many already.",
    ),
    *OF_TASKS,
    *OF_PRODUCERS,
)
