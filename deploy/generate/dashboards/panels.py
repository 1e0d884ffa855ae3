"""Queries, panels and links of dashboards, in the form that Grafana 10 to 12 share.

The conventions of all dashboards are here: the threshold of a score is 1, and links keep variables and time range.
"""

from __future__ import annotations

from string import ascii_uppercase
from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus as prometheus_builders
from grafana_foundation_sdk.builders import stat as stat_builders
from grafana_foundation_sdk.builders import statetimeline as statetimeline_builders
from grafana_foundation_sdk.builders import timeseries as timeseries_builders
from grafana_foundation_sdk.models import common, dashboard, prometheus

from laggard.pipeline.grafana.labels import (
    APPLICATIONS_DASHBOARD,
    HOST_DASHBOARD,
    JOB,
    OVERVIEW_DASHBOARD,
    PIPELINE_DASHBOARD,
    POOLS_DASHBOARD,
    REQUESTS_DASHBOARD,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DATA_SOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")

OVERVIEW_UID, HOST_UID, PIPELINE_UID = OVERVIEW_DASHBOARD, HOST_DASHBOARD, PIPELINE_DASHBOARD
APPLICATIONS_UID, POOLS_UID, REQUESTS_UID = APPLICATIONS_DASHBOARD, POOLS_DASHBOARD, REQUESTS_DASHBOARD

WIDTH: Final = 24
"""Columns of Grafana's grid."""

GREEN, ORANGE, RED = "green", "orange", "red"

VARIABLES: Final = "${datasource:queryparam}&${environment:queryparam}&${cluster:queryparam}"
"""The variables that every link keeps, besides the host and the time."""

PLACE: Final = ('environment=~"$environment"', 'cluster=~"$cluster"')
"""Matchers of the labels that the scrape configuration adds. `All` is `.*`, which also matches a missing label."""

TIMES: Final = "suffix:\u00d7"
DEVIATIONS: Final = "suffix:\u03c3"

UNITS: Final = (
    ("_ratio", "percentunit"),
    ("_(s|seconds)", "s"),
    ("_per_s", "short"),
    ("_(bytes|characters)", "decbytes"),
    ("_(bytes|characters)_per_s", "Bps"),
)
"""The units by the ending of a feature's name; the last match applies."""

ON_HOST: Final = (*PLACE, 'host=~"$host"')


HOST: Final = "environment, cluster, host"
"""The labels of one machine: clusters may have machines of the same name."""

APPLICATION: Final = "environment, cluster, application"
"""The labels of one application."""

SUBJECT: Final = "environment, cluster, host, application, pool, service"
"""The labels of one host, application, pool or service."""

POOL: Final = "environment, cluster, pool"
"""The labels of one pool."""

SERVICE: Final = "environment, cluster, service"
"""The labels of one service."""

TASK: Final = "environment, cluster, operator, topic, partition"
"""The labels of one task: clusters have partitions of the same names."""


def series(metric: str, *matchers: str, window: str = "") -> str:
    """Return a selector; with a window (`$__range`), a range selector.

    Example:
        >>> series("laggard_lag_records", 'topic="t"', window="5m")
        'laggard_lag_records{topic="t"}[5m]'

    """
    return f"{metric}{{{', '.join(matchers)}}}" + (f"[{window}]" if window else "")


def worst(by: str, expression: str) -> str:
    """Return the maximum by labels: after a rebalance, two workers export the same stream for some minutes."""
    return f"max by ({by}) ({expression})"


def or_zero(expression: str, scraped: str = " == 1") -> str:
    """Return the query with 0 for an empty result: PromQL counts nothing as empty.

    Where no worker responds, there is no result: nothing is known then, and a green 0 would hide that.

    Args:
        expression: the query.
        scraped: the condition on `up` for a 0.

    """
    up = series("up", f'job="{JOB}"', *PLACE)
    return f"({expression}) or 0 * max({up}{scraped})"


# Links.


def dashboard_url(uid: str, arguments: str = "", time: str = "${__url_time_range}") -> str:
    """Return a link inside Grafana that keeps the data source, the environment and the cluster."""
    return f"/d/{uid}?{'&'.join(part for part in (VARIABLES, arguments, time) if part)}"


def host_url(column: str = "Host", time: str = "${__url_time_range}") -> str:
    """Return the link from a row of a table to the dashboard of its host."""
    return dashboard_url(HOST_UID, f"var-host=${{__data.fields.{column}:percentencode}}", time)


def application_url() -> str:
    """Return the link from a row of a table to the dashboard of its application."""
    return dashboard_url(APPLICATIONS_UID, "var-application=${__data.fields.Application:percentencode}")


def pool_url(time: str = "${__url_time_range}") -> str:
    """Return the link from a row of a table to the dashboard of its pool."""
    return dashboard_url(POOLS_UID, "var-pool=${__data.fields.Pool:percentencode}", time)


def service_url(time: str = "${__url_time_range}") -> str:
    """Return the link from a row of a table to the dashboard of its service."""
    return dashboard_url(REQUESTS_UID, "var-service=${__data.fields.Service:percentencode}", time)


# Queries.


def query(expression: str, legend: str = "", *, instant: bool = False, ref: str = "A") -> prometheus_builders.Dataquery:
    """Return one query of a panel."""
    built = (
        prometheus_builders.Dataquery()
        .expr(expression)
        .ref_id(ref)
        .datasource(DATA_SOURCE)
        .editor_mode(prometheus.QueryEditorMode.CODE)
        .legend_format(legend or "__auto")
    )
    return built.instant() if instant else built.range()


def thresholds(*steps: tuple[float, str]) -> builders.ThresholdsConfig:
    """Return green, and from each value on its color."""
    return (
        builders.ThresholdsConfig()
        .mode(dashboard.ThresholdsMode.ABSOLUTE)
        .steps(
            [
                dashboard.Threshold(value=None, color=GREEN),
                *(dashboard.Threshold(value=value, color=color) for value, color in steps),
            ]
        )
    )


SCORE: Final = ((1.0, RED),)
"""1 is the alert level of every operator."""


# Panels.


def number(
    title: str,
    description: str,
    expression: str,
    *,
    unit: str = "short",
    limits: Sequence[tuple[float, str]] = (),
    span: int = 4,
    link: tuple[str, str] | None = None,
    words: Mapping[int, str] | None = None,
) -> stat_builders.Panel:
    """Return a panel with one number, that at the end of the time range, colored by its limits.

    Parameters:
        title: the title.
        description: its meaning, and what to do.
        expression: a query with one value.
        unit: Grafana's id of the unit.
        limits: values, each with the color from this value on; without limits there is no color.
        span: columns.
        link: the title and URL of a link.
        words: texts that replace values.

    """
    panel = (
        stat_builders.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .height(4)
        .span(span)
        .unit(unit)
        .with_target(query(expression, instant=True))
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .graph_mode(common.BigValueGraphMode.NONE)
        .color_mode(common.BigValueColorMode.VALUE if limits else common.BigValueColorMode.NONE)
        .thresholds(thresholds(*limits))
    )
    if words:
        panel.mappings([words_for({str(value): (word, None) for value, word in words.items()})])
    if link:
        panel.data_links([builders.DashboardLink(link[0]).url(link[1])])
    return panel


def graph(
    title: str,
    description: str,
    queries: Sequence[tuple[str, str]],
    *,
    unit: str = "short",
    span: int = 12,
    height: int = 8,
    limits: Sequence[tuple[float, str]] = (),
    symlog: bool = False,
    stacked: bool = False,
    most: float | None = None,
    exemplars: bool = False,
) -> timeseries_builders.Panel:
    """Return a panel with lines over time.

    Parameters:
        title: the title.
        description: its meaning, and what to do.
        queries: expressions, each with the legend of its series.
        unit: Grafana's id of the unit.
        span: columns.
        height: rows of the grid.
        limits: lines at these values.
        symlog: whether the axis is linear up to 1 and logarithmic above, for values such as scores.
        stacked: whether the series are stacked.
        most: the upper end of the axis.
        exemplars: whether to show exemplars.

    """
    panel = (
        timeseries_builders.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .height(height)
        .span(span)
        .unit(unit)
        .min(0)
        .line_width(1)
        .fill_opacity(30 if stacked else 5)
        .show_points(common.VisibilityMode.NEVER)
        .legend(_legend())
        .tooltip(
            common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
    )
    for ref, (expression, legend) in zip(ascii_uppercase, queries, strict=False):
        panel.with_target(query(expression, legend, ref=ref).exemplar(exemplars))
    if limits:
        panel.thresholds(thresholds(*limits)).thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED)
        )
    if symlog:
        panel.scale_distribution(
            common_builders.ScaleDistributionConfig().type(common.ScaleDistribution.SYMLOG).log(10).linear_threshold(1)
        )
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if most is not None:
        panel.max(most)
    return panel


