"""Free ports that stay free while a broker is down."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

_LOWEST, _HIGHEST = 15_000, 65_535
_ENOUGH = 1000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
WORKERS = max(1, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_random = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """A port on which nothing listens; if possible, none of those that the kernel gives to connections.

    Any connection could take one of the kernel's ports before the broker listens, or while it is down. A client that
    retries such a port on the loopback may even be connected with itself. Each of pytest's workers has ports of its
    own, and so has the keeper of their shared resources. So none gets a port that another one is about to use.
    """
    lowest, highest = _not_ephemeral()
    for _ in range(1000):
        port = _random.randrange(lowest + _WORKER, highest, WORKERS + 1)
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise OSError(f"no free port among {lowest} to {highest}")


def _not_ephemeral() -> tuple[int, int]:
    """Ports below those that the kernel gives to connections; above them, or any, where it begins low."""
    first, last = map(int, _EPHEMERAL.read_text().split()) if _EPHEMERAL.exists() else (32_768, 60_999)
    if first >= _LOWEST + _ENOUGH:
        return _LOWEST, first
    return (last + 1, _HIGHEST) if last <= _HIGHEST - _ENOUGH else (_LOWEST, _HIGHEST)
