"""S0's detector: an incremental Gaussian for every feature of every row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from laggard.operators.calibration import Calibrated, Calibration, Scale
from laggard.operators.contract import check_shape
from laggard.operators.features import BOTH, Directions
from laggard.operators.gaussian.baselines import Baselines, Names
from laggard.operators.gaussian.cohorts import Cohorts
from laggard.operators.gaussian.likelihood import (
    Likelihood,
    Reference,
    paper_rows,
    scale_free_counted,
    scale_free_rows,
)
from laggard.operators.gaussian.scores import Scores
from laggard.operators.gaussian.suspects import (
    GONE_S,
    MAX_SUSPECTS,
    SUSPECT_FEATURES,
    SUSPICIOUS,
    Suspects,
    gone,
    plain,
    recent,
    restored,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout

    Matrix = NDArray[np.float64]
    Flags = NDArray[np.bool_]

LARGEST = 1e140
"""Larger values count as missing: their squares would overflow."""

FAR = 15.0
"""The raw score of eight standard deviations. A row with one is ranked however few of its features vary: in a program
that only computes few do, and S0's rule is for means over features."""

CALIBRATIONS: dict[Likelihood, tuple[Scale, tuple[float, float]]] = {
    "scale_free": ("linear", (140.0, 30.0)),
    "paper": ("logarithmic", (5.5, 0.35)),
}
"""The scale on which the raw scores of frames have an exponential tail, and the prior of `Calibration`. The prior is
the level that they pass once an hour, and the spread of the tail. Both are from simulated machines
(tests/evaluation)."""