def band(
    title: str, description: str, *, value: str, usual: str, deviation: str, by: str, span: int = 8, height: int = 8
) -> timeseries_builders.Panel:
    """Return a panel with a feature and its baseline, repeated for each value of a variable.

    The band is two stacked areas, of which the lower one is invisible. An area between two named lines would require
    other names of the series, but the units follow from the features' names.

    Parameters:
        title: the title.
        description: its meaning, and what to do.
        value: the query of the feature.
        usual: the query of the mean of its baseline.
        deviation: the query of the standard deviation of its baseline.
        by: the label with the feature's name, and the variable that repeats the panel.
        span: columns.
        height: rows of the grid.

    """
    low = f"clamp_min({usual} - {deviation}, 0)"
    name = f"{{{{{by}}}}}"
    panel = graph(
        title,
        description,
        [
            (value, name),
            (usual, f"baseline {name}"),
            (low, f"low {name}"),
            (f"{usual} + {deviation} - {low}", f"spread {name}"),
        ],
        span=span,
        height=height,
    )
    gray = ("color", {"mode": "fixed", "fixedColor": "text"})
    hidden = [
        ("custom.stacking", {"mode": "normal", "group": "band"}),
        ("custom.hideFrom", {"legend": True, "tooltip": True, "viz": False}),
        ("custom.lineWidth", 0),
    ]
    overrides: tuple[tuple[str, Sequence[tuple[str, object]]], ...] = (
        ("/^baseline /", [gray, ("custom.lineStyle", {"fill": "dash", "dash": [6, 4]}), ("custom.fillOpacity", 0)]),
        ("/^low /", [*hidden, ("custom.fillOpacity", 0)]),
        ("/^spread /", [gray, *hidden, ("custom.fillOpacity", 20)]),
        *((f"/{ending}$/", (("unit", unit),)) for ending, unit in UNITS),
    )
    for names, properties in overrides:
        panel.override_by_regexp(names, [dashboard.DynamicConfigValue(*one) for one in properties])
    return panel.repeat(by).repeat_direction("h").line_width(2).fill_opacity(0)


