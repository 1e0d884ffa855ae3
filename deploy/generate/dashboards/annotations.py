"""Annotations of the dashboards: queries of Prometheus, and annotations published to Grafana."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from grafana_foundation_sdk.models import dashboard

from deploy.generate.dashboards.panels import DATA_SOURCE, ORANGE, PLACE, RED, series, worst

if TYPE_CHECKING:
    from collections.abc import Sequence


class PrometheusAnnotation(dashboard.AnnotationQuery):
    """An annotation query with the fields of the data source Prometheus, which the SDK lacks.

    It is active where the query has a value above 0; successive active steps are one region.

    Parameters:
        name: its name at the top of the dashboard.
        expr: the query.
        color: the color of its lines and regions.
        text: the text of each, with labels in double braces.
        tags: labels whose values become tags.

    """

    def __init__(self, name: str, expr: str, color: str, text: str, tags: Sequence[str]) -> None:
        super().__init__(name=name, datasource=DATA_SOURCE, enable=True, icon_color=color, expr=expr)
        self.text = text
        self.tags = tuple(tags)

    def to_json(self) -> dict[str, object]:
        """Return its JSON in a dashboard."""
        own = {"step": "15s", "titleFormat": self.name, "textFormat": self.text, "tagKeys": ",".join(self.tags)}
        return {**super().to_json(), **own}


def annotations_by(matchers: Sequence[str], scope: Literal["host", "all"]) -> list[dashboard.AnnotationQuery]:
    """Return incidents and notices as regions, marks as lines, and those published to Grafana."""
    opened = series("laggard_incident_start_timestamp_seconds", *matchers, window="$__interval")
    marks = series("laggard_marks_total", *matchers)
    suspicious = worst("host", series("laggard_status", *matchers, 'status="suspicious"'))
    return [
        PrometheusAnnotation(
            "Incident",
            worst("host, scope, row, feature", f"last_over_time({opened})"),
            RED,
            "{{host}}: {{row}}, {{feature}}",
            ["host", "scope"],
        ),
        PrometheusAnnotation(
            "Notice",
            f"{suspicious} > 0",
            ORANGE,
            "{{host}}: suspicious",
            ["host"],
        ),
        PrometheusAnnotation(
            "Mark",
            f"sum by (host) ({marks}) - sum by (host) ({marks} offset $__interval) > 0",
            "blue",
            "{{host}}: marked as slow",
            ["host"],
        ),
        dashboard.AnnotationQuery(
            name="Published",
            datasource=dashboard.DataSourceRef(type_val="grafana", uid="-- Grafana --"),
            enable=True,
            icon_color="purple",
            target=dashboard.AnnotationTarget(
                limit=100,
                match_any=False,
                tags=["laggard", "host:$host"] if scope == "host" else ["laggard"],
                type_val="tags",
            ),
        ),
    ]


def of_applications(matchers: Sequence[str]) -> list[dashboard.AnnotationQuery]:
    """Return incidents of applications as regions, and the first minute of each new model."""
    opened = series("laggard_incident_start_timestamp_seconds", *matchers, window="$__interval")
    built = series("laggard_performance_model_built_timestamp_seconds", *matchers)
    return [
        PrometheusAnnotation(
            "Incident",
            worst("application, row, resource, feature", f"last_over_time({opened})"),
            RED,
            "{{application}}: {{resource}} of {{row}}, {{feature}}",
            ["application"],
        ),
        PrometheusAnnotation(
            "Model",
            f"time() - {worst('application, performance', built)} < 60",
            ORANGE,
            "{{application}}: new model of {{performance}}",
            ["application"],
        ),
    ]


def of_pools(matchers: Sequence[str]) -> list[dashboard.AnnotationQuery]:
    """Return incidents of pools as regions."""
    opened = series("laggard_incident_start_timestamp_seconds", *matchers, window="$__interval")
    return [
        PrometheusAnnotation(
            "Incident",
            worst("pool, row, feature", f"last_over_time({opened})"),
            RED,
            "{{pool}}: {{row}}, {{feature}}",
            ["pool"],
        )
    ]


def of_services(matchers: Sequence[str]) -> list[dashboard.AnnotationQuery]:
    """Return incidents of services as regions."""
    opened = series("laggard_incident_start_timestamp_seconds", *matchers, window="$__interval")
    return [
        PrometheusAnnotation(
            "Incident",
            worst("service, row", f"last_over_time({opened})"),
            RED,
            "{{service}}: {{row}}",
            ["service"],
        )
    ]


def started_workers() -> list[dashboard.AnnotationQuery]:
    """Return the first minute of each worker that was added, updated or restarted."""
    running = (
        f"{series('process_start_time_seconds', *PLACE)} * on (job, instance) {series('laggard_build_info', *PLACE)}"
    )
    return [
        PrometheusAnnotation(
            "Worker started",
            f"time() - {worst('instance', running)} < 60",
            ORANGE,
            "{{instance}} started",
            ["instance"],
        )
    ]
