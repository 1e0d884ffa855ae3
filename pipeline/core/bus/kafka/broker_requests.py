"""Requests to the brokers other than reading and writing, on one connection. Always through kafka-python."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.bus.kafka.connection import connected, kafka_python, milliseconds
from laggard.pipeline.core.bus.kafka.errors import explained, location, unreachable
from laggard.pipeline.core.bus.kafka.kafka_python_admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

_RETRY_S: Final = 0.05

T = TypeVar("T")


class BrokerRequests:
    """Sends requests to the brokers. Safe to use from several threads; connects on first use.

    Args:
        options: the brokers, and how to reach them.

    """

    def __init__(self, options: KafkaOptions) -> None:
        self.options = options
        self._lock = threading.Lock()
        self._connecting = threading.Lock()  # a lock of its own, so that `close` does not wait for a connection
        self._client: AdminClient | None = None
        self._closed = False

    def send(self, asked: str, request: Callable[[AdminClient], T], timeout_s: float | None = None) -> T:
        """Send a request, and retry it on temporary errors: a leader or a coordinator that moves.

        Args:
            asked: the request in words, for errors.
            request: sends it.
            timeout_s: the time for all attempts, in seconds; by default that of the options.

        Raises:
            BusUnavailable: the brokers have not answered by then.
            BusError: they reject it, or the bus is closed.

        """
        deadline = time.monotonic() + (self.options.request_timeout_s if timeout_s is None else timeout_s)
        while True:
            try:
                return request(self._connected(asked, deadline, explain=timeout_s is None))
            except BusError:
                raise
            except Exception as error:
                # The metadata that kafka-python has cached may be the cause.
                self._discard()
                raised = explained(error, asked, self.options)
                if not isinstance(raised, BusUnavailable) or time.monotonic() + _RETRY_S >= deadline:
                    raise raised from error
            time.sleep(_RETRY_S)

    def reachable(self, timeout_s: float) -> bool:
        """Return whether a broker answers within this time."""
        try:
            self.send("ask the brokers", lambda client: client.describe_topics([]), timeout_s)
        except BusError:
            return False
        return True

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        self._discard()

    def _connected(self, action: str, deadline: float, *, explain: bool) -> AdminClient:
        with self._connecting:
            with self._lock:
                if self._closed:
                    raise self._shut(action)
                if self._client is not None:
                    return self._client
            settings = kafka_python(self.options)
            settings["bootstrap_timeout_ms"] = milliseconds(max(_RETRY_S, deadline - time.monotonic()))
            try:
                client = connected(AdminClient, settings)
            except Exception as error:
                to_error = unreachable if explain else explained
                raise to_error(error, action, self.options) from error
            if self._keep(client):
                return client
        client.close()
        raise self._shut(action)

    def _keep(self, client: AdminClient) -> bool:
        with self._lock:
            if not self._closed:
                self._client = client
            return not self._closed

    def _shut(self, action: str) -> BusError:
        return BusError(f"{location(self.options)}: cannot {action}: the bus is closed")

    def _discard(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close()