def timeline(title: str, description: str, expression: str, legend: str, words: Mapping[int, tuple[str, str]],
             *, span: int = WIDTH, height: int = 6) -> statetimeline_builders.Panel:  # fmt: skip
    """Return a panel with states over time, a line for each series; each value has a text and a color."""
    return (
        statetimeline_builders.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .height(height)
        .span(span)
        .with_target(query(expression, legend))
        .color_scheme(builders.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
        .mappings([words_for({str(value): shown for value, shown in words.items()})])
        .merge_values(True)
        .show_value(common.VisibilityMode.AUTO)
        .row_height(0.8)
        .fill_opacity(80)
        .line_width(0)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(False)
            .calcs([])
        )
    )


def words_for(words: Mapping[str, tuple[str, str | None]]) -> dashboard.ValueMap:
    """Return a mapping that replaces values by texts, with colors."""
    return dashboard.ValueMap(
        {
            value: dashboard.ValueMappingResult(text=word, color=color, index=index)
            for index, (value, (word, color)) in enumerate(words.items())
        }
    )


def _legend() -> common_builders.VizLegendOptions:
    return (
        common_builders.VizLegendOptions()
        .display_mode(common.LegendDisplayMode.TABLE)
        .placement(common.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["max", "lastNotNull"])
        .sort_by("Max")
        .sort_desc(True)
    )
