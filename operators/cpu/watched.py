"""A watched condition: its readings and the events that follow from them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.cpu.events import Events
from laggard.operators.cpu.measures import CONDITIONS
from laggard.operators.cpu.smoothing import Smoothing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.cpu.measures import ConditionName, Readings
    from laggard.operators.cpu.smoothing import Kind

    Vector = NDArray[np.float64]

SPIKES_S: Final = 120.0
"""The time constant with which spikes are forgotten, in seconds."""

LEAST_SPIKES: Final = 0.01
"""A row with fewer spikes left is forgotten."""


class Watched:
    """The state of one condition after a frame. `after` returns that after the next one.

    Parameters:
        name: the condition.
        thresholds: the least reading that is high, by condition. Spikes are high readings of `cpu`.
        duration_s: see `Machine`.
        smoothing: see `Smoothing`.
        window_s: likewise.

    Attributes:
        events: the events of the condition.

    """

    def __init__(
        self,
        name: ConditionName,
        thresholds: Mapping[ConditionName, float],
        duration_s: float,
        smoothing: Kind,
        window_s: float,
    ) -> None:
        if name == "spikes" and not thresholds[name] > 1.0 / SPIKES_S:
            expected = f"more than one in {SPIKES_S:.0f} s, as each alone would be frequent"
            raise ValueError(f"spikes: expected {expected}, got {thresholds[name]!r} a second")
        self.name: ConditionName = name
        self.events = Events(thresholds[name], duration_s)
        self._arguments = name, thresholds, duration_s, smoothing, window_s
        self._smoothing = Smoothing(smoothing, window_s)
        self._spikes = Events(thresholds["cpu"], duration_s) if name == "spikes" else None
        self._counts: dict[str, float] = {}  # the fading number of spikes by row id; never changed in place

    def anew(self) -> Watched:
        """Return another one without a state."""
        return Watched(*self._arguments)

    def copy(self) -> Watched:
        """Return another one in the same state."""
        other = object.__new__(Watched)
        other.name, other._arguments = self.name, self._arguments
        other.events, other._smoothing, other._counts = self.events.copy(), self._smoothing.copy(), self._counts
        other._spikes = None if self._spikes is None else self._spikes.copy()
        return other

    @property
    def calm(self) -> bool:
        """Whether it has no state, so that a frame without a high reading changes nothing."""
        events = self.events.open or (self._spikes is not None and self._spikes.open)
        return not events and not self._counts and self._smoothing.kind == "none"

    @property
    def least(self) -> float:
        """The least reading of a frame that is high."""
        return (self._spikes or self.events).threshold

    def after(self, ts: float, layout: Layout, frame: Readings) -> Watched:
        """Return the condition after a frame; itself if only the time changes, which `skip` adds later."""
        if self.calm and CONDITIONS[self.name].most(frame) < self.least:
            return self
        readings = CONDITIONS[self.name].reading(frame)
        if readings is None and self.calm:
            return self
        other = self.copy()
        other.step(ts, layout, np.full(len(layout.rows), np.nan) if readings is None else readings)
        return other

    def step(self, ts: float, layout: Layout, readings: Vector) -> None:
        """Evaluate one reading per row of a frame, NaN for none."""
        passed_s = self.events.passed_s(ts)
        readings = self._smoothing.step(layout.rows, readings, passed_s)
        if self._spikes is not None:
            spiked = self._spikes.step(ts, layout.rows, layout.names, readings)
            readings = self._count(layout, spiked, passed_s)
        self.events.step(ts, layout.rows, layout.names, readings)

    def skip(self, ts: float, interval_s: float) -> None:
        """Let time pass, see `Machine`."""
        self.events.skip(ts, interval_s)
        if self._spikes is not None:
            self._spikes.skip(ts, interval_s)

    def _count(self, layout: Layout, spiked: tuple[str, ...], passed_s: float) -> Vector:
        """Return the recent rate of spikes of each row, per second."""
        fading = math.exp(-passed_s / SPIKES_S)
        counts = {row: left for row, count in self._counts.items() if (left := count * fading) >= LEAST_SPIKES}
        for row in spiked:
            counts[row] = counts.get(row, 0.0) + 1.0
        there = {row: place for place, row in enumerate(layout.rows)} if counts else {}
        self._counts = {row: count for row, count in counts.items() if row in there}
        rates = np.zeros(len(layout.rows))
        for row, count in self._counts.items():
            rates[there[row]] = count / SPIKES_S
        return rates

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        state: dict[str, Any] = {"events": self.events.snapshot()}
        if self._smoothing.kind != "none":
            state["smoothing"] = {"kind": self._smoothing.kind, **self._smoothing.snapshot()}
        if self._spikes is not None:
            state["spikes"] = {
                "events": self._spikes.snapshot(),
                "rows": list(self._counts),
                "counts": np.array(list(self._counts.values()), np.float64),
            }
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self.events.restore(state["events"])
        # An average of another kind begins empty.
        if "smoothing" in state and state["smoothing"]["kind"] == self._smoothing.kind:
            self._smoothing.restore(state["smoothing"])
        if self._spikes is not None:
            spikes = state["spikes"]
            self._spikes.restore(spikes["events"])
            counts = np.array(spikes["counts"], np.float64)
            if counts.shape != (len(spikes["rows"]),):
                raise ValueError(f"counts: expected the shape ({len(spikes['rows'])},), got {counts.shape}")
            self._counts = dict(zip(spikes["rows"], counts.tolist(), strict=True))
