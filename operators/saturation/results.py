"""The results of the operators of saturation: the resources of a host, and their users."""

from __future__ import annotations

import math
from statistics import median
from typing import Final, Literal, NamedTuple

Name = Literal[
    "cpu",
    "heat",
    "memory_pressure",
    "memory",
    "disk",
    "filesystem",
    "descriptors",
    "pids",
    "group_memory",
    "group_pids",
    "process_descriptors",
]

Use = Literal["cpu", "memory", "disk", "written", "descriptors", "threads"]
"""The ways in which a process uses a resource."""


class Condition(NamedTuple):
    """A way in which a host, a control group of it, or a process can be saturated.

    Attributes:
        name: its name in settings.
        feature: the measured feature, with its base unit; that of a filesystem names the filesystem.
        fills: whether the resource fills up, rather than being in use for a share of the time.
        use: how a process uses it.
        resource: the resource of an incident; empty for none of its own.

    """

    name: Name
    feature: str
    fills: bool
    use: Use
    resource: str


SAMPLES: Final = 11
"""The number of samples of a trend."""

NEWEST: Final = 5
"""The number of the newest steps in which the trend must still hold."""

FORECAST: Final = "forecast "
"""The beginning of the id of a forecast."""


class Reading(NamedTuple):
    """A resource in a frame.

    Attributes:
        id: the id of the resource on this host: the condition's name, for a filesystem with its mount point; for a
            limit the id of its row.
        condition: its condition.
        feature: the measured feature, with its base unit.
        value: the share in use, or of the time; NaN if unknown.
        unused: the rest, in bytes; NaN if unknown.
        row: the id of the frame's row.
        holder: for a limit, the row of the process that uses most; empty if unknown.

    """

    id: str
    condition: Condition
    feature: str
    value: float
    unused: float
    row: str = "host"
    holder: str = ""

    @property
    def is_limit(self) -> bool:
        """Whether it is a limit of a control group or a process: a resource that is a row of its own."""
        return self.id == self.row


class Resource(NamedTuple):
    """The state of one resource.

    Attributes:
        mean: the exponentially weighted mean of its readings.
        high_ts: the time since which the readings have been high, estimated from the mean; NaN if the mean is low.
        open_ts: the estimated time of the onset, while it is saturated; NaN otherwise.
        calm_ts: while it is saturated, the time since which the mean has been low; NaN otherwise.
        forecast_ts: the time since which a forecast has been open; NaN if none is.
        samples: the times and readings of a resource that fills up, the oldest first.

    """

    mean: float
    high_ts: float = math.nan
    open_ts: float = math.nan
    calm_ts: float = math.nan
    forecast_ts: float = math.nan
    samples: tuple[tuple[float, float], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it is saturated."""
        return not math.isnan(self.open_ts)

    @property
    def is_forecast(self) -> bool:
        """Whether it is going to be full."""
        return not math.isnan(self.forecast_ts)

    @property
    def rate(self) -> float:
        """Its rise as a share per second: the least of the median step, the newest median step, and its minimum's."""
        if len(self.samples) < SAMPLES:
            return 0.0
        pairs = zip(self.samples, self.samples[1:], strict=False)
        steps = [(after[1] - before[1]) / (after[0] - before[0]) for before, after in pairs]
        # The minimum of a use that comes and goes does not rise.
        lowest = (min(part, key=lambda each: each[1]) for part in (self.samples[:NEWEST], self.samples[NEWEST:]))
        (before_ts, before), (now_ts, now) = lowest
        return max(min(median(steps), median(steps[-NEWEST:]), (now - before) / (now_ts - before_ts)), 0.0)

    @property
    def full_s(self) -> float:
        """The time until it is full at this rate, in seconds; infinite if it does not fill up."""
        rate = self.rate
        return (1.0 - self.samples[-1][1]) / rate if rate > 0.0 else math.inf


class User(NamedTuple):
    """A program that uses a resource.

    Attributes:
        name: the name of its processes.
        row: the id of the process that uses most.
        rows: the number of its processes.
        now: their total use, in base units.
        before: their total use over the last quarter of an hour, likewise.

    """

    name: str
    row: str
    rows: int
    now: float
    before: float
