"""Running the application: uvicorn in a thread of its own, with the socket opened before it starts."""

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
"""How long requests in flight may take to end."""
_TICK_S = 1.0
"""How long it may take until the event is seen, and how old the `Date` of an answer may be."""
_ASKING_S = 10.0
"""How often it is seen whether a connection has asked for anything since the last look."""
_STUCK_S = 60.0
"""An answer of which nothing was taken for so long is given up."""
_WAITING = 128
"""Connections that may be open beside those whose requests are answered."""
_LINES_AT_ONCE, _LINES_PER_S = 10, 1 / 60
"""Lines of one kind in the log."""


class Serving:
    """A running server.

    Attributes:
        url: where it answers, with the port that was really taken.

    """

    def __init__(self, server: _Server, opened: socket.socket) -> None:
        host, port = opened.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._server = server
        self._thread = threading.Thread(target=self._run, args=(opened,), name="web", daemon=True)
        self._thread.start()

    @property
    def turns(self) -> int:
        """How often its loop has turned: once a second, unless an answer holds it up."""
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
    """A connection that is closed when it asks for nothing: a few that only hold on would lock everybody else out.

    uvicorn closes idle connections only after their first answer, and one byte now and then keeps them open. Nor does
    it ever close one that asks for much and takes nothing of it. Where too many are open, one that waits is closed at
    once, so that a new one always gets in.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base class
        super().connection_made(transport)
        self.by = client_of(self.client[0]) if self.client else ""
        self.since_s = self.loop.time()
        most = self.config.limit_concurrency
        if most is not None and len(self.connections) > most:
            _close_one(cast("Iterable[_Protocol]", self.connections))
        self.limit_concurrency = None  # uvicorn's would refuse health, too
        self._asked: object = None
        self._left_bytes = 0
        self._stuck_s = 0.0
        self._look = self.loop.call_later(_ASKING_S, self._close_silent)

    @property
    def waits(self) -> bool:
        """Whether it holds no slot: no request is being answered but one for health, which takes no time."""
        request = cast("RequestResponseCycle | None", self.cycle)
        return request is None or request.response_complete or self.scope["path"] in HEALTH

    def send_400_response(self, msg: str) -> None:
        request = cast("RequestResponseCycle | None", self.cycle)
        if request is not None:  # what broke off may have been its body: an answer to it would be the second one
            request.disconnected = True
            request.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # it has been answered, or is being answered
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        super().connection_lost(exc)

    def _close_silent(self) -> None:
        request = cast("RequestResponseCycle | None", self.cycle)  # there is none before the first request
        if request is self._asked and (request is None or request.response_complete):
            self.transport.close()  # once everything is sent
        left_bytes = self.transport.get_write_buffer_size()
        stuck = request is self._asked and 0 < left_bytes == self._left_bytes
        self._stuck_s = self._stuck_s + _ASKING_S if stuck else 0.0
        if self._stuck_s >= _STUCK_S:
            self.transport.abort()
            return
        self._asked, self._left_bytes = request, left_bytes
        self._look = self.loop.call_later(_ASKING_S, self._close_silent)


def _close_one(connections: Iterable[_Protocol]) -> None:
    """Close a connection that waits: the oldest one of the client that has the most of them."""
    waiting = [each for each in connections if each.waits and not each.transport.is_closing()]
    if waiting:
        by_client = Counter(each.by for each in waiting)
        max(waiting, key=lambda each: (by_client[each.by], -each.since_s)).transport.abort()


class _Limited:
    """ASGI wrapper that bounds how many requests are answered at once, by one client and by all. Health is free.

    Parameters:
        app: what answers.
        most: how many.
        shared: whether many clients are behind an address.

    """

    def __init__(self, app: ASGIApp, most: int, shared: Callable[[str], bool]) -> None:
        self._app, self._shared = app, shared
        self._slots = Slots(most, "requests")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        peer = scope["client"][0] if scope["client"] else ""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._slots.hold(client_of(peer), shared=self._shared(peer)))
            except RequestError as error:
                await error.response()(scope, receive, send)
                return
            await self._app(scope, receive, send)


class _Seldom(logging.Filter):
    """Lets few lines of one kind into the log: any client may cause as many as it likes."""

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
    """A server that also ends with an event, as everything else in the process does, and is idle when it is.

    uvicorn's own loop wakes up ten times a second: 0.3 % of a core for nothing.
    """

    def __init__(self, config: uvicorn.Config, stop: threading.Event, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop
        self._ending = ending
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self.turns = 0

    def end(self) -> None:
        """End at once. For any thread."""
        self.should_exit = True
        # Set before `should_exit` is looked at for the first time, so that one of the two sees the other.
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # closed, so ended already
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
"""That are answered at once, where no more is said."""


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

    When it returns, connections are accepted already. Normal operation logs nothing; errors go to `uvicorn.error`, few
    of each kind. Health is answered whatever else is asked, and however many connections are held open.

    Args:
        app: what answers.
        listen: where.
        stop: ends it.
        requests: how many are answered at once, half of them of one client; whoever comes then gets status 503.
        ending: called when it begins to end, so that answers end that would go on.
        shared: whether many clients are behind an address, as behind a proxy: then all of them may come from it.

    Raises:
        ListenError: the address is taken or cannot be used.

    """
    opened = listen.bind()
    config = uvicorn.Config(
        _Limited(app, requests, shared),
        # The plain ones: nothing here needs what uvloop, httptools or websockets would cost in memory.
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
