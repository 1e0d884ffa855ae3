"""Limits of rate and concurrency: for each client, and for all together."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import Counter, OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_KEYS = 4096
"""The most keys that are remembered; the least recently used one is forgotten, and starts afresh."""


class Bucket:
    """A token bucket: a burst at once, and a rate forever. Thread-safe.

    Parameters:
        burst: the most uses at once.
        per_s: the lasting uses per second.
        clock: returns seconds on a clock that never steps.

    """

    def __init__(self, burst: float, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._per_s, self._clock = burst, per_s, clock
        self._left, self._at = burst, clock()
        self._lock = threading.Lock()

    def take(self) -> float:
        """Use one token, and return 0; if none is left, return the seconds until the next one."""
        with self._lock:
            now = self._clock()
            self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
            self._at = now
            wait_s = max(0.0, (1.0 - self._left) / self._per_s)
            if not wait_s:
                self._left -= 1.0
            return wait_s


class Buckets:
    """One bucket for each key, such as an address. Thread-safe.

    Parameters:
        burst: the most uses at once, by one key.
        per_s: the lasting uses per second, by one key.
        clock: returns seconds on a clock that never steps.
        most: the most keys that are remembered.

    """

    def __init__(
        self, burst: float, per_s: float, clock: Callable[[], float] = time.monotonic, most: int = MOST_KEYS
    ) -> None:
        self._burst, self._per_s, self._clock, self._most = burst, per_s, clock, most
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, key: str) -> Bucket:
        """Return the bucket of a key."""
        with self._lock:
            bucket = self._buckets.get(key)
            if bucket is None:
                bucket = self._buckets[key] = Bucket(self._burst, self._per_s, self._clock)
                if len(self._buckets) > self._most:
                    self._buckets.popitem(last=False)
            self._buckets.move_to_end(key)
            return bucket


class Slots:
    """Slots of concurrent work. One client has at most half of them. Not thread-safe.

    Parameters:
        most: the number of slots, for all clients together.
        name: the kind of work, for errors: `requests`.

    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._held.total()

    @contextmanager
    def hold(self, client: str, *, shared: bool = False) -> Iterator[None]:
        """Hold a slot of a client.

        Args:
            client: the client.
            shared: whether it stands for many clients, such as a proxy; then only the limit of all clients counts.

        Raises:
            RequestError: status 503, since no slot is free.

        """
        most = self._most if shared else self._most // 2
        if len(self) >= self._most or self._held[client] >= most:
            expected = f"at most {self._most} at once, {self._most // 2} by one client"
            raise RequestError(503, f"too many {self._name} at once", expected, {"Retry-After": "5"})
        self._held[client] += 1
        try:
            yield
        finally:
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]


def client_of(peer: str) -> str:
    """Return the unit that counts as one client: for IPv6 a network of 64 bits, which is what one customer gets."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address) and not address.ipv4_mapped:
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return peer
