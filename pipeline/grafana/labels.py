"""The labels of series that alerts are about, the uids of dashboards, and parts of PromQL."""

from __future__ import annotations

from typing import Final

JOB: Final = "laggard"
"""The label `job` of Prometheus's scrapes of laggard."""

PLACE: Final = ("environment", "cluster")
"""Labels that the scrape configuration may add."""

KEY: Final = (*PLACE, "host", "application", "pool", "service")
"""The key of a frame: one of the last four labels is there."""

STREAM: Final = (*KEY, "operator", "scope")
INCIDENT: Final = (*KEY, "scope", "row", "feature", "resource")
"""For an application, the row is the culprit host, and the resource its scarce one. For a pool, the row is a member;
for a service, the name of a cluster of similar requests."""

TASK: Final = (*PLACE, "operator", "topic")

OVERVIEW_DASHBOARD: Final = "laggard-overview"
HOST_DASHBOARD: Final = "laggard-host"
APPLICATIONS_DASHBOARD: Final = "laggard-applications"
POOLS_DASHBOARD: Final = "laggard-pools"
REQUESTS_DASHBOARD: Final = "laggard-requests"
PIPELINE_DASHBOARD: Final = "laggard-pipeline"
"""The uids of the dashboards."""

MEASURED: Final = "measured"
"""In a text, the result of the alert's expression."""


def span(seconds: float) -> str:
    """Return a length of time in PromQL, in whole milliseconds: `15m`, `500ms`."""
    left = max(round(seconds * 1000.0), 1)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def by(labels: tuple[str, ...]) -> str:
    """Return the clause that aggregates by these labels."""
    return f"by ({', '.join(labels)})"
