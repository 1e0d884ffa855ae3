"""What the port answers when it refuses: one JSON form for every error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ExceptionHandler


class RequestError(Exception):
    """A request that is refused: its HTTP status, what is wrong with it, and what was expected instead."""

    def __init__(self, status: int, error: str, expected: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.expected = expected
        self.headers = headers

    def response(self) -> JSONResponse:
        """The answer to send: `{"error": ..., "expected": ...}`."""
        return JSONResponse({"error": self.error, "expected": self.expected}, self.status, self.headers)


def too_often(error: str, expected: str, wait_s: float) -> RequestError:
    """Status 429, with how long to wait."""
    return RequestError(429, error, expected, {"Retry-After": str(math.ceil(wait_s))})


def handlers(paths: str) -> dict[Any, ExceptionHandler]:
    """What an application answers to each error, as Starlette's `exception_handlers`.

    Args:
        paths: what was expected where a path is not there: "a path that GET / lists".

    """

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        return error.response()

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = error.headers or {}
        expected = f"method {headers['Allow']}" if "Allow" in headers else paths
        path = request.url.path[:100]
        return RequestError(error.status_code, f"{request.method} {path}: {error.detail}", expected, headers).response()

    async def internal_error(_: Request, error: Exception) -> Response:  # noqa: ARG001 - its text stays in the log
        # The server closes the connection after an exception, and a client that keeps it alive has to know.
        return RequestError(500, "internal error", "see laggard's log", {"Connection": "close"}).response()

    return {RequestError: refused, HTTPException: http_error, Exception: internal_error}
