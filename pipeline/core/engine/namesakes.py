"""Detects two agents that publish as one host: a cloned machine, a copied configuration.

The baseline would be that of a mixture of two hosts, without a visible cause. An agent's records carry a random name of
its run. A restarted agent has a new one, and the old one never returns. The names of two parallel agents alternate.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.own import TRACE_SCOPE

if TYPE_CHECKING:
    from laggard.pipeline.core.bus import Incoming

RUN_HEADER: Final = "laggard-run"
"""The header with the name of the run, in an agent's records on a network bus."""

BESIDE: Final = frozenset({TRACE_SCOPE})
"""The scopes of programs that run beside an agent and publish as its host: each has runs of its own."""

RETURNS: Final = 3
"""The number of returns of former runs that counts as evidence: records in flight at a restart may cause one."""

MAX_KEYS: Final = 10_000
"""The most keys that are watched; with more, the detection restarts from scratch."""

_FORMER: Final = 4


class Namesakes:
    """Watches the runs of each key's agents. For one thread at a time; stores a few names for each of `MAX_KEYS`."""

    def __init__(self) -> None:
        self._now: dict[str, bytes] = {}
        self._former: dict[str, deque[bytes]] = {}
        self._returns: dict[str, int] = {}

    def found(self, record: Incoming) -> bool:
        """Check the next record. Return True once per key, as soon as it is known to have more than one agent."""
        run = next((value for name, value in record.headers if name == RUN_HEADER), None)
        now = self._now.get(record.key)
        if run is None or run == now:
            return False
        if len(self._now) >= MAX_KEYS:
            self._now.clear()
            self._former.clear()
            self._returns.clear()
        self._now[record.key] = run
        if now is None:
            return False
        former = self._former.setdefault(record.key, deque(maxlen=_FORMER))
        returned = run in former
        former.append(now)
        if not returned:
            return False
        self._returns[record.key] = returns = self._returns.get(record.key, 0) + 1
        return returns == RETURNS
