"""Records of an application, and an operator that remembers what it was asked: what the tests of this room share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from laggard.operators.regression.models import Model, Prediction, SampleScores, Suspect, Term
from laggard.pipeline.core.records import UNNUMBERED, Frame, make_layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.pipeline.methods.applications.metrics import Metrics

T0 = 1_000_000.0
NAN = float("nan")
SLOW = "response_time_mean_s"


def measured(
    ts: float, performance: Mapping[str, float] | None = None, *, sequence: int = UNNUMBERED, application: str = "shop"
) -> Frame:
    """A performance frame, `ts` seconds after the beginning."""
    named = performance or {SLOW: 0.2}
    layout = make_layout([application], [application], named)
    return Frame("application", application, "performance", T0 + ts, sequence, layout, np.array([list(named.values())]))


def counted(
    ts: float,
    rows: Mapping[str, Mapping[str, float]],
    *,
    host: str = "web-1",
    scope: str = "host",
    sequence: int = UNNUMBERED,
    application: str = "shop",
) -> Frame:
    """Counters of a host as an application has them."""
    features = list(dict.fromkeys(name for row in rows.values() for name in row))
    values = np.array([[row.get(name, NAN) for name in features] for row in rows.values()]).reshape(
        len(rows), len(features)
    )
    layout = make_layout(rows, rows, features)
    return Frame("application", application, scope, T0 + ts, sequence, layout, values, (host,))


def tick(ts: float, value: float, host: str = "web-1", **more: Any) -> Frame:
    """A tick of a host that has one counter."""
    return counted(ts, {host: {"x_ratio": value}}, host=host, **more)


class Remembering:
    """An operator that is deterministic and plain: slow is what takes more than a second, for its greatest metric.

    It builds a model of the mean response time at every tenth interval that it learns.
    """

    state_version: ClassVar[int] = 1

    def __init__(self) -> None:
        self.learned: list[tuple[float, dict[str, float]]] = []
        self.pinned: list[str] = []
        self.banned: list[str] = []
        self.total = 0.0

    def score(
        self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]
    ) -> SampleScores:
        if performance.get("refused") == 1.0:
            raise ValueError("cannot score this")
        value = performance.get(SLOW, NAN)
        suspects: tuple[Suspect, ...] = ()
        if value > 1.0 and np.isfinite(values).any():
            worst = int(np.nanargmax(values))
            suspects = (Suspect(metrics.ids[worst], float(values[worst]), 0.1, 0.01, value),)
        young = len(self.learned) < 3
        prediction = Prediction(SLOW, value, self.total / max(len(self.learned), 1), 0.5, 0.9)
        return SampleScores(0.0 if math.isnan(value) else value, (prediction,), suspects, ts - T0, young)

    def learn(
        self, ts: float, metrics: Metrics, values: NDArray[np.float64], performance: Mapping[str, float]
    ) -> Sequence[Model]:
        if performance.get("refused") == 2.0:
            raise ValueError("cannot learn this")
        self.learned.append((ts, dict(zip(metrics.ids, values.tolist(), strict=True))))
        self.total += performance.get(SLOW, 0.0) + float(np.nansum(values)) * 1e-3
        if len(self.learned) % 10:
            return ()
        terms = tuple(Term(name, self.total, ()) for name in (*self.pinned, *metrics.ids[:1]))
        return (Model(SLOW, "linear", 0.1, terms, 0.9, NAN, T0, ts, len(self.learned), (), "first"),)

    @property
    def models(self) -> Mapping[str, Model]:
        return {}

    @property
    def newest(self) -> Mapping[str, float]:
        return self.learned[-1][1] if self.learned else {}

    def what_if(self, performance: str, metric: str, value: float) -> float:
        return NAN

    def pin(self, metric: str) -> None:
        self.pinned.append(metric)

    def ban(self, metric: str) -> None:
        self.banned.append(metric)

    def free(self, metric: str) -> None:
        self.pinned = [each for each in self.pinned if each != metric]
        self.banned = [each for each in self.banned if each != metric]

    def snapshot(self) -> dict[str, Any]:
        return {
            "learned": [[ts, dict(values)] for ts, values in self.learned],
            "pinned": list(self.pinned),
            "banned": list(self.banned),
            "total": self.total,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.learned = [(ts, dict(values)) for ts, values in state["learned"]]
        self.pinned, self.banned, self.total = list(state["pinned"]), list(state["banned"]), state["total"]
