"""Any of river's anomaly detectors as an operator on frames."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final
from weakref import WeakSet

import numpy as np

from laggard.operators.calibration import Calibrated, Calibration, Level, anew
from laggard.operators.gaussian import MIGRATIONS as GAUSSIAN_MIGRATIONS
from laggard.operators.gaussian import Gaussian
from laggard.operators.gaussian.likelihood import PSEUDO, TRUSTED
from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.operators.river.adapters import CounterJudge, RowJudge
from laggard.operators.river.blueprint import STEPS, Blueprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.gaussian import Scores as Usual
    from laggard.operators.river.adapters import Judge
    from laggard.operators.river.blueprint import Parameter

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

EXPLAINED: Final = 20
"""The worst rows whose features are told; what an answer costs grows with it."""

PRIOR: Final = (5.5, 0.3)
"""The level that raw scores pass once an hour and the spread of their tail before any was seen, see `Calibration`."""

HALF: Final = 3.0
"""So many standard deviations above its usual a counter is half way from 0 to 1."""


class River(Calibrated):
    """Ranks the rows of a frame by how unusual a detector of river's finds them.

    What detectors see is free of units and of the sizes of rows: each counter's rise above its own row's usual, z
    standard deviations of it (see `Gaussian`, which keeps that past), as z / (3 + z). So 0 is usual or less, and
    nothing is above 1, as HalfSpaceTrees wants it; a huge value does not spoil what is learned from it.

    A detector that takes several features (HalfSpaceTrees, LODA, LocalOutlierFactor, OneClassSVM) is one for all rows,
    and a feature's score is what the row's score falls by when that feature alone is as usual. A detector of single
    values (GaussianScorer, StandardAbsoluteDeviation, PredictiveAnomalyDetection) is one for each counter, and a row's
    score is the root mean square of its features'. The frame's score is that of its worst row, on the scale of
    `Calibration`, where 1 is the false-alarm budget. Unlike `gaussian`, river's detectors learn each tick as soon as it
    is judged.

    Deterministic: random numbers are seeded. Memory: that of the detectors, for instance 2 MB for HalfSpaceTrees with
    10 trees, 1 to 3 kB for each counter where each has one, and that of `Gaussian`; rows that have gone are forgotten
    by the same rule as there.

    Reference: Montiel et al. (2021), "River: machine learning for streaming data in Python", JMLR 22.

    Parameters:
        detector: the name of a class in `river.anomaly`.
        parameters: of its constructor; its `seed` is 1 where it has one that is not given.
        context_s: the window that is usual for a counter, in seconds.
        false_alarms_per_day: the budget.
        spare_rows: how many rows that have gone are remembered, should they come back.

    Example:
        >>> from types import SimpleNamespace
        >>> rows = tuple(f"p[{each}]" for each in range(20))
        >>> features = ("cpu_user_ratio", "timeslices_per_s", "memory_rss_bytes")
        >>> layout = SimpleNamespace(rows=rows, names=("p",) * 20, features=features, commands=())
        >>> noise = np.random.default_rng(1)
        >>> river = River(detector="HalfSpaceTrees", parameters={"n_trees": 25})
        >>> for tick in range(100):
        ...     river.learn(5.0 * tick, layout, noise.normal((0.1, 50.0, 1e8), (0.01, 5.0, 1e6), (20, 3)))
        >>> slow = np.tile((0.1, 50.0, 1e8), (20, 1))
        >>> slow[7, :2] = (0.95, 900.0)
        >>> river.score(500.0, layout, slow).ranking(1, 1).rows[0].row
        'p[7]'

    """

    state_version: ClassVar[int] = 2

    def __init__(
        self,
        *,
        detector: str = "HalfSpaceTrees",
        parameters: Mapping[str, Parameter] | None = None,
        context_s: float = 4 * 3600.0,
        false_alarms_per_day: float = 1.0,
        spare_rows: int = 256,
        blueprint: Blueprint | None = None,
    ) -> None:
        self.blueprint = blueprint or Blueprint(detector, parameters or {})
        self.detector = self.blueprint.name
        self.parameters = self.blueprint.parameters
        self.context_s = context_s
        self._usual = Gaussian(
            context_s=context_s, minimum_features=1, spare_rows=spare_rows, cohorts=False, episodes=False, share=0.0
        )
        self._judge: Judge = (
            RowJudge(self.blueprint)
            if self.blueprint.per == "row"
            else CounterJudge(self.blueprint, context_s, spare_rows)
        )
        self._calibration = Calibration(per_day=false_alarms_per_day, scale="logarithmic", prior=PRIOR)
        # Answers that somebody holds, and that are to stay what they are; never part of a snapshot.
        self._held: WeakSet[Scores] = WeakSet()
        self._judged: tuple[float, Layout, Matrix, Scores] | None = None

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """How unusual each row is at this tick, judged by what was learned before. Changes nothing.

        `values` has the shape (rows, features).
        """
        judged = self._judged
        if judged is not None and judged[0] == ts and judged[1] is layout and judged[2] is values:
            return judged[3]
        usual = self._usual.score(ts, layout, values)
        rises = _rises(usual)
        raw = self._judge.rows(layout, rises)
        raw[np.isnan(rises).all(axis=1)] = np.nan
        worst = float(np.fmax.reduce(raw, initial=np.nan))
        level = self._calibration.level
        scores = Scores(usual, rises, raw, level.score(worst), worst, level, self._judge)
        self._judged = (ts, layout, values, scores)
        self._held.add(scores)
        return scores

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Take the frame into the state. Raises `ValueError` when its shape is not that of its names."""
        scores = self.score(ts, layout, values)
        rises, worst = scores.rises, scores.worst
        self._judged = None
        del scores
        for each in self._held:
            each.settle()
        self._held.clear()
        self._usual.learn(ts, layout, values)
        self._judge.learn(ts, layout, rises)
        self._calibration.learn(ts, worst)

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "detector": self.detector,
            "parameters": dict(self.parameters),
            "usual": self._usual.snapshot(),
            "judge": self._judge.snapshot(),
            "calibration": self._calibration.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
        for name, own in (("detector", self.detector), ("parameters", self.parameters)):
            if state[name] != own:
                raise ValueError(f"{name}: expected a state of {own}, got one of {state[name]}")
        self._usual.restore(state["usual"])
        self._judge.restore(state["judge"])
        self._calibration.restore(state["calibration"])
        self._held.clear()
        self._judged = None


