"""Moments as they were judged, kept for whoever looks at them again."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from laggard.pipeline.explaining.verdict import JUDGED_FEATURES, JUDGED_ROWS
from laggard.pipeline.history.answers import blamed_stream
from laggard.pipeline.history.why import OutsideError
from laggard.pipeline.records import Frame
from laggard.pipeline.scoring.scopes import MARK_WINDOW_S
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.operators.ranking import FeatureScore, Ranking, RowScore
    from laggard.pipeline.history.answers import Answer
    from laggard.pipeline.history.why import History, Learned

ALL: Final = 1 << 30

K = TypeVar("K")

LISTED_FEATURES: Final = 8
"""Features of a row that are kept with a moment; of the worst rows all are."""

HOST: Final = "host"
"""The scope of the host's own row."""

JUDGED_CELLS: Final = 250_000
"""So many values of frames moments are kept of: 16 of 500 rows with 26 counters, which take 50 MB. ..."""

LEARNED_CELLS: Final = 80_000
"""... And tasks: 6 of such a host, which take 45 MB."""

LEAST_KEPT: Final = 2
"""However large they are: what is shown now, and a moment of the past."""

MOST_KEPT: Final = 64
"""However small they are."""

NEAR_TICKS: Final = 60
"""A task that is no further behind a moment goes on to it: a snapshot is as far, as a rule."""


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

    """

    why: Answer

    def answers(self, ts: float | None) -> bool:
        """Whether it is what is to be said of a moment, where no other frame is between them."""
        return ts is None or 0.0 <= ts - self.why.frame.ts <= max(MARK_WINDOW_S, 2.0 * self.why.tick_s)

    @cached_property
    def ranking(self) -> Ranking:
        """All rows, each with `LISTED_FEATURES`."""
        return self.whole(LISTED_FEATURES)

    def whole(self, features: int = JUDGED_FEATURES) -> Ranking:
        """All rows, with so many features of each; made anew, for it is large."""
        assert self.why.scores is not None
        return self.why.scores.ranking(rows=ALL, features=features)

    def row(self, row: str) -> RowScore | None:
        """A row that is ranked, with all of its features; None where it is not."""
        if row not in self._ranked:
            return None
        worst = next((each for each in self.why.ranking.rows if each.row == row), None)
        return worst or next((each for each in self.whole().rows if each.row == row), None)

    @cached_property
    def _ranked(self) -> frozenset[str]:
        return frozenset(each.row for each in self.ranking.rows)

    @cached_property
    def unjudged(self) -> tuple[str, ...]:
        """The rows of the frame that are not ranked, in its order."""
        return tuple(row for row in self.why.frame.layout.rows if row not in self._ranked)

    @cached_property
    def culprits(self) -> frozenset[str]:
        """Rows that are to blame."""
        return frozenset(each.row for each in self.why.verdict.culprits)

    @cached_property
    def features(self) -> dict[str, int]:
        """How many features each row of the frame has a value of."""
        frame = self.why.frame
        return dict(zip(frame.layout.rows, np.isfinite(frame.values).sum(axis=1).tolist(), strict=True))

    @cached_property
    def victims(self) -> frozenset[str]:
        """Rows that wait for others, far longer than usual."""
        return frozenset(each.row.row for each in self.why.verdict.victims)

    def usual(self, scope: str, row: str, feature: str) -> FeatureScore | None:
        """A feature of a row of the frame, or of the host, beside what is usual; None where it is not judged."""
        found = None
        if scope == self.why.frame.scope:
            found = self.row(row)
        elif scope == HOST and self.why.host_ranking is not None:
            found = next((each for each in self.why.host_ranking.rows if each.row == row), None)
        return None if found is None else next((each for each in found.features if each.feature == feature), None)

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
    """What was slow at moments that people look at. Safe to use from several threads.

    What was judged is kept: nothing that comes later has a part in it. So are the last tasks that have learned up to a
    moment: the next frame, or a moment soon after, takes only what came in between. How many is
    bounded by their size, see `JUDGED_CELLS` and `LEARNED_CELLS`.

    Parameters:
        history: judges them.

    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}
        self._judged: OrderedDict[tuple[str, int], Judged] = OrderedDict()
        self._learned: OrderedDict[tuple[str, int], Learned] = OrderedDict()

    def at(self, host: str, ts: float | None) -> Judged:
        """A moment of a host, in seconds since the Unix epoch; None for its newest frame.

        Raises `RequestError` (404) where no frame is near it, saying what there is.
        """
        with self._lock:
            asking = self._asking.setdefault(host, threading.Lock())
        # A page asks several questions about one moment at once: the first of them makes what the others need.
        with asking:
            stop = self._history.stop_of(host, ts)
            with self._lock:
                judged = self._judged.get((host, stop))
                if judged is not None and judged.answers(ts):
                    self._judged.move_to_end((host, stop))
                    return judged
            try:
                judged = self._judge(host, ts, stop)
            except OutsideError as error:
                raise _outside(error) from None
            with self._lock:
                if judged.answers(ts):
                    self._judged[host, stop] = judged
                    _bound(self._judged, JUDGED_CELLS, lambda each: each.why.frame.values.size)
            return judged

    def _judge(self, host: str, ts: float | None, stop: int) -> Judged:
        """Judge a moment by a task that has learned up to shortly before it, where there is one."""
        reader = self._history.reader(host)
        oldest, _ = reader.bus.bounds(reader.partition)
        until = ts
        if until is None:
            until = next((each.ts for _, each in reader.backwards(stop) if isinstance(each, Frame)), math.inf)
        with self._lock:
            # What lies between a task and what is left of the history it could not take any more.
            near = [at for at in self._learned if at[0] == host and oldest <= at[1] <= stop]
            near = [at for at in near if _is_near(self._learned[at], host, until)]
            learned = self._learned.pop(max(near)) if near else None
        if learned is None:
            learned = self._history.learned(host, stop)
        else:
            self._history.go_on(learned, host, stop)
        try:
            return Judged(self._history.ask(host, ts, JUDGED_ROWS, JUDGED_FEATURES, learned=learned))
        finally:
            with self._lock:
                self._learned[host, learned.task.position] = learned
                _bound(self._learned, LEARNED_CELLS, _cells)


def _is_near(learned: Learned, host: str, ts: float) -> bool:
    """Whether less is to be learned from there on than from a snapshot, as a rule."""
    stream = blamed_stream(learned.task, host)
    return stream is not None and ts - stream.ts <= NEAR_TICKS * stream.interval_s


def _cells(learned: Learned) -> int:
    """Values of the newest frames that a task has taken."""
    states = learned.task.states
    keyed = map(states.get, states.keys())
    frames = [stream.frame for each in keyed if each is not None for stream in each.streams.values()]
    return sum(frame.values.size for frame in frames if frame is not None)


def _bound(kept: OrderedDict[tuple[str, int], K], most: int, cells: Callable[[K], int]) -> None:
    """Forget those that were kept longest ago."""
    size = sum(map(cells, kept.values()))
    while len(kept) > MOST_KEPT or (size > most and len(kept) > LEAST_KEPT):
        size -= cells(kept.popitem(last=False)[1])


def _outside(error: OutsideError) -> RequestError:
    if error.first != error.first:
        return RequestError(404, "no counters of processes are recorded of it yet", "an agent that runs: laggard up")
    expected = f"a moment from {error.first!r} to {error.last!r}, in seconds since the Unix epoch"
    if error.first <= error.ts <= error.last:
        expected += ", outside of the gap there"
    return RequestError(404, f"nothing is recorded at {error.ts!r}", expected)
