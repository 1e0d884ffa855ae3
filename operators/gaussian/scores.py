"""The scores of one frame, of its rows and of their features, and the ranking of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from laggard.operators.gaussian.likelihood import paper, paper_counted, risen, scale_free, scale_free_counted
from laggard.operators.ranking import FeatureScore, Ranking, RowScore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.calibration import Level
    from laggard.operators.contract import Layout
    from laggard.operators.gaussian.likelihood import Likelihood, Reference
    from laggard.operators.ranking import Basis

    Matrix = NDArray[np.float64]
    Flags = NDArray[np.bool_]


@dataclass(slots=True, eq=False)
class Scores:
    """The scores of one frame; immutable.

    Attributes:
        ts: the time of the frame, seconds since the Unix epoch.
        layout: its rows and features.
        values: its values, shape (rows, features), NaN for a missing one.
        evidence: their short means, which are scored; of the same shape.
        raw: the raw score of each row; NaN for rows that are not ranked.
        score: the score of the frame, above 1 if anomalous.
        worst: the raw score of the worst row, NaN if none is ranked.
        level: the calibration of raw scores.
        reference: the baselines; its matrices have the shape (features, rows).
        likelihood: the kind of raw score.
        first_ts: the time at which each row was first seen.
        bases: by the place of a row, what it is compared with if not with its own past alone.
        share: the power to which a row's share of the rise of all rows counts.
        waits: features that show how long a row waits.
        gone: anomalous rows that ended some seconds ago.
        age_s: the age of the model in seconds.
        context_s: the window of the baseline in seconds.

    """

    ts: float
    layout: Layout
    values: Matrix
    evidence: Matrix
    raw: NDArray[np.float64]
    score: float
    worst: float
    level: Level
    reference: Reference
    likelihood: Likelihood
    first_ts: NDArray[np.float64]
    bases: Mapping[int, Basis]
    share: float
    waits: frozenset[str]
    gone: tuple[RowScore, ...]
    age_s: float
    context_s: float

    def worst_without(self, *masks: Flags | None) -> float:
        """Return the raw score of the worst row that is in no mask, each of shape (rows,); NaN if none is ranked."""
        known = [rows for rows in masks if rows is not None]
        if not known:
            return self.worst
        return float(np.fmax.reduce(self.raw[~np.logical_or.reduce(known)], initial=math.nan))

    @property
    def row_scores(self) -> NDArray[np.float64]:
        """The score of each row, above 1 if anomalous; NaN for rows that are not ranked."""
        return self.level.scores(self.raw)

    @property
    def counted(self) -> NDArray[np.intp]:
        """The number of scored features of each row: those with a value that are not constant."""
        if not self.reference.seen:
            return np.zeros(len(self.raw), np.intp)
        if self.likelihood == "scale_free":
            return scale_free_counted(self.evidence.T, self.reference, whole=False)
        return paper_counted(self.evidence.T, self.reference)

    @property
    def surprise(self) -> Matrix:
        """The raw score of each feature, shape (rows, features), NaN for a missing value; computed on each access."""
        surprise_of = scale_free if self.likelihood == "scale_free" else paper
        return surprise_of(self.evidence.T, self.reference).T

    @property
    def young(self) -> bool:
        """Whether the model has seen less than an eighth of its window."""
        return self.age_s < self.context_s / 8.0

    @property
    def blame(self) -> Matrix:
        """`surprise`, weighted by the row's share of the rise of that feature in all rows.

        Among many rows that wait, or start, or are equally busy, it points to the top consumer.
        """
        surprise = self.surprise
        if not self.share or not surprise.size:
            return surprise
        rise = risen(self.evidence.T, self.reference).T
        total = np.nansum(rise, axis=0)
        blame: Matrix = surprise * np.divide(rise, total, out=np.ones_like(rise), where=total > 0.0) ** self.share
        return blame

    def ranking(self, rows: int | None = None, features: int | None = None) -> Ranking:
        """Rank the rows and their features by blame, worst first; ties in the order of the frame.

        The first row has the score of the frame, and the others in proportion to their blame. Anomalous rows that ended
        some seconds ago are among them.
        """
        ranked = np.isfinite(self.raw)
        if self.share and ranked.any():
            blame = self.blame
            raw = np.fmax.reduce(blame, axis=1, initial=-np.inf)
            raw[~ranked] = np.nan
            worst = float(np.nanmax(raw))
            raw = raw * (self.worst / worst) if worst > 0.0 else np.where(ranked, self.raw, np.nan)
        else:
            blame, raw = self.surprise, self.raw
        order = np.argsort(-raw, kind="stable")[: int(ranked.sum())]
        row_scores = self.level.scores(raw)
        found = self._ranked(order[:rows], row_scores, blame, features)
        if self.gone:
            ended = [replace(each, features=each.features[:features]) for each in self.gone]
            found = tuple(sorted((*found, *ended), key=lambda each: -each.score)[:rows])
        return Ranking(self.ts, self.score, found, self.age_s, self.young)

    def _waits(self, blame: Matrix) -> NDArray[np.bool_]:
        """Return for each row whether its worst feature, regardless of weights, shows how long it waits."""
        if not blame.size:
            return np.zeros(len(blame), bool)
        is_wait = np.array([feature in self.waits for feature in self.layout.features], bool)
        plain = np.nan_to_num(blame, nan=-np.inf) / np.maximum(self.reference.weights.each[:, 0], np.finfo(float).tiny)
        most = plain.argmax(axis=1)
        waits: NDArray[np.bool_] = (plain[np.arange(len(most)), most] > 0.0) & is_wait[most]
        return waits

    def _ranked(
        self, rows: NDArray[np.intp], scores: NDArray[np.float64], blame: Matrix, features: int | None
    ) -> tuple[RowScore, ...]:
        """Return the scores of these rows, in this order, with at most this number of features each."""
        blame = blame[rows]
        order = np.argsort(-blame, axis=1, kind="stable")[:, :features]
        weight = self.reference.weight[:, rows].T
        known = weight > 0.0
        mean = np.where(known, self.reference.mean[:, rows].T, np.nan)
        deviation = np.sqrt(self.reference.squares[:, rows].T / np.maximum(weight - 1.0, 1.0))
        deviation[~known] = np.nan
        columns = self.values[rows], mean, deviation, blame, self.evidence[rows]
        cells = [order.tolist(), *(np.take_along_axis(each, order, axis=1).tolist() for each in columns)]
        names, counts, waits = self.layout.features, np.isfinite(blame).sum(axis=1).tolist(), self._waits(blame)
        return tuple(
            RowScore(
                row=self.layout.rows[row],
                name=self.layout.names[row],
                score=float(scores[row]),
                features=tuple(
                    FeatureScore(names[feature], *figures)
                    for feature, *figures in zip(*(column[place][: counts[place]] for column in cells), strict=True)
                ),
                age_s=max(self.ts - float(self.first_ts[row]), 0.0),
                basis=self.bases.get(row, "itself"),
                waits=bool(waits[place]),
            )
            for place, row in enumerate(rows.tolist())
        )
