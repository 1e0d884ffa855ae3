"""The events of one condition: their rows, their begins and their phases."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.operators.cpu.machine import Machine, State
from laggard.operators.ranking import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

MOST_PHASES: Final = 16
"""The most phases of an event. The first ones are merged into one, which has the number of their dips."""


class Open(NamedTuple):
    """A phase that may go on.

    Attributes:
        high: whether it is high use.
        begin_ts: seconds since the Unix epoch.
        end_ts: the end of its last reading, likewise.
        known_s: the time that its readings cover, in seconds.
        sum_s: the integral of its readings over that time.
        dips: see `Phase`.

    """

    high: bool
    begin_ts: float
    end_ts: float
    known_s: float
    sum_s: float
    dips: int = 0

    def phase(self) -> Phase:
        """Return the phase for a ranking."""
        mean = self.sum_s / self.known_s if self.known_s > 0.0 else math.nan
        return Phase(self.high, self.begin_ts, self.end_ts, mean, self.dips)


class Event(NamedTuple):
    """The event of one row; immutable.

    Attributes:
        name: the name of the row.
        state: the state of its machine. In the state `HIGH` it is not yet an event.
        lasted_s: see `Machine.lasted_s`.
        value: the newest reading, NaN for none.
        seen_ts: the time of the row's last frame, seconds since the Unix epoch.
        phases: its phases in the order of time; the last one may go on.

    """

    name: str
    state: State
    lasted_s: float
    value: float
    seen_ts: float
    phases: tuple[Open, ...]

    @property
    def begin_ts(self) -> float:
        """The time since when use has been high."""
        return self.phases[0].begin_ts

    @property
    def mean(self) -> float:
        """The mean reading of the phases of high use; the newest reading if they cover no time."""
        known_s = sum(each.known_s for each in self.phases if each.high)
        total = sum(each.sum_s for each in self.phases if each.high)
        return total / known_s if known_s > 0.0 else self.value


class Events:
    """S1's machines of the rows of frames, and their events.

    An absent row uses nothing: its readings are low until its event has ended.

    Memory: 19 bytes per row, and about 3 kB for each row in an event with `MOST_PHASES` phases.

    Parameters:
        threshold: see `Machine`.
        duration_s: see `Machine`.

    Attributes:
        open: the events by the ids of rows, including those in the state `HIGH`.

    """

    def __init__(self, threshold: float, duration_s: float) -> None:
        self.threshold = threshold
        self.duration_s = duration_s
        self.open: dict[str, Event] = {}
        self._machine = Machine(threshold=threshold, duration_s=duration_s)
        self._rows: Sequence[str] = ()  # of the machine: those of the frame, then absent ones

    def copy(self) -> Events:
        """Return another one in the same state."""
        other = object.__new__(Events)
        other.threshold, other.duration_s = self.threshold, self.duration_s
        other.open, other._machine, other._rows = dict(self.open), self._machine.copy(), self._rows
        return other

    def passed_s(self, ts: float) -> float:
        """Return the time that a reading covers that ends at `ts`, in seconds."""
        return self._machine.passed_s(ts)

    def step(self, ts: float, rows: Sequence[str], names: Sequence[str], readings: Vector) -> tuple[str, ...]:
        """Evaluate one reading per row.

        Args:
            ts: the end of the readings, seconds since the Unix epoch.
            rows: the ids of the rows; the same object if they have not changed.
            names: their names.
            readings: the readings, NaN for none, shape (rows,).

        Returns:
            The ids of rows whose high use has ended and was too short for an event.

        """
        if self._rows is not rows:
            rows = self._align(rows)
        gone = len(rows) - len(readings)
        if gone:
            readings = np.concatenate([readings, np.zeros(gone)])
        machine = self._machine
        passed_s = machine.passed_s(ts)
        changed = machine.step(ts, readings)
        if not (machine.active or changed.rows.size):
            return ()
        spikes = []
        for place, before, after, lasted_s in zip(*(each.tolist() for each in changed), strict=True):
            row, begin_ts = rows[place], ts - passed_s
            if before == State.NORMAL:
                phases: tuple[Open, ...] = (Open(True, begin_ts, begin_ts, 0.0, 0.0),)
                self.open[row] = Event(names[place], State.HIGH, lasted_s, math.nan, ts, phases)
            elif after == State.NORMAL:
                del self.open[row]
                if before == State.HIGH:
                    spikes.append(row)
            elif (before, after) != (State.HIGH, State.DIAGNOSIS):
                event = self.open[row]
                begin_ts = max(begin_ts, event.phases[-1].end_ts)  # the clock may have stepped back
                begins = Open(after == State.DIAGNOSIS, begin_ts, begin_ts, 0.0, 0.0)
                self.open[row] = event._replace(phases=_bounded((*event.phases, begins)))
        present = len(names)
        for place in np.flatnonzero(machine.states).tolist():
            event, reading = self.open[rows[place]], float(readings[place])
            *before_it, last = event.phases
            if math.isfinite(reading):
                last = last._replace(known_s=last.known_s + passed_s, sum_s=last.sum_s + passed_s * reading)
            self.open[rows[place]] = event._replace(
                state=State(machine.states[place]),
                lasted_s=float(machine.lasted_s[place]),
                value=reading,
                seen_ts=ts if place < present else event.seen_ts,
                phases=(*before_it, last._replace(end_ts=max(ts, last.begin_ts))),
            )
        return tuple(spikes)

    def skip(self, ts: float, interval_s: float) -> None:
        """Let time pass without readings while there is no event, see `Machine`."""
        self._machine.ts, self._machine.interval_s = ts, interval_s

    def _align(self, rows: Sequence[str]) -> Sequence[str]:
        """Give the machine these rows, and the absent ones with an event."""
        there = set(rows) if self.open else set()
        gone = [row for row in self.open if row not in there]
        source = np.full(len(rows) + len(gone), -1, np.intp)
        all_rows = (*rows, *gone) if gone else rows
        if self.open:
            places = {row: place for place, row in enumerate(self._rows) if row in self.open}
            source[:] = [places.get(row, -1) for row in all_rows]
        self._machine.align(source)
        self._rows = all_rows
        return all_rows

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data. Only rows in an event have a state."""
        machine = self._machine.copy()
        places = {row: place for place, row in enumerate(self._rows) if row in self.open}
        machine.align(np.array([places[row] for row in self.open], np.intp))
        return {
            "rows": list(self.open),
            "names": [event.name for event in self.open.values()],
            "values": np.array([[event.value, event.seen_ts] for event in self.open.values()]).reshape(-1, 2),
            "phases": [[list(each) for each in event.phases] for event in self.open.values()],
            "machine": machine.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        rows, names, phases = list(state["rows"]), list(state["names"]), list(state["phases"])
        values = np.array(state["values"], np.float64)
        if len(names) != len(rows):
            raise ValueError(f"names: expected one per row, {len(rows)}, got {len(names)}")
        if values.shape != (len(rows), 2):
            raise ValueError(f"values: expected the shape {(len(rows), 2)}, got {values.shape}")
        if len(phases) != len(rows) or not all(phases):
            raise ValueError(f"phases: expected some for each of {len(rows)} rows, got {len(phases)}")
        machine = Machine(threshold=self.threshold, duration_s=self.duration_s)
        machine.restore(state["machine"])
        if len(machine) != len(rows) or not machine.states.all():
            raise ValueError(f"states: expected one above 0 per row, {len(rows)}, got {machine.states.tolist()!r:.60}")
        self._machine, self._rows = machine, tuple(rows)
        self.open = {
            row: Event(
                names[place],
                State(machine.states[place]),
                float(machine.lasted_s[place]),
                float(values[place, 0]),
                float(values[place, 1]),
                tuple(map(_restored, phases[place])),
            )
            for place, row in enumerate(rows)
        }


def _bounded(phases: tuple[Open, ...]) -> tuple[Open, ...]:
    """Merge the first two phases of high use with the dip between them, if there are more than `MOST_PHASES`."""
    if len(phases) <= MOST_PHASES:
        return phases
    first, _, second, *others = phases
    joined = first._replace(
        end_ts=second.end_ts,
        known_s=first.known_s + second.known_s,
        sum_s=first.sum_s + second.sum_s,
        dips=first.dips + 1,
    )
    return (joined, *others)


def _restored(state: Sequence[Any]) -> Open:
    high, begin_ts, end_ts, known_s, sum_s, dips = state
    return Open(bool(high), float(begin_ts), float(end_ts), float(known_s), float(sum_s), int(dips))