def _from_1(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "usual": GAUSSIAN_MIGRATIONS[1](state["usual"]), "calibration": anew(state["calibration"])}


MIGRATIONS = {1: _from_1}
"""By the version that a state has: what makes the next one's of it."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Scores:
    """How unusual one frame is.

    Attributes:
        usual: the frame beside what is usual for its rows.
        rises: what the detectors saw, shape (rows, features), NaN where a value is not there.
        raw: each row's score as the calibration takes it; NaN for rows that are not ranked.
        score: of the frame; above 1 is anomalous.
        worst: the raw score of the worst row, NaN where none is ranked.
        level: what raw scores are worth.

    """

    usual: Usual
    rises: Matrix
    raw: Vector
    score: float
    worst: float
    level: Level
    _judge: Judge | None
    _explained: dict[int, Vector] = field(default_factory=dict)

    def ranking(self, rows: int | None = None, features: int | None = None) -> Ranking:
        """The worst rows and their worst features, worst first; ties in the frame's order.

        Features are told of the `EXPLAINED` worst rows.
        """
        order = self._order()
        row_scores = self.level.scores(self.raw)
        worst = tuple(
            self._row(row, float(row_scores[row]), self._features(row) if place < EXPLAINED else None, features)
            for place, row in enumerate(order[:rows])
        )
        return Ranking(self.usual.ts, self.score, worst, self.usual.age_s, self.usual.young)

    def settle(self) -> None:
        """Work out what is still to be asked of the detectors, for they are about to learn."""
        for row in self._order()[:EXPLAINED]:
            self._features(row)
        self._judge = None

    def _order(self) -> list[int]:
        order = np.argsort(-self.raw, kind="stable")[: int(np.isfinite(self.raw).sum())]
        return [int(row) for row in order]

    def _features(self, row: int) -> Vector:
        if row not in self._explained:
            assert self._judge is not None
            self._explained[row] = self._judge.features(self.usual.layout, row, self.rises[row]) / STEPS
        return self._explained[row]

    def _row(self, row: int, score: float, scores: Vector | None, features: int | None) -> RowScore:
        layout, reference = self.usual.layout, self.usual.reference
        order: list[int] = []
        if scores is not None:
            # Of what the detector finds alike, the higher rise first: half of its trees may not look at any of it.
            order = np.lexsort((-self.rises[row], -scores))[: int(np.isfinite(scores).sum())][:features].tolist()
        weight = reference.weight[:, row]
        known = weight > 0.0
        mean = np.where(known, reference.mean[:, row], np.nan)
        deviation = np.sqrt(reference.squares[:, row] / np.maximum(weight - 1.0, 1.0))
        deviation[~known] = np.nan
        return RowScore(
            row=layout.rows[row],
            name=layout.names[row],
            score=score,
            features=tuple(
                FeatureScore(
                    feature=layout.features[at],
                    value=float(self.usual.values[row, at]),
                    mean=float(mean[at]),
                    standard_deviation=float(deviation[at]),
                    score=float(scores[at]) if scores is not None else math.nan,
                    recent=float(self.usual.evidence[row, at]),
                )
                for at in order
            ),
            age_s=max(self.usual.ts - float(self.usual.first_ts[row]), 0.0),
        )


def _rises(usual: Usual) -> Matrix:
    """How far each counter is above its usual, from 0 to 1; NaN where it is not there or nothing is known.

    z is in the standard deviations that are expected of a counter with such a past: of a short one they are larger.
    """
    evidence, reference = usual.evidence, usual.reference
    if not (evidence.size and reference.seen):
        return np.full(evidence.shape, np.nan)
    rise = np.maximum(evidence.T - reference.center, 0.0)
    z = rise * reference.inverse * np.sqrt(np.minimum(reference.weight + (PSEUDO - 1.0), TRUSTED))
    # Where no row has ever shown a spread, the value itself is the only measure: the same as one value before it.
    if reference.silent.size:
        z[reference.silent] = np.sign(rise[reference.silent])
    return (z / (HALF + z)).T
