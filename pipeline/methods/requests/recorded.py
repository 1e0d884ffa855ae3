"""All recorded requests of a service, for a method that judges them by each other at their end."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records import Decoder, Request, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES: Final = 1 << 30
"""The most encoded bytes of a service: about a million requests. Beyond, the first ones are dropped, with a warning."""

_logger = logging.getLogger(__name__)


class EncodedRequests:
    """Requests in the order of arrival, encoded to save nine tenths of the memory."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._encoded: deque[bytes] = deque()
        self._most_bytes = most_bytes
        self._bytes = 0
        self._told = False

    def add(self, request: Request) -> None:
        """Add a request."""
        encoded = encode(request)
        self._encoded.append(encoded)
        self._bytes += len(encoded)
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._encoded.popleft())
            if not self._told:
                self._told = True
                _logger.warning("%r has more requests than fit; the first ones are left out", request.service)

    def requests(self) -> Iterator[Request]:
        """Yield all requests, decoded one by one."""
        decoder = Decoder()
        for encoded in self._encoded:
            request = decoder.decode(encoded, "")
            assert isinstance(request, Request)
            yield request
