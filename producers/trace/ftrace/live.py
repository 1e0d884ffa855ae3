"""Live tracing: events in batches, a moment after they happened, within a budget."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from laggard.producers.trace.boundaries.connections import Connections
from laggard.producers.trace.events import EVENT, NO_TEXT, Events, Kind, Texts
from laggard.producers.trace.ftrace.budget import Budget
from laggard.producers.trace.ftrace.decoding import Decoder
from laggard.producers.trace.ftrace.merging import merged
from laggard.producers.trace.ftrace.names import name_rows, with_failures
from laggard.producers.trace.ftrace.processes import Processes
from laggard.producers.trace.ftrace.session import BUFFER_BYTES, Session, devices, machine, wall_offset_ns
from laggard.producers.trace.gaps import Gaps

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    from laggard.producers.trace.boundaries.probes import Probe

EVERY_S: Final = 0.5
"""The interval between reads of the buffers, in seconds."""

_SETTLED_NS: Final = 2_000_000
"""The longest delay between an event's time and its place in the buffer, despite interrupts."""

_GAPS_NS: Final = 600_000_000_000
"""The age from which gaps are only summed: a CPU may report one late, when it continues."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of tracing, since it began.

    Attributes:
        seconds: the duration so far.
        recorded_ratio: the share of it without missing events: less than 1 if events came faster than the budget
            allows, or than they were read.
        events: the number of recorded events.
        events_per_s: their rate in the recorded time.
        lost: the number of events that came faster than they were read.
        lost_names: the same number for paths and addresses.
        lag_s: the age of the oldest events of the last batch: the delay of what is found in them.
        cpu_s: the CPU time of this whole process since then, including the analysis of events. The kernel's time for
            writing an event is part of the traced program's.

    """

    seconds: float
    recorded_ratio: float
    events: int
    events_per_s: float
    lost: int
    lost_names: int
    lag_s: float
    cpu_s: float


