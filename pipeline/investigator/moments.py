"""Moments as they were judged, kept for whoever looks at them again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.explaining.verdict import JUDGED_FEATURES
from laggard.pipeline.history.why import OutsideError
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from laggard.operators.ranking import FeatureScore, Ranking
    from laggard.pipeline.history.why import Answer, History

MOST_ROWS: Final = 1000


class Who(NamedTuple):
    """What is known of a row beside its counters; empty where it is not recorded."""

    user: str = ""
    container: str = ""
    command: str = ""


@dataclass(frozen=True)
class Judged:
    """A moment.

    Attributes:
        why: what was slow then.
        live: whether it is the newest frame.

    """

    why: Answer
    live: bool

    @cached_property
    def ranking(self) -> Ranking:
        """All rows, with all features."""
        assert self.why.scores is not None
        return self.why.scores.ranking(rows=MOST_ROWS, features=JUDGED_FEATURES)

    @cached_property
    def unjudged(self) -> tuple[str, ...]:
        """The rows of the frame that are not ranked, in its order."""
        ranked = {each.row for each in self.ranking.rows}
        return tuple(row for row in self.why.frame.layout.rows if row not in ranked)

    @cached_property
    def culprits(self) -> frozenset[str]:
        """Rows that are to blame."""
        return frozenset(each.row for each in self.why.verdict.culprits)

    @cached_property
    def victims(self) -> frozenset[str]:
        """Rows that wait for others."""
        return frozenset(each.row.row for each in self.why.verdict.victims)

    def usual(self, scope: str, row: str, feature: str) -> FeatureScore | None:
        """A feature of a row of the frame, or of the host, beside what is usual; None where it is not judged."""
        ranking = self.ranking if scope == self.why.frame.scope else self.why.host_ranking
        if ranking is None or scope not in {self.why.frame.scope, "host"}:
            return None
        found = (one for each in ranking.rows if each.row == row for one in each.features if one.feature == feature)
        return next(found, None)

    def who(self, row: str) -> Who:
        """What is known of a row."""
        return self._known.get(row, Who())

    @cached_property
    def _known(self) -> dict[str, Who]:
        layout = self.why.frame.layout
        texts = layout.users, layout.containers, layout.commands
        told = zip(*(each or ("",) * len(layout.rows) for each in texts), strict=True)
        return {row: Who(*each) for row, each in zip(layout.rows, told, strict=True)}


class Moments:
    """What was slow at moments that people look at.

    Parameters:
        history: judges them.

    """

    def __init__(self, history: History) -> None:
        self._history = history

    def at(self, host: str, ts: float | None) -> Judged:
        """A moment of a host, in seconds since the Unix epoch; None for its newest frame.

        Raises `RequestError` (404) where no frame is near it, saying what there is.
        """
        try:
            return Judged(self._history.ask(host, ts, 1, 1), ts is None)
        except OutsideError as error:
            raise _outside(error) from None


def _outside(error: OutsideError) -> RequestError:
    if error.first != error.first:
        return RequestError(404, "no counters of processes are recorded of it yet", "an agent that runs: laggard up")
    expected = f"a moment from {error.first!r} to {error.last!r}, in seconds since the Unix epoch"
    if error.first <= error.ts <= error.last:
        expected += ", outside of the gap there"
    return RequestError(404, f"nothing is recorded at {error.ts!r}", expected)
