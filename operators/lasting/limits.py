"""The share of its limit that each unit reaches: z, see `Lasting`.

The limit follows from the budget, the number of units that share it, and the age of each unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.lasting.evidence import RECORDED, recorded
from laggard.operators.lasting.state import BUDGET_POWER, NOTICED, SCALES, YOUNG_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.lasting.state import State

    Matrix = NDArray[np.floating]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.intp]

UNITS: Final = 100.0
"""The number of units up to which the limits hold. More units share the same budget, and have higher limits."""

FLOOR_POWER: Final = 0.25
"""r grows less with the number of units: the tail is that of what they do."""

NEW_FLOOR: Final = 3.0
"""r of a new name is this many times larger: a program that starts uses and holds something at once."""

LEAST_AGE_S: Final = 60.0

NEW_S: Final = 900.0
"""For this long after a row joins a name, the record of other new names holds for it too, and its growth is ignored."""

ALMOST: Final = 0.999
"""The share of the level of notices from which a score is evaluated exactly: single precision errs by less."""


def new_units(state: State, *, absent_is_nothing: bool) -> Flags:
    """Return which units are new: joined by a row within `NEW_S`, or names that have not settled."""
    units = state.units
    new: Flags = state.last_ts - units.joined_ts < NEW_S
    if absent_is_nothing:
        new[: len(units.names)] |= units.unsettled()
    return new


def worst_of(
    state: State,
    number: int,
    excess: Matrix,
    learned: Flags | None,
    new: Flags,
    *,
    cpu: list[int],
    pace: float,
    sharing: float,
    resolution: Matrix,
) -> tuple[Matrix, Places]:
    """Return z of the worst quantity of each unit as a share of the limit, and which one that is.

    0 where it is not suspicious, as most are not.

    Args:
        state: the state with the evidence of the scale.
        number: the scale.
        excess: e of each quantity of each unit.
        learned: the units that are learned; None if all are.
        new: the units that are new.
        cpu: the quantities that are CPU.
        pace: how many times longer than a sub-block a tick is, at least 1.
        sharing: b.
        resolution: r, of a shape like (quantities, units).

    """
    scale, units, evidence = SCALES[number], state.units, state.evidence[number]
    names = len(units.names)
    floor = np.float32(3.0 * sharing**FLOOR_POWER) * resolution
    worst, best = np.zeros(len(units), np.float32), np.zeros(len(units), np.intp)
    suspicious = np.float32(ALMOST * NOTICED * scale.limit)
    if not (excess > suspicious * floor).any():
        return worst, best
    record = recorded(evidence.highest, evidence.second)
    (fresh,) = np.nonzero(new[:names])
    others = recorded(*state.newcomers[number])
    others[cpu] = 0.0
    record[:, fresh] = np.maximum(record[:, fresh], others[:, None])
    record *= np.float32(RECORDED)
    record += evidence.deviation
    record *= np.float32(sharing**BUDGET_POWER)
    record += floor
    record[:, fresh] += np.float32(NEW_FLOOR - 1.0) * np.broadcast_to(floor, excess.shape)[:, fresh]
    some = excess > suspicious * record  # youth makes z only smaller
    if learned is not None:
        some &= learned
    near = np.flatnonzero(some.any(axis=0))
    if not near.size:
        return worst, best
    # The past of a name is known since the first tick until it settles, that of a row since it came.
    absent = (near < names) & np.isfinite(units.joined_ts[near])
    since = np.where(absent, state.begin_ts, np.maximum(units.first_ts[near], state.begin_ts))
    young = 1.0 + YOUNG_S * pace / np.maximum(state.last_ts - since, LEAST_AGE_S)
    record = record[:, near] * young.astype(np.float32)
    z = np.divide(excess[:, near], record, out=record)
    best[near] = z.argmax(axis=0)
    worst[near] = z.max(axis=0) / scale.limit
    return worst, best
