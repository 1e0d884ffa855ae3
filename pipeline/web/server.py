"""Runs the application: uvicorn in a thread of its own, with a socket that is opened before it starts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from laggard.pipeline.web.errors import RequestError
from laggard.pipeline.web.guard import HEALTH
from laggard.pipeline.web.limits import Buckets, Slots, client_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

    from laggard.pipeline.web.listen import Listen

_STOPPING_S = 2
"""The most seconds in which requests in flight may end."""
_TICK_S = 1.0
"""The most seconds until the event is noticed, and the greatest age of the `Date` of an answer."""
_ASKING_S = 10.0
"""The seconds between two checks whether a connection has sent a request."""
_STUCK_S = 60.0
"""An answer is dropped after this time without progress, in seconds."""
_WAITING = 128
"""The most open connections without a slot."""
_LINES_AT_ONCE, _LINES_PER_S = 10, 1 / 60
"""The limit of lines of one kind in the log."""


class Serving:
    """A running server.

    Attributes:
        url: its URL, with the actual port.

    """

    def __init__(self, server: _Server, opened: socket.socket) -> None:
        host, port = opened.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._server = server
        self._thread = threading.Thread(target=self._run, args=(opened,), name="web", daemon=True)
        self._thread.start()

    @property
    def turns(self) -> int:
        """The number of turns of its loop: one per second, unless an answer blocks it."""
        return self._server.turns

    def close(self) -> None:
        """Stop, and wait until requests in flight have ended."""
        self._server.end()
        self._thread.join()

    def _run(self, opened: socket.socket) -> None:
        logger, seldom = logging.getLogger("uvicorn.error"), _Seldom()
        logger.addFilter(seldom)
        try:
            with opened:
                self._server.run([opened])
        finally:
            logger.removeFilter(seldom)


class _Protocol(H11Protocol):
    """A connection that is closed when it sends no requests: a few idle ones would lock all others out.

    uvicorn closes idle connections only after their first answer, and a byte now and then keeps them open. It also
    never closes one that requests much and receives nothing of it. If too many are open, one that waits is closed at
    once, so that a new one always gets in.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base class
        super().connection_made(transport)
        self.by = client_of(self.client[0]) if self.client else ""
        self.since_s = self.loop.time()
        most = self.config.limit_concurrency
        if most is not None and len(self.connections) > most:
            _close_one(cast("Iterable[_Protocol]", self.connections))
        self.limit_concurrency = None  # uvicorn's limit would reject health, too
        self._asked: object = None
        self._left_bytes = 0
        self._stuck_s = 0.0
        self._look = self.loop.call_later(_ASKING_S, self._close_silent)

    @property
    def waits(self) -> bool:
        """Whether it holds no slot: it has no request in progress except for health, which takes no time."""
        request = cast("RequestResponseCycle | None", self.cycle)
        return request is None or request.response_complete or self.scope["path"] in HEALTH

    def send_400_response(self, msg: str) -> None:
        request = cast("RequestResponseCycle | None", self.cycle)
        if request is not None:  # the broken part may be its body: an answer to that would be the second one
            request.disconnected = True
            request.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # it has an answer already, or is getting one
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        super().connection_lost(exc)

    def _close_silent(self) -> None:
        request = cast("RequestResponseCycle | None", self.cycle)  # there is none before the first request
        if request is self._asked and (request is None or request.response_complete):
            self.transport.close()  # after everything is sent
        left_bytes = self.transport.get_write_buffer_size()
        stuck = request is self._asked and 0 < left_bytes == self._left_bytes
        self._stuck_s = self._stuck_s + _ASKING_S if stuck else 0.0
        if self._stuck_s >= _STUCK_S:
            self.transport.abort()
            return
        self._asked, self._left_bytes = request, left_bytes
        self._look = self.loop.call_later(_ASKING_S, self._close_silent)


def _close_one(connections: Iterable[_Protocol]) -> None:
    """Close a connection that waits: the oldest one of the client with the most of them."""
    waiting = [each for each in connections if each.waits and not each.transport.is_closing()]
    if waiting:
        by_client = Counter(each.by for each in waiting)
        max(waiting, key=lambda each: (by_client[each.by], -each.since_s)).transport.abort()


class _Limited:
    """ASGI wrapper that limits concurrent requests, of one client and of all. Health is free.

    Parameters:
        app: the wrapped application.
        most: the most concurrent requests.
        shared: returns whether many clients share an address.

    """

    def __init__(self, app: ASGIApp, most: int, shared: Callable[[str], bool]) -> None:
        self._app, self._shared = app, shared
        self._slots = Slots(most, "requests")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        peer = scope["client"][0] if scope["client"] else ""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._slots.hold(client_of(peer), shared=self._shared(peer)))
            except RequestError as error:
                await error.response()(scope, receive, send)
                return
            await self._app(scope, receive, send)


class _Seldom(logging.Filter):
    """Limits the lines of one kind in the log, since any client may cause as many as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = Buckets(_LINES_AT_ONCE, _LINES_PER_S, most=100)
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.msg)[:100]
        if self._lines.of(kind).take():
            self._left_out[kind] += 1
            return False
        if left_out := self._left_out.pop(kind, 0):
            record.msg = f"{record.msg} (and {left_out:,} times before, not logged)"
        return True


class _Server(uvicorn.Server):
    """A server that also ends with an event, like everything else in the process, and costs nothing when idle.

    uvicorn's own loop wakes up ten times a second, which uses 0.3 % of a core.
    """

    def __init__(self, config: uvicorn.Config, stop: threading.Event, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop
        self._ending = ending
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self.turns = 0

    def end(self) -> None:
        """End at once. Thread-safe."""
        self.should_exit = True
        # `main_loop` sets it before its first check of `should_exit`, so one of the two sees the other.
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # closed, so it has already ended
                self._loop.call_soon_threadsafe(self._ended.set)

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0) and not self._stop.is_set():
            self.turns += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()
        await super().shutdown(sockets)


MOST_REQUESTS = 32
"""The default of the most concurrent requests."""


def serve(
    app: ASGIApp,
    listen: Listen,
    stop: threading.Event,
    requests: int = MOST_REQUESTS,
    *,
    ending: Callable[[], None] = lambda: None,
    shared: Callable[[str], bool] = lambda _: False,
) -> Serving:
    """Open the port and serve in a daemon thread until `stop` is set or the result is closed.

    When it returns, connections are already accepted. Normal operation logs nothing; errors go to `uvicorn.error`, few
    of each kind. Health is answered under any load, and with any number of open connections.

    Args:
        app: the application.
        listen: its address.
        stop: the event that ends it.
        requests: the most concurrent requests, half of them of one client; further ones get status 503.
        ending: called when it begins to end, to end answers that would continue.
        shared: returns whether many clients share an address, such as a proxy's: then one address may use all slots.

    Raises:
        ListenError: the address is taken or cannot be used.

    """
    opened = listen.bind()
    config = uvicorn.Config(
        _Limited(app, requests, shared),
        # The plain ones: uvloop, httptools and websockets would cost memory, and nothing here needs them.
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=requests + _WAITING,  # of connections, see `_Protocol`
        h11_max_incomplete_event_size=16 * 1024,
        timeout_graceful_shutdown=_STOPPING_S,
    )
    return Serving(_Server(config, stop, ending), opened)
