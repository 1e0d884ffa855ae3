"""What the port answers when it refuses: one JSON form for every error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Mapping


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
