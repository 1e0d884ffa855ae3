"""All dashboards, by the files that they are written to: `pytest --update-golden` does, into `deploy/grafana`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.grafana.applications import applications
from laggard.pipeline.grafana.host import host
from laggard.pipeline.grafana.layout import as_json
from laggard.pipeline.grafana.overview import overview
from laggard.pipeline.grafana.pipeline import pipeline
from laggard.pipeline.grafana.pools import pools
from laggard.pipeline.grafana.requests import requests

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
    """The text of each file, by its name."""
    return {name: as_json(build()) for name, build in DASHBOARDS.items()}
