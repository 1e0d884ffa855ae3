"""Sub-blocks of the shortest scale: when a tick closes one, and the gaps in time that empty the windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from laggard.operators.lasting.state import SCALES, emptied
from laggard.operators.lasting.units import Pending

if TYPE_CHECKING:
    from laggard.operators.lasting.state import State

LARGEST_GAP_S, GAP_TICKS = 60.0, 3.0
"""A gap of more than a minute, and of more than 3 ticks, restarts the windows."""


def closes(ts: float, state: State) -> bool:
    """Return whether a tick is the last one of its sub-block. A value covers the time up to its tick."""
    step = ts - state.last_ts
    if not _is_gap(step, state):
        return ts - state.opened_ts >= SCALES[0].part_s - 0.5 * step
    return _restart_step(step, state) >= SCALES[0].part_s / 1.5


def _is_gap(step: float, state: State) -> bool:
    return not 0.0 < step <= max(LARGEST_GAP_S, GAP_TICKS * state.interval_s)


def _restart_step(step: float, state: State) -> float:
    """Return the time that the first tick after a gap covers."""
    return min(step, SCALES[0].part_s) if step > 0.0 else state.interval_s


def stepped(ts: float, state: State) -> State:
    """Return the state at a tick; after a gap its windows are empty."""
    step = ts - state.last_ts
    if not _is_gap(step, state):
        return replace(state, last_ts=ts, interval_s=step)
    opened_ts = ts - _restart_step(step, state)
    # Ticks that are further apart than a gap are one twice: then they are the usual ones.
    interval_s = step if step > 0.0 else state.interval_s
    evidence = tuple(emptied(each) for each in state.evidence)
    pending = Pending.none(*state.pending.total.shape)
    return replace(
        state, evidence=evidence, pending=pending, opened_ts=opened_ts, blocks=0, last_ts=ts, interval_s=interval_s
    )
