"""The deviations at a tick: the members, their kinds and their metrics."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.operators.covariance.estimates import FEWEST
from laggard.operators.covariance.kinds import Sign, is_mapped, kind_of
from laggard.operators.covariance.members import says_more
from laggard.operators.covariance.results import Deviation
from laggard.operators.covariance.windows import LIFE
from laggard.operators.ranking import FeatureScore, Ranking, RowScore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from laggard.operators.covariance.bank import Bank
    from laggard.operators.covariance.comparison import Tick
    from laggard.operators.covariance.members import Depth
    from laggard.operators.covariance.pool import Pool
    from laggard.operators.covariance.results import Kind
    from laggard.operators.covariance.ticks import Compared

    Floats = NDArray[np.float64]

MOST_LEAVES: Final = 64
"""The most members in a dendrogram: the deviating ones, and as many others as there is room for."""

REPORTED_SHARE: Final = 0.7
"""A metric is reported from this share of the largest evidence on, and of what the budget allows."""

LEAST_REPORTED_SHARE: Final = 0.3
"""If the covariance has the largest evidence, the worst metric is reported from this share of the budget on."""

RISEN: Final = 1.2
"""A deviation grows if it is this many times as large now as over the whole life."""

SHOWN: Final = 0.5
"""A metric is reported if it alone deviates by this number of standard deviations."""

LEFT_SCORE: Final = 1.5
LEFT_TICKS: Final = 12
LEFT_SHARE: Final = 0.05
LONGEST_LEFT: Final = 60
LONGEST_STEADY: Final = 720
"""A pool is of fixed size if no member came or went for half of its age, up to 720 ticks. A member has left such a pool
when it has been absent for 12 ticks without a successor, while three quarters of the others are still there. After a
long life it takes 5 % of that life, up to 60 ticks."""


class Candidate(NamedTuple):
    """A member at one tick; its metrics are computed on access."""

    row: str
    name: str
    score: float
    age_s: float
    features: Callable[[], tuple[FeatureScore, ...]]

    def row_score(self, features: int) -> RowScore:
        """Return the member with its worst metrics."""
        return RowScore(self.row, self.name, self.score, self.features()[:features], self.age_s, "all")


class Scores:
    """The scores of a tick, which do not change when the operator learns on.

    Attributes:
        ts: the time of the tick, seconds since the Unix epoch.
        score: the score of the worst member or group; above 1 is anomalous.
        deviations: the present deviations, worst first.
        members: the number of members.
        age_s: the age of the model in seconds.
        young: whether that is too short for reliable scores.

    """

    def __init__(
        self,
        ts: float,
        rows: Sequence[Candidate],
        deviations: tuple[Deviation, ...],
        members: int,
        age_s: float,
        *,
        young: bool,
    ) -> None:
        self.ts = ts
        # A row that deviates only since it is younger is not a fault: the score of its deviation counts.
        self.score = max([each.score for each in deviations] or [rows[0].score if rows else 0.0])
        self.deviations = deviations
        self.members = members
        self.age_s = age_s
        self.young = young
        self._rows = rows

    def ranking(self, rows: int, features: int) -> Ranking:
        """Rank the members, worst first, each with its worst metrics."""
        worst = tuple(row.row_score(features) for row in self._rows[:rows])
        return Ranking(self.ts, self.score, worst, self.age_s, self.young)


def deviations_now(pool: Pool, depth: Depth, look: Compared) -> list[Deviation]:
    """Return the deviations at a tick."""
    found = []
    for at in np.flatnonzero(look.scores > 1.0).tolist():
        node = depth.nodes[look.paths[look.known[at]]]
        features, kind = _kind_now(pool, depth, look, at)
        if not says_more(node.kind, kind):
            kind = node.kind or kind
        begin = float(depth.bank.runs.begun(look.tick.slots[at : at + 1])[0])
        column = int(np.nan_to_num(look.tick.evidence[:, :, at]).max(axis=0).argmax())
        score = float(look.scores[at])
        found.append(
            Deviation(
                (node.row,),
                node.name,
                kind,
                min(score, 1.0) if kind == "younger" else score,
                features,
                begin if math.isfinite(begin) else look.tick.ts,
                math.nan,
                int(depth.bank.window_of[column]),
                math.nan,
                math.nan,
                "/".join(node.path[:-1]),
                look.tick.ts - node.begin_ts,
            )
        )
    return found


def _kind_now(pool: Pool, depth: Depth, comparison: Compared, at: int) -> tuple[tuple[FeatureScore, ...], Kind]:
    """Return the deviating metrics of a member at a tick, and the kind by this tick alone."""
    node = depth.nodes[comparison.paths[comparison.known[at]]]
    features, signs = _features_now(pool, depth.bank, comparison.tick, at, comparison.limit)
    begin = float(depth.bank.runs.begun(comparison.tick.slots[at : at + 1])[0])
    kind = kind_of(
        signs,
        duration_s=comparison.tick.ts - begin if math.isfinite(begin) else 0.0,
        interval_s=pool.interval_s,
        age_share=(comparison.tick.ts - node.begin_ts) / max(depth.median_age_s(comparison.tick.ts), 1e-9),
    )
    return features, kind


def take_kinds(pool: Pool, depth: Depth, look: Compared) -> None:
    """Update the kinds of the members."""
    for at, score in enumerate(look.tick.scores.tolist()):
        node = depth.nodes[look.paths[look.known[at]]]
        if score > 1.0 or node.kind:
            node.take_kind(_kind_now(pool, depth, look, at)[1] if score > 1.0 else "")


def _features_now(
    pool: Pool, bank: Bank, tick: Tick, at: int, limit: float
) -> tuple[tuple[FeatureScore, ...], list[Sign]]:
    evidence = np.nan_to_num(tick.evidence[:, :, at]) / limit
    p, q = bank.metrics, bank.traces
    best = np.zeros(p + 1)
    np.maximum.at(best, bank.metric_of, evidence.max(axis=0))
    scored: list[tuple[FeatureScore, Sign]] = []
    shape: list[Sign] = []
    places = _places(pool, bank, evidence)
    for metric in sorted(range(p + 1), key=lambda metric: (places[metric], -best[metric])):
        first = scored[0][1].evidence if scored else float(best.max())
        if best[metric] < (REPORTED_SHARE * max(first, 1.0) if scored else LEAST_REPORTED_SHARE):
            continue
        if metric == p:
            shape.append(Sign("", True, float(best[p]), math.nan, math.nan, False, True))
            continue
        columns = np.flatnonzero(bank.metric_of == metric)
        column = int(columns[evidence[:, columns].max(axis=0).argmax()])
        above = bool(evidence[0, column] >= evidence[1, column])
        window = (column - bank.levels) // q if column >= bank.levels else column // q
        means = tick.sums[:, metric, at] / np.maximum(tick.weights[:, metric, at], 1e-300)
        usual = tick.references[window, metric, at] / max(float(tick.weights[window, metric, at]), 1e-300)
        value = float(usual + means[window])
        spread = float(tick.spreads[column - column % q + int(metric), at])
        feature = pool.features[metric]
        score = FeatureScore(feature, value, float(usual), spread, float(best[metric]))
        rising = is_rising(means if above else -means)
        scored.append((score, Sign(feature, above, float(best[metric]), value, float(usual), rising, True)))
    features, signs = reported(scored, shape)
    return tuple(_as_of_now(pool, tick, at, each) for each in features), signs


def _places(pool: Pool, bank: Bank, evidence: Floats) -> list[int]:
    """Return the place of each metric, and of the covariance, in the order of the report.

    Metrics that deviate on their own come first: of these, what a member uses before what it only maps. Others deviate
    given the rest alone, which may be what has moved.
    """
    p = bank.metrics
    column = np.arange(bank.levels + bank.changes)
    own = np.zeros(p)
    plain = column % bank.traces < p
    np.maximum.at(own, bank.metric_of[column[plain]], evidence.max(axis=0)[column[plain]])
    if not (own > 1.0).any():
        return [0] * (p + 1)
    return [2 if each <= 1.0 else int(is_mapped(feature)) for each, feature in zip(own, pool.features, strict=True)] + [
        0
    ]


def _as_of_now(pool: Pool, tick: Tick, at: int, feature: FeatureScore) -> FeatureScore:
    """Return a feature with its value at this tick, if that shows the deviation as its window does."""
    metric = pool.features.index(feature.feature)
    value = float(tick.medians[metric, at] + tick.differences[metric, at])
    above = math.copysign(1.0, feature.value - feature.mean)
    shows = (value - feature.mean) * above >= SHOWN * feature.standard_deviation
    return replace(feature, value=value) if shows else feature


def candidates(pool: Pool, depth: Depth, look: Compared) -> list[Candidate]:
    """Return the worst members of a tick."""
    scores = look.scores
    found = []
    for at in np.argsort(-scores, kind="stable")[:MOST_LEAVES].tolist():
        if scores[at] <= 0.0:
            break
        node = depth.nodes[look.paths[look.known[at]]]
        features = partial(_features_at, pool, depth.bank, look, at)
        found.append(Candidate(node.row, node.name, float(scores[at]), look.tick.ts - node.begin_ts, features))
    return found


def _features_at(pool: Pool, bank: Bank, comparison: Compared, at: int) -> tuple[FeatureScore, ...]:
    return _features_now(pool, bank, comparison.tick, at, comparison.limit)[0]


def left(pool: Pool) -> list[Deviation]:
    """Return the members that left a pool of fixed size."""
    found = []
    for path, tick in pool.away.items():
        depth = pool.depths[len(path) - 1]
        node = depth.nodes.get(path)
        if node is None:
            continue
        life = float(depth.bank.extremes.ticks(np.array([node.slot], np.intp))[0])
        away = pool.ticks - tick
        siblings = [each for each in depth.nodes.values() if each.path[:-1] == path[:-1] and each.path != path]
        stayed = [each for each in siblings if each.alive]
        together = [each for each in siblings if each.until_ts >= node.until_ts]
        if (
            away >= max(LEFT_TICKS, min(LEFT_SHARE * life, LONGEST_LEFT))
            and len(stayed) >= FEWEST
            and len(stayed) >= 0.75 * len(together)
        ):
            found.append(
                Deviation(
                    (node.row,),
                    node.name,
                    "left",
                    LEFT_SCORE,
                    (),
                    node.until_ts,
                    math.nan,
                    LIFE,
                    math.nan,
                    math.nan,
                    "/".join(path[:-1]),
                    node.until_ts - node.begin_ts,
                )
            )
    return found


def reported(
    told: Sequence[tuple[FeatureScore, Sign]], shape: Sequence[Sign]
) -> tuple[tuple[FeatureScore, ...], list[Sign]]:
    """Return the deviating metrics to report, worst first, and their signs with those of the covariance.

    If a metric deviates given the others, these may be what has moved. So metrics that deviate on their own come first,
    and only they are reported.
    """
    shown = [
        (score, sign)
        for score, sign in told
        if (score.value > score.mean) == sign.above
        and abs(score.value - score.mean) >= SHOWN * score.standard_deviation
    ]
    chosen = shown or list(told[:1])
    signs = [sign for _, sign in chosen]
    after = [sign for sign in shape if not signs or sign.evidence <= signs[0].evidence]
    before = [sign for sign in shape if sign not in after]
    return tuple(score for score, _ in chosen), [*before, *signs, *after]


def is_rising(means: Floats) -> bool:
    """Return whether a deviation is larger now than over the whole life; `means` by window, positive if deviating."""
    known = means[np.isfinite(means)]
    return len(known) > 1 and bool(known[0] > RISEN * known[-1])
