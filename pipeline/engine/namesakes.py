"""Two agents that publish as one host: a cloned machine, a copied configuration.

What is usual would be learned of a mixture that there is nowhere, and nobody would know why. An agent's records carry a
name that each run of it draws by lot. An agent that was started anew has another one, and the old one is never seen
again; two that run side by side take turns.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from laggard.pipeline.own import TRACE_SCOPE

if TYPE_CHECKING:
    from laggard.pipeline.bus import Incoming

RUN_HEADER: Final = "laggard-run"
"""Of an agent's records on a bus on the network: the name of its run."""

BESIDE: Final = frozenset({TRACE_SCOPE})
"""Scopes of what runs beside an agent, as its host: each has runs of its own."""

RETURNS: Final = 3
"""So often a run has to come back: what one had on the way when it was stopped may come after the next one's."""

MAX_KEYS: Final = 10_000
"""So many are watched; with more of them it begins anew."""

_FORMER: Final = 4


class Namesakes:
    """Watches the runs of each key's agents. For one thread at a time; holds a few names for each of `MAX_KEYS`."""

    def __init__(self) -> None:
        self._now: dict[str, bytes] = {}
        self._former: dict[str, deque[bytes]] = {}
        self._returns: dict[str, int] = {}

    def found(self, record: Incoming) -> bool:
        """Look at the next record; gives whether it is now known that its key has more than one agent. Told once."""
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
