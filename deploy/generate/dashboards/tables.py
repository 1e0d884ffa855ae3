"""Tables: a row for each series, with its labels and the values of several queries as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import table as table_builders
from grafana_foundation_sdk.models import common, dashboard, prometheus

from deploy.generate.dashboards.panels import DATA_SOURCE, WIDTH, query, thresholds, words_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that a query fills.

    Attributes:
        name: its head.
        expression: an instant query; its labels are those of the table.
        unit: Grafana's id of it.
        decimals: the number of decimal places; None leaves it to Grafana.
        limits: values, each with the color of a cell from this value on.
        words: the text and color that replace a value.
        hidden: whether only links use the column.

    """

    name: str
    expression: str
    unit: str = "short"
    decimals: int | None = None
    limits: tuple[tuple[float, str], ...] = ()
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    hidden: bool = False


def table(
    title: str,
    description: str,
    labels: Mapping[str, str],
    columns: Sequence[Column],
    *,
    sort: str,
    links: Mapping[str, tuple[str, str]],
    span: int = WIDTH,
    height: int = 8,
    empty: str = "",
) -> table_builders.Panel:
    """Return a table of series: columns for their labels, then one for each query.

    Parameters:
        title: the title.
        description: its meaning, and what to do.
        labels: the heads of the columns by label, in order.
        columns: the queries, whose results have exactly these labels.
        sort: the column to sort by, in descending order.
        links: by column, the title and the URL of the links of its cells.
        span: columns of the grid.
        height: rows of the grid.
        empty: the text without any row.

    """
    panel = (
        table_builders.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .height(height)
        .span(span)
        .cell_height(common.TableCellHeight.SM)
        .sort_by([common_builders.TableSortByFieldState().display_name(sort).desc(True)])
        .with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    )
    if empty:
        panel.no_value(empty)
    shown = dict(labels)
    for ref, column in zip(ascii_uppercase, columns, strict=False):
        panel.with_target(query(column.expression, instant=True, ref=ref).format(prometheus.PromQueryFormat.TABLE))
        shown["Value" if len(columns) == 1 else f"Value #{ref}"] = column.name
        panel.override_by_name(column.name, _properties(column))
    panel.with_transformation(
        dashboard.DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": {name: index for index, name in enumerate(shown)},
                "renameByName": shown,
            },
        )
    )
    for name, (title_of_link, url) in links.items():
        link = dashboard.DynamicConfigValue("links", [{"title": title_of_link, "url": url}])
        panel.override_by_name(name, [link])
    return panel


def _properties(column: Column) -> list[dashboard.DynamicConfigValue]:
    properties: dict[str, object] = {"unit": column.unit}
    if column.decimals is not None:
        properties["decimals"] = column.decimals
    if column.hidden:
        properties["custom.hidden"] = True
    if column.limits:
        properties["thresholds"] = thresholds(*column.limits).build()
    if column.words:
        properties["mappings"] = [words_for(column.words)]
    if column.limits or column.words:
        properties["custom.cellOptions"] = {"type": "color-text"}
    return [dashboard.DynamicConfigValue(name, value) for name, value in properties.items()]
