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
from laggard.operators.river.adapters import CounterScorer, RowScorer
from laggard.operators.river.blueprint import STEPS, Blueprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.gaussian import Scores as Usual
    from laggard.operators.river.adapters import Scorer
    from laggard.operators.river.blueprint import Parameter

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

EXPLAINED: Final = 20
"""The number of worst rows with features in a ranking, whose cost grows with it."""

PRIOR: Final = (5.5, 0.3)
"""The prior of the level that raw scores pass once an hour and of the spread of their tail, see `Calibration`."""

HALF: Final = 3.0
"""The deviation of a counter at which its rise is 1/2, in standard deviations."""


class River(Calibrated):
    """Ranks the rows of a frame by the scores of one of river's detectors.

    The input of detectors does not depend on units or on the sizes of rows. It is the rise of each counter above its
    own baseline: z standard deviations (see `Gaussian`, which keeps the baselines) become z / (3 + z). So the rise is 0
    at the baseline or below, and at most 1, as HalfSpaceTrees needs it; a huge value does not dominate what is learned.

    There is a single detector for all rows if it scores several features (HalfSpaceTrees, LODA, LocalOutlierFactor,
    OneClassSVM). The score of a feature is then how much lower the score of the row were with this feature at its
    baseline. Detectors of single values (GaussianScorer, StandardAbsoluteDeviation, PredictiveAnomalyDetection) are one
    per counter, and the score of a row is the root mean square over its features. The score of the frame is that of its
    worst row, on the scale of `Calibration`, where 1 is the false-alarm budget. Unlike `gaussian`, river's detectors
    learn each tick at once.

    Deterministic: random numbers are seeded. Memory: that of the detectors, for instance 2 MB for HalfSpaceTrees with
    10 trees, or 1 to 3 kB per counter, and that of `Gaussian`. Absent rows are forgotten as there.

    Reference: Montiel et al. (2021), "River: machine learning for streaming data in Python", JMLR 22.

    Parameters:
        detector: the name of a class in `river.anomaly`.
        parameters: the parameters of its constructor; a `seed` is 1 by default.
        context_s: the window of the baseline in seconds.
        false_alarms_per_day: the budget.
        spare_rows: the most rows that are remembered while they are absent.

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
        self._scorer: Scorer = (
            RowScorer(self.blueprint)
            if self.blueprint.per == "row"
            else CounterScorer(self.blueprint, context_s, spare_rows)
        )
        self._calibration = Calibration(per_day=false_alarms_per_day, scale="logarithmic", prior=PRIOR)
        # Scores that are still in use and must not change; never part of a snapshot.
        self._held: WeakSet[Scores] = WeakSet()
        self._judged: tuple[float, Layout, Matrix, Scores] | None = None

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Score a frame. `values` has the shape (rows, features). The state does not change."""
        cached = self._judged
        if cached is not None and cached[0] == ts and cached[1] is layout and cached[2] is values:
            return cached[3]
        usual = self._usual.score(ts, layout, values)
        rises = _rises(usual)
        raw = self._scorer.rows(layout, rises)
        raw[np.isnan(rises).all(axis=1)] = np.nan
        worst = float(np.fmax.reduce(raw, initial=np.nan))
        level = self._calibration.level
        scores = Scores(usual, rises, raw, level.score(worst), worst, level, self._scorer)
        self._judged = (ts, layout, values, scores)
        self._held.add(scores)
        return scores

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a frame. Raises `ValueError` if the shape of `values` does not fit the names."""
        scores = self.score(ts, layout, values)
        rises, worst = scores.rises, scores.worst
        self._judged = None
        del scores
        for each in self._held:
            each.settle()
        self._held.clear()
        self._usual.learn(ts, layout, values)
        self._scorer.learn(ts, layout, rises)
        self._calibration.learn(ts, worst)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "detector": self.detector,
            "parameters": dict(self.parameters),
            "usual": self._usual.snapshot(),
            "judge": self._scorer.snapshot(),
            "calibration": self._calibration.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        for name, own in (("detector", self.detector), ("parameters", self.parameters)):
            if state[name] != own:
                raise ValueError(f"{name}: expected a state of {own}, got one of {state[name]}")
        self._usual.restore(state["usual"])
        self._scorer.restore(state["judge"])
        self._calibration.restore(state["calibration"])
        self._held.clear()
        self._judged = None


def _from_1(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "usual": GAUSSIAN_MIGRATIONS[1](state["usual"]), "calibration": anew(state["calibration"])}


MIGRATIONS = {1: _from_1}
"""Migrations by the version of a state: each makes that of the next version."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Scores:
    """The scores of one frame.

    Attributes:
        usual: the scores of the frame by `Gaussian`, with its baselines.
        rises: the input of the detectors, shape (rows, features), NaN for missing values.
        raw: the raw score of each row; NaN for rows that are not ranked.
        score: the score of the frame; above 1 is anomalous.
        worst: the raw score of the worst row, NaN if none is ranked.
        level: the calibration of raw scores.

    """

    usual: Usual
    rises: Matrix
    raw: Vector
    score: float
    worst: float
    level: Level
    _scorer: Scorer | None
    _explained: dict[int, Vector] = field(default_factory=dict)

    def ranking(self, rows: int | None = None, features: int | None = None) -> Ranking:
        """Rank the rows and their features, worst first; ties in the order of the frame.

        Only the `EXPLAINED` worst rows have features.
        """
        order = self._order()
        row_scores = self.level.scores(self.raw)
        worst = tuple(
            self._row(row, float(row_scores[row]), self._features(row) if place < EXPLAINED else None, features)
            for place, row in enumerate(order[:rows])
        )
        return Ranking(self.usual.ts, self.score, worst, self.usual.age_s, self.usual.young)

    def settle(self) -> None:
        """Compute what is still needed from the detectors, since they are about to learn."""
        for row in self._order()[:EXPLAINED]:
            self._features(row)
        self._scorer = None

    def _order(self) -> list[int]:
        order = np.argsort(-self.raw, kind="stable")[: int(np.isfinite(self.raw).sum())]
        return [int(row) for row in order]

    def _features(self, row: int) -> Vector:
        if row not in self._explained:
            assert self._scorer is not None
            self._explained[row] = self._scorer.features(self.usual.layout, row, self.rises[row]) / STEPS
        return self._explained[row]

    def _row(self, row: int, score: float, scores: Vector | None, features: int | None) -> RowScore:
        layout, reference = self.usual.layout, self.usual.reference
        order: list[int] = []
        if scores is not None:
            # Of equal scores the higher rise comes first: half of the trees may not use either feature.
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
    """Return the rise of each counter above its baseline, from 0 to 1; NaN if it is missing or has no baseline.

    z is in standard deviations that are expected after this past: they are larger after a short one.
    """
    evidence, reference = usual.evidence, usual.reference
    if not (evidence.size and reference.seen):
        return np.full(evidence.shape, np.nan)
    rise = np.maximum(evidence.T - reference.center, 0.0)
    z = rise * reference.inverse * np.sqrt(np.minimum(reference.weight + (PSEUDO - 1.0), TRUSTED))
    # If no row has ever varied, the value itself is the only scale: as after one value before it.
    if reference.silent.size:
        z[reference.silent] = np.sign(rise[reference.silent])
    return (z / (HALF + z)).T
