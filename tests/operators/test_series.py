"""Lasting anomalies of rows of any kind: of each feature, in both directions, whatever is missing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

from laggard.operators.features import Directions
from laggard.operators.lasting import Series
from laggard.operators.lasting.series import MOST_FEATURES, MOST_GROUPS, SPARE_ROWS

from .conftest import Names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AVAILABLE, LATENCY = "available_ratio", "latency_seconds"
USUAL: Final[Mapping[str, tuple[float, float]]] = {
    AVAILABLE: (0.99, 0.003),
    LATENCY: (0.2, 0.005),
    "up_count": (3.0, 0.0),
}


class Told(NamedTuple):
    """An anomaly: in ticks since the end of the first hours, which were learned."""

    row: str
    feature: str
    value: float
    mean: float
    opened: float
    onset: float


class Services:
    """Services whose features vary a little; 600 ticks are learned first."""

    def __init__(
        self,
        rows: Sequence[str] = ("shop",),
        features: Sequence[str] = (LATENCY,),
        interval_s: float = 60.0,
        series: Series | None = None,
    ) -> None:
        self.series = series or Series()
        self.interval_s = interval_s
        self.ts = 1e9
        self.told: list[Told] = []
        self.open = 0
        self._random = np.random.default_rng(1)
        self._known: set[str] = set()
        self.layout = self.named(rows, features)
        self.run(600)
        self.begin = self.ts

    def named(self, rows: Sequence[str], features: Sequence[str]) -> Names:
        self.layout = Names(tuple(rows), tuple(row.partition("@")[0] for row in rows), tuple(features))
        return self.layout

    def run(self, ticks: int, times: Mapping[tuple[str, str], float] | None = None) -> list[Told]:
        """Let ticks pass, and return what opened. `times`: factors of the values, by row and feature."""
        before = len(self.told)
        for _ in range(ticks):
            self.ts += self.interval_s
            usual = np.array([[USUAL.get(each, (5.0, 0.1)) for each in self.layout.features]] * len(self.layout.rows))
            values = self._random.normal(usual[..., 0], usual[..., 1])
            for (row, feature), factor in (times or {}).items():
                values[self.layout.rows.index(row), self.layout.features.index(feature)] *= factor
            self.take(values)
        return self.told[before:]

    def take(self, values: Any) -> None:
        scores = self.series.score(self.ts, self.layout, values)
        self.open = len(scores.open)
        for own, found in scores.open.items():
            if own not in self._known:
                self._known.add(own)
                row = scores.row(own, 1)
                (first,) = row.features
                opened, onset = ((each - self.begin) / self.interval_s for each in (self.ts, found.onset_ts))
                self.told.append(Told(row.row, first.feature, first.value, first.mean, opened, onset))
        self.series.learn(self.ts, self.layout, values)


@pytest.mark.parametrize(
    "interval_s", [*(pytest.param(each, marks=pytest.mark.slow) for each in (1.0, 5.0)), 60.0, 300.0]
)
@pytest.mark.parametrize(("feature", "factor"), [(LATENCY, 4.0), (LATENCY, 0.1), (AVAILABLE, 0.5)])
def test_a_rise_and_a_fall_are_told_from_their_onset_to_their_end(
    interval_s: float, feature: str, factor: float
) -> None:
    services = Services(features=(feature,), interval_s=interval_s)
    part = max(15.0 / interval_s, 1.0)  # ticks of a sub-block
    (told,) = services.run(round(8 * part), {("shop", feature): factor})
    usual = USUAL[feature][0]
    assert (told.row, told.feature) == ("shop", feature)
    assert told.value == pytest.approx(usual * factor, rel=0.15)
    assert told.mean == pytest.approx(usual, rel=0.05)
    assert told.opened <= 5 * part
    assert abs(told.onset) <= part
    assert services.open == 1, "it lasts"
    assert services.run(round(2 * part + 600.0 / interval_s)) == []
    assert services.open == 0, "it is over"


@pytest.mark.parametrize(
    ("directions", "told"),
    [
        (Directions(rising=(LATENCY,)), {(LATENCY, 4.0), (AVAILABLE, 0.5), (AVAILABLE, 4.0)}),
        pytest.param(
            Directions(falling=("_ratio",)),
            {(LATENCY, 4.0), (LATENCY, 0.1), (AVAILABLE, 0.5)},
            marks=pytest.mark.slow,
        ),
        (Directions((LATENCY,), (LATENCY,)), {(LATENCY, 4.0), (LATENCY, 0.1), (AVAILABLE, 0.5), (AVAILABLE, 4.0)}),
    ],
    ids=["rising", "falling", "both"],
)
def test_what_gets_better_is_not_told(directions: Directions, told: set[tuple[str, float]]) -> None:
    found = set()
    for feature, factor in ((LATENCY, 4.0), (LATENCY, 0.1), (AVAILABLE, 0.5), (AVAILABLE, 4.0)):
        services = Services(features=(LATENCY, AVAILABLE), series=Series(directions=directions))
        if services.run(8, {("shop", feature): factor}):
            found.add((feature, factor))
    assert found == told


def test_one_row_and_one_feature_without_any_noise() -> None:
    services = Services(features=("up_count",))
    for up in [3.0] * 60 + [2.0] * 10:
        services.ts += 60.0
        services.take(np.array([[up]]))
    (told,) = services.told
    assert (told.feature, told.value) == ("up_count", 2.0)


def test_a_missing_value_leaves_out_that_value() -> None:
    services = Services(rows=("shop", "search"), features=(AVAILABLE, LATENCY))
    assert services.run(30, {("shop", AVAILABLE): math.nan}) == []
    (told,) = services.run(8, {("shop", AVAILABLE): math.nan, ("shop", LATENCY): 4.0})
    assert (told.row, told.feature) == ("shop", LATENCY)


def test_a_row_that_is_absent_for_a_while_is_no_anomaly_and_is_known_again() -> None:
    services = Services(rows=("shop", "search"), features=(AVAILABLE, LATENCY))
    services.named(("search",), (AVAILABLE, LATENCY))
    assert services.run(30) == []
    services.named(("search", "shop"), (AVAILABLE, LATENCY))
    assert services.run(6) == []
    (told,) = services.run(8, {("shop", LATENCY): 4.0})
    assert told.row == "shop"
    assert told.mean == pytest.approx(0.2, rel=0.05)


def test_a_row_and_a_feature_that_come_later_are_learned() -> None:
    services = Services()
    services.named(("shop", "search"), (LATENCY, AVAILABLE))
    assert services.run(300) == []
    found = services.run(8, {("search", LATENCY): 4.0, ("shop", AVAILABLE): 0.5})
    assert sorted((each.row, each.feature) for each in found) == [("search", LATENCY), ("shop", AVAILABLE)]


def test_an_anomaly_of_each_row_is_told_for_itself_and_others_are_not_frozen() -> None:
    services = Services(rows=("a@1", "b@2", "c@3"), features=(AVAILABLE, LATENCY))
    found = services.run(8, {("a@1", LATENCY): 4.0, ("b@2", LATENCY): 5.0})
    assert {each.row for each in found} == {"a@1", "b@2"}
    values = np.array([[0.99, 0.8], [0.99, 1.0], [0.99, 0.2]])
    scores = services.series.score(services.ts + 60.0, services.layout, values)
    assert scores.frozen is not None
    assert scores.frozen.tolist() == [True, True, False]
    assert scores.accepted is None
    leading = scores.leading()
    assert {row: each.name for row, each in leading.items()} == {"a@1": "a", "b@2": "b"}
    assert [each.feature for each in leading["a@1"].features] == [LATENCY, AVAILABLE]
    with pytest.raises(KeyError):
        scores.row("7 a@1 1.0")


@pytest.mark.slow
def test_noise_stays_within_the_budget() -> None:
    services = Services(rows=[f"s{each}" for each in range(40)], features=(AVAILABLE, LATENCY))
    services.run(2 * 1440)
    assert services.told == []


def test_rows_that_come_and_go_are_bounded() -> None:
    services = Services(rows=("steady",))
    for number in range(SPARE_ROWS + 50):
        services.named(("steady", f"job-{number}"), (LATENCY,))
        services.run(1)
    rows = [row for row, _, _ in services.series.snapshot()["rows"]]
    assert len(rows) == SPARE_ROWS + 2
    assert "steady" in rows


def test_features_that_come_and_go_are_bounded() -> None:
    services = Services(rows=("steady",))
    for number in range(MOST_GROUPS + 4):
        services.named(("steady",), (LATENCY, *(f"counter_{number}_{each}" for each in range(99))))
        services.run(1)
    groups = services.series.snapshot()["groups"]
    assert [len(each["features"]) for each in groups] == [1, 99, 99, MOST_FEATURES - 199]
    services.named(("steady",), (LATENCY, *(f"new_{each}" for each in range(MOST_GROUPS))))
    (told,) = services.run(8, {("steady", LATENCY): 4.0})
    assert told.feature == LATENCY


def test_an_anomaly_of_a_series_is_adopted() -> None:
    services = Services(features=(LATENCY,), interval_s=15.0)
    services.run(8, {("shop", LATENCY): 4.0})
    scores = services.series.score(services.ts, services.layout, np.array([[0.8]]))
    (own,) = scores.open
    for unknown in ("x", "7 shop", ""):
        services.series.adopt(unknown)
    services.series.adopt(own)
    assert services.run(40, {("shop", LATENCY): 4.0}) == []
    assert services.open == 0


def test_a_frame_without_features_has_no_score() -> None:
    scores = Series().score(0.0, Names(("shop",), ("shop",), ()), np.empty((1, 0)))
    assert (scores.score, scores.suspicion) == (0.0, 0.0)
