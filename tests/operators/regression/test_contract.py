"""What is promised of intervals of applications, checked for each method and kind of performance model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.operators.regression import Regression
from tests.operators.conftest import size
from tests.operators.test_contract import REGRESSIONS, each_of, with_wishes

from .streams import RT, THR, Interval, Names, restless, run, stream

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=each_of(REGRESSIONS))
def make(request: pytest.FixtureRequest) -> Callable[[], Regression]:
    return partial(with_wishes, REGRESSIONS[str(request.param)])


@pytest.fixture
def intervals(make: Callable[[], Regression]) -> list[Interval]:
    return restless(50, 1, change=28)


def test_a_snapshot_is_plain_data(make: Callable[[], Regression], intervals: list[Interval]) -> None:
    operator = make()
    assert any(models for _, models in run(operator, intervals[:35]))

    def check(state: Any) -> None:
        if isinstance(state, dict):
            assert all(isinstance(key, str) for key in state)
            list(map(check, state.values()))
        elif isinstance(state, list):
            list(map(check, state))
        else:
            assert state is None or type(state) in {str, int, float, bool, np.ndarray}, type(state)

    check(operator.snapshot())


def test_a_state_that_does_not_fit_is_refused_by_name(
    make: Callable[[], Regression], intervals: list[Interval]
) -> None:
    operator = make()
    run(operator, intervals[:30])
    snapshot = operator.snapshot()
    window = snapshot["window"]
    with pytest.raises(ValueError, match=r"expected the performance metrics .*got \('errors_per_s',\)"):
        make().restore(snapshot | {"performance": ["errors_per_s"]})
    with pytest.raises(ValueError, match=r"expected at most .* samples of .* metrics, got"):
        make().restore(snapshot | {"window": window | {"values": window["values"][:, 1:]}})
    with pytest.raises(ValueError, match=r"expected performance of .* metrics, got"):
        make().restore(snapshot | {"window": window | {"performance": window["performance"][:, :0]}})
    many = {"ts": np.zeros(999), "values": np.zeros((999, len(window["ids"]))), "performance": np.zeros((999, 2))}
    with pytest.raises(ValueError, match=r"expected at most .* samples"):
        make().restore(snapshot | {"window": window | many})


def test_metrics_that_come_and_go_do_not_grow_the_state(make: Callable[[], Regression]) -> None:
    operator = make()
    chance = np.random.default_rng(2)

    def size_after(intervals: range) -> int:
        for at in intervals:
            names = Names(tuple(f"web-{at + each}:cpu_busy_ratio" for each in range(4)))
            told = {RT: float(chance.lognormal()), THR: float(chance.lognormal())}
            operator.learn(60.0 * at, names, chance.normal(size=4), told)
        return size(operator.snapshot())

    # Models have more or fewer terms: the matrix of samples is what could grow.
    assert size_after(range(600, 750)) <= 1.3 * size_after(range(750, 850)) + 500
    assert size(operator.snapshot()) < 60_000


VALUES = [0.0, -0.0, 1.0, 1e15, -1e15, 1e-300, 1e100, np.inf, -np.inf, np.nan]


def test_values_of_any_kind_never_give_a_score_that_is_not_a_number(make: Callable[[], Regression]) -> None:
    operator = make()
    chance = np.random.default_rng(3)
    names = Names(tuple(f"web-1/p{each}:cpu_busy_ratio" for each in range(12)))
    for at in range(70):
        values = np.where(chance.random(12) < 0.15, chance.choice(VALUES, 12), chance.normal(size=12))
        told = {RT: float(chance.lognormal()), THR: float(chance.lognormal())}
        judgement = operator.score(60.0 * at, names, values, told)
        assert np.isfinite(judgement.score)
        assert judgement.score >= 0.0
        for model in operator.learn(60.0 * at, names, values, told):
            assert all(np.isfinite(each.r) for each in model.candidates)


def test_performance_of_any_kind_never_gives_a_score_that_is_not_a_number(make: Callable[[], Regression]) -> None:
    operator = make()
    chance = np.random.default_rng(4)
    for at, (ts, names, values, told) in enumerate(stream(70, 4)):
        odd = {name: float(chance.choice(VALUES)) if chance.random() < 0.2 else told[name] for name in told}
        if at % 40 > 35:
            odd = {RT: float("nan")}
        judgement = operator.score(ts, names, values, odd)
        assert np.isfinite(judgement.score)
        assert judgement.score >= 0.0
        operator.learn(ts, names, values, odd)


def test_the_state_of_an_older_laggard_is_read() -> None:
    operator, restored = Regression(), Regression()
    *before, newest = stream(40, 5)
    for interval in before:
        operator.learn(*interval)
    state = operator.snapshot()
    for follower in state["followers"].values():
        del follower["excess"]
    restored.restore(state)
    assert restored.score(*newest) == operator.score(*newest)
