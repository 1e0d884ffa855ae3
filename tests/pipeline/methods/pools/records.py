"""Frames of a pool, and an operator that is plain: what the tests of this room share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from laggard.operators.covariance.results import Dendrogram, Deviation, Level, Report
from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.core.records import UNNUMBERED, Frame, make_layout
from laggard.pipeline.core.topics import POOLS
from laggard.pipeline.methods.pools.stage import MEMBER, PoolStage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.contract import Layout, Matrix

T0 = 1_000_000.0
NAN = float("nan")
X = "cpu_user_ratio"


def told(
    ts: float,
    rows: Mapping[str, float | Mapping[str, float]],
    host: str = "",
    *,
    sequence: int = UNNUMBERED,
    pool: str = "workers",
    scope: str = MEMBER,
) -> Frame:
    """Members of a pool, `ts` seconds after the beginning: the value of one feature each, or of several by name."""
    values = {row: each if not isinstance(each, float | int) else {X: float(each)} for row, each in rows.items()}
    features = list(dict.fromkeys(name for each in values.values() for name in each))
    matrix = np.array([[each.get(name, NAN) for name in features] for each in values.values()])
    layout = make_layout(rows, [row.partition("[")[0] for row in rows], features)
    hosts = (host,) if host else ()
    return Frame("pool", pool, scope, T0 + ts, sequence, layout, matrix.reshape(len(rows), len(features)), hosts)


@dataclass(frozen=True)
class Found:
    """What the plain operator answers."""

    ts: float
    deviations: tuple[Deviation, ...]
    members: int
    age_s: float

    @property
    def score(self) -> float:
        return max((each.score for each in self.deviations), default=0.0)

    def ranking(self, rows: int, features: int) -> Ranking:
        ranked = tuple(
            RowScore(each.rows[0], each.name, each.score, each.features[:features], self.age_s)
            for each in self.deviations[:rows]
        )
        return Ranking(self.ts, self.score, ranked, self.age_s, young=self.age_s < 10.0)


class Plain:
    """A row is busy above 1 of the first feature, by its value; a value of -1 or -2 cannot be scored or learned."""

    state_version: ClassVar[int] = 1

    def __init__(self) -> None:
        self.learned: list[tuple[float, dict[str, float]]] = []

    def score(self, ts: float, layout: Layout, values: Matrix) -> Found:
        if (values == -1.0).any():
            raise ValueError("cannot score this")
        there = {row: value for row, value in zip(layout.rows, values[:, 0], strict=True) if not math.isnan(value)}
        usual = float(np.mean([value for _, each in self.learned for value in each.values()] or [NAN]))
        deviations = tuple(
            Deviation(
                (row,), row.partition("[")[0], "busy", value, (FeatureScore(X, value, usual, 0.1, value),),
                ts, NAN, 1, NAN, NAN, "", self._age_s,
            )
            for row, value in sorted(there.items(), key=lambda item: -item[1])
            if value > 0.5
        )  # fmt: skip
        return Found(ts, deviations, len(there), self._age_s)

    @property
    def _age_s(self) -> float:
        return self.learned[-1][0] - self.learned[0][0] if self.learned else 0.0

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        if (values == -2.0).any():
            raise ValueError("cannot learn this")
        self.learned.append((ts, dict(zip(layout.rows, values[:, 0].tolist(), strict=True))))

    def report(self, *, replicates: int | None = None) -> Report:
        ts, newest = self.learned[-1]
        rows = tuple(newest)
        if "broken" in newest:
            raise ValueError("cannot report this")
        worst = {row: max(each.get(row, 0.0) for _, each in self.learned) for row in rows}
        deviations = tuple(
            Deviation(
                (row,), row, "busy", value, (FeatureScore(X, value, 0.1, 0.01, value),), T0, ts, 0, 4.0, 99.0, "",
                self._age_s,
            )
            for row, value in sorted(worst.items(), key=lambda item: -item[1])
            if value > 0.5
        )  # fmt: skip
        merges = np.array([[0.0, 1.0, 4.0, 2.0]])
        dendrogram = Dendrogram(rows[:2], merges, np.array([99.0])) if len(rows) > 1 else None
        return Report(ts, len(rows), (Level("", dendrogram, deviations),), deviations, self._age_s, young=False)

    def snapshot(self) -> dict[str, Any]:
        return {"learned": [[ts, dict(each)] for ts, each in self.learned]}

    def restore(self, state: dict[str, Any]) -> None:
        self.learned = [(ts, dict(each)) for ts, each in state["learned"]]


STAGE = PoolStage("covariance", POOLS, (MEMBER,), Plain, Plain.state_version, {"method": "plain"}, answers_marks=False)
