"""The events of one condition: which rows are in one, since when, and its phases."""

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
"""An event keeps so many at most; of more, the first ones become one, which says how many dips it had."""


class Open(NamedTuple):
    """A phase that may go on.

    Attributes:
        high: whether it is high use.
        begin_ts: seconds since the Unix epoch.
        end_ts: the end of the last reading in it.
        known_s: how long there were readings, in seconds.
        sum_s: the integral of the readings over that time.
        dips: see `Phase`.

    """

    high: bool
    begin_ts: float
    end_ts: float
    known_s: float
    sum_s: float
    dips: int = 0

    def told(self) -> Phase:
        """As a ranking has it."""
        mean = self.sum_s / self.known_s if self.known_s > 0.0 else math.nan
        return Phase(self.high, self.begin_ts, self.end_ts, mean, self.dips)


class Event(NamedTuple):
    """What goes on in one row. Nobody changes it once it is made.

    Attributes:
        name: the row's.
        state: the machine's; an event that is `HIGH` may come to nothing.
        lasted_s: see `Machine.lasted_s`.
        value: the newest reading, NaN where there is none.
        seen_ts: when the row was last in a frame.
        phases: in the order of time; what lasts is the last.

    """

    name: str
    state: State
    lasted_s: float
    value: float
    seen_ts: float
    phases: tuple[Open, ...]

    @property
    def begin_ts(self) -> float:
        """Since when use has been high."""
        return self.phases[0].begin_ts

    @property
    def mean(self) -> float:
        """Of the readings in stretches of high use; the newest where none tells of any time."""
        known_s = sum(each.known_s for each in self.phases if each.high)
        total = sum(each.sum_s for each in self.phases if each.high)
        return total / known_s if known_s > 0.0 else self.value


class Events:
    """S1's machine on the rows of frames, and the events that come of it.

    A row that is not in the frame any more uses nothing: its readings are low until its event has ended.

    Memory: 19 bytes per row, and about 3 kB for each row that is in an event, with `MOST_PHASES` phases.

    Parameters:
        threshold: see `Machine`.
        duration_s: see `Machine`.

    Attributes:
        open: by row id, the events; also those that are `HIGH`.

    """

    def __init__(self, threshold: float, duration_s: float) -> None:
        self.threshold = threshold
        self.duration_s = duration_s
        self.open: dict[str, Event] = {}
        self._machine = Machine(threshold=threshold, duration_s=duration_s)
        self._rows: Sequence[str] = ()  # of the machine: the frame's, then those that have gone

    def copy(self) -> Events:
        """Another one in the same state."""
        other = object.__new__(Events)
        other.threshold, other.duration_s = self.threshold, self.duration_s
        other.open, other._machine, other._rows = dict(self.open), self._machine.copy(), self._rows
        return other

    def passed_s(self, ts: float) -> float:
        """How long a reading that ends at `ts` tells of, in seconds."""
        return self._machine.passed_s(ts)

    def step(self, ts: float, rows: Sequence[str], names: Sequence[str], readings: Vector) -> tuple[str, ...]:
        """Take in one reading per row.

        Args:
            ts: when the readings end, seconds since the Unix epoch.
            rows: their ids; the same object where they have not changed.
            names: their names.
            readings: NaN where there is none, shape (rows,).

        Returns:
            The ids of rows whose use was high for too short a time to be an event, and is not any more.

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
        """Let time pass without readings, while there is no event: see `Machine`."""
        self._machine.ts, self._machine.interval_s = ts, interval_s

    def _align(self, rows: Sequence[str]) -> Sequence[str]:
        """Let the machine have these rows, and those of events that are not among them."""
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
        """A copy of the state as plain data: of rows that are in an event, for the others have none."""
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
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
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
    """At most `MOST_PHASES`: the first stretch of high use, the dip behind it and the next stretch become one."""
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


def _restored(told: Sequence[Any]) -> Open:
    high, begin_ts, end_ts, known_s, sum_s, dips = told
    return Open(bool(high), float(begin_ts), float(end_ts), float(known_s), float(sum_s), int(dips))
