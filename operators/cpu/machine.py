"""S1's state machine: when use has been high for long enough to diagnose it, and when that is over."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]
    Indices = NDArray[np.intp]

LONGEST_READING_S: Final = 60.0
"""The longest time that a reading covers, in seconds. A later one covers the same time as the reading before: the rest
is unknown, as when the machine was suspended."""

SAME_S: Final = 1e-6
"""Times are compared to the microsecond: the resolution of a float is 0.24 us for times since the Unix epoch."""

DIP_READINGS: Final = 2
"""The shortest dip may make two successive readings low, if it falls on the boundary between them."""


class State(IntEnum):
    """The state of a row (S1, Fig. 3)."""

    NORMAL = 0
    HIGH = 1
    DIAGNOSIS = 2
    NORMAL_WAIT = 3


TRANSITIONS: Final = frozenset(
    {
        (State.NORMAL, State.HIGH),
        (State.HIGH, State.NORMAL),
        (State.HIGH, State.DIAGNOSIS),
        (State.DIAGNOSIS, State.NORMAL_WAIT),
        (State.NORMAL_WAIT, State.DIAGNOSIS),
        (State.NORMAL_WAIT, State.NORMAL),
    }
)
"""All transitions of the paper's text."""


# Access to the members of an enumeration is slow.
_NORMAL, _HIGH, _DIAGNOSIS, _WAITING = map(int, State)


class Transitions(NamedTuple):
    """The transitions of one step, in the order of rows.

    Attributes:
        rows: the places of the rows.
        before: the states before.
        after: the states after.
        lasted_s: the time for which the cause has certainly lasted up to this step, in seconds. The cause is high use
            for a transition to High or Diagnosis, and low use for the others.

    """

    rows: Indices
    before: NDArray[np.int8]
    after: NDArray[np.int8]
    lasted_s: Vector


NOTHING: Final = Transitions(np.zeros(0, np.intp), np.zeros(0, np.int8), np.zeros(0, np.int8), np.zeros(0))


