"""All dashboards by file name; `pytest --update-golden` writes them into `deploy/grafana/dashboards`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.generate.dashboards.applications import applications
from deploy.generate.dashboards.host import host
from deploy.generate.dashboards.layout import as_json
from deploy.generate.dashboards.overview import overview
from deploy.generate.dashboards.pipeline import pipeline
from deploy.generate.dashboards.pools import pools
from deploy.generate.dashboards.requests import requests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grafana_foundation_sdk.models.dashboard import Dashboard

DASHBOARDS: Final[Mapping[str, Callable[[], Dashboard]]] = {
    "overview.json": overview,
    "host.json": host,
    "applications.json": applications,
    "pools.json": pools,
    "requests.json": requests,
    "pipeline.json": pipeline,
}


def rendered() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {name: as_json(build()) for name, build in DASHBOARDS.items()}
