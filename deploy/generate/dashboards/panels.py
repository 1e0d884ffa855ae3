"""What dashboards are made of: queries, panels and links, in the form that Grafana 10 to 12 share.

Everything that a reader of a dashboard could take for granted is decided here, once: a score's threshold is 1, links
keep variables and time range, a table joins its queries by their labels.
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

from laggard.pipeline.grafana.alerts import (
    APPLICATIONS_DASHBOARD,
    HOST_DASHBOARD,
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

KEPT: Final = "${datasource:queryparam}&${environment:queryparam}&${cluster:queryparam}"
"""What every link takes along, beside the host and the time."""

PLACE: Final = ('environment=~"$environment"', 'cluster=~"$cluster"')
"""Labels that the scrape configuration adds. `All` is `.*`, which a series without the label matches as well."""

TIMES_USUAL: Final = "suffix:\u00d7"
DEVIATIONS: Final = "suffix:\u03c3"

UNITS: Final = (
    ("_ratio", "percentunit"),
    ("_(s|seconds)", "s"),
    ("_per_s", "short"),
    ("_(bytes|characters)", "decbytes"),
    ("_(bytes|characters)_per_s", "Bps"),
)
"""By the end of a feature's name; of those that fit, the last one counts."""

ON_HOST: Final = (*PLACE, 'host=~"$host"')


HOST: Final = "environment, cluster, host"
"""The labels of one machine: in two clusters there may be machines of one name."""

APPLICATION: Final = "environment, cluster, application"
"""The labels of one application."""

POOL: Final = "environment, cluster, pool"
"""The labels of one pool."""

SERVICE: Final = "environment, cluster, service"
"""The labels of one service."""

TASK: Final = "environment, cluster, operator, topic, partition"
"""The labels of one task: two clusters have partitions of the same names."""


def series(metric: str, *matchers: str, window: str = "") -> str:
    """A selector; with a window (`$__range`), of a range.

    Example:
        >>> series("laggard_lag_records", 'topic="t"', window="5m")
        'laggard_lag_records{topic="t"}[5m]'

    """
    return f"{metric}{{{', '.join(matchers)}}}" + (f"[{window}]" if window else "")


def worst(by: str, expression: str) -> str:
    """The greatest by labels. Two workers show one stream for some minutes after a rebalance: it counts once."""
    return f"max by ({by}) ({expression})"


def or_zero(expression: str) -> str:
    """A count of nothing is empty in PromQL; this makes it 0."""
    return f"({expression}) or vector(0)"


# Links.


def dashboard_url(uid: str, arguments: str = "", time: str = "${__url_time_range}") -> str:
    """A link inside Grafana that keeps the data source, the environment and the cluster."""
    return f"/d/{uid}?{'&'.join(part for part in (KEPT, arguments, time) if part)}"


def host_url(column: str = "Host", time: str = "${__url_time_range}") -> str:
    """From a row of a table to the dashboard of its host."""
    return dashboard_url(HOST_UID, f"var-host=${{__data.fields.{column}:percentencode}}", time)


def application_url() -> str:
    """From a row of a table to the dashboard of its application."""
    return dashboard_url(APPLICATIONS_UID, "var-application=${__data.fields.Application:percentencode}")


def pool_url(time: str = "${__url_time_range}") -> str:
    """From a row of a table to the dashboard of its pool."""
    return dashboard_url(POOLS_UID, "var-pool=${__data.fields.Pool:percentencode}", time)


def service_url(time: str = "${__url_time_range}") -> str:
    """From a row of a table to the dashboard of its service."""
    return dashboard_url(REQUESTS_UID, "var-service=${__data.fields.Service:percentencode}", time)


# Queries.


def query(expression: str, legend: str = "", *, instant: bool = False, ref: str = "A") -> prometheus_builders.Dataquery:
    """One query of a panel."""
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
    """Green, and from each value on the colour beside it."""
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
"""1 is the budget for false alarms, whatever the operator."""


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
    """One number as it is at the end of the time range, coloured by its limits.

    Parameters:
        title: what it is.
        description: what it means, and what to do about it.
        expression: gives one value.
        unit: Grafana's id of it.
        limits: from which value on it has which colour; without them it has none.
        span: columns.
        link: title and URL of where to go from here.
        words: shown in the place of a value.

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
    """Lines over time.

    Parameters:
        title: what it is.
        description: what it means, and what to do about it.
        queries: expressions, each with the form of its series' names.
        unit: Grafana's id of it.
        span: columns.
        height: rows of the grid.
        limits: lines at these values.
        symlog: for scores and the like, which go from a hundredth to hundreds: linear up to 1, logarithmic above.
        stacked: for what adds up to something.
        most: the upper end of the axis.
        exemplars: whether to show those that Prometheus has.

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
    """A feature beside what is usual for it: a panel for each value of a variable, its unit by the feature's name.

    The band is two areas on each other, of which the lower one is not seen: unlike an area between two named lines,
    this leaves the series their features' names, which the units go by.

    Parameters:
        title: what it is.
        description: what it means, and what to do about it.
        value: the feature's.
        usual: the mean of what is usual.
        deviation: the standard deviation of what is usual.
        by: the label that has the feature's name, and the variable that the panel is repeated by.
        span: columns; as many panels are beside each other as have room.
        height: rows of the grid.

    """
    low = f"clamp_min({usual} - {deviation}, 0)"
    name = f"{{{{{by}}}}}"
    panel = graph(
        title,
        description,
        [
            (value, name),
            (usual, f"usual {name}"),
            (low, f"low {name}"),
            (f"{usual} + {deviation} - {low}", f"spread {name}"),
        ],
        span=span,
        height=height,
    )
    grey = ("color", {"mode": "fixed", "fixedColor": "text"})
    unseen = [
        ("custom.stacking", {"mode": "normal", "group": "band"}),
        ("custom.hideFrom", {"legend": True, "tooltip": True, "viz": False}),
        ("custom.lineWidth", 0),
    ]
    overrides: tuple[tuple[str, Sequence[tuple[str, object]]], ...] = (
        ("/^usual /", [grey, ("custom.lineStyle", {"fill": "dash", "dash": [6, 4]}), ("custom.fillOpacity", 0)]),
        ("/^low /", [*unseen, ("custom.fillOpacity", 0)]),
        ("/^spread /", [grey, *unseen, ("custom.fillOpacity", 20)]),
        *((f"/{ending}$/", (("unit", unit),)) for ending, unit in UNITS),
    )
    for names, properties in overrides:
        panel.override_by_regexp(names, [dashboard.DynamicConfigValue(*one) for one in properties])
    return panel.repeat(by).repeat_direction("h").line_width(2).fill_opacity(0)


def timeline(title: str, description: str, expression: str, legend: str, words: Mapping[int, tuple[str, str]],
             *, span: int = WIDTH, height: int = 6) -> statetimeline_builders.Panel:  # fmt: skip
    """States over time, a line for each series; each value has a word and a colour."""
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
    """Shows a word, with a colour, in the place of a value."""
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
