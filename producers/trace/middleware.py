r"""Middleware for WSGI and ASGI: reports the requests of a Python web application to a tracer.

    application = TracedWSGI(application, service="shop")
    application = TracedASGI(application, service="shop")

The start and end of each request are written into the kernel's trace, through the `trace_marker` file that
`laggard trace` offers while it records. Its place is `LAGGARD_TRACE_MARKER` in the environment, by default
`/run/laggard/trace_marker`. The reader, `laggard.producers.trace.boundaries.markers`, documents the form of the texts:

    laggard begin 17 shop\tGET /cart
    laggard end 17

Without a recording the file is missing; this is checked once a second. A failed write never raises in the application.
This module needs only the standard library, and may be copied into an application unchanged.

Only requests that a thread serves one at a time can be explained. An application that overlaps requests on one thread,
as asynchronous ones do, is recognized, and those requests are discarded.
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
"""The time before a missing file is checked again, in seconds."""

LONGEST = 200
"""The longest name of a request, in characters."""


class Marker:
    """Writes boundaries of requests.

    The file is opened for each write: an open one would keep the recorder from removing its trace instance.

    Args:
        service: the service of the requests, without tabs.
        path: the marker file.

    """

    def __init__(self, service: str, path: str | None = None) -> None:
        self._service = service
        self._path = path or os.environ.get(VARIABLE) or MARKER
        self._numbers = itertools.count(1)
        self._absent_until = 0.0

    def begin(self, name: str) -> int:
        """Begin a request on this thread.

        Returns:
            The number for `end`; 0 without a recording.

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
        """End a request. Must be called on the same thread."""
        if number:
            self._write(f"laggard end {number}")

    def _write(self, text: str) -> bool:
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(file, text.encode(errors="replace"))
            finally:
                os.close(file)
        except OSError:  # not there, not writable for this user, or the recorder pauses
            return False
        return True


class TracedWSGI:
    """A WSGI application whose requests are traced.

    A request ends when its response is closed, that is, after it was sent.

    Args:
        application: the application to wrap.
        service: the service of the requests.
        path: the marker file; by default as in the docstring of the module.

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
    """A response that reports its end."""

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
    """A response whose parts can be counted: servers use the length of a single part."""

    def __len__(self) -> int:
        return len(self._body)  # type: ignore[arg-type]


class TracedASGI:
    """An ASGI application whose HTTP requests are traced; the arguments are those of `TracedWSGI`."""

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
