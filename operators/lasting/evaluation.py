"""The evaluation of units at the end of a sub-block: z of each, and the anomalies that begin, see `Lasting`."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import numpy as np

from laggard.operators.lasting.anomalies import BLOCKS, anomaly_of, frozen_units, subjects_of
from laggard.operators.lasting.evidence import RECORD_S, raised
from laggard.operators.lasting.limits import UNITS, new_units, worst_of
from laggard.operators.lasting.state import NOTICED, SCALES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.lasting.evidence import Evidence
    from laggard.operators.lasting.quantities import Quantities
    from laggard.operators.lasting.state import Anomaly, State
    from laggard.operators.lasting.units import Sums

    Matrix = NDArray[np.floating]
    Places = NDArray[np.intp]

_T = TypeVar("_T")

MOST_OPEN: Final = 32
"""The most anomalies that are open at a time. The worst are opened first."""


class Evaluation:
    """Evaluates names that use nothing while they are absent.

    Parameters:
        quantities: the quantities of each unit.

    """

    absent_is_nothing: ClassVar[bool] = True
    """Whether an absent name uses nothing. Otherwise its values are unknown, and it is forgotten."""

    def __init__(self, quantities: Quantities) -> None:
        self.quantities = quantities
        self._cpu = [place for place, level in enumerate(quantities.levels) if level.startswith("cpu_")]

    def turn(self, state: State, sums: Sums, layout: Layout, values: Matrix, per_day: float) -> None:
        """Close the sub-blocks that are full, and evaluate them.

        Args:
            state: the state after a sub-block of the shortest scale; it is changed.
            sums: the rows of each unit.
            layout: the names of the frame.
            values: its values, shape (rows, features).
            per_day: the false-alarm budget.

        """
        for number in range(len(SCALES)):
            if number:
                below = state.evidence[number - 1].last
                known = np.isfinite(below)
                _put(state, number, state.evidence[number].taking(np.where(known, below, 0.0), known))
                if state.blocks % BLOCKS[number]:
                    break
            self._evaluate(state, number, sums, layout, values, per_day=per_day)

    def _evaluate(
        self, state: State, number: int, sums: Sums, layout: Layout, values: Matrix, *, per_day: float
    ) -> None:
        """Close the sub-block of one scale, and open the anomalies that pass its limit."""
        scale, quantities, units = SCALES[number], self.quantities, state.units
        names = len(units.names)
        learned = None if (frozen := frozen_units(state, sums)) is None else ~frozen
        evidence = state.evidence[number].turned(scale, quantities, learned)
        excess = evidence.excess(last_two=number == 0 and self.pace(state) == 1.0)
        new = new_units(state, absent_is_nothing=self.absent_is_nothing)
        # Growth counts only above the baseline.
        growing = excess[len(quantities.levels) :]
        growing *= excess[quantities.stocks] > evidence.deviation[quantities.stocks]
        growing[:, new] = 0.0
        (fresh,) = np.nonzero(new[:names])
        ended = evidence.peak[:, fresh]
        evidence, over = evidence.noting(excess, learned)
        ended[~over[:, fresh]] = 0.0
        highest, second = state.newcomers[number] * math.exp(-scale.part_s / RECORD_S)
        for peak in ended.T[ended.any(axis=0)]:
            highest, second = raised(highest, second, peak)
        newcomers = state.newcomers.copy()
        newcomers[number] = highest, second
        _put(state, number, evidence)
        state.newcomers = newcomers
        worst, best = worst_of(
            state,
            number,
            excess,
            learned,
            new,
            cpu=self._cpu,
            pace=self.pace(state),
            sharing=self.sharing(state) / per_day,
            resolution=self.resolution(evidence.mean),
        )
        share = float(worst.max(initial=0.0))
        state.near = _changed(state.near, number, share if share > NOTICED else 0.0)
        state.nearest = _changed(state.nearest, number, None)
        if state.near[number] > NOTICED:
            subjects = partial(subjects_of, best=best, excess=excess, sums=sums, names=names)
            self._report(
                state,
                number,
                worst,
                subjects,
                lambda unit, quantity: anomaly_of(state, quantities, number, unit, quantity, sums, layout, values),
            )

    def _report(
        self,
        state: State,
        number: int,
        worst: Matrix,
        subjects: Callable[[Places], list[tuple[int, int]]],
        make: Callable[[int, int], Anomaly],
    ) -> None:
        """Open the anomalies that pass the limit of a scale and last, or note the unit that is nearest to it."""
        if state.near[number] <= 1.0:
            nearest = [make(*each) for each in subjects(np.array([worst.argmax()]))]
            state.nearest = _changed(state.nearest, number, next(iter(nearest), None))
            return
        beyond = np.flatnonzero(worst > 1.0)
        beyond = beyond[np.argsort(-worst[beyond], kind="stable")]
        most = max(MOST_OPEN - len(state.anomalies), 0)
        found = (make(*each) for each in subjects(beyond))
        state.anomalies += tuple(each for each in found if math.isnan(each.calm_since))[:most]

    def pace(self, state: State) -> float:  # noqa: ARG002 - others need it
        """Return how many times longer than a sub-block a tick is; 1 to ignore that."""
        return 1.0

    def sharing(self, state: State) -> float:
        """Return b times the budget."""
        return max((state.units.present + len(state.units.rows)) / UNITS, 1.0)

    def resolution(self, mean: Matrix) -> Matrix:  # noqa: ARG002 - others need it
        """Return r, of a shape like (quantities, units)."""
        return self.quantities.resolution


def _put(state: State, number: int, evidence: Evidence) -> None:
    state.evidence = _changed(state.evidence, number, evidence)


def _changed(every: tuple[_T, ...], number: int, one: _T) -> tuple[_T, ...]:
    return (*every[:number], one, *every[number + 1 :])
