"""The settings of kafka-python for all of its uses."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket

from laggard.pipeline.core.bus.kafka.security import kafka_python_security

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

RETRY_BACKOFF_MS: Final = 10
"""Consecutive transactions wait for each other's end: with kafka-python's own 100 ms some take 107 ms instead of 5."""

RECONNECT_MAX_MS: Final = 1000
"""The time within which a returned broker is found, in milliseconds."""

_SCHEME: Final = "laggard-direct"

T = TypeVar("T")


def kafka_python(options: KafkaOptions, client_id: str = "laggard") -> dict[str, Any]:
    """Return the settings of every kafka-python client. Raises BusError for unusable files in the options."""
    quiet()
    return kafka_python_security(options) | {
        "bootstrap_servers": list(options.bootstrap),
        "request_timeout_ms": milliseconds(options.request_timeout_s),
        "client_id": client_id,
        "bootstrap_timeout_ms": milliseconds(options.request_timeout_s),
        "reconnect_backoff_max_ms": RECONNECT_MAX_MS,
        "retry_backoff_ms": RETRY_BACKOFF_MS,
        "proxy_url": f"{_SCHEME}://",
    }


class _Closing(KafkaNetSocket):  # type: ignore[misc] # kafka-python has no types
    """Closes a socket that could not connect, which kafka-python leaves to the garbage collector.

    kafka-python uses this class for proxies of its scheme; it connects directly.
    """

    SCHEMES = (_SCHEME,)

    async def sock_connect(self, net: Any, sock: socket.socket, sockaddr: Any, timeout_at: float | None = None) -> Any:
        """Connect, or close."""
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class _Network(KafkaNetClient):  # type: ignore[misc] # kafka-python has no types
    """Closes the sockets of pending requests, which kafka-python leaves to the garbage collector."""

    def close(self, node_id: Any = None) -> None:
        """Close, and discard unsent requests."""
        transports = [connection.transport for connection in list(self._manager._conns.values())]  # noqa: SLF001 - see above
        super().close(node_id)
        if node_id is None:
            for transport in transports:
                if transport is not None and transport._sock is not None:  # noqa: SLF001
                    transport._sock.close()  # noqa: SLF001


def connected(make: Callable[..., T], settings: Mapping[str, Any]) -> T:
    """Make a kafka-python client, which connects; if that fails, close what it opened."""
    opened: list[_Network] = []

    def network(**configs: Any) -> _Network:
        opened.append(_Network(**configs))
        return opened[-1]

    try:
        return make(**settings, kafka_client=network)
    except BaseException:
        for client in opened:
            with suppress(Exception):
                client.close()
        raise


def milliseconds(seconds: float) -> int:
    """Return whole milliseconds, at least one."""
    return max(1, round(seconds * 1000))


def quiet() -> None:
    """Hide the client's warnings from a user's terminal: laggard's own errors report their effects.

    If the level of the logger `kafka` was set beforehand, they are logged.
    """
    logger = logging.getLogger("kafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL + 1)
