"""The application behind the page's port: the page itself, its assets, the API, and live events."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.investigator.api import (
    applications,
    applications_map,
    applications_models,
    applications_tracking,
    applications_wishes,
    cluster,
    comparison,
    cost,
    diagnoses,
    feedback,
    incident,
    incident_reports,
    incidents,
    letters,
    moment,
    notices,
    pipeline,
    pipeline_topics,
    pool_series,
    pools,
    requests,
    requests_compared,
    requests_path,
    series,
    session,
)
from laggard.pipeline.investigator.caller import CALLER
from laggard.pipeline.investigator.endpoint import read_body
from laggard.pipeline.investigator.openapi import PREFIX, document
from laggard.pipeline.web.bodies import read_json_body
from laggard.pipeline.web.errors import RequestError, handlers

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
    from os import PathLike

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from laggard.pipeline.investigator.endpoint import Answer, Endpoint
    from laggard.pipeline.investigator.live import News
    from laggard.pipeline.investigator.reading import Reading

ASSETS: Final = Path(__file__).parent / "assets"

VIEWS: Final = ("/", "/incidents", "/applications", "/pools", "/requests", "/pipeline")
"""The paths of the page: its script selects the view by the path."""

HEALTH: Final = "/-/healthy"
ASSETS_PATH: Final = "/assets/"

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *session.ENDPOINTS,
    *cluster.ENDPOINTS,
    *moment.ENDPOINTS,
    *comparison.ENDPOINTS,
    *series.ENDPOINTS,
    *incidents.ENDPOINTS,
    *incident.ENDPOINTS,
    *incident_reports.ENDPOINTS,
    *diagnoses.ENDPOINTS,
    *notices.ENDPOINTS,
    *feedback.ENDPOINTS,
    *applications.ENDPOINTS,
    *applications_tracking.ENDPOINTS,
    *applications_models.ENDPOINTS,
    *applications_map.ENDPOINTS,
    *applications_wishes.ENDPOINTS,
    *pools.ENDPOINTS,
    *pool_series.ENDPOINTS,
    *requests.ENDPOINTS,
    *requests_compared.ENDPOINTS,
    *requests_path.ENDPOINTS,
    *pipeline.ENDPOINTS,
    *pipeline_topics.ENDPOINTS,
    *cost.ENDPOINTS,
    *letters.ENDPOINTS,
)

MAX_BODY_BYTES: Final = 64 * 1024

READERS: Final = 4
"""The most requests that are answered from the bus at the same time."""

WAIT_S: Final = 5.0
"""The longest time that a further request waits for its turn, in seconds."""

_ZIP_FROM: Final = 1024


def create_app(reading: Reading, news: News) -> ASGIApp:
    """Create the application, without access control.

    Args:
        reading: the data that it shows.
        news: the news of the same bus.

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
        Mount(ASSETS_PATH.rstrip("/"), _Assets()),
    ]
    return Starlette(
        routes=routes,
        exception_handlers=handlers(f"a path of {PREFIX}/openapi.json"),
    )


class _Assets(StaticFiles):
    """The assets, each compressed once: compression cuts half a megabyte to a third."""

    def __init__(self) -> None:
        super().__init__(directory=ASSETS)
        self._zipped: dict[str, tuple[int, bytes]] = {}  # by path, with the time of its last change

    def file_response(
        self, full_path: PathLike[str] | str, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return the file, compressed if the caller accepts that; or status 304 if the caller already has it."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Vary"] = "Accept-Encoding"
        headers = Headers(scope=scope)
        if (
            not isinstance(response, FileResponse)
            or stat_result.st_size < _ZIP_FROM
            or "range" in headers
            or "gzip" not in headers.get("accept-encoding", "")
        ):
            return response
        changed_ns, body = self._zipped.get(str(full_path), (-1, b""))
        if changed_ns != stat_result.st_mtime_ns:  # a file of a checkout may change
            body = gzip.compress(Path(full_path).read_bytes(), compresslevel=9, mtime=0)
            self._zipped[str(full_path)] = stat_result.st_mtime_ns, body
        retained = {name: response.headers[name] for name in ("content-type", "etag", "last-modified", "vary")}
        return Response(body, status_code, {**retained, "Content-Encoding": "gzip"})


async def _page(_: Request) -> Response:
    return FileResponse(ASSETS / "index.html", headers={"Cache-Control": "no-cache"})


async def _healthy(_: Request) -> Response:
    return JSONResponse({"healthy": True})


@functools.cache
def _document_of_all() -> dict[str, Any]:
    return document(ENDPOINTS)


async def _document(_: Request) -> Response:
    return JSONResponse(_document_of_all())


class _Listening(StreamingResponse):
    """A stream that releases its slot when it ends.

    Parameters:
        events: the events to send.
        place: releases the slot when it is closed.

    """

    def __init__(self, events: AsyncGenerator[bytes, None], place: contextlib.ExitStack) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


async def _live(news: News, request: Request) -> Response:
    caller = request.scope[CALLER]
    # The slot is taken here: the stream begins later, when other listeners may have come.
    place = contextlib.ExitStack()
    place.enter_context(news.places.hold(caller.counted))

    async def events() -> AsyncGenerator[bytes, None]:
        async with contextlib.aclosing(news.listen()) as stream:
            async for event in stream:
                if not caller.may_still_see():
                    return
                yield event

    return _Listening(events(), place)


def _handler(
    endpoints: Mapping[str, Endpoint], reading: Reading, turns: asyncio.Semaphore
) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of one path: `endpoints` by method."""

    async def handle(request: Request) -> Response:
        endpoint = endpoints["GET" if request.method == "HEAD" else request.method]
        arguments: list[msgspec.Struct] = [endpoint.asked(request.query_params.multi_items())]
        if endpoint.body is not None:
            arguments.append(read_body(await read_json_body(request, MAX_BODY_BYTES), endpoint.body))
        call = functools.partial(endpoint.handle, reading, *arguments)
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