class Live:
    """Traces from the beginning of the block that uses it to its end.

    Args:
        probes: boundaries in programs.
        ports: servers with one request per connection: services by port.
        marker: the place where the marker file is offered.
        marker_group: see `Session`.
        events_per_s: the most events per second, on average. At a higher rate, tracing pauses, which it reports as
            `Kind.LOST`.
        buffer_bytes: see `Session`.
        minimal: see `Session`.

    Attributes:
        wall_offset_s: the offset from the time of the events to seconds since the Unix epoch.
        notes: the limitations on this machine, in words.

    Raises:
        TracingError: the tracer cannot be used.

    """

    def __init__(
        self,
        *,
        probes: Sequence[Probe] = (),
        ports: Mapping[int, str] | None = None,
        marker: Path | None = None,
        marker_group: int = 0,
        events_per_s: float,
        buffer_bytes: int = BUFFER_BYTES,
        minimal: bool = False,
    ) -> None:
        self._budget = Budget(events_per_s)
        self._connections = Connections(ports) if ports else None
        self._texts = Texts()
        self._session = Session(
            probes=probes, marker=marker, marker_group=marker_group, buffer_bytes=buffer_bytes, minimal=minimal
        )
        self.notes: Sequence[str] = self._session.notes
        self.wall_offset_s = wall_offset_ns() / 1e9
        self._waiting: NDArray[np.void] = np.zeros(0, EVENT)
        self._decoder: Decoder | None = None
        self._processes = Processes({})
        self._events = self._lost = 0
        self._begin_ns = self._taken_ns = self._oldest_ns = self._off_ns = 0
        self._gaps = Gaps()
        self._cpu_s = time.process_time()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._session.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def start(self) -> None:
        """Start the recording."""
        session = self._session
        session.start()
        self._begin_ns = self._taken_ns = self._oldest_ns = session.begin_ns
        self._waiting = session.known.rows(session.begin_ns, self._texts)
        self._processes = Processes(session.known.processes())
        self._decoder = Decoder(
            session.formats,
            session.instance.header,
            self._texts,
            machine=machine(),
            probes=session.boundaries,
            devices=devices(),
        )

    def batches(self, stop: threading.Event) -> Iterator[Events]:
        """Yield events every half second until `stop` is set, and then the last ones."""
        while not stop.wait(max(0.0, EVERY_S - (time.monotonic_ns() - self._taken_ns) / 1e9)):
            yield self.take()
        yield self.finish()

    def take(self) -> Events:
        """Take all new events up to a moment ago."""
        now = time.monotonic_ns()
        came = self._drain()
        wanted = self._budget.spend(came, (now - self._taken_ns) / 1e9)
        self._oldest_ns, self._taken_ns = self._taken_ns, now
        self._gaps.forget(now - _GAPS_NS)
        if wanted == bool(self._off_ns):
            self._switch(on=wanted)
        return self._ready(now - _SETTLED_NS)

    def finish(self) -> Events:
        """Stop the recording, and return the last events."""
        if not self._off_ns:
            self._session.stop()
        self._oldest_ns, self._taken_ns = self._taken_ns, time.monotonic_ns()
        self._drain()
        return self._ready(1 << 62)

    def cost(self) -> Cost:
        """Return the cost so far."""
        seconds = max(self._taken_ns - self._begin_ns, 1) / 1e9
        if self._off_ns:
            self._gaps.add(self._off_ns, self._taken_ns)
        recorded = max(0.0, seconds - self._gaps.total(self._taken_ns) / 1e9)
        return Cost(
            seconds,
            recorded / seconds,
            self._events,
            self._events / recorded if recorded else 0.0,
            self._lost,
            self._session.names.dropped if self._session.names else 0,
            (time.monotonic_ns() - self._oldest_ns) / 1e9,
            time.process_time() - self._cpu_s,
        )

    def _drain(self) -> int:
        """Move the content of the buffers to the waiting events, and return how many there were."""
        assert self._decoder is not None
        batches = [(pages.copy(), cpus) for pages, cpus in self._session.take()]
        parts = [self._waiting]
        count = 0
        if batches:
            pages, cpus = (np.concatenate(each) for each in zip(*batches, strict=True))
            rows = self._decoder.decode(pages, cpus)
            missing = rows[rows["kind"] == Kind.LOST]
            lost = len(missing)
            for begin, end in zip(missing["a"].tolist(), missing["b"].tolist(), strict=True):
                self._gaps.add(begin, min(end, time.monotonic_ns()))
            if lost:
                # The pages themselves have the number only if there is room for it.
                self._lost = self._session.instance.overruns()
            count = len(rows) - lost
            parts.append(rows)
        names = self._session.take_names()
        if names:
            parts.append(name_rows(names, self._texts))
        self._waiting = merged(parts)
        self._events += count
        return count

    def _switch(self, *, on: bool) -> None:
        """Pause or resume; the pause is reported as a gap."""
        if not on:
            # Before the switch, so that no event is outside of the recorded time.
            self._off_ns = time.monotonic_ns()
            self._session.instance.switch(on=False)
            return
        self._session.instance.switch(on=True)
        now = time.monotonic_ns()
        gap = np.zeros(1, EVENT)
        gap["ts"] = gap["b"] = now
        gap["a"], gap["kind"], gap["cpu"], gap["tid"] = self._off_ns, Kind.LOST, -1, -1
        gap["text"] = gap["host"] = NO_TEXT
        self._waiting = merged([self._waiting, gap])
        self._gaps.add(self._off_ns, now)
        self._off_ns = 0

    def _ready(self, until: int) -> Events:
        ready = int(np.searchsorted(self._waiting["ts"], until, side="left"))
        batch = Events(with_failures(self._waiting[:ready]), self._texts)
        self._processes.fill(batch.events)
        self._waiting = self._waiting[ready:].copy()
        return self._connections.add(batch) if self._connections else batch
