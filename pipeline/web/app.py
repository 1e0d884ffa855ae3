"""The application of the worker's port: metrics for Prometheus, health for an orchestrator, and marks of users."""

from __future__ import annotations

import gzip
import shlex
import time
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder, gzip_accepted
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.history.marks import mark_id
from laggard.pipeline.metrics.exposition import write_metrics
from laggard.pipeline.web.bodies import read_json_body
from laggard.pipeline.web.errors import RequestError, handlers
from laggard.pipeline.web.guard import Guard
from laggard.pipeline.web.marks import MAX_BODY_BYTES, Allowance, read_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from laggard.pipeline.core.records import Mark
    from laggard.pipeline.web.listen import Listen

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>laggard on {host}</title>
<h1>laggard {version} on {host}</h1>
<ul>
<li><a href="/metrics">/metrics</a>: for Prometheus
<li><a href="/-/healthy">/-/healthy</a>: whether this process answers
<li><a href="/-/ready">/-/ready</a>: whether it has recovered its state, or what is left
<li>POST /marks: it is slow now
</ul>
<pre>curl {token}-H 'Content-Type: application/json' -d '{{"note": "checkout hangs"}}' http://{listen}/marks</pre>
<p>What is slow, and the culprits: <code>laggard why</code>
"""


@dataclass(frozen=True, slots=True)
class _App:
    """The endpoints; for the fields see `create_app`."""

    listen: Listen
    registry: CollectorRegistry
    recovering: Callable[[], Mapping[str, int]]
    append: Callable[[Mark], None]
    host: str
    clock: Callable[[], float]
    allowance: Allowance
    asks: bool

    def routes(self) -> list[Route]:
        return [
            Route("/", self.index),
            Route("/metrics", self.metrics),
            Route("/-/healthy", self.healthy),
            Route("/-/ready", self.ready),
            Route("/marks", self.mark, methods=["POST"]),
        ]

    async def index(self, request: Request) -> Response:
        listen = request.headers.get("host") or str(self.listen.address)
        return HTMLResponse(
            _PAGE.format(
                host=escape(self.host),
                version=escape(version("laggard")),
                listen=escape(listen),
                token="-H 'Authorization: Bearer TOKEN' " if self.asks else "",
            )
        )

    # Not a coroutine, so that it runs in a thread: a scrape must not delay a probe.
    def metrics(self, request: Request) -> Response:
        try:
            _, media_type = choose_encoder(request.headers.get("accept", ""))
        except (ValueError, TypeError):  # prometheus_client raises these for an invalid version
            _, media_type = choose_encoder("")
        open_metrics = media_type.startswith("application/openmetrics-text")
        body = write_metrics(self.registry.collect(), open_metrics=open_metrics)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if gzip_accepted(request.headers.get("accept-encoding", "")):
            body = gzip.compress(body, compresslevel=1)
            headers["Content-Encoding"] = "gzip"
        # Set as a header: Starlette would add a second charset to a media type of text.
        return Response(body, headers={"Content-Type": media_type, **headers})

    async def healthy(self, _: Request) -> Response:
        return JSONResponse({"healthy": True})

    async def ready(self, _: Request) -> Response:
        left = dict(self.recovering())
        if left:
            return JSONResponse({"ready": False, "left": left}, 503, {"Retry-After": "1"})
        return JSONResponse({"ready": True})

    async def mark(self, request: Request) -> Response:
        mark = read_mark(await read_json_body(request, MAX_BODY_BYTES), self.host, self.clock())
        self.allowance.take()
        try:
            await run_in_threadpool(self.append, mark)
        except BusUnavailable as error:
            raise RequestError(503, f"the mark was not accepted: {error}", "later", {"Retry-After": "5"}) from error
        except BusError as error:
            raise RequestError(
                500, f"the mark was not accepted: {error}", "a bus that works: laggard doctor"
            ) from error
        return JSONResponse(
            {
                "mark": {
                    "id": mark_id(mark.host, mark.ts, mark.note),
                    "ts": mark.ts,
                    "host": mark.host,
                    "note": mark.note,
                },
                "next": f"laggard why --host {shlex.quote(mark.host)} --at {mark.ts!r}",
            },
            201,
        )


def create_app(
    *,
    listen: Listen,
    registry: CollectorRegistry,
    recovering: Callable[[], Mapping[str, int]],
    append: Callable[[Mark], None],
    host: str,
    clock: Callable[[], float] = time.time,
    allowance: Allowance | None = None,
    page_token: str = "",
) -> ASGIApp:
    """Return the application for `serve`.

    Args:
        listen: its address; decides which `Host` it accepts and whether it requires a token.
        registry: the metrics of `/metrics`.
        recovering: returns what remains to be recovered, and how much of it; empty when ready.
        append: writes a mark to the bus, durably; may raise `BusError`.
        host: this machine's name in records, and the default host of a mark.
        clock: returns the time, seconds since the Unix epoch.
        allowance: the limit of marks.
        page_token: the token for marks if `listen` has none; empty for none.

    """
    asks = bool(listen.token or page_token)
    app = Starlette(
        routes=_App(listen, registry, recovering, append, host, clock, allowance or Allowance(), asks).routes(),
        exception_handlers=handlers("a path that GET / lists"),
    )
    return Guard(app, listen, page_token)
