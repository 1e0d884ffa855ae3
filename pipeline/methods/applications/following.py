"""An application followed as its worker follows it: the scores of its models for each interval, and its present state.

Predictions of models are on no topic: they follow from the records of the application and a snapshot of its state. So
the task of the worker runs again over the records since the snapshot, with an operator that notes its inputs and
scores. Later queries use the same task, which reads only the records since the last one.

The first query of a shop on two hosts with 1,054 metrics costs 2.0 s of CPU for an hour at one tick per second: 16,264
records, 1,802 intervals. With 1,315 metrics, half an hour at one tick per 5 s (180 intervals) costs 0.3 s. Later
records cost some milliseconds.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.pipeline.core.engine.migrations import newest_snapshots
from laggard.pipeline.history.rebuilding import UNLEARNED_S
from laggard.pipeline.history.series import Reader
from laggard.pipeline.methods.applications.stage import RegressionTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.regression.models import Model, SampleScores
    from laggard.pipeline.core.bus import Bus, Snapshot
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.methods.applications.application import Application, Operator
    from laggard.pipeline.methods.applications.metrics import Metrics
    from laggard.pipeline.methods.applications.stage import RegressionStage

MOST_RECORDS: Final = 50_000
"""The most records of a partition that are read for a query."""

MOST_LEARNED: Final = 10_000
"""The most records before the queried ones from which models are learned without a snapshot."""

NEARLY: Final = 1_000
"""A follower that lags by at most this many records reads on; with more, another one starts from a newer snapshot."""

MAX_CELLS: Final = 4_000_000
"""The most values of metrics per follower, 4 bytes each: with 7,522 metrics those of 531 intervals."""

MOST_FOLLOWED: Final = 4
"""The most followers: of applications, or of different time ranges of one."""

LATELY_S: Final = 120.0
"""The first range of the search for the newest interval, in seconds."""

CLOSING_S: Final = 60.0
"""The longest time from the end of an interval to the records that close it, in seconds."""


class Noted(NamedTuple):
    """An interval that was scored and learned.

    Attributes:
        ts: its end, seconds since the Unix epoch.
        metrics: the names of the metrics.
        values: their values, float32, shape (metrics,); NaN if unknown.
        performance: the measured performance by name.
        judgement: the judgement of the operator before it learned the interval; None if scoring failed.
        built: the models that were built at it.

    """

    ts: float
    metrics: Metrics
    values: NDArray[np.float32]
    performance: Mapping[str, float]
    judgement: SampleScores | None
    built: Sequence[Model]

    def value(self, metric: str) -> float:
        """Return the value of a metric; NaN without one."""
        try:
            return float(self.values[self.metrics.ids.index(metric)])
        except ValueError:
            return float("nan")


class _Watched:
    """An operator that notes its inputs and its scores."""

    def __init__(self, operator: Operator, note: Callable[[Noted], None]) -> None:
        self._operator = operator
        self._note = note
        self._judged: tuple[float, SampleScores] | None = None

    @property
    def models(self) -> Mapping[str, Model]:
        return self._operator.models

    @property
    def newest(self) -> Mapping[str, float]:
        return self._operator.newest

    @property
    def pinned(self) -> Sequence[str]:
        return self._operator.pinned

    @property
    def banned(self) -> Sequence[str]:
        return self._operator.banned

    def score(
        self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]
    ) -> SampleScores:
        judgement = self._operator.score(ts, metrics, values, performance)
        self._judged = ts, judgement
        return judgement

    def learn(
        self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]
    ) -> Sequence[Model]:
        built = self._operator.learn(ts, metrics, values, performance)
        judgement = self._judged[1] if self._judged is not None and self._judged[0] == ts else None
        self._note(Noted(ts, metrics, values.astype(np.float32), performance, judgement, built))
        return built

    def what_if(self, performance: str, metric: str, value: float) -> float:
        return self._operator.what_if(performance, metric, value)

    def pin(self, metric: str) -> None:
        self._operator.pin(metric)

    def ban(self, metric: str) -> None:
        self._operator.ban(metric)

    def free(self, metric: str) -> None:
        self._operator.free(metric)

    def snapshot(self) -> dict[str, Any]:
        return self._operator.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        self._operator.restore(state)


class Followed:
    """The follower of one application, from some record on.

    A bus may keep only the newest snapshot of a state. If that is later than the query, models are learned from scratch
    up to there, and are those of the worker from there on.

    Parameters:
        bus: the bus with its records.
        topics: the names of the topics.
        stage: the stage that builds its models.
        application: the name of the application.
        wanted: the offset from which intervals are queried.
        anew: whether models are learned from scratch without an earlier snapshot; otherwise it starts with a later one.

    Attributes:
        application: the name of the application.
        wanted: the offset from which its intervals are noted.
        position: the first unread offset.
        own: whether all of its models are those of the worker.
        noted: its intervals, the oldest first.

    """

    def __init__(
        self, bus: Bus, topics: Topics, stage: RegressionStage, application: str, wanted: int, *, anew: bool
    ) -> None:
        self.application = application
        self.wanted = wanted
        self.noted: deque[Noted] = deque()
        self._cells = 0
        self._stage = replace(stage, make=lambda: _Watched(stage.make(), self._note))
        self._reader = Reader(bus, bus.partition_of(topics.name(stage.topic), application), application)
        partition = self._reader.partition
        oldest, end = bus.bounds(partition)
        saved = self._saved(wanted)
        self._later = None if saved else self._saved(end)
        if self._later is not None and not anew:
            saved, self._later = self._later, None
            self.wanted = saved.offset
        if saved is None:
            newest = next(self._reader.backwards(wanted), None)
            since = wanted if newest is None else bus.offset_at(partition, newest[1].ts - UNLEARNED_S)
            self.position = max(since, wanted - MOST_LEARNED, oldest)
        else:
            self.position = max(saved.offset, self.wanted - MOST_RECORDS, oldest)
        self.own = self.position == (0 if saved is None else saved.offset)
        self._task = self._task_of(saved)
        self.advance(self.wanted)
        if self.noted:  # earlier intervals were not queried, except for the newest one
            self.noted, self._cells = deque([self.noted[-1]]), self.noted[-1].values.size

    @property
    def state(self) -> Application | None:
        """The state after the records that were read; None without any."""
        return self._task.states.get(self.application)

    def advance(self, stop: int) -> None:
        """Read on, up to this offset."""
        if self._later is not None and stop >= self._later.offset:
            later, self._later = self._later, None
            self.advance(later.offset)
            self._task = self._task_of(later)
        if stop > self.position:
            self._task.replay(self._reader.stored(self.position, stop))
            self.position = stop

    def _saved(self, at_or_before: int) -> Snapshot | None:
        found = newest_snapshots(self._reader.bus, self._stage, self._reader.partition, at_or_before)
        return next((each for each in found if each.key == self.application), None)

    def _task_of(self, saved: Snapshot | None) -> RegressionTask:
        """Return a task that begins with this state."""
        task = self._stage.task(self._reader.partition, live=False)
        assert isinstance(task, RegressionTask)
        task.states.load([] if saved is None else [saved])
        return task

    def _note(self, interval: Noted) -> None:
        self.noted.append(interval)
        self._cells += interval.values.size
        while self._cells > MAX_CELLS and len(self.noted) > 1:
            self._cells -= self.noted.popleft().values.size


class Following:
    """Follows the queried applications. Safe to use from several threads, which wait for each other.

    Parameters:
        bus: the bus with their records.
        topics: the names of the topics.
        make_stage: makes the stage that builds their models; called at the first query.

    """

    def __init__(self, bus: Bus, topics: Topics, make_stage: Callable[[], RegressionStage]) -> None:
        self._bus = bus
        self._topics = topics
        self._make_stage = make_stage
        self._stage: RegressionStage | None = None
        self._followed: list[Followed] = []
        self._lock = threading.Lock()

    @contextmanager
    def present(self, application: str) -> Iterator[Followed]:
        """Yield the application after all of its records, with its newest interval noted if possible."""
        with self._lock:
            partition = self._bus.partition_of(self._topic(), application)
            end = self._bus.bounds(partition)[1]
            newest = next(Reader(self._bus, partition, application).backwards(end), None)
            newest_ts = 0.0 if newest is None else newest[1].ts
            wanted = min(self._bus.offset_at(partition, newest_ts - LATELY_S), end)
            there = (one for one in self._followed if one.application == application)
            found = next((one for one in there if one.position + NEARLY >= end), None)
            found = found or self._made(application, wanted, anew=False)
            self._advance(found, end)
            if not found.noted and found.state is not None and (length_s := found.state.intervals.length_s) > 0.0:
                wanted = self._bus.offset_at(partition, newest_ts - 3.0 * length_s)
                if wanted < found.wanted:
                    found = self._made(application, wanted, anew=False)
                    self._advance(found, end)
            yield found

    @contextmanager
    def between(self, application: str, since: float, until: float | None) -> Iterator[Followed]:
        """Yield the application with the intervals of a time range among those that are noted.

        Args:
            application: the name of the application.
            since: the start, seconds since the Unix epoch; later if the range has more than `MOST_RECORDS`.
            until: the end; None for the present.

        """
        with self._lock:
            partition = self._bus.partition_of(self._topic(), application)
            end = self._bus.bounds(partition)[1]
            stop = end if until is None else min(self._bus.offset_at(partition, until + CLOSING_S), end)
            wanted = max(min(self._bus.offset_at(partition, since), stop), stop - MOST_RECORDS)
            found = next((one for one in self._followed if _serves(one, application, wanted)), None)
            found = found or self._made(application, wanted, anew=True)
            self._advance(found, stop)
            yield found

    def _made(self, application: str, wanted: int, *, anew: bool) -> Followed:
        assert self._stage is not None
        return Followed(self._bus, self._topics, self._stage, application, wanted, anew=anew)

    def _advance(self, followed: Followed, stop: int) -> None:
        others = [each for each in self._followed if each is not followed and not _covers(followed, each, stop)]
        self._followed = [*others[1 - MOST_FOLLOWED :], followed]  # ordered by their last query
        followed.advance(stop)

    def _topic(self) -> str:
        if self._stage is None:
            self._stage = self._make_stage()
        return self._topics.name(self._stage.topic)


def _serves(one: Followed, application: str, wanted: int) -> bool:
    """Return whether a follower has the queried intervals, or lags by few records only."""
    return one.application == application and one.wanted <= wanted <= one.position + NEARLY


def _covers(one: Followed, other: Followed, stop: int) -> bool:
    """Return whether a follower that has read up to `stop` has all intervals of another one."""
    return one.application == other.application and one.wanted <= other.wanted and other.position <= stop
