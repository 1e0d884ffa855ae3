"""Lasting anomalies: programs that use or hold more than they ever did, for a minute, 5 minutes or half an hour."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from laggard.operators.contract import check_shape
from laggard.operators.lasting.anomalies import frozen_units, levels_of, released
from laggard.operators.lasting.blocks import closes, stepped
from laggard.operators.lasting.evaluation import Evaluation
from laggard.operators.lasting.evidence import Evidence
from laggard.operators.lasting.limits import NEW_S
from laggard.operators.lasting.quantities import RATES, STOCKS, Quantities
from laggard.operators.lasting.scores import Scores
from laggard.operators.lasting.state import SCALES, State, places_of, still_there
from laggard.operators.lasting.units import SPARE_NAMES, Columns, Pending, Sums, Units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout

    Matrix = NDArray[np.floating]

CALM_S: Final = 300.0
"""An anomaly ends after it has been calm for this long."""


class Lasting:
    """Detector of lasting anomalies.

    A unit is a name with all its rows together, or one row of a name that has several. Each unit is compared with its
    own baseline from before the window, and with its own record of peaks: a unit that has peaked as high before is
    normal. From the onset of an anomaly until its end, or for `accepted_after_s`, nothing is learned about the unit. So
    the baseline stays that from before the onset.

    For each scale W of `SCALES`, in sub-blocks of W / 4:

        S = the level that three of the last four sub-blocks reach; on the shortest scale, or the last two
        m, d = exponentially weighted mean and mean absolute deviation of the sub-blocks before these
        e = max(S - m, 0)
        P = max(P2, P1 / 2)                               P1, P2: the highest peaks of past episodes of e
        z = e / ((b^(1/2) (d + P / 5) + 3 b^(1/4) r) (1 + Y / age))

    with r a negligible difference, and b the number of units in hundreds, at least 1, over the budget per day.

    An anomaly begins when z passes the limit of its scale. Its score, which is the frame's, is above 1 while the excess
    of the newest sub-block is at least `LASTING_SHARE` of that at the onset. The anomaly ends after `CALM_S` without
    that. Without an anomaly the score is z as a share of the limit, or 0 if not more than `NOTICED`, from which on it
    is suspicious. The peaks of an anomaly enter the record when it comes again, on all scales: work that recurs is
    normal the third time.

    An absent name uses nothing. So a program that runs for the first time has a baseline of 0. While it is new, r is
    three times as large, and P is also that of other new names, except for CPU: a full core is a full core. After
    `NEW_S` without an anomaly its own level is its baseline.

    Memory: 60 L + 132 Q bytes per unit and 8 L per row, with L levels and Q quantities (levels and the growth of
    stocks). With the default features that is 3 kB per process. Units are the names of the frame, the rows of names
    that have several, and at most `SPARE_NAMES` absent names.

    References: windows together with exponentially weighted means are those of control charts, Montgomery
    (2009), "Introduction to statistical quality control", chapter 9. The record of peaks is laggard's own.

    Parameters:
        rates: features that show what a row uses, with r of each.
        stocks: features that show what a row holds, with r of each and of its growth per second.
        false_alarms_per_day: the budget of this stream.
        accepted_after_s: an anomaly of this length becomes the new baseline.

    Attributes:
        false_alarms_per_day: the budget; it may change at any time.

    Example:
        >>> from types import SimpleNamespace
        >>> names = {"rows": ("a[1]", "b[2]"), "names": ("a", "b"), "features": ("cpu_user_ratio",)}
        >>> layout, noise = SimpleNamespace(**names, commands=()), np.random.default_rng(1)
        >>> lasting = Lasting()
        >>> for tick in range(8000):
        ...     busy = noise.normal([[0.2], [0.1]], 0.01) + [[0.0], [0.8 * (tick >= 7980)]]
        ...     lasting.learn(5.0 * tick, layout, busy)
        >>> worst = lasting.score(40_000.0, layout, busy).ranking(1, 1).rows[0]
        >>> worst.row, round(worst.features[0].mean, 1), worst.score > 1.0
        ('b[2]', 0.1, True)

    """

    state_version: ClassVar[int] = 1

    evaluation: ClassVar[type[Evaluation]] = Evaluation
    """How units are evaluated."""

    def __init__(
        self,
        *,
        rates: Mapping[str, float] = RATES,
        stocks: Mapping[str, tuple[float, float]] = STOCKS,
        false_alarms_per_day: float = 1.0,
        accepted_after_s: float = 4 * 3600.0,
    ) -> None:
        if not false_alarms_per_day > 0.0:
            raise ValueError(f"false_alarms_per_day: expected a number above 0, got {false_alarms_per_day!r}")
        self.quantities = Quantities(dict(rates), dict(stocks))
        if not accepted_after_s > 0.0:
            raise ValueError(f"accepted_after_s: expected a time above 0, got {accepted_after_s!r}")
        self._evaluation = self.evaluation(self.quantities)
        self.false_alarms_per_day = false_alarms_per_day
        self._accepted_after_s = accepted_after_s
        none = tuple(Evidence.none(self.quantities) for _ in SCALES)
        pending = Pending.none(0, len(self.quantities.levels))
        self._state = State(Units.none(), pending, none, np.zeros((len(SCALES), 2, len(self.quantities))))
        # Derived from the state and the last frame; never part of a snapshot.
        self._sums: tuple[Units, Sums] | None = None
        self._columns: tuple[Layout, Columns] | None = None
        self._aligned: tuple[Layout, State, State] | None = None
        self._scored: tuple[float, Layout, Matrix, Scores] | None = None

    def judges(self, layout: Layout) -> bool:
        """Return whether it judges any feature of a frame."""
        return not set(self.quantities.levels).isdisjoint(layout.features)

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Score a frame. `values` has the shape (rows, features). The state does not change."""
        check_shape(layout, values)
        if (scored := self._scored) is not None and scored[0] == ts and scored[1] is layout and scored[2] is values:
            return scored[3]
        state = self._align(ts, layout)
        if closes(ts, state):
            state = self._closed(ts, state, layout, values)
        elif state.accepted:
            state = replace(state, accepted=())
        scores = Scores(ts, layout, state, self.quantities)
        self._scored = ts, layout, values, scores
        return scores

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a frame. Raises `ValueError` if the shape of `values` does not fit the names."""
        state, before = self.score(ts, layout, values).state, self._align(ts, layout)
        if not closes(ts, before):
            state = stepped(ts, state)
            pending = self._columns_of(layout).added(state.pending, values, into=True)
            state = state if pending is state.pending else replace(state, pending=pending)
        self._state = state
        # The same names have the same places.
        self._aligned = layout, state, state
        self._scored = None

    # A tick.

    def _closed(self, ts: float, state: State, layout: Layout, values: Matrix) -> State:
        """Return the state after the last tick of a sub-block."""
        state = stepped(ts, state)
        pending = self._columns_of(layout).added(state.pending, values, into=False)
        sums = self._sums_of(state.units)
        low = state.evidence[0].taking(*sums.of(pending))
        state.pending = Pending.none(*pending.total.shape)
        state.evidence = (low, *state.evidence[1:])
        state.opened_ts = ts
        state.blocks += 1
        state.accepted = ()
        self._evaluation.turn(state, sums, layout, values, self.false_alarms_per_day)
        if state.anomalies:
            self._hold(state)
        self._settle(state, sums)
        return state

    def _settle(self, state: State, sums: Sums) -> None:
        """Take the level of new names as their baseline once they have stayed for `NEW_S` without an anomaly.

        Before they came they used nothing, which does not show their use when they run.
        """
        if not self.evaluation.absent_is_nothing:
            return
        units, present = state.units, state.units.present
        due = units.unsettled()[:present] & (state.last_ts - units.first_ts[:present] >= NEW_S)
        if not due.any():
            return
        due &= np.isfinite(state.evidence[0].ring[0, :, :present]).any(axis=0)
        if (frozen := frozen_units(state, sums)) is not None:
            due &= ~frozen[:present]
        (places,) = np.nonzero(due)
        if not places.size:
            return
        levels = levels_of([each.ring[..., places] for each in state.evidence], NEW_S)
        state.evidence = tuple(
            each.settled(places, level, self.quantities.stocks, NEW_S / scale.part_s)
            for each, scale, level in zip(state.evidence, SCALES, levels, strict=True)
        )
        state.units = units.settled(places)

    def _align(self, ts: float, layout: Layout) -> State:
        """Return the state with the units of this frame."""
        state = self._state
        if self._aligned is not None and self._aligned[0] is layout and self._aligned[1] is state:
            return self._aligned[2]
        found = state
        if not state.units.match(layout):
            first = math.isnan(state.begin_ts)
            spare = SPARE_NAMES if self.evaluation.absent_is_nothing else 0
            units, source = state.units.aligned(layout, -math.inf if first else ts, state.last_ts, spare)
            # The past of the names of the first frame is unknown, and that of rows that come later.
            nothing = (np.arange(len(units)) < len(units.names)) & (self.evaluation.absent_is_nothing and not first)
            lived = 0.0 if first else max(ts - state.begin_ts, 0.0)
            low = state.evidence[0].taking(*self._sums_of(state.units).of(state.pending))
            evidence = tuple(
                each.aligned(source, nothing, lived // scale.part_s)
                for each, scale in zip((low, *state.evidence[1:]), SCALES, strict=True)
            )
            pending = Pending.none(len(layout.rows), len(self.quantities.levels))
            anomalies = still_there(state.anomalies, units)
            nearest = tuple(
                None if each is None else next(iter(still_there((each,), units)), None) for each in state.nearest
            )
            found = replace(
                state, units=units, pending=pending, evidence=evidence, anomalies=anomalies, nearest=nearest
            )
        if math.isnan(found.begin_ts):
            found = replace(found, begin_ts=ts)
        self._aligned = layout, state, found
        return found

    def _sums_of(self, units: Units) -> Sums:
        if self._sums is None or self._sums[0] is not units:
            self._sums = units, Sums(units)
        return self._sums[1]

    def _columns_of(self, layout: Layout) -> Columns:
        if self._columns is None or self._columns[0] is not layout:
            self._columns = layout, Columns(layout, self.quantities.levels)
        return self._columns[1]

    def _hold(self, state: State) -> None:
        """Follow the anomalies, and end those that are over."""
        still_open = []
        places = places_of(state)
        for before in state.anomalies:
            anomaly, place = before, places[before.unit, before.is_row]
            if anomaly.opened_ts < state.last_ts:
                anomaly = anomaly.after(state.last_ts, float(state.evidence[0].ring[-1, anomaly.quantity, place]))
            # It stays open for `CALM_S`, even if it was detected late.
            lasted_s, reported_s = state.last_ts - anomaly.onset_ts, state.last_ts - anomaly.opened_ts
            accepted = lasted_s >= self._accepted_after_s and reported_s >= CALM_S
            if not accepted and not state.last_ts - anomaly.calm_since >= CALM_S:
                still_open.append(anomaly)
                continue
            levels: Sequence[Matrix | None] = [None] * len(SCALES)
            if accepted:
                levels = levels_of([each.ring[..., place] for each in state.evidence], lasted_s)
                state.accepted += (anomaly,)
            state.evidence = released(state, anomaly, place, levels)
        state.anomalies = tuple(still_open)

    def adopt(self, anomaly: str) -> None:
        """Treat an anomaly as normal: its peaks enter the record at once, and its unit is learned again.

        Nothing happens if no anomaly of this id was open at the last learned frame.
        """
        state = self._state
        found = next((each for each in state.anomalies if each.id == anomaly), None)
        if found is None:
            return
        place = places_of(state)[found.unit, found.is_row]
        evidence = released(state, found, place, [None] * len(SCALES), known=True)
        anomalies = tuple(each for each in state.anomalies if each is not found)
        self._state = replace(state, evidence=evidence, anomalies=anomalies)
        self._aligned = self._scored = None

    # State.

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "levels": list(self.quantities.levels),
            "rates": self.quantities.stocks.start,
            **self._state.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        if (tuple(state["levels"]), int(state["rates"])) != (self.quantities.levels, self.quantities.stocks.start):
            raise ValueError(f"levels: expected {self.quantities.levels}, got {tuple(state['levels'])}")
        self._state = State.restored(state, self.quantities)
        self._sums = self._columns = self._aligned = self._scored = None
