"""The settings of the page."""

from __future__ import annotations

import urllib.parse

from laggard.pipeline.settings.checks import check_url
from laggard.pipeline.settings.declaring import Choice, ListenAddress, Section, Size, Text, Words


def _check_page_url(url: str) -> None:
    check_url(url, "where people reach the page: https://HOST, with :PORT where it has one; no path", "serve.token")
    if urllib.parse.urlsplit(url).path not in {"", "/"}:
        raise ValueError("https://HOST or https://HOST:PORT: the page is served at the root of its host")


class ServeSettings(Section, table="serve"):
    """The page."""

    listen = ListenAddress(
        "127.0.0.1:9463",
        "The address of the page. Port 0 uses any free one. An address that other machines can reach needs "
        "`serve.token` or `serve.proxies`.",
    )
    url = Text(
        "",
        "The address of the page for people, in links of alerts, Grafana and copied texts: "
        "`https://laggard.example.com`. Empty: no links in alerts.",
        check=_check_page_url,
    )
    token = Text(
        "",
        "The token to view and to change: people type it, programs send it as `Authorization: Bearer TOKEN`. If it "
        "is empty, see `serve.require_token`.",
        secret=True,
    )
    read_token = Text("", "The token to view everything and to change nothing.", secret=True)
    require_token = Choice(
        "auto",
        "Whether the page asks for a token if none is set and no proxy names the person. `auto`: if laggard runs as "
        "root and people have accounts on the machine, or if users do not see each other's processes (`hidepid`). "
        "The token is generated and stored in the file `serve.token` in the directory `state`.",
        choices=("auto", "always", "never"),
    )
    hosts = Words(
        "",
        "More host names of the page, in addition to that of `serve.listen` and of this machine. Requests for other "
        "names are rejected, since they may be DNS rebinding.",
    )
    proxies = Words(
        "",
        "Addresses or networks, `10.0.0.7` or `10.0.0.0/24`, of proxies that name the person in the header "
        "`serve.proxy_header`. From other addresses the header is ignored.",
    )
    proxy_header = Text("X-Forwarded-User", "The header in which a proxy names the person.")
    editors = Words(
        "*",
        "The persons named by a proxy who may set marks, pin metrics and replay dead letters: names, or patterns "
        "such as `*@example.com`. All others may view everything and change nothing.",
    )
    memory_bytes = Size(
        "1GiB", "The most memory of the page in `laggard up`, which restarts it above that.", minimum="128MiB"
    )