class Gaussian(Calibrated):
    """Ranks the rows of a frame, and their features, by their deviation from their own baselines.

    Each feature of each row has a univariate Gaussian of its past values: its baseline. It fades with the time constant
    `context_s` / 2. So it has the mean age and the effective number of values of a plain window of `context_s`, but its
    state does not grow with the window. It has fifteen numbers per feature of a row, four of them in single precision.
    A row is ranked if at least `minimum_features` of its features are not constant; in a frame with fewer than twice as
    many features, half of them suffice. With `"scale_free"` it is also ranked if one of them has a score of `FAR`. The
    score of the frame is that of its worst row, on a scale where 1 is the false-alarm budget.

    With `likelihood="paper"` the raw score of a feature is minus the log-likelihood of its value at the tick. That of a
    row is the mean over its features that are not constant, as published. With `"scale_free"` (see `scale_free`) the
    raw score of a row is the largest of its features, and does not depend on their units. The mean of the last
    `evidence_s` is scored. The last `exclude_s` are not learned yet, so that the current fault is not in the baseline.

    Memory: 104 bytes per row and feature in the state, and less than that for values derived from it. It has the rows
    and features of the last frame, and at most `spare_rows` more of each that were seen in the last `context_s`. Each
    cell of `stocks` that is above its baseline takes about 50 bytes more.

    Reference: "S0", sections 3 and 4.

    Parameters:
        context_s: the window of the baseline in seconds.
        minimum_features: the number of features that are not constant that a row needs.
        likelihood: `scale_free` or `paper`.
        evidence_s: the mean over about this time is scored, in seconds; 0 for the tick alone.
        exclude_s: the last half to whole of this time is not in the baseline yet, in seconds; at least the last
            `BLOCK_TICKS` to twice as many ticks are not.
        false_alarms_per_day: the budget: a score of 1.
        spare_rows: the most rows that are remembered while they are absent.
        weights: the weights of features by their names, 1 by default: how directly a feature shows the use of a row,
            rather than a side effect. Only with `scale_free`.
        resolution: the least standard deviation of a feature, in its unit, by the end of its name: a negligible
            difference is not an anomaly, however constant the feature was. Only with `scale_free`.
        directions: the direction in which each feature gets worse. Only with `scale_free`.
        waits: features that show how long a row waits for others. A row is marked in rankings if one of them is its
            worst, regardless of weights.
        stocks: the ends of the names of features that show how much a row holds. One that grows steadily is compared
            with the baseline from before the growth, see `Rises`. Only with `scale_free`.
        cohorts: whether a new row is compared with the starts of others of its name, see `Cohorts`. Only with
            `scale_free`.
        episodes: whether a spike is recorded as an episode before it is learned, see `Episodes`. Only with
            `scale_free`.
        share: the power to which a row's share of the rise of a feature in all rows counts in a ranking; 0 to ignore
            it. Only with `scale_free`.
        notices: whether the level of notices is estimated, too, see `Calibration`.

    Example:
        >>> from types import SimpleNamespace
        >>> names = {"rows": ("a[1]", "b[2]"), "names": ("a", "b"), "features": ("cpu_ratio", "memory_bytes")}
        >>> layout = SimpleNamespace(**names, commands=())
        >>> noise = np.random.default_rng(1)
        >>> gaussian = Gaussian()
        >>> for tick in range(200):
        ...     gaussian.learn(5.0 * tick, layout, noise.normal([[0.2, 1e8], [0.1, 2e8]], [[0.02, 1e6]] * 2))
        >>> slow = np.array([[0.2, 1e8], [0.9, 2e8]])
        >>> worst = gaussian.score(1000.0, layout, slow).ranking(1, 1).rows[0]
        >>> worst.row, worst.features[0].feature
        ('b[2]', 'cpu_ratio')

    """

    state_version: ClassVar[int] = 2

    def __init__(
        self,
        *,
        context_s: float = 4 * 3600.0,
        minimum_features: int = 10,
        likelihood: Likelihood = "scale_free",
        evidence_s: float = 5.0,
        exclude_s: float = 20.0,
        false_alarms_per_day: float = 1.0,
        spare_rows: int = 256,
        weights: Mapping[str, float] | None = None,
        resolution: Mapping[str, float] | None = None,
        directions: Directions = BOTH,
        waits: Collection[str] = (),
        stocks: Collection[str] = (),
        cohorts: bool = True,
        episodes: bool = True,
        share: float = 0.6,
        notices: bool = False,
    ) -> None:
        if likelihood not in CALIBRATIONS:
            raise ValueError(f"likelihood: expected scale_free or paper, got {likelihood!r}")
        if not (context_s > 0.0 and evidence_s >= 0.0 and exclude_s >= 0.0):
            raise ValueError(f"expected times above 0, got {context_s=}, {evidence_s=}, {exclude_s=}")
        if not share >= 0.0:
            raise ValueError(f"share: expected a power of at least 0, got {share!r}")
        if minimum_features < 1 or spare_rows < 0:
            raise ValueError(f"expected at least 1 feature and 0 rows, got {minimum_features=}, {spare_rows=}")
        self.context_s = context_s
        self.minimum_features = minimum_features
        self.likelihood: Likelihood = likelihood
        scale_free = likelihood == "scale_free"
        self.evidence_s = evidence_s if scale_free else 0.0
        self.waits = frozenset(waits)
        self.share = share if scale_free else 0.0
        self._baselines = Baselines(
            context_s=context_s,
            evidence_s=self.evidence_s,
            exclude_s=exclude_s if scale_free else 0.0,
            spare_rows=spare_rows,
            weights=dict(weights or {}),
            resolution=dict(resolution or {}),
            directions=directions,
            stocks=tuple(stocks) if scale_free else (),
            cohorts=Cohorts() if cohorts and scale_free else None,
            episodes=episodes and scale_free,
        )
        scale, prior = CALIBRATIONS[likelihood]
        self._calibration = Calibration(per_day=false_alarms_per_day, scale=scale, prior=prior, notices=notices)
        self._suspects: Suspects = {}
        self._prospects: Suspects | None = None  # those once an alignment is learned
        self._scored: _Scored | None = None  # follows from the state and the last frame, never part of a snapshot

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Score a frame. `values` has the shape (rows, features). The state does not change."""
        check_shape(layout, values)
        cached = self._scored
        if cached is not None and cached.ts == ts and cached.layout is layout and cached.values is values:
            return cached.scores
        self._align(layout, ts)
        rows, features = values.shape
        reference = self._baselines.reference(ts, (features, rows))
        clean = np.array(values.T, dtype=np.float64, order="C")
        # The fastest check that no value is too large or NaN.
        whole = bool(np.vdot(clean, clean) <= LARGEST**2)
        if not whole:
            clean[np.abs(clean) > LARGEST] = np.nan
        evidence = self._baselines.evidence(ts, clean, whole)
        raw = self._rows(evidence, reference, whole)
        level = self._calibration.level
        worst = float(np.fmax.reduce(raw)) if rows else math.nan
        scores = Scores(
            ts,
            layout,
            clean.T,
            evidence.T,
            raw,
            level.score(worst),
            worst,
            level,
            reference,
            self.likelihood,
            self._baselines.first_ts(rows),
            self._baselines.references.bases,
            self.share,
            self.waits,
            gone(self._suspects if self._prospects is None else self._prospects, ts, layout.rows),
            self._baselines.times.age_s(ts),
            self.context_s,
        )
        self._scored = _Scored(ts, layout, values, clean, evidence, whole, scores)
        return scores

    def learn(
        self,
        ts: float,
        layout: Layout,
        values: Matrix,
        frozen: Flags | None = None,
        accepted: Flags | None = None,
    ) -> None:
        """Learn a frame.

        Args:
            ts: the time of the frame, seconds since the Unix epoch.
            layout: its names.
            values: its values, shape (rows, features).
            frozen: the rows whose baselines stay, and which do not count against the budget; shape (rows,).
            accepted: the rows whose last values become their baselines; shape (rows,).

        Raises:
            ValueError: the shape of `values` does not fit the names.

        """
        scores = self.score(ts, layout, values)
        scored, self._scored = self._scored, None
        assert scored is not None
        self._align(layout, ts)
        if self._prospects is not None:
            self._suspects, self._prospects = self._prospects, None
        elif self._suspects:
            self._suspects = recent(self._suspects, ts)
        self._baselines.learn(
            ts,
            layout,
            scored.clean,
            evidence=scored.evidence,
            whole=scored.whole,
            frozen=frozen,
            accepted=accepted,
        )
        self._calibration.learn(ts, scores.worst_without(frozen, accepted))

    def _align(self, layout: Layout, ts: float) -> None:
        """Align the baselines to a frame, and find the suspects that it ends."""
        # Rows begin, end and are forgotten when a tick is learned.
        if not self._baselines.fits(layout, ts):
            self._baselines.settle()
            self._prospects = self._ended(ts, layout) if self._baselines.times.ticks else None
            self._baselines.align(layout, ts)

    def _ended(self, ts: float, layout: Layout) -> Suspects:
        """Return the suspects after this frame: anomalous rows of the last one that have ended are added.

        They are scored again from the state, since the scores of the last frame are not part of it.
        """
        past, bank = self._baselines, self._baselines.bank
        last, suspects = past.times.last, recent(self._suspects, ts)
        if self.likelihood == "paper" or not (past.pooled.features and 0.0 < ts - last <= GONE_S):
            return suspects
        before, there = Names.at(bank, last, len(past.pooled.features)), set(layout.rows)
        ended = {column for column, row in enumerate(before.rows) if row not in there}
        if not ended:
            return suspects
        reference, bases = past.reference_of(before)
        rows = len(before.rows)
        evidence = bank.evidence[: len(before.features), :rows]
        raw = self._rows(evidence, reference, whole=False)
        level = self._calibration.level
        if not any(level.score(float(raw[column])) >= SUSPICIOUS for column in ended):
            return suspects
        worst = float(np.fmax.reduce(raw))
        scores = Scores(
            last, before, evidence.T, evidence.T, raw, level.score(worst), worst, level, reference, self.likelihood,
            bank.first_ts[:rows], bases, self.share, self.waits, (), 0.0, self.context_s,
        )  # fmt: skip
        for found in scores.ranking(MAX_SUSPECTS, SUSPECT_FEATURES).rows:
            if found.score >= SUSPICIOUS and found.row not in there:
                suspects[found.row] = (last, found)
        return dict(list(suspects.items())[-MAX_SUSPECTS:])

    def _rows(self, evidence: Matrix, reference: Reference, whole: bool) -> NDArray[np.float64]:
        """Return the raw score of each row, NaN for too few features."""
        features, rows = evidence.shape
        if not (evidence.size and reference.seen):
            return np.full(rows, np.nan)
        needed = min(self.minimum_features, max(features // 2, 1))
        if self.likelihood == "scale_free":
            raw = scale_free_rows(evidence, reference)
            if whole and reference.fewest >= needed:
                return raw
            counted = scale_free_counted(evidence, reference, whole)
            raw[(counted < needed) & ~((counted > 0) & (raw >= FAR))] = np.nan
            return raw
        raw, counted = paper_rows(evidence, reference)
        raw[counted < needed] = np.nan
        return raw

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            **self._baselines.snapshot(),
            "calibration": self._calibration.snapshot(),
            "likelihood": self.likelihood,
            "cohorts": (self._baselines.cohorts or Cohorts()).snapshot(),
            "suspects": [[seen, *plain(found)] for seen, found in self._suspects.values()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        if state["likelihood"] != self.likelihood:
            raise ValueError(f"likelihood: expected a state of {self.likelihood}, got one of {state['likelihood']}")
        self._baselines.restore(state)
        suspects = [(float(seen), restored(each)) for seen, *each in state["suspects"]]
        self._suspects = {found.row: (seen, found) for seen, found in suspects}
        self._calibration.restore(state["calibration"])
        self._scored = None


class _Scored(NamedTuple):
    """The last scored frame, so that learning it does not score it again."""

    ts: float
    layout: Layout
    values: Matrix
    clean: Matrix
    evidence: Matrix
    whole: bool
    scores: Scores
