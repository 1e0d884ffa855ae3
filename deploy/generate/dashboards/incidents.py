"""Columns of the tables of incidents and anomalies, for several dashboards."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deploy.generate.dashboards.panels import SCORE, TIMES, host_url, series, worst
from deploy.generate.dashboards.tables import Column
from laggard.pipeline.grafana.alerts import LATELY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BEFORE_S, AFTER_S = 1800, 600
"""The time range of a link to an incident, before and after the onset. It does not extend beyond now, because instant
queries at its end would be empty."""

_PLACE = {"environment": "Environment", "cluster": "Cluster", "host": "Host"}
_SUBJECT = {"row": "Process", "feature": "Feature", "scope": "Scope"}


def incident_labels(*, host: bool) -> Mapping[str, str]:
    """Return the labels of the table and the heads of their columns.

    Args:
        host: whether the table has several hosts.

    """
    return {**_PLACE, **_SUBJECT} if host else _SUBJECT


def application_labels() -> Mapping[str, str]:
    """Return those of incidents of applications: the row is the culprit host."""
    return {
        "environment": "Environment",
        "cluster": "Cluster",
        "application": "Application",
        "row": "Host",
        "resource": "Scarce resource",
        "feature": "Metric",
    }


def pool_labels() -> Mapping[str, str]:
    """Return those of incidents of pools: the row is the culprit member."""
    return {
        "environment": "Environment",
        "cluster": "Cluster",
        "pool": "Pool",
        "row": "Member",
        "feature": "Feature",
    }


def service_labels() -> Mapping[str, str]:
    """Return those of incidents of services: the row is a cluster of similar requests."""
    return {
        "environment": "Environment",
        "cluster": "Cluster",
        "service": "Service",
        "row": "Cause",
        "feature": "Feature",
    }


def incident_columns(matchers: Sequence[str], window: str = "", *, labels: Mapping[str, str]) -> list[Column]:
    """Return the columns of the incidents that are open at the end of the time range; with a window, of all in it."""
    of = _Queries(", ".join(labels), matchers, window)
    onset, scores = of.last("incident_start_timestamp_seconds"), of.series("incident_score", "max_over_time")

    def worst_of(which: str) -> str:
        """Return the value of the anomaly that opened with this row, otherwise that of the incident's last record."""
        anomalies = series(f"laggard_anomaly_{which}", *matchers)
        found = of.last(f"anomaly_{which}") if window else worst(of.by, LATELY.format(anomalies))
        return f"({found} and {onset}) or {of.last(f'incident_{which}')}"

    return [
        Column("Onset", f"{onset} * 1000", unit="dateTimeAsIso"),
        Column("Score", worst(of.by, scores), decimals=2, limits=SCORE),
        Column("Operators", f"count by ({of.by}) (max by ({of.by}, operator) ({scores}))", decimals=0),
        *_evidence(worst_of("value"), worst_of("usual"), worst_of("usual_deviation")),
        Column("from", f"floor({onset} - {BEFORE_S}) * 1000", hidden=True),
        Column("to", f"floor(clamp_max({onset} + {AFTER_S}, time())) * 1000", hidden=True),
    ]


def anomaly_labels() -> Mapping[str, str]:
    """Return the labels of the anomalies of one host."""
    return {"operator": "Operator", **_SUBJECT}


def anomaly_columns(matchers: Sequence[str], window: str) -> list[Column]:
    """Return the columns of the anomalies of one host in a window."""
    of = _Queries(", ".join(anomaly_labels()), matchers, window)
    return [
        Column("Onset", f"{of.last('anomaly_start_timestamp_seconds')} * 1000", unit="dateTimeAsIso"),
        Column("Score", worst(of.by, of.series("anomaly_score", "max_over_time")), decimals=2, limits=SCORE),
        *_evidence(*(of.last(f"anomaly_{which}") for which in ("value", "usual", "usual_deviation"))),
    ]


class _Queries(NamedTuple):
    """Queries of metrics by labels, now or in a window."""

    by: str
    matchers: Sequence[str]
    window: str

    def series(self, metric: str, over: str = "last_over_time") -> str:
        selected = series(f"laggard_{metric}", *self.matchers, window=self.window)
        return f"{over}({selected})" if self.window else selected

    def last(self, metric: str) -> str:
        return worst(self.by, self.series(metric))


def _evidence(value: str, usual: str, spread: str) -> list[Column]:
    return [
        Column("Value", value),
        Column("Baseline", usual),
        Column("±", spread),
        Column("Ratio", f"({value}) / (({usual}) > 0)", unit=TIMES, decimals=1),
    ]


def incident_links() -> Mapping[str, tuple[str, str]]:
    """Return the links by column."""
    return {"Host": ("Open this host at the onset", host_url(time=incident_span()))}


def incident_span() -> str:
    """Return the time range around the onset of a row's incident, for a link."""
    return "from=${__data.fields.from.numeric}&to=${__data.fields.to.numeric}"
