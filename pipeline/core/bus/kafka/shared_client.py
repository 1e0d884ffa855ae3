"""A client that threads share, connected on first use."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.bus.kafka.errors import location

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

T = TypeVar("T")


class SharedClient(Generic[T]):
    """One client at a time.

    Args:
        options: the brokers, for errors.
        close: closes a client; it raises nothing.

    """

    def __init__(self, options: KafkaOptions, close: Callable[[T], None]) -> None:
        self._options = options
        self._close = close
        self._lock = threading.Lock()
        self._connecting = threading.Lock()  # a lock of its own, so that `close` does not wait for a connection
        self._client: T | None = None
        self._closed = False

    def get(self, action: str, connect: Callable[[], T]) -> T:
        """Return the client, connected if there is none. `action` is its use in words.

        Raises BusError if this is closed, and what `connect` raises.
        """
        with self._connecting:
            with self._lock:
                if self._closed:
                    raise self._shut(action)
                if self._client is not None:
                    return self._client
            client = connect()
            if self._keep(client):
                return client
        self._close(client)
        raise self._shut(action)

    def _keep(self, client: T) -> bool:
        with self._lock:
            if not self._closed:
                self._client = client
            return not self._closed

    def discard(self, client: T) -> None:
        """Close a client, so that the next use connects anew. Another thread may have done so already."""
        with self._lock:
            if self._client is not client:
                return
            self._client = None
        self._close(client)

    def close(self) -> None:
        """Close it for good."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            self._close(client)

    def _shut(self, action: str) -> BusError:
        return BusError(f"{location(self._options)}: cannot {action}: the bus is closed")
