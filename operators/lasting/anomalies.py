"""Anomalies of units: their onset, their subject, the units that are not learned meanwhile, and their end."""

from __future__ import annotations

import itertools
import math
import operator
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.operators.lasting.evidence import PARTS, Evidence, expected
from laggard.operators.lasting.state import LASTING_SHARE, SCALES, Anomaly, State, mean_of, places_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.lasting.quantities import Quantities
    from laggard.operators.lasting.units import Sums

    Matrix = NDArray[np.floating]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.intp]

BLOCKS: Final = tuple(itertools.accumulate((each.blocks for each in SCALES), operator.mul))
"""The number of the shortest sub-blocks in one of each scale."""

EXPLAINS: Final = 0.6
"""A row is reported instead of its name if it has this share of the excess."""


def anomaly_of(  # noqa: PLR0917 - the parts of an anomaly
    state: State, quantities: Quantities, number: int, unit: int, quantity: int, sums: Sums, layout: Layout,
    values: Matrix,
) -> Anomaly:  # fmt: skip
    """Return the anomaly of a quantity of a unit on a scale, as of the end of a sub-block."""
    units = state.units
    names = len(units.names)
    is_row = unit >= names
    name = units.names[int(sums.name_of[unit - names]) if is_row else unit]
    row = units.rows[unit - names] if is_row else name
    baseline = float(state.evidence[number].mean[quantity, unit])
    parts = state.evidence[number].ring[:, quantity, unit]
    _, third, second, highest = (np.sort(parts) - baseline).tolist()
    # Only the last two sub-blocks are high: the fault may fill only a part of the first one.
    brief = number == 0 and third < LASTING_SHARE * second
    # Otherwise the second-highest: neither a burst nor a sub-block that the fault fills only in part.
    excess = 0.5 * (second + highest) if brief else second
    places = sums.places[unit] if unit < units.present else [layout.rows.index(row)] if is_row else []
    level = quantities.levels[quantities.level(quantity)]
    amounts = np.zeros(len(places))
    if level in layout.features:
        amounts = np.nan_to_num(values[list(places), layout.features.index(level)])
    if unit < units.present:
        row = layout.rows[places[int(amounts.argmax())]]
    # It may be a burst that has ended. The growth at a single tick does not show that.
    ended = brief and quantity < len(quantities.levels) and float(amounts.sum()) - baseline < LASTING_SHARE * excess
    calm = np.flatnonzero(~(parts[::-1] - baseline >= LASTING_SHARE * (highest if brief else excess)))
    part_s = BLOCKS[number] * max(SCALES[0].part_s, state.interval_s)
    return Anomaly(
        unit=row if is_row else name,
        is_row=is_row,
        row=row,
        name=name,
        quantity=quantity,
        scale=number,
        opened_ts=state.last_ts,
        onset_ts=state.last_ts - part_s * float(calm[0] if calm.size else PARTS),
        excess=excess,
        baseline=baseline,
        now=baseline + excess,
        calm_since=state.last_ts if ended else math.nan,
    )


def released(
    state: State, anomaly: Anomaly, place: int, levels: Sequence[Matrix | None], *, known: bool = False
) -> tuple[Evidence, ...]:
    """Return the evidence after an anomaly has ended, see `Evidence.released`."""
    # Scales whose window is longer than the anomaly have not measured it: they get the expected peak of a recurrence.
    # Peaks that are known to be usual count for any duration.
    ended_ts = state.last_ts if math.isnan(anomaly.calm_since) else anomaly.calm_since
    high_s, peak = ended_ts - anomaly.onset_ts + SCALES[0].part_s, state.evidence[0].peak[:, place].copy()
    lasted_s = state.last_ts - anomaly.onset_ts
    found = []
    for each, scale, level in zip(state.evidence, SCALES, levels, strict=True):
        own = None if lasted_s >= scale.window_s else peak if known else expected(scale, peak, high_s)
        found.append(each.released(place, level, own, known=known))
    return tuple(found)


def levels_of(rings: Sequence[Matrix], lasted_s: float) -> Sequence[Matrix]:
    """Return the mean of the window of each scale that an anomaly has filled, otherwise of the next shorter."""
    levels = [mean_of(rings[0])]
    for scale, ring in zip(SCALES[1:], rings[1:], strict=True):
        own = mean_of(ring)
        levels.append(np.where(np.isfinite(own) & (lasted_s >= scale.window_s), own, levels[-1]))
    return levels


def frozen_units(state: State, sums: Sums) -> Flags | None:
    """Return the units that are not learned: those with an anomaly, the rows of such a name, the name of such a row.

    None if there are none.
    """
    if not state.anomalies:
        return None
    names = len(state.units.names)
    frozen = np.zeros(len(state.units), bool)
    places = places_of(state)
    frozen[[places[each.unit, each.is_row] for each in state.anomalies]] = True
    of_names, of_rows = frozen[:names].copy(), frozen[names:].copy()
    np.logical_or.at(frozen, sums.name_of, of_rows)
    frozen[names:] |= of_names[sums.name_of]
    return frozen


def subjects_of(beyond: Places, best: Places, excess: Matrix, sums: Sums, names: int) -> list[tuple[int, int]]:
    """Choose the units to report: of a name and its rows, the row that explains the excess, otherwise the name."""
    quantity_of: dict[int, int] = {}
    for unit in beyond.tolist():
        name = unit if unit < names else int(sums.name_of[unit - names])
        quantity_of.setdefault(name, int(best[unit]))
    subjects = []
    for name, quantity in quantity_of.items():
        rows = names + np.flatnonzero(sums.name_of == name)
        unit = name
        if rows.size:
            first = int(rows[excess[quantity, rows].argmax()])
            if excess[quantity, first] >= EXPLAINS * excess[quantity, name]:
                unit = first
        if excess[quantity, unit] > 0.0:
            subjects.append((unit, quantity))
    return subjects
