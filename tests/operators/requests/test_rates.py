"""Outliers of a cluster that come more often than usual: found soon, and rarely told where there is nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from laggard.operators.requests.rates import ALL, FEATURES, Rates

TICK_S = 10.0


@dataclass(frozen=True)
class _Layout:
    rows: tuple[str, ...]
    names: tuple[str, ...]
    features: tuple[str, ...] = FEATURES
    commands: tuple[str, ...] = ()


def _tick(requests: int, outliers: dict[str, int]) -> tuple[_Layout, np.ndarray]:
    there = {row: number for row, number in outliers.items() if number}
    values = [[requests, sum(there.values()), 0.0], *([0.0, number, 0.2 * number] for number in there.values())]
    return _Layout((ALL, *there), (ALL, *there)), np.array(values)


def _fed(rates: Rates, chance: np.random.Generator, ticks: range, shares: dict[str, float]) -> list[float]:
    """Scores of ticks with about 200 requests each, of which such shares are outliers."""
    scores = []
    for tick in ticks:
        requests = int(chance.poisson(200))
        layout, values = _tick(requests, {row: int(chance.binomial(requests, each)) for row, each in shares.items()})
        scores.append(rates.score(tick * TICK_S, layout, values).score)
        rates.learn(tick * TICK_S, layout, values)
    return scores


@pytest.mark.slow
def test_chance_stays_within_the_budget() -> None:
    incidents = 0
    for seed in range(3):
        rates = Rates(false_alarms_per_day=1.0)
        shares = {"1": 0.003, "2": 0.001, "3": 0.0002}
        scores = np.array(_fed(rates, np.random.default_rng(seed), range(8_640), shares))
        above = scores > 1.0
        incidents += int(np.count_nonzero(above[1:] & ~above[:-1]))
    assert incidents <= 6  # three days


def test_a_trouble_is_found_within_the_minute_under_the_row_that_has_it() -> None:
    chance = np.random.default_rng(5)
    rates = Rates()
    _fed(rates, chance, range(720), {"1": 0.003})
    layout, values = _tick(200, {"1": 1, "7": 8})
    judged = rates.score(7_200.0, layout, values)
    assert judged.score > 1.0
    worst = judged.ranking(1, 2).rows[0]
    assert (worst.row, worst.features[0].feature) == ("7", "outlying_ratio")
    assert worst.features[0].value == pytest.approx(8 / 200)
    assert worst.features[0].mean < 0.001


def test_two_of_them_are_no_alarm_whatever_they_are() -> None:
    rates = Rates()
    _fed(rates, np.random.default_rng(6), range(720), {"1": 0.003})
    assert rates.score(7_200.0, *_tick(200, {"9": 2})).score <= 1.0


def test_a_state_goes_on_where_it_was_written_down() -> None:
    chance = np.random.default_rng(7)
    one, other = Rates(), Rates()
    _fed(one, chance, range(200), {"1": 0.003, "2": 0.01})
    other.restore(one.snapshot())
    ticks = range(200, 300)
    shares = {"2": 0.02, "3": 0.01}
    assert _fed(one, np.random.default_rng(8), ticks, shares) == _fed(other, np.random.default_rng(8), ticks, shares)
    assert repr(one.snapshot()) == repr(other.snapshot())


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (_Layout((ALL,), (ALL,), ("outliers",)), "expected the features requests, outliers, lost_s, got outliers"),
        (_Layout(("1",), ("1",)), "expected a row 'all', got 1"),
    ],
)
def test_other_frames_are_refused(layout: _Layout, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Rates().score(0.0, layout, np.zeros((1, len(layout.features))))


def test_a_trouble_of_an_hour_is_above_the_budget_throughout_and_not_long_after() -> None:
    chance = np.random.default_rng(6)
    rates = Rates()
    _fed(rates, chance, range(720), {"1": 0.003})
    assert min(_fed(rates, chance, range(720, 1_080), {"1": 0.003, "7": 0.05})) > 1.0
    assert max(_fed(rates, chance, range(1_080, 1_200), {"1": 0.003})[1:]) <= 1.0


def test_the_state_of_an_older_laggard_is_read() -> None:
    rates, restored = Rates(), Rates()
    chance = np.random.default_rng(7)
    _fed(rates, chance, range(300), {"1": 0.003})
    state = rates.snapshot()
    restored.restore(state | {"rows": [row[:6] for row in state["rows"]]})
    layout, values = _tick(200, {"1": 9})
    assert restored.score(3_000.0, layout, values).rows == rates.score(3_000.0, layout, values).rows


def test_each_cluster_is_open_from_its_own_onset_to_its_own_end() -> None:
    rates = Rates()
    _fed(rates, np.random.default_rng(5), range(720), {"1": 0.003})
    courses: dict[str, list[int]] = {}
    for tick in range(720, 800):
        counted = {"7": 9 * (722 <= tick < 760), "8": 30 * (740 <= tick < 780)}
        layout, values = _tick(200, counted)
        scores = rates.score(tick * TICK_S, layout, values)
        assert scores.sudden <= 1.0
        for row, open_ in scores.open.items():
            courses.setdefault(row, []).append(tick)
            assert open_.onset_ts == courses[row][0] * TICK_S
            assert scores.about(row, 9, 9).rows[0].row == row
        rates.learn(tick * TICK_S, layout, values)
    assert courses.keys() == {"7", "8"}
    for row, start, stop in (("7", 722, 760), ("8", 740, 780)):
        first, *_, last = courses[row]
        assert first == start
        assert stop <= last <= stop + 6  # ended within a minute of the fault
        assert courses[row] == list(range(first, last + 1))


def test_an_anomaly_ends_with_the_first_normal_tick_after_a_pause() -> None:
    rates = Rates()
    _fed(rates, np.random.default_rng(5), range(720), {"1": 0.003})
    _fed(rates, np.random.default_rng(6), range(720, 740), {"7": 0.05})
    assert rates.score(740 * TICK_S, *_tick(200, {})).open.keys() == {"7"}
    assert not rates.score(745 * TICK_S, *_tick(200, {})).open
