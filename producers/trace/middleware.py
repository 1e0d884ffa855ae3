r"""Requests of a Python web application, told to whoever traces: middleware for WSGI and ASGI.

    application = TracedWSGI(application, service="shop")
    application = TracedASGI(application, service="shop")

Begin and end of each request are written into the kernel's trace, through the `trace_marker` file that
`laggard trace` offers while it records. Its place is the environment's `LAGGARD_TRACE_MARKER`, by default
`/run/laggard/trace_marker`. The form of the texts is told where they are read, in `laggard.producers.trace.boundaries.
markers`:

    laggard begin 17 shop\tGET /cart
    laggard end 17

While nobody records, the file is not there: that is looked up once a second. A failure to write never reaches the
application. The file needs nothing but the standard library, and may be copied into an application as it is.

Spans of one thread's work are what can be explained: an application that runs many requests at once on one thread, as
asynchronous ones do, is recognised and told to be beyond that.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping

VARIABLE = "LAGGARD_TRACE_MARKER"
MARKER = "/run/laggard/trace_marker"

ABSENT_S = 1.0
"""So long a file that was not there is not looked for again."""

LONGEST = 200
"""Of what is asked for, in characters."""


class Marker:
    """Writes boundaries of requests.

    The file is opened for each: one that stays open would keep the recorder from removing what it made.

    Args:
        service: whose requests they are, without tabs.
        path: of the file.

    """

    def __init__(self, service: str, path: str | None = None) -> None:
        self._service = service
        self._path = path or os.environ.get(VARIABLE) or MARKER
        self._numbers = itertools.count(1)
        self._absent_until = 0.0

    def begin(self, name: str) -> int:
        """A request begins on this thread.

        Returns:
            What `end` wants; 0 if nobody records.

        """
        if time.monotonic() < self._absent_until:
            return 0
        number = next(self._numbers)
        name = name[:LONGEST].replace("\t", " ").replace("\n", " ")
        if self._write(f"laggard begin {number} {self._service}\t{name}"):
            return number
        self._absent_until = time.monotonic() + ABSENT_S
        return 0

    def end(self, number: int) -> None:
        """It ends. To be called on the same thread."""
        if number:
            self._write(f"laggard end {number}")

    def _write(self, text: str) -> bool:
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(file, text.encode(errors="replace"))
            finally:
                os.close(file)
        except OSError:  # not there, not ours to write, or the recorder pauses
            return False
        return True


class TracedWSGI:
    """A WSGI application whose requests are told.

    A request ends when its response is closed, that is after it was sent.

    Args:
        application: to wrap.
        service: whose requests these are.
        path: of the marker file; by default as the module says.

    """

    def __init__(self, application: Callable[..., Iterable[bytes]], service: str, path: str | None = None) -> None:
        self._application = application
        self._marker = Marker(service, path)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
        # Each character is a byte (PEP 3333).
        plain = path.encode("latin-1", "replace").decode(errors="replace")
        number = self._marker.begin(f"{environ.get('REQUEST_METHOD', '')} {plain}")
        if not number:
            return self._application(environ, start_response)
        try:
            body = self._application(environ, start_response)
        except BaseException:
            self._marker.end(number)
            raise
        kind = _SizedBody if hasattr(body, "__len__") else _Body
        return kind(body, self._marker, number)


class _Body:
    """A response, whose end is told."""

    def __init__(self, body: Iterable[bytes], marker: Marker, number: int) -> None:
        self._body, self._marker, self._number = body, marker, number

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            number, self._number = self._number, 0
            self._marker.end(number)


class _SizedBody(_Body):
    """One whose parts can be counted: servers that find one part tell its length."""

    def __len__(self) -> int:
        return len(self._body)  # type: ignore[arg-type]


class TracedASGI:
    """An ASGI application whose HTTP requests are told; `TracedWSGI` says of the arguments."""

    def __init__(self, application: Callable[..., Awaitable[None]], service: str, path: str | None = None) -> None:
        self._application = application
        self._marker = Marker(service, path)

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        """Answer a request."""
        number = 0
        if scope.get("type") == "http":
            number = self._marker.begin(f"{scope.get('method', '')} {scope.get('path', '')}")
        try:
            await self._application(scope, receive, send)
        finally:
            self._marker.end(number)
