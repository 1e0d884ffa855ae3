"""Runs sources: each at its own interval and in its own thread, so that none waits for another."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.pipeline.core.records import Frame, make_layout
from laggard.producers.sources.performance import SOURCE, SOURCE_FEATURES, Source, Taken, Trouble
from laggard.producers.system.clock import Clock, Schedule, Timeline

if TYPE_CHECKING:
    from laggard.producers.host.agent import Queue, Stop

LOG_AGAIN_S: Final = 600.0
"""The least time between two reports of the same trouble, in seconds."""

MOST_LOGGED: Final = 5
"""The most troubles with a part of a place that are logged of a source in that time; the others are counted."""

CLOSING_S: Final = 8.0
"""The time for which the end waits for sources that are being read, in seconds."""

_CHECK_S: Final = 0.5
_TURN_S: Final = 5.0
"""The longest wait between two turns of a source, in seconds: turns show that it is alive."""

_logger = logging.getLogger(__name__)

Publish = Callable[[Sequence[Frame]], bool]
"""Publishes frames; returns whether all frames so far are sure to arrive, whatever happens to this program."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A source and the seconds between two of its reads, from 0.5 to 3600."""

    source: Source[Any]
    interval_s: float


class Measuring:
    """Reads sources, and publishes their frames and frames about the sources themselves (scope `source`).

    An error of one source is logged and counted, and the source is read again at its next interval. A finished source
    is no longer read; the run ends when all have finished.

    Args:
        publish: publishes frames; called by one thread at a time. Its exceptions are logged and counted, and those
            frames are lost.
        sources: the sources, each with its interval.
        clock: the clocks of ticks and frames.
        queue: the queue of `publish`, for the features of the sources themselves.

    """

    def __init__(
        self,
        publish: Publish,
        sources: Sequence[Timed],
        *,
        clock: Clock | None = None,
        queue: Queue | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._runs = [SourceRun(each, self._published(publish), clock or Clock(), queue) for each in sources]

    @property
    def frames(self) -> int:
        """The number of published frames of applications and pools."""
        return sum(each.frames for each in self._runs)

    @property
    def failing(self) -> int:
        """The number of sources with an unreadable place at the last read."""
        return sum(each.failing for each in self._runs)

    @property
    def turns(self) -> int:
        """The number of turns of all loops of sources: it only stays the same if all of them hang."""
        return sum(each.turns for each in self._runs)

    @property
    def has_read(self) -> bool:
        """Whether each source was read at least once."""
        return all(each.reads for each in self._runs)

    def run(self, stop: Stop) -> None:
        """Read until stopped, or until all sources have finished, and close them."""
        threads = [
            threading.Thread(target=each.run, args=(self._stop,), name=f"source {each.place}", daemon=True)
            for each in self._runs
        ]
        for thread in threads:
            thread.start()
        try:
            while not stop.is_set() and any(thread.is_alive() for thread in threads):
                stop.wait(_CHECK_S)
        finally:
            self._stop.set()
            until = time.monotonic() + CLOSING_S
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))
                if thread.is_alive():
                    _logger.warning("%s is still being read; its new data is lost", thread.name)

    def _published(self, publish: Publish) -> Publish:
        def one_at_a_time(frames: Sequence[Frame]) -> bool:
            with self._lock:
                return publish(frames)

        return one_at_a_time


class SourceRun:
    """One running source.

    Attributes:
        place: its application or pool, and its name, for the log.
        frames: the number of its published frames.
        reads: the number of its reads.
        turns: the number of its reads and its waits.
        failing: whether a place was unreadable at the last read.

    """

    def __init__(self, timed: Timed, publish: Publish, clock: Clock, queue: Queue | None) -> None:
        self.source = timed.source
        self.place = f"{timed.source.key}/{timed.source.name}"
        self.frames = 0
        self.reads = 0
        self.turns = 0
        self.failing = False
        self._publish = publish
        self._clock = clock
        self._queue = queue
        self._schedule = Schedule(timed.interval_s, clock)
        self._timeline = Timeline(clock)
        self._layout = make_layout((timed.source.name,), (timed.source.name,), SOURCE_FEATURES)
        self._troubles = Troubles(clock)
        self._failures = self._unusable = self._publish_failures = 0

    def run(self, stop: threading.Event) -> None:
        """Read until stopped or finished, and close the source."""
        try:
            while not stop.is_set() and not self.source.finished:
                self.turns += 1
                delay_s = self._schedule.delay_s()
                if delay_s > 0:
                    stop.wait(min(delay_s, _TURN_S))
                    continue
                self._schedule.begin()
                while self.tick() and not stop.is_set():
                    pass  # there is more
        finally:
            self.source.close()

    def tick(self) -> bool:
        """Read and publish once; return whether there is more to read at once."""
        ts = self._timeline.now()
        begun = self._clock.monotonic()
        try:
            taken = self.source.parse(self.source.read(ts))
        except Exception as error:
            _logger.debug("%s failed", self.place, exc_info=True)
            problem = f"reading failed with {type(error).__name__}: {error}"
            taken = Taken(troubles=[Trouble(self.place, problem)], places=0)
        self._failures += max(0, taken.expected - taken.places)
        self._unusable += taken.unusable
        self.failing = taken.places < taken.expected
        self._troubles.log(taken.troubles)
        frames = [*taken.frames, self._own_frame(ts, taken, (self._clock.monotonic() - begun) / 1e9)]
        try:
            arrives = self._publish(frames)
        except Exception:
            self._publish_failures += 1
            _logger.exception("cannot publish the frames of %s at %.3f: they are lost", self.place, ts)
        else:
            self.frames += len(taken.frames)
            if arrives:
                self.source.published()
        self.reads += 1
        self.turns += 1
        return taken.more

    def _own_frame(self, ts: float, taken: Taken, read_s: float) -> Frame:
        values = np.array(
            [
                [
                    taken.expected,
                    taken.places,
                    read_s,
                    taken.samples,
                    self._unusable,
                    self._failures,
                    self._publish_failures,
                    np.nan if self._queue is None else self._queue.waiting,
                    np.nan if self._queue is None else self._queue.dropped,
                ]
            ],
            np.float64,
        )
        values.setflags(write=False)
        source = self.source
        return Frame(source.keyed_by, source.key, SOURCE, ts, int(ts * 1000), self._layout, values)


class Troubles:
    """Logs troubles: of a place when they begin, again after a while, and when they end; of parts a few."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lasting: dict[str, tuple[str, int]] = {}  # by place, the trouble and the time of its last report
        self._parts: set[str] = set()  # the parts with a recent report
        self._parts_since = clock.monotonic()

    def log(self, troubles: Sequence[Trouble]) -> None:
        """Log the new troubles of one read."""
        now = self._clock.monotonic()
        lasting = {each.place: each.text for each in troubles if each.lasting}
        for place in self._lasting.keys() - lasting.keys():
            _logger.warning("%s: recovered", place)
            del self._lasting[place]
        for place, text in lasting.items():
            before, logged_ns = self._lasting.get(place, ("", 0))
            if text != before or now - logged_ns >= LOG_AGAIN_S * 1e9:
                self._lasting[place] = text, now
                _logger.warning("%s: %s", place, text)
        if now - self._parts_since >= LOG_AGAIN_S * 1e9:
            self._parts.clear()
            self._parts_since = now
        for each in troubles:
            if not each.lasting and each.place not in self._parts and len(self._parts) < MOST_LOGGED:
                self._parts.add(each.place)
                _logger.warning("%s: %s", each.place, each.text)
