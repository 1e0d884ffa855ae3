"""Generate `deploy/metrics.md`, the table of all metrics, from their declarations."""

from __future__ import annotations

from laggard.operators.calibration import QUIET_S
from laggard.pipeline.metrics.declared import MAX_LABEL, MAX_STREAMS, METRICS, STALE_S, TOP_FEATURES

_PREFACE = f"""# Metrics

`laggard up` and `laggard work` serve these at `/metrics` on `web.listen` (by default `127.0.0.1:9464`), as text or
OpenMetrics. Beside them are `process_cpu_seconds_total`, `process_resident_memory_bytes` and the others that every
Prometheus client has, of the worker itself.

- No label is a process id. Rows of one name share a series, that of the worst of them; the `web.top_rows` worst names
  of a stream have one, and `laggard_rows_left_out` tells how many have not. Of each such row up to {TOP_FEATURES}
  features have one.
- An operator's anomaly opens when its score passes 1 and is over when that has been 1 or less for {QUIET_S:.0f} s.
  One of a process or name that deviates for long is over after 5 calm minutes. The series of each,
  `laggard_anomaly_...`, keep the row and the feature that it opened with. They are part of the state: a worker that is
  started again, or takes its host over, shows them with the host's first frame. Replays of recorded data open none.
- Series of an application have the label `application` in the place of `host`; its `laggard_anomaly_...` and
  `laggard_incident_...` series, whose row is the host that is to blame, also `resource`, what that host is short of.
- Series of a pool have the label `pool` in the place of `host` or `application`, and its rows are the members. Their
  features have no series of their own; of those that deviate, `laggard_pool_deviation_...` have the worst one.
- Series of a service have the label `service` in the place of `host`, and its rows are clusters of outlying requests,
  by the name of each. Its own counts, `laggard_request...`, are of the requests that this process has judged.
- An incident is what is joined of anomalies of one cause, over time, rows and operators. The worker that joins those of
  a host shows its `laggard_incident_...` series from the moment on that it does; it need not be the one that has the
  host's frames.
- A label has at most {MAX_LABEL} characters; what cannot be printed becomes U+FFFD.
- At most {MAX_STREAMS:,} streams (operator, key and scope) are shown, each until it has been silent for {STALE_S:.0f} s
  and three of its ticks. Who loses a host to another worker shows it no more.
- As OpenMetrics, `laggard_latency_seconds` and `laggard_anomalies_opened_total` have exemplars; Prometheus keeps them
  with `--enable-feature=exemplar-storage`.

A host of 200 processes has some 240 series, and each scrape takes 2.4 ms of CPU and 27 kB for it, 3 kB compressed. With
1,000 hosts on one worker that is 2.4 s and 27 MB (`python -m tests.benchmarks.scrape`): scrape such a one every 30 s or
60 s, or set `web.top_rows` to 3, which takes half of it. A pool of ten members or more has 22 series, and five more for
each member that deviates.

A Prometheus elsewhere needs `web.listen` on an address that it can reach, and a `web.token`:

```yaml
scrape_configs:
  - job_name: laggard
    authorization: {{credentials_file: /etc/prometheus/laggard.token}}
    static_configs: [{{targets: ["web-1:9464"]}}]
```

This page is generated: `pytest --update-golden` writes it.
"""


def document() -> str:
    """Return the page."""
    lines = [_PREFACE, "| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.exposed}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(lines) + "\n"
