"""Analyzed moments of hosts, cached for later queries of the same moments."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from laggard.pipeline.core.records import Frame
from laggard.pipeline.explaining.verdict import VERDICT_FEATURES, VERDICT_ROWS
from laggard.pipeline.history.answers import blamed_stream
from laggard.pipeline.history.why import OutsideError
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
"""The most features of a row in a cached ranking; the worst rows have all."""

HOST: Final = "host"
"""The scope of the host's own row."""

MOMENT_CELLS: Final = 250_000
"""The most values in the frames of all cached moments: 16 of 500 rows with 26 counters use 50 MB of memory."""

LEARNED_CELLS: Final = 80_000
"""The most values in the frames of all cached tasks: 6 of such a host use 45 MB of memory."""

LEAST_CACHED: Final = 2
"""The least number of cached moments and of tasks, however large: the present one, and one of the past."""

MOST_CACHED: Final = 64
"""The most cached moments, and tasks, however small."""

NEAR_TICKS: Final = 60
"""The most ticks that a reused task lags behind a moment: a snapshot usually lags as much."""


class Who(NamedTuple):
    """The recorded data of a row in addition to its counters; empty if it is not recorded."""

    user: str = ""
    container: str = ""
    command: str = ""


@dataclass(frozen=True)
class AnalyzedMoment:
    """An analyzed moment.

    Attributes:
        why: the answer about what was slow.

    """

    why: Answer

    def answers(self, ts: float | None) -> bool:
        """Return whether it also holds for a time with no other frame between them; always for None."""
        return ts is None or 0.0 <= ts - self.why.frame.ts <= max(MARK_WINDOW_S, 2.0 * self.why.tick_s)

    @cached_property
    def ranking(self) -> Ranking:
        """The ranking of all rows, each with `LISTED_FEATURES` features."""
        return self.whole(LISTED_FEATURES)

    def whole(self, features: int = VERDICT_FEATURES) -> Ranking:
        """Return the ranking of all rows with up to this number of features each; not cached, since it is large."""
        assert self.why.scores is not None
        return self.why.scores.ranking(rows=ALL, features=features)

    def row(self, row: str) -> RowScore | None:
        """Return a ranked row with all of its features; None if it is not ranked."""
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
        """The rows of the culprits."""
        return frozenset(each.row for each in self.why.verdict.culprits)

    @cached_property
    def features(self) -> dict[str, int]:
        """The number of features with a value, by row of the frame."""
        frame = self.why.frame
        return dict(zip(frame.layout.rows, np.isfinite(frame.values).sum(axis=1).tolist(), strict=True))

    @cached_property
    def victims(self) -> frozenset[str]:
        """The rows that wait for others, far longer than usual."""
        return frozenset(each.row.row for each in self.why.verdict.victims)

    def usual(self, scope: str, row: str, feature: str) -> FeatureScore | None:
        """Return a feature of a row of the frame, or of the host, with its baseline; None if it is not scored."""
        found = None
        if scope == self.why.frame.scope:
            found = self.row(row)
        elif scope == HOST and self.why.host_ranking is not None:
            found = next((each for each in self.why.host_ranking.rows if each.row == row), None)
        return None if found is None else next((each for each in found.features if each.feature == feature), None)

    def who(self, row: str) -> Who:
        """Return the recorded data of a row."""
        return self._known.get(row, Who())

    @cached_property
    def _known(self) -> dict[str, Who]:
        layout = self.why.frame.layout
        texts = layout.users, layout.containers, layout.commands
        row_texts = zip(*(each or ("",) * len(layout.rows) for each in texts), strict=True)
        return {row: Who(*each) for row, each in zip(layout.rows, row_texts, strict=True)}


