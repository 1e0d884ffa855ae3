"""The settings of the page."""

from __future__ import annotations

from laggard.pipeline.settings.checks import check_url
from laggard.pipeline.settings.declaring import Choice, ListenAddress, Section, Size, Text, Words


def _check_page_url(url: str) -> None:
    check_url(url, "where people reach the page: https://HOST, with :PORT where it has one; no path", "serve.token")
    import urllib.parse  # noqa: PLC0415 - see there

    if urllib.parse.urlsplit(url).path not in {"", "/"}:
        raise ValueError("https://HOST or https://HOST:PORT: the page is served at the root of its host")


class ServeSettings(Section, table="serve"):
    """The page."""

    listen = ListenAddress(
        "127.0.0.1:9463",
        "Where the page, the investigator, is served. Port 0 takes any free one. An address that other machines can "
        "reach needs `serve.token`, or `serve.proxies`.",
    )
    url = Text(
        "",
        "Where people reach the page from where they are, for links to it in alerts, in Grafana and in what is copied: "
        "`https://laggard.example.com`. Empty for no links in alerts.",
        check=_check_page_url,
    )
    token = Text(
        "",
        "What a person types, or a program sends as `Authorization: Bearer TOKEN`, to see and to change; where it is "
        "empty, see `serve.require_token`.",
        secret=True,
    )
    read_token = Text("", "The same for those who may see everything and change nothing.", secret=True)
    require_token = Choice(
        "auto",
        "Whether the page asks for a token where none is set and no proxy says who asks. `auto`: where laggard runs as "
        "root and people have accounts on the machine, or where users do not see each other's processes (`hidepid`). "
        "It is generated, and kept in the file `serve.token` in the directory `state`.",
        choices=("auto", "always", "never"),
    )
    hosts = Words(
        "",
        "Names by which the page is called, beside that of `serve.listen` and of this machine: a request for another "
        "one is refused, for it may be DNS rebinding.",
    )
    proxies = Words(
        "",
        "Addresses or networks, `10.0.0.7` or `10.0.0.0/24`, of proxies that say who asks, in the header "
        "`serve.proxy_header`. From elsewhere that header is not believed.",
    )
    proxy_header = Text("X-Forwarded-User", "The header in which a proxy names the person who asks.")
    editors = Words(
        "*",
        "Who of those that a proxy names may set marks, pin metrics and replay dead letters: names, or patterns such "
        "as `*@example.com`. All others see everything and change nothing.",
    )
    memory_bytes = Size("1GiB", "How much memory the page may hold, see `agent.memory_bytes`.", minimum="128MiB")
