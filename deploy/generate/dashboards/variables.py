"""The variables of all dashboards: data source, environment, cluster and host, so that links can take them along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard

from deploy.generate.dashboards.panels import DATA_SOURCE, PLACE, series

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder


def query_variable(
    name: str, label: str, asked: str, description: str, *, every: bool, regex: str = ""
) -> builders.QueryVariable:
    """A variable whose values Prometheus knows.

    Parameters:
        name: what queries call it.
        label: what readers see.
        asked: the query.
        description: what its values are.
        every: whether several of them may be chosen; all are at first. Otherwise it is one, at first the first.
        regex: takes the value out of what the query gives, and keeps its order.

    """
    variable = (
        builders.QueryVariable(name)
        .label(label)
        .description(description)
        .datasource(DATA_SOURCE)
        .query({"query": asked, "refId": "StandardVariableQuery"})
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
    """Those that all dashboards have, so that links can take them along.

    Parameters:
        every_host: whether several hosts may be chosen, all at first, or one; None where a dashboard is not of hosts.

    """
    host = query_variable(
        "host",
        "Host",
        f"label_values({series('laggard_score', *PLACE)}, host)",
        "Hosts that have been seen in the time range.",
        every=bool(every_host),
    )
    if every_host:
        host.all_value(".+")  # applications have series, too
    return [
        builders.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        query_variable(
            "environment",
            "Environment",
            "label_values(laggard_build_info, environment)",
            "A label that the scrape configuration adds; without it, All.",
            every=True,
        ),
        query_variable(
            "cluster",
            "Cluster",
            f"label_values({series('laggard_build_info', PLACE[0])}, cluster)",
            "A label that the scrape configuration adds; without it, All.",
            every=True,
        ),
        *([] if every_host is None else [host]),
    ]
