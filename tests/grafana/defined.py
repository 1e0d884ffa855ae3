"""What laggard publishes to a Grafana whose Prometheus is `prom-1`."""

from __future__ import annotations

from laggard.pipeline.grafana.definitions import read_definitions

DEFINED = read_definitions("prom-1")
DASHBOARDS = sorted(each["uid"] for each in DEFINED.dashboards)
RULES = sorted(each["uid"] for each in DEFINED.rules)
