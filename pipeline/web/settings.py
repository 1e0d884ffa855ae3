"""The settings of the worker's port."""

from __future__ import annotations

from laggard.pipeline.settings.declaring import Count, ListenAddress, Section, Text


class WebSettings(Section, table="web"):
    """The worker's port."""

    listen = ListenAddress(
        "127.0.0.1:9464",
        "Where the worker serves `/metrics` and takes marks. Port 0 takes any free one. "
        "An address that other machines can reach needs `web.token`.",
    )
    token = Text("", "What a client has to send as `Authorization: Bearer TOKEN`; empty asks for nothing.", secret=True)
    top_rows = Count(
        "10", "How many rows of each host have metrics of their own, the worst ones.", minimum="0", maximum="1000"
    )
