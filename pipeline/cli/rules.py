"""`laggard rules`: alert rules for Prometheus, its operator or Grafana."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from laggard.pipeline.cli.options import with_settings
from laggard.pipeline.grafana import rules as written
from laggard.pipeline.grafana.settings import GrafanaSettings
from laggard.pipeline.investigator.settings import ServeSettings

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings


@click.command()
@with_settings
@click.option(
    "--for",
    "form",
    type=click.Choice(["prometheus", "operator", "grafana"]),
    default="prometheus",
    show_default=True,
    help="A rule file of Prometheus, a resource of its Kubernetes operator, or a provisioning file of Grafana.",
)
@click.option("--runbooks", metavar="URL", help="The address of the runbooks.  [default: laggard's repository]")
def rules(settings: Settings, form: str, runbooks: str | None) -> None:
    """Print the alert rules as JSON, which is YAML as well.

    They are those of deploy/prometheus, with links to the Grafana of the setting grafana.url, and to the page of the
    setting serve.url if that is set. Those for Grafana query the data source whose uid is the setting
    grafana.data_source. Let either Prometheus or Grafana evaluate them, otherwise every alert comes twice.
    `laggard grafana publish` publishes them to a running Grafana.
    """
    grafana = settings[GrafanaSettings].url.rstrip("/") or written.GRAFANA
    books = (runbooks or written.RUNBOOKS).rstrip("/")
    page = settings[ServeSettings].url.rstrip("/")
    match form:
        case "prometheus":
            document = written.prometheus_rules(grafana=grafana, runbooks=books, page=page)
        case "operator":
            document = written.prometheus_rule_resource(grafana, books, page)
        case _:
            source = settings[GrafanaSettings].data_source or written.DATA_SOURCE
            document = written.grafana_provisioning(source, runbooks=books, page=page)
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
