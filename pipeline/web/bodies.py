"""Reads the body of a request, within limits of time and size."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect

from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from starlette.requests import Request

BODY_TIMEOUT_S: Final = 10.0


async def read_json_body(request: Request, most: int) -> bytes:
    """Return the bytes of a body that is declared as JSON.

    Args:
        request: the request.
        most: the most bytes of the body.

    Raises:
        RequestError: the body is declared as something else, is too long, does not come, or ends early.

    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestError(415, f"Content-Type {media_type[:100]!r}", "application/json")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise RequestError(413, "the body is too long", f"at most {most} bytes")
    except TimeoutError:
        raise RequestError(408, "the body did not come", f"all of it within {BODY_TIMEOUT_S:.0f} s") from None
    except ClientDisconnect:
        raise RequestError(400, "the body ended early", "all of it") from None
    return bytes(body)
