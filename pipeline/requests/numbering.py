"""Tells requests that come again: by the host that recorded them, and its number."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.eventtime import Sequences
from laggard.pipeline.records import UNNUMBERED

if TYPE_CHECKING:
    from laggard.pipeline.records import Request

MAX_HOSTS: Final = 1_024
"""Of one service. Beyond, the one heard least recently is forgotten."""


@dataclass(slots=True, eq=False)
class _Host:
    """What came of one host: the numbers, and the newest end of a request, seconds since the Unix epoch."""

    seen: Sequences = field(default_factory=Sequences)
    newest_ts: float = -math.inf


class Numbering:
    """The numbers of one service's requests. A request without a number is never told from another one.

    A host appends in the order of its numbers, at least once. A number that was here, of a request that ended after all
    others of its host, is no repetition: the host has lost count and began anew.
    """

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}  # the one heard least recently first

    def again(self, request: Request, end_ts: float, *, far_behind: bool = False) -> bool:
        """Whether the request was here; it is remembered where it was not.

        Args:
            request: which.
            end_ts: when it ended, seconds since the Unix epoch.
            far_behind: whether that is so long ago that the newest end may be what is wrong. Of a host whose clock was
                set back the numbers, which go by it, are lower than before: only those that are remembered were here.

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
        """What is remembered as plain data."""
        return [[name, host.newest_ts, host.seen.snapshot()] for name, host in self._hosts.items()]

    def restore(self, state: list[Any]) -> None:
        """Take over what `snapshot` gave. Raises `ValueError` or `TypeError` where it is something else."""
        self._hosts = {
            str(name): _Host(Sequences(int(each) for each in seen), float(newest_ts)) for name, newest_ts, seen in state
        }
