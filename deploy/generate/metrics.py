"""Generate `deploy/docs/reference/metrics.md`, the table of all metrics, from their declarations."""

from __future__ import annotations

from laggard.operators.calibration import QUIET_S
from laggard.pipeline.metrics.declared import MAX_LABEL, MAX_STREAMS, METRICS, STALE_S, TOP_FEATURES

_PREFACE = f"""# Metrics

`laggard up` and `laggard work` serve these at `/metrics` on `web.listen` (by default `127.0.0.1:9464`), as text or
OpenMetrics, together with the usual metrics of the worker's own process, such as `process_cpu_seconds_total` and
`process_resident_memory_bytes`.

- No label is a process id. Rows of one name share a series, which shows the worst of them. The `web.top_rows` worst
  names of a stream have a series; `laggard_rows_left_out` is the number of the others. Each such row has up to
  {TOP_FEATURES} features.
- The series of an anomaly, `laggard_anomaly_...`, begin when an operator's score exceeds 1. Those of a host's score end
  when it has been 1 or less for {QUIET_S:.0f} s, which is before the record of the end is published. Those of a lasting
  anomaly end with that record (see [ends](anomalies.md#ends)). They retain the row and the feature at the onset. They
  are part of the state: after a restart or a rebalance, a worker exports them with the host's first frame. Replays of
  recorded data open no anomalies.
- Series of an application have the label `application` instead of `host`. The row of its `laggard_anomaly_...` and
  `laggard_incident_...` series is the culprit host; their label `resource` is the scarce resource of that host.
- Series of a pool have the label `pool` instead of `host` or `application`, and its rows are the members. Their
  features have no series, except for the worst one of each deviating member, in `laggard_pool_deviation_...`.
- Series of a service have the label `service` instead of `host`, and its rows are clusters of outliers by name. Its
  counters, `laggard_request...`, count the requests that this process has scored.
- An incident joins anomalies that may have one cause, over time, rows and operators. The worker that joins those of a
  host exports its `laggard_incident_...` series; another worker may read the host's frames.
- A label has at most {MAX_LABEL} characters; unprintable characters become U+FFFD.
- At most {MAX_STREAMS:,} streams (operator, key and scope) are exported, each until it has been silent for
  {STALE_S:.0f} s and three of its ticks. A worker that loses a host to another worker no longer exports it.
- In OpenMetrics, `laggard_latency_seconds` and `laggard_anomalies_opened_total` have exemplars; Prometheus stores them
  with `--enable-feature=exemplar-storage`.

A host of 200 processes has about 240 series with the operators `gaussian` and `cpu`; each scrape of it costs 2.4 ms of
CPU time and 27 kB (3 kB compressed).
1,000 hosts on one worker cost 2.4 s and 27 MB (`python -m tests.benchmarks.scrape`): scrape such a worker every 30 s or
60 s, or set `web.top_rows` to 3, which halves the cost. A pool of ten members or more has 22 series, and five more for
each deviating member.

A Prometheus on another machine needs `web.listen` on an address that it can reach, and a `web.token`:

```yaml
scrape_configs:
  - job_name: laggard
    authorization: {{credentials_file: /etc/prometheus/laggard.token}}
    static_configs: [{{targets: ["web-1:9464"]}}]
    relabel_configs: [{{action: labeldrop, regex: host|application|pool|service}}]
```

`labeldrop` removes labels of targets that are labels of the metrics, too, such as the `service` that a ServiceMonitor
adds. Otherwise Prometheus adds it to the metrics of hosts, and renames that of services. Alerts and dashboards then
miss both.

This page is generated: `pytest --update-golden` writes it.
"""


def document() -> str:
    """Return the page."""
    lines = [_PREFACE, "| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.exposed}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(lines) + "\n"
