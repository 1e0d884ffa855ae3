"""The settings of the worker's port."""

from __future__ import annotations

from laggard.pipeline.settings.declaring import Count, ListenAddress, Section, Text


class WebSettings(Section, table="web"):
    """The worker's port."""

    listen = ListenAddress(
        "127.0.0.1:9464",
        "The address of the worker, which serves `/metrics` and accepts marks. Port 0 uses any free one. An address "
        "that other machines can reach needs `web.token`.",
    )
    token = Text("", "The token that clients must send as `Authorization: Bearer TOKEN`. Empty for none.", secret=True)
    top_rows = Count(
        "10", "The number of rows of each host with metrics of their own: the worst ones.", minimum="0", maximum="1000"
    )
