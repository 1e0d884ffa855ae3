"""Requests to the brokers other than reading and writing, on one connection. Always through kafka-python."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.bus.kafka.connection import connected, kafka_python, milliseconds
from laggard.pipeline.core.bus.kafka.errors import explained, unreachable
from laggard.pipeline.core.bus.kafka.kafka_python_admin import AdminClient
from laggard.pipeline.core.bus.kafka.shared_client import SharedClient

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
        self._shared: SharedClient[AdminClient] = SharedClient(options, _close)

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
            client = self._shared.get(asked, lambda: self._connect(asked, deadline, explain=timeout_s is None))
            try:
                return request(client)
            except BusError:
                raise
            except Exception as error:
                # The metadata that kafka-python has cached may be the cause.
                self._shared.discard(client)
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
        self._shared.close()

    def _connect(self, asked: str, deadline: float, *, explain: bool) -> AdminClient:
        settings = kafka_python(self.options)
        settings["bootstrap_timeout_ms"] = milliseconds(max(_RETRY_S, deadline - time.monotonic()))
        try:
            return connected(AdminClient, settings)
        except Exception as error:
            say = unreachable if explain else explained
            raise say(error, asked, self.options) from error


def _close(client: AdminClient) -> None:
    with suppress(Exception):
        client.close()
