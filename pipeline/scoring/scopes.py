"""The frames of a host by their scopes: each scope has an operator of its own, and all share the budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from laggard.pipeline.scoring.keyed import Keyed
from laggard.pipeline.scoring.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.records import Decoder
    from laggard.pipeline.scoring.stream import Operator
    from laggard.pipeline.scoring.wired import Wired

MARK_WINDOW_S: Final = 120.0
"""The longest time between a mark and the newest frame that answers it, in seconds, or two ticks if longer (S0,
section 3)."""

MOST_SCOPES: Final = 16
"""The most scopes of a host: a producer may name them as it likes."""

HOST: Final = "host"


class _Budgeted(Protocol):
    false_alarms_per_day: float


@dataclass(slots=True, eq=False)
class Scopes(Keyed):
    """An operator's state of one host.

    Attributes:
        wired: the operator.

    """

    wired: Wired = field(kw_only=True)

    def stream(self, scope: str) -> Stream | None:
        """Return the stream of a scope that the operator scores; None if there are too many others."""
        if scope not in self.streams and len(self.streams) < MOST_SCOPES:
            self.streams[scope] = Stream(self.wired.make_for(scope))
        return self.streams.get(scope)

    def begin_anew(self, scope: str, operator: Operator) -> Stream:
        """Forget one scope, and return its new stream with a new operator."""
        stream = Keyed.begin_anew(self, scope, operator)
        self.share()
        return stream

    def share(self, first: str = "") -> None:
        """Divide the budget among the scopes that have frames; with `first`, set only the share of this new scope.

        The result depends only on the scopes that have frames, so it is the same after a restart.
        """
        if not self.wired.false_alarms_per_day:
            return
        shares = {scope: self.wired.shares.get(scope, 1.0) for scope, each in self.streams.items() if each.begun}
        mine = {first: self.wired.shares.get(first, 1.0)} if first else shares
        budget = self.wired.false_alarms_per_day / sum((shares | mine).values() or (1.0,))
        for scope, share in mine.items():
            cast("_Budgeted", self.streams[scope].operator).false_alarms_per_day = budget * share

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        for scope in state["streams"]:
            if self.wired.takes(scope):
                self.stream(scope)
        Keyed.restore(self, state, decoder, place)
        self.share()


def is_near(stream: Stream, ts: float) -> bool:
    """Return whether a moment can be answered from the newest frame of a stream."""
    return abs(ts - stream.ts) <= max(MARK_WINDOW_S, 2.0 * stream.interval_s)


def answering(streams: Mapping[str, Stream], wired: Wired, ts: float | None = None) -> str:
    """Return the scope whose frame answers a question about a moment, by default the newest.

    It is that of the most anomalous frame; without an anomaly the first one of the operator, if it has frames. The
    answer on the host itself is separate.
    """
    found, best = wired.scopes[0], (-1.0, False, -1.0)
    others = {scope: stream for scope, stream in streams.items() if scope != HOST}
    newest = max((stream.ts for stream in others.values()), default=0.0) if ts is None else ts
    for scope, stream in others.items():
        if not is_near(stream, newest) or (scores := stream.scores()) is None:
            continue
        score = scores.score
        if (rank := (score if score > 1.0 else 0.0, scope == wired.scopes[0], score)) > best:
            found, best = scope, rank
    return found
