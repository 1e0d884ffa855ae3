"""Traced requests: numbered, published and counted, with the figures of how the tracing goes."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.records import RecordError, Request
from laggard.pipeline.core.trusted import read_trusted, write_trusted
from laggard.producers.trace.overhead import OWN_EVERY_S, OWN_FEATURES, own_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from laggard.pipeline.core.records import Frame
    from laggard.producers.host.agent import Queue
    from laggard.producers.trace.analysis import Analysis
    from laggard.producers.trace.events import Events

STATUS: Final = "trace.json"
"""The file with the status of tracing, in the directory `state`."""

MOST_SERVICES: Final = 100
"""The most services that are counted by name."""

SILENT_S: Final = 3.0
"""The age of figures from which the tracer counts as late: it writes them every second."""

LATE_S: Final = 5.0
"""The lag from which a tracer is too late, in seconds."""

COMPLETE: Final = 0.95
"""The recorded share of the time below which too many requests are missing."""

_MAX_BYTES: Final = 1 << 20
_OTHERS: Final = "..."

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Figures:
    """The status of tracing.

    Attributes:
        pid: the process id of the tracer.
        began_ts: its start, seconds since the Unix epoch.
        ts: the time of these figures.
        what: what is traced, in words.
        recording: whether events arrive.
        supervised: whether `laggard up` runs it.
        output: the folder of a recording; empty if requests are published.
        events: the number of kernel events.
        events_per_s: their present rate.
        requests: the number of requests.
        requests_per_s: their present rate.
        services: the number of requests by service.
        discarded: the number of unpublished requests by reason.
        lost: the number of events that the kernel dropped.
        lost_per_s: their present rate.
        recorded_ratio: the share of the time without missing events.
        lag_s: the delay between an event and its analysis, in the last batch.
        priority: the priority of the process, in words.
        cpu_s: the CPU time of the process.
        waiting: the number of requests on the way to the bus.
        dropped: the number of requests lost on the way to it.
        bytes: the size of the recording.
        notes: the limitations on this machine, in words.

    """

    pid: int
    began_ts: float
    ts: float
    what: str
    recording: bool = False
    supervised: bool = False
    output: str = ""
    events: int = 0
    events_per_s: float = 0.0
    requests: int = 0
    requests_per_s: float = 0.0
    services: dict[str, int] = field(default_factory=dict)
    discarded: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    lost_per_s: float = 0.0
    recorded_ratio: float = 1.0
    lag_s: float = 0.0
    priority: str = ""
    cpu_s: float = 0.0
    waiting: int = 0
    dropped: int = 0
    bytes: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def lost_ratio(self) -> float:
        """The lost share of the events so far."""
        return self.lost / max(self.events + self.lost, 1)

    def behind_s(self, now: float) -> float:
        """Return by how much it lags at a time: also if it has written nothing since, since it waits for a CPU."""
        silent_s = now - self.ts
        return self.lag_s + (silent_s if silent_s > SILENT_S else 0.0)

    def write(self, path: Path) -> None:
        """Write them to the file for `laggard trace status`, atomically."""
        write_trusted(path, json.dumps(asdict(self)))


def read_figures(path: Path, pid: int) -> Figures | None:
    """Return the last figures that this process has written; None if there are none."""
    with suppress(OSError, ValueError, TypeError):
        found = Figures(**json.loads(read_trusted(path, _MAX_BYTES)))
        if found.pid == pid:
            return found
    return None


class Numbering:
    """Numbers the requests of this host. Numbers only grow, also over restarts as long as the clock goes forward."""

    def __init__(self, host: str, clock: Callable[[], float] = time.time) -> None:
        self._host = host
        self._clock = clock
        self._last = -1

    def number(self, request: Request) -> Request:
        """Return the request with its number and its host."""
        self._last = max(self._last + 1, int(self._clock() * 1e6))
        return replace(request, host=self._host, sequence=self._last)


class Tracing:
    """Finds requests in events, and publishes them.

    Args:
        publish: publishes requests, in the order of their ends.
        queue: the queue of requests on the way to the bus.
        host: the name of this host.
        analysis: finds requests.

    Attributes:
        requests: the number of requests.
        services: the number of requests by service.
        lost: the number of requests that could not be written.

    """

    def __init__(
        self, publish: Callable[[Sequence[Request]], None], queue: Queue, host: str, analysis: Analysis
    ) -> None:
        self.requests = self.lost = 0
        self.services: Counter[str] = Counter()
        self.analysis = analysis
        self._publish = publish
        self._queue = queue
        self._numbering = Numbering(host)

    def run(self, batches: Iterable[Events], tell: Callable[[], None]) -> None:
        """Process events until there are no more; `tell` is called after each batch."""
        for batch in batches:
            self._take(self.analysis.feed(batch))
            tell()
        self._take(self.analysis.finish())
        tell()

    @property
    def waiting(self) -> int:
        """The number of requests on the way to the bus."""
        return self._queue.waiting

    @property
    def dropped(self) -> int:
        """The number of lost requests."""
        return self._queue.dropped + self.lost

    def _take(self, requests: Sequence[Request]) -> None:
        if not requests:
            return
        numbered = [self._numbering.number(each) for each in requests]
        self.requests += len(numbered)
        for each in numbered:
            known = each.service in self.services or len(self.services) < MOST_SERVICES
            self.services[each.service if known else _OTHERS] += 1
        try:
            self._publish(numbered)
        except RecordError:
            for each in numbered:
                self._publish_one(each)
        except BusError as error:
            _logger.warning("%s; requests are lost", error)  # the queue has counted them

    def _publish_one(self, request: Request) -> None:
        """Publish one request, so that an invalid one does not drop the others."""
        try:
            self._publish([request])
        except RecordError as error:
            self.lost += 1
            _logger.warning("request %s cannot be published: %s", request.request, error)
        except BusError as error:
            _logger.warning("%s; a request is lost", error)


class Own:
    """Publishes the tracer's own figures at intervals.

    Args:
        publish: publishes frames.
        host: the name of this host.

    """

    def __init__(self, publish: Callable[[Sequence[Frame]], None], host: str) -> None:
        self._publish = publish
        self._host = host
        self._next_ts = self._lag_s = 0.0

    def publish(self, figures: Figures) -> None:
        """Publish the figures, unless some were published recently. An error is no reason to stop tracing."""
        self._lag_s = max(self._lag_s, figures.lag_s)
        if figures.ts < self._next_ts:
            return
        self._next_ts = figures.ts + OWN_EVERY_S
        values = (
            figures.cpu_s,
            figures.events,
            figures.lost,
            figures.requests,
            sum(figures.discarded.values()),
            figures.recorded_ratio,
            figures.waiting,
            figures.dropped,
            self._lag_s,
        )
        self._lag_s = 0.0
        try:
            self._publish([own_frame(self._host, figures.ts, dict(zip(OWN_FEATURES, values, strict=True)))])
        except BusError as error:
            _logger.warning("%s; the state of tracing is not published", error)


class Rates:
    """Rates per second over the last few seconds."""

    OVER_S: Final = 5.0

    def __init__(self) -> None:
        self._looks: list[tuple[float, Sequence[int]]] = []

    def of(self, now_s: float, *counts: int) -> list[float]:
        """Return the rates of these counts at a monotonic time."""
        self._looks.append((now_s, counts))
        while len(self._looks) > 2 and now_s - self._looks[1][0] >= self.OVER_S:
            del self._looks[0]
        began_s, before = self._looks[0]
        span_s = now_s - began_s
        return [(count - was) / span_s if span_s > 0.0 else 0.0 for count, was in zip(counts, before, strict=True)]


def begun(what: str, *, supervised: bool, output: str = "") -> Figures:
    """Return the figures of a tracing that begins now, in this process."""
    now = time.time()
    return Figures(os.getpid(), now, now, what, supervised=supervised, output=output)
