"""The variables of the dashboards. Links between dashboards keep data source, environment and cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard

from deploy.generate.dashboards.panels import DATA_SOURCE, PLACE, series

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder


def query_variable(
    name: str, label: str, query: str, description: str, *, every: bool, regex: str = ""
) -> builders.QueryVariable:
    """Return a variable with values from Prometheus.

    Parameters:
        name: its name in queries.
        label: its label on the dashboard.
        query: the query.
        description: its values.
        every: whether several values may be chosen, by default all; otherwise one, by default the first.
        regex: extracts the value from the answer of the query; keeps the order of the answer.

    """
    variable = (
        builders.QueryVariable(name)
        .label(label)
        .description(description)
        .datasource(DATA_SOURCE)
        .query({"query": query, "refId": "StandardVariableQuery"})
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.DISABLED if regex else dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(every)
        .include_all(every)
    )
    if regex:
        variable.regex(regex)
    if every:
        variable.all_value(".*").current(dashboard.VariableOption(selected=True, text=["All"], value=["$__all"]))
    return variable


def common_variables(*, every_host: bool | None) -> list[Builder[dashboard.VariableModel]]:
    """Return the variables that all dashboards have.

    Parameters:
        every_host: whether several hosts may be chosen, by default all, or one; None for a dashboard without hosts.

    """
    host = query_variable(
        "host",
        "Host",
        f"label_values({series('laggard_score', *PLACE)}, host)",
        "Hosts with frames in the time range.",
        every=bool(every_host),
    )
    if every_host:
        host.all_value(".+")  # excludes applications
    return [
        builders.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        query_variable(
            "environment",
            "Environment",
            "label_values(laggard_build_info, environment)",
            "A label that the scrape configuration adds. Without it, choose All.",
            every=True,
        ),
        query_variable(
            "cluster",
            "Cluster",
            f"label_values({series('laggard_build_info', PLACE[0])}, cluster)",
            "A label that the scrape configuration adds. Without it, choose All.",
            every=True,
        ),
        *([] if every_host is None else [host]),
    ]
