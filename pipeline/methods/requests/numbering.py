"""Detects repeated requests, by the host that recorded them and its sequence number."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.core.eventtime import Sequences
from laggard.pipeline.core.records import UNNUMBERED

if TYPE_CHECKING:
    from laggard.pipeline.core.records import Request

MAX_HOSTS: Final = 1_024
"""The most hosts of one service. Beyond, the least recent one is dropped."""


@dataclass(slots=True, eq=False)
class _Host:
    """The numbers of one host, and the newest end of its requests, seconds since the Unix epoch."""

    seen: Sequences = field(default_factory=Sequences)
    newest_ts: float = -math.inf


class Numbering:
    """The numbers of one service's requests. Unnumbered requests never count as repeated.

    A host appends in the order of its numbers, at least once. A known number of a request that ended after all others
    of its host is no repetition: the host has lost its count and started again.
    """

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}  # the least recent one first

    def again(self, request: Request, end_ts: float, *, far_behind: bool = False) -> bool:
        """Return whether the request is a repetition, and remember a new one.

        Args:
            request: the request.
            end_ts: its end, seconds since the Unix epoch.
            far_behind: whether the end is so long ago that the newest end may be wrong; the request is not remembered.
                The numbers of a host, which follow its clock, are lower after this was set back. So only remembered
                numbers count as repeated.

        """
        if request.sequence == UNNUMBERED:
            return False
        if far_behind:
            known = self._hosts.get(request.host)
            return known is not None and known.seen.remembers(request.sequence)
        host = self._hosts.pop(request.host, None) or _Host()
        self._hosts[request.host] = host
        if len(self._hosts) > MAX_HOSTS:
            del self._hosts[next(iter(self._hosts))]
        if request.sequence in host.seen:
            if end_ts <= host.newest_ts:
                return True
            host.seen.restart()
        host.seen.add(request.sequence)
        host.newest_ts = max(host.newest_ts, end_ts)
        return False

    def snapshot(self) -> list[Any]:
        """Return the state as plain data."""
        return [[name, host.newest_ts, host.seen.snapshot()] for name, host in self._hosts.items()]

    def restore(self, state: list[Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `TypeError` if it does not fit."""
        self._hosts = {
            str(name): _Host(Sequences(int(each) for each in seen), float(newest_ts)) for name, newest_ts, seen in state
        }
