"""The settings of `laggard grafana`."""

from __future__ import annotations

from laggard.pipeline.settings.checks import check_url
from laggard.pipeline.settings.declaring import Duration, File, Section, Text


def _check_grafana_url(url: str) -> None:
    expected = "where Grafana is: https://HOST, with :PORT and the path that it is served under where it has them"
    check_url(url, expected, "grafana.token")


class GrafanaSettings(Section, table="grafana"):
    """The settings of Grafana."""

    url = Text(
        "",
        "The address of Grafana for `laggard grafana`, with its path: `https://grafana.example.com`.",
        check=_check_grafana_url,
    )
    token = Text(
        "",
        "A token of a Grafana service account. The role Admin has all permissions; `laggard grafana check` lists the "
        "missing ones.",
        secret=True,
    )
    token_file = File("", "A file whose first line is `grafana.token`.", excludes="grafana.token")
    ca_file = File("", "The certificate authorities of Grafana, as PEM. Empty: those of the system.")
    data_source = Text(
        "",
        "The uid or name of Grafana's data source for the Prometheus that scrapes laggard. Empty: the only one, or "
        "the default one. A token that may not list data sources needs the uid.",
    )
    timeout = Duration(
        "10s", "A request without an answer from Grafana for this time has failed.", minimum="1s", maximum="5m"
    )
