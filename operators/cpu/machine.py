"""S1's state machine: when use is high for long enough to be looked into, and when that is over."""

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
"""A reading tells of at most so long. One that comes later than that after the one before tells of no longer than that
one did: of what was in between nobody knows, such as where the machine was suspended."""

SAME_S: Final = 1e-6
"""Times are compared to the microsecond: a float has a quarter of one since the Unix epoch."""

DIP_READINGS: Final = 2
"""Two readings in a row may be low for a dip that is as short as can be, across the moment between them."""


class State(IntEnum):
    """Where a row is (S1, Fig. 3)."""

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
"""Those of the text; there is no other."""


# An enumeration's members take long to look up.
_NORMAL, _HIGH, _DIAGNOSIS, _WAITING = map(int, State)


class Transitions(NamedTuple):
    """The rows that changed their state at a step, in the order of rows.

    Attributes:
        rows: which, by their places.
        before: the states that they were in.
        after: ... and are in now.
        lasted_s: how long what made them change has lasted for sure, up to this step, in seconds: the stretch of high
            use for what becomes High or Diagnosis, of low use for the others.

    """

    rows: Indices
    before: NDArray[np.int8]
    after: NDArray[np.int8]
    lasted_s: Vector


NOTHING: Final = Transitions(np.zeros(0, np.intp), np.zeros(0, np.int8), np.zeros(0, np.int8), np.zeros(0))


class Machine:
    """The states of many rows, each with a machine of its own.

    A step is one iteration of the text, with a reading for each row: its mean use since the step before. A reading is
    high where it is `threshold` or greater, else low, and makes at most one transition:

    - Normal to High: the reading is high.
    - High to Normal: the reading is low. To Diagnosis: use has been high for `duration_s` or longer.
    - Diagnosis to Normal-Wait: the reading is low.
    - Normal-Wait to Diagnosis: the reading is high; the timer begins anew. To Normal: use has been low for `duration_s`
      or longer, and for more than `DIP_READINGS` readings: where these are about as far apart as `duration_s`, fewer
      do not tell that it was low for so long.

    A reading is of the time since the step before. One that is high tells that use was high for nearly all of it, so
    that the timer of a promotion begins with the first such reading; one that is low, only that it was so for a part,
    so that the timer of the end begins behind it. A return to high use comes before that has expired: it had not at the
    step before. Comparisons are exact for readings, to the microsecond for times.

    Where a row has no reading (NaN or infinite), it stays in its state and its timer stands still; after `duration_s`
    without any its readings count as low. A clock that steps back lets no time pass, and one that leaps ahead by more
    than `LONGEST_READING_S` no more than at the step before.

    Reference: "S1", "Identifying Conditions of Interest", Fig. 3.

    Parameters:
        rows: how many there are at first, all of them Normal.
        threshold: the least reading that is high, in the unit of the readings.
        duration_s: how long use has to be high, or low again, in seconds.

    Attributes:
        ts: the time of the last step, NaN before the first.
        interval_s: the time from the step before to the last one, in seconds; NaN before the second.
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
        self._lasted_s: Vector = np.zeros(rows)  # of what has been high, or low, since; 0 for what is Normal
        self._silent_s: Vector = np.zeros(rows)  # without a reading; 0 for what is Normal
        self._lows: NDArray[np.int16] = np.zeros(rows, np.int16)  # readings in a row, of what is in Normal-Wait
        self._active = False

    def __len__(self) -> int:
        return len(self.states)

    @property
    def active(self) -> bool:
        """Whether any row is not Normal."""
        return self._active

    @property
    def lasted_s(self) -> Vector:
        """How long each row's use has been high, or low again in Normal-Wait, in seconds; 0 for what is Normal."""
        return self._lasted_s

    def step(self, ts: float, values: ArrayLike) -> Transitions:
        """Evaluate all rows once.

        Args:
            ts: when the readings end, in seconds.
            values: one reading per row, shape (rows,).

        Returns:
            What changed.

        Raises:
            ValueError: there are more readings than rows, or fewer.

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
            # Who is promoted, or ends, does so by what began before; all else begins now.
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
        """How long a reading that ends at `ts` tells of, in seconds; 0 for the first."""
        passed_s = ts - self.ts
        if passed_s > LONGEST_READING_S:
            passed_s = min(LONGEST_READING_S, self.interval_s) if math.isfinite(self.interval_s) else LONGEST_READING_S
        return max(passed_s, 0.0) if math.isfinite(passed_s) else 0.0

    def copy(self) -> Machine:
        """Another one in the same state."""
        other = object.__new__(Machine)
        other.threshold, other.duration_s = self.threshold, self.duration_s
        other.ts, other.interval_s = self.ts, self.interval_s
        other.states, other._active = self.states.copy(), self._active
        other._lasted_s, other._silent_s = self._lasted_s.copy(), self._silent_s.copy()
        other._lows = self._lows.copy()
        return other

    def align(self, source: Indices) -> None:
        """Let other rows take the places.

        Args:
            source: for each row to come the place that it has now, -1 for one that is new. Shape (rows to come,).

        """
        known = source >= 0
        for name in ("states", "_lasted_s", "_silent_s", "_lows"):
            old = getattr(self, name)
            aligned = np.zeros(len(source), old.dtype)
            aligned[known] = old[source[known]]
            setattr(self, name, aligned)
        self._active = bool(self.states.any())

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "ts": self.ts,
            "interval_s": self.interval_s,
            "states": self.states.copy(),
            "lasted_s": self._lasted_s.copy(),
            "silent_s": self._silent_s.copy(),
            "lows": self._lows.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
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