class Machine:
    """The state machines of many rows.

    A step is one iteration of the paper's text with one reading per row: its mean use since the step before. A reading
    of at least `threshold` is high, any other one low. It makes at most one transition:

    - Normal to High: the reading is high.
    - High to Normal: the reading is low. High to Diagnosis: use has been high for at least `duration_s`.
    - Diagnosis to Normal-Wait: the reading is low.
    - Normal-Wait to Diagnosis: the reading is high; the timer is reset. Normal-Wait to Normal: use has been low for at
      least `duration_s`, and for more than `DIP_READINGS` readings: if the time between readings is close to
      `duration_s`, fewer do not show that.

    A reading covers the time since the step before. A high one means that use was high for nearly all of that time, so
    the timer for Diagnosis begins with the first such reading. A low one means only that use was low for a part of it,
    so the timer for Normal begins after it. Comparisons are exact for readings, and to the microsecond for times.

    A row without a reading (NaN or infinite) stays in its state, and its timer stops. After `duration_s` without one
    its readings count as low. No time passes when the clock steps back. When it leaps ahead by more than
    `LONGEST_READING_S`, as much time passes as at the step before.

    Reference: "S1", "Identifying Conditions of Interest", Fig. 3.

    Parameters:
        rows: the initial number of rows, all of them Normal.
        threshold: the least reading that is high, in the unit of the readings.
        duration_s: for how long use must be high, or low again, in seconds.

    Attributes:
        ts: the time of the last step, NaN before the first.
        interval_s: the time between the last two steps, in seconds; NaN before the second.
        states: one `State` per row, shape (rows,).

    Example:
        >>> machine = Machine(1, threshold=0.85, duration_s=5.0)
        >>> [int(machine.step(float(ts), [0.9]).after.sum()) for ts in range(7)]
        [1, 0, 0, 0, 0, 2, 0]

    """

    def __init__(self, rows: int = 0, *, threshold: float = 0.85, duration_s: float = 5.0) -> None:
        if not (math.isfinite(threshold) and threshold > 0.0):
            raise ValueError(f"threshold: expected a number above 0, got {threshold!r}")
        if not (math.isfinite(duration_s) and duration_s > 0.0):
            raise ValueError(f"duration_s: expected a time above 0, got {duration_s!r}")
        self.threshold = threshold
        self.duration_s = duration_s
        self.ts = self.interval_s = math.nan
        self.states: NDArray[np.int8] = np.zeros(rows, np.int8)
        self._lasted_s: Vector = np.zeros(rows)  # of the high use, or the low use in Normal-Wait; 0 in Normal
        self._silent_s: Vector = np.zeros(rows)  # without a reading; 0 in Normal
        self._lows: NDArray[np.int16] = np.zeros(rows, np.int16)  # successive low readings in Normal-Wait
        self._active = False

    def __len__(self) -> int:
        return len(self.states)

    @property
    def active(self) -> bool:
        """Whether any row is not Normal."""
        return self._active

    @property
    def lasted_s(self) -> Vector:
        """For how long use has been high, or low again in Normal-Wait, in seconds; 0 in Normal. Shape (rows,)."""
        return self._lasted_s

    def step(self, ts: float, values: ArrayLike) -> Transitions:
        """Evaluate all rows once.

        Args:
            ts: the end of the readings, in seconds.
            values: one reading per row, shape (rows,).

        Returns:
            The transitions.

        Raises:
            ValueError: the number of readings is not that of rows.

        """
        readings = np.asarray(values, np.float64)
        if readings.shape != self.states.shape:
            raise ValueError(f"expected readings of shape {self.states.shape}, got {readings.shape}")
        passed_s = self.passed_s(ts)
        self.interval_s, self.ts = ts - self.ts, ts
        high = readings >= self.threshold
        if not (self._active or high.any()):
            return NOTHING
        known = np.isfinite(readings)
        high &= known
        before = self.states
        waiting, promoted = before == _WAITING, before == _DIAGNOSIS
        risen, normal = before == _HIGH, before == _NORMAL
        self._silent_s = np.where(known | normal, 0.0, self._silent_s + passed_s)
        low = ~high & (known | (self._silent_s >= self.duration_s - SAME_S)) & ~normal
        self._lasted_s[(high | low) & ~normal] += passed_s
        self._lows[waiting & low] = np.minimum(self._lows[waiting & low], DIP_READINGS) + 1
        enough = self._lasted_s >= self.duration_s - SAME_S
        after = before.copy()
        after[normal & high] = _HIGH
        after[risen & low] = _NORMAL
        after[risen & high & enough] = _DIAGNOSIS
        after[promoted & low] = _WAITING
        after[waiting & high] = _DIAGNOSIS
        after[waiting & low & enough & (self._lows > DIP_READINGS)] = _NORMAL
        changed = np.flatnonzero(after != before)
        if changed.size:
            # The timers of the other transitions began before; those of these begin now.
            self._lasted_s[(normal | waiting) & high] = passed_s
            self._lasted_s[(risen | promoted) & low] = 0.0
            self._lows[promoted & low] = 1
            transitions = Transitions(changed, before[changed], after[changed], self._lasted_s[changed])
            over = after == _NORMAL
            self._lasted_s[over] = self._silent_s[over] = 0.0
            self._lows[over] = 0
            self.states = after
            self._active = not bool(over.all())
            return transitions
        return NOTHING

    def passed_s(self, ts: float) -> float:
        """Return the time that a reading covers that ends at `ts`, in seconds; 0 for the first."""
        passed_s = ts - self.ts
        if passed_s > LONGEST_READING_S:
            passed_s = min(LONGEST_READING_S, self.interval_s) if math.isfinite(self.interval_s) else LONGEST_READING_S
        return max(passed_s, 0.0) if math.isfinite(passed_s) else 0.0

    def copy(self) -> Machine:
        """Return another one in the same state."""
        other = object.__new__(Machine)
        other.threshold, other.duration_s = self.threshold, self.duration_s
        other.ts, other.interval_s = self.ts, self.interval_s
        other.states, other._active = self.states.copy(), self._active
        other._lasted_s, other._silent_s = self._lasted_s.copy(), self._silent_s.copy()
        other._lows = self._lows.copy()
        return other

    def align(self, source: Indices) -> None:
        """Replace the rows.

        Args:
            source: the present place of each new row, -1 for none; shape (new rows,).

        """
        known = source >= 0
        for name in ("states", "_lasted_s", "_silent_s", "_lows"):
            old = getattr(self, name)
            aligned = np.zeros(len(source), old.dtype)
            aligned[known] = old[source[known]]
            setattr(self, name, aligned)
        self._active = bool(self.states.any())

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "ts": self.ts,
            "interval_s": self.interval_s,
            "states": self.states.copy(),
            "lasted_s": self._lasted_s.copy(),
            "silent_s": self._silent_s.copy(),
            "lows": self._lows.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        states = np.array(state["states"], np.int8)
        if states.ndim != 1 or not np.isin(states, list(State)).all():
            raise ValueError(f"states: expected one of 0 to 3 per row, got {states.tolist()!r:.60}")
        found = {"lasted_s": np.float64, "silent_s": np.float64, "lows": np.int16}
        arrays = {name: np.array(state[name], kind) for name, kind in found.items()}
        for name, array in arrays.items():
            if array.shape != states.shape:
                raise ValueError(f"{name}: expected the shape {states.shape}, got {array.shape}")
        self.ts, self.interval_s, self.states = float(state["ts"]), float(state["interval_s"]), states
        self._lasted_s, self._silent_s, self._lows = arrays["lasted_s"], arrays["silent_s"], arrays["lows"]
        self._active = bool(states.any())
