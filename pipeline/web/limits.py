"""How often something may be done, and how much at once: by each client, and by all together."""

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
"""That are remembered at once; the one that was heard of least recently is forgotten, and starts afresh."""


class Bucket:
    """A token bucket: so many at once, and so many a second for ever. Safe to use from several threads.

    Parameters:
        burst: how many at once.
        per_s: how many a second.
        clock: seconds on a clock that never steps.

    """

    def __init__(self, burst: float, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._per_s, self._clock = burst, per_s, clock
        self._left, self._at = burst, clock()
        self._lock = threading.Lock()

    def take(self) -> float:
        """Take one. Returns 0, or where none is left, how many seconds it is until the next; then nothing is taken."""
        with self._lock:
            now = self._clock()
            self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
            self._at = now
            wait_s = max(0.0, (1.0 - self._left) / self._per_s)
            if not wait_s:
                self._left -= 1.0
            return wait_s


class Buckets:
    """One bucket for each key, such as an address. Safe to use from several threads.

    Parameters:
        burst: how many at once, by one key.
        per_s: how many a second, by one key.
        clock: seconds on a clock that never steps.
        most: keys that are remembered.

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
        """The bucket of a key."""
        with self._lock:
            bucket = self._buckets.get(key)
            if bucket is None:
                bucket = self._buckets[key] = Bucket(self._burst, self._per_s, self._clock)
                if len(self._buckets) > self._most:
                    self._buckets.popitem(last=False)
            self._buckets.move_to_end(key)
            return bucket


class Slots:
    """How much goes on at once. One client has at most half of it. For one thread.

    Parameters:
        most: how much, of all clients together.
        name: what goes on, for errors: `requests`.

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
            client: by which it is counted.
            shared: whether many clients are behind this one, as behind a proxy; then only the bound over all counts.

        Raises:
            RequestError: status 503: none is left.

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
    """Return what counts as one client: of IPv6 a network of 64 bits, which is what one customer gets."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address) and not address.ipv4_mapped:
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return peer
