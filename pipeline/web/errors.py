"""Answers to rejected requests: one JSON form for every error."""

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
    """A rejected request: its HTTP status, the error, and what was expected."""

    def __init__(self, status: int, error: str, expected: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.expected = expected
        self.headers = headers

    def response(self) -> JSONResponse:
        """Return the answer: `{"error": ..., "expected": ...}`."""
        return JSONResponse({"error": self.error, "expected": self.expected}, self.status, self.headers)


def too_often(error: str, expected: str, wait_s: float) -> RequestError:
    """Return an error with status 429, and the time to wait."""
    return RequestError(429, error, expected, {"Retry-After": str(math.ceil(wait_s))})


def handlers(paths: str) -> dict[Any, ExceptionHandler]:
    """Return the answers of an application to errors, as Starlette's `exception_handlers`.

    Args:
        paths: what was expected instead of a missing path: "a path that GET / lists".

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
        # The server closes the connection after an exception. Clients that keep it alive must know.
        return RequestError(500, "internal error", "see laggard's log", {"Connection": "close"}).response()

    return {RequestError: refused, HTTPException: http_error, Exception: internal_error}
