"""The learned state of `Lasting`, and the anomalies in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.operators.calibration import NOTICES
from laggard.operators.lasting.evidence import Evidence, Scale
from laggard.operators.lasting.units import Pending, Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.operators.lasting.quantities import Quantities

    Matrix = NDArray[np.floating]

SCALES: Final = (
    Scale(60.0, 2 * 3600.0, 1, 30.0),
    Scale(300.0, 2 * 3600.0, 5, 30.0),
    Scale(1800.0, 8 * 3600.0, 6, 15.0),
)
"""The limits were chosen on simulated machines, see tests/evaluation."""

YOUNG_S: Final = 900.0
"""Y: at this age limits are twice their final value."""

BUDGET_POWER: Final = 0.5
"""z has a heavy tail: a tenth of the false alarms needs three times the limit."""

NOTICED: Final[float] = NOTICES**-BUDGET_POWER
"""The share of the limit from which on it is a notice."""

LASTING_SHARE: Final = 0.5
"""An anomaly lasts while its excess is at least this share of the excess at its onset."""


class Anomaly(NamedTuple):
    """An anomaly of one unit.

    Attributes:
        unit: a name, or the id of a row.
        is_row: whether it is the id of a row.
        row: the id of the row that used most at the onset.
        name: the name of this row.
        quantity: the quantity that was highest.
        scale: the time scale that detected it.
        opened_ts: the time of detection, seconds since the Unix epoch.
        onset_ts: the estimated time of the onset.
        excess: the excess over the baseline then.
        baseline: the mean before the onset.
        now: the newest sub-block of the shortest scale.
        calm_since: the time since when it has been calm; NaN while it lasts.

    """

    unit: str
    is_row: bool
    row: str
    name: str
    quantity: int
    scale: int
    opened_ts: float
    onset_ts: float
    excess: float
    baseline: float
    now: float
    calm_since: float

    @property
    def id(self) -> str:
        """The id of the anomaly, unique in its stream."""
        return f"{self.row} {self.opened_ts!r}"

    @property
    def score(self) -> float:
        """The severity, above 1 while the anomaly lasts."""
        return max(self.now - self.baseline, 0.0) / (LASTING_SHARE * self.excess)

    def after(self, ts: float, now: float) -> Anomaly:
        """Return the anomaly a sub-block later, whose value is `now`."""
        calm_since = ts if math.isnan(self.calm_since) else self.calm_since
        if now - self.baseline >= LASTING_SHARE * self.excess:
            calm_since = math.nan
        return self._replace(now=now, calm_since=calm_since)


@dataclass(slots=True, eq=False)
class State:
    """The learned state. Each tick makes a new one, which does not change afterward, except for `pending`.

    Attributes:
        units: the units of evaluation.
        pending: the values of the current sub-block of the shortest scale.
        evidence: the evidence of each scale.
        newcomers: the highest and second-highest peaks of names that a new row had joined, shape (scales, 2,
            quantities).
        begin_ts: the time of the first tick, seconds since the Unix epoch.
        last_ts: the time of the last tick.
        opened_ts: the time at which the current sub-block of the shortest scale began.
        interval_s: the time between the last two ticks.
        blocks: the number of sub-blocks of the shortest scale so far.
        anomalies: those that last, or have been calm for less than `CALM_S`, in the order of their detection.
        accepted: anomalies that became the new baseline at the last tick.
        near: for each scale, the share of its limit that the worst unit without an anomaly reaches; 0 if not more than
            `NOTICED`.
        nearest: for each scale, what the anomaly of this unit would be.

    """

    units: Units
    pending: Pending
    evidence: tuple[Evidence, ...]
    newcomers: Matrix
    begin_ts: float = math.nan
    last_ts: float = math.nan
    opened_ts: float = math.nan
    interval_s: float = 0.0
    blocks: int = 0
    anomalies: tuple[Anomaly, ...] = ()
    accepted: tuple[Anomaly, ...] = ()
    near: tuple[float, ...] = (0.0,) * len(SCALES)
    nearest: tuple[Anomaly | None, ...] = (None,) * len(SCALES)

    @property
    def score(self) -> float:
        """The score of the worst unit, above 1 while an anomaly lasts."""
        return max([*(each.score for each in self.anomalies), *(min(each, 1.0) for each in self.near)])

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            **self.units.snapshot(),
            "evidence": [each.snapshot() for each in self.evidence],
            "newcomers": self.newcomers.copy(),
            "pending": self.pending.snapshot(),
            "times": [self.begin_ts, self.last_ts, self.opened_ts, self.interval_s],
            "blocks": self.blocks,
            "anomalies": [list(each) for each in self.anomalies],
            "accepted": [list(each) for each in self.accepted],
            "near": list(self.near),
            "nearest": [None if each is None else list(each) for each in self.nearest],
        }

    @classmethod
    def restored(cls, state: dict[str, Any], quantities: Quantities) -> State:
        """Read a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        units = Units.restored(state)
        evidence = tuple(Evidence.restored(each, quantities, len(units)) for each in state["evidence"])
        newcomers = np.array(state["newcomers"], np.float64)
        if len(evidence) != len(SCALES) or newcomers.shape != (len(SCALES), 2, len(quantities)):
            raise ValueError(f"evidence: expected {len(SCALES)} scales, got {len(evidence)}, {newcomers.shape}")
        begin_ts, last_ts, opened_ts, interval_s = map(float, state["times"])
        return cls(
            units,
            Pending.restored(state["pending"], len(units.frame_rows), len(quantities.levels)),
            evidence,
            newcomers,
            begin_ts,
            last_ts,
            opened_ts,
            interval_s,
            int(state["blocks"]),
            tuple(Anomaly(*each) for each in state["anomalies"]),
            tuple(Anomaly(*each) for each in state["accepted"]),
            tuple(map(float, state["near"])),
            tuple(None if each is None else Anomaly(*each) for each in state["nearest"]),
        )


def mean_of(blocks: Matrix) -> Matrix:
    """Return the mean of the known sub-blocks; NaN without any."""
    known = np.isfinite(blocks)
    count = known.sum(axis=0)
    total = np.where(known, blocks, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def places_of(state: State) -> dict[tuple[str, bool], int]:
    """Return the place of each unit with an anomaly: open, nearly open, or accepted at this tick."""
    names, rows = state.units.names, state.units.rows
    nearly = (each for each in state.nearest if each is not None)
    wanted = {(each.unit, each.is_row) for each in (*state.anomalies, *state.accepted, *nearly)}
    found = {(name, False): place for place, name in enumerate(names) if (name, False) in wanted}
    return found | {(row, True): len(names) + place for place, row in enumerate(rows) if (row, True) in wanted}


def still_there(anomalies: tuple[Anomaly, ...], units: Units) -> tuple[Anomaly, ...]:
    """Drop the anomalies of rows that have ended, and of names that are no longer remembered.

    A row that is the last one of its name continues as that name.
    """
    rows, left, names = set(units.rows), set(units.frame_rows), set(units.names)
    renamed = (
        each._replace(unit=each.name, is_row=False) if each.is_row and each.unit in left - rows else each
        for each in anomalies
    )
    return tuple(each for each in renamed if each.unit in (rows if each.is_row else names))


def emptied(evidence: Evidence) -> Evidence:
    """Empty the windows, after a gap."""
    return replace(
        evidence,
        ring=np.full_like(evidence.ring, -np.inf),
        last=np.full_like(evidence.last, -np.inf),
        total=np.zeros_like(evidence.total),
        count=np.zeros_like(evidence.count),
    )
