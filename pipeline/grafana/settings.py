"""The settings of `laggard grafana`."""

from __future__ import annotations

from laggard.pipeline.settings.checks import check_url
from laggard.pipeline.settings.declaring import Duration, File, Section, Text


def _check_grafana_url(url: str) -> None:
    expected = "where Grafana is: https://HOST, with :PORT and the path that it is served under where it has them"
    check_url(url, expected, "grafana.token")


class GrafanaSettings(Section, table="grafana"):
    """Grafana."""

    url = Text(
        "",
        "Where Grafana is, for `laggard grafana`, with the path that it is served under: `https://grafana.example.com`.",
        check=_check_grafana_url,
    )
    token = Text(
        "",
        "A token of a service account there. The role Admin has all the rights; `laggard grafana check` tells which of "
        "them are missing.",
        secret=True,
    )
    token_file = File("", "A file whose first line is `grafana.token`.", excludes="grafana.token")
    ca_file = File(
        "", "The certificates of the authorities that vouch for Grafana, as PEM; empty for those that are usual."
    )
    data_source = Text(
        "",
        "The uid or the name of Grafana's data source for the Prometheus that scrapes laggard; empty for the only one, "
        "or the default one. Where the token may not list data sources: the uid.",
    )
    timeout = Duration(
        "10s", "A call that Grafana has not answered for so long has failed.", minimum="1s", maximum="5m"
    )
