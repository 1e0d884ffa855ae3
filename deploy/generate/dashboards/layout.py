"""The layout of panels in rows and rows in a dashboard, and its JSON."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

if TYPE_CHECKING:
    from collections.abc import Sequence

PanelBuilder: TypeAlias = Builder[dashboard.Panel]

TAG: Final = "laggard"
"""The tag of all dashboards: the links at the top of each lead to the others with this tag."""


class Row(NamedTuple):
    """Panels below one heading."""

    title: str
    panels: Sequence[PanelBuilder]


def assemble(
    uid: str,
    title: str,
    description: str,
    *,
    variables: Sequence[Builder[dashboard.VariableModel]],
    annotations: Sequence[dashboard.AnnotationQuery],
    rows: Sequence[Row],
) -> dashboard.Dashboard:
    """Return a dashboard of these rows, from top to bottom; panels are numbered in this order."""
    builder = (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .time("now-1h", "now")
        .refresh("30s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .variables(list(variables))
        .link(
            builders.DashboardLink("laggard")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
    )
    for row in rows:
        builder.with_row(builders.Row(row.title))
        for panel in row.panels:
            builder.with_panel(panel)
    built = builder.build()
    built.annotations = dashboard.AnnotationContainer(list_val=list(annotations))
    numbers = count(1)
    for placed in built.panels or ():
        placed.id_val = next(numbers)
    return built


def as_json(built: dashboard.Dashboard) -> str:
    """Return the dashboard as JSON, without the fields of the SDK that Grafana 12 no longer has."""
    document = json.loads(json.dumps(built, cls=JSONEncoder))
    del document["style"]
    for variable in document["templating"]["list"]:
        for name in ("id", "auto", "auto_min", "auto_count"):
            del variable[name]
    for panel in document["panels"]:
        panel.get("options", {}).pop("footer", None)  # of tables
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