class Moments:
    """The analyzed moments of hosts. Safe to use from several threads.

    The analysis of a moment is cached, since later records do not change it. Also cached are the latest tasks that have
    learned up to a moment: for the next frame, or a moment soon after, they read only the records in between.
    `MOMENT_CELLS` and `LEARNED_CELLS` bound the caches by size.

    Parameters:
        history: analyzes the moments.

    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}
        self._analyzed: OrderedDict[tuple[str, int], AnalyzedMoment] = OrderedDict()
        self._learned: OrderedDict[tuple[str, int], Learned] = OrderedDict()

    def at(self, host: str, ts: float | None) -> AnalyzedMoment:
        """Return a moment of a host, in seconds since the Unix epoch; None for its newest frame.

        Raises `RequestError` (404) with the recorded times if no frame is near it.
        """
        with self._lock:
            asking = self._asking.setdefault(host, threading.Lock())
        # A page sends several queries about one moment at once: the first computes the data of the others.
        with asking:
            stop = self._history.stop_of(host, ts)
            with self._lock:
                analyzed = self._analyzed.get((host, stop))
                if analyzed is not None and analyzed.answers(ts):
                    self._analyzed.move_to_end((host, stop))
                    return analyzed
            try:
                analyzed = self._analyze(host, ts, stop)
            except OutsideError as error:
                raise _outside(error) from None
            with self._lock:
                if analyzed.answers(ts):
                    self._analyzed[host, stop] = analyzed
                    _bound(self._analyzed, MOMENT_CELLS, lambda each: each.why.frame.values.size)
            return analyzed

    def _analyze(self, host: str, ts: float | None, stop: int) -> AnalyzedMoment:
        """Analyze a moment, with a cached task that has learned up to shortly before it if there is one."""
        reader = self._history.reader(host)
        oldest, _ = reader.bus.bounds(reader.partition)
        until = ts
        if until is None:
            until = next((each.ts for _, each in reader.backwards(stop) if isinstance(each, Frame)), math.inf)
        with self._lock:
            # A task from before the oldest record on the bus would miss the records in between.
            near = [at for at in self._learned if at[0] == host and oldest <= at[1] <= stop]
            near = [at for at in near if _is_near(self._learned[at], host, until)]
            learned = self._learned.pop(max(near)) if near else None
        if learned is None:
            learned = self._history.learned(host, stop)
        else:
            self._history.go_on(learned, host, stop)
        try:
            return AnalyzedMoment(self._history.ask(host, ts, VERDICT_ROWS, VERDICT_FEATURES, learned=learned))
        finally:
            with self._lock:
                self._learned[host, learned.task.position] = learned
                _bound(self._learned, LEARNED_CELLS, _cells)


def _is_near(learned: Learned, host: str, ts: float) -> bool:
    """Return whether the task usually has less left to learn than a snapshot would."""
    stream = blamed_stream(learned.task, host)
    return stream is not None and ts - stream.ts <= NEAR_TICKS * stream.interval_s


def _cells(learned: Learned) -> int:
    """Return the number of values in the newest frames of a task."""
    states = learned.task.states
    keyed = map(states.get, states.keys())
    frames = [stream.frame for each in keyed if each is not None for stream in each.streams.values()]
    return sum(frame.values.size for frame in frames if frame is not None)


def _bound(cached: OrderedDict[tuple[str, int], K], most: int, cells: Callable[[K], int]) -> None:
    """Drop the least recently used ones."""
    size = sum(map(cells, cached.values()))
    while len(cached) > MOST_CACHED or (size > most and len(cached) > LEAST_CACHED):
        size -= cells(cached.popitem(last=False)[1])


def _outside(error: OutsideError) -> RequestError:
    if error.first != error.first:
        return RequestError(404, "no counters of processes are recorded of it yet", "an agent that runs: laggard up")
    expected = f"a moment from {error.first!r} to {error.last!r}, in seconds since the Unix epoch"
    if error.first <= error.ts <= error.last:
        expected += ", outside of the gap there"
    return RequestError(404, f"there are no records at {error.ts!r}", expected)
