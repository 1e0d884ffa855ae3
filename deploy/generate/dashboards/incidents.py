"""Tables of incidents, which more than one dashboard has, and of what each operator saw of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deploy.generate.dashboards.panels import SCORE, TIMES_USUAL, host_url, series, worst
from deploy.generate.dashboards.tables import Column
from laggard.pipeline.grafana.alerts import LATELY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BEFORE_S, AFTER_S = 1800, 600
"""What a link to an incident shows: so long before it began, so that what was usual is seen, and so long after, but
not what is yet to come: what is asked for the end of the time range would be empty."""

_PLACE = {"environment": "Environment", "cluster": "Cluster", "host": "Host"}
_SUBJECT = {"row": "Process", "feature": "Feature", "scope": "Scope"}


def incident_labels(*, host: bool) -> Mapping[str, str]:
    """The labels of the table and the heads of their columns; on the dashboard of one host without the host."""
    return {**_PLACE, **_SUBJECT} if host else _SUBJECT


def application_labels() -> Mapping[str, str]:
    """Those of incidents of applications: the row is the host that is to blame."""
    return {
        "environment": "Environment",
        "cluster": "Cluster",
        "application": "Application",
        "row": "Host",
        "resource": "Short of",
        "feature": "Metric",
    }


def pool_labels() -> Mapping[str, str]:
    """Those of incidents of pools: the row is the member that is to blame."""
    return {
        "environment": "Environment",
        "cluster": "Cluster",
        "pool": "Pool",
        "row": "Member",
        "feature": "Feature",
    }


def service_labels() -> Mapping[str, str]:
    """Those of incidents of services: the row is a cluster of requests that are alike."""
    return {
        "environment": "Environment",
        "cluster": "Cluster",
        "service": "Service",
        "row": "Cause",
        "feature": "Feature",
    }


def incident_columns(matchers: Sequence[str], window: str = "", *, labels: Mapping[str, str]) -> list[Column]:
    """The columns: of incidents that are open at the end of the time range, or with a window, of all in it."""
    of = _Asked(", ".join(labels), matchers, window)
    began, scores = of.last("incident_start_timestamp_seconds"), of.series("incident_score", "max_over_time")

    def worst_of(which: str) -> str:
        """Of all frames, as the operator has it that began with this; where there is none, as it was told."""
        anomalies = series(f"laggard_anomaly_{which}", *matchers)
        seen = of.last(f"anomaly_{which}") if window else worst(of.by, LATELY.format(anomalies))
        return f"({seen} and {began}) or {of.last(f'incident_{which}')}"

    return [
        Column("Began", f"{began} * 1000", unit="dateTimeAsIso"),
        Column("Score", worst(of.by, scores), decimals=2, limits=SCORE),
        Column("Operators", f"count by ({of.by}) (max by ({of.by}, operator) ({scores}))", decimals=0),
        *_evidence(worst_of("value"), worst_of("usual"), worst_of("usual_deviation")),
        Column("from", f"floor({began} - {BEFORE_S}) * 1000", hidden=True),
        Column("to", f"floor(clamp_max({began} + {AFTER_S}, time())) * 1000", hidden=True),
    ]


def anomaly_labels() -> Mapping[str, str]:
    """Those of what each operator saw on one host."""
    return {"operator": "Operator", **_SUBJECT}


def anomaly_columns(matchers: Sequence[str], window: str) -> list[Column]:
    """What each operator saw on one host in a window."""
    of = _Asked(", ".join(anomaly_labels()), matchers, window)
    return [
        Column("Began", f"{of.last('anomaly_start_timestamp_seconds')} * 1000", unit="dateTimeAsIso"),
        Column("Score", worst(of.by, of.series("anomaly_score", "max_over_time")), decimals=2, limits=SCORE),
        *_evidence(*(of.last(f"anomaly_{which}") for which in ("value", "usual", "usual_deviation"))),
    ]


class _Asked(NamedTuple):
    """Asks for metrics by labels, now or in a window."""

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
        Column("Usual", usual),
        Column("±", spread),
        Column("Times usual", f"({value}) / (({usual}) > 0)", unit=TIMES_USUAL, decimals=1),
    ]


def incident_links() -> Mapping[str, tuple[str, str]]:
    """By column, where it leads."""
    return {"Host": ("Look why: this host when the incident began", host_url(time=incident_span()))}


def incident_span() -> str:
    """The time range around the beginning of a row's incident, for a link."""
    return "from=${__data.fields.from.numeric}&to=${__data.fields.to.numeric}"
