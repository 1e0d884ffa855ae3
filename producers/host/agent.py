"""The host agent: at each tick frames of all processes, of the host, of limits, of its own cost, and of pools."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import psutil

from laggard.pipeline.core.records import Frame, Layout, Mark, make_layout
from laggard.producers.host.host import HostCounters
from laggard.producers.host.limits import Limits
from laggard.producers.host.processes import ProcessTable
from laggard.producers.system.clock import Clock, Schedule, Timeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.producers.host.pools.pools import Members, Pools

_T = TypeVar("_T")

Publish = Callable[[Sequence[Frame | Mark]], None]
"""Publishes the frames of a tick: those of the host, then those of its pools."""

AGENT_FEATURES = (
    "cpu_ratio",
    "memory_rss_bytes",
    "tick_duration_s",
    "publish_duration_s",
    "processes",
    "held_files",
    "unreadable_files",
    "read_errors",
    "publish_failures",
    "waiting_records",
    "dropped_records",
    "missed_ticks",
    "clock_offset_s",
    "suspended_s",
    "diagnosed_processes",
    "diagnosis_cpu_ratio",
    "diagnosis_failures",
    "pools",
    "pool_members",
    "pool_members_left_out",
)
"""The features of the agent itself.

`cpu_ratio` is the CPU time of its threads since the last tick, publishing included, as a share of one core.
`memory_rss_bytes` is that of its program. `tick_duration_s` is the time to read everything, `publish_duration_s` the
time to publish the frames of the last tick. `read_errors` is the number of malformed texts and failed readings at this
tick. `publish_failures` is the number of failures to publish since the agent began. `waiting_records` is the number of
its records that have not arrived yet, and `dropped_records` the number that were lost since it began, if known.
`missed_ticks` is the number of skipped ticks since the last one. `clock_offset_s` is the lead of its time over the wall
clock (see `Timeline`). `suspended_s` is the time for which the machine was suspended since the last tick.
`diagnosed_processes` is the number of processes in diagnosis now. `diagnosis_cpu_ratio` is the CPU time of diagnoses,
of their triggers and of their helper programs since the last tick, as a share of one core. `diagnosis_failures` is the
number of their failures since the agent began. `pools` is the number of pools, `pool_members` the number of their
members, and `pool_members_left_out` the number of members beyond a bound.
"""

logger = logging.getLogger(__name__)


class Queue(Protocol):
    """The queue of published records that have not arrived."""

    @property
    def waiting(self) -> int:
        """The number of records that have not arrived yet."""

    @property
    def dropped(self) -> int:
        """The number of lost records."""


class Watch(Protocol):
    """The diagnosis of processes while something is wrong."""

    @property
    def running(self) -> int:
        """The number of processes in diagnosis now."""

    @property
    def cpu_s(self) -> float:
        """The CPU time that it used so far, in seconds."""

    @property
    def failures(self) -> int:
        """The number of failures so far."""


class Stop(Protocol):
    """The signal to end a run, such as `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether to stop now."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it for at most `timeout` seconds."""


class Agent:
    """Samples a machine's counters, every `interval_s` seconds.

    The frames of a tick have the same time, and sequences that increase. They also increase over restarts, unless the
    wall clock steps back by more than the agent was away.

    Unreadable values are left out, at worst their whole frame, and counted (`read_errors`). An exception of `publish`
    is logged and counted (`publish_failures`), and the agent continues. The frames of that tick are lost, and their
    rates with them. A `publish` that must not lose them stores and repeats them itself.

    Args:
        publish: publishes the frames of a tick.
        host: their key.
        interval_s: seconds between ticks, 0.5 to 3600.
        root: the mount point of procfs.
        clock: the clocks of ticks, rates and records.
        command_lines: whether frames have the command lines of processes, which may hold secrets.
        descriptor_limit: the number of files to hold open; by default what the (raised) limit of this program allows.
        queue: the queue of `publish`, for the features of the agent itself.
        watch: the diagnosis of processes, likewise.
        pools: finds the pools among its processes; None for none.

    Raises:
        ValueError: the interval is out of bounds.

    """

    def __init__(
        self,
        publish: Publish,
        host: str,
        interval_s: float = 5.0,
        *,
        root: str = "/proc",
        clock: Clock | None = None,
        command_lines: bool = True,
        descriptor_limit: int | None = None,
        queue: Queue | None = None,
        watch: Watch | None = None,
        pools: Pools | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._queue = queue
        self._watch = watch
        self._watch_s = np.nan if watch is None else watch.cpu_s
        self._schedule = Schedule(interval_s, self._clock)
        self._timeline = Timeline(self._clock)
        self._publish = publish
        self._host = host
        self._processes = ProcessTable(
            self._clock,
            interval_s,
            root=root,
            command_lines=command_lines,
            descriptor_limit=descriptor_limit,
            watches_threads=pools is not None and pools.watches_threads,
        )
        self._pools = pools
        self._limits = Limits(self._processes, self._clock)
        self._counters = HostCounters(self._clock, root)
        self._sources: dict[str, ProcessTable | HostCounters] = {"process": self._processes, "host": self._counters}
        self._failing: set[str] = set()
        self._failed = 0  # reads of this tick
        self._program = psutil.Process()
        self._layout = make_layout(("agent",), ("agent",), AGENT_FEATURES)
        self._sequence = -1
        self._publish_s = np.nan
        self._publish_failures = 0
        self._last: tuple[int, int, int] | None = None  # monotonic, boot and CPU time of the last tick's beginning

    def run(self, stop: Stop) -> None:
        """Tick until stopped, then close."""
        try:
            while not stop.is_set():
                delay_s = self._schedule.delay_s()
                if delay_s > 0:
                    stop.wait(delay_s)
                else:
                    self.tick()
        finally:
            self.close()

    def tick(self) -> None:
        """Read all counters once and publish their frames."""
        clock = self._clock
        missed = self._schedule.begin()
        ts = self._timeline.now()
        begun = clock.monotonic(), clock.boottime(), clock.cpu() + self._processes.cpu_ns
        read: dict[str, tuple[Layout, NDArray[np.float64]]] = {}
        self._failed = 0
        for scope, source in self._sources.items():
            if (counters := self._read(f"{scope} counters", source.read)) is None:
                source.close()  # it may have half of this tick: start from scratch
            else:
                read[scope] = counters
        pools: list[Members] = []
        if "process" in read:
            of_processes = read["process"]
            if self._pools is not None:
                read_pools = partial(self._pools.read, self._processes, *of_processes)
                pools = self._read(f"pools of {self._host}", read_pools) or []
            limits = self._read(f"limits of {self._host}", partial(self._limits.read, *of_processes))
            if limits is not None:
                read["limit"] = limits
        read["agent"] = self._layout, self._cost(begun, missed, self._failed)
        frames: list[Frame | Mark] = [
            Frame("host", self._host, scope, ts, self._next_sequence(ts), *each) for scope, each in read.items()
        ]
        frames += [
            Frame("pool", each.key, "member", ts, self._next_sequence(ts), each.layout, each.values) for each in pools
        ]
        self._last = begun
        started = clock.monotonic()
        try:
            self._publish(frames)
        except Exception:
            self._publish_failures += 1
            logger.exception("cannot publish the frames of %s at %.3f: they are lost", self._host, ts)
        self._publish_s = (clock.monotonic() - started) / 1e9

    def _read(self, what: str, read: Callable[[], _T]) -> _T | None:
        """Call `read`, and return its result; None if it fails, which is logged when that begins."""
        try:
            found = read()
        except Exception:
            self._failed += 1
            if what not in self._failing:
                logger.exception("cannot read the %s", what)
            self._failing.add(what)
            return None
        self._failing.discard(what)
        return found

    def close(self) -> None:
        """Close all files."""
        for source in self._sources.values():
            source.close()

    def _next_sequence(self, ts: float) -> int:
        self._sequence = max(self._sequence + 1, int(ts * 1000))
        return self._sequence

    def _cost(self, begun: tuple[int, int, int], missed: int, failed: int) -> NDArray[np.float64]:
        cpu_ratio = suspended_s = watch_ratio = np.nan
        watch_s = np.nan if self._watch is None else self._watch.cpu_s
        if self._last is not None:
            elapsed, boot, cpu = (now - last for now, last in zip(begun, self._last, strict=True))
            if elapsed > 0:
                cpu_ratio, watch_ratio = cpu / elapsed, (watch_s - self._watch_s) / (elapsed / 1e9)
            suspended_s = max(0, boot - elapsed) / 1e9
        self._watch_s = watch_s
        values = np.array(
            [
                [
                    cpu_ratio,
                    self._memory_bytes(),
                    (self._clock.monotonic() - begun[0]) / 1e9,
                    self._publish_s,
                    self._processes.count,
                    self._processes.held_files,
                    self._processes.unreadable_files,
                    self._processes.read_errors + self._counters.read_errors + failed,
                    self._publish_failures,
                    np.nan if self._queue is None else self._queue.waiting,
                    np.nan if self._queue is None else self._queue.dropped,
                    missed,
                    self._timeline.offset_s,
                    suspended_s,
                    np.nan if self._watch is None else self._watch.running,
                    watch_ratio,
                    np.nan if self._watch is None else self._watch.failures,
                    np.nan if self._pools is None else self._pools.count,
                    np.nan if self._pools is None else self._pools.members,
                    np.nan if self._pools is None else self._pools.left_out,
                ]
            ],
            np.float64,
        )
        values.setflags(write=False)
        return values

    def _memory_bytes(self) -> float:
        """Return the memory of this program; NaN if unreadable, for example when the machine is out of descriptors."""
        try:
            return float(self._program.memory_info().rss)
        except (OSError, psutil.Error):
            return np.nan
