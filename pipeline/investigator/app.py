"""The application behind the page's port: the page itself, its assets, the API, and what is new."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from laggard.pipeline.bus import BusError, BusUnavailable
from laggard.pipeline.investigator.api import (
    applications,
    cluster,
    incidents,
    moment,
    pipeline,
    pools,
    requests,
    session,
)
from laggard.pipeline.investigator.caller import CALLER
from laggard.pipeline.investigator.endpoint import read_body
from laggard.pipeline.investigator.live import MOST_LISTENERS, News
from laggard.pipeline.investigator.openapi import PREFIX, document
from laggard.pipeline.web.bodies import read_json_body
from laggard.pipeline.web.errors import RequestError, handlers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from laggard.pipeline.investigator.endpoint import Answer, Endpoint
    from laggard.pipeline.investigator.reading import Reading

ASSETS: Final = Path(__file__).parent / "assets"

VIEWS: Final = ("/", "/incidents", "/applications", "/pools", "/requests", "/pipeline")
"""Paths at which the page is: which view it shows, its script reads from the path."""

HEALTH: Final = "/-/healthy"
ASSETS_PATH: Final = "/assets/"

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *session.ENDPOINTS,
    *cluster.ENDPOINTS,
    *moment.ENDPOINTS,
    *incidents.ENDPOINTS,
    *applications.ENDPOINTS,
    *pools.ENDPOINTS,
    *requests.ENDPOINTS,
    *pipeline.ENDPOINTS,
)

MAX_BODY_BYTES: Final = 64 * 1024

READERS: Final = 4
"""Answers that are looked for on the bus at the same time ..."""

WAIT_S: Final = 5.0
"""... and how long another one waits for its turn."""

_ZIP_FROM: Final = 1024


def create_app(reading: Reading, news: News) -> ASGIApp:
    """The application, without anything before it that says who may ask.

    Args:
        reading: what it shows.
        news: of the same.

    """
    turns = asyncio.Semaphore(READERS)
    by_path: dict[str, dict[str, Endpoint]] = {}
    for each in ENDPOINTS:
        by_path.setdefault(each.path, {})[each.method] = each
    routes = [
        *(Route(path, _page) for path in VIEWS),
        Route(HEALTH, _healthy),
        Route(f"{PREFIX}/openapi.json", _document),
        Route(f"{PREFIX}/live", functools.partial(_live, news)),
        *(Route(PREFIX + path, _handler(each, reading, turns), methods=list(each)) for path, each in by_path.items()),
        Mount(ASSETS_PATH.rstrip("/"), _assets()),
    ]
    return Starlette(
        routes=routes,
        exception_handlers=handlers(f"a path of {PREFIX}/openapi.json"),
    )


def _assets() -> ASGIApp:
    # Half a megabyte as it is, a third of that so: 0.3 s less over 10 Mbit/s, for 11 ms of a core.
    return GZipMiddleware(StaticFiles(directory=ASSETS), minimum_size=_ZIP_FROM, compresslevel=5)


async def _page(_: Request) -> Response:
    return FileResponse(ASSETS / "index.html", headers={"Cache-Control": "no-cache"})


async def _healthy(_: Request) -> Response:
    return JSONResponse({"healthy": True})


async def _document(_: Request) -> Response:
    return JSONResponse(document(ENDPOINTS))


async def _live(news: News, request: Request) -> Response:
    if news.listeners >= MOST_LISTENERS:
        raise RequestError(503, "too many pages listen", f"at most {MOST_LISTENERS}", {"Retry-After": "30"})
    caller = request.scope[CALLER]

    async def events() -> AsyncGenerator[bytes, None]:
        async with contextlib.aclosing(news.listen()) as told:
            async for event in told:
                if not caller.may_still_see():
                    return
                yield event

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _handler(
    endpoints: Mapping[str, Endpoint], reading: Reading, turns: asyncio.Semaphore
) -> Callable[[Request], Awaitable[Response]]:
    """What answers at one path: `endpoints` by method."""

    async def handle(request: Request) -> Response:
        endpoint = endpoints["GET" if request.method == "HEAD" else request.method]
        asked: list[msgspec.Struct] = [endpoint.asked(request.query_params.multi_items())]
        if endpoint.body is not None:
            asked.append(read_body(await read_json_body(request, MAX_BODY_BYTES), endpoint.body))
        call = functools.partial(endpoint.handle, reading, *asked)
        if endpoint.asks_caller:
            call = functools.partial(call, caller=request.scope[CALLER])
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        try:
            async with asyncio.timeout(WAIT_S):
                await turns.acquire()
        except TimeoutError:
            raise RequestError(503, "too much is asked at once", "later", {"Retry-After": "5"}) from None
        try:
            return await run_in_threadpool(_answer, call, endpoint.status, zipped=zipped)
        finally:
            turns.release()

    return handle


def _answer(call: Callable[[], Answer], status: int, *, zipped: bool) -> Response:
    try:
        answer = call()
    except BusUnavailable as error:
        raise RequestError(503, str(error), "a bus that can be reached: laggard doctor", {"Retry-After": "5"}) from None
    except BusError as error:
        raise RequestError(500, str(error), "a bus that works: laggard doctor") from None
    body = msgspec.json.encode(answer)
    headers = {"Content-Type": "application/json", "Vary": "Accept-Encoding"}
    if zipped and len(body) >= _ZIP_FROM:
        body = gzip.compress(body, compresslevel=1)
        headers["Content-Encoding"] = "gzip"
    return Response(body, status, headers)
