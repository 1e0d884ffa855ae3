"""Tables: series as rows, their labels and the values of some queries as columns."""

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
        decimals: behind the point; None leaves it to Grafana.
        limits: from which value on a cell has which colour.
        words: shown in the place of a value, with its colour.
        hidden: whether it is there for links alone.

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
    """Series as rows: the labels that they share, then a column for each query.

    Parameters:
        title: what it is.
        description: what it means, and what to do about it.
        labels: label to the head of its column, in order.
        columns: the queries, whose results have just these labels.
        sort: the column that comes first in descending order.
        links: by column, the title and the URL of where its cells lead.
        span: columns of the grid.
        height: rows of the grid.
        empty: what is said where there is no row.

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
    for name, (said, url) in links.items():
        link = dashboard.DynamicConfigValue("links", [{"title": said, "url": url}])
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
